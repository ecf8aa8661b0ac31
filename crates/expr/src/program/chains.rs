//! Finds comparisons of monotonic chains.

use isochrony_segment::DType;

use crate::kernels::{self, Value};
use crate::lower::{Action, TypedNode};
use crate::{Binary, Shape, Unary};

use super::operand::Operand;
use super::plan::Planner;
use super::threshold::{Condition, Link, Monotone, Predicate};

const MAX_PREDICATES: usize = 8;

fn widens(from: DType, to: DType) -> bool {
    match from {
        DType::I8 | DType::I16 | DType::U8 | DType::U16 => matches!(to, DType::F32 | DType::F64),
        DType::I32 | DType::U32 | DType::F32 => to == DType::F64,
        _ => false,
    }
}

fn is_real_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64)
}

impl Planner<'_> {
    /// A node's condition, and its base. `bare` allows a comparison without a chain, worthwhile if its result is not
    /// stored.
    pub(super) fn condition(&self, place: usize, bare: bool) -> Option<(Condition, usize)> {
        let (mut terms, mut left, mut base) = (Vec::new(), vec![place], None);
        while let Some(place) = left.pop() {
            let node = self.node(place);
            if node.action == Action::Binary(Binary::And) && node.dtype == DType::Bool {
                left.extend_from_slice(&node.args);
            } else {
                let (term, from) = self.predicate(place)?;
                if *base.get_or_insert(from) != from {
                    return None;
                }
                terms.push(term);
            }
            if terms.len() + left.len() > MAX_PREDICATES {
                return None;
            }
        }
        let has_chain = terms.iter().any(|term| !term.links.is_empty());
        // Both sides of zero and another interval intersect in several pieces.
        let splits = |term: &Predicate| {
            term.links
                .iter()
                .any(|link| link.operation == Monotone::Abs)
        };
        let several = terms.len() > 1;
        if (several && terms.iter().any(splits)) || !(bare || has_chain || several) {
            return None;
        }
        Some((Condition(terms), base?))
    }

    fn predicate(&self, place: usize) -> Option<(Predicate, usize)> {
        let node = self.node(place);
        let Action::Binary(compare) = node.action else {
            return None;
        };
        let flipped = match compare {
            Binary::Lt => Binary::Gt,
            Binary::Le => Binary::Ge,
            Binary::Gt => Binary::Lt,
            Binary::Ge => Binary::Le,
            _ => return None,
        };
        let dtype = self.node(node.args[0]).dtype;
        kernels::within(dtype)?;
        let (chain, number, is_left) = self.one_sampled(node)?;
        let mut links = Vec::new();
        let base = self.follow(chain, &mut links)?;
        kernels::within(self.node(base).dtype)?;
        let compare = if is_left { compare } else { flipped };
        let predicate = Predicate {
            compare,
            dtype,
            number,
            links,
        };
        Some((predicate, base))
    }

    /// The sampled operand, the other, and whether the sampled one is on the left.
    fn one_sampled(&self, node: &TypedNode) -> Option<(usize, Operand, bool)> {
        let [left, right] = node.args[..] else {
            return None;
        };
        let sampled = |place: usize| self.node(place).shape == Shape::Sample;
        match (sampled(left), sampled(right)) {
            (true, false) => Some((left, self.number(right)?, true)),
            (false, true) => Some((right, self.number(left)?, false)),
            _ => None,
        }
    }

    fn follow(&self, mut place: usize, links: &mut Vec<Link>) -> Option<usize> {
        let nothing = Operand::Constant(Value::default());
        loop {
            let node = self.node(place);
            let mut link = |operation, dtype, number| {
                links.push(Link {
                    operation,
                    dtype,
                    number,
                });
            };
            let operand = node.args.first().copied();
            let from = operand.map(|operand| self.node(operand).dtype);
            match (node.action, operand, from) {
                (Action::Binary(op), _, _) if is_real_float(node.dtype) => {
                    let Some((samples, number, is_left)) = self.one_sampled(node) else {
                        return Some(place);
                    };
                    let operation = match (op, is_left) {
                        (Binary::Add, _) => Monotone::Add,
                        (Binary::Sub, true) => Monotone::Sub,
                        (Binary::Sub, false) => Monotone::SubFrom,
                        (Binary::Mul, _) => Monotone::Mul,
                        (Binary::Div, true) => Monotone::Div,
                        _ => return Some(place),
                    };
                    link(operation, node.dtype, number);
                    place = samples;
                }
                (Action::Unary(Unary::Neg), Some(operand), _) if is_real_float(node.dtype) => {
                    link(Monotone::Neg, node.dtype, nothing);
                    place = operand;
                }
                (Action::Unary(Unary::Abs), Some(operand), _) if is_real_float(node.dtype) => {
                    link(Monotone::Abs, node.dtype, nothing);
                    place = operand;
                }
                (Action::Cast, Some(operand), Some(from)) if widens(from, node.dtype) => {
                    link(Monotone::Widen, from, nothing);
                    place = operand;
                }
                (Action::Calibrate(scale, offset), Some(operand), Some(from))
                    if widens(from, node.dtype) || from == DType::F64 =>
                {
                    let number = |bits| Operand::Constant(Value::of(f64::from_bits(bits)));
                    link(Monotone::Add, DType::F64, number(offset));
                    link(Monotone::Mul, DType::F64, number(scale));
                    if from != DType::F64 {
                        link(Monotone::Widen, from, nothing);
                    }
                    place = operand;
                }
                _ => return Some(place),
            }
        }
    }

    fn number(&self, place: usize) -> Option<Operand> {
        match self.node(place).action {
            Action::Constant(value) => Some(Operand::Constant(value)),
            _ => Some(Operand::Column(*self.columns.get(&place)?)),
        }
    }
}
