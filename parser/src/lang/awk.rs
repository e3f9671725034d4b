//! awk programs: which files they read and write, and what they run (POSIX awk, the gawk 5 manual, and the lexers of gawk,
//! mawk, the one true awk and busybox).
//!
//! Strict: pipes, `system`, indirect calls and directives that load code may do anything, and so may a text that these
//! implementations could split into tokens in different ways.

use super::{Between, Findings};

/// Words that start programs or load code in one of the implementations.
const CODE: [&[u8]; 2] = [b"system", b"extension"];

/// Reads an awk program.
pub(crate) fn scan(program: &[u8]) -> Findings {
    let mut tokens = Vec::new();
    // A program that ends where a line goes on does so in the next one (`-e`).
    let read = lex(program, &mut tokens);
    let end = tokens.len() - usize::from(tokens.last() == Some(&Token::Sign(b'\n')));
    if read.is_none() || continues(&tokens, end) {
        return Findings { network: true, ..Findings::anything() };
    }
    let mut findings = Findings::default();
    // Inside the arguments of print, `>` writes unless it stands in parentheses.
    let (mut print, mut depth) = (false, 0_u32);
    for (at, token) in tokens.iter().enumerate() {
        let next = tokens.get(at + 1);
        match token {
            Token::Name(name) if CODE.contains(&name.as_slice()) => {
                system(&mut findings, &tokens, at)
            }
            Token::Name(name) if name == b"print" || name == b"printf" => {
                (print, depth) = (true, 0)
            }
            Token::Sign(b'|') => pipe(&mut findings, &tokens, at),
            Token::Sign(b'@') => findings.may_execute = true,
            Token::Sign(b'(') => depth = depth.saturating_add(1),
            Token::Sign(b')') => depth = depth.saturating_sub(1),
            // Behind these a line goes on.
            Token::Sign(b'\n') if continues(&tokens, at) => {}
            Token::Sign(b';' | b'\n' | b'}') => (print, depth) = (false, 0),
            Token::Sign(b'>') if print && depth == 0 => {
                file(&mut findings, Access::Write, next, tokens.get(at + 2))
            }
            Token::Sign(b'<') if follows_getline(&tokens, at) => {
                file(&mut findings, Access::Read, next, tokens.get(at + 2));
            }
            Token::Name(_)
            | Token::Text(_)
            | Token::Number
            | Token::Regex
            | Token::Operator
            | Token::Step
            | Token::Sign(_) => {}
        }
    }
    // A program can add files to be read, or assignments, through ARGV; gawk reaches it through SYMTAB too.
    let arguments: [&[u8]; 3] = [b"ARGV", b"ARGC", b"SYMTAB"];
    let names =
        |token: &Token| matches!(token, Token::Name(name) if arguments.contains(&name.as_slice()));
    findings.may_read |= tokens.iter().any(names);
    // gawk gives what it starts the environment that the program made.
    let environment: [&[u8]; 2] = [b"ENVIRON", b"SYMTAB"];
    let changes = |token: &Token| matches!(token, Token::Name(name) if environment.contains(&name.as_slice()));
    findings.may_execute |= !findings.executes.is_empty() && tokens.iter().any(changes);
    findings
}

/// Says whether the statement may go on behind the line feed at `at`.
///
/// busybox goes on behind every operator (`findprog` and `next_token` of its awk.c 1.35), the others behind a few.
fn continues(tokens: &[Token], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| tokens.get(before));
    match before {
        Some(Token::Operator) => true,
        Some(Token::Sign(sign)) => !b")]}{;\n".contains(sign),
        Some(Token::Name(name)) => name == b"in" || name == b"getline",
        Some(Token::Text(_) | Token::Number | Token::Regex | Token::Step) | None => false,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Name(Vec<u8>),
    /// A string; none if it has escapes that matter.
    Text(Option<Vec<u8>>),
    Number,
    /// A regular expression.
    Regex,
    /// An operator of two signs.
    Operator,
    /// `++` or `--`.
    Step,
    Sign(u8),
}

/// `system("text")` with one literal is known; everything else is not.
fn system(findings: &mut Findings, tokens: &[Token], at: usize) {
    let call = tokens.get(at + 1..at + 4).unwrap_or_default();
    if let [Token::Sign(b'('), Token::Text(Some(text)), Token::Sign(b')')] = call {
        findings.executes.push(text.clone());
    } else {
        findings.may_execute = true;
    }
}

