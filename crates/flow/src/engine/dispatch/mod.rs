//! Carries items and marks depth first through the operators after a source.
//!
//! | file | what it carries |
//! |---|---|
//! | `drive` | items along chains, the inner loop |
//! | `marks` | breaks, progress, rewinds and ends |
//! | `fan_in_calls` | matched items of several inputs into their operator |
//! | `out` | what an operator emits |
//!
//! Depth-first execution is one mutual recursion, so these files import each other; avoiding that would cost an
//! indirect call or a queue. Each call reaches only later slots, so it ends. The depth is that of fan-outs and fan-ins,
//! since chains are loops.

mod drive;
mod fan_in_calls;
mod marks;
mod out;

pub(crate) use drive::is_operator_error;
pub(super) use drive::{drive, fan_out, skip_to, split_at_node};
pub(super) use marks::{broadcast_mark, end_task, renew_progress};
pub use out::Out;
