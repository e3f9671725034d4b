//! The difference of two texts, as hunks.

use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};

/// Lines of context around a change.
const AROUND: usize = 3;
/// Most bytes of both texts of which a difference is made.
const MAX: usize = 4 << 20;

/// Returns the hunks of a difference in the form of Claude Code's `structuredPatch`; none for very long texts.
pub(crate) fn hunks(before: &str, after: &str) -> Vec<Value> {
    if before.len() + after.len() > MAX {
        return Vec::new();
    }
    let diff = TextDiff::from_lines(before, after);
    let mut hunks = Vec::new();
    for group in diff.grouped_ops(AROUND) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let (old, new) = (
            first.old_range().start..last.old_range().end,
            first.new_range().start..last.new_range().end,
        );
        let changes = group.iter().flat_map(|operation| diff.iter_changes(operation));
        let lines = changes.map(|change| {
            let mark = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            format!("{mark}{}", change.value().trim_end_matches('\n'))
        });
        hunks.push(json!({
            "oldStart": old.start + 1, "oldLines": old.len(), "newStart": new.start + 1, "newLines": new.len(),
            "lines": lines.collect::<Vec<_>>(),
        }));
    }
    hunks
}
