//! Texts of pieces that mean something to bash's reader, one right beside the other, and real texts, in the places where
//! its rules differ. Damage to real texts seldom puts three pieces together, and never a whole text into another.

use super::corpus::Sample;
use super::damage::Numbers;

/// Pieces.
const PIECES: &[&str] = &[
    "planted x",
    "planted",
    "x",
    " ",
    " ",
    " ",
    "\t",
    "\n",
    "\\\n",
    ";",
    "&",
    "&&",
    "||",
    "|",
    "|&",
    ";;",
    ";&",
    "(",
    ")",
    "((",
    "))",
    "{",
    "}",
    "{ ",
    "; }",
    "'",
    "\"",
    "''",
    "\"\"",
    "`",
    "\\`",
    "\\\\\\`",
    "\\",
    "\\\"",
    "\\'",
    "$",
    "$(",
    "${",
    "$((",
    "$[",
    "[",
    "]",
    "[[ ",
    " ]]",
    "$'",
    "$\"",
    "$$",
    "${x",
    "${x:-",
    "${x#",
    "${x/",
    "${#",
    "${!x",
    "${x@",
    "}",
    ">",
    ">>",
    ">&",
    ">&-",
    "<&-",
    "<&",
    "&>",
    "&>>",
    ">|",
    "<>",
    "<",
    "<<<",
    "<<E",
    "<<-E",
    "<<'E'",
    "\nE\n",
    "\n\tE\n",
    "E",
    "<(",
    ">(",
    "2",
    "10",
    "2>f",
    "{v}>f",
    "{v}",
    ">f",
    "a=",
    "a+=",
    "a=(",
    "a[",
    "]=",
    "a[1]=",
    "=",
    "!",
    "! ",
    "#",
    " #",
    "\n#",
    "?(",
    "!(",
    "@(",
    "*",
    "~",
    "-",
    "--",
    "time ",
    "time -p ",
    "if ",
    "; then ",
    "; fi",
    "for x ",
    "in ",
    "in x; do ",
    "; done",
    "while ",
    "case x in ",
    "x) ",
    ";; esac",
    "esac",
    "select ",
    "function ",
    "f() ",
    "f",
    "coproc ",
    "eval ",
    "declare ",
    "export ",
    "local ",
    "exec ",
    "command ",
    "{a,b}",
    "{a,",
    "{1..2}",
    "..",
    ",",
    ":",
    "'planted x'",
    "\"planted x\"",
    "$(planted x)",
    "`planted x`",
    "<(planted x)",
    "\"$(planted x)\"",
    "${x:-$(planted)}",
    "$((1+$(planted)))",
    "{ planted x; }",
    "(planted x)",
    "; planted x",
    "\nplanted x\n",
    "| planted",
    "bash -c ",
    "sh -c ",
    "x=ls",
    "$x",
    "\"$x\"",
    "x='a b'",
    "set -- ",
    "$1",
    "\"$@\"",
    "%",
    "/",
    "^",
    "0",
    "1",
    "\\x",
    "true",
    "false",
    "shopt -s extglob\n",
    "trap ",
    "unset ",
    "read ",
    "y",
];

/// Places, with `@` where the pieces come.
const PLACES: &[&str] = &[
    "@",
    "ls @",
    "@; planted end",
    "ls \"@\"",
    "ls '@' \"@\"",
    "y=$(@)",
    "ls \"$(@)\"",
    "ls `@`",
    "ls \"`@`\"",
    "ls ${x:-@}",
    "ls \"${x:-@}\"",
    "ls \"${x#@}\"",
    "ls ${x/@/@}",
    "cat <<E\n@\nE\nplanted end",
    "cat <<-E\n\t@\n\tE\nplanted end",
    "cat <<'E'\n@\nE\nplanted end",
    "cat <<E; @\nbody\nE\n@",
    "y=$(cat <<E\n@\nE\n)",
    "(@)",
    "((@))",
    "$((@))",
    "ls $((@))",
    "{ @; }",
    "[[ @ ]]",
    "[[ a == @ ]]",
    "[[ a =~ @ ]]",
    "case @ in @) @;; esac",
    "case x in @",
    "for x in @; do @; done",
    "if @; then @; fi",
    "f() { @; }; f @",
    "a=(@)",
    "a[@]=1",
    "ls a[@] @",
    "declare a=@",
    ">f @",
    "ls >f @",
    "ls >@",
    "ls <@",
    "ls <<@\nbody\nE\nplanted end",
    "eval '@'",
    "bash -c '@'",
    "sh -c '@'",
    "sh -c \"@\"",
    "! @",
    "time @",
    "coproc @",
    "@ | @",
    "x=@; ls $x \"$x\"",
    "x='@'; ls $x \"$x\"",
    "shopt -s extglob\n@\nplanted end",
    "@\n@\nplanted end",
    "ls {@}",
    "ls {a,@}",
    "ls #@\nplanted end",
    "ls <(@)",
    "ls $'@' @",
    "trap '@' EXIT",
    "set -- '@' x; ls $1 \"$@\"",
    "y=`ls \\`@\\``",
];

