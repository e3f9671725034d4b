//! Scripts that shells of the text run: `bash x.sh` is as opaque as `./x.sh`, unless the text may have written the file
//! itself. Then what the script starts is what this text says.

use std::collections::BTreeSet;

use crate::event::{Kind, flag};
use crate::extract::Walk;
use crate::{
    CommandKind, Effect, EffectKind, Position, Reason, SimpleCommand, Span, Target, Via, Word,
};

/// A script that a shell of the text runs.
pub(crate) struct Script {
    /// The shell, in the list of commands.
    command: u32,
    /// Its file.
    span: Span,
    /// How many commands and files that are written are known when it starts; none if it may run at another time.
    before: Option<(usize, usize)>,
}

/// Builtins that write no file, whatever their operands are; redirections are looked at by themselves.
const WRITE_NOTHING: [&[u8]; 44] = [
    b":",
    b"[",
    b"break",
    b"builtin",
    b"caller",
    b"cd",
    b"command",
    b"continue",
    b"declare",
    b"dirs",
    b"echo",
    b"eval",
    b"exec",
    b"exit",
    b"export",
    b"false",
    b"getopts",
    b"help",
    b"jobs",
    b"kill",
    b"let",
    b"local",
    b"mapfile",
    b"popd",
    b"printf",
    b"pushd",
    b"pwd",
    b"read",
    b"readarray",
    b"readonly",
    b"return",
    b"set",
    b"shift",
    b"shopt",
    b"test",
    b"times",
    b"true",
    b"type",
    b"typeset",
    b"ulimit",
    b"umask",
    b"unset",
    b"wait",
    b"hash",
];

impl Walk<'_> {
    /// Notes that the command runs a script.
    pub(super) fn note_script(&mut self, command: u32, span: Span) {
        // In the list of the text itself, and not in background, what follows starts when the script is over.
        let in_list = self.opened.iter().all(|event| {
            event.kind == Kind::List
                || (event.kind == Kind::AndOr && event.flags & flag::BACKGROUND == 0)
                || (event.kind == Kind::Pipeline && event.flags & flag::PIPED == 0)
        });
        let at_top = self.positions.last() == Some(&Position::Top) && self.runs.len() == 1;
        let before = (in_list && at_top).then_some((self.commands.len(), self.writes.len()));
        self.scripts.push(Script { command, span, before });
    }

    /// A script that something before or beside it may have written is opaque.
    pub(super) fn scripts_made_here(&mut self) {
        let scripts = std::mem::take(&mut self.scripts);
        if scripts.is_empty() {
            return;
        }
        let numbers = |found: Vec<bool>| -> Vec<usize> {
            found.iter().enumerate().filter(|(_, is)| **is).map(|(number, _)| number).collect()
        };
        let writers = numbers(self.commands.iter().map(|it| !writes_nothing(it)).collect());
        let writes = numbers(self.writes.iter().map(|it| !is_no_file(&it.word)).collect());
        let unread: BTreeSet<usize> = self.unread.iter().map(|it| it.command as usize).collect();
        for script in scripts {
            let (commands, targets) = script.before.unwrap_or((usize::MAX, usize::MAX));
            let own = |number: &usize| {
                *number == script.command as usize
                    || self.is_script_of(*number, script.command)
                    || self.only_starts(*number, script.command, &unread)
            };
            let by_command =
                writers.iter().take_while(|number| **number < commands).any(|number| !own(number));
            let by_redirect = writes.iter().take_while(|number| **number < targets).any(|number| {
                self.writes
                    .get(*number)
                    .is_none_or(|target| !self.is_output_of(target, script.command))
            });
            if by_command || by_redirect {
                let detail = "the text around it may have written the file".to_owned();
                self.doubt(Reason::ScriptFile, script.span, detail, String::new());
            }
        }
    }

    /// Says whether a command is the script that the shell at `shell` runs.
    fn is_script_of(&self, number: usize, shell: u32) -> bool {
        self.commands
            .get(number)
            .and_then(|it| it.via.last())
            .is_some_and(|via| via.command == shell)
    }

    /// Says whether a command is a wrapper around the shell at `shell` that does no more than to start what it is given.
    fn only_starts(&self, number: usize, shell: u32, unread: &BTreeSet<usize>) -> bool {
        let around = |via: &Via| via.command as usize == number;
        let Some(inside) = self.commands.get(shell as usize) else { return false };
        let (Some(wrapper), Some(place)) =
            (self.commands.get(number), inside.via.iter().position(around))
        else {
            return false;
        };
        // The command that it starts is the next on the way to the shell.
        let next = inside.via.get(place + 1).map_or(shell, |via| via.command);
        // Deep in nested texts many words have one span.
        let named = |word: &Word| (word.span, word.exact().map(<[u8]>::to_vec));
        let started = self.commands.get(next as usize).and_then(|it| it.words.first()).map(named);
        wrapper.effects_known
            && !unread.contains(&number)
            && wrapper.effects.iter().all(|effect| match effect.kind {
                EffectKind::ReadOnly | EffectKind::Read => true,
                EffectKind::Execute => effect.object(&wrapper.words).map(named) == started,
                EffectKind::Write
                | EffectKind::Network
                | EffectKind::LoadCode
                | EffectKind::ProjectCode
                | EffectKind::Settings => false,
            })
    }

    /// Says whether a file is where the shell at `shell` itself writes what the script prints, and surely another one than
    /// the script.
    fn is_output_of(&self, target: &Target, shell: u32) -> bool {
        let (Some(command), Some(owner)) = (self.commands.get(shell as usize), target.command)
        else {
            return false;
        };
        let around = || command.via.iter().any(|via| via.command == owner);
        let name = |path: &[u8]| path.rsplit(|byte| *byte == b'/').next().map(<[u8]>::to_vec);
        let named = |word: &Word| word.exact().map(name);
        // One of the words is the script.
        let other = target.word.exact().map(name).is_some_and(|file| {
            command.words.iter().all(|word| named(word).as_ref() != Some(&file))
        });
        (owner == shell || around()) && other
    }
}

