//! Removal of paths that nobody gets back: the root, its children, the home directory, the working directory.

use std::path::{Path, PathBuf};

use stockade_parser::{Glob, Reason, SimpleCommand, Word, WordClass};

use crate::knowledge::{Remover, RemoverOperands, knowledge, listed};
use crate::paths;
use crate::pattern::command::base_name;
use crate::pattern::path::{Shape, ShapeSegment};

use super::context::Context;
use super::shell::Shell;
use super::{harmless, places, search, vcs_paths, xargs_like};

/// How people are told of a place that nobody knows before.
const LATER: &str = "a directory that is not known before it runs";

/// Returns why the command needs a person, whatever rules say.
pub(super) fn finding(
    context: &Context<'_>,
    shell: &Shell<'_>,
    command: &SimpleCommand,
) -> Option<String> {
    let word = command.words.first()?;
    let program = base_name(&command.words).or_else(|| word.exact())?;
    let rows = knowledge().removers.iter().filter(|row| listed(&row.names, program));
    let name = String::from_utf8_lossy(program);
    for row in rows {
        let what = match &row.search {
            Some(how) => search::finding(context, shell, command, row, how),
            None if applies(row, command) => removed(context, shell, command, row),
            None => None,
        };
        if let Some(what) = what {
            return Some(format!("`{name}` on {what} always needs a person"));
        }
    }
    None
}

/// Returns the first operand that is critical.
fn removed(
    context: &Context<'_>,
    shell: &Shell<'_>,
    command: &SimpleCommand,
    row: &Remover,
) -> Option<String> {
    let holds_mark = |word: &Word| {
        let stands = match &word.class {
            WordClass::Pattern { glob, .. } => {
                matches!(glob.last(), Some(Glob::Other(mark)) if mark == b"{}")
            }
            WordClass::Unknown { .. } => {
                word.span.of(shell.source).windows(2).any(|mark| mark == b"{}")
            }
            WordClass::Exact(_) => false,
        };
        stands && search::is_started(shell, command)
    };
    // Results of a search are judged by the place where the search begins, but for a word that puts them below another.
    let is_found = |word: &Word| {
        let typed = word.span.of(shell.source);
        let typed = typed.strip_prefix(b"\"").or(typed.strip_prefix(b"'")).unwrap_or(typed);
        matches!(word.class, WordClass::Pattern { .. })
            || typed.strip_prefix(b"./").unwrap_or(typed).starts_with(b"{}")
    };
    let mut own = operands(row, command);
    if matches!(row.operands, RemoverOperands::First) {
        // A word that is the working directory is not an option, although only the shell knows its value.
        let words: Vec<Word> =
            command.words.iter().map(|word| places::meant(shell, word).word).collect();
        let spelled = SimpleCommand { words: words.into(), ..command.clone() };
        own.truncate(operands(row, &spelled).len());
    }
    let operands = own.into_iter().chain(xargs_like::given(shell, command));
    operands.into_iter().find_map(|operand| {
        if holds_mark(&operand) {
            let typed = operand.span.of(shell.source);
            if typed.windows(2).any(|part| part == b"..") {
                return Some("a directory above the found files".to_owned());
            }
            if is_found(&operand) {
                return None;
            }
        }
        let what = critical(context, shell, command, row, &operand)?;
        let meant = places::meant(shell, &operand).word;
        let harmless = harmless::is_harmless(context, shell, command, row, &meant);
        (!harmless).then_some(what)
    })
}

/// Says whether one of the words that make the row count is there, or could be.
pub(super) fn applies(row: &Remover, command: &SimpleCommand) -> bool {
    row.when.is_empty()
        || command
            .words
            .iter()
            .skip(1)
            .any(|word| row.when.iter().any(|wanted| is_option(word, wanted)))
}

/// Says whether a word is, or could be, the wanted one: abbreviated, or a letter in a cluster.
pub(super) fn is_option(word: &Word, wanted: &str) -> bool {
    if word.may_equal(wanted.as_bytes()) {
        return true;
    }
    let Some(bytes) = word.exact() else { return false };
    match wanted.as_bytes() {
        // An abbreviated long option.
        [b'-', b'-', ..] => bytes.len() > 2 && wanted.as_bytes().starts_with(bytes),
        // A cluster of short ones.
        [b'-', letter] => {
            bytes.starts_with(b"-") && !bytes.starts_with(b"--") && bytes.contains(letter)
        }
        _ => false,
    }
}

