//! Decides from bucket extremes where no window can begin that satisfies a predicate.
//!
//! Comparing an extreme with a number is a statement about samples: `s.max() > 5` means that *any* sample is above 5,
//! `s.max() < 5` that *all* are below. Samples that meet such a condition lie on one side of a limit (outside two, for
//! magnitudes), so a bucket's extremes tell whether any, or all, meet it. The filter's own program decides this on a
//! window of one sample: calibration, conversion and rounding are the filter's.
//!
//! The result is a set of excluded indices: the union for `a & b`, the intersection for `a | b`; all else excludes
//! nothing.

use std::ops::Range;

use isochrony_expr::{Binary, Expr, Frames, Input, Op, Program, Reduction, Shape, Unary};
use isochrony_segment::{Bool8, Buffer, Calibration, DType};
use isochrony_store::views::{BucketExtremes, Coverage};

use super::index_ranges::{IndexRanges, intersection, push, union};
use crate::{OpError, OpErrorKind};

const MAX_OPERATIONS: usize = 128;

#[derive(Debug)]
pub(super) struct ExtremesPredicate {
    dtype: DType,
    /// One per operation, arguments first, the result last.
    steps: Vec<PredicateNode>,
}

#[derive(Debug)]
enum PredicateNode {
    ExtremeComparison(ExtremeComparison),
    Both(usize, usize),
    Either(usize, usize),
    /// A number, an extreme, or a truth that extremes do not tell.
    Unknown,
}

#[derive(Debug)]
struct ExtremeComparison {
    condition: Program,
    /// Whether all samples of a window must meet it, or any.
    all: bool,
    /// For magnitudes: whether a sample has none because it wraps.
    wraps: Option<Program>,
}

#[derive(Clone, Copy, PartialEq)]
enum ExtremeKind {
    Samples,
    Magnitudes,
    Least,
    Greatest,
    GreatestMagnitude,
    Number,
    Other,
}

impl ExtremeKind {
    fn of(op: Op, of: Option<Self>) -> Self {
        match (op, of) {
            (Op::Input(0), _) => Self::Samples,
            (Op::Constant(..), _) => Self::Number,
            (Op::Unary(Unary::Abs), Some(Self::Samples)) => Self::Magnitudes,
            (Op::Reduce(Reduction::Min), Some(Self::Samples)) => Self::Least,
            (Op::Reduce(Reduction::Max), Some(Self::Samples)) => Self::Greatest,
            (Op::Reduce(Reduction::Max), Some(Self::Magnitudes)) => Self::GreatestMagnitude,
            _ => Self::Other,
        }
    }
}

impl ExtremesPredicate {
    /// None if extremes never exclude a window.
    pub(super) fn new(expr: &Expr, dtype: DType, calibration: &Calibration) -> Option<Self> {
        let graph = expr.graph();
        if graph.nodes().len() > MAX_OPERATIONS {
            return None;
        }
        let compile = |expr: &Expr| {
            let input = Input::samples(dtype).calibrated(calibration);
            let program = Program::compile_inputs(expr, &[input]).ok()?;
            let output = program.output();
            (output.dtype == DType::Bool && output.shape != Shape::Sample).then_some(program)
        };
        let (mut exprs, mut kinds): (Vec<Expr>, Vec<ExtremeKind>) = (Vec::new(), Vec::new());
        let mut steps: Vec<PredicateNode> = Vec::new();
        let mut decides: Vec<bool> = Vec::new();
        for node in graph.nodes() {
            let args = node.args();
            let written = args.iter().map(|&at| exprs[at].clone());
            let written = Expr::apply(node.op(), written).ok()?;
            let step = match node.op() {
                Op::Binary(Binary::And) => PredicateNode::Both(args[0], args[1]),
                Op::Binary(Binary::Or) => PredicateNode::Either(args[0], args[1]),
                Op::Binary(compare) => {
                    let all = must_hold_for_all(compare, kinds[args[0]], kinds[args[1]]);
                    let comparison = all.and_then(|all| {
                        let is_magnitude =
                            |&at: &usize| kinds[at] == ExtremeKind::GreatestMagnitude;
                        let negative = || compile(&Expr::input().abs().min().lt(0));
                        Some(ExtremeComparison {
                            condition: compile(&written)?,
                            all,
                            wraps: match args.iter().any(is_magnitude) {
                                true => Some(negative()?),
                                false => None,
                            },
                        })
                    });
                    comparison.map_or(PredicateNode::Unknown, PredicateNode::ExtremeComparison)
                }
                _ => PredicateNode::Unknown,
            };
            decides.push(match step {
                PredicateNode::ExtremeComparison(_) => true,
                PredicateNode::Both(a, b) => decides[a] || decides[b],
                PredicateNode::Either(a, b) => decides[a] && decides[b],
                PredicateNode::Unknown => false,
            });
            kinds.push(ExtremeKind::of(
                node.op(),
                args.first().map(|&at| kinds[at]),
            ));
            steps.push(step);
            exprs.push(written);
        }
        decides.last()?.then_some(Self { dtype, steps })
    }

