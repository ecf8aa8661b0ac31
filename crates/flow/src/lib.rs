//! Isochrony: flow.
