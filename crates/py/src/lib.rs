//! Isochrony: py.
