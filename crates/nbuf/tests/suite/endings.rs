//! Executions that fail: one error with place and cause, joined threads, and earlier output.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::common::{ORDERS, RECORD, numbered, numbers, options, run_unwatched};
use isochrony_nbuf::{
    BlockProcessor, BufferOutput, Cause, Identity, Input, NbufError, Options, Order, Output,
    PerRecord, RecordBlock, StreamFailure, run,
};

fn failing(
    at: u64,
    panics: bool,
) -> PerRecord<impl Fn(&[u8], &mut BufferOutput<'_>) -> Result<(), Cause> + Sync> {
    PerRecord(move |record: &[u8], out: &mut BufferOutput<'_>| {
        if record == at.to_le_bytes() {
            assert!(!panics, "record {at} is bad");
            return Err(format!("record {at} is bad").into());
        }
        Ok(out.write(0, record)?)
    })
}

#[test]
fn an_error_of_a_function_has_its_place_and_earlier_output_is_written() {
    let input = numbered(1000);
    for order in ORDERS {
        for workers in [1, 2, 5] {
            for (at, panics) in [(0, false), (500, false), (999, true)] {
                let mut output = Vec::new();
                let sinks = vec![Output::writer(&mut output)];
                let options = Options {
                    ramp: false,
                    ..options(order, workers, 10)
                };
                let done = run_unwatched(
                    &options,
                    vec![Input::reader(&*input)],
                    &failing(at, panics),
                    sinks,
                );
                let StreamFailure { error, report } = done.expect_err("a record is bad");
                let NbufError::Process {
                    offset,
                    length,
                    why,
                } = error
                else {
                    panic!("{error}")
                };
                let first = at / 10 * 10;
                // The record of a panic is unknown.
                let (begin, records) = if panics { (first, 10) } else { (at, 1) };
                let record = RECORD as u64;
                assert_eq!((offset, length), (begin * record, records * record));
                assert!(
                    why.to_string().contains(&format!("record {at} is bad")),
                    "{why}"
                );
                assert!(!report.complete);
                assert_eq!(
                    report.workers.len(),
                    workers,
                    "all workers have ended and report"
                );
                if order.writes_in_turn() {
                    assert_eq!(numbers(&output), (0..at).collect::<Vec<_>>());
                }
                assert_eq!(report.outputs[0].bytes, output.len() as u64);
            }
        }
    }
}

struct PanickingProcessor(&'static str);

impl BlockProcessor for PanickingProcessor {
    type Scratch = ();

    fn new_scratch(&self) {
        assert_ne!(self.0, "worker", "rotten");
    }

    fn execute(
        &self,
        (): &mut (),
        _: &RecordBlock<'_>,
        out: &mut BufferOutput<'_>,
    ) -> Result<(), Cause> {
        Ok(out.forward(0)?)
    }

    fn lanes(&self) -> usize {
        1
    }

    fn join(
        &self,
        _: usize,
        (): &mut (),
        block: &RecordBlock<'_>,
        _: &mut BufferOutput<'_>,
    ) -> Result<(), Cause> {
        assert!(self.0 != "join" || block.number < 5, "rotten");
        Ok(())
    }

    fn finish(&self, _: &mut dyn FnMut(&[u8])) -> Result<(), Cause> {
        assert_ne!(self.0, "finish", "rotten");
        Ok(())
    }
}

struct PanickingPipe;

impl Read for PanickingPipe {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        panic!("rotten")
    }
}

#[test]
fn a_panic_anywhere_is_an_error_and_nothing_hangs() {
    let input = numbered(1000);
    for order in ORDERS {
        for place in ["worker", "join", "finish"] {
            let mut output = Vec::new();
            let sinks = vec![Output::writer(&mut output)];
            let done = run_unwatched(
                &options(order, 3, 10),
                vec![Input::bytes(&input)],
                &PanickingProcessor(place),
                sinks,
            );
            let error = done.expect_err(place).error;
            assert!(error.to_string().contains("rotten"), "{place}: {error}");
        }
        let done = run_unwatched(
            &options(order, 3, 10),
            vec![Input::reader(PanickingPipe)],
            &Identity,
            vec![],
        );
        assert!(
            done.expect_err("it panics")
                .error
                .to_string()
                .contains("rotten")
        );
    }
}

struct FailingReader<'a>(&'a [u8]);

impl Read for FailingReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        self.0.read(into)
    }
}

