//! Groups rows and aggregates them: at the end, or for windows in time as each ends.

mod aggregates;
mod keys;
mod open_groups;
mod sessions;
mod span;
mod state;
mod timed;
mod windows;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field};
use isochrony_segment::DType;
use serde_json::{Map, Value};

use crate::operator;
use crate::operators::rows::{Aggregate, AggregateFunction, ColumnValues};
use crate::operators::wrong_input;
use crate::plan::rows::{Fields, Rows};
use crate::{
    Break, Contract, Inputs, Item, KeyReplicas, Length, Next, OpError, OpErrorKind, Operator,
    OperatorProperties, Out, PartialResult, PlanError, Port, PortType, RangeOrigin, json,
};
use aggregates::GroupAggregates;
use keys::{GroupKey, KeyMap};
use state::{BoundState, PartialGroups};
use timed::TimedGroups;

operator! {
    /// Aggregates rows with equal keys: one row per group, at the end, or for each window of time as soon as it is over.
    ///
    /// # Inputs
    /// Rows. With `every` or `session` they have `start` and `end`.
    ///
    /// # Returns
    /// Without `every` and `session`, rows at the end: the keys, then the aggregates, groups in the order of their first
    /// rows. Rows of groups have no indices. No edges.
    ///
    /// With `every`, a row per window and group, once nothing can follow in the window: `start`, `end` (int64, indices of
    /// the window), `time` (its start, where the rows have civil time), the keys, the aggregates; ordered by window,
    /// then by first row in it. A window without rows gives none. With `session`, a row per session: `start`, `end`
    /// (of its rows), `time` (of `start`), the keys, the aggregates, in the order of `start`, then of first rows.
    ///
    /// # Conventions
    /// "count" is the number of rows; "sum" of integers is int64 and wraps, as in NumPy; other sums, "mean" and "std"
    /// (population) are float64, computed exactly and rounded once, so that the order of rows does not matter; "min",
    /// "max", "first" and "last" keep the field's type, and minimum and maximum of floats are NaN if one is. Unknown values (nulls) are left out of aggregates; as a key they form one group, as
    /// NaN does, and -0.0 equals 0.0.
    ///
    /// A row belongs to the windows that its `start` lies in. Windows begin at multiples of `every`: of civil time
    /// (UTC, since 1970) where the rows have it, so that hours begin at the full hour, else of time since index 0, in
    /// whole samples. Lengths in samples always count from index 0. A gap ends no window. A clock step does: the new
    /// run has windows of its own, though its civil time may be earlier, and so has what follows a rewind of a selection
    /// by time. `start` and `end` stay within the run.
    ///
    /// A session ends where the next row of its key starts more than `session` after the end of its rows so far. It is
    /// emitted when those that began before it are over, too.
    ///
    /// Memory is that of the groups: with windows, those of windows that are not over, at most `most`.
    ///
    /// # Errors
    /// A field or an aggregate that does not exist; two columns of one name; `every` together with `session`; `period`
    /// without `every`; a length of less than a sample; lengths in samples beside lengths in time; when the plan runs,
    /// more groups at a time than `most`, a row without civil time where others have it, and rows whose starts decrease.
    pub struct GroupBy = "group_by" (Inputs::Exactly(1)) {
        /// Fields by which rows are grouped. None: all rows are one group.
        keys: Vec<String> = "list" {},
        /// Names of the columns, and what they are: "count", or a field and one of sum, min, max, mean, std, first,
        /// last.
        aggregates: Map<String, Value> = "aggregates" { default: || json!({}) },
        /// From the start of one window to the next. Left out: one window, which is over at the end.
        every: Option<Length> = "number" { unit: Seconds, range: (1e-9, 2e9), default: || json!(null) },
        /// Length of a window; windows overlap if it is more than `every`, and rows between them are left out if it is
        /// less. Left out: `every`.
        period: Option<Length> = "number" { unit: Seconds, range: (1e-9, 2e9), default: || json!(null) },
        /// Longest pause within a session.
        session: Option<Length> = "number" { unit: Seconds, range: (1e-9, 2e9), default: || json!(null) },
        /// Largest number of groups at a time.
        most: u64 = "integer" { unit: Of("groups"), at_least: 1.0, default: || json!(1_000_000) },
    }
    state {
        bound: Option<BoundState>,
    }
}

fn parameter_error(parameter: &'static str, got: String, legal: String) -> PlanError {
    PlanError::Parameter {
        operator: "group_by",
        parameter,
        got,
        legal,
    }
}

