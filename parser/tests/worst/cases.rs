//! Texts that are built to cost much: one for each idea of a quadratic or exponential cost.

/// Parts that are repeated until the text is long enough.
const REPEATED: &[(&str, &str)] = &[
    ("commands", "a;"),
    ("commands in lines", "ls -l\n"),
    ("a script", "if test -f \"$f\"; then\n  sort -u \"$f\" | head -n 3 > out.txt\nfi\n"),
    ("openers of expansions", "${"),
    ("commands in one pipe", "a|"),
    ("commands in background", "a&"),
    ("alternatives", "a||"),
    ("conditions", "a&&"),
    ("wrappers", "nice "),
    ("wrappers with options", "env -i A=1 "),
    ("evaluators", "eval "),
    ("evaluated commands", "eval ls;"),
    ("evaluated texts", "bash -c 'a;b';"),
    ("program names by path", "/usr/bin/git status;"),
    ("options", "-a -b --c "),
    ("elements", "a[1]=2\n"),
    ("elements in one line", "a[1]=2 "),
    ("elements with names", "a[i]=$b;"),
    ("assignments", "a=1 "),
    ("assignment lines", "a=1\n"),
    ("growing values", "a=$a$a;"),
    ("appended values", "a+=b;"),
    ("directories", "cd a;"),
    ("functions", "f() { a; };"),
    ("uses of values", "a=b;c $a;"),
    ("substitutions", "$(a) "),
    ("backquotes", "`a` "),
    ("openers of substitutions", "$("),
    ("openers of backquotes", "`"),
    ("openers of arithmetic", "$(("),
    ("openers of subshells", "("),
    ("openers of double subshells", "(("),
    ("openers of parameters", "${x:-"),
    ("openers of quoted substitutions", "\"$("),
    ("openers of quoted parameters", "\"${x:-"),
    ("openers of brackets", "$["),
    ("openers of subscripts", "a["),
    ("openers of tests", "[[ a "),
    ("openers of groups in tests", "[[ ( "),
    ("openers of arrays", "a=("),
    ("openers of processes", "<("),
    ("openers of braces", "{"),
    ("lists in braces", "{a,"),
    ("braces", "{a,b}"),
    ("ranges", "{1..9}"),
    ("groups", "{ "),
    ("branches", "if "),
    ("loops", "while a; do "),
    ("loops over words", "for a in b; do "),
    ("cases", "case a in b) "),
    ("functions in functions", "f() { "),
    ("here-documents in one line", "<<a "),
    ("here-documents that never end", "a <<b\n"),
    ("here-documents", "a <<b\nc\nb\n"),
    ("here-documents in substitutions", "$(a <<b\n"),
    ("here-strings", "a <<<b;"),
    ("redirections", ">a "),
    ("copies of descriptors", "2>&1 "),
    ("single quotes", "'"),
    ("double quotes", "\""),
    ("quoted words", "'a' "),
    ("escapes", "\\a"),
    ("escaped quotes", "$'\\'"),
    ("continuations", "\\\n"),
    ("continuations in names", "a\\\n"),
    ("comments", "#a\n"),
    ("parameters", "$a"),
    ("indirect parameters", "${!a} "),
    ("patterns", "*?[a]"),
    ("extended patterns", "@(a|"),
    ("expressions", "$((a+1)) "),
    ("expressions or subshells", "$((a) )"),
    ("half expressions", "$((a)"),
    ("expressions with calls", "((a[$(b)]));"),
    ("tests", "[[ a =~ b ]];"),
    ("negations", "! "),
    ("times", "time "),
    ("coprocesses", "coproc "),
    ("line feeds", "\n"),
    ("blanks", " "),
    ("letters", "a"),
    ("bytes that are no text", "\u{80}"),
    ("hidden characters", "\u{200b}"),
    ("control bytes", "\u{1}"),
    ("tildes", "~:"),
    ("finders", "find . -exec ls {} \\;\n"),
    ("finders in one line", " -exec a \\;"),
    ("stream editors", "sed -e s/a/b/e;"),
    ("traps", "trap ls EXIT;"),
    ("aliases", "alias a=b;"),
    ("options of the shell", "set -e;"),
    ("sources", ". a;"),
    ("reads", "read a;"),
    ("printf to names", "printf -v a b;"),
    ("unsets", "unset a;"),
];

