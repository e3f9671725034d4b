//! Programs that go through whole directories: what rules say about a path holds above it, too.

use std::path::{Path, PathBuf};

use stockade_parser::{EffectKind, SimpleCommand, Word};

use crate::knowledge::{Walker, knowledge, listed};
use crate::paths;
use crate::pattern::command::base_name;
use crate::pattern::path::{PathPattern, Shape, ShapeSegment};
use crate::pattern::tool::NameGlob;

use super::context::Context;
use super::critical::is_option;
use super::expanded;
use super::files::{self, Access};
use super::part::{Certainty, Draft};

/// Adds the rules about paths below the directories that a command goes through.
pub(super) fn judge(
    context: &Context<'_>,
    draft: &mut Draft,
    command: &SimpleCommand,
    directory: Option<&Path>,
) {
    let program = base_name(&command.words).or_else(|| command.words.first()?.exact());
    let Some(program) = program else { return };
    let has = |wanted: &&str| command.words.iter().skip(1).any(|word| is_option(word, wanted));
    let rows = knowledge().walkers.iter().filter(|row| listed(&row.names, program));
    let rows = rows.filter(|row| does(row, &command.words));
    for row in rows.filter(|row| row.when.is_empty() || row.when.iter().any(has)) {
        let shows_hidden = row.hidden.as_ref().is_none_or(|words| words.iter().any(has));
        for root in roots(context, row, command, directory) {
            let place = root.as_ref().map(paths::fixed_directory);
            if place.as_deref().is_some_and(|it| context.made.lies_below(Some(command), it)) {
                let linked = Certainty::Linked;
                draft.add(files::possible_hits(context, Access::Read, None, linked));
            }
            if place.as_deref().is_some_and(paths::holds_doors) {
                files::add_any(context, draft);
            }
            for (access, does) in [(Access::Read, row.reads), (Access::Write, row.writes)] {
                if does {
                    let mut hits =
                        files::possible_hits(context, access, root.as_ref(), Certainty::Below);
                    hits.retain(|hit| {
                        (shows_hidden || !is_hidden(context, hit.rule, root.as_ref()))
                            && ((row.deep && access == Access::Read)
                                || names_a_place(context, hit.rule, root.as_ref()))
                    });
                    draft.add(hits);
                }
            }
        }
    }
}

/// Says whether the sub-command is one of those that a row names, or not known before it runs.
fn does(row: &Walker, words: &[Word]) -> bool {
    let stands = |wanted: &&str| {
        if let Some(part) = wanted.strip_prefix('*') {
            let holds = |bytes: &[u8]| bytes.windows(part.len()).any(|it| it == part.as_bytes());
            return words.last().and_then(Word::exact).is_some_and(holds);
        }
        let equals = |bytes: &[u8]| match wanted.ends_with('=') {
            true => bytes.starts_with(wanted.as_bytes()),
            false => bytes == wanted.as_bytes(),
        };
        // A bundle of letters without a dash is the first word alone, and behind `--` there are only operands.
        let before = words.iter().skip(1).take_while(|word| word.exact() != Some(b"--"));
        before.enumerate().any(|(at, word)| {
            word.exact().is_some_and(|it| (at == 0 || it.starts_with(b"-")) && equals(it))
        })
    };
    if row.commands.is_empty() || row.unless.iter().any(stands) {
        return !row.unless.iter().any(stands);
    }
    is_sub_command(&row.commands, &row.valued, words)
}

/// Says whether the words begin with one of the sub-commands, or could; `valued` names the options of the program whose
/// value is the next word.
pub(super) fn is_sub_command(commands: &[Vec<&str>], valued: &[&str], words: &[Word]) -> bool {
    let mut plain: Vec<&Word> = Vec::new();
    let mut rest = words.iter().skip(1);
    while let Some(word) = rest.next() {
        match word.exact() {
            Some(option) if listed(valued, option) => drop(rest.next()),
            Some(option) if option.starts_with(b"-") => {}
            Some(_) | None => plain.push(word),
        }
    }
    commands.iter().any(|command| {
        let mut pairs = command.iter().zip(&plain);
        plain.len() >= command.len() && pairs.all(|(name, word)| word.may_equal(name.as_bytes()))
    })
}

/// Returns the directories through which a command goes; none stands for one that is not known.
fn roots(
    context: &Context<'_>,
    row: &Walker,
    command: &SimpleCommand,
    directory: Option<&Path>,
) -> Vec<Option<Shape>> {
    let touched = command
        .effects
        .iter()
        .filter(|effect| matches!(effect.kind, EffectKind::Read | EffectKind::Write));
    let mut words: Vec<&Word> =
        touched.filter_map(|effect| effect.object(&command.words)).collect();
    if !command.effects_known {
        let plain = |word: &&Word| !word.exact().is_some_and(|bytes| bytes.starts_with(b"-"));
        words.extend(command.words.iter().skip(1).filter(plain));
    }
    if row.whole {
        let behind = |word: &&Word| word.span.start > end_of_options(&command.words);
        words = command.words.iter().skip(1).filter(behind).collect();
        if words.is_empty() {
            let mut found = shapes(context, &context.facts.project, directory);
            found.extend(directory.map_or(vec![None], |place| shapes(context, place, directory)));
            return found;
        }
    }
    if words.is_empty() && row.bare {
        return match directory {
            Some(directory) => shapes(context, directory, Some(directory)),
            None => vec![None],
        };
    }
    let mut found = Vec::new();
    for word in words {
        match word.exact().map(|bytes| paths::written(bytes, directory)) {
            Some(Some(written)) => found.extend(shapes(context, &written, directory)),
            Some(None) => found.push(None),
            None => {
                found.extend(expanded::links(context, word, directory).map(|it| Some(open(it))));
                let shape = files::shape(context, word, directory);
                found.push(shape.map(|shape| Shape { open: true, ..shape }));
            }
        }
    }
    found
}

