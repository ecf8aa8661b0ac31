//! Groups the nodes of a pass into chains.
//!
//! Vectorisable operations on f32 or f64, comparisons and boolean operations belong to chains of their operands' dtype.
//! A node is stored only if the result, a reduction, a loop, a chain of the other dtype, or several chains need it;
//! others are steps of the one chain that needs them. So chains have one result and no cycles.

use std::collections::{HashMap, HashSet};

use isochrony_segment::DType;

use crate::lower::Action;
use crate::{Binary, Shape, Unary};

use super::fused_chain::{FusedChain, ValueLocation, ValueLocations};
use super::needs::{Conditions, Gathers, arguments};
use super::plan::Planner;
use super::writer::Writer;

const MAX_CHAIN_NODES: usize = 256;

/// Chains by their result.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(crate) fused: HashMap<usize, FusedChain>,
    pub(crate) inner: HashSet<usize>,
}

impl Planner<'_> {
    fn kind(&self, place: usize, kinds: &HashMap<usize, DType>) -> Option<DType> {
        let node = self.node(place);
        let float = |dtype| matches!(dtype, DType::F32 | DType::F64).then_some(dtype);
        let real = |dtype: DType| !dtype.is_complex();
        let of = |at: usize| self.node(node.args[at]).dtype;
        match node.action {
            Action::Binary(op) => match op {
                Binary::Add | Binary::Sub | Binary::Mul | Binary::Div => float(node.dtype),
                Binary::Minimum | Binary::Maximum => float(node.dtype),
                Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge => float(of(0)),
                Binary::Eq | Binary::Ne => float(of(0)),
                Binary::And | Binary::Or | Binary::Xor if node.dtype == DType::Bool => {
                    node.args.iter().find_map(|arg| kinds.get(arg).copied())
                }
                _ => None,
            },
            Action::Unary(Unary::Neg | Unary::Abs | Unary::Sqrt) => {
                float(node.dtype).filter(|&dtype| dtype == of(0))
            }
            Action::Unary(Unary::Invert) if node.dtype == DType::Bool => {
                kinds.get(&node.args[0]).copied()
            }
            Action::Select => float(node.dtype),
            Action::Cast => float(node.dtype).filter(|_| real(of(0))),
            Action::Calibrate(..) => {
                float(node.dtype).filter(|_| real(of(0)) && of(0) != DType::Bool)
            }
            _ => None,
        }
    }

    /// Whether a node converts a stored value: as its own step it has a simpler loop.
    pub(super) fn converts(&self, place: usize) -> bool {
        match self.node(place).action {
            Action::Calibrate(..) => true,
            Action::Cast => self.node(self.node(place).args[0]).dtype != DType::Bool,
            _ => false,
        }
    }

    fn homes(
        &self,
        nodes: &[usize],
        gathers: &Gathers,
        conditions: &Conditions,
        result: Option<usize>,
        split: &HashSet<usize>,
    ) -> ValueLocations {
        let sampled: HashSet<usize> = nodes
            .iter()
            .copied()
            .filter(|&place| self.node(place).shape == Shape::Sample)
            .collect();
        let mut kinds = HashMap::new();
        for &place in nodes {
            let is_own = conditions.contains_key(&place) || !sampled.contains(&place);
            if let Some(kind) = self.kind(place, &kinds).filter(|_| !is_own) {
                kinds.insert(place, kind);
            }
        }
        let mut users: HashMap<usize, Vec<usize>> = HashMap::new();
        for &place in nodes {
            for arg in arguments(self.lowered, conditions, place) {
                users.entry(arg).or_default().push(place);
            }
        }
        let mut of: HashMap<usize, ValueLocation> = HashMap::new();
        let mut sizes: HashMap<usize, usize> = HashMap::new();
        for &place in nodes.iter().rev().filter(|place| sampled.contains(place)) {
            let users = users.get(&place).map_or(&[][..], Vec::as_slice);
            let kind = kinds.get(&place);
            let asked =
                result == Some(place) || gathers.contains_key(&place) || split.contains(&place);
            // Chain of a user; None if the user needs memory.
            let chain = |user: &usize| {
                let user = *user;
                let root = match of.get(&user)? {
                    ValueLocation::Within(root) => *root,
                    ValueLocation::Stored if !self.converts(user) => user,
                    _ => return None,
                };
                let fits = !self.converts(user) && kinds.get(&root) == kind;
                fits.then_some(root)
            };
            let mut roots: Option<HashSet<usize>> = users.iter().map(chain).collect();
            if kind.is_none() || asked || users.is_empty() {
                roots = None;
            }
            let full = |root: &usize| sizes.get(root).is_some_and(|&size| size >= MAX_CHAIN_NODES);
            let home = match roots {
                Some(_) if self.converts(place) => ValueLocation::Anywhere,
                Some(roots) if roots.len() == 1 => match roots.into_iter().next() {
                    Some(root) if !full(&root) => ValueLocation::Within(root),
                    _ => ValueLocation::Stored,
                },
                _ => ValueLocation::Stored,
            };
            if let ValueLocation::Within(root) = home {
                *sizes.entry(root).or_default() += 1;
            }
            of.insert(place, home);
        }
        ValueLocations { of, kinds }
    }

    pub(super) fn groups(
        &self,
        nodes: &[usize],
        gathers: &Gathers,
        conditions: &Conditions,
        result: Option<usize>,
    ) -> Groups {
        let mut split = HashSet::new();
        loop {
            let homes = self.homes(nodes, gathers, conditions, result, &split);
            let mut groups = Groups::default();
            let mut whole = true;
            for &place in nodes {
                match homes.of.get(&place) {
                    Some(ValueLocation::Stored)
                        if homes.kinds.contains_key(&place) && !self.converts(place) =>
                    {
                        if let Some(fused) = Writer::new(self, &homes, place).write() {
                            groups.fused.insert(place, fused);
                        } else {
                            // Too large: store its inner nodes.
                            let within = |of: &ValueLocation| *of == ValueLocation::Within(place);
                            let inner = homes.of.iter().filter(|(_, of)| within(of));
                            let before = split.len();
                            split.extend(inner.map(|(&inner, _)| inner));
                            whole &= split.len() == before;
                        }
                    }
                    Some(ValueLocation::Within(_) | ValueLocation::Anywhere) => {
                        groups.inner.insert(place);
                    }
                    _ => {}
                }
            }
            if whole {
                return groups;
            }
        }
    }
}
