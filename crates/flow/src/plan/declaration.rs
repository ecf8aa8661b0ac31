//! Operator declarations, by [`operator!`](super::operator): the single source of validation, JSON, the typed builder,
//! Python's method and docstring, the operator reference and command-line help.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::parameter::Param;
use crate::{Operator, PlanError};

/// Number of inputs of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inputs {
    /// Exactly this number.
    Exactly(usize),
    /// This number or more.
    AtLeast(usize),
}

/// Deviation of an implementation's results from the default's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ResultTolerance {
    /// Bit-identical.
    BitIdentical,
    /// Largest difference in double precision, as a fraction of the largest input values; in single precision 2^29
    /// times as much.
    Tolerance(f64),
}

impl ResultTolerance {
    /// Fraction of the largest values, in double precision.
    pub(crate) fn relative(self) -> f64 {
        match self {
            Self::BitIdentical => 0.0,
            Self::Tolerance(part) => part,
        }
    }
}

pub(crate) const METHOD: &str = "method";

/// Builds an operator from checked parameters.
pub type Build = fn(&Map<String, Value>) -> Result<Box<dyn Operator>, PlanError>;

/// All facts about an operator without an instance.
#[derive(Debug, Clone, Copy)]
pub struct Declaration {
    /// Its name.
    pub name: &'static str,
    /// A sentence, then the parts that [`section`](Self::section) lists.
    pub doc: &'static str,
    /// Declaring module.
    pub module: &'static str,
    /// Number of inputs.
    pub inputs: Inputs,
    /// Parameters, in order.
    pub params: &'static [Param],
    /// Implementations selectable as `method`. They take one input of samples or windows, give the same, and are
    /// stateless or declare [`Contract::Overlap`](crate::Contract) or `Settling`.
    pub alternatives: &'static [(&'static str, ResultTolerance)],
    /// Builds one from checked parameters.
    pub build: Build,
}

/// A declared operator; implemented by [`operator!`](super::operator).
pub trait Declared: Operator + 'static {
    /// The declaration.
    const DECLARATION: Declaration;
}

/// Parameters for a plan; implemented by the builders of [`operator!`](super::operator).
pub trait OperatorBuilder {
    /// The declaration, and the parameters set.
    fn into_parts(self) -> (Declaration, Map<String, Value>);
}

impl Declaration {
    /// Adds defaults and checks all parameters.
    ///
    /// # Errors
    /// [`PlanError::UnknownParameter`], [`PlanError::MissingParameter`], [`PlanError::Parameter`].
    pub fn check(&self, mut given: Map<String, Value>) -> Result<Map<String, Value>, PlanError> {
        let mut complete = Map::new();
        for param in self.params {
            let value = match (given.remove(param.name), param.default) {
                (Some(value), Some(default)) if value == default() => value,
                (Some(value), _) => {
                    param.check(self.name, &value)?;
                    value
                }
                (None, Some(default)) => default(),
                (None, None) => {
                    return Err(PlanError::MissingParameter {
                        operator: self.name,
                        parameter: param.name,
                        doc: param.doc.trim(),
                    });
                }
            };
            complete.insert(param.name.into(), value);
        }
        match given.keys().next() {
            None => Ok(complete),
            Some(parameter) => Err(PlanError::UnknownParameter {
                operator: self.name,
                parameter: parameter.clone(),
                known: match self.params {
                    [] => "none".into(),
                    params => params.iter().map(|p| p.name).collect::<Vec<_>>().join(", "),
                },
            }),
        }
    }

    /// A checked parameter as its Rust type; for [`operator!`](super::operator).
    #[doc(hidden)]
    pub fn read<T: DeserializeOwned>(
        operator: &'static str,
        parameter: &'static str,
        params: &Map<String, Value>,
    ) -> Result<T, PlanError> {
        let value = params.get(parameter).cloned().unwrap_or(Value::Null);
        serde_json::from_value(value.clone()).map_err(|why| PlanError::Parameter {
            operator,
            parameter,
            got: value.to_string(),
            legal: format!("of its type ({why})"),
        })
    }
}
