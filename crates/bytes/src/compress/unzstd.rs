//! Decompression of zstd frames, a step of output at a time.

use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use super::{STEP, WINDOW_LOG};
use crate::processor::{Joined, Needs, Output, Piece, Processor};
use crate::{BytesError, Outcome, Sizes};

pub(super) struct Unzstd;

pub(super) struct State {
    /// A context, or why there is none.
    context: Result<DCtx<'static>, String>,
    sizes: Sizes,
    /// Bytes of the current piece that were taken.
    taken: usize,
    /// Whether a frame has begun and not ended.
    inside: bool,
}

fn open() -> Result<DCtx<'static>, String> {
    let mut context = DCtx::try_create().ok_or("no memory for a decompression context")?;
    context
        .set_parameter(DParameter::WindowLogMax(WINDOW_LOG))
        .map_err(|code| zstd_safe::get_error_name(code).to_owned())?;
    Ok(context)
}

impl Processor for Unzstd {
    type Part = ();
    type State = State;

    fn needs(&self) -> Needs {
        Needs {
            scan: false,
            ordered: true,
            output: true,
            again: true,
        }
    }

    fn part_bytes(&self, _buffer: usize) -> usize {
        STEP
    }

    fn state_bytes(&self) -> usize {
        // The window twice over in the worst case, and blocks of 128 KiB.
        (1 << WINDOW_LOG) + (1 << 20)
    }

    fn part(&self) {}

    fn state(&self) -> State {
        State {
            context: open(),
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
        state: &mut State,
        out: &mut Output,
    ) -> Result<Joined, BytesError> {
        let corrupt = |at: u64, reason: String| BytesError::Corrupt {
            processor: "unzstd",
            offset: at,
            reason,
        };
        out.clear();
        out.body.reserve_exact(STEP);
        let context = match &mut state.context {
            Ok(context) => context,
            Err(reason) => return Err(corrupt(piece.offset, reason.clone())),
        };
        let mut from = InBuffer::around(piece.bytes);
        from.set_pos(state.taken);
        let mut to = OutBuffer::around(&mut out.body);
        loop {
            let full = to.pos() == to.capacity();
            // With the input used up, a frame may still hold output for which there was no room.
            if full || (from.pos() == piece.bytes.len() && !state.inside) {
                break;
            }
            let before = (from.pos(), to.pos());
            let hint = context
                .decompress_stream(&mut to, &mut from)
                .map_err(|code| {
                    let reason = zstd_safe::get_error_name(code).to_owned();
                    corrupt(piece.offset + before.0 as u64, reason)
                })?;
            state.inside = hint != 0;
            if (from.pos(), to.pos()) == before {
                break;
            }
        }
        let full = to.pos() == to.capacity();
        let used_up = from.pos() == piece.bytes.len();
        state.taken = from.pos();
        state.sizes.bytes_out += out.body.len() as u64;
        if full && (state.inside || !used_up) {
            return Ok(Joined::Again);
        }
        state.taken = 0;
        state.sizes.bytes_in = piece.end();
        Ok(Joined::Done)
    }

    fn finish(&self, state: &mut State, _out: &mut Vec<u8>) -> Result<Outcome, BytesError> {
        if state.inside {
            return Err(BytesError::CutOff {
                processor: "unzstd",
                offset: state.sizes.bytes_in,
            });
        }
        Ok(Outcome::Sizes(state.sizes))
    }
}
