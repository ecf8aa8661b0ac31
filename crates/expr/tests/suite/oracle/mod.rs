//! A slow, independent evaluator, by window and sample. Dtypes come from NumPy's table, so integers must wrap
//! (`Expr::wrapping`) or have 64 bits.

pub(crate) mod number;
pub(crate) mod random;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use isochrony_expr::{Expr, Op, Scalar};
use isochrony_segment::{DType, Sample};
use number::{Num, arithmetic};

/// NumPy's table: `"add(int16, float)"` to `"float64"`.
pub(crate) static TYPES: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    #[derive(serde::Deserialize)]
    struct Table {
        types: BTreeMap<String, String>,
    }
    let table: Table = serde_json::from_str(include_str!("../fixtures/numpy_types.json")).unwrap();
    table.types
});

#[derive(Debug, Clone)]
pub(crate) struct Values {
    pub(crate) numbers: Vec<Num>,
    pub(crate) per_sample: bool,
    /// Its type in the table.
    pub(crate) kind: &'static str,
}

impl Values {
    fn dtype(&self) -> DType {
        self.numbers[0].dtype
    }

    fn at(&self, sample: usize) -> Num {
        self.numbers[if self.per_sample { sample } else { 0 }]
    }
}

/// Samples as numbers.
pub(crate) fn numbers<T: Sample>(samples: &[T]) -> Vec<Num> {
    let number = |bytes: &[u8]| match T::DTYPE {
        DType::Bool => Num::bool(bytes[0] != 0),
        DType::I8 => Num::int(
            i8::from_ne_bytes(bytes.try_into().unwrap()).into(),
            T::DTYPE,
        ),
        DType::I16 => Num::int(
            i16::from_ne_bytes(bytes.try_into().unwrap()).into(),
            T::DTYPE,
        ),
        DType::I32 => Num::int(
            i32::from_ne_bytes(bytes.try_into().unwrap()).into(),
            T::DTYPE,
        ),
        DType::I64 => Num::int(
            i64::from_ne_bytes(bytes.try_into().unwrap()).into(),
            T::DTYPE,
        ),
        DType::U8 => Num::int(bytes[0].into(), T::DTYPE),
        DType::U16 => Num::int(
            u16::from_ne_bytes(bytes.try_into().unwrap()).into(),
            T::DTYPE,
        ),
        DType::U32 => Num::int(
            u32::from_ne_bytes(bytes.try_into().unwrap()).into(),
            T::DTYPE,
        ),
        DType::F32 | DType::C64 => {
            let part = |at: usize| f32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
            let im = if T::DTYPE.is_complex() { part(4) } else { 0.0 };
            Num::complex(part(0).into(), im.into(), T::DTYPE)
        }
        DType::F64 | DType::C128 => {
            let part = |at: usize| f64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
            let im = if T::DTYPE.is_complex() { part(8) } else { 0.0 };
            Num::complex(part(0), im, T::DTYPE)
        }
    };
    samples
        .iter()
        .map(|sample| number(bytemuck::bytes_of(sample)))
        .collect()
}

pub(crate) fn result(name: &str, operands: &[&str]) -> Option<DType> {
    let key = format!("{name}({})", operands.join(", "));
    TYPES.get(&key)?.parse().ok()
}

fn number(value: Scalar) -> (Num, &'static str) {
    match value {
        Scalar::Bool(value) => (Num::bool(value), "bool"),
        Scalar::Int(value) => (Num::int(value.into(), DType::I64), "int"),
        Scalar::Float(value) => (Num::real(value, DType::F64), "float"),
        Scalar::Complex(value) => (Num::complex(value.re, value.im, DType::C128), "complex"),
    }
}

pub(crate) type Memories = BTreeMap<usize, Num>;

pub(crate) fn evaluate(expr: &Expr, window: &[Num], memories: &mut Memories) -> Values {
    evaluate_inputs(expr, &[(window, true)], memories)
}

/// With each input's window, and whether it has samples or a single value.
pub(crate) fn evaluate_inputs(
    expr: &Expr,
    inputs: &[(&[Num], bool)],
    memories: &mut Memories,
) -> Values {
    let graph = expr.graph();
    let mut done: Vec<Values> = Vec::new();
    for (place, node) in graph.nodes().iter().enumerate() {
        let args: Vec<&Values> = node.args().iter().map(|&arg| &done[arg]).collect();
        let one = |number: Num| Values {
            numbers: vec![number],
            per_sample: false,
            kind: number.dtype.name(),
        };
        let values = match node.op() {
            Op::Input(input) => {
                let (window, per_sample) = inputs[usize::from(input)];
                Values {
                    numbers: window.to_vec(),
                    per_sample,
                    kind: window[0].dtype.name(),
                }
            }
            Op::Constant(value, None) => {
                let (number, kind) = number(value);
                Values {
                    numbers: vec![number],
                    per_sample: false,
                    kind,
                }
            }
            Op::Constant(value, Some(dtype)) => one(number(value).0.to(dtype)),
            Op::Reduce(op) => one(reduce(op.name(), &args[0].numbers)),
            Op::Memory(op) => one(remember(op.name(), place, &args, memories)),
            op => each(op, &args),
        };
        done.push(values);
    }
    done.pop().unwrap()
}

