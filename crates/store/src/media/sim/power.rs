//! Power cuts.

use super::Sim;
use super::names::World;
use super::node::Node;

impl Sim {
    /// Replaces the live state by the durable one and a random part of the rest.
    pub(super) fn cut(&mut self) {
        self.running = false;
        // Sometimes nothing unsynced survives, or everything; independently for files and names.
        let keeps = [0, 0, 50, 80, 100];
        let keep_names = keeps[self.dice.below(5) as usize];
        let keep_bytes = keeps[self.dice.below(5) as usize];
        for op in std::mem::take(&mut self.pending) {
            if op.waits_for.is_empty() || self.dice.chance(keep_names) {
                // Impossible if what it depends on was lost.
                let _ = self.run(World::Durable, &op.change);
            }
        }
        let mut dice = self.dice.clone();
        for node in &mut self.nodes {
            match node {
                Node::File(file) => file.cut(&mut dice, keep_bytes),
                Node::Folder { live, durable } => live.clone_from(durable),
                Node::Link(_) => {}
            }
        }
        self.dice = dice;
        self.forget_unreachable();
    }

    fn forget_unreachable(&mut self) {
        let mut reachable = vec![false; self.nodes.len()];
        let mut todo = vec![0];
        while let Some(node) = todo.pop() {
            if std::mem::replace(&mut reachable[node], true) {
                continue;
            }
            if let Node::Folder { live, .. } = &self.nodes[node] {
                todo.extend(live.values());
            }
        }
        for (node, reachable) in self.nodes.iter_mut().zip(reachable) {
            if let (Node::File(file), false) = (node, reachable) {
                *file = super::node::FileNode::default();
            }
        }
    }
}
