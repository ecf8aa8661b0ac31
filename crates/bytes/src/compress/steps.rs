//! Decompression, a step of output at a time.

use super::STEP;
use crate::processor::{Joined, Needs, Output, Piece, Processor};
use crate::{BytesError, Outcome, Sizes};

/// A decoder of frames that follow one another.
pub(super) trait Decoder: Sized + Send + 'static {
    const NAME: &'static str;
    /// How it decodes.
    type Options: Copy + Send + Sync + 'static;

    /// Bytes of a decoder, at most.
    fn bytes(options: Self::Options) -> usize;

    /// A decoder before the first frame; or why there is none.
    fn open(options: Self::Options) -> Result<Self, String>;

    /// Takes what it can and fills what `out` has room for; never makes it grow. Says how much it took, and whether it is inside a frame. Or says what is wrong.
    fn step(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(usize, bool), String>;
}

pub(super) struct Steps<D: Decoder>(pub(super) D::Options);

pub(super) struct State<D> {
    /// Or why there is none: told with the first bytes.
    decoder: Result<D, String>,
    sizes: Sizes,
    /// Bytes of the current piece that were taken.
    taken: usize,
    /// Whether a frame has begun and not ended.
    inside: bool,
}

impl<D: Decoder> Processor for Steps<D> {
    type Part = ();
    type State = State<D>;

    fn needs(&self) -> Needs {
        Needs {
            ordered: true,
            output: true,
            again: true,
            ..Needs::default()
        }
    }

    fn part_bytes(&self, _buffer: usize) -> usize {
        STEP
    }

    fn state_bytes(&self) -> usize {
        size_of::<State<D>>() + D::bytes(self.0)
    }

    fn part(&self) {}

    fn state(&self) -> State<D> {
        State {
            decoder: D::open(self.0),
            sizes: Sizes::default(),
            taken: 0,
            inside: false,
        }
    }

    fn scan(
        &self,
        _piece: Piece<'_>,
        _first: bool,
        _part: &mut (),
        _out: &mut Output,
    ) -> Result<(), BytesError> {
        Ok(())
    }

    fn join(
        &self,
        piece: Piece<'_>,
        _part: &mut (),
        state: &mut State<D>,
        out: &mut Output,
    ) -> Result<Joined, BytesError> {
        out.clear();
        let out = &mut out.body;
        out.reserve_exact(STEP);
        let corrupt = |taken: usize, reason: String| BytesError::Corrupt {
            processor: D::NAME,
            offset: piece.offset + taken as u64,
            reason,
        };
        let decoder = match &mut state.decoder {
            Ok(decoder) => decoder,
            Err(reason) => return Err(corrupt(0, reason.clone())),
        };
        // With the input used up, a frame may still hold output for which there was no room.
        while out.len() < out.capacity() && (state.taken < piece.bytes.len() || state.inside) {
            let filled = out.len();
            let (taken, inside) = decoder
                .step(&piece.bytes[state.taken..], out)
                .map_err(|reason| corrupt(state.taken, reason))?;
            state.inside = inside;
            state.taken += taken;
            if taken == 0 && out.len() == filled {
                break;
            }
        }
        state.sizes.bytes_out += out.len() as u64;
        let more = state.inside || state.taken < piece.bytes.len();
        if more && out.len() == out.capacity() {
            return Ok(Joined::Again);
        }
        state.taken = 0;
        state.sizes.bytes_in = piece.end();
        Ok(Joined::Done)
    }

    fn finish(&self, state: &mut State<D>, _out: &mut Vec<u8>) -> Result<Outcome, BytesError> {
        // Nothing is a frame, too, when it is compressed: no bytes at all are what is left of a stream.
        if state.inside || state.sizes.bytes_in == 0 {
            return Err(BytesError::CutOff {
                processor: D::NAME,
                offset: state.sizes.bytes_in,
            });
        }
        Ok(Outcome::Sizes(state.sizes))
    }
}
