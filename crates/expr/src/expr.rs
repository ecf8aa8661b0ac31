//! Construction of expressions, by operators and methods.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use isochrony_segment::DType;
use smallvec::SmallVec;

use crate::{Binary, ExprError, Graph, Memory, Name, Op, Reduction, Scalar, Unary};

mod operators;

/// An untyped expression of samples.
///
/// Built from [`Expr::input`] by operators and by methods with NumPy's names; Python's `//`, `**` and comparisons are
/// methods. Cloning is cheap, shared parts are computed once, equality is structural.
///
/// ```
/// use isochrony_expr::Expr;
/// let s = Expr::input();
/// let loud = ((&s - s.mean()) / s.std()).gt(3);
/// assert_eq!(loud.to_string(), "(s - s.mean()) / s.std() > 3");
/// ```
#[derive(Clone)]
pub struct Expr(Arc<ExprNode>);

struct ExprNode {
    op: Op,
    args: SmallVec<[Expr; 3]>,
}

impl Drop for ExprNode {
    /// Iterative, since expressions may be deep.
    fn drop(&mut self) {
        let mut left: Vec<Expr> = self.args.drain(..).collect();
        while let Some(Expr(written)) = left.pop() {
            if let Some(mut written) = Arc::into_inner(written) {
                left.extend(written.args.drain(..));
            }
        }
    }
}

macro_rules! methods {
    ($variant:ident: $($(#[$doc:meta])* $method:ident => $op:expr;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $method(&self) -> Self {
            self.with(Op::$variant($op), [])
        }
    )*};
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $method:ident => $op:ident;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $method(&self, other: impl Into<Self>) -> Self {
            self.with(Op::Binary(Binary::$op), [other.into()])
        }
    )*};
}

impl Expr {
    /// The samples of a window, or of a contiguous range without windows.
    #[must_use]
    pub fn input() -> Self {
        Self::input_at(0)
    }

    /// The samples of an input, from 0; see [`Program::compile_inputs`](crate::Program::compile_inputs).
    #[must_use]
    pub fn input_at(place: u8) -> Self {
        Self::written(Op::Input(place), SmallVec::new())
    }

    /// A field of rows, for [`RowProgram`](crate::RowProgram).
    #[must_use]
    pub fn field(name: &str) -> Self {
        Self::written(Op::Field(Name::new(name)), SmallVec::new())
    }

    /// A number that takes the dtype of its operand, like Python's.
    #[must_use]
    pub fn constant(value: impl Into<Scalar>) -> Self {
        Self::written(Op::Constant(value.into(), None), SmallVec::new())
    }

    /// A number with its own dtype, like NumPy's scalars.
    #[must_use]
    pub fn typed(value: impl Into<Scalar>, dtype: DType) -> Self {
        Self::written(Op::Constant(value.into(), Some(dtype)), SmallVec::new())
    }

    /// Any operation, for other languages.
    ///
    /// # Errors
    /// [`ExprError::ArgumentCount`]; [`crate::Program::compile`] checks types.
    pub fn apply(op: Op, args: impl IntoIterator<Item = Self>) -> Result<Self, ExprError> {
        let args: SmallVec<[Self; 3]> = args.into_iter().collect();
        if args.len() != op.arguments() {
            return Err(ExprError::ArgumentCount {
                node: 0,
                op: op.name(),
                expected: op.arguments(),
                got: args.len(),
            });
        }
        Ok(Self::written(op, args))
    }

    fn written(op: Op, args: SmallVec<[Self; 3]>) -> Self {
        Self(Arc::new(ExprNode { op, args }))
    }

    fn with<const N: usize>(&self, op: Op, others: [Self; N]) -> Self {
        let mut args = SmallVec::new();
        args.push(self.clone());
        args.extend(others);
        Self::written(op, args)
    }

    /// Flattens the expression.
    #[must_use]
    pub fn graph(&self) -> Graph {
        self.graph_with(|op| op)
    }

    fn graph_with(&self, replace: impl Fn(Op) -> Op) -> Graph {
        Graph::walk(
            self.clone(),
            |expr| Arc::as_ptr(&expr.0),
            |expr| (replace(expr.0.op), expr.0.args.clone()),
        )
    }

    methods! { Unary:
        /// Magnitude; real for complex samples.
        abs => Unary::Abs;
        /// Square root.
        sqrt => Unary::Sqrt;
        /// Exponential.
        exp => Unary::Exp;
        /// Exponential less one, accurate near zero.
        expm1 => Unary::Expm1;
        /// Natural logarithm.
        log => Unary::Log;
        /// Natural logarithm of `1 + x`, accurate near zero.
        log1p => Unary::Log1p;
        /// Logarithm to base two.
        log2 => Unary::Log2;
        /// Logarithm to base ten.
        log10 => Unary::Log10;
        /// Sine of radians.
        sin => Unary::Sin;
        /// Cosine of radians.
        cos => Unary::Cos;
        /// Tangent of radians.
        tan => Unary::Tan;
        /// Hyperbolic tangent.
        tanh => Unary::Tanh;
        /// Rounds down.
        floor => Unary::Floor;
        /// Rounds up.
        ceil => Unary::Ceil;
        /// Rounds towards zero.
        trunc => Unary::Trunc;
        /// Nearest integer, halves to even.
        round => Unary::Round;
        /// Whether a value is NaN.
        isnan => Unary::IsNan;
        /// Whether a value is finite.
        isfinite => Unary::IsFinite;
        /// Real part.
        real => Unary::Real;
        /// Imaginary part.
        imag => Unary::Imag;
        /// Complex conjugate.
        conj => Unary::Conj;
        /// Argument of a complex number, in radians.
        angle => Unary::Angle;
    }

