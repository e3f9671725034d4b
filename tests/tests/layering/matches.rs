//! Matches over our own enums name the cases: whoever adds one is shown each place that treats it.
//!
//! The check reads tokens, not types. A match is over an enum of ours where an arm names a case of one, alone, in a tuple, or in
//! `Some`, `Ok` or `Err`. A tuple with a literal or a constant in it is left: texts and numbers have no last case.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::house::{is_test, shipped};
use super::{read, sources};

/// Enums by name, each with its cases. Two of one name have the cases of both.
type Enums = BTreeMap<String, Cases>;

#[derive(Default)]
struct Cases {
    names: BTreeSet<String>,
    /// A macro makes them: each name may be one.
    any: bool,
}

fn tokens(source: &str) -> Vec<TokenTree> {
    source.parse::<TokenStream>().expect("tokens").into_iter().collect()
}

fn is_mark(token: Option<&TokenTree>, mark: char) -> bool {
    matches!(token, Some(TokenTree::Punct(found)) if found.as_char() == mark)
}

fn name(token: Option<&TokenTree>) -> Option<String> {
    let Some(TokenTree::Ident(name)) = token else { return None };
    Some(name.to_string())
}

fn is_name(token: Option<&TokenTree>, word: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(found)) if found == word)
}

fn group(token: Option<&TokenTree>, delimiter: Delimiter) -> Option<Vec<TokenTree>> {
    let Some(TokenTree::Group(group)) = token else { return None };
    (group.delimiter() == delimiter).then(|| group.stream().into_iter().collect())
}

/// Calls `visit` with each sequence of tokens in `tokens`, itself first.
fn each(tokens: &[TokenTree], visit: &mut dyn FnMut(&[TokenTree])) {
    visit(tokens);
    for token in tokens {
        if let TokenTree::Group(group) = token {
            each(&group.stream().into_iter().collect::<Vec<_>>(), visit);
        }
    }
}

/// Adds the enums that a source defines to `enums`.
fn define(source: &[TokenTree], enums: &mut Enums) {
    each(source, &mut |tokens| {
        for (at, two) in tokens.windows(2).enumerate() {
            let Some(enum_name) = name(two.get(1)).filter(|_| is_name(two.first(), "enum")) else {
                continue;
            };
            let body = tokens[at..].iter().find_map(|it| group(Some(it), Delimiter::Brace));
            let Some(body) = body else { continue };
            let cases = enums.entry(enum_name).or_default();
            cases.any |= body.iter().any(|it| is_mark(Some(it), '$'));
            for case in body.split(|it| is_mark(Some(it), ',')) {
                // Attributes stand in front of the name.
                cases.names.extend(case.iter().find_map(|it| name(Some(it))));
            }
        }
    });
}

/// Cases that the patterns of an arm name.
#[derive(Default)]
struct Arm {
    /// Cases of enums of ours that it names.
    own: Vec<String>,
    /// The arm takes whatever is left.
    rest: bool,
    /// A literal or a constant stands in a tuple.
    literal: bool,
}

/// Reads the arms of matches in one source.
struct Reader<'a> {
    enums: &'a Enums,
    /// Enums of ours whose cases this source may name alone, as after `use Kind::*`.
    opened: BTreeSet<String>,
    found: Vec<String>,
}

