//! A signal that an execution reads and does not write.

use std::sync::{Mutex, PoisonError};

use isochrony_store::{Signal, StoreError};

/// A signal handle that all its readers share, so that a change in the store is loaded once and not once per reader.
pub(crate) struct SharedSignal(Mutex<Signal>);

impl SharedSignal {
    pub(crate) fn new(signal: Signal) -> Self {
        Self(Mutex::new(signal))
    }

    /// The signal as it was last loaded.
    pub(crate) fn cached(&self) -> Signal {
        (self.0.lock().unwrap_or_else(PoisonError::into_inner)).clone()
    }

    /// The signal in its current state. Loads it only if the store changed.
    pub(crate) fn refreshed(&self) -> Result<Signal, StoreError> {
        let mut signal = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        signal.refresh_if_moved()?;
        Ok(signal.clone())
    }
}
