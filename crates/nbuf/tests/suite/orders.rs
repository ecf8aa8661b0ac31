//! Guarantees of each configuration of table 2, with random delays.

use std::io::{Read, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::{
    ChunkedReader, ChunkedWriter, ORDERS, RECORD, Random, numbered, numbers, options, run_unwatched,
};
use isochrony_nbuf::{
    BlockProcessor, BufferOutput, Cause, Identity, Input, Options, Order, Output, PerRecord,
    RecordBlock,
};

/// Records executions, overlaps and joins; writes each record.
struct OrderRecorder {
    random: Mutex<Random>,
    inside: AtomicUsize,
    most_inside: AtomicUsize,
    executed: Mutex<Vec<u64>>,
    joined: [Mutex<Vec<u64>>; 2],
}

impl OrderRecorder {
    fn new(seed: u64) -> Self {
        Self {
            random: Mutex::new(Random::new(seed)),
            inside: AtomicUsize::new(0),
            most_inside: AtomicUsize::new(0),
            executed: Mutex::default(),
            joined: Default::default(),
        }
    }

    fn pause(&self) {
        let number = self.random.lock().expect("no panic").below(1 << 40);
        Random::new(number).pause();
    }
}

impl BlockProcessor for OrderRecorder {
    type Scratch = Vec<u64>;

    fn new_scratch(&self) -> Vec<u64> {
        Vec::new()
    }

    fn execute(
        &self,
        mine: &mut Vec<u64>,
        block: &RecordBlock<'_>,
        out: &mut BufferOutput<'_>,
    ) -> Result<(), Cause> {
        let inside = 1 + self.inside.fetch_add(1, Ordering::SeqCst);
        self.most_inside.fetch_max(inside, Ordering::SeqCst);
        self.executed.lock().expect("no panic").push(block.number);
        *mine = numbers(block.bytes);
        self.pause();
        for record in block.records() {
            out.write(0, record)?;
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    fn lanes(&self) -> usize {
        2
    }

    fn join(
        &self,
        lane: usize,
        mine: &mut Vec<u64>,
        _: &RecordBlock<'_>,
        _: &mut BufferOutput<'_>,
    ) -> Result<(), Cause> {
        let mut joined = self.joined[lane]
            .try_lock()
            .expect("one at a time in a lane");
        self.pause();
        joined.extend_from_slice(mine);
        Ok(())
    }
}

fn stress(order: Order, workers: usize, records: u64, per_buffer: usize, seed: u64) {
    let input = numbered(records);
    let watching = OrderRecorder::new(seed);
    let mut output = Vec::new();
    let source = ChunkedReader {
        bytes: &input,
        random: Random::new(seed + 1),
    };
    let sink = ChunkedWriter {
        bytes: &mut output,
        random: Random::new(seed + 2),
    };
    let options = options(order, workers, per_buffer);
    let report = run_unwatched(
        &options,
        vec![Input::reader(source)],
        &watching,
        vec![Output::writer(sink)],
    )
    .expect("nothing goes wrong");
    let what = format!("{order:?}, {workers} workers, {records} records, {per_buffer} a buffer");
    assert_eq!(
        (report.bytes, report.records),
        (input.len() as u64, records),
        "{what}"
    );
    assert!(report.complete && report.inputs[0].ended, "{what}");
    assert_eq!(report.outputs[0].bytes, input.len() as u64, "{what}");
    assert_eq!(
        report.workers.iter().map(|one| one.bytes).sum::<u64>(),
        report.bytes,
        "{what}"
    );
    let mut written = numbers(&output);
    if order.writes_in_turn() {
        assert!(output == input, "{what}: output is out of order");
    } else {
        written.sort_unstable();
        assert!(
            written == numbers(&input),
            "{what}: records are missing or twice there"
        );
    }
    let executed = watching.executed.into_inner().expect("no panic");
    if order.executes_in_turn() {
        assert!(executed.is_sorted(), "{what}: execution is out of order");
        assert!(
            watching.most_inside.into_inner() <= 1,
            "{what}: two execute at once"
        );
    }
    for joined in watching.joined {
        assert!(
            joined.into_inner().expect("no panic") == numbers(&input),
            "{what}: joins are out of order"
        );
    }
}

#[test]
fn every_order_holds_with_random_delays() {
    for order in ORDERS {
        for (seed, workers) in [1, 2, 3, 8].into_iter().enumerate() {
            stress(order, workers, 3000, 7, seed as u64 * 10);
            stress(order, workers, 501, 100, seed as u64 * 10 + 5);
        }
    }
}

#[test]
fn thousands_of_tiny_buffers() {
    let input = numbered(20_000);
    for order in ORDERS {
        for source in ["lent", "read"] {
            let mut output = Vec::new();
            let options = options(order, 4, 1);
            let input_of = |bytes| {
                if source == "lent" {
                    Input::bytes(bytes)
                } else {
                    Input::reader(bytes)
                }
            };
            let report = run_unwatched(
                &options,
                vec![input_of(&input)],
                &Identity,
                vec![Output::writer(&mut output)],
            )
            .expect("nothing goes wrong");
            assert_eq!((report.buffers, report.records), (20_000, 20_000));
            let mut written = numbers(&output);
            if !order.writes_in_turn() {
                written.sort_unstable();
            }
            assert!(written == numbers(&input), "{order:?}, {source}");
        }
    }
}

#[test]
fn empty_streams_and_single_records() {
    for order in ORDERS {
        for records in [0, 1] {
            for workers in [1, 5] {
                stress(order, workers, records, 4, 3);
            }
        }
    }
    let report = run_unwatched(&Options::default(), vec![], &Identity, vec![])
        .expect("no input is no error");
    assert_eq!(
        (
            report.bytes,
            report.records,
            report.buffers,
            report.complete
        ),
        (0, 0, 0, true)
    );
}

#[test]
fn a_short_last_record_is_passed_with_its_length() {
    let lengths = Mutex::new(Vec::new());
    let note = PerRecord(|record: &[u8], _: &mut BufferOutput<'_>| {
        lengths.lock().expect("no panic").push(record.len());
        Ok(())
    });
    let bytes = [7; 3 * RECORD + 5];
    for input in [Input::bytes(&bytes), Input::reader(&bytes[..])] {
        let report = run_unwatched(&options(Order::Both, 3, 2), vec![input], &note, vec![])
            .expect("it is no error");
        assert_eq!(report.inputs[0].short_record, Some(5));
        assert_eq!(report.records, 4);
        assert_eq!(
            std::mem::take(&mut *lengths.lock().expect("no panic")),
            [8, 8, 8, 5]
        );
    }
}

#[test]
fn output_that_is_larger_than_memory_keeps_its_order() {
    // Far more than may be staged.
    let blow_up = PerRecord(|record: &[u8], out: &mut BufferOutput<'_>| {
        (0..1000).try_for_each(|_| out.write(0, record))?;
        // One write that exceeds the staging memory.
        Ok(out.write(0, &record.repeat(700))?)
    });
    let input = numbered(40);
    let wanted: Vec<u64> = (0..40).flat_map(|number| [number; 1700]).collect();
    for order in ORDERS {
        let mut output = Vec::new();
        let options = Options {
            memory: 20_000,
            ..options(order, 4, 3)
        };
        let report = run_unwatched(
            &options,
            vec![Input::reader(&*input)],
            &blow_up,
            vec![Output::writer(&mut output)],
        )
        .expect("output of any size goes through");
        assert!(report.peak_bytes <= 20_000, "{} bytes", report.peak_bytes);
        let mut written = numbers(&output);
        if !order.writes_in_turn() {
            written.sort_unstable();
        }
        assert!(written == wanted, "{order:?}");
    }
}

fn pipe() -> (std::fs::File, std::fs::File) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let file = |end: std::os::fd::OwnedFd| std::fs::File::from(end);
    (file(reader.into()), file(writer.into()))
}

