//! An operator with parameters that may change during execution.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::changes::{ParameterChanges, ParameterVersion};
use crate::{
    Break, Contract, Declaration, InputBounds, Item, Next, OpError, OpErrorKind, Operator,
    OperatorProperties, Out, ParameterUpdate, PartialResult, PlanError, PlanOutput, Port, PortType,
    RangeOrigin,
};

/// An operator instance with the parameters in effect where an item begins. Items are split where a change takes
/// effect.
pub(crate) struct AdjustableOperator {
    declaration: Declaration,
    changes: Arc<ParameterChanges>,
    inputs: Vec<PortType>,
    versions: Vec<ParameterVersion>,
    current: Instance,
    /// Instance of another version, if stateless: blocks may overlap where a change takes effect.
    previous: Option<Instance>,
    is_stateless: bool,
    origin: Option<RangeOrigin>,
    /// Parts of split items, by input, until all inputs have theirs.
    parts: Vec<VecDeque<Item>>,
}

struct Instance {
    version: usize,
    operator: Box<dyn Operator>,
}

impl AdjustableOperator {
    pub(crate) fn new(
        declaration: Declaration,
        params: &Map<String, Value>,
        changes: Arc<ParameterChanges>,
    ) -> Result<Self, PlanError> {
        Ok(Self {
            current: Instance {
                version: 0,
                operator: (declaration.build)(params)?,
            },
            declaration,
            changes,
            inputs: Vec::new(),
            versions: vec![(i64::MIN, params.clone())],
            previous: None,
            is_stateless: false,
            origin: None,
            parts: Vec::new(),
        })
    }

    /// Admits the items of all inputs that begin where `item` does.
    fn admit(&mut self, item: &Item) {
        let starts = item.first_and_last_start();
        let first = starts.map(|(first, _)| first);
        self.take_changes(first);
        if let Some((_, last)) = starts {
            self.changes.admit(last.saturating_add(1));
        }
        self.take_changes(first);
    }

    fn take_changes(&mut self, next: Option<i64>) {
        let known = self.versions.len() - 1;
        if self.changes.requested() != known {
            self.versions
                .extend(self.changes.versions_after(known, next));
        }
    }

    fn version_at(&self, start: Option<i64>) -> usize {
        let last = self.versions.len() - 1;
        let Some(start) = start else {
            return last;
        };
        // From the end: the last change is wanted most often.
        let before = self.versions.iter().rposition(|&(from, _)| from <= start);
        let version = before.unwrap_or(0);
        match self.is_stateless {
            true => version,
            // Its state covers all before: it cannot go back.
            false => version.max(self.current.version),
        }
    }

    fn parts_of(&self, item: Item) -> Result<VecDeque<Item>, OpError> {
        let mut parts = VecDeque::from([item]);
        loop {
            let starts = parts.back().and_then(Item::first_and_last_start);
            let Some((first, last)) = starts else {
                return Ok(parts);
            };
            let next = self.version_at(Some(first)) + 1;
            let cut = self
                .versions
                .get(next..)
                .and_then(|later| later.iter().find(|&&(from, _)| from > first));
            let Some(&(cut, _)) = cut.filter(|&&(from, _)| from <= last) else {
                return Ok(parts);
            };
            let Some((before, after)) = parts
                .pop_back()
                .map(|item| item.split_at(cut))
                .transpose()?
            else {
                return Ok(parts);
            };
            parts.extend([before, after]);
        }
    }

    fn has_change_in(&self, item: &Item) -> bool {
        let Some((first, last)) = item.first_and_last_start() else {
            return false;
        };
        self.version_at(Some(first)) != self.version_at(Some(last))
    }

    fn switch_to(&mut self, version: usize, out: &mut Out<'_>) -> Result<(), OpError> {
        if version == self.current.version {
            return Ok(());
        }
        if self.is_stateless {
            let previous = self.previous.take().filter(|one| one.version == version);
            let next = match previous {
                Some(previous) => previous,
                None => self.instance(version)?,
            };
            let before = std::mem::replace(&mut self.current, next);
            self.previous = Some(before).filter(|_| self.is_stateless);
            return Ok(());
        }
        for next in self.current.version + 1..=version {
            let operator = &mut self.current.operator;
            if operator.set(&self.versions[next].1)? == ParameterUpdate::Rebuild {
                operator.on_break(0, &Break::Removed, out)?;
                self.current = self.instance(next)?;
            }
            self.current.version = next;
        }
        Ok(())
    }

