//! Groups rows and aggregates them.

use std::collections::HashMap;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field};
use isochrony_segment::DType;
use serde_json::{Map, Value};
use smallvec::SmallVec;

use crate::operator;
use crate::operators::rows::{Aggregate, AggregateFunction, ColumnValues, GroupState};
use crate::operators::wrong_input;
use crate::plan::rows::{Fields, Rows};
use crate::{
    Contract, Inputs, Item, Next, OpError, OpErrorKind, Operator, OperatorProperties, Out,
    PartialResult, PlanError, Port, PortType, json,
};

operator! {
    /// Aggregates rows with equal keys: one row per group.
    ///
    /// # Inputs
    /// Rows.
    ///
    /// # Returns
    /// Rows: the keys, then the aggregates, at the end, groups in the order of their first rows. Rows of groups have no
    /// indices. No edges.
    ///
    /// # Conventions
    /// "count" is the number of rows; "sum" of integers is int64 and wraps, as in NumPy; other sums, "mean" and "std"
    /// (population) are float64; "min", "max", "first" and "last" keep the field's type, and minimum and maximum of
    /// floats are NaN if one is. Unknown values (nulls) are left out of aggregates; as a key they form one group, as
    /// NaN does, and -0.0 equals 0.0. Memory is that of the groups.
    ///
    /// # Errors
    /// A field or an aggregate that does not exist; two columns of one name; more groups than `most`, when the plan
    /// runs.
    pub struct GroupBy = "group_by" (Inputs::Exactly(1)) {
        /// Fields by which rows are grouped. None: all rows are one group.
        keys: Vec<String> = "list" {},
        /// Names of the columns, and what they are: "count", or a field and one of sum, min, max, mean, std, first,
        /// last.
        aggregates: Map<String, Value> = "aggregates" { default: || json!({}) },
        /// Largest number of groups.
        most: u64 = "integer" { unit: Of("groups"), range: (1.0, 9e18), default: || json!(1_000_000) },
    }
    state {
        bound: Option<BoundState>,
    }
}

/// A key's bits by column, and a mask of null columns.
type GroupKey = (SmallVec<[u64; 2]>, u64);

struct BoundState {
    output: Fields,
    /// Column of each key, and its values by group.
    keys: Vec<(usize, ColumnValues)>,
    aggregates: Vec<(Option<usize>, Aggregate)>,
    groups: HashMap<GroupKey, usize>,
    /// Group of each row of the current batch.
    places: Vec<usize>,
}

/// Keys in the order of their first rows, and each aggregate's state by group.
struct PartialGroups {
    keys: Vec<GroupKey>,
    aggregates: Vec<Vec<GroupState>>,
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

impl Operator for GroupBy {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let port = &inputs[0];
        let PortType::Rows { fields, .. } = *port else {
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
        let (mut all, mut keys): (Vec<Field>, _) = (Vec::new(), Vec::new());
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
        let exact = aggregates.iter().all(|(_, one)| one.is_exact());
        self.bound = Some(BoundState {
            output,
            keys,
            aggregates,
            groups: HashMap::new(),
            places: Vec::new(),
        });
        let port = PortType::Rows {
            fields: output,
            stream: None,
        };
        // Float sums depend on their order.
        Ok(OperatorProperties::new([port])
            .contract(Contract::Reducible { exact })
            .data_dependent())
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let (Item::Rows(rows), Some(bound)) = (&*item, &mut self.bound) else {
            return Err(OpErrorKind::WrongItem {
                expected: "rows",
                got: item.kind(),
            }
            .into());
        };
        bound.group(rows.batch(), self.most)?;
        for (place, aggregate) in &mut bound.aggregates {
            let column = place.map(|at| rows.batch().column(at).as_ref());
            aggregate.add(column, &bound.places, bound.groups.len());
        }
        Ok(Next::Consumed)
    }

    fn partial(&mut self) -> Option<PartialResult> {
        let bound = self.bound.as_mut()?;
        let mut keys: Vec<(GroupKey, usize)> = bound.groups.drain().collect();
        keys.sort_unstable_by_key(|&(_, place)| place);
        bound.keys.iter_mut().for_each(|(_, cells)| cells.clear());
        let aggregates = bound.aggregates.iter_mut().map(|(_, one)| one.take());
        let groups = PartialGroups {
            keys: keys.into_iter().map(|(key, _)| key).collect(),
            aggregates: aggregates.collect(),
        };
        let each = size_of::<GroupKey>() + groups.aggregates.len() * size_of::<GroupState>();
        let bytes = (groups.keys.len() * each) as u64;
        Some(PartialResult::new(groups, bytes))
    }

    fn combine(&mut self, next: &PartialResult) -> Result<(), OpError> {
        let (Some(bound), Some(groups)) = (&mut self.bound, next.get::<PartialGroups>()) else {
            return Ok(());
        };
        bound.places.clear();
        for key in &groups.keys {
            let place = bound.place(key, self.most)?;
            bound.places.push(place);
        }
        let count = bound.groups.len();
        for ((_, aggregate), more) in bound.aggregates.iter_mut().zip(&groups.aggregates) {
            aggregate.combine(more, &bound.places, count);
        }
        Ok(())
    }

    fn finish(&mut self, _: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        let Some(mut bound) = self.bound.take() else {
            return Ok(());
        };
        if bound.groups.is_empty() {
            return Ok(());
        }
        let columns = bound.output.schema().fields().iter();
        let keys = bound.keys.drain(..).map(|(_, cells)| cells);
        let values = bound
            .aggregates
            .drain(..)
            .map(|(_, aggregate)| aggregate.finish());
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

impl BoundState {
    fn group(&mut self, batch: &RecordBatch, most: u64) -> Result<(), OpError> {
        let rows = batch.num_rows();
        self.places.clear();
        let columns: Vec<_> = self
            .keys
            .iter()
            .map(|(at, cells)| cells.bits(batch.column(*at).as_ref()))
            .collect();
        for row in 0..rows {
            let mut unknown = 0;
            let mut bits = SmallVec::with_capacity(columns.len());
            for (at, column) in columns.iter().enumerate() {
                let bit = column.get(row);
                unknown |= u64::from(bit.is_none()) << at;
                bits.push(bit.unwrap_or(0));
            }
            let place = self.place(&(bits, unknown), most)?;
            self.places.push(place);
        }
        Ok(())
    }

    /// Adds the group if it is new.
    fn place(&mut self, key: &GroupKey, most: u64) -> Result<usize, OpError> {
        if let Some(&place) = self.groups.get(key) {
            return Ok(place);
        }
        let place = self.groups.len();
        if place as u64 >= most {
            let groups = place as u64 + 1;
            return Err(OpErrorKind::TooManyGroups { groups, most }.into());
        }
        for (at, (_, cells)) in self.keys.iter_mut().enumerate() {
            let known = key.1 >> at & 1 == 0;
            cells.push(known.then_some(key.0[at]));
        }
        self.groups.insert(key.clone(), place);
        Ok(place)
    }
}
