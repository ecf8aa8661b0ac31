//! Statistics of samples: count, minimum, maximum, mean, deviation.
//!
//! Conventions:
//! - dtypes i1 i2 i4 i8 u1 u2 u4 f4 f8 in either byte order, from the stream's first byte on;
//! - NaN and infinite samples are only counted;
//! - minimum and maximum are exact. Sums of integers of up to 32 bits and of their squares are exact, so mean and M2
//!   are within one unit in the last place. Floats and 64-bit integers are summed as in [`isochrony_dsp::stats`] within
//!   leaves of 4,096 samples, which combine as a binary tree (Chan, Golub and LeVeque 1979). If deviations exceed
//!   1e154, M2 is infinite, and the mean may be NaN;
//! - the same bits for any cuts, workers and CPU.

mod grid_sums;

use std::marker::PhantomData;

use bytemuck::Pod;
use isochrony_segment::{ByteOrder, DType};

use crate::processor::{AnyProcessor, JoinOutcome, Needs, Output, Piece, Processor};
use crate::samples::{Fragment, reverse_each, round_down, round_up};
use crate::{BytesError, Outcome, Statistics};
use grid_sums::{GridSums, StatisticSample};

/// Copied at a time to align samples or swap their bytes.
const TILE: usize = 2048;

/// Statistics of samples of a dtype.
///
/// # Errors
/// [`BytesError::Parameter`]: bool or complex samples.
pub fn statistics(dtype: DType, order: ByteOrder) -> Result<AnyProcessor, BytesError> {
    Ok(match dtype {
        DType::I8 => AnyProcessor::new(Stats::<i8>::new(order)),
        DType::I16 => AnyProcessor::new(Stats::<i16>::new(order)),
        DType::I32 => AnyProcessor::new(Stats::<i32>::new(order)),
        DType::I64 => AnyProcessor::new(Stats::<i64>::new(order)),
        DType::U8 => AnyProcessor::new(Stats::<u8>::new(order)),
        DType::U16 => AnyProcessor::new(Stats::<u16>::new(order)),
        DType::U32 => AnyProcessor::new(Stats::<u32>::new(order)),
        DType::F32 => AnyProcessor::new(Stats::<f32>::new(order)),
        DType::F64 => AnyProcessor::new(Stats::<f64>::new(order)),
        DType::Bool | DType::C64 | DType::C128 => {
            return Err(BytesError::Parameter {
                processor: "stats".into(),
                parameter: "dtype".into(),
                got: dtype.name().into(),
                allowed: crate::samples::DTYPES.into(),
            });
        }
    })
}

#[derive(Debug)]
struct Stats<T> {
    order: ByteOrder,
    samples: PhantomData<T>,
}

impl<T> Stats<T> {
    fn new(order: ByteOrder) -> Self {
        Self {
            order,
            samples: PhantomData,
        }
    }
}

struct Sums<T: StatisticSample> {
    sums: T::Sums,
    /// Samples that cannot be summed in place.
    tile: Vec<T>,
    swap: bool,
}

impl<T: StatisticSample> Sums<T> {
    fn new(order: ByteOrder) -> Self {
        Self {
            sums: T::Sums::default(),
            tile: Vec::new(),
            swap: !order.is_native(),
        }
    }

    /// Adds whole samples.
    fn push(&mut self, bytes: &[u8]) {
        if !self.swap
            && let Ok(samples) = bytemuck::try_cast_slice(bytes)
        {
            self.sums.push(samples);
            return;
        }
        self.tile.resize(TILE, T::zeroed());
        for bytes in bytes.chunks(TILE * size_of::<T>()) {
            let tile = &mut self.tile[..bytes.len() / size_of::<T>()];
            let room: &mut [u8] = bytemuck::cast_slice_mut(tile);
            room.copy_from_slice(bytes);
            if self.swap {
                reverse_each(room, size_of::<T>());
            }
            self.sums.push(tile);
        }
    }
}

/// Sums between the buffer's first and last multiple of the grain.
struct Part<T: StatisticSample> {
    sums: Sums<T>,
    /// Offsets of these in the stream; equal if the buffer has fewer than two.
    from: u64,
    to: u64,
}

struct State<T: StatisticSample> {
    sums: Sums<T>,
    fragment: Fragment,
    end: u64,
}

impl<T: StatisticSample> State<T> {
    fn push(&mut self, bytes: &[u8]) {
        let cut = self.fragment.take(bytes, size_of::<T>());
        if let Some(sample) = cut.first {
            self.sums.push(&sample[..size_of::<T>()]);
        }
        self.sums.push(cut.whole);
    }
}

impl<T: StatisticSample + Pod> Processor for Stats<T> {
    type Part = Part<T>;
    type State = State<T>;

    fn needs(&self) -> Needs {
        Needs {
            scan: true,
            ..Needs::default()
        }
    }

    fn blockwise(&self) -> bool {
        true
    }

    fn part_bytes(&self, _buffer: usize) -> usize {
        size_of::<Part<T>>() + TILE * size_of::<T>() + T::Sums::HEAP
    }

    fn state_bytes(&self) -> usize {
        size_of::<State<T>>() + TILE * size_of::<T>() + T::Sums::HEAP
    }

    fn part(&self) -> Part<T> {
        Part {
            sums: Sums::new(self.order),
            from: 0,
            to: 0,
        }
    }

    fn state(&self) -> State<T> {
        State {
            sums: Sums::new(self.order),
            fragment: Fragment::default(),
            end: 0,
        }
    }

    fn scan(
        &self,
        piece: Piece<'_>,
        first: bool,
        part: &mut Part<T>,
        _out: &mut Output,
    ) -> Result<(), BytesError> {
        let grain = T::Sums::GRAIN * size_of::<T>() as u64;
        if first || part.from == part.to {
            part.from = round_up(piece.offset, grain);
            part.to = part.from;
            part.sums.sums.begin(part.from / size_of::<T>() as u64);
        }
        let to = round_down(piece.end(), grain);
        // After a hole, `join` does the work.
        if part.to >= piece.offset && to > part.to {
            let bytes = &piece.bytes[(part.to - piece.offset) as usize..];
            part.sums.push(&bytes[..(to - part.to) as usize]);
            part.to = to;
        }
        Ok(())
    }

    fn join(
        &self,
        piece: Piece<'_>,
        part: &mut Part<T>,
        state: &mut State<T>,
        _out: &mut Output,
    ) -> Result<JoinOutcome, BytesError> {
        if part.from < part.to {
            let (head, rest) = piece.bytes.split_at((part.from - piece.offset) as usize);
            state.push(head);
            state.sums.sums.append(&part.sums.sums);
            state.push(&rest[(part.to - part.from) as usize..]);
        } else {
            state.push(piece.bytes);
        }
        state.end = piece.end();
        Ok(JoinOutcome::Done)
    }

    fn finish(&self, state: &mut State<T>, _out: &mut Vec<u8>) -> Result<Outcome, BytesError> {
        state.fragment.finish("stats", state.end, size_of::<T>())?;
        let summary = state.sums.sums.summary();
        let samples = state.end / size_of::<T>() as u64;
        let extreme = |value: T| match summary.count {
            0 => crate::Value::Float(f64::NAN),
            _ => value.value(),
        };
        Ok(Outcome::Statistics(Statistics {
            count: summary.count,
            nonfinite: samples - summary.count,
            min: extreme(summary.min),
            max: extreme(summary.max),
            mean: summary.mean,
            m2: summary.m2,
        }))
    }
}
