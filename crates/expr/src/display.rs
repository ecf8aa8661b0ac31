//! Formats expressions as Python.
//!
//! Omits redundant parentheses. In large expressions, shared or very long parts get names, so text is linear in
//! operations: `t1 = s + s; t2 = t1 * t1; t2 + t2`.

use std::fmt;

use crate::{Binary, Expr, Graph, Op, Unary};

/// Operations before shared parts get names.
const MAX_INLINE_OPERATIONS: usize = 100;

/// Bytes of text before a part gets a name.
const MAX_INLINE_BYTES: usize = 1000;

/// Python's precedence; larger binds tighter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Compare,
    Or,
    Xor,
    And,
    Sum,
    Product,
    Sign,
    Power,
    Call,
}

struct Text {
    text: String,
    binding: Binding,
}

impl Text {
    fn within(&self, least: Binding) -> String {
        if self.binding < least {
            format!("({})", self.text)
        } else {
            self.text.clone()
        }
    }
}

/// Symbol, precedence, and minimum precedence of both operands.
fn infix(op: Binary) -> Option<(&'static str, Binding, Binding, Binding)> {
    use Binding::{And, Call, Compare, Or, Power, Product, Sign, Sum, Xor};
    Some(match op {
        Binary::Add => ("+", Sum, Sum, Product),
        Binary::Sub => ("-", Sum, Sum, Product),
        Binary::Mul => ("*", Product, Product, Sign),
        Binary::Div => ("/", Product, Product, Sign),
        Binary::FloorDiv => ("//", Product, Product, Sign),
        Binary::Mod => ("%", Product, Product, Sign),
        Binary::Pow => ("**", Power, Call, Sign),
        // Python would chain comparisons, so they are parenthesised as operands.
        Binary::Lt => ("<", Compare, Or, Or),
        Binary::Le => ("<=", Compare, Or, Or),
        Binary::Gt => (">", Compare, Or, Or),
        Binary::Ge => (">=", Compare, Or, Or),
        Binary::Eq => ("==", Compare, Or, Or),
        Binary::Ne => ("!=", Compare, Or, Or),
        Binary::And => ("&", And, And, Sum),
        Binary::Or => ("|", Or, Or, Xor),
        Binary::Xor => ("^", Xor, Xor, And),
        _ => return None,
    })
}

fn write(op: Op, args: &[&Text]) -> Text {
    let list = |args: &[&Text]| -> String {
        let texts: Vec<&str> = args.iter().map(|arg| arg.text.as_str()).collect();
        texts.join(", ")
    };
    let (text, binding) = match op {
        Op::Input(0) => ("s".into(), Binding::Call),
        Op::Input(place) => (format!("s{place}"), Binding::Call),
        Op::Field(name) => (name.to_string(), Binding::Call),
        Op::Constant(value, None) => {
            let text = value.to_string();
            let binding = if text.starts_with('-') || text.ends_with('j') {
                Binding::Sum
            } else {
                Binding::Call
            };
            (text, binding)
        }
        Op::Constant(value, Some(dtype)) => (format!("{dtype}({value})"), Binding::Call),
        Op::Cast(dtype) => (
            format!(
                "{}.astype({:?})",
                args[0].within(Binding::Call),
                dtype.name()
            ),
            Binding::Call,
        ),
        Op::Unary(Unary::Neg) => (format!("-{}", args[0].within(Binding::Sign)), Binding::Sign),
        Op::Unary(Unary::Invert) => (format!("~{}", args[0].within(Binding::Sign)), Binding::Sign),
        Op::Binary(binary) if let Some((symbol, own, left, right)) = infix(binary) => {
            let (left, right) = (args[0].within(left), args[1].within(right));
            if binary == Binary::Pow {
                (format!("{left}**{right}"), own)
            } else {
                (format!("{left} {symbol} {right}"), own)
            }
        }
        Op::Unary(_) | Op::Binary(_) | Op::Wrapping(_) | Op::Where => {
            (format!("{}({})", op.name(), list(args)), Binding::Call)
        }
        Op::Clip | Op::Reduce(_) | Op::Memory(_) => {
            let on = args[0].within(Binding::Call);
            (
                format!("{on}.{}({})", op.name(), list(&args[1..])),
                Binding::Call,
            )
        }
    };
    Text { text, binding }
}

