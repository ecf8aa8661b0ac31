//! One language for queries and user functions: `(s - s.mean()) / s.std() > 3`.
//!
//! An expression is *written* (in Rust by operators on [`Expr`], in Python by tracing a lambda, or
//! read from a file), *compiled* for a dtype, and *run* over windows.
//!
//! **Written.** An [`Expr`] is a recipe without types: a graph of [`Op`]s whose shared parts are
//! one node ([`Graph`]). It prints as the Python that it stands for, compares equal to what was
//! written alike, and is saved as JSON with stable names.
//!
//! **Compiled.** [`Program::compile`] types the recipe with NumPy's rules (NEP 50; numbers without
//! a dtype take that of what they meet), writes out conversions, computes constants, and finds for
//! each value whether it belongs to a sample, to a window or to nobody ([`Shape`]). Where NumPy
//! would give a dtype that signals cannot have, the error says what to convert first. Then it
//! plans *stages*: values of windows are computed as columns over many windows, and one pass over
//! the samples of each window computes all that the stage's reductions, or the result, need.
//!
//! A comparison whose samples' side is a monotone chain becomes a comparison of stored samples with
//! thresholds that are found once a window (`program/threshold.rs`), with the same bits.
//!
//! Expressions of the fields of rows ([`Expr::field`]) are compiled by [`RowProgram`], with the same types and loops.
//!
//! **Run.** The interpreter hands blocks of some 1,000 samples, which stay in the first-level cache, from
//! loop to loop. Arithmetic, comparisons and choices on floats are chains, packed two by two into loops over
//! vectors (`kernels/chain.rs`); anything else has a loop for each operation. Loops are compiled for
//! several instruction sets and called once a block. [`Scratch`]
//! holds all memory, so that running allocates nothing; [`State`] holds what is remembered from
//! window to window, and is the engine's to reset at breaks.
//!
//! Invariants:
//! - nodes stand after their arguments, in [`Graph`] and in what becomes of it;
//! - a loop never writes to the register that it reads;
//! - whatever the CPU, and however samples are cut into blocks and windows into runs, the same
//!   samples give the same bits: sums have fixed lanes that start at the window's first sample, nothing is
//!   contracted to a fused multiply-add, and no function of the platform's C library is called
//!   whose last bit may vary;
//! - constants are folded by loops that give the same bits as those over samples.
//!
//! Where results differ from NumPy's: sums are added in f64 in another order; logarithms, exponentials and
//! angles may differ in the last place (`isochrony_dsp::math` has the bounds); powers up to the eighth are products; floats converted to
//! integers saturate where NumPy leaves the result open; complex numbers have no functions beyond
//! arithmetic, magnitude, angle and order.

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
