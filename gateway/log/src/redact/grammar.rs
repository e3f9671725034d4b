//! Secrets by the grammar of the command: option values, headers, assignments, text on standard input.

use std::ops::Range;

use stockade_parser::{CommandTree, Position, Redirect, RedirectTarget, SimpleCommand, Word};

use super::rules::{Kind, Rule, Rules};

/// A word as the rules see it.
#[derive(Debug, Clone)]
pub(super) struct Piece<'a> {
    /// The value, where the text alone tells it.
    pub(super) exact: Option<&'a [u8]>,
    /// The word as it is written.
    pub(super) raw: &'a [u8],
    /// Where it stands.
    pub(super) span: Range<usize>,
}

/// A simple command as the rules see it.
#[derive(Debug, Clone, Default)]
pub(super) struct Simple<'a> {
    pub(super) words: Vec<Piece<'a>>,
    /// Name and value of the assignments in front.
    pub(super) assignments: Vec<(String, Piece<'a>)>,
    /// The redirections with text: their index, and the text.
    pub(super) texts: Vec<(usize, Piece<'a>)>,
    /// Its place in a pipeline, from 0.
    pub(super) pipeline: Option<u32>,
    /// Where it stands.
    pub(super) span: Range<usize>,
    /// Where the process substitutions stand that it reads from.
    pub(super) inputs: Vec<Range<usize>>,
}

/// Position of a text in a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretPosition {
    Word(usize),
    Assignment(usize),
    Redirect(usize),
}

/// A secret in a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) command: usize,
    pub(super) place: SecretPosition,
    /// Its place in the value of the word; none when the value is not known.
    pub(super) inner: Option<Range<usize>>,
    /// Its place in the source.
    pub(super) source: Range<usize>,
    pub(super) rule: usize,
}

/// Returns the commands of `tree` as the rules see them.
pub(super) fn commands(tree: &CommandTree) -> Vec<Simple<'_>> {
    tree.commands().iter().map(|command| simple(tree.source(), command)).collect()
}

fn simple<'a>(source: &'a [u8], command: &'a SimpleCommand) -> Simple<'a> {
    let piece = |word: &'a Word| Piece {
        exact: word.exact(),
        raw: word.span.of(source),
        span: word.span.start as usize..word.span.end as usize,
    };
    let text = |(index, redirect): (usize, &'a Redirect)| match &redirect.target {
        RedirectTarget::Text(word) => Some((index, piece(word))),
        RedirectTarget::File(_) | RedirectTarget::Descriptor(_) => None,
    };
    let input = |redirect: &'a Redirect| match &redirect.target {
        RedirectTarget::File(word) => Some(piece(word)).filter(|it| it.raw.starts_with(b"<(")),
        RedirectTarget::Text(_) | RedirectTarget::Descriptor(_) => None,
    };
    Simple {
        words: command.words.iter().map(piece).collect(),
        assignments: command
            .assignments
            .iter()
            .map(|it| {
                let name = String::from_utf8_lossy(&it.name).into_owned();
                let value = value_of(&name, piece(&it.value));
                (name, value)
            })
            .collect(),
        texts: command.redirects.iter().enumerate().filter_map(text).collect(),
        pipeline: match command.position {
            Position::Pipeline(place) => Some(place),
            Position::Top
            | Position::Subshell
            | Position::Substitution
            | Position::ProcessSubstitution
            | Position::Compound
            | Position::Function
            | Position::Wrapped
            | Position::Shell => None,
        },
        span: command.span.start as usize..command.span.end as usize,
        inputs: command.redirects.iter().filter_map(input).map(|it| it.span).collect(),
    }
}

/// Returns the value of an assignment alone, where the piece begins with the name.
fn value_of<'a>(name: &str, piece: Piece<'a>) -> Piece<'a> {
    let equals = piece.raw.iter().position(|byte| *byte == b'=');
    let start = equals.filter(|_| piece.raw.starts_with(name.as_bytes())).map(|at| at + 1);
    match start.and_then(|start| Some((start, piece.raw.get(start..)?))) {
        Some((start, raw)) => {
            Piece { raw, span: piece.span.start + start..piece.span.end, ..piece }
        }
        None => piece,
    }
}

