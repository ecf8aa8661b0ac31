//! Runs stateful kernels from samples to samples: filters, running statistics, detectors.
//!
//! A [`StreamKernel`] computes one number per number, in one precision. [`StreamProcessor`] converts samples to values
//! in their unit, tile by tile; resets the kernel at every break (gap, clock step, loss, removal), so that what follows
//! starts like a recording; and gives results their indices.
//!
//! Results are float32 for float32 samples, double for other real ones. Complex samples are processed as two signals,
//! which is right only for linear kernels with real coefficients; other operators refuse them.
//!
//! A kernel that looks ahead declares its lag in samples. Results get the indices of the samples they belong to; those
//! before the contiguous range are dropped.

use std::iter::repeat_n;

use isochrony_segment::{Buffer, Calibration, DType, SigSeg, StreamId};

use super::sample_input::SampleInput;
use crate::operators::general::compiled::CompiledExpr;
use crate::operators::windows::row_processor::dtype_of;
use crate::{Item, Next, OpError, OpErrorKind, OperatorProperties, Out, PlanError, PortType};

/// 16 KiB of doubles.
const TILE_VALUES: usize = 2048;

pub(crate) trait StreamKernel<T>: Send {
    /// One result per value, for any division into calls.
    fn run(&mut self, values: &[T], results: &mut [T]);

    /// Computes the [`ResultProperties::held`] results left at the end of a contiguous range, of a shorter range the
    /// last ones. By default feeds zeros.
    fn flush(&mut self, results: &mut [T])
    where
        T: Copy + Default,
    {
        let zeros = [T::default(); 256];
        for results in results.chunks_mut(zeros.len()) {
            self.run(&zeros[..results.len()], results);
        }
    }

    /// Another contiguous range begins.
    fn reset(&mut self);
}

pub(crate) enum Kernels {
    Single(PartKernels<f32>),
    Double(PartKernels<f64>),
}

impl SampleInput {
    /// One kernel per part of a number, in the samples' precision.
    pub(crate) fn kernels<S, D>(&self, single: impl Fn() -> S, double: impl Fn() -> D) -> Kernels
    where
        S: StreamKernel<f32> + 'static,
        D: StreamKernel<f64> + 'static,
    {
        if self.single {
            let boxed = |_| Box::new(single()) as Box<dyn StreamKernel<f32>>;
            Kernels::Single(PartKernels::new((0..self.parts()).map(boxed).collect()))
        } else {
            let boxed = |_| Box::new(double()) as Box<dyn StreamKernel<f64>>;
            Kernels::Double(PartKernels::new((0..self.parts()).map(boxed).collect()))
        }
    }

    /// The kernel, with a copy for imaginary parts.
    pub(crate) fn single_kernels<K>(&self, kernel: K) -> Kernels
    where
        K: StreamKernel<f32> + Clone + 'static,
    {
        let boxed = |kernel| Box::new(kernel) as Box<dyn StreamKernel<f32>>;
        let kernels = repeat_n(kernel, self.parts()).map(boxed);
        Kernels::Single(PartKernels::new(kernels.collect()))
    }

    pub(crate) fn double_kernels<K>(&self, kernel: K) -> Kernels
    where
        K: StreamKernel<f64> + Clone + 'static,
    {
        let boxed = |kernel| Box::new(kernel) as Box<dyn StreamKernel<f64>>;
        let kernels = repeat_n(kernel, self.parts()).map(boxed);
        Kernels::Double(PartKernels::new(kernels.collect()))
    }

    fn parts(&self) -> usize {
        if self.complex { 2 } else { 1 }
    }
}

pub(crate) struct PartKernels<T> {
    kernels: Vec<Box<dyn StreamKernel<T>>>,
    values: Vec<T>,
    /// One part of complex values, and its results.
    part: [Vec<T>; 2],
}

impl<T: bytemuck::Pod + Default> PartKernels<T> {
    fn new(kernels: Vec<Box<dyn StreamKernel<T>>>) -> Self {
        let parts = kernels.len();
        let split = if parts > 1 { TILE_VALUES } else { 0 };
        Self {
            kernels,
            values: vec![T::default(); parts * TILE_VALUES],
            part: [vec![T::default(); split], vec![T::default(); split]],
        }
    }