#[test]
fn an_input_that_fails_is_named_with_the_offset_of_the_failure() {
    let input = numbered(105);
    for order in ORDERS {
        let mut output = Vec::new();
        let sinks = vec![Output::writer(&mut output)];
        let source = Input::reader(FailingReader(&input)).named("tape 7");
        let done = run_unwatched(
            &Options {
                ramp: false,
                ..options(order, 3, 10)
            },
            vec![source],
            &Identity,
            sinks,
        );
        let StreamFailure { error, report } = done.expect_err("it breaks");
        assert_eq!(
            error.io().and_then(io::Error::raw_os_error),
            Some(libc::EIO)
        );
        assert!(
            error
                .to_string()
                .contains(&format!("input 0 (tape 7) at byte {}", input.len())),
            "{error}"
        );
        assert!(!report.inputs[0].ended);
        let told = StreamFailure { error, report }.to_string();
        if order.writes_in_turn() {
            assert_eq!(numbers(&output), (0..105).collect::<Vec<_>>());
            let part = "; the output is incomplete: 840 bytes in writer";
            assert!(told.ends_with(part), "{told}");
        }
    }
}

#[test]
fn a_full_disk_is_named_with_how_much_was_written() {
    let input = numbered(100_000);
    for order in ORDERS {
        let full = OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .expect("it is there");
        let sink = Output::file(full).expect("a device").named("/dev/full");
        let done = run_unwatched(
            &options(order, 3, 100),
            vec![Input::bytes(&input)],
            &Identity,
            vec![sink],
        );
        let StreamFailure { error, report } = done.expect_err("it is full");
        assert_eq!(
            error.io().and_then(io::Error::raw_os_error),
            Some(libc::ENOSPC)
        );
        assert!(
            error
                .to_string()
                .contains("output 0 (/dev/full) after 0 bytes"),
            "{error}"
        );
        assert_eq!(report.outputs[0].bytes, 0);
        let text = StreamFailure { error, report }.to_string();
        assert!(!text.contains("part of the output"), "{text}");
    }
}

fn file(end: impl Into<OwnedFd>) -> File {
    File::from(end.into())
}

