//! `isochrony.Expr`: Python functions of samples, traced.
//!
//! A plan calls `lambda s: s.std() > 10` once, with an [`Expr`] that stands for the samples of any window. Operators,
//! methods and NumPy functions of it give further expressions; what the lambda returns is the recipe that the engine
//! runs. Nothing is evaluated, so whatever needs a value now (`if`, `and`, `len`, `float`) is an error that says what
//! to write instead.
//!
//! Constants follow NumPy (NEP 50): Python's numbers take the dtype of what they meet, NumPy's keep their own.
//! Comparison is traced too, so expressions hash by identity and never compare equal as Python objects.

use isochrony_expr::{Binary, Expr as Written, Memory, Op, Reduction, Scalar, Unary};
use isochrony_segment::{Complex64, DType};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyDict, PyFloat, PyInt, PyTuple};

use crate::errors::{Error, Raised, Result};
use crate::options::dtype_text;

mod numpy;

/// What is to be computed of the samples of a window, or of each sample: a recipe, not a value.
///
/// Arithmetic, comparisons, ``& | ^ ~``, `abs`, `round`, and NumPy's functions of single values (``np.sqrt(s)``,
/// ``np.where(s > 0, s, 0)``) work as on an array and give an expression. Reductions (``s.mean()``) give one value a
/// window; `ewm`, `hysteresis`, `previous` and `counter` follow such values from window to window, and begin anew
/// after a gap or a clock step. Types are NumPy's (NEP 50). ``==`` is computed too and hashing is by identity.
///
/// Raises:
///     isochrony.PlanError: what cannot be computed later: a truth value, an element, a number.
#[pyclass(frozen, module = "isochrony", name = "Expr")]
pub(crate) struct Expr {
    pub(crate) written: Written,
}

impl From<Written> for Expr {
    fn from(written: Written) -> Self {
        Self { written }
    }
}

/// An expression as errors quote it.
fn quoted(written: &Written) -> String {
    let text = written.to_string();
    match text.char_indices().nth(100) {
        Some((cut, _)) => format!("`{}...`", &text[..cut]),
        None => format!("`{text}`"),
    }
}

fn untraceable(message: String) -> Error {
    Raised::new("TraceError", "untraceable", message).into()
}

/// A number of Python's, which takes the dtype of what it meets.
fn weak(object: &Bound<'_, PyAny>) -> Result<Option<Scalar>> {
    Ok(Some(if object.is_instance_of::<PyBool>() {
        Scalar::Bool(object.extract()?)
    } else if object.is_instance_of::<PyInt>() {
        match object.extract() {
            Ok(value) => Scalar::Int(value),
            Err(_) => {
                return Err(untraceable(format!(
                    "{object} does not fit int64, the largest integer of a signal; write it as a float"
                )));
            }
        }
    } else if object.is_instance_of::<PyFloat>() {
        Scalar::Float(object.extract()?)
    } else if object.is_instance_of::<PyComplex>() {
        let part = |name| -> PyResult<f64> { object.getattr(name)?.extract() };
        Scalar::Complex(Complex64::new(part("real")?, part("imag")?))
    } else {
        return Ok(None);
    }))
}

/// An expression or a number as an argument of an operation.
fn operand(object: &Bound<'_, PyAny>) -> Result<Written> {
    if let Ok(expr) = object.cast::<Expr>() {
        return Ok(expr.get().written.clone());
    }
    // NumPy's numbers first: float64 is a subclass of Python's float, but keeps its dtype.
    let dtype = object.getattr_opt("dtype")?;
    let whole = object.getattr_opt("shape")?;
    match (dtype, whole) {
        (Some(dtype), Some(shape)) => {
            if shape.len()? != 0 {
                return Err(untraceable(format!(
                    "an expression takes numbers, got an array of shape {shape}: windows have no positions to match; \
                     give a number"
                )));
            }
            let (dtype, _) = DType::parse(&dtype.getattr("str")?.extract::<String>()?)?;
            if let Some(value) = weak(&object.call_method0("item")?)? {
                return Ok(Written::typed(value, dtype));
            }
        }
        _ => {
            if let Some(value) = weak(object)? {
                return Ok(Written::constant(value));
            }
        }
    }
    let kind = object.get_type().name()?;
    Err(untraceable(format!(
        "an expression takes numbers and expressions, got {kind}; give one of these"
    )))
}

