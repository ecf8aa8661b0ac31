//! What can be done to a stream of bytes, buffer by buffer; knows neither threads nor files.
//!
//! A [`Chain`] is one or more processors over the same bytes in one pass. The stream may be cut into buffers anywhere: through samples, through
//! matches, through anything. For each buffer whoever runs the chain calls
//! - [`Chain::scan`], in any worker and any order, with a [`Part`] of its own: the work that needs no other buffer;
//! - [`Chain::join`], once and in stream order, with the same bytes and that part: what needs the bytes before. This is little where parts can
//!   be joined (checksums, BLAKE3, statistics, search), and all the work where they cannot (MD5, SHA-2, xxh3).
//!
//! Results depend on the stream alone, to the last bit: not on where it was cut and not on who scanned what. (Compressed
//! output is cut into frames as the stream was into buffers; what it decompresses to is the same.)
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
mod tree;

pub use chain::{Chain, Part, State};
pub use error::BytesError;
pub use outcome::{Digest, Matches, Outcome, PatternCount, Sizes, Statistics, Value};
pub use processor::{AnyProcessor, BLOCK, Joined, Needs, Output, Piece, Processor};
