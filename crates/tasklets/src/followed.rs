//! Signals that a run reads and does not write.

use std::sync::{Mutex, PoisonError};

use isochrony_store::{Signal, StoreError};

/// A signal that all who read it through one handle follow together: it is loaded again only if something changed.
pub(crate) struct Followed(Mutex<Signal>);

impl Followed {
    pub(crate) fn new(signal: Signal) -> Self {
        Self(Mutex::new(signal))
    }

    /// As it was last.
    pub(crate) fn last(&self) -> Signal {
        (self.0.lock().unwrap_or_else(PoisonError::into_inner)).clone()
    }

    /// As it is now.
    pub(crate) fn now(&self) -> Result<Signal, StoreError> {
        let mut signal = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        signal.refresh_if_moved()?;
        Ok(signal.clone())
    }
}