/// Returns the words to which the command does something.
pub(super) fn operands(row: &Remover, command: &SimpleCommand) -> Vec<Word> {
    let mut found: Vec<Word> = Vec::new();
    let mut only_operands = false;
    for word in command.words.iter().skip(1) {
        let bytes = word.exact().unwrap_or_default();
        let option = !only_operands && bytes.starts_with(b"-") && bytes.len() > 1;
        only_operands |= bytes == b"--";
        match &row.operands {
            RemoverOperands::BeforeOptions if option && !found.is_empty() => break,
            RemoverOperands::Assigned(key) => {
                let value =
                    bytes.strip_prefix(key.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
                found.extend(value.map(|value| Word::literal(word.span, value)));
            }
            RemoverOperands::All
            | RemoverOperands::First
            | RemoverOperands::Last
            | RemoverOperands::BeforeOptions
            | RemoverOperands::Devices => {
                if !option {
                    found.push(word.clone());
                }
            }
        }
    }
    let last_is_place = !harmless::has_target(row, command);
    if matches!(row.operands, RemoverOperands::First) && last_is_place && found.len() > 1 {
        found.pop();
    }
    if matches!(row.operands, RemoverOperands::Last) {
        found.drain(..found.len().saturating_sub(1));
    }
    found
}

/// Returns what the operand is, when it is critical in one of the directories in which the command may run.
pub(super) fn critical(
    context: &Context<'_>,
    shell: &Shell<'_>,
    command: &SimpleCommand,
    row: &Remover,
    operand: &Word,
) -> Option<String> {
    let meant = places::meant(shell, operand);
    let mut directories = places::directories(shell, context.facts, command);
    if meant.later || (meant.spelled && directories.contains(&None)) {
        return Some(LATER.to_owned());
    }
    directories.extend(meant.of_project.then(|| Some(context.facts.project.clone())));
    directories.iter().find_map(|directory| match &meant.word.class {
        WordClass::Exact(bytes) => exact(context, row, bytes, directory.as_deref()),
        WordClass::Pattern { glob, .. } => {
            pattern(context, glob, &meant.word, directory.as_deref())
        }
        WordClass::Unknown { reason, .. } => {
            let open = operand.span.of(shell.source);
            unknown(context, *reason, open, &meant.typed, directory.as_deref())
        }
    })
}

/// Returns what an exact operand is in a directory, when it is critical.
fn exact(
    context: &Context<'_>,
    row: &Remover,
    bytes: &[u8],
    directory: Option<&Path>,
) -> Option<String> {
    let for_devices =
        matches!(row.operands, RemoverOperands::Devices | RemoverOperands::Assigned(_));
    let Some(written) = paths::written(bytes, directory) else {
        return nowhere(context, bytes, for_devices);
    };
    let names = paths::names(&written, context.facts, directory);
    if for_devices {
        return names.iter().find(|name| is_device(name)).map(|name| shown(name));
    }
    names.iter().find(|name| is_critical(context, name)).map(|name| shown(name))
}

/// Returns what a relative path may be in a directory that nobody knows.
fn nowhere(context: &Context<'_>, bytes: &[u8], for_devices: bool) -> Option<String> {
    let mut inside: Vec<&[u8]> = Vec::new();
    for part in bytes.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")) {
        if part == b".." && inside.pop().is_none() {
            return Some(LATER.to_owned());
        }
        if part != b".." {
            inside.push(part);
        }
    }
    let Some(last) = inside.last() else { return Some(LATER.to_owned()) };
    let last = String::from_utf8_lossy(last);
    let below = Path::new("/.git").join(String::from_utf8_lossy(&inside.join(&b'/')).as_ref());
    let named = search::critical_names(context).iter().any(|name| *name == last);
    let may_be = !for_devices && (named || vcs_paths::is_name(&last) || vcs_paths::is_kept(&below));
    may_be.then(|| format!("`{last}` in {LATER}"))
}

/// Returns what a word may be that is not known before it runs, by how it begins and ends: as it stands there, and without quotes.
fn unknown(
    context: &Context<'_>,
    reason: Reason,
    as_typed: &[u8],
    bare: &[u8],
    directory: Option<&Path>,
) -> Option<String> {
    if reason == Reason::Tilde && bare.starts_with(b"~") {
        let deeper = bare.iter().position(|byte| *byte == b'/').and_then(|at| bare.get(at + 1..));
        let whole = deeper.is_none_or(|rest| rest.iter().all(|byte| b"/*.".contains(byte)));
        return whole.then(|| "a home directory".to_owned());
    }
    let quote = as_typed.iter().take_while(|byte| **byte == b'"').count();
    let open = as_typed.get(quote..).is_some_and(|typed| typed.starts_with(b"$"))
        && [b"/".as_slice(), b"/*", b"/.*"].iter().any(|end| bare.ends_with(end));
    if bare.ends_with(b"/..") {
        return Some("a directory above a variable".to_owned());
    }
    // Whatever it becomes, it begins as it is typed.
    let known = bare.split(|byte| b"$`\\*?[{<>(".contains(byte)).next();
    let known = known.and_then(|known| {
        let end = known.iter().rposition(|byte| *byte == b'/')?;
        paths::written(known.get(..=end)?, directory)
    });
    let kept = known.is_some_and(|known| {
        let names = paths::names(&known, context.facts, directory);
        names.iter().any(|name| vcs_paths::is_near(name))
    });
    match (kept, open) {
        (true, _) => Some("the data of version control".to_owned()),
        (false, true) => Some("an entry right below a variable".to_owned()),
        (false, false) => None,
    }
}

