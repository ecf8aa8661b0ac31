//! Carries items and marks depth first through the operators behind a source.
//!
//! | file | what it carries |
//! |---|---|
//! | `drive` | items along chains, the inner loop |
//! | `marks` | breaks, progress, rewinds and ends |
//! | `fan_in_calls` | matched items of several inputs into their operator |
//! | `out` | what an operator emits |
//!
//! These four files import each other on purpose: depth-first execution is one mutual recursion. An item that reaches a fan-in
//! completes a match; the operator that is called with it emits into the loop again; and a mark releases items that waited.
//! The recursion is bounded by the number of fan-outs and fan-ins in a plan, because chains are loops, and ends because each
//! call reaches only slots behind its own. Nothing else in the engine belongs to the cycle.

mod drive;
mod fan_in_calls;
mod marks;
mod out;

pub(super) use drive::{drive, fan_out, is_operator_error, split_at_node};
pub(super) use marks::{broadcast_mark, end_task};
pub use out::Out;