/// How a real text is written where it is put.
#[derive(Clone, Copy)]
enum Written {
    AsItIs,
    Single,
    Double,
    Backquoted,
}

/// Places for a whole text: what stands before and behind it.
const FRAMES: &[(&str, &str, Written)] = &[
    ("y=$(", "\n)", Written::AsItIs),
    ("ls \"$(", "\n)\"", Written::AsItIs),
    ("ls \"${x:-$(", "\n)}\"", Written::AsItIs),
    ("ls $((1+$(", "\n)))", Written::AsItIs),
    ("cat <(", "\n); planted end", Written::AsItIs),
    ("cat <<ENDE\n$(", "\n)\nENDE\nplanted end", Written::AsItIs),
    ("f() {\n", "\n}; f", Written::AsItIs),
    ("(", "\n); planted end", Written::AsItIs),
    ("true && { ", "\n} || planted end", Written::AsItIs),
    ("case x in x) ", "\n;; esac; planted end", Written::AsItIs),
    ("if ", "\nthen planted end; fi", Written::AsItIs),
    ("for i in 1; do ", "\ndone; planted end", Written::AsItIs),
    ("coproc { ", "\n}; planted end", Written::AsItIs),
    ("planted | { ", "\n} | planted end", Written::AsItIs),
    ("cat <<E1; ", "\nx\nE1\nplanted end", Written::AsItIs),
    ("", "; planted end", Written::AsItIs),
    ("", "\nplanted end", Written::AsItIs),
    ("", " && planted end", Written::AsItIs),
    ("eval ", "; planted end", Written::Single),
    ("eval ", "", Written::Double),
    ("bash -c ", "", Written::Single),
    ("sh -c ", "", Written::Single),
    ("sh -c ", "", Written::Double),
    ("trap ", " EXIT", Written::Single),
    ("y=", "", Written::Backquoted),
];

/// Puts a text of `corpus` into a frame.
pub fn framed(corpus: &[Sample], numbers: &mut Numbers) -> Vec<u8> {
    let text = &numbers.one_of(corpus).text;
    let (before, after, written) = *numbers.one_of(FRAMES);
    let escaped = |bytes: &[u8]| {
        let escape =
            |byte: &u8| if bytes.contains(byte) { vec![b'\\', *byte] } else { vec![*byte] };
        text.iter().flat_map(escape).collect::<Vec<u8>>()
    };
    let inside = match written {
        Written::AsItIs => text.clone(),
        Written::Single => {
            let parts: Vec<&[u8]> = text.split(|byte| *byte == b'\'').collect();
            [b"'".as_slice(), &parts.join(b"'\\''".as_slice()), b"'"].concat()
        }
        Written::Double => [b"\"".as_slice(), &escaped(b"\"\\$`"), b"\""].concat(),
        Written::Backquoted => [b"`".as_slice(), &escaped(b"\\$`"), b"`"].concat(),
    };
    [before.as_bytes(), &inside, after.as_bytes()].concat()
}

/// Makes one text of pieces.
pub fn composed(numbers: &mut Numbers) -> Vec<u8> {
    let mut text = String::new();
    for (number, part) in numbers.one_of::<&str>(PLACES).split('@').enumerate() {
        if number > 0 {
            for _ in 0..=numbers.below(4) {
                text.push_str(numbers.one_of::<&str>(PIECES));
            }
        }
        text.push_str(part);
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_texts() {
        let made = |seed| {
            let mut numbers = Numbers::new(seed);
            (0..20).map(|_| composed(&mut numbers)).collect::<Vec<_>>()
        };
        assert_eq!(made(7), made(7));
        assert_ne!(made(7), made(8));
    }
}
