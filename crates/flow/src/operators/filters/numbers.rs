//! Streams of numbers: samples, or windows of which one number each was computed.
//!
//! Detectors and running statistics are as much of use behind windows (the loudness of each, a score) as on samples.
//! [`NumberProcessor`] shows windows of one number to the samples' seam as samples that are one further for each window, and
//! gives what comes out the windows' indices. Durations are counted in numbers: at the samples' rate, or that of windows.

use isochrony_dsp::DspError;
use isochrony_dsp::detect::{CellCfar, ClassicStaLta, NoiseCfar, RecursiveStaLta};
use isochrony_dsp::running::{MOST_SAMPLES, Real, RunningMean, RunningQuantile, RunningRms};
use isochrony_segment::{DType, SigSeg, StreamId, dispatch};
use isochrony_time::Rate;

use super::sample_input::SampleInput;
use super::stream_processor::{Kernels, ResultProperties, StreamKernel, StreamProcessor};
use crate::operators::wrong_input;
use crate::{
    Frames, Item, Next, OpError, OpErrorKind, OperatorProperties, Out, PlanError, PortType,
    Workspace,
};

macro_rules! kernels {
    ($($Kernel:ty),*) => {$(
        impl<T: Real> StreamKernel<T> for $Kernel {
            fn run(&mut self, values: &[T], results: &mut [T]) {
                <$Kernel>::run(self, values, results);
            }

            fn reset(&mut self) {
                <$Kernel>::reset(self);
            }
        }
    )*};
}

kernels!(
    CellCfar,
    ClassicStaLta,
    NoiseCfar,
    RecursiveStaLta,
    RunningMean,
    RunningQuantile,
    RunningRms
);

/// Bytes that a kernel keeps for each number of its window, at most: of a quantile value, place and order.
const NUMBER_BYTES: u64 = 32;

/// What a kernel refused, as an operator says it.
pub(crate) fn parameter_error(operator: &'static str, error: &DspError) -> PlanError {
    match error {
        DspError::Parameter {
            parameter,
            got,
            allowed,
            ..
        } => PlanError::Parameter {
            operator,
            parameter,
            got: got.clone(),
            legal: allowed.clone(),
        },
        // None of the kernels' constructors has another.
        other => PlanError::Parameter {
            operator,
            parameter: other.code(),
            got: "refused".into(),
            legal: other.to_string(),
        },
    }
}

/// A stream of numbers, as an operator finds it on its input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NumberInput {
    sample_input: SampleInput,
    operator: &'static str,
    /// Type and stream of the numbers.
    dtype: DType,
    stream: StreamId,
    /// Of windows: their length and distance.
    windows: Option<(u64, u64)>,
    /// Samples a second, of which every so-manyth has a number.
    rate: Rate,
    every: u64,
}

impl NumberInput {
    /// The real numbers of a port.
    ///
    /// # Errors
    /// [`PlanError::InputType`] where none come in.
    pub(crate) fn real(operator: &'static str, port: &PortType) -> Result<Self, PlanError> {
        let (dtype, stream, windows) = match *port {
            PortType::Samples { dtype, stream } => (dtype, stream, None),
            PortType::Frames {
                dtype,
                stream,
                window,
                hop,
                width: 1,
            } => (dtype, stream, Some((window, hop))),
            _ => {
                let mend =
                    "put it before rewindow(...), or compute one number of each window first";
                let expected = "samples, or windows of one number each";
                return Err(wrong_input(operator, expected, port, mend));
            }
        };
        let sample_input = SampleInput::real(operator, &PortType::Samples { dtype, stream })?;
        let every = windows.map_or(1, |(_, hop)| hop);
        Ok(Self {
            rate: stream.get().rate,
            every,
            sample_input,
            operator,
            dtype,
            stream,
            windows,
        })
    }

    /// Type of the numbers, and the stream that says their unit.
    pub(crate) fn numbers(&self) -> PortType {
        let (dtype, stream) = (self.dtype, self.stream);
        PortType::Samples { dtype, stream }
    }

