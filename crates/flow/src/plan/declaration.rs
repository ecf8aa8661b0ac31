//! Operators are declared once: one struct with its parameters and one `process`; name, documentation, validation,
//! JSON form and command-line help come from the declaration that [`operator!`](super::operator) writes from it.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{Operator, PlanError};

/// How many inputs an operator takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inputs {
    /// So many.
    Exactly(usize),
    /// So many or more.
    AtLeast(usize),
}

/// A parameter.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// Its name, in Rust, Python, JSON and on the command line.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// Type of its value: `integer`, `number`, `text`, `bool`, `list`, `expression`,
    /// `expressions` (by name), `aggregates` (by name), `numbers` (one or a list).
    pub kind: &'static str,
    /// Unit; empty if it has none.
    pub unit: &'static str,
    /// Least and greatest legal value.
    pub range: Option<(f64, f64)>,
    /// Legal texts; empty if any.
    pub choices: &'static [&'static str],
    /// Value where none is given; None: it must be given.
    pub default: Option<fn() -> Value>,
    /// Whether it may change between bursts of a running plan.
    pub adjustable: bool,
}

/// Makes an operator of checked parameters.
pub type Build = fn(&Map<String, Value>) -> Result<Box<dyn Operator>, PlanError>;

/// All there is to know about an operator without making one.
#[derive(Debug, Clone, Copy)]
pub struct Declaration {
    /// Its name.
    pub name: &'static str,
    /// First sentence, conventions, source.
    pub doc: &'static str,
    /// How many inputs it takes.
    pub inputs: Inputs,
    /// Its parameters, in order.
    pub params: &'static [Param],
    /// Makes one of checked parameters.
    pub build: Build,
}

/// A type whose declaration is known; implemented by [`operator!`](super::operator).
pub trait Declared: Operator + 'static {
    /// The declaration.
    const DECLARATION: Declaration;
}

/// Kinds of parameters, and what they are called in errors.
const KINDS: [(&str, &str); 9] = [
    ("integer", "an integer"),
    ("number", "a finite number"),
    ("numbers", "a number or a list of numbers"),
    ("bool", "true or false"),
    ("text", "a text"),
    ("list", "a list of names"),
    ("expression", "an expression"),
    ("expressions", "expressions by name"),
    ("aggregates", "aggregates by name"),
];

const fn is_kind(kind: &str) -> bool {
    let mut nth = 0;
    while nth < KINDS.len() {
        let (known, kind) = (KINDS[nth].0.as_bytes(), kind.as_bytes());
        let mut at = 0;
        while at < kind.len() && at < known.len() && kind[at] == known[at] {
            at += 1;
        }
        if at == kind.len() && at == known.len() {
            return true;
        }
        nth += 1;
    }
    false
}

impl Param {
    /// A parameter that must be given.
    ///
    /// # Panics
    /// If there is no such `kind`: while the declaration is compiled.
    #[must_use]
    pub const fn new(name: &'static str, doc: &'static str, kind: &'static str) -> Self {
        assert!(
            is_kind(kind),
            "a parameter's kind is integer, number, numbers, bool, text, list, expression, expressions or aggregates"
        );
        Self {
            name,
            doc,
            kind,
            unit: "",
            range: None,
            choices: &[],
            default: None,
            adjustable: false,
        }
    }

    /// Sets the unit.
    #[must_use]
    pub const fn unit(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }

    /// Sets the least and greatest legal value.
    #[must_use]
    pub const fn range(mut self, range: (f64, f64)) -> Self {
        self.range = Some(range);
        self
    }

