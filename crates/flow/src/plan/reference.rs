//! Renders declarations for the operator reference: sections, and everything as JSON.

use std::ops::Bound::Excluded;

use serde_json::{Value, json};

use super::declaration::{Declaration, Inputs, ResultTolerance};
use super::parameter::Param;

pub(crate) const SECTIONS: [&str; 6] = [
    "Inputs",
    "Returns",
    "Conventions",
    "Errors",
    "Source",
    "Example",
];

impl Declaration {
    /// The first sentence.
    #[must_use]
    pub fn summary(&self) -> String {
        let text = self.doc.lines().take_while(|line| !line.trim().is_empty());
        text.map(str::trim).collect::<Vec<_>>().join(" ")
    }

    /// The text under `Inputs`, `Returns`, `Conventions`, `Errors`, `Source` or `Example`, or an empty one. Ends at the
    /// next of these headings outside code.
    #[must_use]
    pub fn section(&self, heading: &str) -> String {
        let mut lines = Vec::new();
        let (mut current, mut is_code) = (None, false);
        for line in self.doc.lines() {
            let text = line.trim();
            let title = text.strip_prefix("# ").filter(|_| !is_code);
            if text.starts_with("```") {
                is_code = !is_code;
            } else if title.is_some() {
                current = title;
            } else if current == Some(heading) {
                lines.push(line.strip_prefix(' ').unwrap_or(line));
            }
        }
        lines.join("\n").trim().to_owned()
    }

    /// A built-in operator's family (its folder), or a crate.
    #[must_use]
    pub fn family(&self) -> &'static str {
        let mut parts = self.module.split("::");
        let crate_name = parts.next().unwrap_or_default();
        let mut inner = parts.skip_while(|part| *part != "operators").skip(1);
        match inner.next() {
            Some(family) if crate_name == "isochrony_flow" => family,
            _ => crate_name,
        }
    }

    /// Everything, for generators of documentation and bindings.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let (least, exact) = match self.inputs {
            Inputs::Exactly(count) => (count, true),
            Inputs::AtLeast(count) => (count, false),
        };
        let sections =
            SECTIONS.map(|heading| (heading.to_lowercase(), json!(self.section(heading))));
        let alternatives = self
            .alternatives
            .iter()
            .map(|(name, tolerance)| match tolerance {
                ResultTolerance::BitIdentical => json!([name, null]),
                ResultTolerance::Tolerance(tolerance) => json!([name, tolerance]),
            });
        json!({
            "name": self.name,
            "family": self.family(),
            "module": self.module,
            "summary": self.summary(),
            "inputs": {"least": least, "exact": exact},
            "params": self.params.iter().map(Param::json).collect::<Vec<_>>(),
            "alternatives": alternatives.collect::<Vec<_>>(),
            "sections": sections.into_iter().collect::<serde_json::Map<_, _>>(),
        })
    }
}

impl Param {
    fn json(&self) -> Value {
        let lines: Vec<&str> = self.doc.lines().map(str::trim).collect();
        let range = self.range;
        let open = [range.low, range.high].map(|bound| matches!(bound, Excluded(_)));
        json!({
            "name": self.name,
            "doc": lines.join(" ").trim(),
            "kind": self.kind,
            "unit": self.unit.to_string(),
            "length": self.unit.is_length(),
            "range": range.numbers(),
            "open": open,
            "legal": range.to_string(),
            "choices": self.choices,
            "required": self.default.is_none(),
            "default": self.default.map(|default| default()),
            "adjustable": self.adjustable,
            "positional": self.positional,
            "explicit": self.explicit,
        })
    }
}
