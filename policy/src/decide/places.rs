//! Where a command that removes may run, and the words that are a directory by another way of writing it.

use std::path::PathBuf;

use stockade_parser::{Directory, Glob, Position, SimpleCommand, Word, WordClass};

use crate::facts::Facts;
use crate::knowledge::{knowledge, listed};
use crate::paths;

use super::search::program_of;
use super::shell::Shell;
use super::xargs_like;

/// Beyond so many directories, or commands to look at, they are not told apart.
const MOST_DIRECTORIES: usize = 16;
const MOST_COMMANDS: usize = 400;

/// Returns the directories in which a command may run. `None` stands for those that the text does not tell.
pub(super) fn directories(
    shell: &Shell<'_>,
    facts: &Facts,
    command: &SimpleCommand,
) -> Vec<Option<PathBuf>> {
    if command.directory != Directory::Unknown {
        return vec![paths::directory(&command.directory, facts)];
    }
    let mut found = vec![facts.cwd.clone()];
    let told = shell.opaque.is_empty()
        && shell.commands.len() <= MOST_COMMANDS
        && stays_in(command)
        && shell.commands.iter().all(|mover| goes_on(&mut found, facts, mover));
    found.into_iter().map(Some).chain((!told).then_some(None)).collect()
}

/// Adds where the command may go from each of the directories; no if the text does not tell.
fn goes_on(found: &mut Vec<PathBuf>, facts: &Facts, mover: &SimpleCommand) -> bool {
    let tables = knowledge();
    let Some(program) = program_of(mover) else { return true };
    if listed(&tables.unread_movers, program) {
        return false;
    }
    if !listed(&tables.directory_changers, program) {
        return true;
    }
    // A loop or a function may go there more than once.
    if matches!(mover.position, Position::Compound | Position::Function) || !stays_in(mover) {
        return false;
    }
    let operands = mover.words.get(1..).unwrap_or_default();
    if operands.is_empty() && program == b"cd" {
        found.push(facts.home.clone());
    }
    for word in operands {
        let Some(text) = word.exact().and_then(|bytes| std::str::from_utf8(bytes).ok()) else {
            return false;
        };
        match text {
            "--" | "-L" => continue,
            _ if text.is_empty() || text.starts_with('-') || found.len() > MOST_DIRECTORIES => {
                return false;
            }
            _ => {}
        }
        let further: Vec<PathBuf> =
            found.iter().map(|from| stockade_rules::normal(&from.join(text))).collect();
        found.extend(further.into_iter().filter(|path| path != &facts.cwd));
        found.sort();
        found.dedup();
    }
    true
}

/// Returns the paths that are looked at for a command that removes, absolute and as they are written, but for those that its
/// words name where it surely runs.
pub(super) fn paths_of(shell: &Shell<'_>, facts: &Facts, command: &SimpleCommand) -> Vec<PathBuf> {
    let removers = &knowledge().removers;
    let program = program_of(command).unwrap_or_default();
    if !removers.iter().any(|row| listed(&row.names, program)) {
        return Vec::new();
    }
    let known = command.directory != Directory::Unknown;
    let given = xargs_like::given(shell, command);
    let operands = command.words.iter().skip(1).filter(|word| !known || word.exact().is_none());
    let words: Vec<Meant> = operands.chain(&given).map(|operand| meant(shell, operand)).collect();
    let mut found = Vec::new();
    for directory in directories(shell, facts, command).into_iter().flatten() {
        for one in &words {
            let from = [Some(&directory), one.of_project.then_some(&facts.project)];
            let bytes = one.word.exact().unwrap_or_default();
            let from = from.into_iter().flatten();
            found.extend(from.filter_map(|from| paths::written(bytes, Some(from))));
        }
        found.extend((!known).then_some(directory));
    }
    found
}

/// Says whether what starts a command leaves it in its own directory.
fn stays_in(command: &SimpleCommand) -> bool {
    command.via.iter().all(|via| listed(&knowledge().staying, via.program.as_bytes()))
}

