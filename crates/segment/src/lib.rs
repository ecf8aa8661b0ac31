//! Isochrony: segment.
