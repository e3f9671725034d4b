//! The grammar, loaded once, over one text at a time.

use tree_sitter::{Language, Parser};

use crate::{Refusal, Seen, SeenNode, guard};

/// The grammar and a parser for it.
pub struct Grammar {
    parser: Parser,
    language: Language,
}

/// One kind of node as the grammar names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindName<'a> {
    /// The name.
    pub name: &'a str,
    /// A named node, not a literal token.
    pub named: bool,
}

/// Nodes for each byte of a text beyond which an answer is refused; the grammar needs at most three.
const NODES_PER_BYTE: usize = 8;

impl Grammar {
    /// Loads the grammar; none if this build of tree-sitter cannot use it.
    pub fn load() -> Option<Grammar> {
        let language = Language::new(tree_sitter_bash::LANGUAGE);
        let mut parser = Parser::new();
        parser.set_language(&language).ok()?;
        Some(Grammar { parser, language })
    }

    /// Returns the kinds of nodes, in the order of [`SeenNode::kind`].
    pub fn kinds(&self) -> Vec<KindName<'static>> {
        let count = u16::try_from(self.language.node_kind_count()).unwrap_or(u16::MAX);
        (0..count)
            .map(|id| KindName {
                name: self.language.node_kind_for_id(id).unwrap_or_default(),
                named: self.language.node_kind_is_named(id),
            })
            .collect()
    }

    /// Reads `text`. What [`crate::refusal`] names never reaches the C code.
    pub fn see(&mut self, text: &[u8]) -> Seen {
        if let Some(refusal) = guard::refusal(text) {
            return Seen::Refused(refusal);
        }
        self.parser.reset();
        let Some(tree) = self.parser.parse(text, None) else {
            return Seen::Refused(Refusal::NoTree);
        };
        let limit = text.len().saturating_mul(NODES_PER_BYTE).saturating_add(64);
        let mut nodes = Vec::with_capacity(text.len().min(4_096));
        let mut cursor = tree.walk();
        'walk: loop {
            if nodes.len() == limit {
                return Seen::Refused(Refusal::Long);
            }
            let node = cursor.node();
            nodes.push(SeenNode {
                kind: node.kind_id(),
                start: u32::try_from(node.start_byte()).unwrap_or(u32::MAX),
                end: u32::try_from(node.end_byte()).unwrap_or(u32::MAX),
                depth: cursor.depth(),
                broken: node.is_error() || node.is_missing(),
            });
            if cursor.goto_first_child() {
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    break 'walk;
                }
            }
        }
        Seen::Nodes(nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> String {
        let mut grammar = Grammar::load().unwrap();
        let kinds = grammar.kinds();
        let Seen::Nodes(nodes) = grammar.see(text.as_bytes()) else { return "refused".into() };
        let line = |node: &SeenNode| {
            let name = kinds.get(usize::from(node.kind)).map_or("ERROR", |kind| kind.name);
            let broken = if node.broken { "!" } else { "" };
            format!("{}{broken}{}-{}@{}", name, node.start, node.end, node.depth)
        };
        nodes.iter().map(line).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn nodes_come_in_order_with_parents_first() {
        assert_eq!(
            names("ls -l"),
            "program0-5@0 command0-5@1 command_name0-2@2 word0-2@3 word3-5@2"
        );
    }

    #[test]
    fn broken_text_is_marked() {
        assert!(names("echo $(").contains('!'));
    }

    #[test]
    fn guarded_text_is_refused() {
        assert_eq!(names("echo {\u{100}"), "refused");
    }
}