/// The recipe that a function of the samples, or an expression, stands for.
pub(crate) fn traced(operator: &str, function: &Bound<'_, PyAny>) -> Result<Written> {
    if let Ok(expr) = function.cast::<Expr>() {
        return Ok(expr.get().written.clone());
    }
    if !function.is_callable() {
        let kind = function.get_type().name()?;
        return Err(untraceable(format!(
            "{operator} takes a function of the samples, got {kind}; write lambda s: ..."
        )));
    }
    let result = function.call1((Expr::from(Written::input()),))?;
    operand(&result).map_err(|_| {
        let kind = result.get_type().name();
        let kind = kind.map_or_else(|_| String::new(), |name| name.to_string());
        untraceable(format!(
            "the function given to {operator} returned {kind}; return an expression of its argument, as in \
             lambda s: s.std() > 10"
        ))
    })
}

impl Expr {
    fn unary(&self, op: Unary) -> Result<Self> {
        apply(Op::Unary(op), [self.written.clone()])
    }

    fn binary(&self, op: Binary, other: &Bound<'_, PyAny>) -> Result<Self> {
        apply(Op::Binary(op), [self.written.clone(), operand(other)?])
    }

    fn reflected(&self, op: Binary, other: &Bound<'_, PyAny>) -> Result<Self> {
        apply(Op::Binary(op), [operand(other)?, self.written.clone()])
    }

    /// Python asked for something that only values have.
    fn no<T>(&self, what: &str, mend: &str) -> Result<T> {
        let at = quoted(&self.written);
        Err(untraceable(format!(
            "{at} has no {what} while a plan is written, since it stands for every window; {mend}"
        )))
    }
}

fn apply(op: Op, args: impl IntoIterator<Item = Written>) -> Result<Expr> {
    let written = Written::apply(op, args);
    Ok(written
        .map_err(|error| Raised::new("PlanError", error.code(), error.to_string()))?
        .into())
}

#[pymethods]
impl Expr {
    /// Sum.
    fn __add__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Add, other)
    }

    /// Sum.
    fn __radd__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.reflected(Binary::Add, other)
    }

    /// Difference.
    fn __sub__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Sub, other)
    }

    /// Difference.
    fn __rsub__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.reflected(Binary::Sub, other)
    }

    /// Product.
    fn __mul__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Mul, other)
    }

    /// Product.
    fn __rmul__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.reflected(Binary::Mul, other)
    }

    /// Quotient, a float.
    fn __truediv__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Div, other)
    }

    /// Quotient, a float.
    fn __rtruediv__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.reflected(Binary::Div, other)
    }

    /// Quotient rounded down.
    fn __floordiv__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::FloorDiv, other)
    }

    /// Quotient rounded down.
    fn __rfloordiv__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.reflected(Binary::FloorDiv, other)
    }

    /// Remainder with the sign of the divisor.
    fn __mod__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Mod, other)
    }

    /// Remainder with the sign of the divisor.
    fn __rmod__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.reflected(Binary::Mod, other)
    }

    /// And: of bools logical, of integers bitwise.
    fn __and__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::And, other)
    }

    /// And: of bools logical, of integers bitwise.
    fn __rand__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.reflected(Binary::And, other)
    }

    /// Or: of bools logical, of integers bitwise.
    fn __or__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Or, other)
    }

    /// Or: of bools logical, of integers bitwise.
    fn __ror__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.reflected(Binary::Or, other)
    }

    /// Exclusive or: of bools logical, of integers bitwise.
    fn __xor__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Xor, other)
    }

    /// Exclusive or: of bools logical, of integers bitwise.
    fn __rxor__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.reflected(Binary::Xor, other)
    }
}

/// Reductions of a window.
macro_rules! reductions {
    ($($doc:literal $method:ident $op:ident;)*) => {
        #[pymethods]
        impl Expr {
            $(
                #[doc = $doc]
                fn $method(&self) -> Result<Self> {
                    apply(Op::Reduce(Reduction::$op), [self.written.clone()])
                }
            )*
        }
    };
}

