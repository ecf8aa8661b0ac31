//! Figure 7: DETECTAUDIO and PIPELINE under rising load, with and without rate control at the sources.
//!
//! Without rate control, sources push all arrived samples; with it, at most [`BURST`] segments each when everything
//! before is done. Throughput is the whole recording over the time until the last sample is through.

use std::cell::Cell;
use std::sync::Arc;

use isochrony::flow::{Plan, PlanError};
use isochrony::{Sample, SigSeg};
use serde_json::{Value, json};

use crate::data::{self, CHANNELS, SEGMENT, audio, vibration};
use crate::engine::{Boxed, Engine, Scheduler};
use crate::measure::{Contestant, contest, rates, show};
use crate::memory::stream;
use crate::models::{End, Flow, Query, segments};
use crate::product::{self, Clock, Pushed};

const BURST: usize = 16;
/// Scheduler's decisions between readings of the clock.
const DECISIONS: usize = 16;
const PRODUCT: &str = "Isochrony";

struct Application<T> {
    name: &'static str,
    channels: Vec<Vec<T>>,
    expected: u64,
    query: fn() -> Query<SigSeg>,
    /// From a scan of each channel.
    plan: fn(&mut dyn FnMut(usize) -> Plan) -> Result<Plan, PlanError>,
    /// Millions of samples per second, all channels.
    loads: &'static [f64],
}

/// All at once.
const EVERYTHING: f64 = 1e6;

fn segment<T: Sample>(samples: &[T], start: usize) -> SigSeg {
    let part = &samples[start..samples.len().min(start + SEGMENT)];
    SigSeg::from_slice(part, start as i64, stream()).expect("memory")
}

impl<T: Sample> Application<T> {
    /// Returns the result, and the most messages that waited at once.
    fn run_at(&self, scheduler: Scheduler, load: f64, controlled: bool) -> (u64, u64) {
        let query = (self.query)();
        let mut engine: Engine<Flow<SigSeg>, Boxed<_>> = Engine::new(query.graph, scheduler);
        let (total, clock) = (self.channels[0].len(), Clock::default());
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
                    for (channel, samples) in self.channels.iter().enumerate() {
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

    fn points(&self, rounds: usize) -> Value {
        let shared: Vec<Arc<[T]>> = self
            .channels
            .iter()
            .map(|samples| samples.as_slice().into())
            .collect();
        let loads: Vec<f64> = self.loads.iter().copied().chain([EVERYTHING]).collect();
        let schedulers = 2 * Scheduler::ALL.len();
        let peaks: Vec<Cell<u64>> = (0..schedulers * loads.len())
            .map(|_| Cell::new(0))
            .collect();
        // Loads take turns, too, so that a busy machine makes no step in a curve.
        let mut contestants = Vec::new();
        for (&load, peaks) in loads.iter().zip(peaks.chunks(schedulers)) {
            let each = load * 1e6 / self.channels.len() as f64;
            for (k, scheduler) in Scheduler::ALL.into_iter().enumerate() {
                for controlled in [false, true] {
                    let peak = &peaks[2 * k + usize::from(controlled)];
                    let name = format!(
                        "{}{}",
                        scheduler.name(),
                        if controlled { ", rate control" } else { "" }
                    );
                    contestants.push(Contestant::new(name, move || {
                        let (result, most) = self.run_at(scheduler, each, controlled);
                        peak.set(most);
                        result
                    }));
                }
            }
            let copied = &shared;
            contestants.push(Contestant::new(PRODUCT, move || {
                let clock = Clock::default();
                let mut scan =
                    |k: usize| Plan::scan(Pushed::at_load(copied[k].clone(), each, clock.clone()));
                product::result(&(self.plan)(&mut scan).expect("a plan"))
            }));
        }
        let times = contest(self.name, rounds, self.expected, &mut contestants);
        let samples = (self.channels.len() * self.channels[0].len()) as u64;
        let each = times.chunks(schedulers + 1).zip(peaks.chunks(schedulers));
        let points = loads.iter().zip(each).map(|(&load, (times, peaks))| {
            let rates = rates(times, samples, PRODUCT);
            show(&format!("load/{}/{load}", self.name), &rates);
            let waited: Vec<u64> = peaks.iter().map(Cell::get).collect();
            json!({"load": load, "rates": rates, "most_waiting": waited})
        });
        json!(points.collect::<Vec<_>>())
    }
}

/// Both applications.
pub fn run(quick: bool) -> Value {
    let rounds = if quick { 1 } else { 5 };
    let channels = audio(CHANNELS, if quick { 1 << 17 } else { 1 << 21 });
    let detect = Application {
        name: "detectaudio",
        expected: data::detect_audio(&channels),
        channels,
        query: || segments::detect_audio(End::Sync),
        plan: |scan| product::detect_audio(std::array::from_fn(scan), End::Sync),
        loads: if quick {
            &[200.0]
        } else {
            &[50.0, 100.0, 200.0, 300.0, 400.0, 600.0, 1000.0, 2000.0]
        },
    };
    let sensors = vibration(if quick { 1 << 15 } else { 1 << 19 });
    let pipeline = Application {
        name: "pipeline",
        expected: data::pipeline(&sensors),
        channels: sensors,
        query: segments::pipeline,
        plan: |scan| product::pipeline(std::array::from_fn(scan)),
        loads: if quick {
            &[50.0]
        } else {
            &[20.0, 40.0, 60.0, 80.0, 100.0, 150.0, 200.0, 400.0]
        },
    };
    json!({"detectaudio": detect.points(rounds), "pipeline": pipeline.points(rounds)})
}