impl Reader<'_> {
    fn has(&self, of: &str, case: &str) -> bool {
        self.enums.get(of).is_some_and(|cases| cases.any || cases.names.contains(case))
    }

    /// Notes enums of which `use` names cases.
    fn open(&mut self, source: &[TokenTree]) {
        each(source, &mut |tokens| {
            for (at, _) in tokens.iter().enumerate() {
                if !is_name(tokens.get(at), "use") {
                    continue;
                }
                let path =
                    tokens[at..].split(|it| is_mark(Some(it), ';')).next().unwrap_or_default();
                let ours = path.windows(2).filter(|two| is_mark(two.get(1), ':'));
                let ours = ours.filter_map(|two| name(two.first()));
                self.opened.extend(ours.filter(|it| self.enums.contains_key(it)));
            }
        });
    }

    /// Says whether `word` is a case that this source may name without its enum: no name of a value, none of `std`.
    fn is_case_alone(&self, word: &str) -> bool {
        let is_type = word.starts_with(char::is_uppercase) && word.contains(char::is_lowercase);
        let std = ["Some", "None", "Ok", "Err"].contains(&word);
        is_type && !std && self.opened.iter().any(|of| self.has(of, word))
    }

    /// Reads a pattern; `own` is the type that `Self` stands for.
    fn pattern(&self, tokens: &[TokenTree], own: &str, arm: &mut Arm) {
        for (at, token) in tokens.iter().enumerate() {
            let behind_path = at > 0 && is_mark(tokens.get(at - 1), ':');
            let before_path = is_mark(tokens.get(at + 1), ':');
            if let Some(word) = name(Some(token)) {
                if before_path {
                    let of = if word == "Self" { own.to_owned() } else { word };
                    let case = name(tokens.get(at + 3)).unwrap_or_default();
                    let known = self.has(&of, &case);
                    arm.own.extend(known.then(|| format!("{of}::{case}")));
                } else if !behind_path && self.is_case_alone(&word) {
                    arm.own.push(word);
                }
            }
            // A tuple, and what wraps a value of another type.
            let wraps = match at.checked_sub(1).and_then(|before| name(tokens.get(before))) {
                Some(before) => ["Some", "Ok", "Err"].contains(&before.as_str()),
                None => true,
            };
            if let Some(inner) = group(Some(token), Delimiter::Parenthesis).filter(|_| wraps) {
                arm.literal |= inner.iter().any(is_value);
                self.pattern(&inner, own, arm);
            }
        }
    }

    /// Reads the arms of a match.
    fn arms(&self, body: &[TokenTree], own: &str) -> Vec<Arm> {
        let (mut arms, mut at) = (Vec::new(), 0);
        let is_arrow = |at: usize| is_mark(body.get(at), '=') && is_mark(body.get(at + 1), '>');
        while let Some(arrow) = (at..body.len()).find(|at| is_arrow(*at)) {
            let whole = &body[at..arrow];
            let guard = whole.iter().position(|it| is_name(Some(it), "if"));
            let pattern = &whole[..guard.unwrap_or(whole.len())];
            let mut arm = Arm::default();
            self.pattern(pattern, own, &mut arm);
            arm.rest = guard.is_none() && takes_all(pattern);
            arms.push(arm);
            at = arrow + 2;
            if group(body.get(at), Delimiter::Brace).is_some() {
                at += 1 + usize::from(is_mark(body.get(at + 1), ','));
            } else {
                at += body[at..].iter().take_while(|it| !is_mark(Some(it), ',')).count() + 1;
            }
            at = at.min(body.len());
        }
        arms
    }

    /// Looks for matches in `tokens`.
    fn read(&mut self, tokens: &[TokenTree], own: &str) {
        let mut of = own.to_owned();
        for (at, token) in tokens.iter().enumerate() {
            let word = name(Some(token)).unwrap_or_default();
            if word == "impl" && begins_item(at.checked_sub(1).and_then(|at| tokens.get(at))) {
                of = implemented(&tokens[at + 1..]);
            }
            if word == "match" {
                let bodies = tokens[at..].iter().filter_map(|it| group(Some(it), Delimiter::Brace));
                let arms = bodies.map(|it| self.arms(&it, &of)).find(|it| !it.is_empty());
                let arms = arms.unwrap_or_default();
                let case = arms.iter().find_map(|it| it.own.first());
                let open = arms.iter().any(|it| it.rest) && !arms.iter().any(|it| it.literal);
                if let Some(case) = case.filter(|_| open) {
                    let on = tokens[at + 1..].iter().take_while(|it| !is_block(it));
                    let on: String = on.map(ToString::to_string).collect();
                    self.found.push(format!("`match {on}` names {case} and takes the rest"));
                }
            }
            if let TokenTree::Group(group) = token {
                self.read(&group.stream().into_iter().collect::<Vec<_>>(), &of);
            }
        }
    }
}

/// Says whether a token of a pattern is a literal or the name of a constant.
fn is_value(token: &TokenTree) -> bool {
    let is_large = |word: String| word.len() > 1 && !word.contains(char::is_lowercase);
    matches!(token, TokenTree::Literal(_)) || name(Some(token)).is_some_and(is_large)
}

