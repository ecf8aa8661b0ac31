//! Selects and computes fields of rows.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::Field;
use serde_json::{Map, Value};

use super::to_rows::expression;
use crate::operator;
use crate::operators::wrong_input;
use crate::plan::rows::{Fields, RowExpression};
use crate::{
    Inputs, Item, Next, OpError, OpErrorKind, Operator, OperatorProperties, Out, PlanError, Port,
    PortType, json,
};

operator! {
    /// Keeps named fields of rows, in this order, and adds computed ones.
    ///
    /// # Inputs
    /// Rows.
    ///
    /// # Returns
    /// Rows with the fields that were named, then those that are computed, of the dtypes that `map` gives. No edges, no
    /// delay.
    ///
    /// # Conventions
    /// A civil time is its nanoseconds since 1970. What is computed from an unknown value (null) is unknown. Without
    /// `start` and `end` rows cannot be joined.
    ///
    /// # Errors
    /// A field that does not exist; two fields of one name; input that is not rows.
    pub struct Select = "select" (Inputs::Exactly(1)) {
        /// Fields that are kept, in their order.
        names: Vec<String> = "list" { default: || json!([]) },
        /// Further fields by name, each an expression of the row.
        fields: Map<String, Value> = "expressions" { default: || json!({}) },
    }
    state {
        bound: Option<BoundState>,
    }
}

struct BoundState {
    output: Fields,
    kept: Vec<usize>,
    computed: Vec<RowExpression>,
}

impl Operator for Select {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let port = &inputs[0];
        let PortType::Rows { fields, stream } = *port else {
            return Err(wrong_input(
                "select",
                "rows",
                port,
                "make rows with stats(...) or rows(...) first",
            ));
        };
        let (mut all, mut kept): (Vec<Field>, _) = (Vec::new(), Vec::new());
        for name in &self.names {
            let (at, field) = fields.find(name).ok_or_else(|| PlanError::UnknownField {
                operator: "select",
                field: name.clone(),
                known: fields.names(),
            })?;
            kept.push(at);
            all.push(field.clone());
        }
        let mut computed = Vec::new();
        for (name, saved) in &self.fields {
            let expr = expression("select", "fields", name, saved)?;
            let row_expression = RowExpression::bind("select", &expr, fields)?;
            // Null inputs give null results.
            all.push(Field::new(
                name,
                Fields::arrow_type(row_expression.output()),
                true,
            ));
            computed.push(row_expression);
        }
        for (at, field) in all.iter().enumerate() {
            if all[..at].iter().any(|other| other.name() == field.name()) {
                return Err(PlanError::FieldTwice {
                    operator: "select",
                    field: field.name().clone(),
                });
            }
        }
        if all.is_empty() {
            return Err(PlanError::Parameter {
                operator: "select",
                parameter: "names",
                got: "none".into(),
                legal: format!("at least one of {}", fields.names()),
            });
        }
        let output = Fields::intern(all);
        self.bound = Some(BoundState {
            output,
            kept,
            computed,
        });
        Ok(OperatorProperties::new([PortType::Rows {
            fields: output,
            stream,
        }]))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let (Item::Rows(rows), Some(bound)) = (&*item, &mut self.bound) else {
            return Err(OpErrorKind::WrongItem {
                expected: "rows",
                got: item.kind(),
            }
            .into());
        };
        let batch = rows.batch();
        let mut columns: Vec<ArrayRef> = bound
            .kept
            .iter()
            .map(|&at| batch.column(at).clone())
            .collect();
        for one in &mut bound.computed {
            columns.push(one.column(batch)?);
        }
        let batch = RecordBatch::try_new(bound.output.schema().clone(), columns);
        *item = rows.with_batch(batch.map_err(OpErrorKind::from)?).into();
        Ok(Next::Forward)
    }
}