    methods! { Reduce:
        /// Mean of a window.
        mean => Reduction::Mean;
        /// Population standard deviation of a window.
        std => Reduction::Std;
        /// Population variance of a window.
        var => Reduction::Var;
        /// Smallest sample of a window.
        min => Reduction::Min;
        /// Largest sample of a window.
        max => Reduction::Max;
        /// Sum of a window.
        sum => Reduction::Sum;
        /// Number of non-zero samples of a window.
        count => Reduction::Count;
        /// Root mean square of a window.
        rms => Reduction::Rms;
        /// Whether any sample of a window is non-zero.
        any => Reduction::Any;
        /// Whether all samples of a window are non-zero.
        all => Reduction::All;
    }

    methods! { Memory:
        /// Number of windows so far with a non-zero value.
        counter => Memory::Counter;
    }

    /// Largest magnitude of a window.
    #[must_use]
    pub fn abs_max(&self) -> Self {
        self.abs().max()
    }

    binary_methods! {
        /// Quotient rounded down: Python's `//`.
        floordiv => FloorDiv;
        /// Remainder with the sign of the dividend, as in C.
        fmod => Fmod;
        /// Power: Python's `**`.
        pow => Pow;
        /// Less: Python's `<`.
        lt => Lt;
        /// Less or equal: Python's `<=`.
        le => Le;
        /// Greater: Python's `>`.
        gt => Gt;
        /// Greater or equal: Python's `>=`.
        ge => Ge;
        /// Equal, elementwise: Python's `==`.
        equal => Eq;
        /// Not equal, elementwise: Python's `!=`.
        not_equal => Ne;
        /// Angle of the point (`other`, `self`), in radians.
        arctan2 => Arctan2;
        /// Length of the vector (`self`, `other`).
        hypot => Hypot;
        /// Minimum of two; NaN if one is.
        minimum => Minimum;
        /// Maximum of two; NaN if one is.
        maximum => Maximum;
    }

    /// Makes integer arithmetic wrap in the operands' common dtype, as in NumPy.
    ///
    /// Otherwise `+`, `-`, `*`, `//`, `**`, minus and `abs` of integers return a dtype that holds every result (int64
    /// at most).
    ///
    /// ```
    /// use isochrony_expr::{Expr, Program};
    /// use isochrony_segment::DType;
    /// let sum = Expr::input() + Expr::input();
    /// assert_eq!(Program::compile(&sum, DType::I16)?.output().dtype, DType::I32);
    /// assert_eq!(Program::compile(&sum.wrapping(), DType::I16)?.output().dtype, DType::I16);
    /// # Ok::<(), isochrony_expr::ExprError>(())
    /// ```
    #[must_use]
    pub fn wrapping(&self) -> Self {
        Self::from(&self.graph_with(Op::wrapping))
    }

    /// Converted to another dtype.
    #[must_use]
    pub fn astype(&self, dtype: DType) -> Self {
        self.with(Op::Cast(dtype), [])
    }

    /// Clamps to `low` and `high`.
    #[must_use]
    pub fn clip(&self, low: impl Into<Self>, high: impl Into<Self>) -> Self {
        self.with(Op::Clip, [low.into(), high.into()])
    }

    /// `yes` where this is non-zero, else `no`: NumPy's `where(self, yes, no)`.
    #[must_use]
    pub fn select(&self, yes: impl Into<Self>, no: impl Into<Self>) -> Self {
        self.with(Op::Where, [yes.into(), no.into()])
    }

    /// Exponentially weighted mean over windows, with weight `alpha` in (0, 1] for the newest.
    #[must_use]
    pub fn ewm(&self, alpha: impl Into<Self>) -> Self {
        self.with(Op::Memory(Memory::Ewm), [alpha.into()])
    }

    /// True from the window that exceeds `high` until one falls below `low`.
    #[must_use]
    pub fn hysteresis(&self, low: impl Into<Self>, high: impl Into<Self>) -> Self {
        self.with(Op::Memory(Memory::Hysteresis), [low.into(), high.into()])
    }

    /// Value of the previous window; `first` for the first.
    #[must_use]
    pub fn previous(&self, first: impl Into<Self>) -> Self {
        self.with(Op::Memory(Memory::Previous), [first.into()])
    }
}

impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.graph() == other.graph()
    }
}

impl Eq for Expr {}

impl Hash for Expr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.graph().hash(state);
    }
}

impl From<&Expr> for Expr {
    fn from(expr: &Expr) -> Self {
        expr.clone()
    }
}

impl From<Scalar> for Expr {
    fn from(value: Scalar) -> Self {
        Self::constant(value)
    }
}

impl From<&Graph> for Expr {
    fn from(graph: &Graph) -> Self {
        let mut built: Vec<Self> = Vec::with_capacity(graph.nodes().len());
        for node in graph.nodes() {
            let args = node.args().iter().map(|&at| built[at].clone()).collect();
            built.push(Self::written(node.op(), args));
        }
        built.swap_remove(graph.root())
    }
}