type Apply = dyn Fn(&[Num]) -> Num;

/// Elementwise operations.
fn each(op: Op, args: &[&Values]) -> Values {
    if let Op::Wrapping(op) = op {
        return each(op.plain(), args);
    }
    let kinds: Vec<&str> = args.iter().map(|values| values.kind).collect();
    let common = |a: usize, b: usize| {
        if kinds[a] == kinds[b] {
            args[a].dtype()
        } else {
            result("where", &[kinds[a], kinds[b]]).unwrap()
        }
    };
    let apply: Box<Apply> = match op {
        Op::Cast(dtype) => Box::new(move |n| n[0].to(dtype)),
        Op::Unary(op) => {
            let dtype = result(op.name(), &kinds).unwrap();
            Box::new(move |n| one_operand(op.name(), n[0], dtype))
        }
        Op::Binary(op) => {
            let (name, dtype, common) =
                (op.name(), result(op.name(), &kinds).unwrap(), common(0, 1));
            let integers = args.iter().all(|values| values.dtype().is_integer());
            Box::new(move |n| {
                let own = if dtype == DType::Bool { common } else { dtype };
                // Python integers are compared whether or not they fit.
                let fit = if integers && dtype == DType::Bool {
                    DType::I64
                } else {
                    own
                };
                let (a, b) = (n[0].to(fit), n[1].to(fit));
                two_operands(name, a, b)
            })
        }
        Op::Where => {
            let dtype = common(1, 2);
            Box::new(move |n| {
                if n[0].truth() {
                    n[1].to(dtype)
                } else {
                    n[2].to(dtype)
                }
            })
        }
        other => panic!("{other:?}"),
    };
    let per_sample = args.iter().any(|values| values.per_sample);
    let len = args
        .iter()
        .map(|values| values.numbers.len())
        .max()
        .unwrap();
    let at = |sample| {
        apply(
            &args
                .iter()
                .map(|values| values.at(sample))
                .collect::<Vec<_>>(),
        )
    };
    let numbers: Vec<Num> = (0..len).map(at).collect();
    let kind = numbers[0].dtype.name();
    Values {
        numbers,
        per_sample,
        kind,
    }
}

fn one_operand(name: &str, x: Num, result: DType) -> Num {
    let exact = x.dtype == DType::Bool || x.dtype.is_integer();
    match name {
        "neg" if exact => Num::int(-x.int, result),
        "neg" if x.dtype.is_complex() => Num::complex(-x.re, -x.im, result),
        "neg" => Num::real(-x.re, result),
        "abs" if exact => Num::int(x.int.abs(), result),
        "abs" if x.dtype.is_complex() => Num::real(x.re.hypot(x.im), result),
        "abs" => Num::real(x.re.abs(), result),
        "invert" if result == DType::Bool => Num::bool(!x.truth()),
        "invert" => Num::int(-x.int - 1, result),
        "isnan" => Num::bool(x.is_nan()),
        "isfinite" => Num::bool(x.re.is_finite() && x.im.is_finite()),
        "floor" | "ceil" | "trunc" | "round" if exact => x,
        "floor" => Num::real(x.re.floor(), result),
        "ceil" => Num::real(x.re.ceil(), result),
        "trunc" => Num::real(x.re.trunc(), result),
        "round" => Num::real(x.re.round_ties_even(), result),
        "real" if exact => x,
        "real" => Num::real(x.re, result),
        "imag" if exact => Num::int(0, result),
        "imag" => Num::real(x.im, result),
        "conj" if exact => Num::int(x.int, result),
        "conj" if x.dtype.is_complex() => Num::complex(x.re, -x.im, result),
        "conj" => x,
        "angle" => Num::real(x.im.atan2(x.value()), result),
        _ => {
            let v = x.to(result).re;
            let value = match name {
                "rint" => v.round_ties_even(),
                "sqrt" => v.sqrt(),
                "exp" => v.exp(),
                "log" => v.ln(),
                "log10" => v.log10(),
                "sin" => v.sin(),
                "cos" => v.cos(),
                "tan" => v.tan(),
                other => panic!("{other}"),
            };
            Num::real(value, result)
        }
    }
}

fn two_operands(name: &str, a: Num, b: Num) -> Num {
    match name {
        "lt" => Num::bool(a.before(b, false)),
        "le" => Num::bool(a.before(b, true)),
        "gt" => Num::bool(b.before(a, false)),
        "ge" => Num::bool(b.before(a, true)),
        "eq" => Num::bool(a.same(b)),
        "ne" => Num::bool(!a.same(b)),
        "minimum" => {
            if (b.is_nan() && !a.is_nan()) || b.before(a, false) {
                b
            } else {
                a
            }
        }
        "maximum" => {
            if (b.is_nan() && !a.is_nan()) || a.before(b, false) {
                b
            } else {
                a
            }
        }
        "arctan2" => Num::real(a.re.atan2(b.re), a.dtype),
        "hypot" => Num::real(a.re.hypot(b.re), a.dtype),
        _ => arithmetic(name, a, b),
    }
}

