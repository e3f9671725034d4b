//! Arithmetic and subscripts: names in them are evaluated again, so their values must be numbers.

use crate::characters::{is_name, is_name_start};
use crate::event::{Event, flag};
use crate::expression::{Change, names};
use crate::extract::known::keeps_beginning;
use crate::extract::leaves::Parameter;
use crate::extract::shell::{Value, is_special};
use crate::extract::weight;
use crate::extract::{Braced, Build, Text, Walk};
use crate::word::build::{Building, Home, Piece};
use crate::{Count, Reason, Span, search};

impl Walk<'_> {
    /// Says whether a parameter is surely a number, or unset, which counts as 0.
    pub(crate) fn is_integer(&mut self, text: &Text, name: &[u8]) -> bool {
        if matches!(
            name,
            b"?" | b"#"
                | b"$"
                | b"LINENO"
                | b"RANDOM"
                | b"SECONDS"
                | b"UID"
                | b"EUID"
                | b"PPID"
                | b"SHLVL"
                | b"OPTIND"
                | b"COLUMNS"
                | b"LINES"
                | b"EPOCHSECONDS"
                | b"SRANDOM"
        ) {
            return self.keeps_integer(text, name);
        }
        if let Parameter::Exact(value) = self.parameter(name, Piece::Quoted) {
            return is_number(&value);
        }
        if !name.first().is_some_and(|byte| is_name_start(*byte)) {
            return false;
        }
        if is_special(name) {
            // Bash gives it a value, which need not be a number: `PWD`, `_`.
            return false;
        }
        let absent = self.start.closed_environment && !self.start.present.contains(name);
        (absent || self.shell.is_set(name)) && self.keeps_integer(text, name)
    }

    /// Says whether the text sets a name only to numbers.
    fn keeps_integer(&mut self, text: &Text, name: &[u8]) -> bool {
        if self.runs.len() > 1 {
            return false;
        }
        let key = name.to_vec();
        if let Some(known) = self.integers.get(&key) {
            return *known;
        }
        let clean = self.start.clean_environment;
        let keeps = self.may_search(text) && only_numbers(text, name, clean);
        self.integers.insert(key, keeps);
        keeps
    }

    /// The end of `$(( ))`, `$[ ]`, `(( ))` or an offset.
    pub(crate) fn close_arithmetic(
        &mut self,
        text: &Text,
        opened: Event,
        building: &Building,
        span: Span,
    ) {
        self.given_up = true;
        self.evaluate(text, building, span, Reason::ArithName);
        let command = opened.flags & (flag::COMMAND | flag::OFFSET) != 0;
        if !command {
            self.unknown(Reason::Arithmetic, Count::One);
        }
    }

    /// Doubts whatever in `building` is not surely a number, and notes what it assigns.
    pub(crate) fn evaluate(
        &mut self,
        text: &Text,
        building: &Building,
        span: Span,
        reason: Reason,
    ) {
        self.steps = self.steps.saturating_add(weight::EVALUATE);
        if building.doubt().is_some() {
            let detail = "a value that is evaluated as arithmetic is not known".to_owned();
            self.doubt(reason, span, detail, String::new());
            return;
        }
        if is_glued(&building.bytes) {
            let detail = "a value that is a part of a name or number in arithmetic".to_owned();
            self.doubt(reason, span, detail, String::new());
            return;
        }
        for (name, change) in names(&building.bytes) {
            let plain = change != Change::Assigned;
            if plain && !self.is_integer(text, &name) {
                let detail =
                    format!("`{}` is evaluated as arithmetic", String::from_utf8_lossy(&name));
                self.doubt(reason, span, detail, String::new());
                return;
            }
            match change {
                Change::None => {}
                Change::Assigned | Change::Modified => {
                    if let Some(detail) = crate::state::effect_of(&name, None) {
                        self.shell.shake(detail);
                    }
                    self.names_variable(&name, None, span);
                    self.history_file(&name, None, None, span);
                    self.shell.set(&name, Value::Set);
                }
            }
        }
    }

    pub(crate) fn close_subscript(&mut self, text: &Text, building: &Building, span: Span) {
        let whole = matches!(building.literal(), Some(b"@" | b"*"));
        let name = match self.builds.last() {
            Some(Build::Braced(braced)) => braced.name.clone(),
            Some(Build::Assignment { name, .. }) => name.clone(),
            Some(Build::Word(building)) => building.bytes.clone(),
            Some(_) | None => Vec::new(),
        };
        let associative = self.runs.len() == 1 && self.is_associative(text, &name);
        self.given_up |= !whole;
        if !whole && !associative {
            self.evaluate(text, building, span, Reason::Subscript);
        }
        match self.builds.last_mut() {
            Some(Build::Braced(braced)) => {
                braced.subscript = Some(building.bytes.clone());
            }
            Some(Build::Assignment { array, building: value, .. }) => {
                *array = true;
                value.unknown(Reason::Parameter, Count::One);
            }
            Some(Build::Word(word)) => {
                // `name[subscript]` that is not an assignment: a pattern.
                let mut bytes = vec![b'['];
                bytes.extend_from_slice(&building.bytes);
                bytes.push(b']');
                word.push(Piece::Extended, &bytes);
                if building.doubt().is_some() {
                    word.unknown(Reason::Parameter, Count::Any);
                }
            }
            Some(_) | None => {}
        }
    }

    fn is_associative(&mut self, text: &Text, name: &[u8]) -> bool {
        if let Some(known) = self.associative.get(name) {
            return *known;
        }
        let found = self.may_search(text) && declares_associative(&text.bytes, name);
        self.associative.insert(name.to_vec(), found);
        found
    }

    /// Counts a search of the whole text; without leave, the doubtful answer holds.
    pub(crate) fn may_search(&mut self, text: &Text) -> bool {
        let cost = text.bytes.len() as u64 / 4 + 1;
        let Some(left) = self.search_steps.checked_sub(cost) else { return false };
        self.search_steps = left;
        self.steps = self.steps.saturating_add(cost);
        true
    }

    /// The end of `${ }`.
    pub(crate) fn close_braced(&mut self, text: &Text, braced: Braced, span: Span) {
        self.given_up |= may_fail(&braced);
        let braced = Braced { quoted: self.quoted() || braced.quoted, ..braced };
        let many = braced.name == b"@" || braced.subscript.as_deref() == Some(b"@");
        let count = if braced.quoted && !many { Count::One } else { Count::Any };
        match (braced.prefix, braced.operator.as_slice()) {
            (b'!', _) => self.close_indirect(&braced, span),
            (b'#', _) if self.in_arithmetic() => self.push(Piece::Quoted, SOME_NUMBER),
            (b'#', _) => self.unknown(Reason::Parameter, Count::One),
            (_, b"@") => {
                self.check_transformation(&braced, span);
                self.unknown(Reason::Parameter, count);
            }
            _ => self.close_value(text, &braced, count, span),
        }
    }

    /// `${!name}`: the value of a variable names another one, unless names or keys are listed.
    fn close_indirect(&mut self, braced: &Braced, span: Span) {
        if self.names_listed(braced) {
            return self.unknown(Reason::Parameter, Count::Any);
        }
        let detail = "the value of a variable names another one".to_owned();
        self.doubt(Reason::Indirect, span, detail, String::new());
        self.unknown(Reason::Indirect, Count::Any);
    }

    /// `${name@X}`: some letters evaluate the value once more.
    fn check_transformation(&mut self, braced: &Braced, span: Span) {
        let harmless = braced.operand.literal().is_some_and(|operand| {
            operand.len() == 1 && operand.iter().all(|byte| b"QEAKakuUL".contains(byte))
        });
        if !harmless {
            let detail = "the value is evaluated again as a prompt".to_owned();
            self.doubt(Reason::PromptExpansion, span, detail, String::new());
        }
    }

    /// `${name=value}` sets the variable.
    fn assign_default(&mut self, name: &[u8], span: Span) {
        if let Some(detail) = crate::state::effect_of(name, None) {
            self.shell.shake(detail);
        }
        self.names_variable(name, None, span);
        self.history_file(name, None, None, span);
        self.shell.set(name, Value::Lost);
    }

    /// Puts the value of `${ }` into the word, as far as the text tells.
    fn close_value(&mut self, text: &Text, braced: &Braced, count: Count, span: Span) {
        let piece = if braced.quoted { Piece::Quoted } else { Piece::Split };
        let operator = braced.operator.as_slice();
        if matches!(operator, b"=" | b":=") {
            self.assign_default(&braced.name, span);
        }
        if operator.is_empty()
            && braced.subscript.is_none()
            && self.in_arithmetic()
            && self.is_integer(text, &braced.name)
        {
            return self.push(Piece::Quoted, SOME_NUMBER);
        }
        // The operand for a missing value is followed only if it is one plain word.
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./".contains(byte);
        let instead = braced.operand.literal().filter(|it| !it.is_empty() && it.iter().all(plain));
        let unset = braced.subscript.is_none() && self.is_unset(&braced.name);
        if let (true, b"-" | b":-", Some(instead)) = (unset, operator, instead) {
            return self.push(piece, instead);
        }
        let usable = match operator {
            b"" => braced.operand.segments.is_empty(),
            b"-" => !unset,
            b":-" => true,
            _ => false,
        };
        if usable
            && braced.subscript.is_none()
            && let Parameter::Exact(value) = self.parameter(&braced.name, piece)
            && (operator != b":-" || !value.is_empty())
        {
            return self.push(piece, &value);
        }
        let cut = braced.operand.literal().filter(|_| operator == b"%");
        if braced.quoted
            && braced.subscript.is_none()
            && let Some(beginning) = self.shell.beginning(&braced.name).map(<[u8]>::to_vec)
            && (usable || cut.is_some_and(|suffix| keeps_beginning(&beginning, suffix)))
        {
            return self.begins(&beginning);
        }
        if operator.is_empty()
            && braced.subscript.is_none()
            && braced.name == b"HOME"
            && self.shell.home == Home::Plain
        {
            self.push(Piece::Quoted, b"/");
            return self.unknown(Reason::Parameter, Count::One);
        }
        self.unknown(Reason::Parameter, count);
    }

    /// `${!prefix*}`, `${!prefix@}`, `${!array[@]}`: names or keys, no indirection.
    fn names_listed(&self, braced: &Braced) -> bool {
        let keys =
            matches!(braced.subscript.as_deref(), Some(b"@" | b"*")) && braced.operator.is_empty();
        let operand = braced.operand.literal();
        let names = (braced.operator == b"@" && operand == Some(b""))
            || (braced.operator.is_empty() && operand == Some(b"*"));
        keys || (braced.subscript.is_none() && names)
    }

    /// An operand or operator of `[[ ]]`.
    pub(crate) fn test_operand(&mut self, text: &Text, building: &Building, span: Span) {
        let Some(Build::Test { operator, last }) = self.builds.last_mut() else { return };
        let before = std::mem::take(operator);
        let word = building.literal().map(<[u8]>::to_vec).unwrap_or_default();
        let previous = last.replace(building.clone());
        *operator = word.clone();
        let numeric =
            |word: &[u8]| matches!(word, b"-eq" | b"-ne" | b"-lt" | b"-le" | b"-gt" | b"-ge");
        if numeric(&word) {
            if let Some(previous) = previous {
                self.test_number(text, &previous, previous.span);
            }
        } else if numeric(&before) {
            self.test_number(text, building, span);
        } else if matches!(before.as_slice(), b"-v" | b"-R") {
            let plain =
                building.literal().is_some_and(|name| name.iter().all(|byte| is_name(*byte)));
            if !plain {
                let detail = "a subscript in a test is evaluated".to_owned();
                let help =
                    "ask for the element: `[[ ${name[0]+set} ]]`; a whole variable by its name"
                        .to_owned();
                self.doubt(Reason::Subscript, span, detail, help);
            }
        }
    }

    /// A side of a numeric comparison.
    fn test_number(&mut self, text: &Text, building: &Building, span: Span) {
        let parameter = text.bytes.get(building.span.start as usize..building.span.end as usize);
        let name = parameter.filter(|_| self.runs.len() == 1).and_then(parameter_name);
        if let Some(name) = name {
            let name = name.to_vec();
            if self.is_integer(text, &name) {
                return;
            }
        }
        self.evaluate(text, building, span, Reason::ArithName);
    }
}

