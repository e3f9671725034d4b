//! The list of nodes as a tree: checked once, then walked by index.

use super::{Node, NodeKind};
use crate::Span;

/// A list of nodes that is known to be a tree over its text.
pub(super) struct Shape<'a> {
    text: &'a [u8],
    nodes: &'a [Node],
    /// For each node, the index after its last descendant.
    after: Vec<usize>,
    /// For each node, its parent; the root is its own.
    parent: Vec<usize>,
}

impl<'a> Shape<'a> {
    /// Checks that `nodes` is one tree over `text`, in order: spans inside the text, children inside their
    /// parent, siblings one after the other. None if it is not.
    pub(super) fn check(text: &'a [u8], nodes: &'a [Node]) -> Option<Shape<'a>> {
        let root = nodes.first()?;
        if root.depth != 0 || root.end as usize > text.len() {
            return None;
        }
        let mut after = vec![nodes.len(); nodes.len()];
        let mut parent = vec![0; nodes.len()];
        // The open nodes from the root down, each with the end of its last child.
        let mut open: Vec<(usize, u32)> = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            let depth = node.depth as usize;
            if depth > open.len() || (depth == 0) != (index == 0) || node.start > node.end {
                return None;
            }
            for (closed, _) in open.drain(depth..) {
                *after.get_mut(closed)? = index;
            }
            if let Some((above, reached)) = open.last_mut() {
                if node.start < *reached || node.end > nodes.get(*above)?.end {
                    return None;
                }
                *reached = node.end;
                *parent.get_mut(index)? = *above;
            }
            open.push((index, node.start));
        }
        Some(Shape { text, nodes, after, parent })
    }

    /// The text under the tree.
    pub(super) fn text(&self) -> &'a [u8] {
        self.text
    }

    /// How many nodes there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The kind of node `index`.
    pub(super) fn kind(&self, index: usize) -> NodeKind {
        self.nodes.get(index).map_or(NodeKind::Other, |node| node.kind)
    }

    /// Whether node `index` is an ERROR or MISSING node.
    pub(super) fn broken(&self, index: usize) -> bool {
        self.nodes.get(index).is_none_or(|node| node.broken)
    }

    /// The span of node `index`, without the blanks that the grammar puts in front of some nodes.
    pub(super) fn span(&self, index: usize) -> Span {
        let Some(node) = self.nodes.get(index) else { return Span::default() };
        let mut start = node.start;
        let byte = |at: u32| self.text.get(at as usize).copied();
        while start < node.end {
            match byte(start) {
                Some(b' ' | b'\t' | b'\n') => start += 1,
                Some(b'\\') if byte(start + 1) == Some(b'\n') => start += 2,
                _ => break,
            }
        }
        Span { start: start.min(node.end), end: node.end }
    }

    /// The bytes of node `index`, without blanks in front.
    pub(super) fn bytes(&self, index: usize) -> &'a [u8] {
        self.span(index).of(self.text)
    }

    /// The node above `index`.
    pub(super) fn parent(&self, index: usize) -> usize {
        self.parent.get(index).copied().unwrap_or(0)
    }

    /// The index after the last descendant of `index`.
    pub(super) fn after(&self, index: usize) -> usize {
        self.after.get(index).copied().unwrap_or(self.nodes.len())
    }

    /// Whether node `index` has no children.
    pub(super) fn is_leaf(&self, index: usize) -> bool {
        self.after(index) <= index + 1
    }

    /// The children of node `index`, in order.
    pub(super) fn children(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        let end = self.after(index);
        let first = Some(index + 1).filter(|child| *child < end);
        std::iter::successors(first, move |child| {
            Some(self.after(*child)).filter(|next| *next < end)
        })
    }
}
