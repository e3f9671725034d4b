//! Names in the text of a hook: programs that it starts, files that it reads and writes. Where the text does not tell,
//! nothing is taken for known.

use std::collections::BTreeSet;

use stockade_parser::{CommandKind, CommandTree, EffectKind, SimpleCommand, Target, Word};

use crate::knowledge::{knowledge, listed};

use super::allow_cover;
use super::files::{self, Access};
use super::shell::Shell;

/// Programs and other words that a text names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Named {
    /// Words that name programs.
    pub programs: BTreeSet<Vec<u8>>,
    /// Every other word.
    pub words: BTreeSet<Vec<u8>>,
}

/// Returns what a text names, or why that cannot be told, or depends on the directory in which it runs.
pub fn named_by(tree: &CommandTree) -> Result<Named, String> {
    let shell = Shell::of(tree);
    if let Some(opaque) = shell.opaque.first() {
        return Err(format!("`{}` is not understood", shown(&shell, opaque.span)));
    }
    if !shell.guarded.is_empty() {
        return Err("it sets a variable that decides what runs".to_owned());
    }
    let mut named = Named::default();
    for command in shell.commands {
        take(&shell, command, &mut named)?;
    }
    for (targets, access) in [(shell.writes, Access::Write), (shell.reads, Access::Read)] {
        for target in targets {
            take_target(&shell, target, access, &mut named)?;
        }
    }
    Ok(named)
}

fn take(shell: &Shell<'_>, command: &SimpleCommand, named: &mut Named) -> Result<(), String> {
    for assignment in &*command.assignments {
        named.words.extend(assignment.value.exact().map(<[u8]>::to_vec));
    }
    let Some((first, rest)) = command.words.split_first() else { return Ok(()) };
    let name = || shown(shell, first.span);
    let Some(program) = first.exact() else {
        return Err(format!("`{}` is known only when it runs", name()));
    };
    if command.kind == CommandKind::External {
        named.programs.insert(program.to_vec());
        if program.contains(&b'/') && !program.starts_with(b"/") {
            return Err(here(&name()));
        }
    }
    let tables = knowledge();
    let base = allow_cover::program(command);
    let mut effects = command.effects.iter();
    let builds = listed(&tables.runners, base) && !listed(&tables.interpreters, base);
    if builds || effects.any(|effect| effect.kind == EffectKind::ProjectCode) {
        return Err(format!("`{}` runs code of the project", name()));
    }
    if listed(&tables.directory_sensitive, base) {
        return Err(here(&name()));
    }
    take_words(shell, command, rest, named)
}

/// Takes the words behind a program.
fn take_words(
    shell: &Shell<'_>,
    command: &SimpleCommand,
    words: &[Word],
    named: &mut Named,
) -> Result<(), String> {
    let harmless =
        |kind| matches!(kind, EffectKind::ReadOnly | EffectKind::Read | EffectKind::Network);
    let acts = !command.effects_known || !command.effects.iter().all(|it| harmless(it.kind));
    let builtin = command.kind != CommandKind::External;
    if builtin && listed(&knowledge().printing_builtins, allow_cover::program(command)) {
        return Ok(());
    }
    for word in words {
        match word.exact() {
            Some(bytes) if !command.effects_known && is_relative(bytes) => {
                return Err(here(&shown(shell, word.span)));
            }
            Some(bytes) => drop(named.words.insert(bytes.to_vec())),
            None if acts && !builtin => {
                return Err(format!("`{}` is known only when it runs", shown(shell, word.span)));
            }
            None => {}
        }
    }
    for effect in command.effects.iter() {
        let object = effect.object(&command.words).and_then(Word::exact);
        let (Some(path), EffectKind::Read | EffectKind::Write) = (object, effect.kind) else {
            continue;
        };
        let access = if effect.kind == EffectKind::Read { Access::Read } else { Access::Write };
        if files::is_no_file(path, access) || path == b"-" {
            continue;
        }
        if !path.starts_with(b"/") {
            return Err(here(&String::from_utf8_lossy(path)));
        }
        named.words.insert(path.to_vec());
    }
    Ok(())
}

fn take_target(
    shell: &Shell<'_>,
    target: &Target,
    access: Access,
    named: &mut Named,
) -> Result<(), String> {
    let text = || shown(shell, target.word.span);
    match target.word.exact() {
        None => Err(format!("`{}` is known only when it runs", text())),
        Some(path) if files::is_no_file(path, access) => Ok(()),
        Some(path) if !path.starts_with(b"/") => Err(here(&text())),
        Some(path) => {
            named.words.insert(path.to_vec());
            Ok(())
        }
    }
}

/// Says whether a word, or the value of an option, looks like a path that begins in the directory of the call.
fn is_relative(word: &[u8]) -> bool {
    let value = word.splitn(2, |byte| *byte == b'=').last().unwrap_or_default();
    let is_address = value.windows(3).any(|it| it == b"://");
    value.contains(&b'/') && !value.starts_with(b"/") && !is_address
}

fn here(text: &str) -> String {
    format!("`{text}` depends on the directory of the call")
}