/// The name in `$name`, `"$name"`, `${name}` or `${#name}`; for a length, that of a number.
fn parameter_name(word: &[u8]) -> Option<&[u8]> {
    let word = word.strip_prefix(b"\"").and_then(|word| word.strip_suffix(b"\"")).unwrap_or(word);
    let name = word.strip_prefix(b"$")?;
    let name = name.strip_prefix(b"{").and_then(|name| name.strip_suffix(b"}")).unwrap_or(name);
    if let Some(counted) = name.strip_prefix(b"#")
        && !counted.is_empty()
        && counted.iter().all(|byte| is_name(*byte) || b"[]@*".contains(byte))
    {
        return Some(b"#");
    }
    let plain = matches!(name, b"?" | b"#" | b"$") || name.iter().all(|byte| is_name(*byte));
    (plain && !name.is_empty()).then_some(name)
}

/// Stands in an expression for the value of a parameter that is a number, or empty.
pub(crate) const SOME_NUMBER: &[u8] = b"\x01";

/// Says whether such a value stands right beside a name, a number or another one: `I${x}FS` can be `IFS`.
fn is_glued(expression: &[u8]) -> bool {
    let part = |byte: u8| is_name(byte) || SOME_NUMBER.contains(&byte);
    expression.windows(2).any(|pair| match *pair {
        [first, second] => {
            part(first)
                && part(second)
                && (SOME_NUMBER.contains(&first) || SOME_NUMBER.contains(&second))
        }
        _ => false,
    })
}

