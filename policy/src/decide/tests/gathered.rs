//! Facts that a gateway looks up before a decision: paths, programs, patterns, repositories, and whether a call leaves
//! the sandbox. A path that is missing here has no other name when it is judged.

use std::fmt::Debug;

use expect_test::{Expect, expect};
use stockade_text::json::Value;

use super::{facts, input, rules};
use crate::decide::tests::tree::tree;
use crate::facts::{Call, Doubt, Doubts, Facts, SandboxState};
use crate::{
    Layer, builders_of, paths_of, patterns_of, programs_of, repositories_of, runs_outside_sandbox,
    walk_of,
};

/// Each row is a text and what is gathered from it.
fn check<T: Debug>(texts: &[&str], gathered: impl Fn(&Call<'_>) -> T, expected: Expect) {
    let input = input();
    let row = |text: &&str| {
        let tree = tree(text);
        format!("{text}  =>  {:?}", gathered(&Call::Bash { tree: &tree, input: &input }))
    };
    expected.assert_eq(&texts.iter().map(row).collect::<Vec<_>>().join("\n"));
}

/// The facts of a text that begins below its project.
fn below() -> Facts {
    Facts { cwd: "/p/s".into(), ..facts() }
}

#[test]
fn the_paths_of_a_text_are_those_that_it_touches_from_where_it_touches_them() {
    check(
        &[
            "",
            "ls a",
            "cat a b > c < d",
            "cat b a; cat a",
            "unknown a -fb --k=c d,e",
            "/bin/cd a; cat x",
            "/usr/bin/chown u:g a",
            "cd a/../b && ls",
            "env -C c ls",
            "cd a; cat b > c",
            "cd $(x); cat b > c; cat > /d",
            "echo a",
            "rm -r a",
            "/usr/bin/rm -r a",
            "rm -r $(x)",
            "rm -r $PWD/a",
            "rm -r $(git rev-parse --show-toplevel)/a",
            "cd a || true; rm -r b",
            "cd a || true; unlink $(x)",
            "cd a || true; env -C b rm c",
            "cd a || true; sudo rm c",
            "cd a || true; ls c",
            "cd a || true; rm -r $PWD/b",
            "cd $(x); rm -r b",
            "echo a b | xargs rm -r",
        ],
        |call| paths_of(call, &below()),
        expect![[r#"
              =>  []
            ls a  =>  ["/p/s/a"]
            cat a b > c < d  =>  ["/p/s/a", "/p/s/b", "/p/s/c", "/p/s/d"]
            cat b a; cat a  =>  ["/p/s/a", "/p/s/b"]
            unknown a -fb --k=c d,e  =>  ["/p/s/a", "/p/s/b", "/p/s/c", "/p/s/d", "/p/s/d,e", "/p/s/e"]
            /bin/cd a; cat x  =>  ["/p/s/a", "/p/s/x"]
            /usr/bin/chown u:g a  =>  ["/p/s/a", "/p/s/g", "/p/s/u", "/p/s/u:g"]
            cd a/../b && ls  =>  ["/p/s/a/../b"]
            env -C c ls  =>  ["/p/s/c", "/p/s/ls"]
            cd a; cat b > c  =>  ["/p/s/a"]
            cd $(x); cat b > c; cat > /d  =>  ["/d"]
            echo a  =>  []
            rm -r a  =>  ["/p/s/a"]
            /usr/bin/rm -r a  =>  ["/p/s/a"]
            rm -r $(x)  =>  []
            rm -r $PWD/a  =>  ["/p/s/./a"]
            rm -r $(git rev-parse --show-toplevel)/a  =>  ["/p/./a", "/p/s/./a"]
            cd a || true; rm -r b  =>  ["/p/s", "/p/s/-r", "/p/s/a", "/p/s/a/-r", "/p/s/a/b", "/p/s/b"]
            cd a || true; unlink $(x)  =>  ["/p/s", "/p/s/a"]
            cd a || true; env -C b rm c  =>  ["/p/s", "/p/s/a", "/p/s/c"]
            cd a || true; sudo rm c  =>  ["/p/s", "/p/s/a", "/p/s/c"]
            cd a || true; ls c  =>  ["/p/s/a"]
            cd a || true; rm -r $PWD/b  =>  ["/p/s", "/p/s/-r", "/p/s/a", "/p/s/a/-r", "/p/s/a/./b", "/p/s/./b"]
            cd $(x); rm -r b  =>  ["/p/s", "/p/s/-r", "/p/s/b"]
            echo a b | xargs rm -r  =>  ["/p/s/a", "/p/s/b"]"#]],
    );
}

/// Says at which places a text of these commands may remove `b`.
fn removed(before: &str) -> Vec<std::path::PathBuf> {
    let tree = tree(&format!("{before} unlink b"));
    let found = paths_of(&Call::Bash { tree: &tree, input: &input() }, &facts());
    found.into_iter().filter(|path| path.ends_with("b")).collect()
}

#[test]
fn up_to_a_limit_a_text_of_many_directories_is_followed() {
    let all = |before: &str| removed(before).len();
    // Twice as many with each, until there are more than sixteen.
    let deeper = |count| "cd a || true;".repeat(count);
    assert_eq!([0, 1, 4, 5, 6].map(|count| all(&deeper(count))), [1, 2, 5, 6, 7]);
    let other =
        |count: usize| (0..count).map(|it| format!("cd a{it} || true;")).collect::<String>();
    assert_eq!([0, 1, 4, 5, 6, 7].map(|count| all(&other(count))), [1, 2, 16, 32, 32, 32]);
    // A place where the text was already does not count again.
    let again = "cd /x || true; cd /z || true;".repeat(40);
    assert_eq!(all(&format!("{again} cd /y || true;")), 4);
    // Of very many commands only the first place is known.
    let many = |count: usize| format!("cd a || true; {}", "true;".repeat(count));
    assert_eq!([396, 397, 398].map(|count| all(&many(count))), [2, 2, 1]);
    assert_eq!(all("cd a || true; )"), 1);
}

#[test]
fn a_text_of_too_many_parts_has_no_paths() {
    let input = input();
    let tree = tree(&"cat a;".repeat(20_001));
    let call = Call::Bash { tree: &tree, input: &input };
    assert_eq!(paths_of(&call, &facts()), Vec::<std::path::PathBuf>::new());
}

#[test]
fn the_programs_of_a_text_are_words_that_name_one() {
    check(
        &[
            "ls; /bin/cat a",
            "echo a; cd b; X=1",
            "env ls",
            "$(x) a",
            "f() { cat a; }; f",
            "./run a",
        ],
        |call| {
            programs_of(call)
                .iter()
                .map(|it| String::from_utf8_lossy(it).into_owned())
                .collect::<Vec<_>>()
        },
        expect![[r#"
            ls; /bin/cat a  =>  ["/bin/cat", "ls"]
            echo a; cd b; X=1  =>  []
            env ls  =>  ["env", "ls"]
            $(x) a  =>  ["x"]
            f() { cat a; }; f  =>  ["cat"]
            ./run a  =>  ["./run"]"#]],
    );
}

#[test]
fn a_builder_goes_by_the_name_of_its_program_or_by_the_path_of_a_file_of_the_project() {
    let doubts = Doubts {
        programs: [(b"/p/tool".to_vec(), Doubt::Planted("/p/tool".into()))].into(),
        ..Doubts::default()
    };
    let facts = Facts { doubts, ..facts() };
    check(
        &[
            "make all",
            "/usr/bin/make",
            "./run a",
            "bin/run",
            "/p/tool",
            "/opt/tool",
            "ls a",
            "$(x)",
        ],
        |call| {
            builders_of(call, &facts)
                .iter()
                .map(|it| String::from_utf8_lossy(it).into_owned())
                .collect::<Vec<_>>()
        },
        expect![[r#"
            make all  =>  ["make"]
            /usr/bin/make  =>  ["make"]
            ./run a  =>  ["./run"]
            bin/run  =>  ["bin/run"]
            /p/tool  =>  ["tool"]
            /opt/tool  =>  []
            ls a  =>  []
            $(x)  =>  [""]"#]],
    );
}

#[test]
fn the_patterns_of_a_text_stand_for_files_that_a_command_opens() {
    let shown = |call: &Call<'_>| {
        let patterns = patterns_of(call, &below());
        let segment = |it: &crate::ShapeSegment| match it {
            crate::ShapeSegment::Known(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            crate::ShapeSegment::Glob(bytes) => {
                bytes.iter().map(|it| char::from(it.unwrap_or(b'*'))).collect()
            }
        };
        let path =
            |it: &crate::Shape| it.segments.iter().map(segment).collect::<Vec<_>>().join("/");
        patterns.iter().map(path).collect::<Vec<_>>()
    };
    check(
        &[
            "cat a",
            "cat a*",
            "cat a*/.*",
            "cat ?/b [ab] {c,d}",
            "cat $(x)",
            "echo a*",
            "unknown a*",
            "cat < a*",
            "cd a; cat b*",
            "find . -exec cat {}/a \\;",
            "cat .*",
        ],
        shown,
        expect![[r#"
            cat a  =>  []
            cat a*  =>  ["p/s/a*"]
            cat a*/.*  =>  []
            cat ?/b [ab] {c,d}  =>  ["p/s/*", "p/s/*/b"]
            cat $(x)  =>  []
            echo a*  =>  []
            unknown a*  =>  ["p/s/a*"]
            cat < a*  =>  ["p/s/a*"]
            cd a; cat b*  =>  []
            find . -exec cat {}/a \;  =>  []
            cat .*  =>  []"#]],
    );
}

#[test]
fn git_looks_for_repositories_where_each_command_runs() {
    let texts = [
        "ls a",
        "git status",
        "gh pr list",
        "/usr/bin/git status",
        "f() { git status; }",
        "git() { ls; }; git status",
        "cd a; git status",
        "cd $(x); git status",
        "cd a || true; git status",
        "git -C a -C b status",
        "git -C $(x) status",
        "git --git-dir a status",
        "git --git-dir=a -C b status",
        "git --bare -C b status",
        "git -c a.b=c -C d status",
        "git --work-tree a -C b status",
        "git --paginate -C b status",
        "git $(x)",
        "git src/*.rs",
        "git add a; git status",
        "git add a; ls",
        "git status; git status",
        "git add a; git --git-dir=b status",
    ];
    check(
        &texts,
        |call| repositories_of(call, &facts()),
        expect![[r#"
            ls a  =>  {}
            git status  =>  {Above("/p")}
            gh pr list  =>  {Above("/p")}
            /usr/bin/git status  =>  {Above("/p")}
            f() { git status; }  =>  {Above("/p")}
            git() { ls; }; git status  =>  {}
            cd a; git status  =>  {Above("/p"), Above("/p/a")}
            cd $(x); git status  =>  {}
            cd a || true; git status  =>  {Above("/p"), Above("/p/a")}
            git -C a -C b status  =>  {Above("/p/a/b")}
            git -C $(x) status  =>  {}
            git --git-dir a status  =>  {At("/p/a")}
            git --git-dir=a -C b status  =>  {At("/p/b/a")}
            git --bare -C b status  =>  {At("/p/b/")}
            git -c a.b=c -C d status  =>  {Above("/p/d")}
            git --work-tree a -C b status  =>  {Above("/p/b")}
            git --paginate -C b status  =>  {Above("/p/b")}
            git $(x)  =>  {}
            git src/*.rs  =>  {Above("/p")}
            git add a; git status  =>  {Above("/p"), Within("/p")}
            git add a; ls  =>  {Above("/p")}
            git status; git status  =>  {Above("/p")}
            git add a; git --git-dir=b status  =>  {Above("/p"), At("/p/b"), Within("/p")}"#]],
    );
    let confined = Facts { sandbox: SandboxState::Enforced, ..facts() };
    let inner = ["git add a; git status"];
    check(
        &inner,
        |call| repositories_of(call, &confined),
        expect![[r#"git add a; git status  =>  {Above("/p")}"#]],
    );
}

/// Settings of commands that leave the sandbox.
const EXCLUDED: &str = "{'sandbox':{'enabled':true,'excludedCommands':['tool *','ls','npm *','./x *','own *','read *',': *']}}";

/// Texts of which some leave the sandbox.
const LEAVING: &[&str] = &[
    "",
    "tool a",
    "tool a; ls",
    "tool a; cat b",
    "cat b; tool a",
    "own a",
    "./x a",
    "npm run a",
    "X=1 tool a",
    "X=$y tool a",
    "X+=1 tool a",
    "X=(1) tool a",
    "PATH=. tool a",
    "tool a; )",
    "for PATH in a; do tool b; done",
    "read PATH; tool a",
    "read x; tool a",
    ": ${PATH:=a}; tool b",
    ": ${x:=a}; tool b",
    ": ${HOME:=a}; tool b",
    "read HOME; tool b",
    "tool $(x)",
];

#[test]
fn a_call_leaves_the_sandbox_when_each_of_its_commands_is_excluded_and_all_is_understood() {
    let programs = [(b"own".to_vec(), Doubt::Planted("/p/own".into()))].into();
    let facts = Facts { doubts: Doubts { programs, ..Doubts::default() }, ..facts() };
    for (layer, expected) in [
        (
            Layer::User,
            expect![[r#"
                  =>  false
                tool a  =>  true
                tool a; ls  =>  true
                tool a; cat b  =>  false
                cat b; tool a  =>  false
                own a  =>  false
                ./x a  =>  true
                npm run a  =>  true
                X=1 tool a  =>  true
                X=$y tool a  =>  true
                X+=1 tool a  =>  false
                X=(1) tool a  =>  false
                PATH=. tool a  =>  false
                tool a; )  =>  false
                for PATH in a; do tool b; done  =>  false
                read PATH; tool a  =>  false
                read x; tool a  =>  true
                : ${PATH:=a}; tool b  =>  false
                : ${x:=a}; tool b  =>  true
                : ${HOME:=a}; tool b  =>  false
                read HOME; tool b  =>  false
                tool $(x)  =>  false"#]],
        ),
        (
            Layer::Project,
            expect![[r#"
                  =>  false
                tool a  =>  true
                tool a; ls  =>  true
                tool a; cat b  =>  false
                cat b; tool a  =>  false
                own a  =>  false
                ./x a  =>  false
                npm run a  =>  false
                X=1 tool a  =>  true
                X=$y tool a  =>  true
                X+=1 tool a  =>  false
                X=(1) tool a  =>  false
                PATH=. tool a  =>  false
                tool a; )  =>  false
                for PATH in a; do tool b; done  =>  false
                read PATH; tool a  =>  false
                read x; tool a  =>  true
                : ${PATH:=a}; tool b  =>  false
                : ${x:=a}; tool b  =>  true
                : ${HOME:=a}; tool b  =>  false
                read HOME; tool b  =>  false
                tool $(x)  =>  false"#]],
        ),
    ] {
        let rules = rules(&[(layer, EXCLUDED)]);
        check(LEAVING, |call| runs_outside_sandbox(&rules, call, &facts), expected);
    }
}

/// Each row is a call of a tool, and the paths and the walk of it.
#[test]
fn the_path_of_a_tool_is_that_of_its_own_field() {
    let calls = [
        ("Read", "{'file_path':'a/../b'}"),
        ("Read", "{'file_path':''}"),
        ("Read", "{'path':'a'}"),
        ("Write", "{'file_path':'~/a'}"),
        ("NotebookEdit", "{'notebook_path':'/a'}"),
        ("LS", "{'path':'~'}"),
        ("LS", "{}"),
        ("LS", "{'path':''}"),
        ("LS", "{'path':1}"),
        ("Glob", "{'pattern':'a/b*/c'}"),
        ("Glob", "{'pattern':'~/a*'}"),
        ("Glob", "{'path':'a','pattern':'b/../c*/..'}"),
        ("Grep", "{'path':'a','glob':'b/*.c'}"),
        ("Grep", "{'pattern':'x'}"),
        ("Unknown", "{'file_path':'a'}"),
    ];
    let facts = below();
    let row = |(name, input): &(&str, &str)| {
        let input: Value = super::value(input);
        let call = Call::Tool { name, input: &input };
        format!("{name} {:?} {:?}", paths_of(&call, &facts), walk_of(&call, &facts))
    };
    expect![[r#"
        Read ["/p/s/a/../b"] None
        Read [] None
        Read [] None
        Write ["/h/a"] None
        NotebookEdit ["/a"] None
        LS ["/h"] None
        LS ["/p/s"] None
        LS ["/p/s/"] None
        LS [] None
        Glob ["/p/s/a/b"] None
        Glob ["/h/a"] None
        Glob ["/"] None
        Grep ["/p/s/a/b/"] Some(("/p/s/a", Some("b/*.c")))
        Grep ["/p/s"] Some(("/p/s", None))
        Unknown [] None"#]]
    .assert_eq(&calls.iter().map(row).collect::<Vec<_>>().join("\n"));
}
