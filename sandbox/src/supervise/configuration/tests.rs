use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use super::*;
use stockade_spec::{Access, Fallback, Limits, Mediation, Program};
use stockade_spec::{FileRule, Files, Network};

fn spec(refused: &[&str]) -> SandboxSpec {
    let rule = FileRule { path: "/p".into(), access: Access::Write, origin: String::new() };
    let files = Files {
        rules: vec![rule],
        patterns: Vec::new(),
        guarded_names: vec![".guarded".into()],
        git_keys: GitKeys {
            refused: refused.iter().map(OsString::from).collect(),
            free: vec!["*".into()],
            ..GitKeys::default()
        },
        ..Files::default()
    };
    let program = Program {
        path: "/bin/true".into(),
        argv: Vec::new(),
        environment: Vec::new(),
        cwd: "/p".into(),
    };
    SandboxSpec {
        program,
        files,
        network: Network::Off,
        limits: Limits::default(),
        terminal: None,
        required: BTreeSet::new(),
        mediation: Mediation::Writes,
        confine: true,
        fallback: Fallback::Refuse,
    }
}

fn refused(text: &str, keys: &[&str], directory: &str) -> Option<String> {
    let spec = spec(keys);
    Keys::new(&spec).refused(text.as_bytes(), Path::new(directory), &Guard::new(&spec))
}

fn check(text: &str, expected: Option<&str>) {
    let keys = ["core.fsmonitor", "core.worktree", "alias.*", "filter.clean", "include.path"];
    assert_eq!(refused(text, &keys, "/p/.git").as_deref(), expected, "{text}");
}

#[test]
fn ordinary_configuration_is_free() {
    check("", None);
    check(
        "# c\n[core]\n\trepositoryformatversion = 0\n\tbare = false ; x\n[remote \"o\\\"]\"]\n\
         \turl = /a\\\n b\n\tfetch = +refs/heads/*:refs/remotes/o/*\n[branch \"m\"]\n\tremote\n",
        None,
    );
}

#[test]
fn a_refused_key_is_found_however_it_is_written() {
    let fsmonitor = Some("core.fsmonitor");
    check("[core]\nfsmonitor=x", fsmonitor);
    check("[CORE]\n  FsMonitor = x", fsmonitor);
    check("[core] fsmonitor", fsmonitor);
    check("\u{FEFF}[core]\r\n\tfsmonitor = x\r\n", fsmonitor);
    check("[a]\n[core]fsmonitor=x", fsmonitor);
    check("[a] [core] fsmonitor=x", fsmonitor);
    check("[core \"x\"]\nfsmonitor=x", fsmonitor);
    check("[core.x]\nfsmonitor=x", fsmonitor);
    check("[core]\nb = c \\\n[y]\nfsmonitor = x", fsmonitor);
    check("[core]\nb = \"c \\\r\n[y]\"\nfsmonitor = x", fsmonitor);
    check("[core]\n# c \\\nfsmonitor = x", fsmonitor);
    check("[core]\nb = c # \\\nfsmonitor = x", fsmonitor);
    check("[alias]\n\tst = !x", Some("alias.st"));
    check("[filter \"a b\"]\n\tclean = x", Some("filter.clean"));
    check("[include]\n\tpath = x", Some("include.path"));
}

#[test]
fn what_stands_in_a_value_is_no_key() {
    check("[core]\nb = c \\\nfsmonitor = x", None);
    check("[a]\nb = c \\\n[core]\nfsmonitor = x", None);
    check("[a]\nb = \"[core]\\nfsmonitor = x\"", None);
}

#[test]
fn what_is_not_understood_or_in_doubt_is_refused() {
    for text in [
        "[core\nbare=x",
        "key = x",
        "[core]\n= x",
        "[]\na=b",
        "[a]\0\n",
        "[a \"\nb\"]",
        "[a] b ; c",
        "[core]\nx = a \r[y]\nz = b",
        "[core]\n# c \r[y]\nz = b",
        "[a]\rb = c",
        "[a]\nb = \"c\nd = e",
        "[a]\nb = \\x",
        "[a ]\nb = c",
        "[a \"b\" ]\nc = d",
        "\u{EF}[a]\nb = c",
    ] {
        check(text, Some("what git cannot read"));
    }
}

