//! Processors of byte streams, buffer by buffer. Knows neither threads nor files.
//!
//! A [`Chain`] runs processors over the same bytes in one pass. The stream may be cut into buffers anywhere, also
//! within samples and matches. For each buffer the caller calls
//! - [`Chain::scan`], in any worker and any order, with a [`Part`] of its own: the work that needs no other buffer;
//! - [`Chain::join`], once and in stream order, with the same bytes and part: the rest, which is short for checksums,
//!   BLAKE3, statistics and searches, and all of the work for MD5, SHA-2 and XXH3.
//!
//! Results depend on the stream alone, bit for bit. Compressed output has a frame per buffer, but always decompresses
//! to the stream.
//!
//! ```
//! use isochrony_bytes::{Chain, Outcome, Piece};
//!
//! let chain = Chain::parse(&["stats:<i2", "sha256"])?;
//! let (mut part, mut state) = (chain.part(), chain.state());
//! let mut offset = 0;
//! for bytes in [&b"ab"[..], b"c"] {
//!     let piece = Piece { offset, bytes };
//!     chain.scan(piece, &mut part)?;
//!     chain.join(piece, &mut part, &mut state)?;
//!     offset += bytes.len() as u64;
//! }
//! // Three bytes are no whole number of 16-bit samples.
//! assert_eq!(chain.finish(&mut state).unwrap_err().code(), "partial_sample");
//!
//! let chain = Chain::parse(&["sha256"])?;
//! let Outcome::Digest(digest) = &chain.run(b"abc")?[0] else { unreachable!() };
//! assert!(digest.hex().starts_with("ba7816bf8f01cfea"));
//! # Ok::<(), isochrony_bytes::BytesError>(())
//! ```

mod chain;
pub mod compress;
pub mod convert;
pub mod digest;
mod error;
mod outcome;
mod processor;
mod samples;
pub mod search;
mod spec;
pub mod stats;

pub use chain::{Chain, Part, State};
pub use error::BytesError;
pub use outcome::{Digest, Matches, Outcome, PatternCount, Sizes, Statistics, Value};
pub use processor::{AnyProcessor, BLOCK, JoinOutcome, Needs, Output, Piece, Processor};
