//! The kernels as operators, declared as in a user's crate.

use isochrony::DType;
use isochrony::flow::{
    Alignment, Contract, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError,
    PlanOutput, Port, PortType, Ranges, operator,
};
use isochrony::segment::{Buffer, StreamId};
use smallvec::SmallVec;

use crate::data::{DEVIATION, MEAN, digest_range};
use crate::kernels::{Detector, Spectrum, bits, deviates, mean_below};
use crate::models::Selected;
use crate::models::blocks::{coefficients, detect, each_peak, keep, loud, peaks, scores};
use crate::models::common::Leaks;

/// Windows with rows of so many values.
fn rows(port: PortType, values: DType, row: usize) -> OperatorProperties {
    match port {
        PortType::Frames {
            stream,
            window,
            hop,
            ..
        } => OperatorProperties::new([PortType::Frames {
            dtype: values,
            stream,
            window,
            hop,
            width: row,
        }]),
        other => OperatorProperties::new([other]),
    }
}

fn ranges(port: PortType) -> OperatorProperties {
    let stream = port.stream_id().expect("samples");
    OperatorProperties::new([PortType::Ranges { stream }])
        .contract(Contract::Sequential)
        .data_dependent()
}

fn digest() -> OperatorProperties {
    OperatorProperties::new([PortType::Count]).contract(Contract::Sequential)
}

/// As items come, where there are several inputs.
fn arriving(inputs: &[PortType]) -> Alignment {
    match inputs {
        [_] => Alignment::Single,
        _ => Alignment::Arrival,
    }
}

/// Memory of the run's pool.
fn filled(out: &mut Out<'_>, bytes: usize, fill: &mut dyn FnMut(&mut [u8])) -> Buffer {
    let mut block = out.alloc(DType::U8, bytes).expect("below the cap");
    fill(block.bytes_mut());
    out.seal(block)
}

fn give_ranges(
    item: &mut Item,
    stream: StreamId,
    ranges: SmallVec<[std::ops::Range<i64>; 2]>,
) -> Next {
    if ranges.is_empty() {
        return Next::Consumed;
    }
    *item = Item::Ranges(Ranges { stream, ranges });
    Next::Forward
}

operator! {
    /// Scores of windows of 32 samples.
    pub struct Score = "score" (Inputs::Exactly(1)) {}
    state { spectrum: Spectrum }
}

impl Operator for Score {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(rows(inputs[0], DType::F32, 1))
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        if let Item::Frames(frames) = item {
            *frames = scores(&self.spectrum, frames, &mut |bytes, fill| {
                filled(out, bytes, fill)
            });
        }
        Ok(Next::Forward)
    }
}

operator! {
    /// Scores into ranges.
    pub struct Cfar = "cfar" (Inputs::Exactly(1)) {}
    state { detector: Detector }
}

impl Operator for Cfar {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(ranges(inputs[0]))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let Item::Frames(frames) = &*item else {
            return Ok(Next::Consumed);
        };
        let (stream, mut found) = (frames.stream_id(), SmallVec::new());
        detect(&mut self.detector, frames, |range| found.push(range));
        Ok(give_ranges(item, stream, found))
    }

    fn progress(&mut self, _: Port, upto: i64) -> i64 {
        upto.min(self.detector.upto())
    }
}

operator! {
    /// Ranges of loud windows.
    pub struct Loud = "loud" (Inputs::Exactly(1)) {}
    state {}
}

impl Operator for Loud {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(ranges(inputs[0]))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let Item::Frames(frames) = &*item else {
            return Ok(Next::Consumed);
        };
        let (stream, mut found) = (frames.stream_id(), SmallVec::new());
        loud(frames, |range| found.push(range));
        Ok(give_ranges(item, stream, found))
    }
}

operator! {
    /// Wavelet coefficients of windows.
    pub struct Coefficients = "coefficients" (Inputs::Exactly(1)) {}
    state { scratch: Vec<f64> }
}

