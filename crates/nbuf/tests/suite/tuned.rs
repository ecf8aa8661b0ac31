//! Tuned executions: same output, fixed options kept, and results of tuning.

use std::io::{self, Read};
use std::time::Duration;

use isochrony_nbuf::{
    BlockProcessor, BufferOutput, Cause, Framing, Input, NativeProcessors, Options, Order, Output,
    PerRecord, Report, TuningMode,
};
use isochrony_tune::{Configuration, Outcome};

use crate::common::{numbers, run_unwatched};

const RECORD: usize = 4096;

/// 4 KiB each, generated on reading, so their number is unknown.
struct NumberedReader {
    at: usize,
    records: usize,
}

impl Read for NumberedReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = into.len().min(self.records * RECORD - self.at);
        for (byte, at) in into[..count].iter_mut().zip(self.at..) {
            let number = ((at / RECORD) as u64).to_le_bytes();
            *byte = number.get(at % RECORD).copied().unwrap_or(0);
        }
        self.at += count;
        Ok(count)
    }
}

fn records(records: usize) -> Vec<Input<'static>> {
    vec![Input::reader(NumberedReader { at: 0, records })]
}

fn options(order: Order, tuning: TuningMode) -> Options {
    Options {
        order,
        memory: 4_000_000,
        framing: Framing::Stride(RECORD),
        tuning: Some(tuning),
        ..Options::default()
    }
}

fn every_third() -> impl BlockProcessor {
    PerRecord(
        |record: &[u8], out: &mut BufferOutput<'_>| -> Result<(), Cause> {
            std::thread::sleep(Duration::from_micros(50));
            let number = u64::from_le_bytes(record[..8].try_into()?);
            if number.is_multiple_of(3) {
                out.write(0, &record[..8])?;
            }
            Ok(())
        },
    )
}

fn configuration(workers: usize, bytes: u64) -> Configuration {
    Configuration {
        workers,
        replicas: Vec::new(),
        link_bytes: vec![bytes],
        task_bytes: 0,
        batch_tasks: 0,
    }
}

fn busy_workers(report: &Report) -> usize {
    (report.workers.iter())
        .filter(|worker| worker.bytes > 0)
        .count()
}

#[test]
fn output_is_the_same_while_workers_and_buffers_change() {
    for order in [Order::Output, Order::None] {
        let mut written = Vec::new();
        let outputs = vec![Output::writer(&mut written)];
        let count = 60_000;
        // A second worker promises so much that it is tried at once, however long the run may last.
        let start = TuningMode::ChangeFrom(configuration(1, 65536));
        let options = options(order, start);
        let report = run_unwatched(&options, records(count), &every_third(), outputs);
        let report = report.expect("no error");
        let tuning = report.tuning.expect("it was tuned");
        assert!(!tuning.decisions.is_empty(), "nothing was tried");
        let tried = |value: fn(&Configuration) -> u64| {
            let decisions = tuning.decisions.iter();
            decisions
                .filter(|one| value(&one.from) != value(&one.to))
                .count()
        };
        let tries = tried(|one| one.workers as u64) + tried(|one| one.link_bytes[0]);
        assert!(tries > 0, "{:?}", tuning.decisions);
        let mut found = numbers(&written);
        if order == Order::None {
            found.sort_unstable();
        }
        let expected: Vec<u64> = (0..count as u64).step_by(3).collect();
        assert!(found == expected, "{order:?}: other output");
        assert_eq!(report.records, count as u64);
        assert_eq!(report.bytes, (count * RECORD) as u64);
    }
}

#[test]
fn workers_that_help_are_added() {
    let start = configuration(1, 65536);
    let options = Options {
        buffer: Some(65536),
        ..options(Order::None, TuningMode::ChangeFrom(start))
    };
    // So that workers help on any machine.
    let report = run_unwatched(&options, records(40_000), &every_third(), vec![]);
    let report = report.expect("no error");
    let tuning = report.tuning.as_ref().expect("it was tuned");
    let first = &tuning.decisions[0];
    assert_eq!(first.outcome, Outcome::Kept, "{:?}", tuning.decisions);
    assert_eq!(first.from, configuration(1, 65536));
    assert!(first.to.workers > 1 && first.predicted_gain.is_some());
    assert!(busy_workers(&report) > 1);
    // The buffer was given.
    assert!((tuning.decisions.iter()).all(|one| one.to.link_bytes == [65536]));
}

#[test]
fn an_applied_configuration_is_that_of_the_run_and_stays() {
    let options = options(Order::Both, TuningMode::Apply(configuration(1, 98_304)));
    let report = run_unwatched(&options, records(500), &every_third(), vec![]).expect("no error");
    assert_eq!(report.buffer_bytes, 98_304);
    assert!(report.workers.len() > 1);
    assert_eq!(busy_workers(&report), 1, "{:?}", report.workers);
    let tuning = report.tuning.expect("it was tuned");
    assert_eq!(tuning.configuration, Some(configuration(1, 98_304)));
    assert!(tuning.decisions.is_empty());
    // Except for the ramp of four buffers.
    let rest = 500 - (2 + 4 + 9 + 19);
    assert_eq!(report.buffers, 4 + (rest as u64).div_ceil(24));
}

#[test]
fn a_configuration_that_the_run_cannot_have_is_refused() {
    for (given, message) in [
        (
            configuration(1000, 65536),
            "1000 workers and buffers of 65536 bytes",
        ),
        (
            configuration(1, 1 << 30),
            "1 workers and buffers of 1073741824 bytes",
        ),
        (
            Configuration {
                link_bytes: vec![1, 2],
                ..configuration(1, 65536)
            },
            "2 sizes of buffers",
        ),
    ] {
        let options = options(Order::Both, TuningMode::Apply(given));
        let failure = run_unwatched(&options, records(10), &every_third(), vec![]);
        let failure = failure.expect_err("it does not fit");
        let text = failure.error.to_string();
        assert!(text.starts_with("tune=a configuration with "), "{text}");
        assert!(text.contains(message), "{text}");
    }
}

#[test]
fn buffers_stay_where_output_shows_them() {
    let compressed = |tuning| {
        let options = Options {
            tuning,
            memory: 100_000_000,
            ..options(Order::Both, TuningMode::Measure)
        };
        let native = NativeProcessors::parse(&["zstd:1"]).expect("there is such a processor");
        let mut written = Vec::new();
        let outputs = vec![Output::writer(&mut written)];
        let report = run_unwatched(&options, records(60_000), &native, outputs).expect("no error");
        (written, report)
    };
    let (plain, untuned) = compressed(None);
    let (tuned, report) = compressed(Some(TuningMode::Change));
    assert!(plain == tuned, "other bytes");
    assert_eq!(report.buffer_bytes, untuned.buffer_bytes);
    assert!(untuned.tuning.is_none());
    let smaller = configuration(1, 65536);
    let options = Options {
        memory: 100_000_000,
        ..options(Order::Both, TuningMode::Apply(smaller))
    };
    let native = NativeProcessors::parse(&["zstd:1"]).expect("there is such a processor");
    let failure = run_unwatched(&options, records(10), &native, vec![]);
    let text = failure
        .expect_err("other frames would be made")
        .error
        .to_string();
    assert!(text.contains("buffers of 1048576 bytes, which"), "{text}");
}