/// `"text" | getline` and `print | "text"`; `||` is not a pipe.
fn pipe(findings: &mut Findings, tokens: &[Token], at: usize) {
    let before = |back: usize| at.checked_sub(back).and_then(|place| tokens.get(place));
    let opens = match before(2) {
        None | Some(Token::Sign(b';' | b'{' | b'}' | b'(')) => true,
        Some(Token::Sign(b'\n')) => !continues(tokens, at - 2),
        Some(_) => false,
    };
    let getline = matches!(tokens.get(at + 1), Some(Token::Name(name)) if name == b"getline");
    let ends = matches!(tokens.get(at + 2), None | Some(Token::Sign(b';' | b'\n' | b'}')));
    let text = |token: Option<&Token>| {
        let Some(Token::Text(text)) = token else { return None };
        text.clone()
    };
    let behind = text(tokens.get(at + 1)).filter(|_| ends);
    match behind.or_else(|| text(before(1)).filter(|_| opens && getline)) {
        Some(text) => findings.executes.push(text),
        None => findings.may_execute = true,
    }
}

/// Direction of a redirection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

fn file(findings: &mut Findings, access: Access, name: Option<&Token>, behind: Option<&Token>) {
    let ends = matches!(behind, None | Some(Token::Sign(b';' | b'\n' | b'}' | b')')));
    if ends && let Some(Token::Text(Some(name))) = name {
        if name.starts_with(b"/inet") {
            findings.network = true;
        } else if name == b"/dev/stdout" || name == b"/dev/stderr" || name == b"-" {
        } else if access == Access::Write {
            findings.writes.push(name.clone());
        } else {
            findings.reads.push(name.clone());
        }
    } else if access == Access::Write {
        (findings.may_write, findings.network) = (true, true);
    } else {
        (findings.may_read, findings.network) = (true, true);
    }
}

/// Says whether the `<` at `at` gives getline its file: `getline < f`, `getline x < f`, `getline a[i] < f`.
fn follows_getline(tokens: &[Token], at: usize) -> bool {
    let ends = |place: usize, token: &Token| match token {
        Token::Sign(b'\n') => !continues(tokens, place),
        Token::Sign(sign) => b";{}".contains(sign),
        Token::Name(_)
        | Token::Text(_)
        | Token::Number
        | Token::Regex
        | Token::Operator
        | Token::Step => false,
    };
    let before = tokens.iter().enumerate().take(at).rev();
    before
        .take_while(|(place, token)| !ends(*place, token))
        .any(|(_, token)| matches!(token, Token::Name(name) if name == b"getline"))
}

fn lex(text: &[u8], tokens: &mut Vec<Token>) -> Option<()> {
    let mut at = 0;
    while let Some(byte) = text.get(at).copied() {
        let rest = text.get(at..).unwrap_or_default();
        let (token, length) = match byte {
            b' ' | b'\t' | b'\r' => (None, 1),
            b'\\' if rest.get(1) == Some(&b'\n') => (None, 2),
            b'#' => (None, rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let length = rest
                    .iter()
                    .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
                    .count();
                (Some(Token::Name(rest.get(..length).unwrap_or_default().to_vec())), length)
            }
            b'0'..=b'9' | b'.' => (Some(Token::Number), number(rest)?),
            b'"' => {
                let (text, length) = string(rest)?;
                (Some(Token::Text(text)), length)
            }
            b'/' if division(tokens)? => (Some(Token::Sign(b'/')), 1),
            b'/' => (Some(Token::Regex), super::past(rest, 1, b'/', Between::Regex)?),
            b'|' if rest.get(1) == Some(&b'|') => (Some(Token::Operator), 2),
            b'>' | b'<' if rest.get(1) == Some(&b'=') => (Some(Token::Operator), 2),
            b'>' if rest.get(1) == Some(&b'>') => (Some(Token::Sign(b'>')), 2),
            b'+' | b'-' if rest.get(1) == Some(&byte) => (Some(Token::Step), 2),
            b'!' | b'$' | b'%' | b'&' | b'(' | b')' | b'*' | b'+' | b',' | b'-' | b':' | b';'
            | b'<' | b'=' | b'>' | b'?' | b'@' | b'[' | b']' | b'^' | b'{' | b'|' | b'}' | b'~'
            | b'\n' => (Some(Token::Sign(byte)), 1),
            _ => return None,
        };
        // More line feeds say no more than one.
        let again = token == Some(Token::Sign(b'\n')) && tokens.last() == token.as_ref();
        tokens.extend(token.filter(|_| !again));
        at += length;
    }
    Some(())
}