impl Operator for Coefficients {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied()))
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        if let Item::Frames(frames) = item {
            *frames = coefficients(&mut self.scratch, frames, &mut |bytes, fill| {
                filled(out, bytes, fill)
            });
        }
        Ok(Next::Forward)
    }
}

operator! {
    /// Peak and energy of the rest.
    pub struct Peaks = "peaks" (Inputs::Exactly(1)) {}
    state {}
}

impl Operator for Peaks {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(rows(inputs[0], DType::F64, 2))
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        if let Item::Frames(frames) = item {
            *frames = peaks(frames, &mut |bytes, fill| filled(out, bytes, fill));
        }
        Ok(Next::Forward)
    }
}

operator! {
    /// Leaks where the peaks of all sensors stand out.
    pub struct LeakDigest = "leak_digest" (Inputs::AtLeast(2)) {}
    state { leaks: Leaks }
}

impl Operator for LeakDigest {
    fn bind(&mut self, _: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(digest().align(Alignment::Window))
    }

    fn process(&mut self, port: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        if let Item::Frames(frames) = item {
            each_peak(frames, |start, peak| {
                self.leaks.push(usize::from(port), start, peak)
            });
        }
        Ok(Next::Consumed)
    }

    fn result(&mut self) -> Option<PlanOutput> {
        Some(PlanOutput::Count(self.leaks.sum()))
    }
}

operator! {
    /// The digest of ranges; samples that arrive on other inputs are dropped.
    pub struct RangeDigest = "range_digest" (Inputs::AtLeast(1)) {}
    state { sum: u64 }
}

impl Operator for RangeDigest {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(digest().align(arriving(inputs)))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        if let Item::Ranges(found) = item {
            let each = found.ranges.iter().map(digest_range);
            self.sum = each.fold(self.sum, u64::wrapping_add);
        }
        Ok(Next::Consumed)
    }

    fn result(&mut self) -> Option<PlanOutput> {
        Some(PlanOutput::Count(self.sum))
    }
}

operator! {
    /// The digest of selected samples, by input.
    pub struct SelectedDigest = "selected_digest" (Inputs::AtLeast(1)) {}
    state { selected: Selected }
}

impl Operator for SelectedDigest {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(digest().align(arriving(inputs)))
    }

    fn process(&mut self, port: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        if let Item::Samples(samples) = item {
            self.selected.add(usize::from(port), samples);
        }
        Ok(Next::Consumed)
    }

    fn result(&mut self) -> Option<PlanOutput> {
        Some(PlanOutput::Count(self.selected.sum()))
    }
}

/// An operator that lets windows pass of which a kernel holds.
macro_rules! filter {
    ($Name:ident, $name:literal, $doc:literal, $passes:expr) => {
        operator! {
            #[doc = $doc]
            pub struct $Name = $name (Inputs::Exactly(1)) {}
            state {}
        }

        impl Operator for $Name {
            fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
                Ok(OperatorProperties::new(inputs.iter().copied()).data_dependent())
            }

            fn process(
                &mut self,
                _: Port,
                item: &mut Item,
                out: &mut Out<'_>,
            ) -> Result<Next, OpError> {
                let Item::Frames(frames) = &*item else {
                    return Ok(Next::Consumed);
                };
                let mut failed = Ok(());
                keep(frames, $passes, |kept| {
                    if failed.is_ok() {
                        failed = out.emit(0, &mut kept.into());
                    }
                });
                failed.map(|()| Next::Consumed)
            }
        }
    };
}

filter!(
    Deviates,
    "deviates",
    "Windows with a deviation above a threshold.",
    |window| deviates(window, DEVIATION)
);
filter!(
    MeanBelow,
    "mean_below",
    "Windows with a mean below a threshold.",
    |window| mean_below(window, MEAN)
);

operator! {
    /// Reads every sample.
    pub struct Read = "read" (Inputs::Exactly(1)) {}
    state { sum: u64 }
}

impl Operator for Read {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied()))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        if let Item::Samples(samples) = item {
            samples.visit::<f32>(|part| self.sum = self.sum.wrapping_add(bits(part)))?;
        }
        std::hint::black_box(self.sum);
        Ok(Next::Forward)
    }
}
