//! A shell call: its simple commands, its redirections, and what is not understood.

use std::path::PathBuf;

use stockade_parser::{
    CommandTree, Directory, Opaque, Position, SimpleCommand, Span, Target, Unread, Word,
};

use crate::Decision;
use crate::Rules;
use crate::facts::Facts;
use crate::index::RuleId;
use crate::knowledge::knowledge;
use crate::paths;
use crate::pattern::command::{CommandForms, CommandPattern, Strike, TypedText};
use crate::rule::Specifier;

use super::bounds::{self, Inside};
use super::command;
use super::context::Context;
use super::files::{self, Access};
use super::guarded::{self, Guarded};
use super::known;
use super::part::{Cover, Draft, Hit, Subject};
use super::places;

/// Longest text in characters that a rule about particular commands can allow.
const LONGEST: usize = 10_000;
/// How much of a text that is not judged is shown, in bytes.
const SHOWN: usize = 240;
/// How many parts that are not understood are listed one by one.
const LISTED: usize = 16;

/// Parts of a tree that are judged.
#[derive(Debug, Clone)]
pub(crate) struct Shell<'a> {
    pub source: &'a [u8],
    pub commands: &'a [SimpleCommand],
    pub opaque: &'a [Opaque],
    pub writes: &'a [Target],
    pub reads: &'a [Target],
    pub nested: &'a [stockade_parser::Bytes],
    pub unread: &'a [Unread],
    pub forks: &'a [Span],
    pub guarded: Guarded<'a>,
    pub inside: Inside,
    /// No command runs elsewhere than where the text begins.
    pub stays: bool,
}

impl<'a> Shell<'a> {
    /// Says whether the text may set options that change what patterns mean (`shopt -s nocaseglob`).
    pub fn sets_globs(&self) -> bool {
        let sets = |command: &SimpleCommand| {
            command.words.iter().any(|word| word.exact() == Some(b"shopt"))
                && command.words.iter().any(|word| {
                    word.exact().is_none_or(|bytes| bytes.windows(4).any(|part| part == b"glob"))
                })
        };
        self.commands.iter().any(sets)
    }

