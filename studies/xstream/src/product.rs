//! The applications as plans of the product, over the same kernels.

mod operators;
mod sources;

use std::sync::Arc;

use isochrony::SigSeg;
use isochrony::flow::{OperatorType, Plan, PlanError, Segments, SharedRecording};
use isochrony::segment::Sample;

use crate::data::{CHANNELS, HOP, LONG, SENSORS, STAT};
use crate::kernels::WINDOW;
use crate::memory::stream;
use crate::models::End;
use operators::{
    Cfar, Coefficients, Deviates, LeakDigest, Loud, MeanBelow, Peaks, RangeDigest, Read, Score,
    SelectedDigest,
};
pub use sources::{Clock, Pushed};

/// Samples in memory to scan, without a copy.
pub fn recorded(segment: &SigSeg) -> SharedRecording {
    SharedRecording::new(Segments::new([segment.clone()]).expect("one segment"))
}

/// A channel in memory.
pub fn shared<T: Sample>(samples: &[T]) -> SigSeg {
    SigSeg::from_slice(samples, 0, stream()).expect("memory")
}

/// The result of a plan that ends in a digest or a count.
pub fn result(plan: &Plan) -> u64 {
    plan.collect()
        .expect("the plan runs")
        .count()
        .expect("a number")
}

fn parameters() -> serde_json::Map<String, serde_json::Value> {
    serde_json::Map::new()
}

/// DETECTAUDIO.
pub fn detect_audio(scans: [Plan; CHANNELS], end: End) -> Result<Plan, PlanError> {
    let windows = scans[0].rewindow(WINDOW as u64)?;
    let control = windows
        .then::<Score>(parameters())?
        .then::<Cfar>(parameters())?;
    if end == End::Cut {
        return control.then::<RangeDigest>(parameters());
    }
    let [first, second, third, fourth] = scans;
    let synced = first.sync(&[second, third, fourth, control])?;
    let others = (1..CHANNELS as u16)
        .map(|k| synced.output(k))
        .collect::<Result<Vec<_>, _>>()?;
    synced
        .output(0)?
        .apply(&SelectedDigest::DECLARATION, parameters(), &others)
}

/// DETECTAUDIO cut before sync: all channels arrive, but nobody selects from them.
pub fn detect_received(scans: [Plan; CHANNELS]) -> Result<Plan, PlanError> {
    let windows = scans[0].rewindow(WINDOW as u64)?;
    let control = windows
        .then::<Score>(parameters())?
        .then::<Cfar>(parameters())?;
    control.apply(&RangeDigest::DECLARATION, parameters(), &scans)
}

/// DETECTAUDIO over channels in memory.
pub fn detect_audio_scan(
    channels: &[SharedRecording],
    segment: usize,
    end: End,
) -> Result<Plan, PlanError> {
    detect_audio(
        std::array::from_fn(|k| Plan::scan_part(channels[k].clone(), None, segment as u64)),
        end,
    )
}

/// DETECTAUDIO fed batch by batch, as in figure 6.
pub fn detect_audio_in_batches<'a>(
    channels: &[Vec<f32>],
    batch: usize,
) -> impl FnMut() -> u64 + 'a {
    let channels: Vec<Arc<[f32]>> = channels
        .iter()
        .map(|samples| samples.as_slice().into())
        .collect();
    move || {
        let scan = |k: usize| Plan::scan(Pushed::in_batches(channels[k].clone(), batch));
        result(&detect_audio(std::array::from_fn(scan), End::Sync).expect("a plan"))
    }
}

/// PIPELINE fed batch by batch, as in figure 6.
pub fn pipeline_in_batches<'a>(sensors: &[Vec<f64>], batch: usize) -> impl FnMut() -> u64 + 'a {
    let sensors: Vec<Arc<[f64]>> = sensors
        .iter()
        .map(|samples| samples.as_slice().into())
        .collect();
    move || {
        let scan = |k: usize| Plan::scan(Pushed::in_batches(sensors[k].clone(), batch));
        result(&pipeline(std::array::from_fn(scan)).expect("a plan"))
    }
}

/// PIPELINE over sensors in memory.
pub fn pipeline_scan(sensors: &[SharedRecording], segment: usize) -> Result<Plan, PlanError> {
    pipeline(std::array::from_fn(|k| {
        Plan::scan_part(sensors[k].clone(), None, segment as u64)
    }))
}

/// PIPELINE.
pub fn pipeline(scans: [Plan; SENSORS]) -> Result<Plan, PlanError> {
    let peaks = |k: usize| -> Result<Plan, PlanError> {
        let windows = scans[k].rewindow_every(LONG as u64, HOP as u64)?;
        windows
            .then::<Coefficients>(parameters())?
            .then::<Peaks>(parameters())
    };
    let others = (1..SENSORS).map(peaks).collect::<Result<Vec<_>, _>>()?;
    peaks(0)?.apply(&LeakDigest::DECLARATION, parameters(), &others)
}

/// STATFILTER with the common kernels, not the product's expressions.
pub fn stat_filter(samples: &SharedRecording, segment: usize) -> Result<Plan, PlanError> {
    let windows = Plan::scan_part(samples.clone(), None, segment as u64).rewindow(STAT as u64)?;
    windows
        .then::<Deviates>(parameters())?
        .then::<MeanBelow>(parameters())?
        .count()
}

/// SILENCEFILTER of one channel.
pub fn silence_filter(
    samples: &SharedRecording,
    segment: usize,
    end: End,
) -> Result<Plan, PlanError> {
    let scan = Plan::scan_part(samples.clone(), None, segment as u64);
    let control = scan.rewindow(STAT as u64)?.then::<Loud>(parameters())?;
    match end {
        End::Cut => control.then::<RangeDigest>(parameters()),
        End::Sync => {
            scan.sync(&[control])?
                .output(0)?
                .apply(&SelectedDigest::DECLARATION, parameters(), &[])
        }
    }
}

/// A chain of operators, whose first and last read every sample if `reads`.
pub fn chain(
    samples: &SharedRecording,
    segment: usize,
    operators: usize,
    reads: bool,
) -> Result<Plan, PlanError> {
    let mut plan = Plan::scan_part(samples.clone(), None, segment as u64);
    let ends = if reads { 2 } else { 0 };
    if reads {
        plan = plan.then::<Read>(parameters())?;
    }
    for _ in ends..operators {
        plan = plan.passthrough()?;
    }
    if reads {
        plan = plan.then::<Read>(parameters())?;
    }
    plan.count()
}
