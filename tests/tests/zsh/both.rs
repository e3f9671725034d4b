//! Texts in both shells: what the reader takes for the same gives the same.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use stockade_parser::{Limits, Programs, Reason, StartState, Zsh, parse};

use super::{ZSH, has_zsh, text};

/// Returns why zsh may read `line` differently; none if it does not.
fn difference(line: &str) -> Option<String> {
    let zsh = Some(Zsh { version: (5, 9), clean_start: true });
    let start = StartState { zsh, ..StartState::default() };
    let tree = parse(line.as_bytes(), &start, Programs::builtin(), &Limits::default()).confirm(&[]);
    let found = tree.opaque_spans().iter().find(|it| it.reason == Reason::Zsh);
    found.map(|it| it.detail.clone())
}

/// Effects of a shell: status, output, and the files of its directory.
#[derive(Debug, PartialEq, Eq)]
struct Done {
    status: Option<i32>,
    out: String,
    files: BTreeMap<PathBuf, String>,
}

/// Returns a directory with a program that prints its words, and some files; so deep that no text leaves `folder`.
fn scenery(folder: &Path) -> PathBuf {
    let _ = fs::remove_dir_all(folder); // nothing is there at first
    let folder = folder.join("a/b/c/d/e");
    fs::create_dir_all(folder.join("sub/deep")).expect("directories");
    fs::create_dir_all(folder.join("bin")).expect("a directory");
    std::os::unix::fs::symlink("sub/deep", folder.join("link")).expect("a link");
    for name in ["f", "1", "1-2", "a b", "word"] {
        fs::write(folder.join(name), format!("{name}\n")).expect("a file");
    }
    let show = folder.join("bin/show");
    fs::write(&show, "#!/bin/sh\nprintf '<%s>' \"$@\"; printf '\\n'\n").expect("a program");
    fs::set_permissions(show, fs::Permissions::from_mode(0o755)).expect("a mode");
    folder
}

/// Each shell has its own words for a failure, and of a redirection that fails it says them before or behind another one.
fn said(bytes: &[u8]) -> String {
    let all = text(bytes);
    let lines = all.split_inclusive('\n').map(|line| {
        let start = line.find("bash: line ").or_else(|| line.find("zsh:"));
        line.split_at(start.unwrap_or(line.len())).0.to_owned()
    });
    lines.collect()
}

fn files(folder: &Path, found: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).expect("a directory").flatten() {
        let path = entry.path();
        match entry.file_type().expect("a type").is_dir() {
            true => files(&path, found),
            false => drop(found.insert(path.clone(), said(&fs::read(&path).unwrap_or_default()))),
        }
    }
}

fn done(words: &[&str], line: &str, folder: &Path) -> Done {
    let start = scenery(folder);
    let mut command = Command::new(words.first().expect("a shell"));
    command.args(words.iter().skip(1)).arg(line).current_dir(&start).env_clear();
    let search = format!("{}/bin:/usr/bin:/bin", start.display());
    command.env("PATH", search).env("HOME", &start).env("LC_ALL", "C.UTF-8");
    let output = command.stdin(Stdio::null()).output().expect("a shell");
    let mut found = BTreeMap::new();
    files(folder, &mut found);
    Done { status: output.status.code(), out: said(&output.stdout), files: found }
}

fn agree(line: &str, folder: &Path) {
    let bash = done(&["bash", "--noprofile", "--norc", "-c"], line, folder);
    let zsh = done(&[ZSH, "-f", "-c"], line, folder);
    assert_eq!(bash, zsh, "{line:?}");
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("zsh-{name}"));
    fs::create_dir_all(&folder).expect("a directory");
    folder.canonicalize().expect("a path")
}

/// Texts of the part that both read alike.
const ALIKE: &[&str] = &[
    "show a b-c d_e ./f /g x:y @a b% +c 1,2",
    "show --opt=value -x=1 a=b a==b x/y=z",
    "show 'a  b' \"c  d\" e'f'\"g\" '' 'it'\"'\"'s' '$x `y` \\n !z *'",
    "show 'line\nfeed\tand tab' \"é ü\"",
    "show a | cat | cat",
    "show a |\n cat\n\n\nshow b ;\nshow c;",
    "true && show yes || show no; false && show yes || show no",
    "show a > out; show b >> out; cat < out | wc -l; show 2 2>&1; show c 2> err",
    "show a > out 2>&1; cat out",
    "cat nosuch 2> err || show no",
    "cat nosuch 2>&1 | wc -l",
    "cat < nosuch 2> err; show on; true < nosuch || show no",
    "show a >'x y'; cat 'x y'",
    "show foo2>out; cat out",
    "echo a 'b  c' -n d; echo -n x; echo; echo 'a%s é'; echo ''",
    "printf '%s\\n' a 'b c' -d; printf '%s' x",
    "cd sub && pwd; cd deep; pwd; cd ../..; pwd; cd link; pwd; cd ..; pwd",
    "cd nosuch 2> err || show no; pwd; cd; pwd",
    "test -f f && show file; test -d f || show no; test -e nosuch || show no; test -L link; test -s f",
    "exit 3; show never",
    "false; exit",
    "no-such-program || show no; ./nosuch; sub/",
    ": a b; pwd; false a",
    "sh -c 'kill -TERM $$'; show on",
    "show if then done end foreach repeat typeset export 1 2",
    "",
    " \n ",
];

