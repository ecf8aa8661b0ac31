//! An operator that switches between equivalent implementations during execution.
//!
//! ```text
//!  input      |----------------------------------|-----------------|
//!                               begin - before   begin             begin + lag
//!  before     |====================================================|      its results before `begin` are emitted
//!  behind                       |===================================...   its results from `begin` on are emitted
//! ```
//!
//! No state is handed over: the next implementation is fed the `before` items that it needs ([`Contract`]). It gets
//! them once its predecessor has emitted all that begins before the switch, so results stay in order. Its start, and so
//! its bits, depend on the index alone.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::adjustable::allow_splitting;
use super::changes::{ParameterChanges, ParameterVersion};
use crate::plan::METHOD_PARAMETER;
use crate::{
    Alignment, Break, Contract, Declaration, InputBounds, Item, Next, OpError, OpErrorKind,
    Operator, OperatorProperties, Out, PlanError, Port, PortType, RangeOrigin,
};

#[derive(Debug, Clone, Copy, PartialEq)]
struct NeededContext {
    before: u64,
    after: u64,
    lag: u64,
    rel_err: f64,
}

impl NeededContext {
    /// None if it cannot begin anywhere with correct results.
    fn of(properties: &OperatorProperties, input: &PortType) -> Option<Self> {
        let every = match (input, properties.outputs.first()?) {
            (PortType::Samples { .. }, PortType::Samples { .. }) => 1,
            (PortType::Frames { hop, .. }, PortType::Frames { hop: given, .. }) if hop == given => {
                *hop
            }
            _ => return None,
        };
        let (before, after, rel_err) = match properties.contract {
            Contract::Stateless => (0, 0, 0.0),
            Contract::Overlap { before, after } => (before, after, 0.0),
            Contract::Settling { before, rel_err } => (before, 0, rel_err),
            _ => return None,
        };
        let of_index = properties.align == Alignment::Single && properties.ratio == Some((1, 1));
        (of_index && properties.outputs.len() == 1).then_some(Self {
            before: before.saturating_mul(every),
            after: after.saturating_mul(every),
            // In indices.
            lag: properties.delay.max(0).unsigned_abs(),
            rel_err,
        })
    }

    fn with(self, other: Self) -> Self {
        Self {
            before: self.before.max(other.before),
            after: self.after.max(other.after),
            lag: self.lag.max(other.lag),
            rel_err: self.rel_err.max(other.rel_err),
        }
    }
}

/// Deviation from the default implementation; None if undeclared.
pub(super) fn declared_tolerance(declaration: &Declaration, method: &Value) -> Option<f64> {
    let method = method.as_str()?;
    let default = declaration
        .params
        .iter()
        .find(|one| one.name == METHOD_PARAMETER);
    let default = default.and_then(|param| Some(param.default?()));
    if default.is_some_and(|default| default == method) {
        return Some(0.0);
    }
    let mut declared = declaration.alternatives.iter();
    let (_, tolerance) = declared.find(|(name, _)| *name == method)?;
    Some(tolerance.relative())
}

/// Parameters of all implementations within `tolerance`, the given first.
fn allowed(
    declaration: &Declaration,
    params: &Map<String, Value>,
    tolerance: f64,
) -> Vec<Map<String, Value>> {
    let names = declaration.alternatives.iter().map(|&(name, _)| name);
    let default = declaration
        .params
        .iter()
        .find(|one| one.name == METHOD_PARAMETER);
    let default = default.and_then(|param| Some(param.default?()));
    let methods = default.into_iter().chain(names.map(Value::from));
    let others = methods.filter(|method| {
        let needed = declared_tolerance(declaration, method);
        params.get(METHOD_PARAMETER) != Some(method)
            && needed.is_some_and(|needed| needed <= tolerance)
    });
    let others = others.map(|method| {
        let mut all = params.clone();
        all.insert(METHOD_PARAMETER.into(), method);
        all
    });
    std::iter::once(params.clone()).chain(others).collect()
}

fn bound(
    declaration: &Declaration,
    params: &Map<String, Value>,
    inputs: &[PortType],
) -> Result<(Box<dyn Operator>, OperatorProperties, NeededContext), PlanError> {
    let mut operator = (declaration.build)(params)?;
    let properties = operator.bind(inputs)?;
    let context = inputs
        .first()
        .and_then(|input| NeededContext::of(&properties, input));
    let context = context.ok_or(PlanError::ChangesPlan {
        operator: declaration.name,
        what: "cannot be continued by another implementation".into(),
    })?;
    Ok((operator, properties, context))
}