fn shown(shell: &Shell<'_>, span: stockade_parser::Span) -> String {
    String::from_utf8_lossy(span.of(shell.source)).into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::too_many_lines, reason = "a row of a table is a line")]

    use expect_test::expect;

    use super::*;
    use crate::decide::tests::tree::tree;

    fn told(text: &str) -> String {
        let list = |words: &BTreeSet<Vec<u8>>| {
            let words: Vec<_> = words.iter().map(|it| String::from_utf8_lossy(it)).collect();
            words.join(" ")
        };
        match named_by(&tree(text)) {
            Ok(Named { programs, words }) => format!("{} | {}", list(&programs), list(&words)),
            Err(why) => why,
        }
    }

    #[test]
    fn a_text_names_its_programs_and_files_or_it_is_not_told() {
        let texts = [
            "",
            "X=1",
            "X=/a /usr/bin/tool b",
            "tool a --b=c; other",
            "cat /etc/passwd",
            "cat /etc/passwd | /bin/wc -l > /t/out 2> /dev/null < /t/in",
            "cat < /dev/stdin > /dev/stdout 2> /dev/fd/2",
            "cat -",
            "cat /dev/null",
            "echo a/b $(date)",
            "printf %s \"$HOME\"",
            "test -f /a",
            "tool http://host/a --to=https://b/c",
            "cat /a/*.txt",
            // The program, or the file, is known only when it runs.
            "$(x)",
            "tool $(x)",
            "rm /a/*.txt",
            "cat > $(x)",
            "cat < /a/$(x)",
            // The result depends on the directory of the call.
            "./tool",
            "bin/tool",
            "tool a/b",
            "tool --file=a/b",
            "cat a",
            "cat /a > out",
            "cat < in",
            "rm a",
            "git status",
            // The command runs code of the project.
            "make",
            "gulp",
            "tup",
            "cd a",
            "cd /a",
            "/bin/echo b",
            "dd if=/dev/stdin of=/dev/stdout",
            "dd if=/a of=/b",
            "sort -o - /a",
            "npm test",
            "cargo build",
            // The command is not understood, or sets a variable that decides which program runs.
            "tool ((",
            "PATH=/x; tool",
            "export LD_PRELOAD=/x; tool",
            "bash /a/run.sh",
            "python3 /a/run.py",
        ];
        let row = |text: &&str| format!("{text}  =>  {}", told(text));
        expect![[r#"
              =>   | 
            X=1  =>   | 1
            X=/a /usr/bin/tool b  =>  /usr/bin/tool | /a b
            tool a --b=c; other  =>  other tool | --b=c a
            cat /etc/passwd  =>  cat | /etc/passwd
            cat /etc/passwd | /bin/wc -l > /t/out 2> /dev/null < /t/in  =>  /bin/wc cat | -l /etc/passwd /t/in /t/out
            cat < /dev/stdin > /dev/stdout 2> /dev/fd/2  =>  cat | 
            cat -  =>  cat | -
            cat /dev/null  =>  cat | /dev/null
            echo a/b $(date)  =>  date | 
            printf %s "$HOME"  =>   | 
            test -f /a  =>   | 
            tool http://host/a --to=https://b/c  =>  tool | --to=https://b/c http://host/a
            cat /a/*.txt  =>  cat | 
            $(x)  =>  `$(x)` is not understood
            tool $(x)  =>  `$(x)` is known only when it runs
            rm /a/*.txt  =>  `/a/*.txt` is known only when it runs
            cat > $(x)  =>  `$(x)` is known only when it runs
            cat < /a/$(x)  =>  `/a/$(x)` is known only when it runs
            ./tool  =>  `./tool` depends on the directory of the call
            bin/tool  =>  `bin/tool` depends on the directory of the call
            tool a/b  =>  `a/b` depends on the directory of the call
            tool --file=a/b  =>  `--file=a/b` depends on the directory of the call
            cat a  =>  `a` depends on the directory of the call
            cat /a > out  =>  `out` depends on the directory of the call
            cat < in  =>  `in` depends on the directory of the call
            rm a  =>  `a` depends on the directory of the call
            git status  =>  `git` depends on the directory of the call
            make  =>  `make` runs code of the project
            gulp  =>  `gulp` runs code of the project
            tup  =>  `tup` runs code of the project
            cd a  =>  `a` depends on the directory of the call
            cd /a  =>   | /a
            /bin/echo b  =>  /bin/echo | b
            dd if=/dev/stdin of=/dev/stdout  =>  dd | if=/dev/stdin of=/dev/stdout
            dd if=/a of=/b  =>  dd | /a /b if=/a of=/b
            sort -o - /a  =>  sort | - -o /a
            npm test  =>  `npm` runs code of the project
            cargo build  =>  `cargo` runs code of the project
            tool ((  =>  `tool ((` is not understood
            PATH=/x; tool  =>  `tool` is not understood
            export LD_PRELOAD=/x; tool  =>  `tool` is not understood
            bash /a/run.sh  =>  /a/run.sh bash | /a/run.sh
            python3 /a/run.py  =>  python3 | /a/run.py"#]].assert_eq(&texts.iter().map(row).collect::<Vec<_>>().join("\n"));
    }
}
