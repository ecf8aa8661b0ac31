//! Finds two operations with numbers, one after the other, that one loop can do.

use std::collections::{HashMap, HashSet};

use isochrony_segment::DType;

use crate::Binary;
use crate::kernels::{PairFn, WithNumber, pair};
use crate::lower::Action;

use super::needs::{Conditions, Gathers};
use super::plan::Planner;
use super::steps::Operand;

/// Two operations in one: the loop, what it begins with, and the two numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fused {
    pub(crate) run: PairFn,
    pub(crate) base: usize,
    pub(crate) numbers: [Operand; 2],
}

/// Fused operations by the place of the second one.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    pub(crate) fused: HashMap<usize, Fused>,
    /// The first ones, which need no step of their own.
    pub(crate) absorbed: HashSet<usize>,
}

impl Planner<'_> {
    /// An operation of a sample and a number: which, on what, with which number.
    fn with_number(&self, place: usize) -> Option<(WithNumber, usize, Operand)> {
        let node = self.node(place);
        let Action::Binary(op) = node.action else {
            return None;
        };
        if !matches!(node.dtype, DType::F32 | DType::F64) {
            return None;
        }
        let (sample, number, is_left) = self.one_sampled(node)?;
        let which = match (op, is_left) {
            (Binary::Add, _) => WithNumber::Add,
            (Binary::Sub, true) => WithNumber::Sub,
            (Binary::Sub, false) => WithNumber::SubFrom,
            (Binary::Mul, _) => WithNumber::Mul,
            (Binary::Div, true) => WithNumber::Div,
            (Binary::Div, false) => WithNumber::DivInto,
            _ => return None,
        };
        Some((which, sample, number))
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
            let Some((second, between, last)) = self.with_number(place) else {
                continue;
            };
            let alone = uses.get(&between) == Some(&1) && !gathers.contains_key(&between);
            if !alone || pairs.fused.contains_key(&between) {
                continue;
            }
            let Some((first, base, number)) = self.with_number(between) else {
                continue;
            };
            if let Some(run) = pair(first, second, self.node(place).dtype) {
                pairs.absorbed.insert(between);
                pairs.fused.insert(
                    place,
                    Fused {
                        run,
                        base,
                        numbers: [number, last],
                    },
                );
            }
        }
        pairs
    }
}
