//! Conversion of samples: width, kind and byte order, with an optional scale and offset.
//!
//! Conventions:
//! - dtypes i1 i2 i4 i8 u1 u2 u4 f4 f8 in either byte order, from the stream's first byte on;
//! - a sample becomes `sample * scale + offset` in f64, rounded twice. Integers without scale and offset are exact;
//!   else 64-bit integers are first rounded to f64;
//! - rounding is to nearest, ties to even;
//! - a value outside the new type is an error with its offset, or becomes the nearest value (`saturate`). NaN and
//!   infinities stay so in floats; NaN never becomes an integer.

mod kernel;

use isochrony_segment::{ByteOrder, DType};

use crate::processor::{AnyProcessor, JoinOutcome, Needs, Output, Piece, Processor};
use crate::samples::{DTYPES, Fragment, round_down, round_up};
use crate::{BytesError, Outcome, Sizes};
use kernel::{Kernel, Misfit};

/// A conversion.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conversion {
    /// Input dtype.
    pub from: (DType, ByteOrder),
    /// Output dtype.
    pub to: (DType, ByteOrder),
    /// Factor, finite.
    pub scale: f64,
    /// Added after scaling, finite.
    pub offset: f64,
    /// Values out of range become the nearest legal one.
    pub saturate: bool,
}

impl Conversion {
    /// A conversion without scale and offset.
    #[must_use]
    pub fn new(from: (DType, ByteOrder), to: (DType, ByteOrder)) -> Self {
        Self {
            from,
            to,
            scale: 1.0,
            offset: 0.0,
            saturate: false,
        }
    }
}

/// Converts all samples of a stream.
///
/// # Errors
/// [`BytesError::Parameter`]: bool or complex samples, or a scale or offset that is not finite.
pub fn convert(conversion: Conversion) -> Result<AnyProcessor, BytesError> {
    let refuse = |parameter: &str, got: String, allowed: &str| BytesError::Parameter {
        processor: NAME.into(),
        parameter: parameter.into(),
        got,
        allowed: allowed.into(),
    };
    for (parameter, number) in [("scale", conversion.scale), ("offset", conversion.offset)] {
        if !number.is_finite() {
            return Err(refuse(parameter, number.to_string(), "a finite number"));
        }
    }
    for (parameter, dtype) in [("from", conversion.from.0), ("to", conversion.to.0)] {
        if matches!(dtype, DType::Bool | DType::C64 | DType::C128) {
            return Err(refuse(parameter, dtype.name().into(), DTYPES));
        }
    }
    Ok(AnyProcessor::new(Convert {
        kernel: Kernel::new(conversion),
        size: conversion.from.0.component_size(),
        wide: conversion.to.0.component_size(),
        dtype: conversion.to.0.name(),
    }))
}

const NAME: &str = "convert";

struct Convert {
    kernel: Kernel,
    /// Bytes of an input sample.
    size: usize,
    /// Bytes of an output sample.
    wide: usize,
    dtype: &'static str,
}

impl Convert {
    fn push(&self, offset: u64, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), BytesError> {
        self.kernel
            .run(bytes, out)
            .map_err(|Misfit { sample, value }| BytesError::OutOfRange {
                processor: NAME,
                offset: offset + (sample * self.size) as u64,
                value,
                dtype: self.dtype,
            })
    }
}

struct State {
    fragment: Fragment,
    sizes: Sizes,
}

impl Processor for Convert {
    type Part = ();
    type State = State;

    fn needs(&self) -> Needs {
        Needs {
            scan: true,
            output: true,
            ..Needs::default()
        }
    }

    fn part_bytes(&self, buffer: usize) -> usize {
        (buffer / self.size)
            .saturating_mul(self.wide)
            .saturating_add(2 * self.wide)
    }

    fn state_bytes(&self) -> usize {
        size_of::<State>()
    }

    fn part(&self) {}

    fn state(&self) -> State {
        State {
            fragment: Fragment::default(),
            sizes: Sizes::default(),
        }
    }

    fn scan(
        &self,
        piece: Piece<'_>,
        _first: bool,
        _part: &mut (),
        out: &mut Output,
    ) -> Result<(), BytesError> {
        let size = self.size as u64;
        let (from, to) = (round_up(piece.offset, size), round_down(piece.end(), size));
        if from >= to {
            return Ok(());
        }
        let whole = &piece.bytes[(from - piece.offset) as usize..][..(to - from) as usize];
        // Doubling would exceed `part_bytes`.
        out.body.reserve_exact(whole.len() / self.size * self.wide);
        self.push(from, whole, &mut out.body)
    }

    fn join(
        &self,
        piece: Piece<'_>,
        _part: &mut (),
        state: &mut State,
        out: &mut Output,
    ) -> Result<JoinOutcome, BytesError> {
        let have = state.fragment.len() as u64;
        // `scan` has converted the whole samples.
        if let Some(sample) = state.fragment.take(piece.bytes, self.size).first {
            self.push(piece.offset - have, &sample[..self.size], &mut out.before)?;
        }
        state.sizes.bytes_in = piece.end();
        state.sizes.bytes_out += (out.before.len() + out.body.len()) as u64;
        Ok(JoinOutcome::Done)
    }

    fn finish(&self, state: &mut State, _out: &mut Vec<u8>) -> Result<Outcome, BytesError> {
        state
            .fragment
            .finish(NAME, state.sizes.bytes_in, self.size)?;
        Ok(Outcome::Sizes(state.sizes))
    }
}
