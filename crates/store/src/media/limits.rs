//! Size limits per kind of small file: a longer one is damage and not read into memory. One within the limit is read
//! only if enough memory is free ([`Media::read`](super::Media::read)).

/// MANIFEST, LOCK, identity files: a line or two of text.
pub const LINE: u64 = 4096;
/// `zarr.json` and records of views: metadata and user attributes.
pub const METADATA: u64 = 64 << 20;
/// The redo log, folded at 64 MiB; one commit of very many changes may exceed that.
pub const LOG: u64 = 4 << 30;
/// A table of gaps, runs, stamps or events.
pub const TABLE: u64 = 16 << 30;