/// Says whether arithmetic takes the text for a plain number.
pub(crate) fn is_number(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    digits.iter().all(u8::is_ascii_digit) && digits.len() < 20
}

/// Says whether `declare -A name` or the like stands in the text.
fn declares_associative(text: &[u8], name: &[u8]) -> bool {
    let wanted = [b"-A ".as_slice(), name].concat();
    let mut rest = text;
    while let Some(at) = find_from(rest, &wanted, 0) {
        let after = rest.get(at + wanted.len()..).unwrap_or_default();
        if !name.is_empty() && after.first().is_none_or(|byte| !is_name(*byte) && *byte != b'[') {
            return true;
        }
        rest = rest.get(at + 1..).unwrap_or_default();
    }
    false
}

/// Says whether every mention of `name` in the text leaves it a number.
fn only_numbers(text: &Text, name: &[u8], clean: bool) -> bool {
    let bytes = text.bytes.as_slice();
    let mut at = 0;
    while let Some(found) = find_from(bytes, name, at) {
        let end = found + name.len();
        at = found + 1;
        let before = bytes.get(..found).unwrap_or_default();
        let after = bytes.get(end..).unwrap_or_default();
        let joined = before.last().is_some_and(|byte| is_name(*byte))
            || after.first().is_some_and(|byte| is_name(*byte));
        if joined {
            continue;
        }
        let used = before.ends_with(b"$")
            || (before.ends_with(b"${") && !after.starts_with(b"=") && !after.starts_with(b":="))
            || before.ends_with(b"${#");
        let counted = || clean && set_to_count(bytes, before, after);
        if !(used || in_arithmetic_span(text, found) || set_to_number(before, after) || counted()) {
            return false;
        }
    }
    true
}

