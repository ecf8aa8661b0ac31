//! Decompression in steps of bounded output.

use crate::processor::{JoinOutcome, Needs, Output, Piece, Processor};
use crate::{BytesError, Outcome, Sizes};

/// Most output per step of decompression.
pub const STEP: usize = 1 << 20;

/// A decoder of concatenated frames.
pub(super) trait Decoder: Sized + Send + 'static {
    const NAME: &'static str;
    /// Its options.
    type Options: Copy + Send + Sync + 'static;

    fn bytes(options: Self::Options) -> usize;

    /// A decoder before the first frame. Err: the library's message.
    fn open(options: Self::Options) -> Result<Self, String>;

    /// Decodes into the free capacity of `out`. Returns the bytes consumed, and whether it is within a frame. Err: what
    /// is malformed.
    fn step(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(usize, bool), String>;
}

pub(super) struct Steps<D: Decoder>(pub(super) D::Options);

pub(super) struct State<D> {
    /// An error is reported with the first bytes.
    decoder: Result<D, String>,
    sizes: Sizes,
    taken: usize,
    /// Within a frame.
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
    ) -> Result<JoinOutcome, BytesError> {
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
        // After all input a frame may still have output that did not fit.
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
            return Ok(JoinOutcome::Again);
        }
        state.taken = 0;
        state.sizes.bytes_in = piece.end();
        Ok(JoinOutcome::Done)
    }

    fn finish(&self, state: &mut State<D>, _out: &mut Vec<u8>) -> Result<Outcome, BytesError> {
        // An empty stream is no frame: even nothing compresses to one.
        if state.inside || state.sizes.bytes_in == 0 {
            return Err(BytesError::CutOff {
                processor: D::NAME,
                offset: state.sizes.bytes_in,
            });
        }
        Ok(Outcome::Sizes(state.sizes))
    }
}
