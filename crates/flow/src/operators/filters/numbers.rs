//! Streams of numbers: samples, or windows of one value each, such as a score.
//!
//! [`NumberProcessor`] passes windows of one value to the stream processor as consecutive samples; results get the
//! windows' indices. Durations are counted in numbers.

use isochrony_dsp::detect::{CellCfar, ClassicStaLta, NoiseCfar, RecursiveStaLta};
use isochrony_dsp::running::{MOST_SAMPLES, Real, RunningMean, RunningQuantile, RunningRms};
use isochrony_segment::{DType, SigSeg, StreamId, dispatch};
use isochrony_time::Rate;

use super::sample_input::SampleInput;
use super::stream_processor::{Kernels, ResultProperties, StreamKernel, StreamProcessor};
use crate::operators::wrong_input;
use crate::{
    Frames, Item, Length, Next, OpError, OpErrorKind, OperatorProperties, Out, PlanError, PortType,
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

/// Most bytes of a kernel per number of its window: a quantile has value, place and order.
const NUMBER_BYTES: u64 = 32;

#[derive(Debug, Clone, Copy)]
pub(crate) struct NumberInput {
    sample_input: SampleInput,
    operator: &'static str,
    dtype: DType,
    stream: StreamId,
    /// Length and hop.
    windows: Option<(u64, u64)>,
    /// Sample rate, and samples per number.
    rate: Rate,
    samples_per_number: u64,
}

impl NumberInput {
    /// Fails without real numbers.
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
                let mend = match port {
                    PortType::Frames { .. } => {
                        "put it before rewindow(...), or compute one number of each window first"
                    }
                    _ => port.samples_remedy(),
                };
                let expected = "samples, or windows of one number each";
                return Err(wrong_input(operator, expected, port, mend));
            }
        };
        let sample_input = SampleInput::real(operator, &PortType::Samples { dtype, stream })?;
        let samples_per_number = windows.map_or(1, |(_, hop)| hop);
        Ok(Self {
            rate: stream.get().rate,
            samples_per_number,
            sample_input,
            operator,
            dtype,
            stream,
            windows,
        })
    }

    pub(crate) fn numbers(&self) -> PortType {
        let (dtype, stream) = (self.dtype, self.stream);
        PortType::Samples { dtype, stream }
    }

    /// Empty if unknown.
    pub(crate) fn unit(&self) -> &'static str {
        self.sample_input.unit()
    }

    /// One kernel per part of a number, in the numbers' precision.
    pub(crate) fn kernels<K>(&self, kernel: &K) -> Kernels
    where
        K: StreamKernel<f32> + StreamKernel<f64> + Clone + 'static,
    {
        self.sample_input
            .kernels(|| kernel.clone(), || kernel.clone())
    }

    /// What its lengths count.
    pub(crate) fn length_unit(&self) -> &'static str {
        match self.windows {
            Some(_) => "windows",
            None => "samples",
        }
    }

    /// The nearest count of numbers, exact from the decimal as written; fails if zero or too large.
    pub(crate) fn count(
        &self,
        parameter: &'static str,
        length: Length,
    ) -> Result<usize, PlanError> {
        let count = length.count(self.rate);
        let count = count.and_then(|count| count.per(self.samples_per_number).round());
        if let Some(count) = count.filter(|count| (1..=MOST_SAMPLES as u64).contains(count)) {
            Workspace::check(self.operator, parameter, count, NUMBER_BYTES)?;
            return Ok(count as usize);
        }
        let period = self.samples_per_number as f64 / self.rate.to_f64();
        let what = self.length_unit().trim_end_matches('s');
        Err(PlanError::Parameter {
            operator: self.operator,
            parameter,
            got: length.to_string(),
            legal: format!(
                "from {} s (half a {what}) to {} s ({MOST_SAMPLES} {what}s)",
                period / 2.0,
                period * MOST_SAMPLES as f64
            ),
        })
    }
}

#[derive(Default)]
pub(crate) struct NumberProcessor {
    stream_processor: StreamProcessor,
    windows: Option<(u64, u64)>,
    /// In the contiguous range.
    windows_seen: i64,
    /// Bytes of the kernel, until reported.
    holds: u64,
}

impl NumberProcessor {
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
            let numbers = values.and_then(|values| {
                frames.numbers_from(start, values, results.dtype(), results.stream_id())
            });
            *item = numbers.map_or(Item::Taken, Item::from);
        }
        Ok(next)
    }

    pub(crate) fn reset(&mut self) {
        self.windows_seen = 0;
        self.stream_processor.reset();
    }

    pub(crate) fn progress(&self, upto: i64) -> i64 {
        let lag = upto.saturating_sub(self.stream_processor.progress(upto));
        let hop = self.windows.map_or(1, |(_, hop)| hop as i64);
        upto.saturating_sub(lag.saturating_mul(hop))
    }
}

/// Copies values that are not adjacent.
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
            let samples_per_number = own.iter().step_by(frames.stride());
            block.samples_mut::<T>().iter_mut().zip(samples_per_number).for_each(|(to, from)| *to = *from);
        });
        out.seal(block)
    };
    Ok(SigSeg::new(values, start, dtype, frames.stream_id())?)
}
