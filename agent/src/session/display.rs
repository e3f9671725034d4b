//! Texts of the model, told to the hooks of MessageDisplay beside the turn: what they say changes nothing of it.

use std::sync::Arc;

use serde_json::{Value, json};
use stockade_door::Door;
use stockade_model::{Answer, Block};
use stockade_sdk::identity;
use stockade_turn::Interrupt;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Tells hooks of the texts of one turn, in their order.
pub(super) struct Display {
    turn: String,
    texts: mpsc::UnboundedSender<Value>,
    telling: JoinHandle<()>,
}

impl Display {
    pub(super) fn begin(door: Arc<Door>) -> Display {
        let (texts, mut waiting) = mpsc::unbounded_channel::<Value>();
        let telling = tokio::spawn(async move {
            while let Some(more) = waiting.recv().await {
                door.event("MessageDisplay", "", more).await;
            }
        });
        Display { turn: identity(), texts, telling }
    }

    /// Takes an answer that is complete.
    pub(super) fn shows(&self, answer: &Answer) {
        let text = |block: &Block| match block {
            Block::Text(text) => Some(text.clone()).filter(|it| !it.is_empty()),
            Block::Image(_) | Block::Thinking(_) | Block::Call { .. } | Block::Outcome(_) => None,
        };
        let texts: Vec<String> = answer.message.blocks.iter().filter_map(text).collect();
        let last = texts.len().saturating_sub(1);
        for (index, text) in texts.into_iter().enumerate() {
            let more = json!({
                "turn_id": self.turn, "message_id": answer.id, "index": index, "final": index == last, "delta": text,
            });
            let _ = self.texts.send(more); // it listens until the end
        }
    }

    /// Waits until all is told, unless the turn is to end.
    pub(super) async fn finish(self, interrupt: &Interrupt) {
        drop(self.texts);
        let mut telling = self.telling;
        tokio::select! {
            _ = &mut telling => {}
            () = interrupt.given() => telling.abort(),
        }
    }
}