fn parse(name: &str, saved: &Value) -> Result<(AggregateFunction, Option<String>), PlanError> {
    let function = |text: &Value| text.as_str().and_then(AggregateFunction::from_name);
    let parsed = match saved {
        Value::String(_) if function(saved) == Some(AggregateFunction::Count) => {
            Some((AggregateFunction::Count, None))
        }
        Value::Array(pair) => match &pair[..] {
            [Value::String(field), by] => {
                function(by).map(|function| (function, Some(field.clone())))
            }
            _ => None,
        },
        _ => None,
    };
    parsed.ok_or_else(|| {
        let names = AggregateFunction::NAMES.join(", ");
        parameter_error(
            "aggregates",
            format!("{{{name:?}: {saved}}}"),
            format!("\"count\", or a field and one of {names}, as [\"mean\", \"max\"]"),
        )
    })
}

/// Of a row: hashing its key and updating its group.
const GROUP_COST_NS: f64 = 100.0;

/// Of a row: least time of its aggregates for which other threads can gain something.
const MIN_DIVIDED_NS: f64 = 50.0;

impl Operator for GroupBy {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let port = &inputs[0];
        let PortType::Rows { fields, stream } = *port else {
            return Err(wrong_input(
                "group_by",
                "rows",
                port,
                "make rows with stats(...) or rows(...) first",
            ));
        };
        let find = |name: &str| {
            let (at, field) = fields.find(name).ok_or_else(|| PlanError::UnknownField {
                operator: "group_by",
                field: name.into(),
                known: fields.names(),
            })?;
            let dtype = Fields::dtype(field.data_type());
            let dtype = dtype.ok_or_else(|| {
                parameter_error(
                    "keys",
                    name.into(),
                    "fields of one number, not of lists".into(),
                )
            })?;
            Ok::<_, PlanError>((at, field, dtype))
        };
        let timed = self.bind_span(port)?;
        let (mut all, mut keys): (Vec<Field>, _) = (Vec::new(), Vec::new());
        if let Some(timed) = &timed {
            all.extend(timed.own_fields());
        }
        for name in &self.keys {
            let (at, field, dtype) = find(name)?;
            keys.push((at, ColumnValues::new(dtype)));
            all.push(field.clone());
        }
        if keys.len() > 64 {
            return Err(parameter_error(
                "keys",
                keys.len().to_string(),
                "at most 64 fields".into(),
            ));
        }
        let mut aggregates = Vec::new();
        for (name, saved) in &self.aggregates {
            let (function, of) = parse(name, saved)?;
            let (place, field, dtype) = match &of {
                Some(of) => {
                    let (at, field, dtype) = find(of)?;
                    (Some(at), Some(field), dtype)
                }
                None => (None, None, DType::I64),
            };
            let timed = field.is_some_and(|f| matches!(f.data_type(), DataType::Timestamp(..)));
            if timed && !function.keeps_type() && function != AggregateFunction::Count {
                return Err(parameter_error(
                    "aggregates",
                    format!("{{{name:?}: {saved}}}"),
                    "count, min, max, first or last of a time".into(),
                ));
            }
            let result = function.result(dtype);
            let data = match field {
                Some(field) if function.keeps_type() => field.data_type().clone(),
                _ => Fields::arrow_type(result),
            };
            let mut aggregate_field = Field::new(name, data, true);
            if let Some(field) = field.filter(|_| function != AggregateFunction::Count) {
                aggregate_field = aggregate_field.with_metadata(field.metadata().clone());
            }
            all.push(aggregate_field);
            aggregates.push((place, Aggregate::new(function, dtype)));
        }
        for (at, field) in all.iter().enumerate() {
            if all[..at].iter().any(|other| other.name() == field.name()) {
                return Err(PlanError::FieldTwice {
                    operator: "group_by",
                    field: field.name().clone(),
                });
            }
        }
        if all.is_empty() {
            let legal = format!("keys or aggregates of {}", fields.names());
            return Err(parameter_error("aggregates", "none".into(), legal));
        }
        let output = Fields::intern(all);
        let aggregates = GroupAggregates::new(aggregates);
        let by_key = self.key_replicas(&aggregates);
        self.bound = Some(BoundState {
            output,
            keys,
            aggregates,
            groups: KeyMap::default(),
            pairs: Vec::new(),
            timed,
        });
        if self.every.is_some() || self.session.is_some() {
            let fields = output;
            return Ok(OperatorProperties::new([PortType::Rows { fields, stream }])
                .cost_ns(GROUP_COST_NS)
                .by_key(by_key)
                .sequential_because("emits windows in their order")
                .data_dependent());
        }
        let port = PortType::Rows {
            fields: output,
            stream: None,
        };
        Ok(OperatorProperties::new([port])
            .cost_ns(GROUP_COST_NS)
            .by_key(by_key)
            .contract(Contract::Reducible)
            .data_dependent())
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let (Item::Rows(rows), Some(bound)) = (&*item, &mut self.bound) else {
            return Err(OpErrorKind::WrongItem {
                expected: "rows",
                got: item.kind(),
            }
            .into());
        };
        let batch = rows.batch();
        if bound.timed.is_some() {
            bound.add_timed(batch, out)?;
            return Ok(Next::Consumed);
        }
        bound.group(batch, self.most)?;
        let groups = bound.groups.len();
        let aggregates = &mut bound.aggregates;
        aggregates.add(batch, &bound.pairs, groups, &out.helpers());
        Ok(Next::Consumed)
    }

    fn advance(&mut self, _: Port, upto: i64, out: &mut Out<'_>) -> Result<(), OpError> {
        self.close(out, |timed| timed.advance(upto))
    }

    fn on_break(&mut self, _: Port, why: &Break, out: &mut Out<'_>) -> Result<(), OpError> {
        match why {
            Break::ClockStep { .. } => self.close(out, TimedGroups::end_run),
            Break::Rewind => self.close(out, TimedGroups::rewind),
            _ => Ok(()),
        }
    }

    fn begins(&mut self, origin: RangeOrigin, _: Option<&Break>) {
        let timed = self.bound.as_mut().and_then(|bound| bound.timed.as_mut());
        if let Some(timed) = timed {
            timed.begin_range(origin);
        }
    }

    fn progress(&mut self, _: Port, upto: i64) -> i64 {
        let timed = self.bound.as_ref().and_then(|bound| bound.timed.as_ref());
        timed.map_or(upto, |timed| timed.progress(upto))
    }

    fn partial(&mut self) -> Option<PartialResult> {
        let bound = self.bound.as_mut()?;
        let mut keys: Vec<(GroupKey, usize)> = bound.groups.drain().collect();
        keys.sort_unstable_by_key(|&(_, place)| place);
        bound.keys.iter_mut().for_each(|(_, cells)| cells.clear());
        let bytes = keys.len() * size_of::<GroupKey>() + bound.aggregates.bytes();
        let take = |all: &mut [Aggregate]| all.iter_mut().map(Aggregate::take).collect();
        let groups = PartialGroups {
            keys: keys.into_iter().map(|(key, _)| key).collect(),
            aggregates: bound.aggregates.undivided(take),
        };
        Some(PartialResult::new(groups, bytes as u64))
    }

    fn combine(&mut self, next: &PartialResult) -> Result<(), OpError> {
        let wrong = || OpErrorKind::WrongItem {
            expected: "a partial result of group_by",
            got: "another partial result",
        };
        let bound = self.bound.as_mut().ok_or_else(wrong)?;
        let groups = next.get::<PartialGroups>();
        let groups = groups
            .filter(|groups| groups.fits(bound))
            .ok_or_else(wrong)?;
        let places = groups.keys.iter().map(|key| bound.place(key, self.most));
        let places = places.collect::<Result<Vec<usize>, _>>()?;
        let count = bound.groups.len();
        bound.aggregates.undivided(|own| {
            for (aggregate, more) in own.iter_mut().zip(&groups.aggregates) {
                aggregate.combine(more, &places, count);
            }
        });
        Ok(())
    }

    fn finish(&mut self, _: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        self.close(out, TimedGroups::finish)?;
        let Some(mut bound) = self.bound.take() else {
            return Ok(());
        };
        if bound.groups.is_empty() {
            return Ok(());
        }
        let columns = bound.output.schema().fields().iter();
        let keys = bound.keys.drain(..).map(|(_, cells)| cells);
        let places: Vec<usize> = (0..bound.groups.len()).collect();
        let values = bound.aggregates.finish(&places, &out.helpers());
        let columns = columns
            .zip(keys.chain(values))
            .map(|(field, cells)| cells.column(field));
        let columns = columns
            .collect::<Result<Vec<ArrayRef>, _>>()
            .map_err(OpErrorKind::from)?;
        let batch = RecordBatch::try_new(bound.output.schema().clone(), columns);
        let rows = Rows::without_index(batch.map_err(OpErrorKind::from)?);
        out.emit(0, &mut rows.into())
    }
}

impl GroupBy {
    /// Finding a row's group takes about 50 ns and is not divided: adding must take at least as long.
    fn key_replicas(&self, aggregates: &GroupAggregates) -> KeyReplicas {
        if self.keys.is_empty() {
            return KeyReplicas::Useless("it has no keys");
        }
        match aggregates.value_ns() >= MIN_DIVIDED_NS {
            true => KeyReplicas::Possible,
            false => KeyReplicas::Useless("finding a row's group takes longer than adding to it"),
        }
    }

    fn close(
        &mut self,
        out: &mut Out<'_>,
        close: impl FnOnce(&mut TimedGroups),
    ) -> Result<(), OpError> {
        let Some(bound) = &mut self.bound else {
            return Ok(());
        };
        if let Some(timed) = &mut bound.timed {
            close(timed);
        }
        bound.emit(out)
    }
}