fn is_block(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

/// Says whether an item may begin behind `before`: behind another one, or an attribute.
fn begins_item(before: Option<&TokenTree>) -> bool {
    let Some(TokenTree::Group(group)) = before else {
        return before.is_none() || is_mark(before, ';') || is_name(before, "unsafe");
    };
    group.delimiter() != Delimiter::Parenthesis
}

/// Returns the name of the type that an `impl` is for: the last one in front of its body that is no parameter.
fn implemented(tokens: &[TokenTree]) -> String {
    let head = tokens.iter().take_while(|it| !is_block(it) && !is_name(Some(it), "where"));
    let (mut depth, mut last) = (0_usize, String::new());
    for token in head {
        if is_mark(Some(token), '<') {
            depth += 1;
        } else if is_mark(Some(token), '>') {
            depth = depth.saturating_sub(1);
        } else if depth == 0 {
            last = name(Some(token)).unwrap_or(last);
        }
    }
    last
}

/// Says whether a pattern is `_`, a name, or a tuple of these.
fn takes_all(pattern: &[TokenTree]) -> bool {
    if let Some(inner) =
        group(pattern.first(), Delimiter::Parenthesis).filter(|_| pattern.len() == 1)
    {
        return inner.split(|it| is_mark(Some(it), ',')).all(|it| it.is_empty() || takes_all(it));
    }
    let plain = |word: String| {
        word.starts_with(|it: char| it == '_' || it.is_lowercase())
            && !["true", "false"].contains(&word.as_str())
    };
    !pattern.is_empty() && pattern.iter().all(|it| name(Some(it)).is_some_and(plain))
}

/// Returns the matches in `source` that leave cases of `enums` unnamed.
fn open_matches(source: &str, enums: &Enums) -> Vec<String> {
    let tokens = tokens(source);
    let mut reader = Reader { enums, opened: BTreeSet::new(), found: Vec::new() };
    reader.open(&tokens);
    reader.read(&tokens, "");
    reader.found
}

#[test]
fn matches_over_our_own_enums_name_the_cases() {
    let files: Vec<PathBuf> = sources().into_iter().filter(|path| !is_test(path)).collect();
    let code = |path: &Path| shipped(&read(path)).collect::<Vec<_>>().join("\n");
    let sources: Vec<(PathBuf, String)> =
        files.into_iter().map(|path| (path.clone(), code(&path))).collect();
    let mut enums = Enums::new();
    sources.iter().for_each(|(_, code)| define(&tokens(code), &mut enums));
    assert!(enums.len() > 200, "{}", enums.len());
    let mut open = Vec::new();
    for (path, code) in &sources {
        let found = open_matches(code, &enums).into_iter();
        open.extend(found.map(|it| format!("{}: {it}", path.display())));
    }
    assert_eq!(open, Vec::<String>::new());
}

#[test]
fn an_open_match_is_found() {
    let ours = "pub enum Kind { /// One.\n Aye, #[x] Bee(u8), Cee { d: u8 } } enum Made { $($name,)* Zed }";
    let mut enums = Enums::new();
    define(&tokens(ours), &mut enums);
    let is_open = |source: &str| !open_matches(source, &enums).is_empty();
    for source in [
        "match kind { Kind::Aye => 1, _ => 2 }",
        "match kind { Kind::Aye if x => {} other => other }",
        "match x::Kind::Aye { a::b::Kind::Bee(_) | Kind::Aye => { 1 }, _ => 2 }",
        "fn f() { match a { true => match kind { Kind::Cee { .. } => 1, _ => 2 }, false => 3 } }",
        "match a(|| { b => c }) { Some(Kind::Aye) => 1, _ => 2 }",
        "match (a, b) { (Kind::Aye, _) => 1, (_, _) => 2 }",
        "use Kind::*; match kind { Aye | Bee(_) => 1, _ => 2 }",
        "use Kind::{Aye, Bee}; match kind { Aye => 1, _ => 2 }",
        "impl<'a> Kind { fn f(self) { match self { Self::Aye => 1, _ => 2 } } }",
        "impl From<u8> for Kind { fn f(self) { match self { Self::Aye => 1, _ => 2 } } }",
        "match made { Made::Whatever => 1, _ => 2 }",
    ] {
        assert!(is_open(source), "{source}");
    }
    for source in [
        "match kind { Kind::Aye => 1, Kind::Bee(_) | Kind::Cee { .. } => 2 }",
        "match kind { _ if x => 0, Kind::Aye => 1, Kind::Bee(_) | Kind::Cee { .. } => 2 }",
        "match kind { ErrorKind::Aye => 1, _ => 2 }",
        "match kind { Kind::Other => 1, _ => 2 }",
        "match (a, b) { (Kind::Aye, \"x\") => 1, _ => 2 }",
        "match (a, b) { (Kind::Aye, RUN) => 1, (_, _) => 2 }",
        "match list { [Kind::Aye] => 1, _ => 2 }",
        "match other { Wide { kind: Kind::Aye } => 1, _ => 2 }",
        "match byte { Aye => 1, _ => 2 }",
        "match (kind, x) { (Kind::Aye, true) => 1, (_, false) => 2 }",
        "impl Other { fn f(self) { match self { Self::Aye => 1, _ => 2 } } }",
    ] {
        assert!(!is_open(source), "{source}");
    }
}
