//! Functions that start themselves again in further processes, such as `:(){ :|:& };:`.

use std::collections::HashMap;

use crate::Span;
use crate::event::{Event, Kind, flag};
use crate::extract::{Text, Walk, weight};
use crate::grammar::redirect::{push_without_continuations, token_text};

/// Ways in which a script names itself.
const OWN_NAMES: [&[u8]; 3] = [b"$0", b"${0", b"BASH_SOURCE"];

/// Words in a body by which another shell may call the functions of this one, once they are exported.
const STARTERS: [&[u8]; 9] =
    [b"bash", b"sh", b"xargs", b"parallel", b"env", b"$SHELL", b"$BASH", b"timeout", b"setsid"];

/// A call of a function in the body of another, or in its own.
struct Call {
    from: usize,
    to: usize,
    /// True if the call runs in the background or in a pipeline, so that the caller goes on meanwhile.
    forks: bool,
    word: Event,
}

impl Walk<'_> {
    /// Lists the calls by which a function of the text starts itself again, directly or through others, while it goes on.
    pub(crate) fn forks_of(&mut self, text: &Text) {
        let events = text.syntax.events.as_slice();
        let names_itself = OWN_NAMES.iter().any(|name| holds(&text.bytes, name));
        if !names_itself && !events.iter().any(|event| event.kind == Kind::Function) {
            return;
        }
        self.steps = self.steps.saturating_add(events.len() as u64 * weight::PROCESS);
        let (calls, functions) = calls(text, events);
        let calls = circular(calls, functions);
        let forks = calls.iter().filter(|call| call.forks);
        let spans = forks.map(|call| span_of(text, &call.word));
        self.forks.extend(spans.take(self.limits.notices));
    }
}

fn span_of(text: &Text, word: &Event) -> Span {
    text.map.span(Span { start: word.start, end: word.end })
}

/// Returns the calls of functions of the text in bodies of functions, and how many functions there are.
fn calls(text: &Text, events: &[Event]) -> (Vec<Call>, usize) {
    let mut names: HashMap<Vec<u8>, usize> = HashMap::new();
    for (at, event) in events.iter().enumerate() {
        if event.kind == Kind::Function
            && let Some(word) = word_behind(events, at, event.link as usize)
        {
            let fresh = names.len();
            names.entry(name_of(text, word)).or_insert(fresh);
        }
    }
    let called = |event: &Event, at: usize| {
        let word = word_behind(events, at, event.link as usize)?;
        Some((*names.get(&name_of(text, word))?, *word))
    };
    let itself = names.len();
    let mut found = Vec::new();
    // Functions around the place, and places up to which something runs beside what called it.
    let (mut bodies, mut beside): (Vec<(usize, usize)>, Vec<usize>) = (Vec::new(), Vec::new());
    for (at, event) in events.iter().enumerate() {
        while bodies.last().is_some_and(|(_, end)| *end <= at) {
            bodies.pop();
        }
        while beside.last().is_some_and(|end| *end <= at) {
            beside.pop();
        }
        let end = event.link as usize;
        match role(event) {
            Role::Function => {
                if let Some((from, word)) = called(event, at) {
                    bodies.push((from, end));
                    found.extend(exported(text, &names, event, from, word));
                }
            }
            Role::Command => {
                found.extend(restarted(text, events, at, itself, !beside.is_empty()));
                let (Some((from, body)), Some((to, word))) =
                    (bodies.last().copied(), called(event, at))
                else {
                    continue;
                };
                // A process around the whole body does not count as one of the call itself.
                let forks = beside.last().is_some_and(|end| *end <= body);
                found.push(Call { from, to, forks, word });
            }
            Role::Beside => beside.push(end),
            Role::Word | Role::Aside | Role::Rest => {}
        }
    }
    (found, names.len() + 1)
}

/// Returns the call by which a script starts itself.
fn restarted(text: &Text, events: &[Event], at: usize, itself: usize, forks: bool) -> Option<Call> {
    let end = events.get(at)?.link as usize;
    let word = *word_behind(events, at, end)?;
    let names_itself = |word: &Event| {
        let bytes = token_text(&text.bytes, word);
        OWN_NAMES.iter().any(|name| holds(bytes, name))
    };
    let is_shell = name_of(text, &word).ends_with(b"sh");
    let first = names_itself(&word);
    let behind = is_shell
        && events
            .get(at..end)?
            .iter()
            .any(|event| matches!(event.kind, Kind::Word | Kind::PlainWord) && names_itself(event));
    (first || behind).then_some(Call { from: itself, to: itself, forks, word })
}

