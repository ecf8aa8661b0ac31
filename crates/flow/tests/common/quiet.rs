//! Stored signals that are quiet except for a few loud stretches, long enough to have views.

use isochrony_flow::StoredRecording;
use isochrony_segment::{Bool8, DType};
use isochrony_store::{CreateOptions, Mode, Signal, SignalWriter, Store};
use isochrony_time::Rate;
use proptest::prelude::*;
use tempfile::TempDir;

/// Exceeded by loud samples of more than 8 bits, in counts.
pub(crate) const LIMIT: f64 = 1000.0;

fn limit(dtype: DType) -> f64 {
    match dtype.size() {
        1 => 100.0,
        _ => LIMIT,
    }
}

/// Stretches with the gaps after them; None: a clock step.
#[derive(Debug, Clone)]
pub(crate) struct QuietHistory {
    pub(crate) stretches: Vec<(usize, Option<i64>)>,
    pub(crate) loud: Vec<(f64, usize, bool)>,
    pub(crate) not_finite: Vec<f64>,
    pub(crate) seed: u64,
}

impl QuietHistory {
    /// Scales a history of 16-bit samples to as many bytes of another dtype.
    pub(crate) fn of(mut self, dtype: DType) -> Self {
        for (count, _) in &mut self.stretches {
            *count = (*count * 2 / dtype.size()).max(1);
        }
        self
    }
}

/// Of 16-bit samples.
pub(crate) fn history() -> impl Strategy<Value = QuietHistory> {
    let stretch = (1usize..400_000, prop::option::weighted(0.7, 0i64..30_000));
    (
        prop::collection::vec(stretch, 1..5),
        prop::collection::vec((0.0f64..1.0, 1usize..9000, any::<bool>()), 0..6),
        prop::collection::vec(0.0f64..1.0, 0..4),
        any::<u64>(),
    )
        .prop_map(|(mut stretches, loud, not_finite, seed)| {
            stretches[0].0 += 2_200_000;
            QuietHistory {
                stretches,
                loud,
                not_finite,
                seed,
            }
        })
}

fn values(history: &QuietHistory, total: usize, limit: f64) -> Vec<f64> {
    let mut state = history.seed;
    let mut noise = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as f64 / (1u64 << 24) as f64 - 0.5
    };
    let mut values: Vec<f64> = (0..total).map(|_| (noise() * 100.0).round()).collect();
    let at = |share: f64| (share * total as f64) as usize;
    for &(share, length, is_low) in &history.loud {
        for value in values[at(share)..].iter_mut().take(length) {
            // Some are the limit itself, some lie beyond 8 or 16 bits.
            let size = limit * (1.0 + (noise().abs() * 80.0).floor());
            *value = if is_low { -size } else { size };
        }
    }
    for (nth, &share) in history.not_finite.iter().enumerate() {
        values[at(share)] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][nth % 3];
    }
    values
}

fn append(writer: &SignalWriter, dtype: DType, values: &[f64]) {
    macro_rules! as_type {
        ($type:ty) => {
            writer.append(
                &values
                    .iter()
                    .map(|&value| value as $type)
                    .collect::<Vec<_>>(),
            )
        };
    }
    let appended = match dtype {
        DType::Bool => {
            let is_loud = values.iter().map(|value| value.abs() >= limit(dtype));
            writer.append(&is_loud.map(Bool8::from).collect::<Vec<_>>())
        }
        DType::I8 => as_type!(i8),
        DType::U8 => as_type!(u8),
        DType::I16 => as_type!(i16),
        DType::U16 => as_type!(u16),
        DType::I32 => as_type!(i32),
        DType::U32 => as_type!(u32),
        DType::I64 => as_type!(i64),
        DType::F32 => as_type!(f32),
        _ => as_type!(f64),
    };
    appended.unwrap();
}

pub(crate) struct QuietRecording {
    _folder: TempDir,
    pub(crate) store: Store,
    pub(crate) writer: SignalWriter,
    calibration: Option<(f64, f64)>,
}

impl QuietRecording {
    pub(crate) fn new(
        dtype: DType,
        history: &QuietHistory,
        calibration: Option<(f64, f64)>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
        let mut options = CreateOptions::new(dtype, Rate::from_hz(100).unwrap());
        options.calibration = calibration;
        let writer = store.create("stn/p", &options).unwrap();
        let total: usize = history.stretches.iter().map(|(count, _)| count).sum();
        let values = values(history, total, limit(dtype));
        let mut at = 0;
        for &(count, gap) in &history.stretches {
            let part = &values[at..at + count];
            append(&writer, dtype, part);
            match gap {
                None => drop(writer.begin_run().unwrap()),
                Some(0) => {}
                Some(gap) => drop(writer.append_gap(gap).unwrap()),
            }
            at += count;
        }
        store.commit(true).unwrap();
        Self {
            _folder: folder,
            store,
            writer,
            calibration,
        }
    }

    pub(crate) fn signal(&self) -> Signal {
        self.writer.signal().unwrap()
    }

    pub(crate) fn stored(&self) -> StoredRecording {
        StoredRecording::new(self.store.path(), self.signal())
    }

    pub(crate) fn limit(&self) -> f64 {
        let (scale, _) = self.calibration.unwrap_or((1.0, 0.0));
        match self.signal().dtype() {
            DType::Bool => 0.5,
            dtype => limit(dtype) * scale.abs(),
        }
    }
}
