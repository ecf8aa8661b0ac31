//! Isochrony: isochrony.