/// Returns the length of the number with which `text` begins: decimal with fraction and exponent, octal or hexadecimal.
///
/// None if a letter, digit or point follows: awks end the number at different places, and what is behind it is a name,
/// such as `system`, to some.
fn number(text: &[u8]) -> Option<usize> {
    let count = |from: usize, is: fn(&u8) -> bool| {
        text.get(from..).unwrap_or_default().iter().take_while(|byte| is(byte)).count()
    };
    let length = if text.starts_with(b"0x") || text.starts_with(b"0X") {
        2 + Some(count(2, u8::is_ascii_hexdigit)).filter(|digits| *digits > 0)?
    } else {
        let whole = count(0, u8::is_ascii_digit);
        let point = usize::from(text.get(whole) == Some(&b'.'));
        let fraction = if point == 1 { count(whole + 1, u8::is_ascii_digit) } else { 0 };
        Some(whole + fraction).filter(|digits| *digits > 0)?;
        let mantissa = whole + point + fraction;
        let sign = usize::from(matches!(text.get(mantissa + 1), Some(b'+' | b'-')));
        match (text.get(mantissa), count(mantissa + 1 + sign, u8::is_ascii_digit)) {
            (Some(b'e' | b'E'), digits) if digits > 0 => mantissa + 1 + sign + digits,
            _ => mantissa,
        }
    };
    let goes_on = |byte: &u8| byte.is_ascii_alphanumeric() || b"._".contains(byte) || *byte >= 0x80;
    (!text.get(length).is_some_and(goes_on)).then_some(length)
}

/// Says whether a slash behind `tokens` divides; none if that cannot be told.
fn division(tokens: &[Token]) -> Option<bool> {
    match tokens.last() {
        None => Some(false),
        Some(Token::Sign(b']') | Token::Text(_) | Token::Number) => Some(true),
        Some(Token::Sign(b')')) => condition_ends(tokens).then_some(true),
        // Behind `++` and `--` it may be either.
        Some(Token::Sign(b'+' | b'-' | b'$') | Token::Step | Token::Regex) => None,
        // Behind these it divides for some and begins an expression for others.
        Some(Token::Name(name)) if name == b"getline" || name == b"length" => None,
        Some(Token::Sign(_) | Token::Operator) => Some(false),
        Some(Token::Name(name)) => {
            let keyword: [&[u8]; 11] = [
                b"print", b"printf", b"return", b"in", b"if", b"while", b"do", b"else", b"case",
                b"exit", b"delete",
            ];
            Some(!keyword.contains(&name.as_slice()))
        }
    }
}

/// Says whether the closing parenthesis at the end belongs to a value, not to `if`, `while` or `for`.
fn condition_ends(tokens: &[Token]) -> bool {
    let mut depth = 0_u32;
    for (at, token) in tokens.iter().enumerate().rev() {
        match token {
            Token::Sign(b')') => depth += 1,
            Token::Sign(b'(') => depth = depth.saturating_sub(1),
            Token::Name(_)
            | Token::Text(_)
            | Token::Number
            | Token::Regex
            | Token::Operator
            | Token::Step
            | Token::Sign(_) => {}
        }
        if depth == 0 {
            let before = at.checked_sub(1).and_then(|before| tokens.get(before));
            let keyword: [&[u8]; 4] = [b"if", b"while", b"for", b"getline"];
            return !matches!(before, Some(Token::Name(name)) if keyword.contains(&name.as_slice()));
        }
    }
    false
}