    pub fn of(tree: &'a CommandTree) -> Shell<'a> {
        Shell {
            source: tree.source(),
            commands: tree.commands(),
            opaque: tree.opaque_spans(),
            writes: tree.writes(),
            reads: tree.reads(),
            nested: tree.nested_texts(),
            unread: tree.unread(),
            forks: tree.forks(),
            guarded: Guarded::of(tree.assigned()),
            inside: Inside::of(tree.commands(), tree.unread()),
            stays: stays(tree.commands()),
        }
    }

    /// Says whether a part of the text is one of those that run outside the sandbox.
    pub fn excluded(&self, rules: &Rules) -> bool {
        let patterns = &rules.settings().sandbox.excluded;
        !patterns.is_empty()
            && known::typed_out(self.commands).any(|command| {
                let forms = self.forms(command);
                patterns.iter().any(|(pattern, _)| pattern.strikes(&forms) != Strike::No)
            })
    }

    /// Returns the forms of a command that deny and ask rules are tried against.
    pub fn forms(&self, command: &SimpleCommand) -> CommandForms {
        let raw = if command.via.is_empty() { command.span.of(self.source) } else { &[] };
        let mut forms = CommandForms::new(&command.assignments, &command.words, raw);
        if command.position == Position::Shell {
            // The shell depends on the account and its settings: rules for any shell match.
            let rest = command.words.iter().skip(1);
            for name in &knowledge().shells {
                let name = Word::literal(command.span, name.as_bytes());
                let words: Vec<Word> = std::iter::once(name).chain(rest.clone().cloned()).collect();
                forms.add(CommandForms::new(&[], &words, &[]));
            }
        }
        forms
    }

    /// Returns the text of a command as people see it.
    pub fn text(&self, command: &SimpleCommand) -> String {
        let words = || {
            let words = command.words.iter();
            let texts = words.map(|word| word.exact().unwrap_or_else(|| word.span.of(self.source)));
            texts.map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ")
        };
        if command.via.is_empty() {
            String::from_utf8_lossy(command.span.of(self.source)).into_owned()
        } else {
            words()
        }
    }

    fn is_too_long(&self) -> bool {
        let characters = self.source.iter().filter(|byte| (**byte & 0xc0) != 0x80).count();
        characters > LONGEST
    }

    fn whole(&self) -> Span {
        Span::new(0, self.source.len())
    }
}

/// Says whether every command runs where the text begins.
pub(super) fn stays(commands: &[SimpleCommand]) -> bool {
    commands.iter().all(|command| command.directory == Directory::Start)
}

/// Returns what was found about each part, in source order.
pub(super) fn parts(context: &Context<'_>, shell: &Shell<'_>) -> Vec<Draft> {
    if context.input.get("command").and_then(|value| value.text()).is_none() {
        let mut draft = Draft::new(Subject::Doubt, shell.whole(), String::new());
        draft.hard = Some(("bad_input", "the call has no command text".to_owned()));
        return vec![draft];
    }
    let tool = ToolHits::new(context);
    if let Some(reason) = bounds::beyond(shell) {
        let mut draft = Draft::new(Subject::Doubt, shell.whole(), String::new());
        draft.text =
            String::from_utf8_lossy(shell.source.get(..SHOWN).unwrap_or(shell.source)).into();
        draft.refused = Some(("too_long", reason));
        draft.add(tool.strict);
        return vec![draft];
    }
    let mut drafts = command::parts(context, shell);
    for (place, target) in shell.writes.iter().enumerate() {
        drafts.extend(redirect(context, shell, target, Subject::Write(place), Access::Write));
    }
    for (place, target) in shell.reads.iter().enumerate() {
        drafts.extend(redirect(context, shell, target, Subject::Read(place), Access::Read));
    }
    drafts.extend(doubts(context, shell, &tool));
    drafts.extend(guarded::parts(context, shell, tool.blanket));
    drafts.extend(shell.forks.iter().take(LISTED).map(|span| fork_bomb(shell, *span)));
    for draft in &mut drafts {
        draft.add(tool.strict.iter().copied());
    }
    if let Some(first) = drafts.first_mut() {
        first.add(raw_hits(context, shell));
    }
    drafts.sort_by_key(|draft| draft.span);
    drafts
}

/// The rules about every Bash call.
struct ToolHits {
    /// Deny and ask rules.
    strict: Vec<Hit>,
    /// The allow rule that covers every command.
    blanket: Option<RuleId>,
}

impl ToolHits {
    fn new(context: &Context<'_>) -> ToolHits {
        let mut strict = context.tool_hits(Decision::Deny);
        strict.extend(context.tool_hits(Decision::Ask));
        ToolHits { strict, blanket: blanket(context) }
    }
}

/// Returns the allow rule that covers every command.
pub(super) fn blanket(context: &Context<'_>) -> Option<RuleId> {
    if context.mode == crate::Mode::Auto {
        return None;
    }
    let every = |hit: &Hit| {
        context.rules.rule(hit.rule).is_some_and(|rule| rule.specifier == Specifier::Every)
    };
    context.tool_hits(Decision::Allow).iter().find(|hit| every(hit)).map(|hit| hit.rule)
}

/// Returns the rules that match the whole text: those that name a separator, and all when a part of the
/// text is not understood.
fn raw_hits(context: &Context<'_>, shell: &Shell<'_>) -> Vec<Hit> {
    let mut texts: Option<Vec<TypedText>> = None;
    let read = || {
        let nested = shell.nested.iter().map(|text| text.as_slice());
        [shell.source].into_iter().chain(nested).map(TypedText::new).collect()
    };
    let mut found = Vec::new();
    for effect in [Decision::Deny, Decision::Ask] {
        let index = context.rules.by_effect(effect);
        let rules = if shell.opaque.is_empty() { index.separated() } else { index.all_commands() };
        found.extend(rules.iter().copied().filter(|id| {
            let texts = texts.get_or_insert_with(read);
            pattern(context, *id)
                .is_some_and(|pattern| texts.iter().any(|text| pattern.strikes_raw(text)))
        }));
    }
    found.into_iter().map(Hit::certain).collect()
}

pub(super) fn pattern<'a>(context: &Context<'a>, id: RuleId) -> Option<&'a CommandPattern> {
    match &context.rules.rule(id)?.specifier {
        Specifier::Command(pattern) => Some(pattern),
        Specifier::Every
        | Specifier::EveryOf(_)
        | Specifier::Read(_)
        | Specifier::Edit(_)
        | Specifier::Domain(_)
        | Specifier::Name(_)
        | Specifier::Parameter(..)
        | Specifier::Malformed => None,
    }
}