/// Meaning of a word.
pub(super) struct Meant {
    pub word: Word,
    /// The word without quotes, as people typed it or would have.
    pub typed: Vec<u8>,
    /// True if the word begins at the root of the project, or at the working directory.
    pub of_project: bool,
    /// True if the word may stand for a working directory that is unknown.
    pub later: bool,
    /// True if the word begins at a directory that it does not spell out.
    pub spelled: bool,
}

/// Returns what a word stands for, with `./` for the words that are the working directory.
pub(super) fn meant(shell: &Shell<'_>, word: &Word) -> Meant {
    let as_typed = word.span.of(shell.source);
    let typed: Vec<u8> = unquoted(as_typed);
    let plain = |later| Meant {
        word: word.clone(),
        typed: typed.clone(),
        of_project: false,
        later,
        spelled: false,
    };
    if !matches!(word.class, WordClass::Unknown { .. }) {
        return plain(false);
    }
    let tables = knowledge();
    let rest_of = |list: &[&str]| list.iter().find_map(|head| behind(as_typed, head.as_bytes()));
    let here = rest_of(&tables.here).map(|rest| (rest, false));
    let found = here.or_else(|| rest_of(&tables.project_roots).map(|rest| (rest, true)));
    if let Some((rest, of_project)) = found {
        let open = |rest: &[u8]| {
            rest.iter().any(|byte| b"$`(<>".contains(byte))
                || rest.windows(2).any(|pair| pair == b"{}")
        };
        if rest.is_empty() || rest.starts_with(b"/") {
            let typed = [b".", rest.as_slice()].concat();
            let class = if open(&rest) { word.class.clone() } else { class_of(&typed) };
            let word = Word { span: word.span, class };
            return Meant { word, typed, of_project, later: false, spelled: true };
        }
    }
    let begins = |head: &&str| {
        behind(as_typed, head.as_bytes()).is_some_and(|rest| {
            !rest.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        })
    };
    plain(tables.elsewhere.iter().any(begins))
}

/// Returns what stands behind `head`, without quotes and backslashes; blanks and quotes within it do not count.
fn behind(typed: &[u8], head: &[u8]) -> Option<Vec<u8>> {
    let passed = |byte: &u8| b"\"' \t\n\\".contains(byte);
    let mut rest = typed;
    for wanted in head.iter().filter(|byte| !passed(byte)) {
        let start = rest.iter().position(|byte| !passed(byte))?;
        let (found, further) = rest.get(start..)?.split_first()?;
        if found != wanted {
            return None;
        }
        rest = further;
    }
    Some(unquoted(rest))
}

fn unquoted(typed: &[u8]) -> Vec<u8> {
    typed.iter().copied().filter(|byte| !b"\"'\\".contains(byte)).collect()
}

/// Returns the class of a word without quotes: a pattern where it has a mark of one.
fn class_of(typed: &[u8]) -> WordClass {
    if !typed.iter().any(|byte| b"*?[{".contains(byte)) {
        return WordClass::Exact(typed.to_vec().into());
    }
    let mut glob: Vec<Glob> = Vec::new();
    for byte in typed {
        match (byte, glob.last_mut()) {
            (b'*', _) => glob.push(Glob::Star),
            (b'?', _) => glob.push(Glob::Question),
            // Text in brackets and braces may be anything.
            (b'[' | b'{', _) => glob.push(Glob::Other(vec![*byte])),
            (b'/', Some(Glob::Other(_))) => glob.push(Glob::Literal(vec![*byte])),
            (_, Some(Glob::Literal(bytes) | Glob::Other(bytes))) => bytes.push(*byte),
            (_, Some(Glob::Star | Glob::Question) | None) => {
                glob.push(Glob::Literal(vec![*byte]));
            }
        }
    }
    WordClass::Pattern { glob: glob.into(), may_stay_literal: true }
}
