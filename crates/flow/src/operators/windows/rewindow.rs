//! Cuts samples into windows.

use isochrony_segment::{Buffer, SigSeg, dispatch};

use crate::operator;
use crate::operators::wrong_input;
use crate::{
    Break, Contract, Frames, Inputs, Item, Next, OpError, OpErrorKind, Operator,
    OperatorProperties, Out, PlanError, Port, PortType, json,
};

/// Most values per block, counted for each of overlapping windows: some milliseconds of work.
const MAX_VALUES: u64 = 1 << 22;

operator! {
    /// Cuts every gap-free range into windows of equal length.
    ///
    /// # Inputs
    /// Samples of any type, shape (n,).
    ///
    /// # Returns
    /// Windows, shape (n, window), of the samples' dtype, without a copy where memory allows. Edges: a window never
    /// spans a gap or a clock step; a last, short one is treated as `tail` says. No delay beyond the window.
    ///
    /// # Conventions
    /// Windows are counted from the first sample that is read of each gap-free range, so a selection of exactly one
    /// window gives that window; `anchor` has the alternative.
    ///
    /// # Errors
    /// The input is not samples.
    pub struct Rewindow = "rewindow" (Inputs::Exactly(1)) {
        /// Samples per window.
        window: u64 = "integer" { unit: Samples, range: (1.0, 70368744177664.0) },
        /// Samples from the start of one window to the next. Left out: `window`.
        hop: Option<u64> = "integer" { unit: Samples, range: (1.0, 70368744177664.0), default: || json!(null), positional: true },
        /// Drops or keeps a last window that a break or the end leaves short.
        tail: String = "text" { choices: &["drop", "keep"], default: || json!("drop") },
        /// Where windows begin to count. "range": at the first sample that is read. "run": at the first sample of the
        /// gap-free range, read or not, so that a scan of a part of a signal gives those of the signal's own windows
        /// that lie wholly inside.
        anchor: String = "text" { choices: &["range", "run"], default: || json!("range") },
    }
    state {
        /// Start of the next window, after the first item of a contiguous range.
        next: Option<i64>,
        /// Samples from `next` on.
        carry: Option<SigSeg>,
    }
}

impl Rewindow {
    fn hop(&self) -> u64 {
        self.hop.unwrap_or(self.window)
    }

    /// Emits windows that begin in the carried samples and end in `more`, elsewhere in memory.
    fn emit_straddling(
        &mut self,
        carry: &SigSeg,
        more: &SigSeg,
        out: &mut Out<'_>,
    ) -> Result<(), OpError> {
        let (start, hop) = (carry.start(), self.hop());
        let total = carry.len() + more.len();
        if total < self.window {
            return Ok(());
        }
        // Windows begin before the carried samples end, and end before the new ones do.
        let count = carry
            .len()
            .div_ceil(hop)
            .min((total - self.window) / hop + 1);
        let samples = (count - 1) * hop + self.window;
        let rest =
            more.subseg(more.start()..start.saturating_add_unsigned(samples).max(more.start()))?;
        let buffer = concatenate(carry, &rest, out)?;
        let joined = SigSeg::new(buffer, start, carry.dtype(), carry.stream_id())?;
        // Carried samples after the last window are no part of it.
        let joined = joined.subseg(start..start.saturating_add_unsigned(samples))?;
        if let Some(frames) = Frames::windows(&joined, self.window, hop)? {
            self.next = Some(frames.next_start());
            let last = emit_pieces(frames, out)?;
            out.emit(0, &mut last.into())?;
        }
        Ok(())
    }

    fn flush(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        self.next = None;
        let Some(carry) = self.carry.take() else {
            return Ok(());
        };
        if self.tail != "keep" {
            return Ok(());
        }
        match Frames::windows(&carry, carry.len(), carry.len())? {
            Some(frames) => out.emit(0, &mut frames.into()),
            None => Ok(()),
        }
    }
}

/// Emits all but the last piece of a block with many values, so that an execution can be interrupted between pieces.
/// Returns the last piece, usually the whole block.
fn emit_pieces(frames: Frames, out: &mut Out<'_>) -> Result<Frames, OpError> {
    let most = (MAX_VALUES / frames.window()).max(1);
    if frames.count() <= most {
        return Ok(frames);
    }
    let mut from = 0;
    while frames.count() - from > most {
        if let Some(piece) = frames.sub(from..from + most) {
            out.emit(0, &mut piece.into())?;
        }
        from += most;
    }
    match frames.sub(from..frames.count()) {
        Some(last) if from > 0 => Ok(last),
        _ => Ok(frames),
    }
}