    /// Sets the legal texts.
    #[must_use]
    pub const fn choices(mut self, choices: &'static [&'static str]) -> Self {
        self.choices = choices;
        self
    }

    /// Sets the value where none is given.
    #[must_use]
    pub const fn default(mut self, default: fn() -> Value) -> Self {
        self.default = Some(default);
        self
    }

    /// Sets whether it may change between bursts of a running plan.
    #[must_use]
    pub const fn adjustable(mut self, adjustable: bool) -> Self {
        self.adjustable = adjustable;
        self
    }

    /// What is legal, in words.
    #[must_use]
    pub fn legal(&self) -> String {
        let unit = if self.unit.is_empty() {
            String::new()
        } else {
            format!(" {}", self.unit)
        };
        match (self.range, self.choices) {
            (Some((low, high)), _) if high >= 9e18 => {
                format!("{}, at least {low}{unit}", self.article())
            }
            (Some((low, high)), _) => format!("{} from {low} to {high}{unit}", self.article()),
            (None, []) => self.article().into(),
            (None, choices) => format!("one of {}", choices.join(", ")),
        }
    }

    fn article(&self) -> &'static str {
        let mut kinds = KINDS.iter();
        kinds
            .find(|(kind, _)| *kind == self.kind)
            .map_or("", |(_, article)| article)
    }

    fn check(&self, operator: &'static str, value: &Value) -> Result<(), PlanError> {
        let fits = match self.kind {
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.as_f64().is_some_and(f64::is_finite),
            "bool" => value.is_boolean(),
            "list" => value.is_array(),
            "expression" | "expressions" | "aggregates" => value.is_object(),
            "numbers" => match value {
                Value::Array(list) => list.iter().all(Value::is_number),
                one => one.is_number(),
            },
            _ => value.is_string(),
        };
        let in_range = self
            .range
            .is_none_or(|(low, high)| value.as_f64().is_some_and(|x| (low..=high).contains(&x)));
        let known = |text: &Value| {
            self.choices.is_empty() || text.as_str().is_some_and(|t| self.choices.contains(&t))
        };
        let chosen = match value {
            Value::Array(values) => values.iter().all(known),
            other => known(other),
        };
        if fits && in_range && chosen {
            return Ok(());
        }
        Err(PlanError::Parameter {
            operator,
            parameter: self.name,
            got: value.to_string(),
            legal: self.legal(),
        })
    }
}

impl Declaration {
    /// The parameters complete with defaults, each of them legal.
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
    ///
    /// # Errors
    /// [`PlanError::Parameter`].
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

/// Declares an operator: a struct with its parameters and its state.
///
/// ```
/// use isochrony_flow::{
///     OperatorProperties, Inputs, Item, Next, OpError, Operator, Out, PlanError, Port, PortType, json, operator,
/// };
///
/// operator! {
///     /// Lets every n-th item pass.
///     pub struct Thin = "thin" (Inputs::Exactly(1)) {
///         /// One item in so many passes.
///         every: u64 = "integer" { unit: "items", range: (1.0, 1e9), default: || json!(2) },
///     }
///     state {
///         seen: u64,
///     }
/// }
///
/// impl Operator for Thin {
///     fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
///         Ok(OperatorProperties::new(inputs.iter().copied()).data_dependent())
///     }
///
///     fn process(&mut self, _: Port, _: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
///         self.seen += 1;
///         Ok(if self.seen % self.every == 0 { Next::Forward } else { Next::Consumed })
///     }
/// }
/// ```
#[macro_export]
macro_rules! operator {
    (
        $(#[doc = $doc:literal])*
        $vis:vis struct $Name:ident = $name:literal ($inputs:expr) {
            $(
                $(#[doc = $pdoc:literal])*
                $param:ident : $type:ty = $kind:literal { $($key:ident : $value:expr),* $(,)? }
            ),* $(,)?
        }
        state { $( $(#[$sattr:meta])* $state:ident : $stype:ty ),* $(,)? }
    ) => {
        $(#[doc = $doc])*
        #[derive(Default)]
        $vis struct $Name {
            $( $(#[doc = $pdoc])* pub $param: $type, )*
            $( $(#[$sattr])* $state: $stype, )*
        }

        impl $crate::Declared for $Name {
            const DECLARATION: $crate::Declaration = $crate::Declaration {
                name: $name,
                doc: concat!($($doc, "\n"),*),
                inputs: $inputs,
                params: &[$(
                    $crate::Param::new(stringify!($param), concat!($($pdoc, "\n"),*), $kind)$(.$key($value))*
                ),*],
                build: |_params| Ok(Box::new(Self {
                    $( $param: $crate::Declaration::read($name, stringify!($param), _params)?, )*
                    $( $state: Default::default(), )*
                })),
            };
        }
    };
}