    /// The segment must be contiguous in memory.
    fn run(
        &mut self,
        samples: &SigSeg,
        mut conversion: Option<&mut CompiledExpr>,
        results: &mut [T],
    ) -> Result<(), OpError> {
        let parts = self.kernels.len();
        let len = samples.len() as usize;
        let bytes = samples.buffers().next().map(|buffer| buffer.bytes());
        // Segments are aligned; the conversion rejects samples of an unbound type.
        let own: &[T] = bytemuck::try_cast_slice(bytes.unwrap_or_default()).unwrap_or_default();
        if conversion.is_none() && own.len() != parts * len {
            return Err(OpErrorKind::WrongItem {
                expected: "samples of the bound type",
                got: "others",
            }
            .into());
        }
        if let ([kernel], None) = (&mut self.kernels[..], &conversion) {
            kernel.run(own, results);
            return Ok(());
        }
        let mut from = 0;
        while from < len {
            let to = len.min(from + TILE_VALUES);
            let values = match &mut conversion {
                None => &own[parts * from..parts * to],
                Some(conversion) => {
                    let start = samples.start();
                    let at = |k: usize| start.saturating_add_unsigned(k as u64);
                    let tile = &mut self.values[..parts * (to - from)];
                    let some = Item::Samples(samples.subseg(at(from)..at(to))?);
                    conversion.run_items([&some], bytemuck::cast_slice_mut(tile))?;
                    tile
                }
            };
            let results = &mut results[parts * from..parts * to];
            match &mut self.kernels[..] {
                [kernel] => kernel.run(values, results),
                kernels => {
                    let [part, part_results] = &mut self.part;
                    let (part, part_results) =
                        (&mut part[..to - from], &mut part_results[..to - from]);
                    for (k, kernel) in kernels.iter_mut().enumerate() {
                        let one = values.iter().skip(k).step_by(parts);
                        part.iter_mut().zip(one).for_each(|(to, from)| *to = *from);
                        kernel.run(part, part_results);
                        let one = results.iter_mut().skip(k).step_by(parts);
                        one.zip(&*part_results).for_each(|(to, from)| *to = *from);
                    }
                }
            }
            from = to;
        }
        Ok(())
    }

    fn flush(&mut self, results: &mut [T]) {
        let parts = self.kernels.len();
        if let [kernel] = &mut self.kernels[..] {
            kernel.flush(results);
            return;
        }
        let mut part_results = vec![T::default(); results.len() / parts];
        for (k, kernel) in self.kernels.iter_mut().enumerate() {
            kernel.flush(&mut part_results);
            let one = results.iter_mut().skip(k).step_by(parts);
            one.zip(&part_results).for_each(|(to, from)| *to = *from);
        }
    }

    fn reset(&mut self) {
        self.kernels.iter_mut().for_each(|kernel| kernel.reset());
    }
}

#[derive(Default)]
pub(crate) struct ResultProperties {
    /// Empty if unknown.
    pub(crate) unit: String,
    /// Samples by which results lag.
    pub(crate) lag: u64,
    /// Results dropped at the start of a contiguous range.
    pub(crate) skip: u64,
    /// Results held back until a contiguous range ends, as by kernels that work in blocks: the operator must call
    /// [`StreamProcessor::flush`] at breaks and at the end.
    pub(crate) held: u64,
}

#[derive(Default)]
pub(crate) struct StreamProcessor(Option<BoundState>);

struct BoundState {
    /// None: samples already are values of the kernel's precision.
    conversion: Option<CompiledExpr>,
    kernels: Kernels,
    dtype: DType,
    stream: StreamId,
    lag: u64,
    skip: u64,
    held: u64,
    remaining_skip: u64,
    /// Next index in the contiguous range, if one has begun.
    next: Option<i64>,
}

