//! Isochrony: time.