fn find_from(bytes: &[u8], name: &[u8], from: usize) -> Option<usize> {
    // A name is not empty; without this, an empty one would be found for ever.
    let rest = bytes.get(from..).filter(|_| !name.is_empty())?;
    search::word(rest, name).map(|at| from + at)
}

fn in_arithmetic_span(text: &Text, at: usize) -> bool {
    // Outer expressions stand before inner ones: look back from the last that starts before.
    let spans = &text.syntax.arithmetic;
    let before = spans.partition_point(|span| (span.start as usize) < at);
    spans.iter().take(before).rev().take(32).any(|span| at < span.end as usize)
}

/// `name=12`, `name=$((..`, or `for name in 1 2 3`.
fn set_to_number(before: &[u8], after: &[u8]) -> bool {
    if before.ends_with(b"for ") && after.starts_with(b" in ") {
        let list = after.get(4..).unwrap_or_default();
        // The first byte that is not part of a list of numbers must be its end.
        let other = list.iter().find(|byte| !(byte.is_ascii_digit() || b" {}.,-".contains(byte)));
        return other.is_none_or(|byte| matches!(byte, b';' | b'\n'));
    }
    let Some(value) = after.strip_prefix(b"=").filter(|_| starts_word(before)) else {
        return false;
    };
    if value.starts_with(b"$((") {
        return true;
    }
    let end = value.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(value.len());
    value
        .get(end)
        .is_none_or(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b')'))
}