/// Returns one part for each span that is not understood.
fn doubts(context: &Context<'_>, shell: &Shell<'_>, tool: &ToolHits) -> Vec<Draft> {
    let mut found: Vec<(Span, String)> = Vec::new();
    for opaque in shell.opaque.iter().take(LISTED) {
        let detail = if opaque.detail.is_empty() {
            String::new()
        } else {
            format!(" (`{}`)", opaque.detail)
        };
        let reason =
            format!("not understood: {}{detail}", opaque.reason.help().trim_end_matches('.'));
        found.push((opaque.span, reason));
    }
    if shell.is_too_long() {
        found.push((shell.whole(), format!("the text is longer than {LONGEST} characters")));
    }
    let rules_need_text = context.rules.has_command_specifier();
    let paths_need_text = !context.is_confined() && files::has_strict_rules(context);
    found
        .into_iter()
        .map(|(span, reason)| {
            let text = String::from_utf8_lossy(span.of(shell.source)).into_owned();
            let mut draft = Draft::new(Subject::Doubt, span, text);
            draft.opaque = true;
            if rules_need_text || paths_need_text {
                let reason = format!("{reason}, so deny and ask rules cannot be checked");
                draft.hard = Some(("opaque", reason));
            } else {
                draft.confinable = true;
                draft.cover = tool.blanket.map_or(Cover::Nothing(reason), Cover::Rule);
                draft.add(tool.blanket.map(Hit::certain));
            }
            draft
        })
        .collect()
}

/// Returns the question about a call by which a function starts itself again and again.
fn fork_bomb(shell: &Shell<'_>, span: Span) -> Draft {
    let text = String::from_utf8_lossy(span.of(shell.source)).into_owned();
    let reason = format!(
        "fork bomb: the function `{text}` starts itself again in the background or in a pipeline"
    );
    let mut draft = Draft::new(Subject::Doubt, span, text);
    draft.hard = Some(("fork_bomb", reason));
    draft
}

/// Judges the target of a redirection as a file that is written or read.
fn redirect(
    context: &Context<'_>,
    shell: &Shell<'_>,
    target: &Target,
    subject: Subject,
    access: Access,
) -> Option<Draft> {
    if target.word.exact().is_some_and(|path| files::is_no_file(path, access)) {
        return None;
    }
    let text = String::from_utf8_lossy(target.span.of(shell.source)).into_owned();
    let mut draft = Draft::new(subject, target.span, text);
    let directory = directory_of(context, shell, target);
    let typed = target.word.span.of(shell.source);
    files::judge_target(context, &mut draft, &target.word, typed, directory.as_deref(), access);
    Some(draft)
}

/// Returns the directory at which the target of a redirection begins, if the text tells.
pub(super) fn directory_of(
    context: &Context<'_>,
    shell: &Shell<'_>,
    target: &Target,
) -> Option<PathBuf> {
    match target.command.and_then(|index| shell.commands.get(index as usize)) {
        Some(command) => paths::directory(&command.directory, context.facts),
        None if shell.stays => Some(context.facts.cwd.clone()),
        None => None,
    }
}

/// Returns every path that [`parts`] may ask about, absolute and as it is written.
pub(crate) fn paths_of_shell(shell: &Shell<'_>, facts: &Facts) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if bounds::beyond(shell).is_some() {
        return found;
    }
    let mut take = |path: Option<PathBuf>| found.extend(path);
    for command in shell.commands {
        let directory = paths::directory(&command.directory, facts);
        if command.directory != Directory::Start {
            take(directory.clone());
        }
        for word in files::path_words(command) {
            take(paths::written(&word, directory.as_deref()));
        }
        places::paths_of(shell, facts, command).into_iter().for_each(|path| take(Some(path)));
    }
    for target in shell.writes.iter().chain(shell.reads) {
        let command = target.command.and_then(|index| shell.commands.get(index as usize));
        let place =
            command.map_or(Some(facts.cwd.clone()), |c| paths::directory(&c.directory, facts));
        if let Some(bytes) = target.word.exact() {
            take(paths::written(bytes, place.as_deref()));
        }
    }
    found.sort();
    found.dedup();
    found
}
