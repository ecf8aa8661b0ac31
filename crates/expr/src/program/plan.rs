//! Plans the steps of typed nodes.
//!
//! A node's *stage* is the number of passes over the window's samples before its value is known: the maximum of its
//! operands', one more for a reduction. Samples needed in several passes are recomputed, mostly cheaper than storing.

use std::collections::{HashMap, HashSet};

use crate::kernels;
use crate::lower::{Action, LoweredGraph, TypedNode};
use crate::reduce;
use crate::{Reduction, Shape};

use super::fused_chain::{ChainNumber, FusedChain};
use super::needs::{Conditions, Gathers, arguments, is_counted, needed, samples_for, stages};
use super::operand::Operand;
use super::steps::{
    Pass, Plan, ReductionOutput, ResultLocation, Run, SampleStep, Stage, Target, calibrate,
};
use super::threshold::Condition;
use isochrony_segment::DType;

/// None if a node has no loop.
pub(crate) fn plan(lowered: &LoweredGraph) -> Option<Plan> {
    Planner::new(lowered).plan()
}

pub(super) struct Planner<'a> {
    pub(super) lowered: &'a LoweredGraph,
    stages: Vec<usize>,
    /// Columns of window values.
    pub(super) columns: HashMap<usize, usize>,
    pub(super) plan: Plan,
}

impl<'a> Planner<'a> {
    fn new(lowered: &'a LoweredGraph) -> Self {
        Self {
            lowered,
            stages: stages(lowered),
            columns: HashMap::new(),
            plan: Plan {
                stages: Vec::new(),
                reducers: Vec::new(),
                columns: Vec::new(),
                registers: Vec::new(),
                memories: Vec::new(),
                chains: 0,
                outcome: ResultLocation::Samples,
            },
        }
    }