#[test]
fn a_closed_pipe_ends_the_execution() {
    let input = numbered(400_000);
    for order in ORDERS {
        for socket in [false, true] {
            let (reader, writer): (File, File) = if socket {
                let (reader, writer) = UnixStream::pair().expect("sockets");
                (file(reader), file(writer))
            } else {
                let (reader, writer) = io::pipe().expect("a pipe");
                (file(reader), file(writer))
            };
            let consumer = std::thread::spawn(move || {
                let mut some = vec![0; 100_000];
                (&reader).read_exact(&mut some).expect("the run writes");
            });
            let sink = Output::file(writer).expect("a pipe");
            let done = run_unwatched(
                &options(order, 3, 1000),
                vec![Input::bytes(&input)],
                &Identity,
                vec![sink],
            );
            let StreamFailure { error, report } = done.expect_err("nobody reads any more");
            let kind = error.io().map(io::Error::kind);
            assert!(
                matches!(
                    kind,
                    Some(io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
                ),
                "{error}"
            );
            assert!(report.outputs[0].bytes >= 100_000);
            consumer.join().expect("no panic");
        }
    }
}

/// Returns how long it took to end.
fn interrupted(inputs: Vec<Input<'_>>, outputs: Vec<Output<'_>>, order: Order) -> Duration {
    let mut asked = None;
    let done = run(
        &options(order, 3, 1000),
        inputs,
        &Identity,
        outputs,
        &mut |_| {
            asked.get_or_insert_with(Instant::now);
            false
        },
    );
    let error = done.expect_err("it was interrupted").error;
    assert!(matches!(error, NbufError::Interrupted), "{error}");
    asked.expect("somebody asked").elapsed()
}

#[test]
fn waiting_for_inputs_and_outputs_can_be_interrupted() {
    let input = numbered(1_000_000);
    for order in ORDERS {
        let (silent, _keep) = io::pipe().expect("a pipe");
        let source = Input::file(file(silent)).expect("a pipe");
        assert!(interrupted(vec![source], vec![], order) < Duration::from_secs(20));
        let (_keep, full) = io::pipe().expect("a pipe");
        let sink = Output::file(file(full)).expect("a pipe");
        assert!(
            interrupted(vec![Input::bytes(&input)], vec![sink], order) < Duration::from_secs(20)
        );
        let (_keep, full) = UnixStream::pair().expect("sockets");
        let sink = Output::file(file(full)).expect("a socket");
        assert!(
            interrupted(vec![Input::bytes(&input)], vec![sink], order) < Duration::from_secs(20)
        );
    }
}

#[test]
fn an_error_ends_an_execution_whose_input_is_silent() {
    let (silent, mut keep) = io::pipe().expect("a pipe");
    keep.write_all(&numbered(100)).expect("room");
    let source = Input::file(file(silent)).expect("a pipe");
    let options = Options {
        eager: true,
        ..options(Order::Both, 2, 10)
    };
    let done = run_unwatched(&options, vec![source], &failing(3, false), vec![]);
    // For bytes that never come.
    let error = done.expect_err("a record is bad").error;
    assert!(matches!(error, NbufError::Process { .. }), "{error}");
    drop(keep);
}

#[test]
fn a_file_that_shrinks_is_an_error() {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(&numbered(10_000)).expect("disk space");
    io::Seek::rewind(&mut file).expect("a file");
    let source = Input::file(file.try_clone().expect("a file")).expect("a file");
    file.set_len(4000).expect("a file");
    let mut output = Vec::new();
    let sinks = vec![Output::writer(&mut output)];
    let done = run_unwatched(
        &options(Order::Both, 2, 300),
        vec![source],
        &Identity,
        sinks,
    );
    let error = done.expect_err("bytes are missing").error;
    assert_eq!(error.offset(), Some(4000), "{error}");
    assert_eq!(
        numbers(&output),
        (0..500).collect::<Vec<_>>(),
        "what is there is delivered"
    );
    assert!(
        error
            .to_string()
            .contains("shorter than when the run began"),
        "{error}"
    );
}

#[test]
fn an_output_that_does_not_exist_is_an_error() {
    let lost = PerRecord(|record: &[u8], out: &mut BufferOutput<'_>| Ok(out.write(2, record)?));
    let (mut one, mut two) = (Vec::new(), Vec::new());
    let sinks = vec![Output::writer(&mut one), Output::writer(&mut two)];
    let input = numbered(10);
    let done = run_unwatched(
        &options(Order::Both, 2, 5),
        vec![Input::bytes(&input)],
        &lost,
        sinks,
    );
    let error = done.expect_err("there is none").error;
    assert!(
        error.to_string().contains("no output 2; give 0 to 1"),
        "{error}"
    );
}

#[test]
fn with_output_off_what_is_written_is_dropped() {
    let input = numbered(10);
    let put = PerRecord(|record: &[u8], out: &mut BufferOutput<'_>| Ok(out.write(7, record)?));
    let report = run_unwatched(
        &options(Order::Both, 2, 5),
        vec![Input::bytes(&input)],
        &put,
        vec![],
    )
    .expect("no error");
    assert_eq!((report.records, report.outputs.len()), (10, 0));
}

/// Also in parts on several outputs.
#[test]
fn output_of_a_record_that_fails_is_discarded() {
    let input = numbered(1000);
    for order in ORDERS {
        let halves = PerRecord(|record: &[u8], out: &mut BufferOutput<'_>| {
            out.write(0, &record[..4])?;
            out.write(1, record)?;
            if numbers(record) == [503] {
                return Err("record 503 is bad".into());
            }
            Ok(out.write(0, &record[4..])?)
        });
        let (mut one, mut two) = (Vec::new(), Vec::new());
        let sinks = vec![Output::writer(&mut one), Output::writer(&mut two)];
        let done = run_unwatched(
            &options(order, 3, 10),
            vec![Input::bytes(&input)],
            &halves,
            sinks,
        );
        done.expect_err("a record is bad");
        if order.writes_in_turn() {
            let before: Vec<u64> = (0..503).collect();
            assert_eq!((numbers(&one), numbers(&two)), (before.clone(), before));
        }
    }
}

/// Claims to have read or written more bytes than given.
struct OverstatingStream;

impl Write for OverstatingStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len() + 1)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for OverstatingStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(into.len() + 1)
    }
}

#[test]
fn counts_of_readers_and_writers_are_checked() {
    let input = numbered(100);
    for order in ORDERS {
        let sinks = vec![Output::writer(OverstatingStream)];
        let done = run_unwatched(
            &options(order, 2, 10),
            vec![Input::bytes(&input)],
            &Identity,
            sinks,
        );
        let error = done.expect_err("it overstates").error;
        assert!(error.to_string().contains("but it was given"), "{error}");
        let done = run_unwatched(
            &options(order, 2, 10),
            vec![Input::reader(OverstatingStream)],
            &Identity,
            vec![],
        );
        let error = done.expect_err("it overstates").error;
        assert!(error.to_string().contains("were requested"), "{error}");
    }
}
