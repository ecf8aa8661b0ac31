//! A signal that an execution only reads.

use std::sync::{Mutex, PoisonError};

use isochrony_store::{Signal, StoreError};

/// Shared by all readers, so a change in the store is loaded once.
pub(crate) struct SharedSignal(Mutex<Signal>);

impl SharedSignal {
    pub(crate) fn new(signal: Signal) -> Self {
        Self(Mutex::new(signal))
    }

    pub(crate) fn cached(&self) -> Signal {
        (self.0.lock().unwrap_or_else(PoisonError::into_inner)).clone()
    }

    /// Reloads the signal if the store has changed.
    pub(crate) fn refreshed(&self) -> Result<Signal, StoreError> {
        let mut signal = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        signal.refresh_if_moved()?;
        Ok(signal.clone())
    }
}