/// Texts just outside of it, and a part of what is said of each.
const OUTSIDE: &[(&str, &str)] = &[
    ("show *", "a pattern (`*`)"),
    ("show a?", "a pattern (`?`)"),
    ("show [ab]", "a pattern (`[`)"),
    ("show ~", "a pattern (`~`)"),
    ("show a^b", "a pattern (`^`)"),
    ("show =ls", "`=`"),
    ("show %1", "`%`"),
    ("show {a,b}", "`{`"),
    ("show a#b", "`#`"),
    ("show a # b", "`#`"),
    ("show !x", "`!`"),
    ("show \"!x\"", "`!`"),
    ("show \"a\\b\"", "`\\`"),
    ("show a\\ b", "`\\`"),
    ("show $x", "an expansion"),
    ("show \"$x\"", "an expansion"),
    ("show `x`", "a command substitution"),
    ("(show)", "`(`"),
    ("show é", "a character that is not plain"),
    ("show a\r", "a character that is not plain"),
    ("show 'a\x01'", "a control character"),
    ("show &", "in the background"),
    ("show |& cat", "in the background"),
    ("x=1", "an assignment"),
    ("x=1 show", "an assignment"),
    ("'show' a", "a name that is not plain"),
    ("- show", "a name that is not plain"),
    ("> out", "in front of a command"),
    ("> out show", "in front of a command"),
    ("show > a > b", "two redirections"),
    ("show 2> a 2>&1", "two redirections"),
    ("show > a | cat", "besides a pipe"),
    ("show | cat < f", "besides a pipe"),
    ("show <1-2> out", "a number right behind `<`"),
    ("show 3> f", "of this descriptor"),
    ("show 1>f", "of this descriptor"),
    ("show >| f", "this redirection"),
    ("show >& f", "in the background, or this operator"),
    ("show <<< f", "this redirection"),
    ("show << f\nf", "this redirection"),
    ("show > /dev/tcp/localhost/1", "a device"),
    ("show > -f", "this file"),
    ("time show", "`time`"),
    ("repeat 2 show", "`repeat`"),
    ("noglob show", "`noglob`"),
    ("print a", "`print`"),
    ("r", "`r`"),
    ("which ls", "`which`"),
    ("run-help ls", "`run-help`"),
    ("export A=1", "`export`"),
    ("eval 'show a'", "`eval`"),
    ("source f", "`source`"),
    ("set -e", "`set`"),
    ("exec show", "`exec`"),
    ("echo -e a", "`echo` with these operands"),
    ("echo -n -e a", "`echo` with these operands"),
    ("echo - a", "`echo` with these operands"),
    ("echo 'a\\n'", "`echo` with these operands"),
    ("printf '%d' 1", "`printf` with these operands"),
    ("cd -", "`cd` with these operands"),
    ("cd +1", "`cd` with these operands"),
    ("cd a b", "`cd` with these operands"),
    ("cd nosuch/..", "`cd` with these operands"),
    ("cd ''", "`cd` with these operands"),
    ("exit 1+1", "`exit` with these operands"),
    ("exit 010", "`exit` with these operands"),
    ("show | cd sub", "`cd` in a pipeline"),
    ("show | exit 3", "`exit` in a pipeline"),
    ("test -n a", "`test` with these operands"),
    ("show;;", "no command"),
    ("; show", "no command"),
    ("show &&", "does not end"),
    ("show 'a", "stays open"),
];

#[test]
fn texts_of_the_common_part_do_the_same_in_both() {
    if !has_zsh("texts_of_the_common_part_do_the_same_in_both") {
        return;
    }
    let folder = folder("table");
    for line in ALIKE {
        assert_eq!(difference(line), None, "{line:?}");
        agree(line, &folder);
    }
    fs::remove_dir_all(folder).expect("it goes");
}