impl BoundState {
    /// `start`: index of the first sample. None if all results are dropped.
    fn with_indices(&mut self, buffer: Buffer, start: i64) -> Result<Option<SigSeg>, OpError> {
        let start = start.saturating_sub_unsigned(self.lag);
        let results = SigSeg::new(buffer, start, self.dtype, self.stream)?;
        let drop = self.remaining_skip.min(results.len());
        self.remaining_skip -= drop;
        if drop == 0 {
            return Ok(Some(results));
        }
        if drop == results.len() {
            return Ok(None);
        }
        Ok(Some(results.subseg(
            start.saturating_add_unsigned(drop)..results.end(),
        )?))
    }
}

impl StreamProcessor {
    /// Returns properties without the contract, which the operator adds.
    pub(crate) fn bind(
        &mut self,
        operator: &'static str,
        input: &SampleInput,
        kernels: Kernels,
        results: ResultProperties,
    ) -> Result<OperatorProperties, PlanError> {
        let dtype = dtype_of(input.single, input.complex);
        let conversion = input.conversion(operator)?;
        let stream = input
            .stream()
            .get()
            .clone()
            .with_calibration(Calibration::identity(results.unit))
            .intern();
        self.0 = Some(BoundState {
            conversion,
            kernels,
            dtype,
            stream,
            lag: results.lag,
            skip: results.skip,
            held: results.held,
            remaining_skip: results.skip,
            next: None,
        });
        let mut properties = OperatorProperties::new([PortType::Samples { dtype, stream }]);
        if results.lag == 0 && results.skip == 0 {
            return Ok(properties.in_step());
        }
        properties.delay = results.lag as i64;
        Ok(properties)
    }

    pub(crate) fn process(&mut self, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let (Item::Samples(samples), Some(bound)) = (&*item, &mut self.0) else {
            return Err(OpErrorKind::WrongItem {
                expected: "samples",
                got: item.kind(),
            }
            .into());
        };
        let samples = samples.materialise()?;
        let mut block = out.alloc(bound.dtype, samples.len() as usize)?;
        let conversion = bound.conversion.as_mut();
        let bytes = block.bytes_mut();
        let done = match &mut bound.kernels {
            Kernels::Single(parts) => {
                parts.run(&samples, conversion, bytemuck::cast_slice_mut(bytes))
            }
            Kernels::Double(parts) => {
                parts.run(&samples, conversion, bytemuck::cast_slice_mut(bytes))
            }
        };
        let buffer = out.seal(block);
        done?;
        bound.next = Some(samples.end());
        match bound.with_indices(buffer, samples.start())? {
            Some(results) => {
                *item = results.into();
                Ok(Next::Forward)
            }
            None => Ok(Next::Consumed),
        }
    }

    /// Ends a contiguous range: emits held results and resets the kernel.
    pub(crate) fn flush(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        if let Some(bound) = &mut self.0
            && let (Some(start), true) = (bound.next, bound.held > 0)
        {
            let held = usize::try_from(bound.held).unwrap_or(usize::MAX);
            let mut block = out.alloc(bound.dtype, held)?;
            let bytes = block.bytes_mut();
            match &mut bound.kernels {
                Kernels::Single(parts) => parts.flush(bytemuck::cast_slice_mut(bytes)),
                Kernels::Double(parts) => parts.flush(bytemuck::cast_slice_mut(bytes)),
            }
            if let Some(results) = bound.with_indices(out.seal(block), start)? {
                out.emit(0, &mut results.into())?;
            }
        }
        self.reset();
        Ok(())
    }

    pub(crate) fn reset(&mut self) {
        if let Some(bound) = &mut self.0 {
            bound.remaining_skip = bound.skip;
            bound.next = None;
            match &mut bound.kernels {
                Kernels::Single(parts) => parts.reset(),
                Kernels::Double(parts) => parts.reset(),
            }
        }
    }

    /// Progress of the output. Held results are emitted only once the end of their range is known.
    pub(crate) fn progress(&self, upto: i64) -> i64 {
        let Some(bound) = &self.0 else {
            return upto;
        };
        let next_index = bound.next.filter(|_| bound.held > 0);
        next_index
            .map_or(upto, |next| next.min(upto))
            .saturating_sub_unsigned(bound.lag)
    }
}