    /// The unit of the numbers; empty if unknown.
    pub(crate) fn unit(&self) -> &'static str {
        self.sample_input.unit()
    }

    /// A kernel for each stream of numbers, in their precision.
    pub(crate) fn kernels<K>(&self, kernel: &K) -> Kernels
    where
        K: StreamKernel<f32> + StreamKernel<f64> + Clone + 'static,
    {
        self.sample_input
            .kernels(|| kernel.clone(), || kernel.clone())
    }

    /// Seconds as a number of numbers, to the nearest: of the decimal that they were written as.
    ///
    /// # Errors
    /// [`PlanError::Parameter`] of none, or more than a window may have.
    pub(crate) fn count(&self, parameter: &'static str, seconds: f64) -> Result<usize, PlanError> {
        let count = self.rate.samples_in_seconds(seconds).ok();
        let count = count.and_then(|count| count.per(self.every).round());
        if let Some(count) = count.filter(|count| (1..=MOST_SAMPLES as u64).contains(count)) {
            Workspace::check(self.operator, parameter, count, NUMBER_BYTES)?;
            return Ok(count as usize);
        }
        let period = self.every as f64 / self.rate.to_f64();
        let what = match self.windows {
            Some(_) => "window",
            None => "sample",
        };
        Err(PlanError::Parameter {
            operator: self.operator,
            parameter,
            got: format!("{seconds} s"),
            legal: format!(
                "from {} s (half a {what}) to {} s ({MOST_SAMPLES} of them)",
                period / 2.0,
                period * MOST_SAMPLES as f64
            ),
        })
    }
}

/// A kernel bound to its stream of numbers.
#[derive(Default)]
pub(crate) struct NumberProcessor {
    stream_processor: StreamProcessor,
    windows: Option<(u64, u64)>,
    /// Windows of this stretch that have come.
    windows_seen: i64,
    /// Bytes that the kernel keeps; told once.
    holds: u64,
}

impl NumberProcessor {
    /// Prepares for a stream; the kernel keeps so many bytes.
    ///
    /// # Errors
    /// As [`StreamProcessor::bind`].
    pub(crate) fn bind(
        &mut self,
        input: &NumberInput,
        kernels: Kernels,
        results: ResultProperties,
        bytes: usize,
    ) -> Result<OperatorProperties, PlanError> {
        self.windows = input.windows;
        self.holds = bytes as u64;
        let mut properties =
            self.stream_processor
                .bind(input.operator, &input.sample_input, kernels, results)?;
        if let (Some((window, hop)), [PortType::Samples { dtype, stream }]) =
            (input.windows, &properties.outputs[..])
        {
            let (dtype, stream, width) = (*dtype, *stream, 1);
            properties.delay *= hop as i64;
            properties.outputs = [PortType::Frames {
                dtype,
                stream,
                window,
                hop,
                width,
            }]
            .into_iter()
            .collect();
        }
        Ok(properties)
    }

    /// Puts results in the numbers' place.
    ///
    /// # Errors
    /// As [`StreamProcessor::process`].
    pub(crate) fn process(&mut self, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        if self.holds > 0 {
            out.holds(std::mem::take(&mut self.holds))?;
        }
        let (Some((_, hop)), Item::Frames(frames)) = (self.windows, &*item) else {
            return self.stream_processor.process(item, out);
        };
        let frames = frames.clone();
        *item = frames_to_samples(&frames, self.windows_seen, out)?.into();
        let first = self.windows_seen;
        self.windows_seen += frames.count() as i64;
        let next = self.stream_processor.process(item, out)?;
        if let (Next::Forward, Item::Samples(results)) = (&next, &*item) {
            let earlier = (first - results.start()) * hop as i64;
            let start = frames.start().saturating_sub(earlier);
            let values = results.buffers().next().cloned();
            let made = values.and_then(|values| {
                frames.numbers_from(start, values, results.dtype(), results.stream_id())
            });
            *item = made.map_or(Item::Taken, Item::from);
        }
        Ok(next)
    }

    /// What follows does not continue what came before.
    pub(crate) fn reset(&mut self) {
        self.windows_seen = 0;
        self.stream_processor.reset();
    }

    /// Nothing that begins before `upto` follows on the input: the same of the results.
    pub(crate) fn progress(&self, upto: i64) -> i64 {
        let lag = upto.saturating_sub(self.stream_processor.progress(upto));
        let hop = self.windows.map_or(1, |(_, hop)| hop as i64);
        upto.saturating_sub(lag.saturating_mul(hop))
    }
}

/// Windows of one number as samples from index `start` on; copied where they do not lie one behind the other.
pub(crate) fn frames_to_samples(
    frames: &Frames,
    start: i64,
    out: &mut Out<'_>,
) -> Result<SigSeg, OpError> {
    let (dtype, count) = (frames.dtype(), frames.count() as usize);
    if frames.width() != 1 {
        return Err(OpErrorKind::WrongItem {
            expected: "windows of one number each",
            got: "wider ones",
        }
        .into());
    }
    let values = if frames.stride() == 1 {
        frames.buffer().clone()
    } else {
        let mut block = out.alloc(dtype, count)?;
        dispatch!(dtype, T => {
            let own = frames.values::<T>().unwrap_or_default();
            let every = own.iter().step_by(frames.stride());
            block.samples_mut::<T>().iter_mut().zip(every).for_each(|(to, from)| *to = *from);
        });
        out.seal(block)
    };
    Ok(SigSeg::new(values, start, dtype, frames.stream_id())?)
}