#[test]
fn a_key_of_no_known_section_is_refused() {
    let mut spec = spec(&["core.pager"]);
    spec.files.git_keys.free = ["core.*", "lfs.access"].map(OsString::from).into();
    let (keys, guard) = (Keys::new(&spec), Guard::new(&spec));
    let check = |text: &str, expected: Option<&str>| {
        assert_eq!(
            keys.refused(text.as_bytes(), Path::new("/p/.git"), &guard).as_deref(),
            expected
        );
    };
    check("[core]\nbare = true\n[lfs \"https://x\"]\naccess = basic", None);
    check("[core]\npager = x", Some("core.pager"));
    check("[lfs]\nurl = x", Some("lfs.url"));
    check("[tig]\nbind = x", Some("tig.bind"));
    spec.files.git_keys.free.clear();
    assert!(Keys::new(&spec).refused(b"[core]\nbare", Path::new("/p/.git"), &guard).is_some());
}

#[test]
fn what_was_there_changes_in_harmless_keys_alone() {
    let mut spec = spec(&["branch.mergeOptions"]);
    spec.files.git_keys.changeable = ["branch.*", "user.email"].map(OsString::from).into();
    spec.files.git_keys.addable = ["remote.url", "remote.fetch"].map(OsString::from).into();
    let keys = Keys::new(&spec);
    let old = "[core]\n\tbare = false\n[remote \"o\"]\n\turl = /o\n\turl = /p\n[alias]\n\ta = !x\n";
    let check = |new: &str, expected: Option<&str>| {
        assert_eq!(keys.changed(old.as_bytes(), new.as_bytes()).as_deref(), expected, "{new}");
    };
    let with = |more: &str| format!("{old}{more}");
    check(old, None);
    check("[core]\nbare=false\n[remote \"o\"]\nurl=/o\nurl=/p # c\n[ALIAS]\nA=!x", None);
    check(
        &with("[branch \"m\"]\nremote = o\nmerge = refs/heads/m\n[branch \"n\"]\nremote=.\n"),
        None,
    );
    check(&with("[user]\nemail = a@b"), None);
    check(&with("[remote \"up\"]\nurl = /u\nfetch = +a:b\n[branch \"m\"]\nremote = up"), None);
    check(&with("[remote \"o\"]\nfetch = +a:b"), None);
    // Branches that follow no remote that has a name here, or are dangerous in another way.
    check(&with("[branch \"m\"]\nremote = https://x"), Some("branch.remote"));
    check(&with("[branch \"m\"]\npushRemote = up"), Some("branch.pushremote"));
    check(&with("[branch \"m\"]\nmergeOptions = -s ./x"), Some("branch.mergeoptions"));
    // Anything else: more, other, fewer, in another order.
    check(&with("[core]\nfsmonitor = x"), Some("core.fsmonitor"));
    check(&with("[remote \"o\"]\nurl = /u"), Some("remote.url"));
    check(&with("[remote \"u\"]\npushurl = /u"), Some("remote.pushurl"));
    check(&old.replace("/p", "/q"), Some("remote.url"));
    check(&old.replace("\turl = /p\n", ""), Some("alias.a"));
    check(&old.replace("false", "true"), Some("core.bare"));
    check("[alias]\na=!x\n[core]\nbare=false\n[remote \"o\"]\nurl=/o\nurl=/p", Some("alias.a"));
    check("", Some("core.bare"));
    check("[core", Some(UNREADABLE));
    assert_eq!(keys.changed(b"[core", b"[user]\nemail=a").as_deref(), Some(UNREADABLE));
    // Values that are set already and lead elsewhere may stay.
    let old = "[branch \"m\"]\nremote = https://x\n";
    let new = format!("{old}[branch \"n\"]\nremote = .\n");
    assert_eq!(keys.changed(old.as_bytes(), new.as_bytes()), None);
}

