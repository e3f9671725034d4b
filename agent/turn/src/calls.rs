//! The tool calls of one answer: together where all of them can be, else in order; one result for each.

use std::collections::VecDeque;

use stockade_model::{Block, Tool};
use tokio::sync::Semaphore;

use crate::hands::{Call, Done, Hands};
use crate::interrupt::Interrupt;

/// Most calls at once.
const AT_ONCE: usize = 10;
/// The result of a call that an interrupt ended.
pub(crate) const INTERRUPTED: &str = "[Request interrupted by user for tool use]";

/// A call as the model sent it.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) call: Call,
    /// Why it cannot be done at all.
    pub(crate) wrong: Option<String>,
}

/// Returns the calls of an answer, in order. A call without an identity, or with one that another call has, gets one of
/// its own, so that each result has its call.
pub(crate) fn sent(blocks: &mut [Block], hands: &impl Hands) -> Vec<Sent> {
    let mut found: Vec<Sent> = Vec::new();
    for (index, block) in blocks.iter_mut().enumerate() {
        let Block::Call { id, name, input } = block else { continue };
        if id.is_empty() || found.iter().any(|it| it.call.id == *id) {
            *id = format!("call_{index}_{}", found.len());
        }
        let is_known = hands.knows(name);
        let wrong = match &input {
            _ if !is_known => Some(unknown(name, hands.tools())),
            Err(text) => Some(format!(
                "The input of `{name}` is not a JSON object: {}. Send the call again with a JSON object.",
                text.chars().take(200).collect::<String>()
            )),
            Ok(_) => None,
        };
        let call =
            Call { id: id.clone(), name: name.clone(), input: input.clone().unwrap_or_default() };
        found.push(Sent { call, wrong });
    }
    found
}

fn unknown(name: &str, tools: &[Tool]) -> String {
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let near = names.iter().find(|it| it.eq_ignore_ascii_case(name));
    let near = near.map(|it| format!(" Did you mean `{it}`?")).unwrap_or_default();
    format!("The tool `{name}` does not exist.{near} The tools are: {}.", names.join(", "))
}

/// Does calls and returns their results in the order of the calls. `report` hears of each when it is over. After an
/// interrupt, or a call that ends the turn, the rest have results that say so.
pub(crate) async fn run(
    hands: &impl Hands,
    calls: Vec<Sent>,
    interrupt: &Interrupt,
    report: &mut (dyn FnMut(&Done) + Send),
) -> Vec<Done> {
    let together = calls.len() > 1
        && calls.iter().all(|it| it.wrong.is_some() || hands.is_concurrent(&it.call));
    if together {
        at_once(hands, calls, interrupt, report).await
    } else {
        in_order(hands, calls, interrupt, report).await
    }
}

async fn one(hands: &impl Hands, sent: Sent, interrupt: &Interrupt) -> Done {
    let id = sent.call.id.clone();
    if let Some(wrong) = sent.wrong {
        return Done::failed(&id, &wrong);
    }
    if interrupt.is_given() {
        return Done::failed(&id, INTERRUPTED);
    }
    tokio::select! {
        done = hands.run(sent.call) => done,
        () = interrupt.given() => Done::failed(&id, INTERRUPTED),
    }
}

async fn in_order(
    hands: &impl Hands,
    calls: Vec<Sent>,
    interrupt: &Interrupt,
    report: &mut (dyn FnMut(&Done) + Send),
) -> Vec<Done> {
    let mut results: Vec<Done> = Vec::new();
    let mut calls = VecDeque::from(calls);
    while let Some(sent) = calls.pop_front() {
        let over = results.last().and_then(|done| done.ends.clone());
        let done = match over {
            Some(reason) => Done { ends: Some(reason), ..Done::failed(&sent.call.id, INTERRUPTED) },
            None => one(hands, sent, interrupt).await,
        };
        report(&done);
        results.push(done);
    }
    results
}

async fn at_once(
    hands: &impl Hands,
    calls: Vec<Sent>,
    interrupt: &Interrupt,
    report: &mut (dyn FnMut(&Done) + Send),
) -> Vec<Done> {
    let places = Semaphore::new(AT_ONCE);
    let places = &places;
    let (told, mut done) = tokio::sync::mpsc::unbounded_channel();
    let count = calls.len();
    let running = calls.into_iter().enumerate().map(|(index, sent)| {
        let told = told.clone();
        async move {
            // The semaphore is never closed.
            let _place = places.acquire().await.ok();
            let done = one(hands, sent, interrupt).await;
            let _ = told.send((index, done)); // the receiver lives as long as this
        }
    });
    let running = join_all(running.collect());
    let mut results: Vec<Option<Done>> = (0..count).map(|_| None).collect();
    let collect = async {
        for _ in 0..count {
            let Some((index, finished)) = done.recv().await else { break };
            report(&finished);
            if let Some(place) = results.get_mut(index) {
                *place = Some(finished);
            }
        }
    };
    tokio::join!(running, collect);
    results.into_iter().flatten().collect()
}

/// Polls all futures until each is finished.
async fn join_all<F: Future<Output = ()>>(futures: Vec<F>) {
    let mut open: Vec<_> = futures.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|context| {
        open.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if open.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}