/// Returns the secrets that the grammar of `commands` tells.
pub(super) fn find(rules: &Rules, commands: &[Simple<'_>]) -> Vec<Found> {
    let mut search = Search { rules, found: Vec::new() };
    for (number, command) in commands.iter().enumerate() {
        let program = program(command);
        search.shapes(number, command);
        for (index, rule) in rules.rules.iter().enumerate() {
            if !rule.with.iter().all(|word| has_word(command, word)) {
                continue;
            }
            let of_program = |it: &&str| *it == "*" || it.as_bytes() == program;
            match rule.kind {
                Kind::Option if rule.programs.iter().any(of_program) => {
                    search.options(number, command, index, rule);
                }
                Kind::Header => search.headers(number, command, index, rule),
                Kind::Assignment => search.assignments(number, command, index, rule),
                Kind::Pair if rule.programs.iter().any(of_program) => {
                    search.pairs(number, command, index, rule);
                }
                Kind::Last if rule.programs.iter().any(of_program) && has_name(command, rule) => {
                    search.last(number, command, index, rule);
                }
                Kind::Stdin if rule.programs.iter().any(of_program) && has_name(command, rule) => {
                    search.stdin(number, commands, index, rule);
                }
                Kind::Template if rule.programs.iter().any(of_program) => {
                    search.template(number, command, index, rule);
                }
                Kind::Option
                | Kind::Pair
                | Kind::Last
                | Kind::Stdin
                | Kind::Template
                | Kind::Shape => {}
            }
        }
    }
    search.found
}

/// Returns the last part of the path of the program.
fn program<'a>(command: &Simple<'a>) -> &'a [u8] {
    let path = command.words.first().and_then(|word| word.exact).unwrap_or_default();
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// Says whether one of the rule's names is a word of the command; the program counts as one.
fn has_name(command: &Simple<'_>, rule: &Rule) -> bool {
    let named = |name: &&str| {
        let mut words = command.words.iter().filter_map(|word| word.exact);
        words.any(|word| is_named(word, name)) || program(command) == name.as_bytes()
    };
    rule.names.is_empty() || rule.names.iter().any(named)
}

/// Says whether `word` is `name`, fits it where it has a `*`, or is a group of short options that has it.
fn is_named(word: &[u8], name: &str) -> bool {
    match (name.as_bytes(), name.contains('*')) {
        (_, true) => fits(name, &String::from_utf8_lossy(word)),
        (own, false) if own == word => true,
        ([b'-', letter], false) if *letter != b'-' => {
            letters(word).is_some_and(|it| it.contains(letter))
        }
        (_, false) => false,
    }
}

/// Returns the letters of a group of short options (`-abc`).
fn letters(word: &[u8]) -> Option<&[u8]> {
    let letters = word.strip_prefix(b"-")?;
    (!letters.is_empty() && letters.iter().all(u8::is_ascii_alphabetic)).then_some(letters)
}

fn has_word(command: &Simple<'_>, name: &str) -> bool {
    command.words.iter().filter_map(|word| word.exact).any(|word| word == name.as_bytes())
}

struct Search<'a> {
    rules: &'a Rules,
    found: Vec<Found>,
}

