//! Zero-copy memory between Rust and Python.
//!
//! A NumPy or Arrow array over a [`Buffer`] refers to it, so it outlives store, signal and segment; it is read-only,
//! since bytes are shared. Vice versa, a [`Buffer`] over an array refers to the Python object.
#![allow(unsafe_code)] // Raw pointers are what NumPy's and Arrow's C interfaces consist of.

mod array;
mod arrow;
mod compiled_function;
mod fillable;
mod lender;
mod output;
mod returned_array;
mod slice;
mod table;

pub(crate) use array::{adopt, gathered, own, view};
pub(crate) use arrow::{export as arrow_export, import as arrow_import};
pub(crate) use compiled_function::CompiledFunction;
pub(crate) use fillable::{FillableArray, take_memory};
pub(crate) use lender::{ArrayLender, Block, call};
pub(crate) use output::OutputArray;
pub(crate) use returned_array::{ReturnedArray, references};
pub(crate) use slice::slice;
pub(crate) use table::{column, schema_capsule, stream_capsule};
