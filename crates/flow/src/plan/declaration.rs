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

/// How far results of an alternative `method` may differ from those of the default one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ResultTolerance {
    /// Bit-identical.
    BitIdentical,
    /// Largest difference in double precision, relative to the largest input value. In single precision 2^29 times as
    /// much, the ratio of the machine epsilons.
    Tolerance(f64),
}

impl ResultTolerance {
    /// Tolerance in double precision, relative to the largest input value.
    pub(crate) fn relative(self) -> f64 {
        match self {
            Self::BitIdentical => 0.0,
            Self::Tolerance(relative) => relative,
        }
    }
}

/// Parameter that selects an alternative.
pub(crate) const METHOD_PARAMETER: &str = "method";

/// Builds an operator from checked parameters.
pub type Build = fn(&Map<String, Value>) -> Result<Box<dyn Operator>, PlanError>;

/// What is known of an operator type without an instance: name, documentation, parameters, number of inputs.
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
    /// Implementations selectable as `method`. Each has one input of samples or windows and one output of the same
    /// type, and is stateless or declares [`Contract::Overlap`](crate::Contract) or `Settling`.
    pub alternatives: &'static [(&'static str, ResultTolerance)],
    /// Builds one from checked parameters.
    pub build: Build,
}

/// An operator type with its declaration; implemented by [`operator!`](super::operator).
pub trait OperatorType: Operator + 'static {
    /// What is known of the type.
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
        // First: a misspelt parameter is also a missing one.
        let unknown = |name: &&String| self.params.iter().all(|param| param.name != **name);
        if let Some(parameter) = given.keys().find(unknown) {
            return Err(PlanError::UnknownParameter {
                operator: self.name,
                parameter: parameter.clone(),
                known: match self.params {
                    [] => "none".into(),
                    params => params.iter().map(|p| p.name).collect::<Vec<_>>().join(", "),
                },
            });
        }
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
        Ok(complete)
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
            legal: format!("valid for its type: {why}"),
        })
    }
}