impl Search<'_> {
    /// Takes the value that begins at byte `from` of a word.
    fn take(
        &mut self,
        command: usize,
        place: SecretPosition,
        piece: &Piece<'_>,
        from: usize,
        index: usize,
        rule: &Rule,
    ) {
        match piece.exact {
            Some(value) => {
                let Some(secret) = value.get(from..) else { return };
                let Some(skipped) = after(rule, secret) else { return };
                let inner = from + skipped..value.len();
                if self.rules.is_secret(rule, value.get(inner.clone()).unwrap_or_default()) {
                    let source = place_in_source(piece, value, &inner);
                    self.found.push(Found {
                        command,
                        place,
                        inner: Some(inner),
                        source,
                        rule: index,
                    });
                }
            }
            None => {
                // Quotes and expansions are still in the text: what is more than a reference is masked.
                let from = from + usize::from(piece.raw.starts_with(b"\"") && from > 0);
                let Some(secret) = piece.raw.get(from..) else { return };
                let Some(skipped) = after(rule, secret) else { return };
                let secret = secret.get(skipped..).unwrap_or_default();
                let bare = secret.strip_prefix(b"\"").unwrap_or(secret);
                if self.rules.is_secret(rule, bare) {
                    let start = piece.span.start + from + skipped;
                    self.found.push(Found {
                        command,
                        place,
                        inner: None,
                        source: start..piece.span.end,
                        rule: index,
                    });
                }
            }
        }
    }

    /// Takes what looks like a secret in the value of a word, but is written in another way: with quotes inside.
    fn shapes(&mut self, number: usize, command: &Simple<'_>) {
        let words =
            command.words.iter().enumerate().map(|(at, word)| (SecretPosition::Word(at), word));
        let assigned = command.assignments.iter().enumerate();
        let assigned = assigned.map(|(at, (_, word))| (SecretPosition::Assignment(at), word));
        let texts = command.texts.iter().map(|(at, text)| (SecretPosition::Redirect(*at), text));
        for (place, piece) in words.chain(assigned).chain(texts) {
            let Some(value) = piece.exact.filter(|value| find_in(piece.raw, value).is_none())
            else {
                continue;
            };
            for spot in self.rules.shapes(value) {
                let source = place_in_source(piece, value, &spot.range);
                let (inner, rule) = (Some(spot.range), spot.rule);
                self.found.push(Found { command: number, place, inner, source, rule });
            }
        }
    }

    fn options(&mut self, number: usize, command: &Simple<'_>, index: usize, rule: &Rule) {
        for (at, word) in command.words.iter().enumerate().skip(1) {
            // The name of an option is literal even where its value is not.
            let text = word.exact.unwrap_or(word.raw.strip_prefix(b"\"").unwrap_or(word.raw));
            for name in &rule.names {
                match (form(name), text.strip_prefix(bare(name).as_bytes())) {
                    (Form::Any | Form::Long | Form::Apart, Some([])) => {
                        self.behind(number, command, at, index, rule);
                    }
                    (Form::Any | Form::Joined, Some([_, ..])) => {
                        self.take(
                            number,
                            SecretPosition::Word(at),
                            word,
                            bare(name).len(),
                            index,
                            rule,
                        );
                    }
                    (Form::Long, Some([b'=', ..])) => {
                        self.take(
                            number,
                            SecretPosition::Word(at),
                            word,
                            name.len() + 1,
                            index,
                            rule,
                        );
                    }
                    (Form::Any, None) if ends_group(text, name) => {
                        self.behind(number, command, at, index, rule);
                    }
                    (Form::Any | Form::Long | Form::Apart | Form::Joined, _) => {}
                }
            }
        }
    }

    /// Takes the word behind the one at `at`.
    fn behind(
        &mut self,
        number: usize,
        command: &Simple<'_>,
        at: usize,
        index: usize,
        rule: &Rule,
    ) {
        if let Some(value) = command.words.get(at + 1) {
            self.take(number, SecretPosition::Word(at + 1), value, 0, index, rule);
        }
    }

    /// Takes the operands that a template puts where its text asks for a secret: `printf 'TOKEN=%s' X`.
    fn template(&mut self, number: usize, command: &Simple<'_>, index: usize, rule: &Rule) {
        let words = command.words.iter().enumerate().skip(1);
        let mut operands = words.skip_while(|(_, word)| word.raw.starts_with(b"-"));
        let Some((_, template)) = operands.next() else { return };
        let template = template.exact.unwrap_or(template.raw);
        let all = conversions(template);
        let due: Vec<usize> = rule
            .matches(template)
            .map(|end| conversions(template.get(..end).unwrap_or_default()))
            .collect();
        for (place, (at, word)) in operands.enumerate() {
            // Operands beyond the conversions of the template go through it again (printf(1)).
            if due.contains(&(place % all.max(1) + 1)) {
                self.take(number, SecretPosition::Word(at), word, 0, index, rule);
            }
        }
    }

    fn headers(&mut self, number: usize, command: &Simple<'_>, index: usize, rule: &Rule) {
        for (at, word) in command.words.iter().enumerate().skip(1) {
            let text = word.exact.unwrap_or(word.raw.strip_prefix(b"\"").unwrap_or(word.raw));
            if let Some(from) = rule.names.iter().find_map(|name| header_value(text, name)) {
                self.take(number, SecretPosition::Word(at), word, from, index, rule);
            }
        }
    }

    fn assignments(&mut self, number: usize, command: &Simple<'_>, index: usize, rule: &Rule) {
        for (at, (name, value)) in command.assignments.iter().enumerate() {
            if rule.names.iter().any(|pattern| fits(pattern, name)) {
                self.take(number, SecretPosition::Assignment(at), value, 0, index, rule);
            }
        }
        for (at, word) in command.words.iter().enumerate() {
            let text = word.exact.unwrap_or(word.raw.strip_prefix(b"\"").unwrap_or(word.raw));
            let Some((start, end)) = assigned(text) else { continue };
            let name =
                String::from_utf8_lossy(text.get(start..end).unwrap_or_default()).into_owned();
            if rule.names.iter().any(|pattern| fits(pattern, &name)) {
                self.take(number, SecretPosition::Word(at), word, end + 1, index, rule);
            }
        }
    }

    fn pairs(&mut self, number: usize, command: &Simple<'_>, index: usize, rule: &Rule) {
        for (at, value) in command.words.iter().enumerate().skip(2) {
            let before = at.checked_sub(1).and_then(|at| command.words.get(at));
            let name = String::from_utf8_lossy(before.and_then(|it| it.exact).unwrap_or_default());
            if rule.names.iter().any(|pattern| fits(pattern, &name)) {
                self.take(number, SecretPosition::Word(at), value, 0, index, rule);
            }
        }
    }

    /// Takes the last of the operands that follow a name by which the rule is known, up to the next option. Where none
    /// follows it, the last word of the command.
    fn last(&mut self, number: usize, command: &Simple<'_>, index: usize, rule: &Rule) {
        let names = || rule.names.iter().chain(&rule.with);
        let is_name =
            |word: &Piece<'_>| word.exact.is_some_and(|it| names().any(|name| is_named(it, name)));
        let words = command.words.iter().enumerate().skip(1);
        let mut from: Vec<usize> =
            words.filter(|(_, word)| is_name(word)).map(|(at, _)| at).collect();
        from.extend(from.is_empty().then_some(0));
        for from in from {
            let rest = command.words.iter().enumerate().skip(from + 1);
            let operands = rest.clone().take_while(|(_, word)| !word.raw.starts_with(b"-"));
            let Some((at, word)) = operands.last().or_else(|| rest.last()) else { continue };
            if !is_name(word) {
                self.take(number, SecretPosition::Word(at), word, 0, index, rule);
            }
        }
    }

    fn stdin(&mut self, number: usize, commands: &[Simple<'_>], index: usize, rule: &Rule) {
        let Some(command) = commands.get(number) else { return };
        for (at, text) in &command.texts {
            self.take(number, SecretPosition::Redirect(*at), text, 0, index, rule);
        }
        let before = commands.get(..number).unwrap_or_default();
        let place = command.pipeline.and_then(|place| place.checked_sub(1));
        let left = place.and_then(|it| before.iter().rposition(|left| left.pipeline == Some(it)));
        let is_input = |it: &Simple<'_>| {
            let mut inputs = command.inputs.iter();
            inputs.any(|input| input.start <= it.span.start && it.span.end <= input.end)
        };
        let inputs = commands.iter().enumerate().filter(|(_, it)| is_input(it)).map(|(at, _)| at);
        for source in left.into_iter().chain(inputs) {
            self.written_by(source, commands, index, rule);
        }
    }

    /// Takes the text that the command `left` gives to another one.
    fn written_by(&mut self, left: usize, commands: &[Simple<'_>], index: usize, rule: &Rule) {
        let Some(source) = commands.get(left) else { return };
        for (at, word) in source.words.iter().enumerate().skip(1) {
            if !word.raw.starts_with(b"-") {
                self.take(left, SecretPosition::Word(at), word, 0, index, rule);
            }
        }
        for (at, text) in &source.texts {
            self.take(left, SecretPosition::Redirect(*at), text, 0, index, rule);
        }
    }
}

