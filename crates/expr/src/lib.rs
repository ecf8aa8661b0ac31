//! Expressions for queries and user functions: `(s - s.mean()) / s.std() > 3`.
//!
//! An expression is *written* (by operators on [`Expr`], by tracing a Python lambda, or in a file), *compiled* for a
//! dtype, and *run* over windows.
//!
//! **Written.** An [`Expr`] is an untyped graph of [`Op`]s with shared parts ([`Graph`]). It prints as Python, compares
//! structurally, and is saved as JSON with stable names.
//!
//! **Compiled.** [`Program::compile`] types it by NumPy's rules (NEP 50), inserts conversions, folds constants, and
//! finds whether a value is per sample, per window or constant ([`Shape`]). The plan has *stages*: window values are
//! computed as columns over many windows, then one pass over each window's samples computes what the stage's
//! reductions, or the result, need.
//!
//! Comparisons of a monotonic chain become comparisons of stored samples with a threshold, found once per window
//! (`program/threshold.rs`), with the same bits.
//!
//! [`RowProgram`] compiles expressions of row fields ([`Expr::field`]), with the same types and loops.
//!
//! **Run.** An interpreter passes blocks of about 1,000 samples, in the L1 cache, from loop to loop. Float arithmetic,
//! comparisons and selections form chains, packed in pairs into vector loops (`kernels/chain.rs`); other operations
//! have a loop each. [`Scratch`] holds all memory, so running does not allocate; [`State`] persists between windows,
//! and the engine resets it at breaks.
//!
//! Invariants:
//! - nodes come after their arguments, in [`Graph`] and everything derived from it;
//! - a loop never writes to a register that it reads;
//! - the same samples give the same bits on any CPU, for any blocks and runs: sums have fixed lanes, without fused
//!   multiply-add or C library functions whose last bit may vary;
//! - constants are folded by the loops for samples.
//!
//! Differences from NumPy: sums are in f64, in another order; logarithms, exponentials and angles may differ in the
//! last place (bounds in `isochrony_dsp::math`); powers up to the eighth are products; conversions from float to
//! integer saturate; complex numbers support arithmetic, magnitude, angle and order only.

mod display;
mod error;
mod expr;
mod field;
mod graph;
mod kernels;
mod lower;
mod op;
mod program;
mod promote;
mod recipe;
mod reduce;
mod rows;
mod scalar;
mod shape;
mod widen;

pub use error::ExprError;
pub use expr::Expr;
pub use field::Name;
pub use graph::{Graph, Node};
pub use isochrony_dsp::Isa;
pub use op::{Binary, Memory, Op, Reduction, Unary, Wrapping};
pub use program::{Frames, Input, Program, Scratch, State};
pub use rows::{RowField, RowProgram};
pub use scalar::Scalar;
pub use shape::{Shape, Type};