#[test]
fn slow_inputs_and_outputs_are_waited_for() {
    let bytes = numbered(30_000);
    for (slow_producer, slow_consumer) in
        [(false, false), (true, false), (false, true), (true, true)]
    {
        for order in ORDERS {
            let (from, mut into) = pipe();
            let (mut result, to) = pipe();
            thread::scope(|scope| {
                let bytes = &bytes;
                scope.spawn(move || {
                    for part in bytes.chunks(16_001) {
                        into.write_all(part).expect("the run reads");
                        if slow_producer {
                            thread::sleep(Duration::from_millis(1));
                        }
                    }
                });
                let consumer = scope.spawn(move || {
                    let (mut all, mut part) = (Vec::new(), [0; 9001]);
                    loop {
                        let count = result.read(&mut part).expect("the run writes");
                        if count == 0 {
                            return all;
                        }
                        all.extend_from_slice(&part[..count]);
                        if slow_consumer {
                            thread::sleep(Duration::from_millis(1));
                        }
                    }
                });
                let input = Input::file(from).expect("a pipe");
                let output = Output::file(to).expect("a pipe");
                let report = run_unwatched(
                    &options(order, 3, 500),
                    vec![input],
                    &Identity,
                    vec![output],
                )
                .expect("no error");
                assert_eq!(report.bytes, bytes.len() as u64);
                let mut written = numbers(&consumer.join().expect("no panic"));
                if !order.writes_in_turn() {
                    written.sort_unstable();
                }
                assert!(written == numbers(bytes), "{order:?}");
            });
        }
    }
}

