//! Warns of changes lost because a store was dropped, or the program ended, without a commit.
//!
//! Only stores that were never closed are reported, once each.

use std::ffi::CString;

use isochrony_store::Store;
use pyo3::prelude::*;

/// Maximum names in a message.
const MAX_NAMES: usize = 3;

/// The changes lost if the store is dropped now, if any.
pub(crate) fn message(store: &Store) -> Option<String> {
    if store.is_closed() || !store.is_writable() || !store.has_pending() {
        return None;
    }
    let signals = store.pending_signals();
    let samples: i64 = signals.iter().map(|(_, samples)| samples).sum();
    let what = match (samples, signals.len()) {
        (0, 0) => "changes".to_owned(),
        (0, n) => format!("changes of {}", count(n as i64, "signal")),
        (samples, n) => format!(
            "{} of {}",
            count(samples, "sample"),
            count(n as i64, "signal")
        ),
    };
    let mut names: Vec<&str> = signals
        .iter()
        .map(|(name, _)| name.as_str())
        .take(MAX_NAMES)
        .collect();
    if signals.len() > MAX_NAMES {
        names.push("...");
    }
    let names = match names.is_empty() {
        true => String::new(),
        false => format!(" ({})", names.join(", ")),
    };
    Some(format!(
        "{}: {what}{names} were not committed and are lost; call store.commit() or store.close(), or open the store in \
         a with block",
        store.path().display()
    ))
}

fn count(n: i64, what: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {what}{plural}")
}

/// Emits the warning; an exception in flight is preserved. If a filter turns it into an error, that is printed, since
/// nobody could catch it.
pub(crate) fn warn(py: Python<'_>, message: &str) {
    let raised = PyErr::take(py);
    let emit = || -> PyResult<()> {
        let category = py
            .import("isochrony.errors")?
            .getattr("UncommittedWarning")?;
        let message = CString::new(message.replace('\0', "?"))?;
        PyErr::warn(py, &category, &message, 1)
    };
    if let Err(error) = emit() {
        error.write_unraisable(py, None);
    }
    if let Some(raised) = raised {
        raised.restore(py);
    }
}
