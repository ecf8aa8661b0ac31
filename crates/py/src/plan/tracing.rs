//! Traces functions by calling them once with expressions.

use isochrony_flow::PortType;
use pyo3::prelude::*;

use super::NativePlan;
use crate::errors::Result;
use crate::expr::row::Row;
use crate::expr::{Expr, traced};

impl NativePlan {
    /// `wrap`: integers wrap around.
    pub(super) fn trace(
        &self,
        name: &str,
        function: &Bound<'_, PyAny>,
        inputs: usize,
        wrap: bool,
    ) -> Result<isochrony_expr::Expr> {
        let py = function.py();
        let argument = |place: u8| match self.plan.port() {
            PortType::Rows { fields, .. } => Ok(Bound::new(py, Row::from(fields))?.into_any()),
            _ => {
                let input = isochrony_expr::Expr::input_at(place);
                Ok(Bound::new(py, Expr::from(input))?.into_any())
            }
        };
        let arguments = (0..=u8::MAX).take(inputs).map(argument);
        let expression = traced(name, function, arguments.collect::<PyResult<_>>()?)?;
        Ok(if wrap {
            expression.wrapping()
        } else {
            expression
        })
    }
}
