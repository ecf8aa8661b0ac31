//! Expressions as graphs in topological order.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use smallvec::SmallVec;

use crate::{ExprError, Op};

pub(crate) type Arguments = SmallVec<[usize; 3]>;

/// An operation and its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Node {
    op: Op,
    args: Arguments,
}

impl Node {
    /// The operation.
    #[must_use]
    pub fn op(&self) -> Op {
        self.op
    }

    /// Indices of its arguments, all less than its own.
    #[must_use]
    pub fn args(&self) -> &[usize] {
        &self.args
    }
}

/// A flattened expression: every distinct operation once, arguments first, the result last.
///
/// Order is depth-first, so expressions are equal exactly if their graphs are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Graph {
    nodes: Vec<Node>,
}

impl Graph {
    /// Maximum number of nodes.
    pub const MOST_NODES: usize = 1 << 16;

    /// The nodes; the last one is the result.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Index of the result.
    #[must_use]
    pub fn root(&self) -> usize {
        self.nodes.len() - 1
    }

    /// Validates and reorders nodes; the last is the result, and unneeded nodes are dropped.
    ///
    /// # Errors
    /// [`ExprError::NoNodes`], [`ExprError::TooLarge`], [`ExprError::ForwardReference`], [`ExprError::ArgumentCount`].
    pub fn new(nodes: impl IntoIterator<Item = (Op, Vec<usize>)>) -> Result<Self, ExprError> {
        let mut given: Vec<Node> = Vec::new();
        for (op, args) in nodes {
            let node = given.len();
            if node >= Self::MOST_NODES {
                return Err(ExprError::TooLarge {
                    nodes: node + 1,
                    most: Self::MOST_NODES,
                });
            }
            if args.len() != op.arguments() {
                return Err(ExprError::ArgumentCount {
                    node,
                    op: op.name(),
                    expected: op.arguments(),
                    got: args.len(),
                });
            }
            if let Some(&argument) = args.iter().find(|&&argument| argument >= node) {
                return Err(ExprError::ForwardReference {
                    node,
                    op: op.name(),
                    argument,
                });
            }
            let args = args.into_iter().collect();
            given.push(Node { op, args });
        }
        let root = given.len().checked_sub(1).ok_or(ExprError::NoNodes)?;
        Ok(Self::walk(
            root,
            |&at| at,
            |&at| {
                let node = &given[at];
                (node.op, node.args.clone())
            },
        ))
    }

    /// `key` identifies nodes, `look` returns operation and arguments. Iterative, as expressions may be deep.
    pub(crate) fn walk<T: Clone, K: std::hash::Hash + Eq, A>(
        root: T,
        key: impl Fn(&T) -> K,
        look: impl Fn(&T) -> (Op, A),
    ) -> Self
    where
        A: IntoIterator<Item = T>,
    {
        struct Visit<T> {
            item: T,
            op: Op,
            left: Vec<T>,
            args: Arguments,
        }
        let open = |item: T| {
            let (op, args) = look(&item);
            let mut left: Vec<T> = args.into_iter().collect();
            left.reverse();
            let args = Arguments::new();
            Visit {
                item,
                op,
                left,
                args,
            }
        };
        let mut places: HashMap<K, usize> = HashMap::new();
        let mut distinct: HashMap<Node, usize> = HashMap::new();
        let mut nodes = Vec::new();
        let mut stack = vec![open(root)];
        while let Some(visit) = stack.last_mut() {
            if let Some(arg) = visit.left.pop() {
                match places.get(&key(&arg)) {
                    Some(&place) => visit.args.push(place),
                    None => {
                        visit.left.push(arg.clone());
                        let next = open(arg);
                        stack.push(next);
                    }
                }
                continue;
            }
            let Some(Visit { item, op, args, .. }) = stack.pop() else {
                break;
            };
            let place = match distinct.entry(Node { op, args }) {
                Entry::Occupied(entry) => *entry.get(),
                Entry::Vacant(entry) => {
                    nodes.push(entry.key().clone());
                    *entry.insert(nodes.len() - 1)
                }
            };
            places.insert(key(&item), place);
        }
        Self { nodes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Binary, Reduction};

    const ADD: Op = Op::Binary(Binary::Add);

    #[test]
    fn equal_operations_are_shared_and_unused_ones_dropped() {
        let mean = Op::Reduce(Reduction::Mean);
        let graph = Graph::new([
            (Op::Input(0), vec![]),
            (mean, vec![0]),
            (Op::Input(0), vec![]),
            (Op::Where, vec![0, 1, 2]),
            (mean, vec![2]),
            (ADD, vec![4, 1]),
        ]);
        let nodes = graph.unwrap().nodes;
        assert_eq!(nodes.len(), 3);
        assert_eq!((nodes[2].op, nodes[2].args()), (ADD, &[1, 1][..]));
    }

    #[test]
    fn rejects_invalid_graphs() {
        assert_eq!(Graph::new([]), Err(ExprError::NoNodes));
        let forward = Graph::new([(Op::Input(0), vec![]), (ADD, vec![0, 1])]);
        assert_eq!(forward.unwrap_err().code(), "forward_reference");
        let count = Graph::new([(Op::Input(0), vec![]), (ADD, vec![0])]);
        assert_eq!(count.unwrap_err().code(), "argument_count");
        let many = (0..=Graph::MOST_NODES).map(|_| (Op::Input(0), vec![]));
        assert_eq!(Graph::new(many).unwrap_err().code(), "too_large");
    }
}
