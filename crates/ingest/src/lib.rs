//! Isochrony: ingest.