    pub(super) fn node(&self, place: usize) -> &'a TypedNode {
        &self.lowered.nodes[place]
    }

    fn plan(mut self) -> Option<Plan> {
        let needed = needed(self.lowered);
        let last = self.stages[self.lowered.root];
        for stage in 0..=last {
            let here: Vec<usize> = needed
                .iter()
                .copied()
                .filter(|&place| self.stages[place] == stage)
                .collect();
            let mut columns = Vec::new();
            for &place in &here {
                let node = self.node(place);
                if node.shape == Shape::Window && !matches!(node.action, Action::Reduce(_)) {
                    columns.push(self.column_step(place)?);
                }
            }
            let reductions: Vec<usize> = needed
                .iter()
                .copied()
                .filter(|&place| {
                    matches!(self.node(place).action, Action::Reduce(_))
                        && self.stages[place] == stage + 1
                })
                .collect();
            let pass = self.pass(stage, &reductions)?;
            self.plan.stages.push(Stage { columns, pass });
        }
        if self.node(self.lowered.root).shape == Shape::Window {
            self.plan.outcome = ResultLocation::Column(*self.columns.get(&self.lowered.root)?);
        }
        Some(self.plan)
    }

    pub(super) fn new_column(&mut self, place: usize) -> usize {
        let column = self.plan.columns.len();
        self.plan.columns.push(self.node(place).dtype);
        self.columns.insert(place, column);
        column
    }

    pub(super) fn run(&self, place: usize) -> Option<(Run, bool)> {
        let node = self.node(place);
        let of = |at: usize| self.node(node.args[at]).dtype;
        Some(match node.action {
            Action::Cast => (Run::Unary(kernels::cast(of(0), node.dtype)?), false),
            Action::Unary(op) => (Run::Unary(kernels::unary(op, of(0))?), false),
            Action::Binary(op) => {
                let (run, swapped) = kernels::binary(op, of(0))?;
                (Run::Binary(run), swapped)
            }
            Action::Select => (Run::Select(kernels::select(node.dtype)), false),
            Action::Calibrate(scale, offset) => {
                let (scale, offset) = (f64::from_bits(scale), f64::from_bits(offset));
                (Run::Calibrate(calibrate(of(0)), scale, offset), false)
            }
            Action::Input(_) => (Run::Unary(kernels::cast(node.dtype, node.dtype)?), false),
            Action::Constant(_) | Action::Field(_) | Action::Reduce(_) | Action::Memory(_) => {
                return None;
            }
        })
    }

    /// The pass that computes `reductions`, and the result in its stage.
    fn pass(&mut self, stage: usize, reductions: &[usize]) -> Option<Option<Pass>> {
        let root = self.lowered.root;
        let writes = self.node(root).shape == Shape::Sample && self.stages[root] == stage;
        if reductions.is_empty() && !writes {
            return Some(None);
        }
        let mut pass = Pass::default();
        let first = self.plan.reducers.len();
        let mut gathers: HashMap<usize, Vec<usize>> = HashMap::new();
        for &reduction in reductions {
            gathers
                .entry(self.node(reduction).args[0])
                .or_default()
                .push(reduction);
        }
        let mut sources: Vec<usize> = gathers.keys().copied().collect();
        sources.sort_unstable();
        let mut gather_steps = Gathers::new();
        for &source in &sources {
            let dtype = self.node(source).dtype;
            let asked = &gathers[&source];
            let wanted: Vec<Reduction> =
                asked.iter().filter_map(|&at| self.reduction(at)).collect();
            for (make, given) in reduce::reducers(dtype, &wanted) {
                let reducer = self.plan.reducers.len();
                self.plan.reducers.push(make);
                use Reduction::{All, Any, Count};
                let counts = given.iter().all(|op| matches!(op, Any | All | Count));
                gather_steps
                    .entry(source)
                    .or_default()
                    .push((reducer, counts));
                for &at in asked {
                    if let Some(wanted) = self.reduction(at)
                        && given.contains(&wanted)
                    {
                        let column = self.new_column(at);
                        pass.finishes.push(ReductionOutput {
                            reducer,
                            wanted,
                            column,
                            dtype: self.node(at).dtype,
                        });
                    }
                }
            }
        }
        pass.reducers = first..self.plan.reducers.len();
        let mut targets = sources;
        targets.extend(writes.then_some(root));
        let none = HashMap::new();
        pass.steps = self.sample_steps(&targets, &gather_steps, writes, &none)?;
        let nodes = samples_for(self.lowered, &targets, &none);
        let used: HashSet<usize> = nodes
            .iter()
            .flat_map(|&place| &self.node(place).args)
            .copied()
            .collect();
        let mut conditions = HashMap::new();
        for &place in &nodes {
            let counted = is_counted(&gather_steps, place) && !used.contains(&place);
            let found = self.condition(place, counted && !(writes && place == root));
            // Chains that need it compare on the way.
            let alone = |found: &(Condition, usize)| found.0.only_widens() && used.contains(&place);
            if let Some(condition) = found.filter(|found| !alone(found)) {
                conditions.insert(place, condition);
            }
        }
        let mut found: Conditions = HashMap::new();
        found.extend(
            conditions
                .iter()
                .map(|(&place, &(_, base))| (place, (0, base))),
        );
        // Conditions within conditions are not needed.
        let still: HashSet<usize> = samples_for(self.lowered, &targets, &found)
            .into_iter()
            .collect();
        found.retain(|place, _| still.contains(place));
        for (place, (number, _)) in &mut found {
            if let Some((condition, _)) = conditions.remove(place) {
                *number = pass.conditions.len();
                pass.conditions.push(condition);
            }
        }
        if !found.is_empty() {
            pass.short = self.sample_steps(&targets, &gather_steps, writes, &found)?;
        }
        Some(Some(pass))
    }

    fn reduction(&self, place: usize) -> Option<Reduction> {
        match self.node(place).action {
            Action::Reduce(reduction) => Some(reduction),
            _ => None,
        }
    }

    /// Steps in node order; a register is free after its last use.
    fn sample_steps(
        &mut self,
        targets: &[usize],
        gathers: &Gathers,
        writes: bool,
        conditions: &Conditions,
    ) -> Option<Vec<SampleStep>> {
        let mut steps = Vec::new();
        let mut nodes = samples_for(self.lowered, targets, conditions);
        let result = writes.then_some(self.lowered.root);
        let groups = self.groups(&nodes, gathers, conditions, result);
        nodes.retain(|place| !groups.inner.contains(place));
        let arguments = |place: usize| match groups.fused.get(&place) {
            Some(fused) => fused.blocks.clone(),
            None => arguments(self.lowered, conditions, place),
        };
        let mut last_use: HashMap<usize, usize> = HashMap::new();
        for &place in &nodes {
            for arg in arguments(place) {
                last_use.insert(arg, place);
            }
        }
        let mut registers: HashMap<usize, usize> = HashMap::new();
        // All registers are free at the start of a pass.
        let mut free: Vec<usize> = (0..self.plan.registers.len()).rev().collect();
        for &place in &nodes {
            let node = self.node(place);
            let is_result = writes && place == self.lowered.root;
            let gathered = gathers.get(&place).map_or(&[][..], Vec::as_slice);
            let unstored = !is_result && !last_use.contains_key(&place);
            if let Some(&(condition, base)) = conditions.get(&place)
                && unstored
                && is_counted(gathers, place)
            {
                let dtype = self.node(base).dtype;
                for &(reducer, _) in gathered {
                    steps.push(SampleStep::Tally {
                        run: kernels::within(dtype)?.1,
                        condition,
                        operand: self.operand(base, &registers)?,
                        dtype,
                        reducer,
                    });
                }
            } else if !self.is_input(place) || is_result {
                let args: &[usize] = if self.is_input(place) {
                    &[place]
                } else {
                    &node.args
                };
                let condition = conditions.get(&place).copied();
                // Operands' registers are not yet free: a loop never writes where it reads.
                let target = if is_result {
                    Target::Output
                } else {
                    let register = free.pop().unwrap_or_else(|| {
                        self.plan.registers.push(0);
                        self.plan.registers.len() - 1
                    });
                    let size = &mut self.plan.registers[register];
                    *size = node.dtype.size().max(*size);
                    registers.insert(place, register);
                    Target::Register(register)
                };
                let fused = groups.fused.get(&place);
                let place_of_chain = self.plan.chains;
                self.plan.chains += usize::from(condition.is_none() && fused.is_some());
                let operand =
                    |at: usize| Some((self.operand(at, &registers)?, self.node(at).dtype));
                steps.push(match (condition, fused) {
                    (None, Some(fused)) => SampleStep::Chain {
                        chain: fused.chain.clone(),
                        blocks: fused
                            .blocks
                            .iter()
                            .map(|&at| operand(at))
                            .collect::<Option<_>>()?,
                        numbers: self.numbers(fused)?,
                        place: place_of_chain,
                        target,
                        dtype: node.dtype,
                    },
                    (None, None) => {
                        let unused = Operand::Constant(kernels::Value::default());
                        let mut operands = [(unused, DType::Bool); 3];
                        for (operand, &arg) in operands.iter_mut().zip(args) {
                            *operand = (self.operand(arg, &registers)?, self.node(arg).dtype);
                        }
                        let (run, swapped) = self.run(place)?;
                        if swapped {
                            operands.swap(0, 1);
                        }
                        SampleStep::Map {
                            run,
                            operands,
                            target,
                            dtype: node.dtype,
                        }
                    }
                    (Some((condition, base)), _) => SampleStep::Within {
                        run: kernels::within(self.node(base).dtype)?.0,
                        condition,
                        operand: self.operand(base, &registers)?,
                        dtype: self.node(base).dtype,
                        target,
                    },
                });
            }
            let stored = self.is_input(place) || registers.contains_key(&place);
            for &(reducer, _) in gathered.iter().filter(|_| stored) {
                steps.push(SampleStep::Gather {
                    reducer,
                    operand: self.operand(place, &registers)?,
                    dtype: node.dtype,
                });
            }
            let ended = |arg: usize| last_use.get(&arg).is_none_or(|&last| last == place);
            let mut used = arguments(place);
            used.push(place);
            used.sort_unstable();
            used.dedup();
            for arg in used.into_iter().filter(|&arg| ended(arg)) {
                free.extend(registers.remove(&arg));
            }
        }
        Some(steps)
    }

    fn numbers(&self, fused: &FusedChain) -> Option<Vec<(Operand, DType)>> {
        let dtype = fused.chain.dtype;
        let of = |number: f64| match dtype {
            DType::F32 => kernels::Value::of(number as f32),
            _ => kernels::Value::of(number),
        };
        let number = |number: &ChainNumber| match *number {
            ChainNumber::Given(number) => Some((Operand::Constant(of(number)), dtype)),
            ChainNumber::Node(place) => Some((
                self.operand(place, &HashMap::new())?,
                self.node(place).dtype,
            )),
        };
        fused.numbers.iter().map(number).collect()
    }

    fn is_input(&self, place: usize) -> bool {
        matches!(self.node(place).action, Action::Input(_))
    }

    fn operand(&self, place: usize, registers: &HashMap<usize, usize>) -> Option<Operand> {
        let node = self.node(place);
        Some(match (node.shape, node.action) {
            (_, Action::Constant(value)) => Operand::Constant(value),
            (Shape::Sample, Action::Input(input)) => Operand::Input(input),
            (Shape::Sample, _) => Operand::Register(*registers.get(&place)?),
            _ => Operand::Column(*self.columns.get(&place)?),
        })
    }
}
