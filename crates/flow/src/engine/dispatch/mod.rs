//! Carries items and marks depth first through the operators behind a source.
//!
//! | file | what it carries |
//! |---|---|
//! | `drive` | items along chains, the inner loop |
//! | `marks` | breaks, progress, rewinds and ends |
//! | `fan_in_calls` | matched items of several inputs into their operator |
//! | `out` | what an operator emits |
//!
//! These files import each other because depth-first execution is one mutual recursion: an item completes a match at
//! a fan-in, whose operator emits into the loop again, and a mark releases waiting items. Without the cycle the inner
//! loop would need an indirect call, or a queue of pending calls, which is not depth first. The recursion ends, since
//! each call reaches only slots behind its own. It is as deep as the plan has fan-outs and fan-ins: chains are loops.

mod drive;
mod fan_in_calls;
mod marks;
mod out;

pub(crate) use drive::is_operator_error;
pub(super) use drive::{drive, fan_out, skip_to, split_at_node};
pub(super) use marks::{broadcast_mark, end_task, renew_progress};
pub use out::Out;