#[test]
fn texts_outside_of_the_common_part_are_unknown() {
    for (line, part) in OUTSIDE {
        let told = difference(line).unwrap_or_default();
        assert!(told.contains(part), "{line:?}: {told:?}");
    }
    let zsh = |version, clean_start| StartState {
        zsh: Some(Zsh { version, clean_start }),
        ..StartState::default()
    };
    for (start, part) in [
        (zsh((5, 10), true), "zsh 5.10 is not modelled"),
        (zsh((4, 3), true), "zsh 4.3 is not modelled"),
        (zsh((5, 9), false), "the file that zsh always reads defines something"),
    ] {
        let tree = parse(b"true", &start, Programs::builtin(), &Limits::default()).confirm(&[]);
        let details: Vec<&str> = tree.opaque_spans().iter().map(|it| it.detail.as_str()).collect();
        assert!(details.contains(&part), "{details:?}");
    }
}

/// Pieces of texts: those of the common part, and those beside it.
const PIECES: &[&str] = &[
    "show",
    "show",
    "show",
    " ",
    " ",
    " ",
    " ",
    " a",
    " word",
    " f",
    " 1",
    " 1-2",
    " 2",
    "2",
    " -n",
    " '",
    "'",
    " 'x y'",
    "\"",
    " \"x  y\"",
    "=",
    "=b",
    " =f",
    "%",
    "+",
    "-",
    ":",
    ",",
    "@",
    "sub/",
    ".",
    "..",
    " |",
    " | show",
    " | cat",
    " && ",
    " || ",
    ";",
    "; ",
    "\n",
    "&",
    " > out",
    " >out",
    ">out",
    " >> out",
    " < f",
    " <1-2",
    ">",
    "<",
    " 2> err",
    " 2>&1",
    " 2>out",
    "#",
    "~",
    "^",
    "!",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "*",
    "?",
    "$",
    "\\",
    "`",
    "\t",
    "é",
    "'é'",
    "echo",
    "echo ",
    "echo -n",
    "true",
    "false",
    "cd sub",
    "cd ..",
    "cd link",
    "pwd",
    "exit 3",
    "exit",
    "test -f",
    " sub",
    " nosuch",
    "printf '%s\\n'",
    "cat",
    " end",
    " done",
    "then",
    " %",
    "''",
    "1>",
    "2>",
    " 'a\nb'",
    "bin/show",
    "no-such",
];

/// A generator of numbers whose run a seed repeats (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// `STOCKADE_ZSH_SEED` starts elsewhere, `STOCKADE_ZSH_TEXTS` runs another number of texts.
fn told(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(usual)
}

#[test]
fn random_texts_that_are_taken_for_the_same_do_the_same() {
    if !has_zsh("random_texts_that_are_taken_for_the_same_do_the_same") {
        return;
    }
    let folder = folder("random");
    let mut numbers = Numbers(told("STOCKADE_ZSH_SEED", 0x5eed).max(1));
    let (mut same, wanted) = (0, told("STOCKADE_ZSH_TEXTS", 300));
    while same < wanted {
        let count = 1 + numbers.below(9);
        let pieces = (0..count).map(|_| PIECES.get(numbers.below(PIECES.len())).expect("a piece"));
        let line: String = pieces.copied().collect();
        // The parser of bash itself rejects texts that bash does not take.
        let valid =
            Command::new("bash").args(["-n", "-c", "--", &line]).stderr(Stdio::null()).status();
        if difference(&line).is_none() && valid.is_ok_and(|it| it.success()) {
            agree(&line, &folder);
            same += 1;
        }
    }
    fs::remove_dir_all(folder).expect("it goes");
}

#[test]
fn the_table_has_each_name_of_the_zsh_and_the_bash_of_this_machine() {
    if !has_zsh("the_table_has_each_name_of_the_zsh_and_the_bash_of_this_machine") {
        return;
    }
    let names =
        "print -l ${(k)builtins} ${(k)reswords} ${(k)aliases} ${(k)galiases} ${(k)functions}";
    let zsh = Command::new(ZSH).args(["-fc", names]).output().expect("zsh").stdout;
    let bash = Command::new("bash").args(["-c", "compgen -b; compgen -k"]).output().expect("bash");
    // Each is another one in the text, by its name alone.
    let has_form = ["cd", "echo", "exit", "false", "printf", "pwd", "test", "true", ":"];
    let missing: Vec<String> = [text(&zsh), text(&bash.stdout)]
        .concat()
        .lines()
        .filter(|name| !has_form.contains(name) && difference(name).is_none())
        .map(str::to_owned)
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}
