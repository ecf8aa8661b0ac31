//! The writer of a signal.

use isochrony_store::{Scratch, SignalWriter};

pub(crate) enum Writer {
    /// The store is open for reading.
    None,
    Stored(SignalWriter),
    /// Lives as long as the Python object.
    Scratch(Scratch),
}
