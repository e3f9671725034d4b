//! Functions that start themselves again in further processes, such as `:(){ :|:& };:`.

use std::collections::HashMap;

use crate::Span;
use crate::event::{Event, Kind, flag};
use crate::extract::{Text, Walk, weight};
use crate::grammar::redirect::{push_without_continuations, token_text};

/// A call of a function in the body of another, or in its own.
struct Call {
    from: usize,
    to: usize,
    /// It runs in the background or in a pipeline, so that the caller goes on meanwhile.
    forks: bool,
    word: Event,
}

impl Walk<'_> {
    /// Lists the calls by which a function of the text starts itself again, directly or through others, while it goes on.
    pub(crate) fn forks_of(&mut self, text: &Text) {
        let events = text.syntax.events.as_slice();
        if !events.iter().any(|event| event.kind == Kind::Function) {
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
        match event.kind {
            Kind::Function => bodies.extend(called(event, at).map(|(name, _)| (name, end))),
            Kind::Simple | Kind::PlainCommand => {
                let (Some((from, body)), Some((to, word))) =
                    (bodies.last().copied(), called(event, at))
                else {
                    continue;
                };
                // What the whole body runs beside is not its own.
                let forks = beside.last().is_some_and(|end| *end <= body);
                found.push(Call { from, to, forks, word });
            }
            _ if runs_beside(event) => beside.push(end),
            _ => {}
        }
    }
    (found, names.len())
}

/// Says whether what a node holds runs while the shell that started it goes on.
fn runs_beside(event: &Event) -> bool {
    match event.kind {
        Kind::AndOr => event.flags & flag::BACKGROUND != 0,
        Kind::Pipeline => event.flags & flag::PIPED != 0,
        Kind::Coproc | Kind::ProcessSubstitution => true,
        _ => false,
    }
}

/// Returns the first word of a node that is neither assigned nor the target of a redirection.
fn word_behind(events: &[Event], at: usize, end: usize) -> Option<&Event> {
    let mut at = at + 1;
    while at < end {
        let event = events.get(at)?;
        match event.kind {
            Kind::Word | Kind::PlainWord => return Some(event),
            Kind::Redirect | Kind::Assignment => at = event.link as usize,
            _ => {}
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