#[test]
fn a_submodule_leads_back_to_its_files_and_nowhere_else() {
    let base = std::env::temp_dir().join(format!("stockade-submodule-{}", std::process::id()));
    std::fs::create_dir_all(base.join("s")).unwrap();
    std::fs::create_dir_all(base.join("a b")).unwrap();
    std::os::unix::fs::symlink("s", base.join("link")).unwrap();
    let base = base.canonicalize().unwrap();
    let mut spec = spec(&["core.worktree"]);
    spec.files.rules =
        vec![FileRule { path: base.clone(), access: Access::Write, origin: String::new() }];
    let guard = Guard::new(&spec);
    let check = |value: &str, directory: &str, is_free: bool| {
        let directory = directory.replace("/p/", &format!("{}/", base.display()));
        let text = format!("[core]\nworktree = {value}");
        let found = Keys::new(&spec).refused(text.as_bytes(), Path::new(&directory), &guard);
        assert_eq!(found.is_none(), is_free, "{value} {directory} {found:?}");
    };
    check("../../../s", "/p/.git/modules/s", true);
    check("\"../../../a b\"", "/p/.git/modules/a b", true);
    check("../../../s", "/p/n/.git", false);
    check("/etc", "/p/.git/modules/s", false);
    check("../../../../s", "/p/.git/modules/s", false);
    check("../../../x/../../etc", "/p/.git/modules/s", false);
    check("../../../.git", "/p/.git/modules/s", false);
    check("../../../n/.git/hooks", "/p/.git/modules/s", false);
    check("../../../.guarded", "/p/.git/modules/s", false);
    check("../../hooks", "/p/.git/modules/s", false);
    check("../../..", "/p/.git/modules/s", false);
    check("../../../link", "/p/.git/modules/s", false);
    check("../../../missing", "/p/.git/modules/s", false);
    std::fs::remove_dir_all(&base).unwrap();
}

/// Pieces that decide how a text is read.
const PIECES: &[&str] = &[
    "[core]",
    "[a.B \"c\"]",
    "[x \"y\\\"]\"]",
    "[Y.z]",
    "[",
    "]",
    "\"",
    "\\",
    "\n",
    "\r\n",
    "\r",
    " ",
    "\t",
    "=",
    "#",
    ";",
    "fsmonitor",
    "a",
    "\\n",
    "\\\"",
    "\\\\",
    "\u{FEFF}",
    "\u{EF}",
    ".",
    "-",
    "1",
    "\u{B}",
    "é",
    "\0",
    "\nk = ",
    // Whole lines, so that many a text can be read.
    "\n[core]\n",
    "\nKey-1 = v\n",
    "\nx = a \\\n",
    "\nb = \"q \\\n[y]\" w\r\n",
    "\n# c \\\n",
    "\nt = u ; c \\\n",
    "\nfsmonitor\n",
    "\n[s \"u v\"] n = 1\n",
    "\n [t]p=\"\\t\" x \"\" \n",
    "\nw =\t a  b \t\n",
    "\ne=\n",
];

/// A text of pieces, the same for the same number.
fn text(number: u64) -> String {
    let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        // Xorshift: any sequence will do that is the same each time.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap()
    };
    let start = if next() % 4 == 0 { "" } else { "[core]\n" };
    let length = 1 + next() % 9;
    (0..length).fold(start.to_owned(), |text, _| text + PIECES[next() % PIECES.len()])
}

/// A variable's full name and its value.
type Setting = (Vec<u8>, Option<Vec<u8>>);

/// Returns the settings that git reads from a text; none if git cannot read it.
fn as_git_reads(text: &[u8]) -> Option<Vec<Setting>> {
    let mut git = Command::new("git")
        .args(["config", "--list", "-z", "-f", "-"])
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    git.stdin.take().unwrap().write_all(text).unwrap();
    let output = git.wait_with_output().unwrap();
    output.status.success().then(|| {
        let entries = output.stdout.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
        let split = |entry: &[u8]| match entry.iter().position(|byte| *byte == b'\n') {
            Some(end) => (entry[..end].to_vec(), Some(entry[end + 1..].to_vec())),
            None => (entry.to_vec(), None),
        };
        entries.map(split).collect()
    })
}

/// Every variable that git reads is one that is judged, and the other way round.
#[test]
fn git_reads_the_same_variables_or_the_text_is_refused() {
    if Command::new("git").arg("--version").output().is_err() {
        // Past what the harness keeps of a test that passes.
        let test = "git_reads_the_same_variables_or_the_text_is_refused";
        return writeln!(std::io::stderr(), "SKIPPED {test}: git is not installed").unwrap();
    }
    let mut read_by_both = 0;
    for number in 0..1_500 {
        let text = text(number);
        let ours = git_variables(text.as_bytes());
        let git = as_git_reads(text.as_bytes());
        let ours: Option<Vec<_>> =
            ours.map(|all| all.into_iter().map(|it| (it.full, it.value)).collect());
        let in_doubt =
            text.replace("\r\n", "").contains(['\r', '\0']) || !text.trim_start().starts_with('[');
        match ours {
            None if git.is_none() || in_doubt => {}
            ours => {
                assert_eq!(ours, git, "text {number}: {text:?}");
                read_by_both += 1;
            }
        }
    }
    assert!(read_by_both > 200, "only {read_by_both} texts tell anything");
}