/// Says whether a command surely writes no file but by redirections.
fn writes_nothing(command: &SimpleCommand) -> bool {
    let name = command.words.first().and_then(Word::exact).unwrap_or_default();
    let only_reads = || {
        let reads =
            |effect: &Effect| matches!(effect.kind, EffectKind::ReadOnly | EffectKind::Read);
        let claims = |effect: &Effect| effect.kind == EffectKind::ReadOnly;
        command.effects_known
            && command.effects.iter().all(reads)
            && command.effects.iter().any(claims)
    };
    match command.kind {
        CommandKind::AssignmentOnly => true,
        CommandKind::Builtin if name == b"set" => !watches_jobs(command),
        CommandKind::Builtin => WRITE_NOTHING.contains(&name),
        CommandKind::External => only_reads(),
        // The commands of a function are listed as well, but whether there is such a function here is not known.
        CommandKind::Function => false,
    }
}

/// Says whether `set` may switch job control on: then a script that stops lets the text go on before its end.
fn watches_jobs(command: &SimpleCommand) -> bool {
    command.words.iter().skip(1).any(|word| match word.exact() {
        None => true,
        Some(b"monitor") => true,
        Some(word) => {
            word.first().is_some_and(|first| b"-+".contains(first)) && word.contains(&b'm')
        }
    })
}

/// Says whether writing there makes no file.
fn is_no_file(word: &Word) -> bool {
    let descriptor = |rest: &[u8]| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit);
    word.exact().is_some_and(|path| match path {
        b"/dev/null" | b"/dev/stdout" | b"/dev/stderr" => true,
        other => other.strip_prefix(b"/dev/fd/").is_some_and(descriptor),
    })
}
