//! Operators that are Python classes, with the full operator contract.
//!
//! `isochrony.functions.operators` documents the class; its `Running` is an instance during a run.

mod blocks;
mod declaration;
mod emission;
mod factory;
mod instance;
mod running_instance;

pub(super) use declaration::ClassOperator;
