//! Stored signals of a few stretches, and expected results by loops.

use std::ops::Range;

use isochrony_flow::{Plan, PlanOutput, StoredRecording};
use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, Signal, SignalWriter, Store};
use isochrony_time::{Fixed, Rate, Stamp};
use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

pub(crate) const SECOND: i64 = 1_000_000_000;
pub(crate) const T0: i64 = 1_267_401_600 * SECOND;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Discontinuity {
    Gap(i64),
    Step,
}

pub(crate) struct Made {
    _folder: TempDir,
    pub(crate) store: Store,
    pub(crate) writer: SignalWriter,
    /// First index and samples of each gap-free stretch of one run.
    pub(crate) stretches: Vec<(i64, Vec<i16>)>,
}

impl Made {
    pub(crate) fn new(history: &[(usize, Discontinuity)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
        let mut options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
        options.start = Some(Fixed::from_int(T0));
        let writer = store.create("stn/p", &options).unwrap();
        let mut stretches = Vec::new();
        let (mut back, mut stepped) = (0, false);
        for &(count, then) in history {
            let end = writer.signal().unwrap().end_index();
            let samples: Vec<i16> = (0..count as i64)
                .map(|k| ((end + k) * 37 % 601 - 300) as i16)
                .collect();
            let appended = if stepped {
                back += 3600 * SECOND;
                writer
                    .append_at(
                        &samples,
                        &Stamp::new(Fixed::from_int(T0 - back), Fixed::ZERO),
                    )
                    .unwrap()
            } else {
                writer.append(&samples).unwrap()
            };
            stretches.push((appended.index, samples));
            stepped = matches!(then, Discontinuity::Step);
            if let Discontinuity::Gap(samples) = then {
                writer.append_gap(samples).unwrap();
            }
        }
        store.commit(true).unwrap();
        Self {
            _folder: folder,
            store,
            writer,
            stretches,
        }
    }

    pub(crate) fn signal(&self) -> Signal {
        self.writer.signal().unwrap()
    }

    pub(crate) fn stored(&self) -> StoredRecording {
        StoredRecording::new(self.store.path(), self.signal())
    }

    pub(crate) fn plan(&self, range: Option<Range<i64>>, segment: u64) -> Plan {
        Plan::scan_part(
            isochrony_flow::SharedRecording::new(self.stored()),
            range,
            segment,
        )
    }

    /// On each stretch's own grid (`own`) or that of the samples read.
    pub(crate) fn windows(&self, range: &Range<i64>, window: i64, hop: i64, own: bool) -> Vec<i16> {
        let mut out = Vec::new();
        for (start, samples) in &self.stretches {
            let end = start + samples.len() as i64;
            let mut at = if own { *start } else { range.start.max(*start) };
            while at + window <= end {
                if at >= range.start && at + window <= range.end {
                    out.extend(&samples[(at - start) as usize..][..window as usize]);
                }
                at += hop;
            }
        }
        out
    }
}

pub(crate) fn values(gathered: &PlanOutput) -> Vec<i16> {
    gathered.array().unwrap().to_vec::<i16>().unwrap()
}

pub(crate) fn around() -> [(&'static str, serde_json::Value, f64); 4] {
    let centred =
        json!({"taps": [0.5, 1.0, 0.5, 1.0, 0.5], "method": "direct", "delay": "centred"});
    let thinned = json!({"down": 4, "attenuation_db": 20.0, "passband": 0.3, "edges": "steady"});
    [
        ("fir", centred, 0.0),
        ("resample", thinned, 0.0),
        ("running_quantile", json!({"window": 0.07, "q": 0.5}), 0.0),
        (
            "iir",
            json!({"band": "highpass", "cutoff_hz": 20.0, "order": 2}),
            1e-9,
        ),
    ]
}

pub(crate) fn history() -> impl Strategy<Value = Vec<(usize, Discontinuity)>> {
    let then = prop_oneof![
        (1i64..40).prop_map(Discontinuity::Gap),
        Just(Discontinuity::Step),
    ];
    prop::collection::vec((1usize..120, then), 1..6)
}
