//! Operator parameters: type, unit, legal values, default.

use std::fmt;
use std::ops::Bound::{Excluded, Included, Unbounded};

use serde_json::Value;

use super::length::{EXAMPLES, Length, hint};
use super::parameter_range::ParamRange;
use crate::PlanError;

/// Unit of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// Number, text or name without unit.
    #[default]
    Unitless,
    /// Samples, or a duration as text ([`Length`](crate::Length)).
    Samples,
    /// Samples, or windows of an input of windows: also a length.
    Items,
    /// Seconds as written in decimal (0.07 is seven hundredths), of type [`Length`](crate::Length).
    Seconds,
    /// Hertz.
    Hertz,
    /// Decibels.
    Decibels,
    /// Counted or referenced thing.
    Of(&'static str),
}

impl Unit {
    /// Whether text with its own unit is accepted.
    #[must_use]
    pub const fn is_length(self) -> bool {
        matches!(self, Self::Samples | Self::Items | Self::Seconds)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unitless => "",
            Self::Samples => "samples",
            Self::Items => "samples or windows",
            Self::Seconds => "s",
            Self::Hertz => "Hz",
            Self::Decibels => "dB",
            Self::Of(what) => what,
        })
    }
}

/// A parameter.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// Name in Rust, Python, JSON and on the command line.
    pub name: &'static str,
    /// Description.
    pub doc: &'static str,
    /// `integer`, `integers` (a list), `number`, `numbers` (one or a list), `bool`, `text`, `taper` (a text), `list`
    /// (of names), `expression`, `expressions` (by name), `aggregates` (by name).
    pub kind: &'static str,
    /// Unit.
    pub unit: Unit,
    /// Legal numbers.
    pub range: ParamRange,
    /// Legal texts; empty: any.
    pub choices: &'static [&'static str],
    /// None: required.
    pub default: Option<fn() -> Value>,
    /// May change during execution.
    pub adjustable: bool,
    /// Positional in Python despite its default.
    pub positional: bool,
    /// Required in Python, although optional in saved plans.
    pub explicit: bool,
}

const KINDS: [(&str, &str); 11] = [
    ("integer", "an integer"),
    ("integers", "a list of whole numbers"),
    ("number", "a finite number"),
    ("numbers", "a number or a list of numbers"),
    ("bool", "true or false"),
    ("text", "a text"),
    ("taper", "a text"),
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
    /// A required parameter. Compilation fails if `kind` is unknown.
    #[must_use]
    pub const fn new(name: &'static str, doc: &'static str, kind: &'static str) -> Self {
        assert!(
            is_kind(kind),
            "a parameter's kind is one of those that `Param::kind` lists"
        );
        Self {
            name,
            doc,
            kind,
            unit: Unit::Unitless,
            range: ParamRange::ALL,
            choices: &[],
            default: None,
            adjustable: false,
            positional: false,
            explicit: false,
        }
    }

    /// Sets the unit.
    #[must_use]
    pub const fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// Sets the legal range, both bounds included.
    #[must_use]
    pub const fn range(mut self, (low, high): (f64, f64)) -> Self {
        self.range = ParamRange::closed(low, high);
        self
    }

    /// Sets the least legal number.
    #[must_use]
    pub const fn at_least(mut self, low: f64) -> Self {
        self.range.low = Included(low);
        self
    }

    /// Sets the largest legal number.
    #[must_use]
    pub const fn at_most(mut self, high: f64) -> Self {
        self.range.high = Included(high);
        self
    }

    /// Sets the number that legal ones exceed.
    #[must_use]
    pub const fn above(mut self, low: f64) -> Self {
        self.range.low = Excluded(low);
        self
    }

    /// Sets the number that legal ones stay below.
    #[must_use]
    pub const fn below(mut self, high: f64) -> Self {
        self.range.high = Excluded(high);
        self
    }

    /// Sets the legal texts.
    #[must_use]
    pub const fn choices(mut self, choices: &'static [&'static str]) -> Self {
        self.choices = choices;
        self
    }

    /// Sets the default.
    #[must_use]
    pub const fn default(mut self, default: fn() -> Value) -> Self {
        self.default = Some(default);
        self
    }

    /// Sets whether it may change during execution.
    #[must_use]
    pub const fn adjustable(mut self, adjustable: bool) -> Self {
        self.adjustable = adjustable;
        self
    }

    /// Sets whether it is positional in Python.
    #[must_use]
    pub const fn positional(mut self, positional: bool) -> Self {
        self.positional = positional;
        self
    }

    /// Sets whether Python requires it.
    #[must_use]
    pub const fn explicit(mut self, explicit: bool) -> Self {
        self.explicit = explicit;
        self
    }

    /// Describes legal values.
    #[must_use]
    pub fn legal(&self) -> String {
        let numbers = match (self.range, self.unit) {
            (range, _) if range == ParamRange::ALL => String::new(),
            (range, Unit::Unitless) => format!(" {range}"),
            // "from 1 samples" would read badly.
            (range, unit) if matches!((range.low, range.high), (Included(_), Unbounded)) => {
                format!(" {range}, in {unit}")
            }
            (range, unit) => format!(" {range} {unit}"),
        };
        let number = match self.choices {
            [] => self.article().to_owned() + &numbers,
            choices => format!("one of {}", choices.join(", ")),
        };
        match self.unit.is_length() {
            true => format!("{number}, or {EXAMPLES}"),
            false => number,
        }
    }

    fn article(&self) -> &'static str {
        let mut kinds = KINDS.iter();
        kinds
            .find(|(kind, _)| *kind == self.kind)
            .map_or("", |(_, article)| article)
    }

    /// Checks kind, range and choices.
    ///
    /// # Errors
    /// [`PlanError::Parameter`].
    pub fn check(&self, operator: &'static str, value: &Value) -> Result<(), PlanError> {
        let fits = match self.kind {
            _ if self.unit.is_length() && value.is_string() => {
                let text = value.as_str().unwrap_or_default();
                if text.parse::<Length>().is_ok() {
                    return Ok(());
                }
                false
            }
            "integer" => is_whole(value),
            "integers" => value
                .as_array()
                .is_some_and(|list| list.iter().all(is_whole)),
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
        let is_legal = |value: &Value| value.as_f64().is_some_and(|x| self.range.contains(x));
        let in_range = self.range == ParamRange::ALL
            || match value {
                Value::Array(values) => values.iter().all(is_legal),
                other => is_legal(other),
            };
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
        let wrong = match value {
            // For a list, the first unknown one.
            Value::Array(values) if fits && in_range => values.iter().find(|value| !known(value)),
            _ => None,
        };
        let hint = match self.unit.is_length() {
            true => hint(value),
            false => "",
        };
        Err(PlanError::Parameter {
            operator,
            parameter: self.name,
            got: wrong.unwrap_or(value).to_string(),
            legal: self.legal() + hint,
        })
    }
}

fn is_whole(value: &Value) -> bool {
    value.is_i64() || value.is_u64()
}
