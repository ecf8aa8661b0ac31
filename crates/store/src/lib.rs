//! Isochrony: store.
