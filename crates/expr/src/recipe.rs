//! JSON form of expressions: `{"nodes": [{"op": "input"}, {"op": "mean", "args": [0]}, ...]}`.
//!
//! Constants are text (`"value": "2.5"`), since not every JSON parser preserves their bits.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use isochrony_segment::DType;

use crate::{Expr, ExprError, Graph, Name, Op};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recipe {
    nodes: Vec<SavedNode>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedNode {
    op: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    args: Vec<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dtype: Option<DType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input: Option<u8>,
}

impl SavedNode {
    fn op(&self, node: usize) -> Result<Op, ExprError> {
        match (self.op.as_str(), &self.name) {
            ("field", Some(name)) if self.value.is_none() && self.dtype.is_none() => {
                return Ok(Op::Field(Name::new(name)));
            }
            ("field", None) => {
                return Err(ExprError::MissingField {
                    node,
                    op: "field",
                    field: "name",
                });
            }
            (_, None) | ("field", _) => {}
            (other, Some(_)) => {
                return Err(ExprError::StrayField {
                    node,
                    op: Op::named(other).map_or("constant or cast", Op::name),
                    field: "name",
                    owner: "field",
                });
            }
        }
        if let Some(place) = self.input {
            return match (self.op.as_str(), &self.value, self.dtype) {
                ("input", None, None) => Ok(Op::Input(place)),
                (other, ..) => Err(ExprError::StrayField {
                    node,
                    op: Op::named(other).map_or("constant, cast or field", Op::name),
                    field: "input",
                    owner: "input",
                }),
            };
        }
        let op = match (self.op.as_str(), &self.value, self.dtype) {
            ("constant", Some(value), dtype) => return Ok(Op::Constant(value.parse()?, dtype)),
            ("constant", None, _) => {
                return Err(ExprError::MissingField {
                    node,
                    op: "constant",
                    field: "value",
                });
            }
            ("cast", None, Some(dtype)) => return Ok(Op::Cast(dtype)),
            ("cast", None, None) => {
                return Err(ExprError::MissingField {
                    node,
                    op: "cast",
                    field: "dtype",
                });
            }
            ("cast", Some(_), Some(dtype)) => Op::Cast(dtype),
            ("field", ..) => Op::Input(0),
            (name, ..) => Op::named(name).ok_or_else(|| ExprError::UnknownOperation {
                node,
                name: name.into(),
            })?,
        };
        let (field, owner) = match (&self.value, self.dtype) {
            (Some(_), _) => ("value", "constant"),
            (None, Some(_)) => ("dtype", "constant or cast"),
            (None, None) => return Ok(op),
        };
        Err(ExprError::StrayField {
            node,
            op: op.name(),
            field,
            owner,
        })
    }
}

impl Serialize for Graph {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let nodes = self.nodes().iter().map(|node| {
            let name = match node.op() {
                Op::Field(name) => Some(name.as_str().into()),
                _ => None,
            };
            let (value, dtype) = match node.op() {
                Op::Constant(value, dtype) => (Some(value.to_string()), dtype),
                Op::Cast(dtype) => (None, Some(dtype)),
                _ => (None, None),
            };
            let input = match node.op() {
                Op::Input(place) if place > 0 => Some(place),
                _ => None,
            };
            SavedNode {
                op: node.op().name().into(),
                args: node.args().to_vec(),
                value,
                dtype,
                name,
                input,
            }
        });
        let nodes = nodes.collect();
        Recipe { nodes }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Graph {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Recipe { nodes } = Recipe::deserialize(deserializer)?;
        let mut known = Vec::with_capacity(nodes.len().min(Self::MOST_NODES));
        for (place, node) in nodes.into_iter().enumerate() {
            known.push((node.op(place).map_err(D::Error::custom)?, node.args));
        }
        Self::new(known).map_err(D::Error::custom)
    }
}

impl Serialize for Expr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.graph().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Expr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from(&Graph::deserialize(deserializer)?))
    }
}