/// Takes out what rules say of files by a name that a search does not find: `find -name x -delete` removes no `.env`.
pub(super) fn leave_out_others(context: &Context<'_>, draft: &mut Draft, command: &SimpleCommand) {
    let words = &command.words;
    let is_find = words.first().and_then(Word::exact) == Some(b"find");
    let joins = |word: &Word| {
        word.exact().is_none_or(|it| matches!(it, b"-o" | b"-or" | b"," | b"!" | b"-not" | b"("))
    };
    // Commands that `find` hands files to may read them by any name, and each of those commands is a part of its own.
    if !is_find || words.iter().any(joins) {
        return;
    }
    let Some(at) = words.iter().position(|word| word.exact() == Some(b"-name")) else { return };
    // An action in front of the test is done to every file.
    let acts = |word: &Word| {
        let starts = [&b"-delete"[..], b"-exec", b"-ok", b"-fprint", b"-fls"];
        word.exact().is_some_and(|it| starts.iter().any(|start| it.starts_with(start)))
    };
    let (before, behind) = words.split_at(at);
    let Some(name) = behind.get(1).filter(|_| !before.iter().any(acts)) else { return };
    let Some(Some(found)) = name.exact().map(|it| std::str::from_utf8(it).ok()) else { return };
    if found.contains(['[', '?', '\\']) {
        return;
    }
    let found = NameGlob::new(found);
    draft.leave_out(|hit| {
        let other = |pattern: &PathPattern| {
            let last = pattern.last().and_then(|it| std::str::from_utf8(it).ok());
            pattern.is_of_any_depth() && last.is_some_and(|last| !found.matches(last))
        };
        !hit.is_certain() && files::pattern(context, hit.rule).is_some_and(other)
    });
}

/// Adds the rules about what a word names when the program reads it as a pattern itself.
pub(super) fn add_quoted(
    context: &Context<'_>,
    draft: &mut Draft,
    command: &SimpleCommand,
    word: &Word,
    directory: Option<&Path>,
    access: Access,
) {
    let program = base_name(&command.words).or_else(|| command.words.first()?.exact());
    if !program.is_some_and(|program| listed(&knowledge().pattern_readers, program)) {
        return;
    }
    let shape = word.exact().and_then(|bytes| paths::quoted_shape(bytes, directory));
    let Some(shape) = shape else { return };
    draft.add(files::possible_hits(context, access, Some(&shape), Certainty::Later));
    // The shape stands for a directory as well; a rule for a name at any depth could be meant by every one.
    let below = Shape { open: true, ..shape };
    let mut hits = files::possible_hits(context, access, Some(&below), Certainty::Later);
    hits.retain(|hit| files::pattern(context, hit.rule).is_some_and(|it| !it.is_of_any_depth()));
    draft.add(hits);
}

/// Returns where the word `--` stands, or the end of the text.
fn end_of_options(words: &[Word]) -> u32 {
    let mark = words.iter().find(|word| word.exact() == Some(b"--"));
    mark.map_or(u32::MAX, |mark| mark.span.start)
}

/// Returns what can lie at or below a path, under each of its names.
pub(super) fn shapes(
    context: &Context<'_>,
    written: &Path,
    directory: Option<&Path>,
) -> Vec<Option<Shape>> {
    let names: Vec<PathBuf> = paths::names(written, context.facts, directory);
    names.iter().map(|name| Some(open(name))).collect()
}

fn open(path: &Path) -> Shape {
    let known = |name: &std::ffi::OsStr| ShapeSegment::Known(name.as_encoded_bytes().to_vec());
    Shape { segments: path.iter().skip(1).map(known).collect(), open: true }
}

/// Says whether all that a rule matches lies behind a name with a dot in front that a walk from `root` leaves out.
fn is_hidden(context: &Context<'_>, rule: usize, root: Option<&Shape>) -> bool {
    let dotted = |segment: &ShapeSegment| match segment {
        ShapeSegment::Known(bytes) => bytes.starts_with(b"."),
        ShapeSegment::Glob(_) => true,
    };
    root.is_some_and(|root| !root.segments.iter().any(dotted))
        && files::pattern(context, rule).is_some_and(|pattern| pattern.names_a_hidden_file())
}

/// Says whether a rule names a place, or what it names at any depth is looked for in the whole working directory.
/// Commands that remove, move or compare files further below show nothing of a file that may be there.
pub(super) fn names_a_place(context: &Context<'_>, rule: usize, root: Option<&Shape>) -> bool {
    let whole = root.is_none_or(|root| {
        context.facts.cwd.starts_with(paths::fixed_directory(root)) && root.open
    });
    whole || files::pattern(context, rule).is_none_or(|pattern| !pattern.is_of_any_depth())
}