/// How the name of an option in a rule stands before its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `-n`: `-n X`, `-nX`, `-abn X`.
    Any,
    /// `--name`: `--name X`, `--name=X`.
    Long,
    /// `-n!`: `-n X`.
    Apart,
    /// `-n~`: `-nX`.
    Joined,
}

fn form(name: &str) -> Form {
    match name.as_bytes() {
        [.., b'~'] => Form::Joined,
        [.., b'!'] => Form::Apart,
        [b'-', _] => Form::Any,
        _ => Form::Long,
    }
}

/// Returns the name of an option as it is written in a command.
fn bare(name: &str) -> &str {
    name.trim_end_matches(['~', '!'])
}

/// Says whether `word` is a group of short options whose last one is `name`.
fn ends_group(word: &[u8], name: &str) -> bool {
    letters(word).is_some_and(|it| it.last() == name.as_bytes().last())
}

/// Returns how many conversions (`%s`, not `%%`) a template has.
fn conversions(template: &[u8]) -> usize {
    let (mut count, mut rest) = (0, template);
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        count += usize::from(rest.get(at + 1) != Some(&b'%'));
        let next = if rest.get(at + 1) == Some(&b'%') { at + 2 } else { at + 1 };
        rest = rest.get(next..).unwrap_or_default();
    }
    count
}

