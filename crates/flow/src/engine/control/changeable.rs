//! [`changeable_operator`]: an operator whose parameters or implementation may change while it is executed.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::adjustable::AdjustableOperator;
use super::changes::ParameterChanges;
use super::switched::SwitchedOperator;
use crate::{Declaration, Operator, PlanError};

pub(super) fn has_adjustable(declaration: &Declaration) -> bool {
    declaration.params.iter().any(|param| param.adjustable)
}

pub(crate) fn changeable_operator(
    declaration: Declaration,
    params: &Map<String, Value>,
    changes: &Arc<ParameterChanges>,
) -> Result<Box<dyn Operator>, PlanError> {
    let changes = Arc::clone(changes);
    Ok(match has_adjustable(&declaration) {
        true => Box::new(AdjustableOperator::new(declaration, params, changes)?),
        false => Box::new(SwitchedOperator::new(declaration, params, changes)?),
    })
}
