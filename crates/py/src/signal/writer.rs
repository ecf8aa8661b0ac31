//! How a signal is changed, if it can be.

use isochrony_store::{Scratch, SignalWriter};

/// What changes a signal.
pub(crate) enum Writer {
    /// The store is open for reading.
    None,
    /// A signal of a store.
    Stored(SignalWriter),
    /// A temporary signal; held so that it lives as long as the Python object.
    Scratch(Scratch),
}