/// Returns how much of `value` lies in front of the secret; none when the rule sees none in it.
fn after(rule: &Rule, value: &[u8]) -> Option<usize> {
    let Some(mark) = &rule.after else { return Some(0) };
    let mark = mark.as_bytes();
    value.windows(mark.len().max(1)).position(|window| window == mark).map(|at| at + mark.len())
}

/// Returns where the value of header `name` begins, if `text` is such a header or an option with one.
fn header_value(text: &[u8], name: &str) -> Option<usize> {
    let starts = [0, 2, text.iter().position(|byte| *byte == b'=').map_or(0, |at| at + 1)];
    let colon = starts.into_iter().find_map(|start| {
        let end = start + name.len();
        let found = text.get(start..end)?.eq_ignore_ascii_case(name.as_bytes());
        (found && text.get(end) == Some(&b':')).then_some(end)
    })?;
    let blanks = |from: usize| {
        text.get(from..).unwrap_or_default().iter().take_while(|it| **it == b' ').count()
    };
    let value = colon + 1 + blanks(colon + 1);
    // The scheme is not a secret: `Bearer X`, `Basic X`, `token X`.
    let rest = text.get(value..).unwrap_or_default();
    let scheme = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let is_scheme = (3..=10).contains(&scheme) && rest.get(scheme) == Some(&b' ');
    Some(if is_scheme { value + scheme + blanks(value + scheme) } else { value })
}

/// Returns where the name in `NAME=VALUE` begins and ends; in front of it may stand `-e`, `--env=` or
/// another option.
fn assigned(text: &[u8]) -> Option<(usize, usize)> {
    let equals = text.iter().position(|byte| *byte == b'=')?;
    let (start, end) = if text.starts_with(b"--") {
        let rest = text.get(equals + 1..)?;
        (equals + 1, equals + 1 + rest.iter().position(|byte| *byte == b'=')?)
    } else if text.starts_with(b"-") {
        (2, equals)
    } else {
        (0, equals)
    };
    let name = text.get(start..end)?;
    let is_name = !name.is_empty()
        && name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b':'));
    is_name.then_some((start, end))
}

/// Says whether `name` fits `pattern`, in which `*` stands for anything; case does not count.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut last: Option<&str> = None;
    for part in parts {
        if let Some(middle) = last {
            match rest.find(middle) {
                Some(at) => rest = rest.get(at + middle.len()..).unwrap_or_default(),
                None => return false,
            }
        }
        last = Some(part);
    }
    last.map_or(rest.is_empty(), |last| rest.ends_with(last))
}

/// Returns where the part `inner` of `value` stands in the source. Where quotes make that unclear, the
/// rest of the word.
fn place_in_source(piece: &Piece<'_>, value: &[u8], inner: &Range<usize>) -> Range<usize> {
    let start = piece.span.start;
    let whole = find_in(piece.raw, value);
    let secret = value.get(inner.clone()).unwrap_or_default();
    if let Some(at) = whole {
        return start + at + inner.start..start + at + inner.end;
    }
    if let Some(at) = find_in(piece.raw, secret).filter(|_| !secret.is_empty()) {
        return start + at..start + at + secret.len();
    }
    let prefix = value.get(..inner.start).unwrap_or_default();
    let kept = if piece.raw.starts_with(prefix) { prefix.len() } else { 0 };
    start + kept..piece.span.end
}

fn find_in(text: &[u8], part: &[u8]) -> Option<usize> {
    if part.is_empty() {
        return None;
    }
    text.windows(part.len()).position(|window| window == part)
}
