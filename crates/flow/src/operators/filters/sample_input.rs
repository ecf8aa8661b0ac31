//! An operator's input samples, and their conversion to values.

use std::slice::from_ref;

use isochrony_expr::Expr;
use isochrony_segment::{DType, StreamId};

use crate::operators::general::compiled::CompiledExpr;
use crate::operators::windows::row_processor::{dtype_of, is_single};
use crate::operators::wrong_input;
use crate::{PlanError, PortType};

#[derive(Debug, Clone, Copy)]
pub(crate) struct SampleInput {
    dtype: DType,
    stream: StreamId,
    /// In hertz.
    pub(crate) rate: f64,
    pub(crate) complex: bool,
    /// Values are in single precision.
    pub(crate) single: bool,
}

impl SampleInput {
    /// Fails without samples.
    pub(crate) fn of(operator: &'static str, port: &PortType) -> Result<Self, PlanError> {
        match *port {
            PortType::Samples { dtype, stream } => Ok(Self {
                dtype,
                stream,
                rate: stream.get().rate.to_f64(),
                complex: matches!(dtype, DType::C64 | DType::C128),
                single: is_single(dtype, stream),
            }),
            _ => Err(wrong_input(
                operator,
                "samples",
                port,
                port.samples_remedy(),
            )),
        }
    }

    /// Fails without real samples.
    pub(crate) fn real(operator: &'static str, port: &PortType) -> Result<Self, PlanError> {
        match Self::of(operator, port)? {
            input if input.complex => Err(wrong_input(
                operator,
                "real samples",
                port,
                "take their magnitude first: map(lambda s: abs(s))",
            )),
            input => Ok(input),
        }
    }

    pub(crate) fn stream(&self) -> StreamId {
        self.stream
    }

    /// Converts samples to values of their precision; None if they are already.
    pub(crate) fn conversion(
        &self,
        operator: &'static str,
    ) -> Result<Option<CompiledExpr>, PlanError> {
        let dtype = dtype_of(self.single, self.complex);
        if self.dtype == dtype && self.stream.get().calibration.is_identity() {
            return Ok(None);
        }
        let port = PortType::Samples {
            dtype: self.dtype,
            stream: self.stream,
        };
        let mut compiled = CompiledExpr::default();
        let values = Expr::input().astype(dtype);
        compiled.bind(operator, Some(&values), from_ref(&port))?;
        Ok(Some(compiled))
    }

    /// Empty if unknown.
    pub(crate) fn unit(&self) -> &'static str {
        self.stream.get().calibration.unit()
    }
}