/// Properties valid for all implementations; None if only one may be used.
pub(super) fn switchable(
    declaration: &Declaration,
    params: &Map<String, Value>,
    inputs: &[PortType],
    tolerance: f64,
) -> Option<OperatorProperties> {
    let allowed = allowed(declaration, params, tolerance);
    if declaration.alternatives.is_empty() || allowed.len() < 2 {
        return None;
    }
    let mut all: Option<(OperatorProperties, NeededContext)> = None;
    for params in &allowed {
        let (_, properties, context) = bound(declaration, params, inputs).ok()?;
        all = Some(match all {
            None => (properties, context),
            Some((first, _)) if first.outputs != properties.outputs => return None,
            Some((first, before)) => (first, before.with(context)),
        });
    }
    let (mut properties, context) = all?;
    let every = match inputs.first()? {
        PortType::Frames { hop, .. } => (*hop).max(1),
        _ => 1,
    };
    let (before, after) = (context.before / every, context.after / every);
    properties.delay = context.lag.max(context.after).cast_signed();
    properties.contract = match context.rel_err {
        rel_err if rel_err > 0.0 => Contract::Settling { before, rel_err },
        _ if context.lag == 0 && before == 0 && after == 0 => Contract::Stateless,
        _ => Contract::Overlap { before, after },
    };
    Some(allow_splitting(properties))
}

pub(crate) struct SwitchedOperator {
    declaration: Declaration,
    changes: Arc<ParameterChanges>,
    inputs: Vec<PortType>,
    versions: Vec<ParameterVersion>,
    current: Implementation,
    /// Most indices needed before a first result.
    most_before: u64,
    /// End of the input, for the next implementation.
    retained: VecDeque<Item>,
    upto: Option<i64>,
    origin: Option<RangeOrigin>,
}

struct Implementation {
    version: usize,
    operator: Box<dyn Operator>,
    context: NeededContext,
    /// Results before this index are the previous implementation's.
    from: i64,
    /// It received what begins before this index.
    fed: i64,
}

impl SwitchedOperator {
    pub(crate) fn new(
        declaration: Declaration,
        params: &Map<String, Value>,
        changes: Arc<ParameterChanges>,
    ) -> Result<Self, PlanError> {
        Ok(Self {
            current: Implementation {
                version: 0,
                operator: (declaration.build)(params)?,
                context: NeededContext {
                    before: 0,
                    after: 0,
                    lag: 0,
                    rel_err: 0.0,
                },
                from: i64::MIN,
                fed: i64::MIN,
            },
            declaration,
            changes,
            inputs: Vec::new(),
            versions: vec![(i64::MIN, params.clone())],
            most_before: 0,
            retained: VecDeque::new(),
            upto: None,
            origin: None,
        })
    }

    fn take_changes(&mut self, next: i64) {
        let known = self.versions.len() - 1;
        if self.changes.requested() != known {
            let new = self.changes.versions_after(known, Some(next));
            self.versions.extend(new);
        }
    }

    /// Next implementation and its first index; the last of several at one index.
    fn next_switch(&self) -> Option<(usize, i64)> {
        let later = self.versions.get(self.current.version + 1..)?;
        let &(at, _) = later.first()?;
        let same = later.iter().take_while(|&&(from, _)| from == at).count();
        Some((self.current.version + same, at))
    }

    fn due_switch(&self) -> Option<(usize, i64)> {
        let upto = self.upto?;
        self.next_switch().filter(|&(_, at)| at < upto)
    }

    fn instance(&self, version: usize) -> Result<Implementation, OpError> {
        let bound = bound(&self.declaration, &self.versions[version].1, &self.inputs);
        let (mut operator, _, context) =
            bound.map_err(|error| OpErrorKind::Failed(error.into()))?;
        if let Some(origin) = self.origin {
            operator.begins(origin, None);
        }
        Ok(Implementation {
            version,
            operator,
            context,
            from: i64::MIN,
            fed: i64::MIN,
        })
    }

    /// Any implementation may begin: nothing is remembered.
    fn begin_range(&mut self, start: i64) -> Result<(), OpError> {
        let before = self.versions.iter().rposition(|&(from, _)| from <= start);
        let version = before.unwrap_or(0);
        if version != self.current.version {
            self.current = self.instance(version)?;
        }
        (self.current.from, self.current.fed) = (i64::MIN, start);
        self.retained.clear();
        Ok(())
    }