    pub(super) fn excluded(
        &self,
        buckets: &BucketExtremes,
        window: i64,
    ) -> Result<IndexRanges, OpError> {
        let mut excluded: Vec<IndexRanges> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            excluded.push(match step {
                PredicateNode::ExtremeComparison(comparison) => {
                    comparison.excluded(self.dtype, buckets, window)?
                }
                PredicateNode::Both(a, b) => union([&excluded[*a][..], &excluded[*b]].concat()),
                PredicateNode::Either(a, b) => intersection(&excluded[*a], &excluded[*b]),
                PredicateNode::Unknown => Vec::new(),
            });
        }
        Ok(excluded.pop().unwrap_or_default())
    }
}

/// Whether comparing an extreme with a number concerns all samples of a window, or any; None: neither.
fn must_hold_for_all(compare: Binary, left: ExtremeKind, right: ExtremeKind) -> Option<bool> {
    let above = match compare {
        Binary::Gt | Binary::Ge => true,
        Binary::Lt | Binary::Le => false,
        _ => return None,
    };
    let (extreme, above) = match (left, right) {
        (extreme, ExtremeKind::Number) => (extreme, above),
        (ExtremeKind::Number, extreme) => (extreme, !above),
        _ => return None,
    };
    match extreme {
        ExtremeKind::Greatest | ExtremeKind::GreatestMagnitude => Some(!above),
        ExtremeKind::Least => Some(above),
        _ => None,
    }
}

fn of_each(program: &Program, dtype: DType, samples: &Buffer) -> Result<Vec<Bool8>, OpError> {
    let count = samples.len() / dtype.size();
    let mut flags = vec![Bool8::default(); count];
    let windows = Frames::from_bytes(samples.bytes(), dtype, 1, 1, count);
    windows
        .and_then(|windows| {
            let (mut scratch, mut state) = (program.scratch(), program.state());
            program.run(&mut scratch, &mut state, &windows, &mut flags)
        })
        .map_err(|error| OpErrorKind::Failed(error.into()))?;
    Ok(flags)
}

impl ExtremeComparison {
    fn excluded(
        &self,
        dtype: DType,
        buckets: &BucketExtremes,
        window: i64,
    ) -> Result<IndexRanges, OpError> {
        let least = of_each(&self.condition, dtype, &buckets.min)?;
        let greatest = of_each(&self.condition, dtype, &buckets.max)?;
        let wraps = self.wraps.as_ref();
        let wraps = wraps.map(|wraps| of_each(wraps, dtype, &buckets.min));
        let wraps = wraps.transpose()?;
        let is_known = |at: usize| {
            buckets.coverage[at] == Coverage::Whole
                && wraps.as_ref().is_none_or(|wraps| !wraps[at].get())
        };
        let any = |at: usize| least[at].get() || greatest[at].get();
        let all = |at: usize| least[at].get() && greatest[at].get();
        let range = |at: usize| {
            let start = buckets.start + at as i64 * buckets.bucket;
            start..start + buckets.bucket
        };
        let mut excluded = Vec::new();
        if !self.all {
            // Windows within neighbouring buckets without a sample that meets it.
            let mut without: IndexRanges = Vec::new();
            for at in 0..buckets.coverage.len() {
                let is_gap = buckets.coverage[at] == Coverage::Gap;
                if is_gap || is_known(at) && !any(at) {
                    push(&mut without, range(at));
                }
            }
            for Range { start, end } in without {
                push(&mut excluded, start..end - window + 1);
            }
            return Ok(excluded);
        }
        for at in (0..buckets.coverage.len()).filter(|&at| is_known(at)) {
            let Range { start, end } = range(at);
            // Extremes do not tell how small magnitudes between them are.
            if !any(at) && self.wraps.is_none() {
                // Windows that overlap the bucket.
                push(&mut excluded, start - window + 1..end);
            } else if !all(at) {
                // Windows that hold all of it.
                push(&mut excluded, end - window..start + 1);
            }
        }
        Ok(excluded)
    }
}

#[cfg(test)]
mod tests;
