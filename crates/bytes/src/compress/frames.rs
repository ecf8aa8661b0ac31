//! Compression of each buffer to a frame of its own.

use crate::processor::{JoinOutcome, Needs, Output, Piece, Processor};
use crate::{BytesError, Outcome, Sizes};

/// A format whose frames can be concatenated.
pub(super) trait Format: Send + Sync + 'static {
    const NAME: &'static str;
    /// A compressor, reused for every frame.
    type Context: Send + 'static;

    fn context(&self) -> Self::Context;
    fn context_bytes(&self, buffer: usize) -> usize;
    fn bound(bytes: usize) -> usize;
    /// Appends a frame to `out`, which has room. Err: the library's message.
    fn compress(context: &mut Self::Context, bytes: &[u8], out: &mut Vec<u8>)
    -> Result<(), String>;
}

pub(super) struct Frames<F>(pub(super) F);

impl<F: Format> Frames<F> {
    fn frame(
        context: &mut F::Context,
        piece: Piece<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), BytesError> {
        out.clear();
        out.reserve_exact(F::bound(piece.bytes.len()));
        F::compress(context, piece.bytes, out).map_err(|reason| BytesError::Compress {
            processor: F::NAME,
            offset: piece.offset,
            reason,
        })
    }
}

impl<F: Format> Processor for Frames<F> {
    type Part = F::Context;
    type State = Sizes;

    fn needs(&self) -> Needs {
        Needs {
            scan: true,
            output: true,
            frames: true,
            ..Needs::default()
        }
    }

    fn part_bytes(&self, buffer: usize) -> usize {
        F::bound(buffer).saturating_add(self.0.context_bytes(buffer))
    }

    fn state_bytes(&self) -> usize {
        size_of::<Sizes>()
    }

    fn part(&self) -> F::Context {
        self.0.context()
    }

    fn state(&self) -> Sizes {
        Sizes::default()
    }

    fn scan(
        &self,
        piece: Piece<'_>,
        _first: bool,
        context: &mut F::Context,
        out: &mut Output,
    ) -> Result<(), BytesError> {
        if piece.bytes.is_empty() {
            return Ok(());
        }
        Self::frame(context, piece, &mut out.body)
    }

    fn join(
        &self,
        piece: Piece<'_>,
        _context: &mut F::Context,
        sizes: &mut Sizes,
        out: &mut Output,
    ) -> Result<JoinOutcome, BytesError> {
        sizes.bytes_in = piece.end();
        sizes.bytes_out += out.body.len() as u64;
        Ok(JoinOutcome::Done)
    }

    fn finish(&self, sizes: &mut Sizes, out: &mut Vec<u8>) -> Result<Outcome, BytesError> {
        if sizes.bytes_in == 0 {
            // Decoders reject an empty stream.
            let nothing = Piece {
                offset: 0,
                bytes: &[],
            };
            Self::frame(&mut self.0.context(), nothing, out)?;
            sizes.bytes_out = out.len() as u64;
        }
        Ok(Outcome::Sizes(*sizes))
    }
}
