//! Settling operators with a tolerance on single-pass streams.

#![allow(clippy::single_range_in_vec_init)]

use std::cell::Cell;
use std::ops::Range;

use isochrony_expr::Expr;
use isochrony_flow::{
    Clock, OpError, Plan, PlanOutput, PortType, Recording, Report, RunOptions, Segments,
    SharedRecording, Source, SourceEvent,
};
use isochrony_segment::SigSeg;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::sync::Arc;
use std::task::Waker;

use crate::common::channels::{channel, segments};
use crate::common::made::{Discontinuity, Made};
use crate::common::plans::{named, plan, settling, steps};

const CASES: u32 = 240;
const TOLERANCE: f64 = 1e-3;

struct ArrivingRecording {
    recording: Segments,
    /// After so many events, repeatedly; 0: never.
    idle: usize,
}

struct ArrivingSource {
    source: Box<dyn Source>,
    idle: usize,
    events: usize,
    waker: Option<Waker>,
}

impl Recording for ArrivingRecording {
    fn port(&self) -> PortType {
        self.recording.port()
    }

    fn open(&self, range: Option<Range<i64>>, segment: u64) -> Result<Box<dyn Source>, OpError> {
        let source = self.recording.open(range, segment)?;
        let (idle, events) = (self.idle, 0);
        Ok(Box::new(ArrivingSource {
            source,
            idle,
            events,
            waker: None,
        }))
    }

    fn is_splittable(&self) -> bool {
        false
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.recording.clock()
    }
}

impl Source for ArrivingSource {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        self.events += 1;
        if self.idle > 0 && self.events.is_multiple_of(self.idle + 1) {
            self.waker.iter().for_each(Waker::wake_by_ref);
            return Ok(SourceEvent::Idle);
        }
        self.source.pull()
    }

    fn set_waker(&mut self, waker: &Waker) {
        self.waker = Some(waker.clone());
    }
}

fn arriving(stretches: &[Range<i64>], cut: i64, idle: usize) -> Plan {
    arriving_segments(segments(0, stretches, cut), idle)
}

fn arriving_segments(recording: Segments, idle: usize) -> Plan {
    Plan::scan_part(
        SharedRecording::new(ArrivingRecording { recording, idle }),
        None,
        1 << 20,
    )
}

/// What is stored, in pieces of some length.
fn in_memory(made: &Made, cut: usize) -> Segments {
    let stream = made.stored().port().stream_id().unwrap();
    let stretches = made.stretches.iter();
    let pieces = stretches.flat_map(|(first, samples)| {
        let starts = (*first..).step_by(cut);
        starts.zip(samples.chunks(cut))
    });
    Segments::new(pieces.map(|(start, piece)| SigSeg::from_slice(piece, start, stream).unwrap()))
        .unwrap()
}

fn run(plan: &Plan, workers: usize, tolerance: f64, task: u64) -> (PlanOutput, Report) {
    run_shuffled(plan, workers, tolerance, task, 0)
}

/// Links and replicas change at random, unless `seed` is 0.
fn run_shuffled(
    plan: &Plan,
    workers: usize,
    tolerance: f64,
    task: u64,
    seed: u64,
) -> (PlanOutput, Report) {
    let mut options = RunOptions::default();
    (options.workers, options.tolerance, options.task) = (workers, tolerance, task);
    options.stages.cell_bytes = task;
    options.stages.helpers_after_us = 0;
    if seed > 0 {
        options.stages.burst_bytes = 1 << (seed % 12);
        options.stages.link_bytes = 1 << (seed / 12 % 16);
        options.stages.shuffle = Some(seed);
    }
    plan.collect_with(&options).unwrap()
}

fn stretches() -> impl Strategy<Value = Vec<Range<i64>>> {
    prop::collection::vec((1i64..900, 1i64..60), 1..6).prop_map(|pairs| {
        let mut next = 3;
        let ranges = pairs.into_iter().map(|(len, gap)| {
            let start = next;
            next = start + len + gap;
            start..start + len
        });
        ranges.collect()
    })
}

