//! Runs a user's subclass of `isochrony.Operator` as a plan operator, with all that it may declare: lag, alignment,
//! breaks, several outputs.
//!
//! The Python half is `isochrony.functions.operators`: `Operator`, the base class, and `OperatorInstance`, one instance
//! of it during an execution.

mod blocks;
mod declaration;
mod emission;
mod factory;
mod instance;
mod running_instance;

pub(super) use declaration::ClassOperator;