reductions! {
    "Mean of a window." mean Mean;
    "Population standard deviation of a window, as NumPy's without ddof." std Std;
    "Population variance of a window." var Var;
    "Smallest value of a window; NaN if one is." min Min;
    "Largest value of a window; NaN if one is." max Max;
    "Sum of a window." sum Sum;
    "How many values of a window are not zero: of a condition, how often it holds." count Count;
    "Root of the mean square of a window." rms Rms;
    "Whether any value of a window is not zero." any Any;
    "Whether no value of a window is zero." all All;
}

#[pymethods]
impl Expr {
    /// The samples themselves: what a plan's functions are called with.
    #[staticmethod]
    fn input() -> Self {
        Written::input().into()
    }

    /// Power; an integer to the power of an integer needs a constant, which is not negative.
    fn __pow__(&self, other: &Bound<'_, PyAny>, modulo: Option<&Bound<'_, PyAny>>) -> Result<Self> {
        match modulo {
            None => self.binary(Binary::Pow, other),
            Some(_) => self.no("power modulo a number", "write (s**n) % m"),
        }
    }

    /// Power.
    fn __rpow__(
        &self,
        other: &Bound<'_, PyAny>,
        modulo: Option<&Bound<'_, PyAny>>,
    ) -> Result<Self> {
        match modulo {
            None => self.reflected(Binary::Pow, other),
            Some(_) => self.no("power modulo a number", "write (n**s) % m"),
        }
    }