#[test]
fn what_settles_has_the_same_bits_however_samples_arrive() {
    let given = (
        (stretches(), steps(), 0..settling().len(), steps()),
        (1i64..300, 1i64..300, 0usize..5, 0usize..5),
        (1u64..3000, 1u64..100_000),
    );
    let (in_cells, differ) = (Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(CASES));
    let ran = runner.run(
        &given,
        |(
            (stretches, before, settles, behind),
            (cut, other_cut, idle, other_idle),
            (task, seed),
        )| {
            let made = |cut, idle| {
                let first = plan(arriving(&stretches, cut, idle), &before);
                let settled = named(&first, &settling()[settles]).ok()?;
                Some(plan(settled, &behind))
            };
            let Some(plan) = made(cut, idle) else {
                return Ok(());
            };
            let (one, report) = run(&plan, 1, TOLERANCE, task);
            in_cells.set(in_cells.get() + u32::from(!report.stages.is_empty()));
            differ.set(differ.get() + u32::from(run(&plan, 1, 0.0, task).0 != one));
            for workers in [2, 3, 8] {
                let (many, _) =
                    run_shuffled(&plan, workers, TOLERANCE, task, seed + workers as u64);
                prop_assert_eq!(&many, &one, "{} workers\n{}", workers, plan.explain());
            }
            let other = made(other_cut, other_idle).expect("it was made before");
            let (other, _) = run(&other, 2, TOLERANCE, task);
            prop_assert_eq!(&other, &one, "arrived otherwise\n{}", plan.explain());
            Ok(())
        },
    );
    ran.unwrap_or_else(|error| panic!("{error}"));
    // Else it would test nothing.
    assert!(in_cells.get() > CASES / 5, "{} of {CASES}", in_cells.get());
    assert!(differ.get() > CASES / 24, "{} of {CASES}", differ.get());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_arrives_has_the_bits_of_what_is_stored(
        len in 1i64..5000, cut in 1i64..700, idle in 0usize..4, settles in 0..settling().len(), task in 1u64..4000,
    ) {
        let stretches = [5..5 + len];
        let stored = Plan::scan_part(channel(0, &stretches, len), None, 1);
        let Ok(stored) = named(&stored, &settling()[settles]) else {
            return Ok(());
        };
        let arrives = named(&arriving(&stretches, cut, idle), &settling()[settles]).unwrap();
        let (stored, _) = run(&stored, 1, TOLERANCE, task);
        for workers in [1, 2] {
            prop_assert_eq!(&run(&arrives, workers, TOLERANCE, task).0, &stored);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    /// Cells go on over gaps, wherever samples come from.
    #[test]
    fn a_gap_begins_no_cell_of_what_is_stored_in_memory_or_arrives(
        lengths in prop::collection::vec((1usize..400, 1i64..60), 2..7), first in steps(), settles in 0..settling().len(),
        cut in 1usize..300, idle in 0usize..4, (task, workers) in (1u64..3000, 1usize..4), two in any::<bool>(),
    ) {
        let history = lengths.iter().map(|&(len, gap)| (len, Discontinuity::Gap(gap)));
        let made = Made::new(&history.collect::<Vec<_>>());
        let settled = |source: &Plan| {
            let source = plan(source.clone(), &first);
            named(&source, &settling()[settles]).ok()
        };
        let memory = || Plan::scan_part(SharedRecording::new(in_memory(&made, cut)), None, 64);
        let stored = || made.plan(None, 64);
        // Of one recording, or of two that are read together.
        let apart = |a: Plan, b: Plan| a.map_with(&(Expr::input() - Expr::input_at(1) * 0.5), &[b]);
        let (stored, memory) = match two {
            false => (stored(), memory()),
            true => match (apart(stored(), stored()), apart(memory(), memory())) {
                (Ok(stored), Ok(memory)) => (stored, memory),
                _ => return Ok(()),
            },
        };
        let (Some(stored), Some(memory)) = (settled(&stored), settled(&memory)) else {
            return Ok(());
        };
        let expected = run(&stored, 1, TOLERANCE, task).0;
        prop_assert_eq!(&run(&stored, workers, TOLERANCE, task).0, &expected);
        prop_assert_eq!(&run(&memory, workers, TOLERANCE, task).0, &expected, "{}", memory.explain());
        if !two {
            let arrives = settled(&arriving_segments(in_memory(&made, cut), idle)).unwrap();
            prop_assert_eq!(&run(&arrives, workers, TOLERANCE, task).0, &expected, "{}", arrives.explain());
        }
    }
}

fn samples(output: &PlanOutput) -> Vec<f64> {
    output.array().and_then(|array| array.to_vec()).unwrap()
}

#[test]
fn cells_are_within_the_tolerance_and_replicas_share_them() {
    let source = || {
        arriving(&[0..400_000], 10_000, 0)
            .map(&(Expr::input() * 1.0))
            .unwrap()
    };
    let plan = named(&source(), &settling()[0]).unwrap();
    let (exact, report) = run(&plan, 1, 0.0, 1 << 15);
    assert!(report.stages.is_empty());
    let (one, report) = run(&plan, 1, TOLERANCE, 1 << 15);
    assert_eq!(
        report
            .stages
            .iter()
            .filter(|stage| stage.replica.is_some())
            .count(),
        1
    );
    let (exact, one) = (samples(&exact), samples(&one));
    let largest = exact
        .iter()
        .fold(0.0, |largest: f64, value| largest.max(value.abs()));
    let apart = exact
        .iter()
        .zip(&one)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f64::max);
    assert!(
        apart > 0.0 && apart < TOLERANCE * largest,
        "{apart} of {largest}"
    );
    let (none, report) = run(&plan, 1, 1e-30, 1 << 15);
    assert!(report.stages.is_empty() && samples(&none) == exact);
    let (_, report) = run(&plan, 2, TOLERANCE, 1 << 15);
    let replicas = report
        .stages
        .iter()
        .filter(|stage| stage.replica == Some(1));
    assert!(replicas.count() > 0);
}
