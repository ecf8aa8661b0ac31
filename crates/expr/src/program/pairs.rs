//! Finds two operations, one after the other, that one loop can do.

use std::collections::{HashMap, HashSet};

use isochrony_segment::DType;

use crate::kernels::{WithOther, choose, lift, pair};
use crate::lower::Action;
use crate::{Binary, Shape, Unary};

use super::needs::{Conditions, Gathers};
use super::plan::Planner;
use super::steps::Run;

/// Two operations in one: the loop and what it takes.
#[derive(Debug, Clone)]
pub(crate) struct Fused {
    pub(crate) run: Run,
    pub(crate) operands: Vec<Option<usize>>,
}

/// Fused operations by the place of the second one.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    pub(crate) fused: HashMap<usize, Fused>,
    /// The first ones, which need no step of their own.
    pub(crate) absorbed: HashSet<usize>,
}

/// An operation on the samples of one argument: which, on what, and with what else.
#[derive(Debug, Clone, Copy)]
struct Step {
    which: WithOther,
    sample: usize,
    other: Option<usize>,
}

impl Planner<'_> {
    /// A node as operations on either of its arguments.
    fn steps_of(&self, place: usize) -> Vec<Step> {
        let node = self.node(place);
        if !matches!(node.dtype, DType::F32 | DType::F64) {
            return Vec::new();
        }
        let step = |which, sample, other| Step {
            which,
            sample,
            other,
        };
        let both = |left: WithOther, right: Option<WithOther>| -> Vec<Step> {
            let (a, b) = (node.args[0], node.args[1]);
            let right = right.map(|which| step(which, b, Some(a)));
            std::iter::once(step(left, a, Some(b)))
                .chain(right)
                .collect()
        };
        let found: Vec<Step> = match node.action {
            Action::Binary(Binary::Add) => both(WithOther::Add, Some(WithOther::Add)),
            Action::Binary(Binary::Sub) => both(WithOther::Sub, Some(WithOther::SubFrom)),
            Action::Binary(Binary::Mul) => both(WithOther::Mul, Some(WithOther::Mul)),
            Action::Binary(Binary::Div) => both(WithOther::Div, Some(WithOther::DivInto)),
            Action::Binary(Binary::Minimum) => both(WithOther::Minimum, None),
            Action::Binary(Binary::Maximum) => both(WithOther::Maximum, None),
            Action::Unary(Unary::Abs) => vec![step(WithOther::Abs, node.args[0], None)],
            Action::Unary(Unary::Sqrt) => vec![step(WithOther::Sqrt, node.args[0], None)],
            _ => return Vec::new(),
        };
        // The magnitude of a complex number is none of its own dtype.
        let on_samples = |step: &Step| {
            self.is_sampled(step.sample) && self.node(step.sample).dtype == node.dtype
        };
        found.into_iter().filter(on_samples).collect()
    }

    fn is_sampled(&self, place: usize) -> bool {
        self.node(place).shape == Shape::Sample
    }

    /// `second` and what comes before it, if one loop does both.
    fn joined(&self, second: Step) -> Option<Fused> {
        let between = self.node(second.sample);
        let sampled = |other: Option<usize>| other.is_some_and(|place| self.is_sampled(place));
        if between.action == Action::Cast {
            let base = between.args[0];
            let run = lift(second.which, self.node(base).dtype, between.dtype)?;
            return Some(Fused {
                run: Run::Lift(run),
                operands: vec![Some(base), second.other],
            });
        }
        self.steps_of(second.sample).into_iter().find_map(|first| {
            if sampled(first.other) && sampled(second.other) {
                return None;
            }
            let run = pair(first.which, second.which, between.dtype)?;
            Some(Fused {
                run: Run::Pair(run),
                operands: vec![Some(first.sample), first.other, second.other],
            })
        })
    }

    /// A choice by a comparison, which comes first.
    fn chosen(&self, place: usize) -> Option<(usize, Fused)> {
        let node = self.node(place);
        let (Action::Select, [condition, yes, no]) = (node.action, &node.args[..]) else {
            return None;
        };
        let between = self.node(*condition);
        let (Action::Binary(op), [a, b]) = (between.action, &between.args[..]) else {
            return None;
        };
        if !self.is_sampled(*condition) {
            return None;
        }
        let (run, swapped) = choose(op, self.node(*a).dtype, node.dtype)?;
        let (a, b) = if swapped { (*b, *a) } else { (*a, *b) };
        let operands = [a, b, *yes, *no].map(Some).to_vec();
        let run = Run::Choose(run);
        Some((*condition, Fused { run, operands }))
    }

    /// Pairs among the nodes of a pass. Nobody else may need what lies between.
    pub(super) fn pairs(
        &self,
        nodes: &[usize],
        uses: &HashMap<usize, usize>,
        gathers: &Gathers,
        conditions: &Conditions,
    ) -> Pairs {
        let mut pairs = Pairs::default();
        for &place in nodes {
            if conditions.contains_key(&place) {
                continue;
            }
            let free = |between: &usize| {
                let alone = uses.get(between) == Some(&1) && !gathers.contains_key(between);
                alone && !pairs.fused.contains_key(between) && !conditions.contains_key(between)
            };
            let joined = self.steps_of(place).into_iter().find_map(|second| {
                let between = Some(second.sample).filter(free)?;
                Some((between, self.joined(second)?))
            });
            let found = joined.or_else(|| self.chosen(place).filter(|(between, _)| free(between)));
            if let Some((between, fused)) = found {
                pairs.absorbed.insert(between);
                pairs.fused.insert(place, fused);
            }
        }
        pairs
    }
}