    /// Less, value by value.
    fn __lt__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Lt, other)
    }

    /// Less or equal, value by value.
    fn __le__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Le, other)
    }

    /// Greater, value by value.
    fn __gt__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Gt, other)
    }

    /// Greater or equal, value by value.
    fn __ge__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Ge, other)
    }

    /// Equal, value by value.
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Eq, other)
    }

    /// Not equal, value by value.
    fn __ne__(&self, other: &Bound<'_, PyAny>) -> Result<Self> {
        self.binary(Binary::Ne, other)
    }

    /// By identity, since equality is computed later.
    fn __hash__(slf: &Bound<'_, Self>) -> isize {
        // Objects lie at multiples of 16.
        slf.as_ptr().addr().rotate_right(4).cast_signed()
    }

    /// Minus.
    fn __neg__(&self) -> Result<Self> {
        self.unary(Unary::Neg)
    }

    /// The same.
    fn __pos__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// Not: of bools logical, of integers bitwise.
    fn __invert__(&self) -> Result<Self> {
        self.unary(Unary::Invert)
    }

    /// Magnitude.
    fn __abs__(&self) -> Result<Self> {
        self.unary(Unary::Abs)
    }

    /// The nearest integer, halves to even.
    #[pyo3(signature = (ndigits=None))]
    fn __round__(&self, ndigits: Option<&Bound<'_, PyAny>>) -> Result<Self> {
        match ndigits {
            None => self.unary(Unary::Round),
            Some(_) => self.no("rounding to digits", "scale it: round(s * 100) / 100"),
        }
    }

    /// The nearest integer, halves to even.
    fn round(&self) -> Result<Self> {
        self.unary(Unary::Round)
    }

    /// Complex conjugate.
    fn conj(&self) -> Result<Self> {
        self.unary(Unary::Conj)
    }

    /// Real part.
    #[getter]
    fn real(&self) -> Result<Self> {
        self.unary(Unary::Real)
    }

    /// Imaginary part; zero for real values.
    #[getter]
    fn imag(&self) -> Result<Self> {
        self.unary(Unary::Imag)
    }

    /// Converted to another dtype. Floats beyond an integer's range give its limits, and NaN zero.
    ///
    /// Parameters:
    ///     dtype: whatever NumPy takes for one.
    fn astype(&self, dtype: &Bound<'_, PyAny>) -> Result<Self> {
        let (dtype, _) = DType::parse(&dtype_text(dtype)?)?;
        apply(Op::Cast(dtype), [self.written.clone()])
    }

    /// Not below `low` and not above `high`.
    fn clip(&self, low: &Bound<'_, PyAny>, high: &Bound<'_, PyAny>) -> Result<Self> {
        let args = [self.written.clone(), operand(low)?, operand(high)?];
        apply(Op::Clip, args)
    }

    /// `yes` where this is not zero, else `no`: NumPy's ``where(self, yes, no)``.
    #[pyo3(name = "where")]
    fn choose(&self, yes: &Bound<'_, PyAny>, no: &Bound<'_, PyAny>) -> Result<Self> {
        let args = [self.written.clone(), operand(yes)?, operand(no)?];
        apply(Op::Where, args)
    }

    /// Exponentially weighted mean over windows: ``y += alpha * (x - y)``, beginning with the first value.
    ///
    /// Parameters:
    ///     alpha: weight of the newest window, above 0, at most 1; a constant.
    fn ewm(&self, alpha: &Bound<'_, PyAny>) -> Result<Self> {
        let args = [self.written.clone(), operand(alpha)?];
        apply(Op::Memory(Memory::Ewm), args)
    }

    /// True from the window that exceeds `high` until one falls below `low`.
    fn hysteresis(&self, low: &Bound<'_, PyAny>, high: &Bound<'_, PyAny>) -> Result<Self> {
        let args = [self.written.clone(), operand(low)?, operand(high)?];
        apply(Op::Memory(Memory::Hysteresis), args)
    }

    /// The value of the window before; `first` where there is none.
    fn previous(&self, first: &Bound<'_, PyAny>) -> Result<Self> {
        let args = [self.written.clone(), operand(first)?];
        apply(Op::Memory(Memory::Previous), args)
    }

    /// How many windows so far, this one included, had a value that is not zero.
    fn counter(&self) -> Result<Self> {
        apply(Op::Memory(Memory::Counter), [self.written.clone()])
    }

    /// NumPy's functions of single values.
    #[pyo3(signature = (ufunc, method, *inputs, **kwargs))]
    fn __array_ufunc__(
        &self,
        ufunc: &Bound<'_, PyAny>,
        method: &str,
        inputs: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self> {
        let name: String = ufunc.getattr("__name__")?.extract()?;
        numpy::ufunc(&name, method, inputs, kwargs)
    }

    /// NumPy's other functions.
    fn __array_function__(
        &self,
        func: &Bound<'_, PyAny>,
        types: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: &Bound<'_, PyDict>,
    ) -> Result<Self> {
        let _ = types;
        let name: String = func.getattr("__name__")?.extract()?;
        numpy::function(&name, args, kwargs)
    }

    fn __bool__(&self) -> Result<bool> {
        self.no(
            "truth value",
            "write & | ~ for and, or, not, (a < s) & (s < b) for a < s < b, and condition.where(yes, no) for if",
        )
    }

    fn __len__(&self) -> Result<usize> {
        self.no("length", "count what you look for, as in (s > 3).count()")
    }

    fn __iter__(&self) -> Result<Py<PyAny>> {
        self.no("elements to loop over", "use reductions, as s.max()")
    }

    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> Result<Py<PyAny>> {
        let _ = key;
        self.no(
            "elements",
            "use reductions, as s.max(), or cut other windows with rewindow",
        )
    }

    fn __contains__(&self, item: &Bound<'_, PyAny>) -> Result<bool> {
        let _ = item;
        self.no("elements", "write (s == value).any()")
    }

    fn __float__(&self) -> Result<f64> {
        self.no(
            "number",
            "use NumPy's functions, as np.sqrt(s), in place of math's, and s.astype(\"float64\")",
        )
    }

    fn __int__(&self) -> Result<i64> {
        self.no("number", "write s.astype(\"int64\")")
    }

    fn __index__(&self) -> Result<i64> {
        self.no("number", "write s.astype(\"int64\")")
    }

    fn __complex__(&self) -> Result<f64> {
        self.no("number", "write s.astype(\"complex128\")")
    }

    fn __getattr__(&self, name: &str) -> Result<Py<PyAny>> {
        let message = format!(
            "{} has no {name:?}; expressions have mean std var min max sum count rms any all, astype clip where round \
             conj real imag, ewm hysteresis previous counter, operators, and NumPy's functions, as np.sqrt(s)",
            quoted(&self.written)
        );
        Err(Raised::new("TraceAttributeError", "no_such_operation", message).into())
    }

    fn __str__(&self) -> String {
        self.written.to_string()
    }

    fn __repr__(&self) -> String {
        format!("Expr({})", self.written)
    }
}
