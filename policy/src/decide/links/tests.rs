#![allow(clippy::too_many_lines, reason = "a row of a table is a line")]

use expect_test::{Expect, expect};

use super::*;
use crate::decide::tests::facts;
use crate::decide::tests::tree::tree;

/// Each row is a text, then what its last command meets at `path`: a link on the way, one below, one anywhere.
fn check(path: &str, texts: &[&str], expected: Expect) {
    let row = |text: &&str| {
        let tree = tree(text);
        let shell = Shell::of(&tree);
        let links = made(&shell, &facts());
        let (user, path) = (shell.commands.last(), Path::new(path));
        let told = [
            (links.goes_through(user, path), "through"),
            (links.lies_below(user, path), "below"),
            (links.anywhere(user), "anywhere"),
            (links.is_empty(), "none"),
        ];
        let told: Vec<&str> = told.iter().filter(|(holds, _)| *holds).map(|it| it.1).collect();
        format!("{text}  =>  {}", told.join(" "))
    };
    expected.assert_eq(&texts.iter().map(row).collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_link_that_another_command_makes_is_met_on_the_way_and_below() {
    check(
        "/p/a/b",
        &[
            "ln -s /etc a; cat a/b",
            "ln -s /etc a/b; cat a/b",
            "ln -s /etc a/b/c; cat a/b",
            "ln -s /etc a/c; cat a/b",
            "ln -s /etc ab; cat a/b",
            "ln -s /etc /; cat a/b",
            "cd a; ln -s /etc b; cat b",
            "mv x a; cat a/b",
            "ln -s /etc a; mv x a; cat a/b",
            "tar xf x -C a; cat a/b",
            "unzip x -d a; cat a/b",
            "cp -a x a; cat a/b",
            "cp --recursive x a; cat a/b",
            "rsync x a; cat a/b",
            // A place that only the running shell knows is anywhere, and so is what a version brings.
            "ln -s /etc $(x); cat a/b",
            "git switch main; cat a/b",
            "patch; cat a/b",
            "mv -t; cat a/b",
            "7z x a; cat a/b",
            "ar x a; cat a/b",
            // The copy of a file is no link, nor is what only reads.
            "tar tf x; cat a/b",
            "ln --version; cat a/b",
            "cp x a; cat a/b",
            "git status; cat a/b",
            "mkdir a; cat a/b",
        ],
        expect![[r#"
            ln -s /etc a; cat a/b  =>  through
            ln -s /etc a/b; cat a/b  =>  through below
            ln -s /etc a/b/c; cat a/b  =>  below
            ln -s /etc a/c; cat a/b  =>  
            ln -s /etc ab; cat a/b  =>  
            ln -s /etc /; cat a/b  =>  through
            cd a; ln -s /etc b; cat b  =>  anywhere
            mv x a; cat a/b  =>  through
            ln -s /etc a; mv x a; cat a/b  =>  through
            tar xf x -C a; cat a/b  =>  anywhere
            unzip x -d a; cat a/b  =>  through anywhere
            cp -a x a; cat a/b  =>  through
            cp --recursive x a; cat a/b  =>  through
            rsync x a; cat a/b  =>  through
            ln -s /etc $(x); cat a/b  =>  anywhere
            git switch main; cat a/b  =>  anywhere
            patch; cat a/b  =>  anywhere
            mv -t; cat a/b  =>  anywhere
            7z x a; cat a/b  =>  anywhere
            ar x a; cat a/b  =>  anywhere
            tar tf x; cat a/b  =>  none
            ln --version; cat a/b  =>  none
            cp x a; cat a/b  =>  none
            git status; cat a/b  =>  none
            mkdir a; cat a/b  =>  none"#]],
    );
}

#[test]
fn a_command_does_not_meet_the_link_that_it_makes_itself() {
    check(
        "/p/a",
        &["ln -s /etc a", "cat a; ln -s /etc a", "ln -s x a; ln -s y a", "cat a; git switch main"],
        expect![[r#"
            ln -s /etc a  =>  none
            cat a; ln -s /etc a  =>  
            ln -s x a; ln -s y a  =>  through below
            cat a; git switch main  =>  "#]],
    );
    check(
        "/p/a",
        &["ln -s /etc a > out", "ln -s /etc a < in", "ssh host ln -s x a; cat a"],
        expect![[r#"
            ln -s /etc a > out  =>  
            ln -s /etc a < in  =>  
            ssh host ln -s x a; cat a  =>  none"#]],
    );
    check(
        "/p",
        &["cat z; prename s/x/y/ a b", "cat z; rename x y a b", "cat z; ln -s /etc/x /etc/y ."],
        expect![[r#"
            cat z; prename s/x/y/ a b  =>  
            cat z; rename x y a b  =>  
            cat z; ln -s /etc/x /etc/y .  =>  "#]],
    );
}