/// Neumaier's compensated sum.
pub(crate) fn accurate_sum(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0f64, 0.0);
    for value in values {
        let next = sum + value;
        if next.is_finite() {
            lost += if sum.abs() >= value.abs() {
                (sum - next) + value
            } else {
                (value - next) + sum
            };
        }
        sum = next;
    }
    sum + lost
}

fn reduce(name: &str, samples: &[Num]) -> Num {
    let dtype = samples[0].dtype;
    let exact = dtype == DType::Bool || dtype.is_integer();
    let n = samples.len() as f64;
    let kind = result(name, &[dtype.name()]);
    let total = || samples.iter().map(|x| x.int).sum::<i128>();
    let nonzero = samples.iter().filter(|x| x.truth()).count();
    let float = || {
        kind.unwrap_or(match dtype {
            DType::F32 | DType::C64 => DType::F32,
            _ => DType::F64,
        })
    };
    match name {
        "any" => Num::bool(nonzero > 0),
        "all" => Num::bool(nonzero == samples.len()),
        "count" => Num::int(nonzero as i128, DType::I64),
        "min" | "max" => {
            let better = |a: Num, b: &Num| {
                let b = *b;
                let replace = if name == "min" {
                    b.before(a, false)
                } else {
                    a.before(b, false)
                };
                if !a.is_nan() && (b.is_nan() || replace) {
                    b
                } else {
                    a
                }
            };
            let found = samples[1..].iter().fold(samples[0], better);
            // The sign of a zero extreme is undefined.
            let plus = |part: f64| if part == 0.0 { 0.0 } else { part };
            Num {
                re: plus(found.re),
                im: plus(found.im),
                ..found
            }
        }
        "sum" if exact => Num::int(total(), DType::I64),
        "mean" if exact => Num::real(total() as f64 / n, DType::F64),
        "std" | "var" if exact => {
            let squares: i128 = samples.iter().map(|x| x.int * x.int).sum();
            let spread = squares * samples.len() as i128 - total() * total();
            let variance = spread as f64 / n / n;
            Num::real(
                if name == "std" {
                    variance.sqrt()
                } else {
                    variance
                },
                DType::F64,
            )
        }
        "sum" | "mean" => {
            let n = if name == "mean" { n } else { 1.0 };
            let re = accurate_sum(samples.iter().map(|x| x.re)) / n;
            let im = accurate_sum(samples.iter().map(|x| x.im)) / n;
            Num::complex(re, im, dtype)
        }
        "std" | "var" => {
            let mean = |part: fn(&Num) -> f64| accurate_sum(samples.iter().map(part)) / n;
            let (re, im) = (mean(|x| x.re), mean(|x| x.im));
            let square = |x: &Num| (x.re - re).powi(2) + (x.im - im).powi(2);
            let variance = accurate_sum(samples.iter().map(square)) / n;
            Num::real(
                if name == "std" {
                    variance.sqrt()
                } else {
                    variance
                },
                float(),
            )
        }
        "rms" => {
            let square = |x: &Num| x.value().powi(2) + x.im.powi(2);
            Num::real(
                (accurate_sum(samples.iter().map(square)) / n).sqrt(),
                float(),
            )
        }
        other => panic!("{other}"),
    }
}

fn remember(name: &str, place: usize, args: &[&Values], memories: &mut Memories) -> Num {
    let x = args[0].at(0);
    let before = memories.get(&place).copied();
    let both = || {
        let kinds = [args[0].kind, args[1].kind];
        if kinds[0] == kinds[1] {
            args[0].dtype()
        } else {
            result("where", &kinds).unwrap()
        }
    };
    let (now, kept) = match name {
        "ewm" => {
            let dtype = if x.dtype == DType::F32 {
                DType::F32
            } else {
                DType::F64
            };
            let (value, alpha) = (x.value(), args[1].at(0).value());
            let mean = match before {
                None => value,
                Some(mean) if value.is_nan() => mean.re,
                Some(mean) => mean.re + alpha * (value - mean.re),
            };
            // A mean that became NaN restarts.
            let kept = (!mean.is_nan()).then(|| Num::real(mean, DType::F64));
            if kept.is_none() {
                memories.remove(&place);
            }
            (Num::real(mean, dtype), kept)
        }
        "previous" => {
            let dtype = both();
            (before.unwrap_or(args[1].at(0)).to(dtype), Some(x.to(dtype)))
        }
        "counter" => {
            let count = before.map_or(0, |count| count.int) + i128::from(x.truth());
            let count = Num::int(count, DType::I64);
            (count, Some(count))
        }
        other => panic!("{other}"),
    };
    if let Some(kept) = kept {
        memories.insert(place, kept);
    }
    now
}
