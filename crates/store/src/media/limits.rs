//! The most bytes that each kind of small file has: more is damage, and is not read into memory. A file below its limit
//! is read only if this machine has as much free memory ([`Media::read`](super::Media::read)).

/// MANIFEST, LOCK and identity files: a line or two of text.
pub const LINE: u64 = 4096;
/// `zarr.json` and the records of views: metadata and user attributes.
pub const METADATA: u64 = 64 << 20;
/// The redo log, which is folded at 64 MiB; one commit of very many changes may exceed that.
pub const LOG: u64 = 4 << 30;
/// A table: it grows with a signal's gaps, runs, stamps or events.
pub const TABLE: u64 = 16 << 30;
