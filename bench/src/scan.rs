//! store/scan: windowed minimum, maximum and mean of an open signal against a bare loop over the same mapped bytes, in one
//! thread and in two.

use std::hint::black_box;
use std::path::Path;

use isochrony::flow::RunOptions;
use isochrony::flow::arrow::array::cast::AsArray;
use isochrony::flow::arrow::array::types::{Float64Type, Int64Type};
use isochrony::prelude::*;

use crate::measure::{Results, interleave, noise, ratio};

const WINDOW: usize = 120_000;

pub fn run(
    dir: &Path,
    quick: bool,
    results: &mut Results,
) -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::open(dir.join("scan.iso"), Mode::Create)?;
    let writer = store.create("s", &CreateOptions::new(DType::I16, Rate::from_hz(2000)?))?;
    let block = noise(1, 8 << 20);
    let blocks = if quick { 1 } else { 64 };
    for _ in 0..blocks {
        writer.append(&block)?;
    }
    store.commit(true)?;
    let signal = store.signal("s")?;
    let end = signal.end_index();
    let bytes = end.unsigned_abs() * 2;
    let select = || signal.select(0..end).expect("a selection");

    let segments: Vec<SigSeg> = select().segments().collect::<Result<_, _>>()?;
    let whole: Vec<&[i16]> = segments
        .iter()
        .flat_map(SigSeg::buffers)
        .map(|buffer| buffer.samples::<i16>().expect("i16"))
        .collect();
    assert_eq!(
        whole.iter().map(|slice| slice.len()).sum::<usize>() as i64,
        end
    );
    let bare = || by_hand(&whole);
    let plan = Plan::scan(StoredRecording::new(store.path(), signal.clone()))
        .rewindow(WINDOW as u64)?
        .stats([Stat::Min, Stat::Max, Stat::Mean])?;
    let ours = || match plan.collect() {
        Ok(PlanOutput::Rows(table)) => table,
        other => panic!("statistics are rows: {other:?}"),
    };
    let expected = bare();
    let table = ours();
    let integers = |name| {
        let column = table.column_by_name(name).expect("a column");
        column.as_primitive::<Int64Type>().values().to_vec()
    };
    let (min, max) = (integers("min"), integers("max"));
    let mean = table.column_by_name("mean").expect("a column");
    let mean = mean.as_primitive::<Float64Type>().values();
    assert_eq!(table.num_rows(), expected.len());
    for (k, (low, high, average)) in expected.iter().enumerate() {
        assert_eq!((min[k], max[k]), (i64::from(*low), i64::from(*high)));
        assert!((mean[k] - average).abs() < 1e-9);
    }
    let rounds = if quick { 3 } else { 15 };
    let (a, b) = interleave(rounds, || _ = black_box(ours()), || _ = black_box(bare()));
    let met = ratio(&a, &b) >= 0.95;
    results.compare(
        "store/scan/1GB/min-max-mean",
        &a,
        "a bare loop over the same mapped bytes",
        &b,
        Some(bytes),
        Some((">= 0.95", met)),
    );
    // Without it, the compiler assumes only SSE2.
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        let wide = || unsafe { by_hand_avx2(&whole) };
        assert_eq!(wide(), expected);
        let (a, b) = interleave(rounds, || _ = black_box(ours()), || _ = black_box(wide()));
        let met = ratio(&a, &b) >= 0.95;
        results.compare(
            "store/scan/1GB/min-max-mean",
            &a,
            "the same bare loop, compiled for AVX2",
            &b,
            Some(bytes),
            Some((">= 0.95", met)),
        );
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = cores.min(4);
        if workers > 1 {
            let mut options = RunOptions::default();
            options.workers = workers;
            for (size, end) in [("1GB", end), ("0.5GB", end / 2)] {
                let windows = end as usize / WINDOW;
                let part = signal.select(0..(windows * WINDOW) as i64)?;
                let plan = Plan::scan(StoredRecording::selection(store.path(), &part))
                    .rewindow(WINDOW as u64)?
                    .stats([Stat::Min, Stat::Max, Stat::Mean])?;
                let ours = || plan.collect_with(&options).expect("statistics");
                let bare = || by_threads(&whole, windows, workers);
                assert_eq!(bare(), expected[..windows]);
                let (a, b) = interleave(rounds, || _ = black_box(ours()), || _ = black_box(bare()));
                let met = ratio(&a, &b) >= 0.9;
                results.compare(
                    &format!("store/scan/{size}/min-max-mean/{workers}-workers"),
                    &a,
                    &format!("{workers} threads with that loop"),
                    &b,
                    Some((windows * WINDOW * 2) as u64),
                    Some((">= 0.9", met)),
                );
            }
        }
    }
    Ok(())
}

type Rows = Vec<(i16, i16, f64)>;

#[inline(always)]
fn by_hand(slices: &[&[i16]]) -> Rows {
    let mut table = Vec::new();
    let (mut min, mut max, mut sum, mut count) = (i16::MAX, i16::MIN, 0i64, 0usize);
    for mut slice in slices.iter().copied() {
        while !slice.is_empty() {
            let (part, rest) = slice.split_at(slice.len().min(WINDOW - count));
            slice = rest;
            // Sums of 32,768 samples fit 32 bits, so the compiler uses vectors.
            for part in part.chunks(32_768) {
                let (mut low, mut high, mut total) = (i16::MAX, i16::MIN, 0i32);
                for &x in part {
                    low = low.min(x);
                    high = high.max(x);
                    total += i32::from(x);
                }
                (min, max, sum) = (min.min(low), max.max(high), sum + i64::from(total));
            }
            count += part.len();
            if count == WINDOW {
                table.push((min, max, sum as f64 / WINDOW as f64));
                (min, max, sum, count) = (i16::MAX, i16::MIN, 0, 0);
            }
        }
    }
    table
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn by_hand_avx2(slices: &[&[i16]]) -> Rows {
    by_hand(slices)
}

/// The first windows, divided among threads that are started for them.
#[cfg(target_arch = "x86_64")]
fn by_threads(slices: &[&[i16]], windows: usize, threads: usize) -> Rows {
    std::thread::scope(|scope| {
        let parts: Vec<_> = (0..threads)
            .map(|thread| {
                let bound = |thread: usize| windows * thread / threads * WINDOW;
                let part = between(slices, bound(thread), bound(thread + 1));
                // SAFETY: the caller found AVX2.
                scope.spawn(move || unsafe { by_hand_avx2(&part) })
            })
            .collect();
        let rows = parts.into_iter().map(|part| part.join().expect("no panic"));
        rows.flatten().collect()
    })
}

/// Samples from one to another position.
#[cfg(target_arch = "x86_64")]
fn between<'a>(slices: &[&'a [i16]], from: usize, to: usize) -> Vec<&'a [i16]> {
    let mut at = 0;
    let parts = slices.iter().map(|slice| {
        let within = |position: usize| position.clamp(at, at + slice.len()) - at;
        let part = &slice[within(from)..within(to)];
        at += slice.len();
        part
    });
    parts.filter(|part| !part.is_empty()).collect()
}
