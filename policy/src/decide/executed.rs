//! Finds the files that a text executes besides those that it names.

use stockade_parser::{CommandTree, EffectKind, SimpleCommand, Word};

use crate::knowledge::{knowledge, listed};

use super::allow_cover;

/// Builtins that execute a file.
const SOURCES: [&[u8]; 2] = [b".", b"source"];

/// Options with which an interpreter tells about itself and executes nothing.
const TELLING: [&[u8]; 6] = [b"--version", b"-V", b"-VV", b"-v", b"--help", b"-h"];
/// How names of programs end that an interpreter executes which is not a shell.
const INTERPRETED: [&[u8]; 9] =
    [b".py", b".js", b".mjs", b".cjs", b".ts", b".rb", b".pl", b".php", b".lua"];

/// Files that a text executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Executed {
    /// Those that it names.
    Named,
    /// Also those that builders and runners execute by their own rules (`Makefile`, `package.json`).
    OfBuilders,
    /// Any: a name is known only when it runs, as of a pattern, of a word that another command prints, or of what a program
    /// for an interpreter loads.
    Any,
}

/// Returns which files a text executes.
pub fn executed_by(tree: &CommandTree) -> Executed {
    if !tree.opaque_spans().is_empty() {
        return Executed::Any;
    }
    tree.commands().iter().map(of).max().unwrap_or(Executed::Named)
}

fn of(command: &SimpleCommand) -> Executed {
    let Some((first, rest)) = command.words.split_first() else { return Executed::Named };
    let Some(program) = first.exact() else { return Executed::Any };
    let (tables, base) = (knowledge(), allow_cover::program(command));
    let interprets = listed(&tables.interpreters, base);
    let executes = interprets || SOURCES.contains(&program);
    if executes && rest.iter().any(|word| word.exact().is_none()) {
        return Executed::Any;
    }
    // A program for python, node and the like loads modules from its own directory or its working directory.
    let loads = interprets && !listed(&tables.shells, base) && !only_tells(rest);
    if loads || is_program_of_interpreter(program) {
        return Executed::Any;
    }
    let builds = command.effects.iter().any(|effect| effect.kind == EffectKind::ProjectCode);
    match builds || listed(&tables.runners, base) {
        true => Executed::OfBuilders,
        false => Executed::Named,
    }
}

/// Says whether an interpreter with these words only tells about itself.
fn only_tells(rest: &[Word]) -> bool {
    let mut words = rest.iter();
    let first = words.next().and_then(Word::exact);
    first.is_some_and(|word| TELLING.contains(&word)) && words.next().is_none()
}

/// Says whether a program is a file whose name says that an interpreter executes it.
fn is_program_of_interpreter(program: &[u8]) -> bool {
    program.contains(&b'/') && INTERPRETED.iter().any(|end| program.ends_with(end))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::too_many_lines, reason = "a row of a table is a line")]

    use expect_test::expect;

    use super::*;
    use crate::decide::tests::tree::tree;

    #[test]
    fn a_text_executes_what_it_names_what_builders_choose_or_anything() {
        let texts = [
            "",
            "X=1",
            "ls src",
            "./run a",
            "bash run.sh",
            ". /p/run.sh",
            "source run.sh",
            "echo $x",
            "cat a.py",
            "tool.py",
            "python3 --version",
            "node -h",
            "make",
            "ls; cargo test; ls",
            "npx tool",
            // A name that only the running shell knows.
            "$(x)",
            "bash $(x)",
            "bash run.sh ./*.txt",
            "bash ./*.sh",
            ". $(x)",
            "source /etc/*.sh",
            "ls ((",
            // Further files that an interpreter loads.
            "python3",
            "python3 run.py",
            "python3 --version run.py",
            "/usr/bin/node --version x",
            "./run.py",
            "bin/run.js --help",
            "ls; /p/run.lua; make",
        ];
        let row = |text: &&str| format!("{text}  =>  {:?}", executed_by(&tree(text)));
        expect![[r#"
              =>  Named
            X=1  =>  Named
            ls src  =>  Named
            ./run a  =>  Named
            bash run.sh  =>  OfBuilders
            . /p/run.sh  =>  Any
            source run.sh  =>  Any
            echo $x  =>  Named
            cat a.py  =>  Named
            tool.py  =>  Named
            python3 --version  =>  OfBuilders
            node -h  =>  OfBuilders
            make  =>  OfBuilders
            ls; cargo test; ls  =>  OfBuilders
            npx tool  =>  OfBuilders
            $(x)  =>  Any
            bash $(x)  =>  Any
            bash run.sh ./*.txt  =>  Any
            bash ./*.sh  =>  Any
            . $(x)  =>  Any
            source /etc/*.sh  =>  Any
            ls ((  =>  Any
            python3  =>  Any
            python3 run.py  =>  Any
            python3 --version run.py  =>  Any
            /usr/bin/node --version x  =>  Any
            ./run.py  =>  Any
            bin/run.js --help  =>  Any
            ls; /p/run.lua; make  =>  Any"#]]
        .assert_eq(&texts.iter().map(row).collect::<Vec<_>>().join("\n"));
    }
}
