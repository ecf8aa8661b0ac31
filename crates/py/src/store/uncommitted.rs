//! Warns of changes lost as a store was dropped, or the program ended, without a commit.
//!
//! Reports each store once, unless it was closed.

use std::ffi::CString;

use isochrony_store::Store;
use pyo3::prelude::*;

const MAX_NAMES: usize = 3;

/// The changes lost if the store is dropped now.
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

/// Preserves an exception in flight. If a filter turns the warning into an error, that is printed: nobody could catch
/// it.
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
