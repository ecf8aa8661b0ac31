//! Memory that crosses between Rust and Python without a copy: the only unsafe code of this crate.
//!
//! Outwards, a NumPy array (or an Arrow array) looks into a [`Buffer`] and holds a counted reference to it, so
//! the view outlives store, signal and segment. Such arrays are read-only: the bytes are shared with every other
//! holder. Inwards, a [`Buffer`] looks into an array and holds a reference to the Python object.
#![allow(unsafe_code)] // Raw pointers are what NumPy's and Arrow's C interfaces consist of.

mod array;
mod arrow;
mod compiled;
mod fillable;
mod lender;
mod returned;
mod slice;
mod table;

pub(crate) use array::{adopt, gathered, own, view};
pub(crate) use arrow::{export as arrow_export, import as arrow_import};
pub(crate) use compiled::Compiled;
pub(crate) use fillable::{FillableArray, take_memory};
pub(crate) use lender::{ArrayLender, Block, call};
pub(crate) use returned::{ReturnedArray, references};
pub(crate) use slice::slice;
pub(crate) use table::{column, schema_capsule, stream_capsule};
