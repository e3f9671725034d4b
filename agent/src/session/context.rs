//! `/context`: what fills the context window, by kind.

use serde_json::{Value, json};
use stockade_model::{Block, Message};
use stockade_turn::Hands as _;

use super::compact;
use super::conversation::Conversation;

/// Cells of the bar.
const CELLS: u64 = 40;

/// Tokens by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parts {
    system: u64,
    tools: u64,
    memory: u64,
    messages: u64,
}

impl Parts {
    fn sum(&self) -> u64 {
        self.system + self.tools + self.memory + self.messages
    }

    /// Holds the parts against what the provider counted: only messages can differ by much, so they are the rest.
    fn counted(self, tokens: u64) -> Parts {
        match tokens {
            0 => self,
            tokens => {
                let rest = self.system + self.tools + self.memory;
                Parts { messages: tokens.saturating_sub(rest), ..self }
            }
        }
    }
}

/// Says whether a message is the command.
pub(super) fn is_command(blocks: &[Block]) -> bool {
    matches!(blocks, [Block::Text(text)] if text.trim() == "/context")
}

impl Conversation {
    /// Returns what fills the window, by kind.
    fn parts(&self) -> Parts {
        let tools = self.door.tools().iter().map(|tool| {
            let schema = tool.input.to_string();
            compact::tokens(&tool.name)
                + compact::tokens(&tool.description)
                + compact::tokens(&schema)
        });
        let memory = compact::tokens(&self.prompt.memory);
        let is_first = self.prompt.is_memory_first;
        let system: u64 = self.prompt.system.iter().map(|part| compact::tokens(part)).sum();
        let messages: u64 = self.messages.iter().map(of_message).sum();
        let (of_system, of_messages) = if is_first { (0, memory) } else { (memory, 0) };
        let parts = Parts {
            system: system.saturating_sub(of_system),
            tools: tools.sum(),
            // Memory that stands in the first message is told once there is one.
            memory: if is_first && self.messages.is_empty() { 0 } else { memory },
            messages: messages.saturating_sub(of_messages),
        };
        parts.counted(self.room.tokens)
    }

    /// Returns what fills the window, in lines for a person.
    pub(super) fn context(&self) -> String {
        let from = self.room.limit(self.asks.window);
        shown(&self.parts(), (self.asks.window, from), self.room.tokens > 0)
    }

    /// Returns what fills the window, in the form of the protocol.
    pub(crate) fn filled(&self) -> Value {
        let parts = self.parts();
        let rows = [
            ("system_prompt", "System prompt", parts.system),
            ("system_tools", "Tools", parts.tools),
            ("memory_files", "Memory files", parts.memory),
            ("messages", "Messages", parts.messages),
        ];
        let from = self.room.limit(self.asks.window);
        filled(&rows, (&self.asks.model, self.asks.window), from)
    }
}

/// Returns the answer to `get_context_usage`.
pub(crate) fn filled(
    rows: &[(&str, &str, u64)],
    (model, window): (&str, u64),
    from: Option<u64>,
) -> Value {
    let used: u64 = rows.iter().map(|row| row.2).sum();
    let free = ("free_space", "Free space", window.saturating_sub(used));
    let row = |(id, name, tokens): &(&str, &str, u64), kind: &str| json!({ "id": id, "name": name, "tokens": tokens, "color": "inactive", "kind": kind });
    let rows = rows.iter().map(|it| row(it, "used")).chain([row(&free, "free")]);
    json!({
        "categories": rows.collect::<Vec<_>>(), "totalTokens": used, "maxTokens": window, "rawMaxTokens": window,
        "percentage": used.saturating_mul(100) / window.max(1), "model": model, "gridRows": [], "memoryFiles": [],
        "mcpTools": [], "agents": [], "autoCompactThreshold": from, "isAutoCompactEnabled": from.is_some(),
        "apiUsage": null,
    })
}

fn of_message(message: &Message) -> u64 {
    message.blocks.iter().map(compact::tokens_of).sum()
}

fn shown(parts: &Parts, (window, from): (u64, Option<u64>), is_counted: bool) -> String {
    let used = parts.sum();
    let percent = |tokens: u64| tokens.saturating_mul(100) / window.max(1);
    let filled = (used.saturating_mul(CELLS) / window.max(1)).min(CELLS);
    let bar: String = (0..CELLS).map(|cell| if cell < filled { '#' } else { '.' }).collect();
    let how = match is_counted {
        true => "counted by the provider with the last answer; its parts are estimated",
        false => "estimated",
    };
    let mut lines = vec![
        format!("Context: {used} of {window} tokens ({} %), {how}", percent(used)),
        format!("[{bar}]"),
    ];
    for (name, tokens) in [
        ("System prompt", parts.system),
        ("Tools", parts.tools),
        ("Memory files", parts.memory),
        ("Messages", parts.messages),
        ("Free", window.saturating_sub(used)),
    ] {
        lines.push(format!("{name:<14}{tokens:>9}  {:>3} %", percent(tokens)));
    }
    lines.push(match from {
        Some(from) => format!("Room is made from {from} tokens on."),
        None => "Room is made by `/compact` alone.".to_owned(),
    });
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: Parts = Parts { system: 100, tools: 200, memory: 50, messages: 150 };

    #[test]
    fn what_the_provider_counted_is_the_whole_and_messages_are_the_rest() {
        assert_eq!(PARTS.counted(0), PARTS);
        assert_eq!(PARTS.counted(1_000), Parts { messages: 650, ..PARTS });
        assert_eq!(PARTS.counted(1_000).sum(), 1_000);
    }

    #[test]
    fn a_person_sees_each_part_and_what_is_free() {
        let expected = "Context: 500 of 1000 tokens (50 %), estimated\n\
            [####################....................]\n\
            System prompt       100   10 %\n\
            Tools               200   20 %\n\
            Memory files         50    5 %\n\
            Messages            150   15 %\n\
            Free                500   50 %\n\
            Room is made from 600 tokens on.";
        assert_eq!(shown(&PARTS, (1_000, Some(600)), false), expected);
        assert!(shown(&PARTS, (1_000, None), true).ends_with("by `/compact` alone."));
    }

    #[test]
    fn the_command_stands_alone() {
        assert!(is_command(&[Block::Text(" /context\n".into())]));
        assert!(!is_command(&[Block::Text("/context please".into())]));
    }
}