/// Returns the calls of functions that a body may make through another shell.
fn exported(
    text: &Text,
    names: &HashMap<Vec<u8>, usize>,
    function: &Event,
    from: usize,
    word: Event,
) -> Vec<Call> {
    let start = word.end as usize;
    let body = text.bytes.get(start..function.end as usize).unwrap_or_default();
    let words = || body.split(|byte| !(byte.is_ascii_alphanumeric() || b"_-$:.".contains(byte)));
    if !words().any(|word| STARTERS.contains(&word)) {
        return Vec::new();
    }
    let forks = body.iter().any(|byte| b"&|".contains(byte));
    let called = words().filter_map(|word| names.get(word));
    called.map(|to| Call { from, to: *to, forks, word }).collect()
}

fn holds(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|it| it == part)
}

/// Part that an event has in the search for calls.
enum Role {
    Function,
    Command,
    Word,
    /// Its words are no words of the node around it.
    Aside,
    /// A node whose content runs while the shell that started it goes on.
    Beside,
    Rest,
}

fn role(event: &Event) -> Role {
    use Kind::*;
    match event.kind {
        Function => Role::Function,
        Simple | PlainCommand => Role::Command,
        Word | PlainWord => Role::Word,
        Redirect | Assignment => Role::Aside,
        AndOr if event.flags & flag::BACKGROUND != 0 => Role::Beside,
        Pipeline if event.flags & flag::PIPED != 0 => Role::Beside,
        Coproc | ProcessSubstitution => Role::Beside,
        Blank | Newline | Comment | Continuation | Operator | Keyword | Number
        | VariableDescriptor | RedirectOperator | Literal | Escape | Single | Ansi | Quote
        | Name | Parameter | ParameterOperator | Backquote | Opener | Closer | HereText
        | HereTabs | HereEnd | Junk | List | AndOr | Pipeline | ArrayValue | Double | Braced
        | Subscript | Substitution | BraceSubstitution | Arithmetic | Group | Subshell | If
        | Branch | Loop | For | Select | Case | CaseItem | Test | ExtendedPattern | HereBody
        | Close => Role::Rest,
    }
}

/// Returns the first word of a node that is neither assigned nor the target of a redirection.
fn word_behind(events: &[Event], at: usize, end: usize) -> Option<&Event> {
    let mut at = at + 1;
    while at < end {
        let event = events.get(at)?;
        match role(event) {
            Role::Word => return Some(event),
            Role::Aside => at = event.link as usize,
            Role::Function | Role::Command | Role::Beside | Role::Rest => {}
        }
        at += 1;
    }
    None
}

/// Returns a word without quotes and backslashes, as far as it is one literal.
fn name_of(text: &Text, word: &Event) -> Vec<u8> {
    let mut name = Vec::new();
    push_without_continuations(token_text(&text.bytes, word), &mut name);
    name.retain(|byte| !b"'\"\\".contains(byte));
    name
}

/// Returns the calls that may be part of a circle: without those of functions that nothing calls, and again without those.
fn circular(calls: Vec<Call>, functions: usize) -> Vec<Call> {
    let mut callers = vec![0_usize; functions];
    let mut called: Vec<Vec<usize>> = vec![Vec::new(); functions];
    for call in &calls {
        callers.get_mut(call.to).into_iter().for_each(|count| *count += 1);
        called.get_mut(call.from).into_iter().for_each(|list| list.push(call.to));
    }
    let mut free: Vec<usize> = (0..functions).filter(|it| callers.get(*it) == Some(&0)).collect();
    while let Some(function) = free.pop() {
        for to in called.get_mut(function).map(std::mem::take).unwrap_or_default() {
            let Some(count) = callers.get_mut(to) else { continue };
            *count -= 1;
            if *count == 0 {
                free.push(to);
            }
        }
    }
    let is_left = |function: usize| callers.get(function).is_some_and(|count| *count > 0);
    calls.into_iter().filter(|call| is_left(call.from) && is_left(call.to)).collect()
}
