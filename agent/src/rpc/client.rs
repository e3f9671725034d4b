//! One program that is connected.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

/// Most bytes that wait for a client. One that is slower is dropped, and can come back.
const BACKLOG: usize = 8 << 20;

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) number: u64,
    out: mpsc::UnboundedSender<Option<String>>,
    waiting: AtomicUsize,
    is_dropped: AtomicBool,
    dropped: Notify,
    subscribed: Mutex<HashSet<String>>,
}

impl Client {
    pub(super) fn new(number: u64, out: mpsc::UnboundedSender<Option<String>>) -> Client {
        Client {
            number,
            out,
            waiting: AtomicUsize::new(0),
            is_dropped: AtomicBool::new(false),
            dropped: Notify::new(),
            subscribed: Mutex::default(),
        }
    }

    /// Sends a message, unless too much waits already.
    pub(super) fn say(&self, mut message: Value) {
        if let Some(fields) = message.as_object_mut() {
            fields.insert("jsonrpc".into(), json!("2.0"));
        }
        let line = format!("{message}\n");
        let waiting = self.waiting.fetch_add(line.len(), Ordering::Relaxed);
        if self.is_dropped() || waiting > BACKLOG {
            self.is_dropped.store(true, Ordering::Relaxed);
            self.dropped.notify_waiters();
            return;
        }
        let _ = self.out.send(Some(line)); // one that is gone needs nothing
    }

    /// Says that nothing more comes.
    pub(super) fn end(&self) {
        let _ = self.out.send(None); // one that is gone needs nothing
    }

    /// Waits until the client was too slow.
    pub(super) async fn dropped(&self) {
        loop {
            let told = self.dropped.notified();
            if self.is_dropped() {
                return;
            }
            told.await;
        }
    }

    /// Takes note that so many bytes were written.
    pub(super) fn written(&self, bytes: usize) {
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Says whether the client was too slow: its connection ends.
    pub(super) fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Relaxed)
    }

    pub(super) fn subscribe(&self, session: &str) {
        let mut all = self.subscribed.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(session.to_owned());
    }

    pub(super) fn has(&self, session: &str) -> bool {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner).contains(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_client_is_dropped_at_the_limit_and_not_before() {
        let (out, mut lines) = mpsc::unbounded_channel();
        let client = Client::new(1, out);
        let big = json!({ "x": "x".repeat(1 << 20) });
        (0..8).for_each(|_| client.say(big.clone()));
        assert!(!client.is_dropped());
        let first = lines.try_recv().unwrap().unwrap();
        client.written(first.len());
        client.say(big.clone());
        assert!(!client.is_dropped());
        client.say(big.clone());
        client.say(big);
        assert!(client.is_dropped());
    }
}