#[test]
fn eager_executions_process_what_there_is() {
    let (from, mut into) = pipe();
    let (mut result, to) = pipe();
    thread::scope(|scope| {
        scope.spawn(move || {
            let options = Options {
                eager: true,
                buffer: None,
                ..options(Order::Both, 2, 1)
            };
            let (input, output) = (
                Input::file(from).expect("a pipe"),
                Output::file(to).expect("a pipe"),
            );
            run_unwatched(&options, vec![input], &Identity, vec![output]).expect("no error");
        });
        for number in 0..50_u64 {
            // Answered one by one, though a buffer holds thousands.
            let record = number.to_le_bytes();
            into.write_all(&record[..3]).expect("the run reads");
            into.write_all(&record[3..]).expect("the run reads");
            let mut answer = [0; RECORD];
            result.read_exact(&mut answer).expect("the run writes");
            assert_eq!(answer, record);
        }
        drop(into);
    });
}

#[test]
fn files_are_read_from_their_position_and_left_at_their_end() {
    use std::io::{Seek, SeekFrom};
    let bytes = numbered(50_000);
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(&bytes).expect("disk space");
    for (start, workers) in [(0, 1), (0, 4), (80, 3)] {
        file.seek(SeekFrom::Start(start)).expect("a file");
        let input = Input::file(file.try_clone().expect("a file")).expect("a file");
        let mut output = Vec::new();
        let report = run_unwatched(
            &options(Order::Output, workers, 999),
            vec![input],
            &Identity,
            vec![Output::writer(&mut output)],
        )
        .expect("no error");
        assert!(output == bytes[start as usize..]);
        assert_eq!(report.inputs[0].bytes, bytes.len() as u64 - start);
        assert_eq!(file.stream_position().expect("a file"), bytes.len() as u64);
    }
}

#[test]
fn a_generated_file_is_read_to_its_end() {
    // Its metadata says 0 bytes.
    let input = Input::open("/proc/self/status").expect("it is there");
    let mut output = Vec::new();
    run_unwatched(
        &options(Order::Both, 2, 3),
        vec![input],
        &Identity,
        vec![Output::writer(&mut output)],
    )
    .expect("no error");
    let text = String::from_utf8(output).expect("text");
    assert!(
        text.starts_with("Name:") && text.contains("VmRSS"),
        "{text}"
    );
}