    /// Passes on only the current implementation's results that begin before `to`.
    fn call(
        &mut self,
        to: i64,
        out: &mut Out<'_>,
        call: impl FnOnce(&mut dyn Operator, &mut Out<'_>) -> Result<(), OpError>,
    ) -> Result<(), OpError> {
        out.keep_only(Some(self.current.from..to));
        let called = call(&mut *self.current.operator, out);
        out.keep_only(None);
        called
    }

    /// Feeds what the current implementation lacks before `limit`.
    fn feed(&mut self, limit: i64, to: i64, out: &mut Out<'_>) -> Result<(), OpError> {
        let mut parts = Vec::new();
        for item in &self.retained {
            parts.extend(item.part(self.current.fed..limit)?);
        }
        for mut part in parts {
            let next = part.extent().map(|(_, next)| next);
            self.call(to, out, |operator, out| {
                match operator.process(0, &mut part, out)? {
                    Next::Forward => out.emit(0, &mut part),
                    Next::Consumed | Next::Done => Ok(()),
                }
            })?;
            self.current.fed = next.unwrap_or(self.current.fed);
        }
        Ok(())
    }

    /// Computes what has come, switching where due. `ended`: nothing continues it.
    fn compute(&mut self, ended: bool, out: &mut Out<'_>) -> Result<(), OpError> {
        let Some(upto) = self.upto else {
            return Ok(());
        };
        while let Some((version, at)) = self.due_switch() {
            let limit = at.saturating_add_unsigned(self.current.context.lag);
            self.feed(limit, at, out)?;
            if self.current.fed < limit {
                if !ended {
                    return Ok(());
                }
                self.call(at, out, |operator, out| {
                    operator.on_break(0, &Break::Removed, out)
                })?;
            }
            let mut next = self.instance(version)?;
            let first = self.retained.front().and_then(Item::first_and_last_start);
            let before = at.saturating_sub_unsigned(next.context.before);
            (next.from, next.fed) = (at, first.map_or(before, |(first, _)| first.max(before)));
            self.current = next;
        }
        self.feed(upto, i64::MAX, out)
    }

    fn forget(&mut self) {
        let upto = self.due_switch().map(|(_, at)| at).or(self.upto);
        let needed = upto.map(|upto| upto.saturating_sub_unsigned(self.most_before));
        let needed = needed.unwrap_or(i64::MAX).min(self.current.fed);
        let is_needed = |item: &Item| item.extent().is_some_and(|(_, next)| next > needed);
        while self.retained.front().is_some_and(|item| !is_needed(item)) {
            self.retained.pop_front();
        }
    }
}

impl Operator for SwitchedOperator {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let properties = self.current.operator.bind(inputs)?;
        self.inputs = inputs.to_vec();
        let params = &self.versions[0].1;
        for (nth, params) in allowed(&self.declaration, params, f64::INFINITY)
            .iter()
            .enumerate()
        {
            let (_, _, context) = bound(&self.declaration, params, inputs)?;
            self.most_before = self.most_before.max(context.before);
            if nth == 0 {
                self.current.context = context;
            }
        }
        Ok(allow_splitting(properties))
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let starts = item.first_and_last_start().zip(item.extent());
        let Some(((first, last), (_, next))) = starts else {
            return Ok(Next::Consumed);
        };
        self.take_changes(first);
        self.changes.admit(last.saturating_add(1));
        self.take_changes(first);
        if self.upto.is_none() {
            self.begin_range(first)?;
        }
        self.upto = Some(next);
        self.retained.push_back(item.clone());
        if self.due_switch().is_some() || self.current.fed != first {
            drop(item.take());
            self.compute(false, out)?;
            self.forget();
            return Ok(Next::Consumed);
        }
        let from = self.current.from;
        out.keep_only(Some(from..i64::MAX));
        let answer = self.current.operator.process(0, item, out);
        out.keep_only(None);
        self.current.fed = next;
        self.forget();
        if answer? != Next::Forward {
            return Ok(Next::Consumed);
        }
        // First results may be of replayed items.
        if from > i64::MIN && item.extent().is_none_or(|(start, _)| start < from) {
            match item.part(from..i64::MAX)? {
                Some(part) => *item = part,
                None => return Ok(Next::Consumed),
            }
        }
        Ok(Next::Forward)
    }

    fn on_break(&mut self, port: Port, why: &Break, out: &mut Out<'_>) -> Result<(), OpError> {
        self.compute(true, out)?;
        self.call(i64::MAX, out, |operator, out| {
            operator.on_break(port, why, out)
        })?;
        self.retained.clear();
        (self.upto, self.current.from) = (None, i64::MIN);
        Ok(())
    }

    fn begins(&mut self, origin: RangeOrigin, why: Option<&Break>) {
        self.origin = Some(origin);
        self.current.operator.begins(origin, why);
    }

    fn first_output(&self, first: i64) -> i64 {
        self.current.operator.first_output(first)
    }

    fn finish(&mut self, port: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        self.compute(true, out)?;
        self.call(i64::MAX, out, |operator, out| operator.finish(port, out))
    }

    fn idle(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        let to = self.due_switch().map_or(i64::MAX, |(_, at)| at);
        self.call(to, out, |operator, out| operator.idle(out))
    }

    fn advance(&mut self, port: Port, upto: i64, out: &mut Out<'_>) -> Result<(), OpError> {
        match self.due_switch() {
            // The implementation has not received everything yet.
            Some(_) => Ok(()),
            None => self.call(i64::MAX, out, |operator, out| {
                operator.advance(port, upto, out)
            }),
        }
    }

    fn raise_bounds(
        &mut self,
        port: Port,
        bounds: InputBounds,
        out: &mut Out<'_>,
    ) -> Result<(), OpError> {
        self.call(i64::MAX, out, |operator, out| {
            operator.raise_bounds(port, bounds, out)
        })
    }

    fn progress(&mut self, port: Port, upto: i64) -> i64 {
        match self.due_switch() {
            Some((_, at)) => {
                let got = upto.min(self.current.fed);
                self.current.operator.progress(port, got).min(at)
            }
            None => self.current.operator.progress(port, upto),
        }
    }

    fn expect(&mut self, samples: u64) {
        self.current.operator.expect(samples);
    }
}