/// A pattern whose last part is wild throughout takes everything in a directory.
fn pattern(
    context: &Context<'_>,
    glob: &[Glob],
    word: &Word,
    directory: Option<&Path>,
) -> Option<String> {
    let mut tail: Vec<&Glob> = Vec::new();
    for piece in glob {
        match piece {
            Glob::Literal(bytes) if bytes.contains(&b'/') => {
                tail.clear();
                let behind = bytes.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
                if !behind.is_empty() {
                    tail.push(piece);
                }
            }
            Glob::Literal(_) | Glob::Star | Glob::Question | Glob::Other(_) => tail.push(piece),
        }
    }
    let wild = tail.iter().all(|piece| match piece {
        Glob::Literal(bytes) => bytes.iter().all(|byte| *byte == b'.'),
        Glob::Star | Glob::Question | Glob::Other(_) => true,
    });
    if climbs_behind(glob) {
        return Some("a directory above the matches of a pattern".to_owned());
    }
    let shape = paths::shape(word, directory);
    if shape.as_ref().is_some_and(|shape| vcs_paths::may_be_kept(shape, context.globs_differ)) {
        return Some("the data of version control".to_owned());
    }
    let Some(shape) = shape else {
        let last: Vec<Option<u8>> = tail.iter().flat_map(|piece| symbols(piece)).collect();
        let names = search::critical_names(context);
        let mut names = names.into_iter().chain(vcs_paths::plain_names().map(str::to_owned));
        let named =
            names.find(|name| vcs_paths::may_be(&last, name.as_bytes(), context.globs_differ));
        return match named {
            _ if wild => Some("everything in a directory".to_owned()),
            Some(name) => Some(format!("`{name}` in {LATER}")),
            None => None,
        };
    };
    if let Some(root) = worked_in(context, &shape) {
        return Some(shown(&root));
    }
    let holder = paths::fixed_directory(&shape);
    let names = paths::names(&holder, context.facts, directory);
    let held = names.iter().any(|name| {
        let below = |root: &Path| root.starts_with(name);
        name == Path::new("/")
            || wild
                && (is_critical(context, name)
                    || context.facts.additional_directories.iter().any(|d| below(d))
                    || context.directories.iter().any(|d| below(d)))
    });
    held.then(|| format!("everything in `{}`", holder.display()))
}

/// Says whether `..` stands behind a part of the pattern that is not spelled out.
fn climbs_behind(glob: &[Glob]) -> bool {
    let mut pieces = glob.iter().skip_while(|piece| matches!(piece, Glob::Literal(_)));
    pieces.any(|piece| match piece {
        Glob::Literal(bytes) => bytes.split(|byte| *byte == b'/').skip(1).any(|it| it == b".."),
        Glob::Star | Glob::Question | Glob::Other(_) => false,
    })
}

fn symbols(piece: &Glob) -> Vec<Option<u8>> {
    match piece {
        Glob::Literal(bytes) => {
            let behind = bytes.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            behind.iter().copied().map(Some).collect()
        }
        Glob::Star | Glob::Question | Glob::Other(_) => vec![None],
    }
}

/// Returns the directory worked in, the home, or one above them that a pattern may stand for.
fn worked_in(context: &Context<'_>, shape: &Shape) -> Option<PathBuf> {
    let facts = context.facts;
    let roots = paths::working_directories(facts, &context.directories);
    let mut roots = roots.chain([facts.home.as_path(), facts.cwd.as_path()]);
    let fits = |path: &Path| {
        let names = path.iter().skip(1);
        names.clone().count() == shape.segments.len()
            && names.zip(&shape.segments).all(|(name, segment)| match segment {
                ShapeSegment::Known(bytes) => bytes == name.as_encoded_bytes(),
                ShapeSegment::Glob(symbols) => {
                    vcs_paths::may_be(symbols, name.as_encoded_bytes(), context.globs_differ)
                }
            })
    };
    roots.find_map(|root| root.ancestors().find(|path| fits(path)).map(Path::to_owned))
}

fn is_critical(context: &Context<'_>, path: &Path) -> bool {
    let facts = context.facts;
    let shallow = path.iter().count() <= 2;
    let above = |root: &PathBuf| root.starts_with(path);
    vcs_paths::is_kept(path)
        || shallow
        || above(&facts.home)
        || facts.homes.iter().any(above)
        || above(&facts.cwd)
        || above(&facts.project)
}

fn is_device(path: &Path) -> bool {
    path.starts_with("/dev") && path != Path::new("/dev/null")
}

pub(super) fn shown(path: &Path) -> String {
    format!("`{}`", path.display())
}
