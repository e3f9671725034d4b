//! Every way in which bash assigns a variable is in the tree, or the tree is opaque.

use stockade_parser::{Limits, Programs, StartState, parse};

/// Texts in which bash 5.2.15 changes the variable `V`, each tried with a trap on `DEBUG` that looks at it.
const FORMS: &[&str] = &[
    "for V in ./x; do :; done",
    "for V in ./x ./y; { :; }",
    "for ((V=1;V<2;V++)); do :; done",
    "select V in a; do break; done <<< 1",
    "((V=1))",
    "(( V++ ))",
    "((V+=5))",
    "((x=V=3))",
    "let V=1",
    r#"let "V = 1""#,
    "let 'x=(V=2)'",
    ": $((V=1))",
    ": $[V=1]",
    r#"echo "$((V++))""#,
    "a[V=1]=x",
    ": ${a[V=1]}",
    "[[ V=1 -eq 1 ]]",
    "[[ 'V=1' -eq 1 ]]",
    "[ x -eq y ]; [[ x -eq V=3 ]]",
    "[[ -v 'a[V=1]' ]]",
    "test -v 'a[V=1]'",
    "read V <<< x",
    r#"read -r a V <<< "1 2""#,
    "read -a V <<< x",
    "read -rd '' V <<< x",
    "mapfile V < /etc/hostname",
    "readarray -t V <<< x",
    "printf -v V %s x",
    "printf -v 'V[0]' x",
    "set -- -a; getopts a V",
    "OPTIND=1; getopts a: V -a x",
    "coproc V { cat; }; V=$V",
    "declare V=x",
    "declare -x V=x",
    "declare -n r=V; r=x",
    "declare -n r; r=V; r=x",
    "typeset -n r=V; read r <<< x",
    "f() { local -n r=V; r=x; }; f",
    "f() { local -n r=$1; r=x; }; f V",
    "f() { declare -n r=$1; printf -v r x; }; f V",
    "f() { declare -g V=x; }; f",
    "export V=x",
    "readonly V=x",
    "export V; V=x",
    "unset V; : ${V:=x}",
    "unset V; : ${V=x}",
    r#"unset V; : "${V:=x}""#,
    "exec {V}>/dev/null",
    ": {V}>/dev/null",
    "{ :; } {V}< /dev/null",
    "V=(a b)",
    "V[0]=x",
    "V+=x",
    "declare -A V=([a]=b)",
    "declare V[0]=x",
    "eval V=x",
    r#"eval "V""=x""#,
    "x=V; eval $x=1",
    "x=V; declare $x=1",
    "x=V; read $x <<< 1",
    "x=V; printf -v $x y",
    "x=V; export $x=1",
    "x=V; let $x=1",
    "x=V; (($x=1))",
    "x=V; : $(($x=1))",
    "sleep 0 & wait -p V $!",
    "wait -n -p V",
    "while read V; do :; done <<< x",
    "while IFS= read -r V; do break; done <<< x",
    "read V <<EOF2\nx\nEOF2",
    "trap V=x DEBUG; :",
    "V=x eval :",
    "V=x command eval true",
    "command export V=x",
    "builtin declare -g V=x",
    "command read V <<< x",
    "declare -i n=V=5",
    "declare -i n; n=V=5",
    "x='V=5'; ((x))",
    "x='V=5'; : $((x))",
    "x='V=5'; [[ $x -eq 5 ]]",
    "x='V=5'; [[ x -eq 5 ]]",
    "x='V=5'; a=(1); : ${a[x]}",
    ": ${PWD:0:V=1}",
    r#": "${x:-$((V=1))}""#,
    "case $((V=1)) in *) ;; esac",
    "[[ x == $((V=1)) ]]",
    "if ((V=1)); then :; fi",
    "while ((V=0)); do :; done",
    "a=([V=1]=x)",
    "declare -a a=([V=1]=x)",
    "a[$((V=1))]=x",
    "echo > /dev/null$((V=1))",
    "test $((V=1)) -eq 1",
    "source /dev/stdin <<< V=x",
    ". /dev/stdin <<< V=x",
    "export -f f 2>/dev/null; V=x",
    "function f { V=x; }; f",
    "f() { for V in x; do :; done; }; f",
    "shopt -s lastpipe; echo x | read V",
    "{ read V; } <<< x",
    "time V=x",
    "! V=x",
    "V=x; V=y",
    "compgen -W '$((V=1))'",
    "readarray -O 0 V <<< x",
    "IFS= read V <<< x",
    "unset -n V; V=x",
    "select V in a b; do V=x; break; done <<< 1",
    "cd /; V=x",
    "dirs -c; declare -g V=1",
    "shift $((V=1))",
    "return $((V=1))",
    "kill -0 $((V=$$))",
    "echo ${@:V=1}",
    r#"echo "${*:V=1:V=2}""#,
    "echo {a,$((V=1))}",
    "echo ~$((V=1))",
    "typeset -x V=a",
    "V= ",
    "V=$(echo x)",
];

/// Variables that decide what other programs start, or which file bash writes.
const NAMES: [&str; 4] = ["HOME", "SHELL", "HISTFILE", "HISTSIZE"];

/// Puts `name` in the place of each `V` that is a word of its own.
fn with_name(form: &str, name: &str) -> String {
    let is_word = |character: Option<char>| {
        character.is_some_and(|it| it.is_ascii_alphanumeric() || it == '_')
    };
    let (mut out, mut before) = (String::new(), None);
    let mut characters = form.chars().peekable();
    while let Some(character) = characters.next() {
        if character == 'V' && !is_word(before) && !is_word(characters.peek().copied()) {
            out.push_str(name);
        } else {
            out.push(character);
        }
        before = Some(character);
    }
    out
}

#[test]
fn every_assignment_is_in_the_tree() {
    let mut unseen = Vec::new();
    for (form, name) in FORMS.iter().flat_map(|form| NAMES.map(|name| (form, name))) {
        let text = with_name(form, name);
        let draft =
            parse(text.as_bytes(), &StartState::default(), Programs::builtin(), &Limits::default());
        let tree = draft.confirm(&[]);
        let assigned = tree.assigned().iter().any(|it| *it.name == *name.as_bytes());
        let mut prefixes = tree.commands().iter().flat_map(|it| it.assignments.iter());
        let named = prefixes.any(|it| *it.name == *name.as_bytes());
        let opaque = tree.opaque_spans().iter().any(|it| it.reason.code() != "witness-absent");
        if !(assigned || named || opaque) {
            unseen.push(text);
        }
    }
    assert_eq!(unseen, [""; 0]);
}