/// Returns the string with which `text` begins, if all awks read it alike, and its length.
fn string(text: &[u8]) -> Option<(Option<Vec<u8>>, usize)> {
    let (mut value, mut plain) = (Vec::new(), true);
    let mut at = 1;
    loop {
        match text.get(at).copied()? {
            b'"' => return Some((plain.then_some(value), at + 1)),
            b'\n' => return None,
            b'\\' => {
                match text.get(at + 1) {
                    Some(byte @ (b'"' | b'\\')) => value.push(*byte),
                    Some(b'n') => value.push(b'\n'),
                    Some(b't') => value.push(b'\t'),
                    Some(_) | None => plain = false,
                }
                at += 2;
            }
            byte => {
                value.push(byte);
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(program: &str, expected: &str) {
        let found = scan(program.as_bytes());
        let list = |name: &str, items: &[Vec<u8>]| {
            items
                .iter()
                .map(|item| format!("{name} {} ", String::from_utf8_lossy(item)))
                .collect::<String>()
        };
        let flag = |name: &str, set: bool| if set { format!("{name}? ") } else { String::new() };
        let text = [
            list("run", &found.executes),
            list("write", &found.writes),
            list("read", &found.reads),
            flag("run", found.may_execute),
            flag("write", found.may_write),
            flag("read", found.may_read),
            flag("network", found.network),
        ]
        .concat();
        assert_eq!(text.trim_end(), expected, "{program}");
    }

    #[test]
    fn common_programs_do_nothing_else() {
        for program in [
            "{print $1}",
            "$3 > 5 {print $2, $1}",
            "BEGIN{FS=\",\"} NR>1 {s+=$2} END{printf \"%d\\n\", s/NR}",
            "/foo/ || /bar/",
            "!seen[$0]++",
            "{a[$1]++} END{for (k in a) print k, a[k]}",
            "{print (a > b) ? 1 : 2}",
            "{ if ($1 >= 3) print $1/2, (a + b)/2 }",
            "{gsub(/[^a-z]/, \"\"); print length($0)}",
            "while ((getline line) > 0) n++",
            "{ print \"a\" # x | y\n }",
            "{ print $1*1.5e-3 + .5 + 0x1F + 1. + 2E+6 }",
            "BEGIN { print ENVIRON[\"HOME\"] }",
            "{ print $1,\n  $2 }",
        ] {
            check(program, "");
        }
    }

    #[test]
    fn what_runs_writes_and_reads_is_found() {
        check("BEGIN{system(\"id\")}", "run id");
        check("BEGIN{system(\"id \" x)}", "run?");
        check("BEGIN{system (\"a\\\"b\")}", "run a\"b");
        check("BEGIN{system(\"a\\052b\")}", "run?");
        check("BEGIN{print > \"a\\tb\\/\"}", "write? network?");
        check("{print | \"sort\"}", "run sort");
        check("{print | \"sort \" x}", "run?");
        check("BEGIN{\"date\" | getline d}", "run date");
        check("BEGIN{while ((\"ls\" | getline f) > 0) n++}", "run ls");
        check("BEGIN{c \"date\" | getline d}", "run?");
        check("BEGIN{\"a\" \"b\" | getline d}", "run?");
        check("BEGIN{print 1,\n2 > \"out\"}", "write out");
        check("BEGIN{print 1 ||\n2 > \"out\"}", "write out");
        // busybox goes on behind every operator.
        check("BEGIN{x = y **\n\"id\" | getline}", "run?");
        check("BEGIN{print 1 +\n2 > \"out\"}", "write out");
        check("BEGIN{getline\n< \"in\"}", "read in");
        check("BEGIN{x++\n\"id\" | getline}", "run id");
        check("BEGIN{x = y\n\"id\" | getline}", "run id");
        check("BEGIN{ENVIRON[\"PATH\"]=\"x\"; system(\"id\")}", "run id run?");
        check("BEGIN{print $1 system(\"id\")}", "run id");
        check("{print > \"out\"}", "write out");
        check("{print >> \"out\"; x}", "write out");
        check("{print > $1}", "write? network?");
        check("{print > \"a\" $1}", "write? network?");
        check("{getline x < \"in\"}", "read in");
        check("{while ((getline x < f) > 0) n++}", "read? network?");
        check("BEGIN{print > \"/inet/tcp/0/h/80\"}", "network?");
        check("@load \"x\"", "run?");
        check("{f=\"system\"; @f(\"id\")}", "run?");
        check("{print 1 |& \"sh\"}", "run?");
        check("BEGIN{ARGV[1]=\"/etc/shadow\"}", "read?");
        check("BEGIN{SYMTAB[\"ARGV\"][1]=\"/etc/shadow\"}", "read?");
    }

    #[test]
    fn what_is_not_understood_may_do_anything() {
        for program in [
            "{print \"a",
            "/a[\\]b]/",
            "`",
            "a++ /b/ c",
            "{print /x",
            "{if (1) /\"/; system(\"id\")}",
            "{switch (x) {case /\"/: system(\"id\"); y = \"/",
            "BEGIN{1system(\"id\")}",
            "BEGIN{1e5system(\"id\")}",
            "BEGIN{1e+5system(\"id\")}",
            "BEGIN{1esystem(\"id\")}",
            "BEGIN{.5system(\"id\")}",
            "BEGIN{1.system(\"id\")}",
            "BEGIN{1..5system(\"id\")}",
            "BEGIN{$1system(\"id\")}",
            "BEGIN{0x1system(\"id\")}",
            "BEGIN{0xsystem(\"id\")}",
            "BEGIN{0x1p3system(\"id\")}",
            "BEGIN{011system(\"id\")}",
            "BEGIN{1_system(\"id\")}",
            "BEGIN{print 1,\n",
            "{length /\"/; system(\"id\"); x = \"/\"}",
            "{getline /\"/; system(\"id\"); x = \"/\"}",
        ] {
            assert!(scan(program.as_bytes()).may_execute, "{program}");
        }
    }
}