/// Beginnings, followed by parts that are repeated.
const BEGUN: &[(&str, &str, &str)] = &[
    ("one command with many options", "git log", " -p"),
    ("one command with many words", "ls", " a"),
    ("one finder with many commands", "find .", " -exec a {} \\;"),
    ("one finder with many starts", "find", " a -name b"),
    ("one editor with many scripts", "sed", " -e p"),
    ("one environment with many values", "env", " A=1"),
    ("one array", "a=(", " b"),
    ("one array of pairs", "a=(", " [1]=b"),
    ("one test with many terms", "[[ a", " || a"),
    ("one case with many items", "case a in", " b) c;;"),
    ("one expression", "((a", "+a"),
    ("one index in another", "((a", "[a"),
    ("one bundle", "tar c", "f"),
    ("one unset of many", "unset", " a[1]"),
    ("one declaration of many", "declare", " a=1"),
    ("one export of many", "export", " a=$b"),
    ("one search with many terms", "test a", " -o -v a"),
    ("one loop over many", "for a in", " b"),
    ("one split of many", "env -S '", " a"),
    ("one xargs of many", "xargs -I% sh -c", " %"),
    ("one sudo of many", "sudo", " -u a"),
    ("one pipeline in a loop", "while a; do a", " | b"),
    ("aliases that are used", "shopt -s expand_aliases;", "alias a=b;"),
    ("names that end in a known directory", "cd a;", "b;"),
    ("loops after many values", "a=1;", "a=$a;while a;do a=2;done;"),
    ("one quoted text with many values", "\"", "$a"),
    ("one awk program", "awk '", "{print}"),
    ("one sed program", "sed '", "s/a/b/;"),
    ("one nested text", "bash -c '", "a;"),
    ("one nested text of wrappers", "bash -c '", "nice "),
    ("one backquoted text", "`", "a;"),
    ("many words behind an evaluator", "eval", " a"),
    ("values that double", "a=b;", "a=$a$a;"),
    ("values that grow by appending", "a=b;", "a+=b;"),
    ("directories in directories", "cd a", "&&cd a"),
    (
        "commands in a deep directory",
        concat!(
            "cd aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        ),
        "&&b",
    ),
    (
        "one text behind many wrappers",
        "nice nice nice nice nice nice nice nice nice nice nice nice bash -c '",
        "a;",
    ),
    ("tildes between quotes", "a=", ":~''"),
    ("loops over numbers", "", "for i in 1 "),
    ("positional values", "bash -c '", "$1"),
];

/// Deep nests that are closed again.
const NESTED: &[(&str, &str, &str)] = &[
    ("substitutions", "$(", ")"),
    ("quoted substitutions", "\"$(", ")\""),
    ("subshells", "( ", ")"),
    ("arithmetic", "$((", "))"),
    ("parameters", "${x:-", "}"),
    ("quoted parameters", "\"${x:-", "}\""),
    ("groups", "{ a;", "}\n"),
    ("processes", "<(a ", ")"),
    ("branches", "if a; then ", "; fi"),
    ("loops", "while a; do ", "; done"),
    ("functions", "f() { ", "; }"),
    ("extended patterns", "[[ a == @(", ") ]]"),
    ("subscripts", "${a[", "]}"),
    ("braces", "{a,", "}"),
];

/// Returns nests of each kind, this many levels deep, with their names.
pub fn nests(levels: usize) -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    NESTED.iter().map(move |(name, open, close)| {
        (*name, [&open.repeat(levels), "a", &close.repeat(levels)].concat().into_bytes())
    })
}

/// Returns all texts of about `length` bytes, with their names.
pub fn all(length: usize) -> impl Iterator<Item = (String, Vec<u8>)> {
    let repeated = REPEATED
        .iter()
        .map(move |(name, part)| ((*name).to_owned(), part.repeat(length / part.len().max(1))));
    let begun = BEGUN.iter().map(move |(name, front, part)| {
        let count = (length - front.len()) / part.len();
        ((*name).to_owned(), [*front, &part.repeat(count)].concat())
    });
    let nested = NESTED.iter().flat_map(move |(name, open, close)| {
        let levels = length / (open.len() + close.len());
        let nest = |levels: usize| [&open.repeat(levels), "a", &close.repeat(levels)].concat();
        let shallow = (levels / 900).max(1);
        let many = [nest(900), ";".to_owned()].concat().repeat(shallow);
        [(format!("nest of {name}"), nest(levels)), (format!("nests of {name}"), many)]
    });
    repeated
        .chain(begun)
        .chain(nested)
        .chain(grown(length))
        .map(move |(name, text)| (name, text.into_bytes()))
        .map(move |(name, mut text)| {
            text.truncate(length);
            (name, text)
        })
}

/// Texts whose parts differ.
fn grown(length: usize) -> Vec<(String, String)> {
    let numbered = |name: &str, part: &dyn Fn(usize) -> String| {
        let mut text = String::with_capacity(length + 64);
        let mut number = 0;
        while text.len() < length {
            text.push_str(&part(number));
            number += 1;
        }
        (name.to_owned(), text)
    };
    vec![
        numbered("values of different names", &|n| format!("a{n}=1;")),
        numbered("elements of different names", &|n| format!("a{n}[i{n}]=$b{n};")),
        numbered("functions of different names", &|n| format!("f{n}() {{ f{n}; }};")),
        numbered("names in arithmetic", &|n| format!("((a{n}+b{n}));")),
        numbered("here-documents of different ends", &|n| format!("<<e{n} ")),
        numbered("here-documents of different ends in substitutions", &|n| format!("$(a <<e{n}\n")),
        numbered("directories of different names", &|n| format!("cd a{n};")),
        numbered("values in chains", &|n| format!("a{n}=1&&")),
        numbered("values in alternatives", &|n| format!("a{n}=1||")),
        numbered("unknown programs", &|n| format!("p{n};")),
        numbered("values in loops", &|n| format!("while a; do a{n}=1; ")),
        numbered("values in branches", &|n| format!("if a; then a{n}=1; ")),
        ("long value used often".to_owned(), {
            let value = "a".repeat(length / 2);
            [format!("a={value};b"), " $a".repeat(length / 6)].concat()
        }),
        ("long directory used often".to_owned(), {
            let path = "a".repeat(4_000.min(length / 2));
            [format!("cd {path}"), "&&b".repeat(length / 3)].concat()
        }),
        ("values in a nest of branches".to_owned(), {
            let nest = "if a; then ".repeat((length / 22).min(900));
            let mut text = nest;
            let mut number = 0;
            while text.len() < length {
                text.push_str(&format!("a{number}=1;"));
                number += 1;
            }
            let end = text.len().saturating_sub(900 * 4);
            text.truncate(end);
            text + &";fi".repeat(900)
        }),
        numbered("quoted levels", &|n| if n == 0 { "eval \"" } else { "\\\"" }.to_owned()),
    ]
}
