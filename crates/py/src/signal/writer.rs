//! The writer of a signal.

use isochrony_store::{Scratch, SignalWriter};

/// The writer of a signal, if it has one.
pub(crate) enum Writer {
    /// The store is open for reading.
    None,
    /// A signal of a store.
    Stored(SignalWriter),
    /// A scratch signal, which lives as long as the Python object.
    Scratch(Scratch),
}