    fn instance(&mut self, version: usize) -> Result<Instance, OpError> {
        let build = || {
            let mut operator = (self.declaration.build)(&self.versions[version].1)?;
            let properties = operator.bind(&self.inputs)?;
            Ok((operator, properties.contract))
        };
        let built: Result<_, PlanError> = build();
        let (mut operator, contract) = built.map_err(|error| OpErrorKind::Failed(error.into()))?;
        self.is_stateless &= contract == Contract::Stateless;
        if let Some(origin) = self.origin {
            operator.begins(origin, None);
        }
        Ok(Instance { version, operator })
    }

    fn instances(&mut self) -> impl Iterator<Item = &mut Box<dyn Operator>> {
        let previous = self.previous.iter_mut();
        let all = std::iter::once(&mut self.current).chain(previous);
        all.map(|one| &mut one.operator)
    }
}

impl Operator for AdjustableOperator {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let properties = self.current.operator.bind(inputs)?;
        self.inputs = inputs.to_vec();
        self.parts = inputs.iter().map(|_| VecDeque::new()).collect();
        self.is_stateless = properties.contract == Contract::Stateless;
        Ok(allow_splitting(properties))
    }

    fn process(&mut self, port: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        // Items of all inputs have the same indices and come in input order.
        if port == 0 {
            self.admit(item);
        }
        if !self.has_change_in(item) {
            if port == 0 {
                let start = item.first_and_last_start().map(|(first, _)| first);
                self.switch_to(self.version_at(start), out)?;
            }
            return self.current.operator.process(port, item, out);
        }
        self.parts[usize::from(port)] = self.parts_of(item.take())?;
        if usize::from(port) + 1 < self.parts.len() {
            return Ok(Next::Consumed);
        }
        let mut answer = Next::Consumed;
        while self.parts.iter().all(|parts| !parts.is_empty()) {
            if answer == Next::Forward {
                out.emit(0, item)?;
            }
            for port in 0..self.parts.len() {
                let Some(mut part) = self.parts[port].pop_front() else {
                    continue;
                };
                if port == 0 {
                    let start = part.first_and_last_start().map(|(first, _)| first);
                    self.switch_to(self.version_at(start), out)?;
                }
                answer = self
                    .current
                    .operator
                    .process(port as Port, &mut part, out)?;
                *item = part;
            }
            if answer == Next::Done {
                break;
            }
        }
        Ok(answer)
    }

    fn on_break(&mut self, port: Port, why: &Break, out: &mut Out<'_>) -> Result<(), OpError> {
        let mut instances = self.instances();
        instances.try_for_each(|one| one.on_break(port, why, out))
    }

    fn begins(&mut self, origin: RangeOrigin, why: Option<&Break>) {
        self.origin = Some(origin);
        self.instances().for_each(|one| one.begins(origin, why));
    }

    fn first_output(&self, first: i64) -> i64 {
        self.current.operator.first_output(first)
    }

    fn finish(&mut self, port: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        self.current.operator.finish(port, out)
    }

    fn idle(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        self.current.operator.idle(out)
    }

    fn advance(&mut self, port: Port, upto: i64, out: &mut Out<'_>) -> Result<(), OpError> {
        self.current.operator.advance(port, upto, out)
    }

    fn raise_bounds(
        &mut self,
        port: Port,
        bounds: InputBounds,
        out: &mut Out<'_>,
    ) -> Result<(), OpError> {
        self.current.operator.raise_bounds(port, bounds, out)
    }

    fn progress(&mut self, port: Port, upto: i64) -> i64 {
        self.current.operator.progress(port, upto)
    }

    fn expect(&mut self, samples: u64) {
        self.current.operator.expect(samples);
    }

    fn partial(&mut self) -> Option<PartialResult> {
        self.current.operator.partial()
    }

    fn combine(&mut self, next: &PartialResult) -> Result<(), OpError> {
        self.current.operator.combine(next)
    }

    fn result(&mut self) -> Option<PlanOutput> {
        self.current.operator.result()
    }
}

pub(super) fn allow_splitting(mut properties: OperatorProperties) -> OperatorProperties {
    properties.in_step = false;
    properties
}