impl Graph {
    pub(crate) fn text_of(&self, root: usize) -> String {
        let nodes = &self.nodes()[..=root];
        let mut uses = vec![0usize; nodes.len()];
        uses[root] = 1;
        let mut size = vec![1usize; nodes.len()];
        for (at, node) in nodes.iter().enumerate() {
            for &arg in node.args() {
                size[at] = size[at].saturating_add(size[arg]);
            }
        }
        for at in (0..nodes.len()).rev() {
            if uses[at] > 0 {
                nodes[at].args().iter().for_each(|&arg| uses[arg] += 1);
            }
        }
        let (mut texts, mut names): (Vec<Text>, Vec<String>) = (Vec::new(), Vec::new());
        for (at, node) in nodes.iter().enumerate() {
            let mut text = Text {
                text: String::new(),
                binding: Binding::Call,
            };
            if uses[at] > 0 {
                let args: Vec<&Text> = node.args().iter().map(|&arg| &texts[arg]).collect();
                text = write(node.op(), &args);
                let shared =
                    uses[at] > 1 && !node.args().is_empty() && size[root] > MAX_INLINE_OPERATIONS;
                if at != root && (shared || text.text.len() > MAX_INLINE_BYTES) {
                    let name = format!("t{}", names.len() + 1);
                    names.push(format!("{name} = {}; ", text.text));
                    text = Text {
                        text: name,
                        binding: Binding::Call,
                    };
                }
            }
            texts.push(text);
        }
        names.push(texts.swap_remove(root).text);
        names.concat()
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text_of(self.root()))
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.graph().fmt(f)
    }
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expr({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isochrony_segment::{Complex64, DType};

    #[test]
    fn text_is_python_with_minimal_parentheses() {
        let s = Expr::input();
        for (expr, text) in [
            (
                ((&s - s.mean()) / s.std()).gt(3),
                "(s - s.mean()) / s.std() > 3",
            ),
            (&s - (&s - 1), "s - (s - 1)"),
            (&s * 2 + 1, "s * 2 + 1"),
            ((&s + 1).abs().pow(2), "abs(s + 1)**2"),
            ((-&s).pow(2), "(-s)**2"),
            (-s.pow(-2), "-s**(-2)"),
            (s.gt(1) & s.lt(-3), "(s > 1) & (s < -3)"),
            (s.gt(1).equal(s.lt(3)), "(s > 1) == (s < 3)"),
            (!s.gt(1) | true, "~(s > 1) | True"),
            (&s - 3, "s - 3"),
            (&s * -3.5, "s * (-3.5)"),
            (s.gt(0).select(&s, 0.5).max(), "where(s > 0, s, 0.5).max()"),
            (
                s.clip(-1, 1).astype(DType::F32),
                "s.clip(-1, 1).astype(\"float32\")",
            ),
            (
                s.rms().ewm(0.1).hysteresis(1, 2),
                "s.rms().ewm(0.1).hysteresis(1, 2)",
            ),
            (s.arctan2(&s + 1), "arctan2(s, s + 1)"),
            (&s + Expr::typed(3, DType::I8), "s + int8(3)"),
            (&s * Complex64::new(0.0, 1.0), "s * (0.0+1.0j)"),
            (7 % &s, "7 % s"),
            (
                (-&s + 1).wrapping().gt(0),
                "wrapping_add(wrapping_neg(s), 1) > 0",
            ),
        ] {
            assert_eq!(expr.to_string(), text);
            assert_eq!(format!("{expr:?}"), format!("Expr({text})"));
        }
    }

    #[test]
    fn shared_parts_of_a_large_expression_are_written_once() {
        let mut x = Expr::input() + 1;
        for _ in 0..200 {
            x = &x + &x;
        }
        let text = x.to_string();
        assert!(text.starts_with("t1 = s + 1; t2 = t1 + t1; "), "{text}");
        assert!(
            text.ends_with("; t200 + t200") && text.len() < 8000,
            "{text}"
        );
    }
}