fn starts_word(before: &[u8]) -> bool {
    before
        .last()
        .is_none_or(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b';' | b'&' | b'(' | b'{'))
}

/// `name=$(ls | wc -l)`: the last command of one pipeline prints a number or nothing, which counts as 0.
fn set_to_count(text: &[u8], before: &[u8], after: &[u8]) -> bool {
    let Some(value) = after.strip_prefix(b"=").filter(|_| starts_word(before)) else {
        return false;
    };
    let quoted = value.starts_with(b"\"");
    let Some(inside) = value.get(usize::from(quoted)..).and_then(|it| it.strip_prefix(b"$("))
    else {
        return false;
    };
    let Some((end, last)) = last_of_pipeline(inside) else { return false };
    let behind = inside.get(end + 1..).unwrap_or_default();
    let behind = if quoted { behind.strip_prefix(b"\"") } else { Some(behind) };
    let ends = behind.is_some_and(|it| {
        it.first()
            .is_none_or(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b')'))
    });
    let mut words: Vec<&[u8]> =
        last.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty()).collect();
    // Its input does not matter.
    if let Some(at) = words.iter().position(|word| word.starts_with(b"<")) {
        let target = words.split_off(at).concat();
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-/".contains(byte);
        if !target.get(1..).is_some_and(|it| !it.is_empty() && it.iter().all(plain)) {
            return false;
        }
    }
    let Some(program) = words.first().filter(|_| ends && words.iter().all(|it| is_one(it))) else {
        return false;
    };
    stockade_programs::prints_number(&words) && !may_be_redefined(text, program)
}

/// Says whether a word as it is typed is one word for the program, and no option where it does not look like one.
fn is_one(word: &[u8]) -> bool {
    match word {
        [open @ (b'\'' | b'"'), first, rest @ ..] => {
            *first != b'-'
                && first != open
                && rest.iter().position(|it| it == open) == rest.len().checked_sub(1)
        }
        _ => !word.iter().any(|byte| b"'\"*?[~<>".contains(byte)),
    }
}

/// Returns where a substitution ends that is one pipeline, and its last command; none where it holds more than plain words,
/// or may.
fn last_of_pipeline(inside: &[u8]) -> Option<(usize, &[u8])> {
    let (mut at, mut start, mut quote) = (0, 0, None);
    while let Some(byte) = inside.get(at) {
        match (quote, byte) {
            (Some(open), byte) if *byte == open => quote = None,
            (Some(b'"'), b'$' | b'`' | b'\\' | b'!') => return None,
            (Some(_), _) => {}
            (None, b'\'' | b'"') => quote = Some(*byte),
            (None, b'$' | b'`' | b'\\' | b'(' | b'{' | b'#' | b';' | b'&' | b'\n' | b'!') => {
                return None;
            }
            (None, b'|') if inside.get(at + 1) == Some(&b'|') => return None,
            (None, b'|') => start = at + 1,
            (None, b')') => return Some((at, inside.get(start..at)?)),
            (None, _) => {}
        }
        at += 1;
    }
    None
}

/// Says whether a text may make something else of the name of a program: a function or an alias.
fn may_be_redefined(text: &[u8], program: &[u8]) -> bool {
    let holds = |word: &[u8]| find_from(text, word, 0).is_some();
    let mut at = 0;
    let mut is_function = false;
    while let Some(found) = find_from(text, program, at) {
        at = found + 1;
        let behind = text.get(found + program.len()..).unwrap_or_default();
        let behind = behind.iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\\' | b'\n'));
        is_function |= behind == Some(&b'(');
    }
    is_function || [&b"function"[..], b"alias", b"BASH_ALIASES"].iter().any(|word| holds(word))
}

/// Says whether bash may give up the line at this expansion.
fn may_fail(braced: &Braced) -> bool {
    let safe: [&[u8]; 13] =
        [b"", b"-", b":-", b"+", b":+", b"#", b"##", b"%", b"%%", b"/", b"//", b"^^", b",,"];
    let operator = braced.operator.as_slice();
    let odd = operator.is_empty() && !braced.operand.segments.is_empty();
    odd || braced.name.is_empty() || braced.prefix == b'!' || !safe.contains(&operator)
}