fn concatenate(first: &SigSeg, second: &SigSeg, out: &mut Out<'_>) -> Result<Buffer, OpError> {
    let len = (first.len() + second.len()) as usize;
    let mut block = out.alloc(first.dtype(), len)?;
    dispatch!(first.dtype(), T => {
        let memory = block.samples_mut::<T>();
        let (a, b) = memory.split_at_mut(first.len() as usize);
        first.copy_to::<T>(a)?;
        second.copy_to::<T>(b)?;
    });
    Ok(out.seal(block))
}

impl Operator for Rewindow {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let (window, hop) = (self.window, self.hop());
        match inputs {
            &[PortType::Samples { dtype, stream }] => {
                let width = window as usize;
                let frames = PortType::Frames {
                    dtype,
                    stream,
                    window,
                    hop,
                    width,
                };
                let properties = OperatorProperties::new([frames]).cost_ns(0.0).contiguous();
                Ok(match &*self.tail {
                    "keep" => properties.sequential_because("keeps a short last window"),
                    _ => properties.contract(Contract::Lookahead { after: window - 1 }),
                })
            }
            [other, ..] => Err(wrong_input(
                "rewindow",
                "samples",
                other,
                "put it directly behind the samples",
            )),
            [] => Err(PlanError::Inputs {
                operator: "rewindow",
                expected: "1".into(),
                got: 0,
            }),
        }
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let mut samples = match item.take() {
            Item::Samples(samples) => samples,
            other => {
                return Err(OpErrorKind::WrongItem {
                    expected: "samples",
                    got: other.kind(),
                }
                .into());
            }
        };
        let hop = self.hop();
        let next = match self.next {
            Some(next) => next,
            None => {
                // First window of the grid in these samples, which in a task begin anywhere.
                let grid = match &*self.anchor {
                    "run" => out.anchor(),
                    _ => out.first_read(),
                };
                let ahead = samples.start().abs_diff(grid);
                let skip = match samples.start() < grid {
                    true => 0,
                    false => ahead.next_multiple_of(hop) - ahead,
                };
                samples.start().saturating_add_unsigned(skip)
            }
        };
        self.next = Some(next);
        if let Some(mut carry) = self.carry.take() {
            let touching = match (carry.buffers().last(), samples.buffers().next()) {
                (Some(last), Some(first)) => last.is_followed_by(first),
                _ => false,
            };
            if touching {
                carry.append(samples)?;
                samples = carry;
            } else {
                self.emit_straddling(&carry, &samples, out)?;
                let next = self.next.unwrap_or(next);
                if next < carry.end() {
                    carry.append(samples)?;
                    // A window of many small pieces takes each of them once.
                    self.carry = Some(match next > carry.start() {
                        true => carry.subseg(next..carry.end())?,
                        false => carry,
                    });
                    return Ok(Next::Consumed);
                }
            }
        }
        let next = self.next.unwrap_or(next);
        if next >= samples.end() {
            return Ok(Next::Consumed);
        }
        let from = next.max(samples.start());
        let samples = if from == samples.start() {
            samples
        } else {
            samples.subseg(from..samples.end())?
        };
        let Some(frames) = Frames::windows(&samples, self.window, hop)? else {
            self.carry = Some(samples);
            return Ok(Next::Consumed);
        };
        let next = frames.next_start();
        self.next = Some(next);
        if next < samples.end() {
            self.carry = Some(samples.subseg(next..samples.end())?);
        }
        *item = emit_pieces(frames, out)?.into();
        Ok(Next::Forward)
    }

    fn on_break(&mut self, _: Port, _: &Break, out: &mut Out<'_>) -> Result<(), OpError> {
        self.flush(out)
    }

    fn finish(&mut self, _: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        self.flush(out)
    }

    /// Flushes what no sample continues, as a break would: after `align` no break announces a silence.
    fn advance(&mut self, _: Port, upto: i64, out: &mut Out<'_>) -> Result<(), OpError> {
        match &self.carry {
            Some(carry) if carry.end() < upto => self.flush(out),
            _ => Ok(()),
        }
    }

    fn progress(&mut self, _: Port, upto: i64) -> i64 {
        match &self.carry {
            Some(carry) => carry.start().min(upto),
            None => upto,
        }
    }
}
