//! Figure 7: DETECTAUDIO under rising offered load, without and with rate control at the sources.
//!
//! Sources copy what has arrived into segments, ten milliseconds each. Without rate control they push all of it; with
//! it, at most [`BURST`] segments each when everything before is worked off. Throughput is the whole recording over the
//! time until the last sample is through. The product always controls its sources.

use std::cell::Cell;
use std::sync::Arc;

use isochrony::SigSeg;
use serde_json::{Value, json};

use crate::data::{CHANNELS, SEGMENT, audio, detect_audio};
use crate::engine::{Boxed, Engine, Scheduler};
use crate::measure::{Contestant, contest, rates, show};
use crate::memory::stream;
use crate::models::{End, Flow, segments};
use crate::product::{self, Clock, Pushed};

const BURST: usize = 16;
/// Scheduler's decisions between two looks at the clock.
const DECISIONS: usize = 16;
const PRODUCT: &str = "Isochrony";

fn segment(samples: &[f32], start: usize) -> SigSeg {
    let part = &samples[start..samples.len().min(start + SEGMENT)];
    SigSeg::from_slice(part, start as i64, stream()).expect("memory")
}

/// Gives the result, and the most messages that waited at once.
fn run_at(channels: &[Vec<f32>], scheduler: Scheduler, load: f64, controlled: bool) -> (u64, u64) {
    let query = segments::detect_audio(End::Sync);
    let mut engine: Engine<Flow<SigSeg>, Boxed<_>> = Engine::new(query.graph, scheduler);
    let (total, clock) = (channels[0].len(), Clock::default());
    let (mut at, mut due, mut idle) = (0, 0, true);
    while at < total || !idle {
        if at < total && (idle || !controlled) {
            if at + SEGMENT > due {
                due = ((clock.seconds() * load) as usize).min(total);
            }
            let mut admitted = 0;
            while at < total
                && (at + SEGMENT).min(total) <= due
                && !(controlled && admitted == BURST)
            {
                for (channel, samples) in channels.iter().enumerate() {
                    engine.offer(channel, Flow::Data(segment(samples, at)));
                }
                at += SEGMENT;
                admitted += 1;
            }
        }
        idle = (0..DECISIONS).any(|_| !engine.step());
    }
    (engine.result(query.sink), engine.peak())
}

/// Every scheduler at every load.
pub fn run(quick: bool) -> Value {
    let count = if quick { 1 << 17 } else { 1 << 21 };
    let channels = audio(CHANNELS, count);
    let shared: Vec<Arc<[f32]>> = channels
        .iter()
        .map(|samples| samples.as_slice().into())
        .collect();
    let expected = detect_audio(&channels);
    // Millions of samples a second, of all channels; the last is all at once.
    let loads: &[f64] = if quick {
        &[200.0, 1e6]
    } else {
        &[50.0, 100.0, 200.0, 300.0, 400.0, 600.0, 1000.0, 2000.0, 1e6]
    };
    let schedulers = 2 * Scheduler::ALL.len();
    let peaks: Vec<Cell<u64>> = (0..schedulers * loads.len())
        .map(|_| Cell::new(0))
        .collect();
    // All loads take turns, too, so that a busy moment of the machine makes no step in a curve.
    let mut contestants = Vec::new();
    for (&load, peaks) in loads.iter().zip(peaks.chunks(schedulers)) {
        let each = load * 1e6 / CHANNELS as f64;
        let (own, copied) = (&channels, &shared);
        for (k, scheduler) in Scheduler::ALL.into_iter().enumerate() {
            for controlled in [false, true] {
                let peak = &peaks[2 * k + usize::from(controlled)];
                let name = format!(
                    "{}{}",
                    scheduler.name(),
                    if controlled { ", rate control" } else { "" }
                );
                contestants.push(Contestant::new(name, move || {
                    let (result, most) = run_at(own, scheduler, each, controlled);
                    peak.set(most);
                    result
                }));
            }
        }
        contestants.push(Contestant::new(PRODUCT, move || {
            let clock = Clock::default();
            let scan = |k: usize| {
                let pushed = Pushed::at_load(copied[k].clone(), each, clock.clone());
                isochrony::flow::Plan::scan(pushed)
            };
            product::result(
                &product::detect_audio(std::array::from_fn(scan), End::Sync).expect("a plan"),
            )
        }));
    }
    let rounds = if quick { 1 } else { 5 };
    let times = contest("load", rounds, expected, &mut contestants);
    let each = times.chunks(schedulers + 1).zip(peaks.chunks(schedulers));
    let points = loads.iter().zip(each).map(|(&load, (times, peaks))| {
        let rates = rates(times, (CHANNELS * count) as u64, PRODUCT);
        show(&format!("load/{load}"), &rates);
        let waited: Vec<u64> = peaks.iter().map(Cell::get).collect();
        json!({"load": load, "rates": rates, "most_waiting": waited})
    });
    json!(points.collect::<Vec<_>>())
}
