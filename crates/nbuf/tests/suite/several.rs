//! Several inputs, several outputs.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::Mutex;

use crate::common::{
    ChunkedReader, ChunkedWriter, ORDERS, RECORD, Random, numbered, numbers, options, run_unwatched,
};
use isochrony_nbuf::{
    BlockProcessor, BufferOutput, Cause, Framing, Identity, Input, Merge, Options, Order, Output,
    PerRecord, RecordBlock,
};

#[test]
fn inputs_in_order_are_one_after_another_and_share_no_record() {
    let (first, second) = (numbered(500), [9_u8; 5]);
    for workers in [1, 4] {
        let inputs = vec![
            Input::bytes(&first),
            Input::reader(&second[..]),
            Input::bytes(&[]),
            Input::reader(ChunkedReader {
                bytes: &first,
                random: Random::new(1),
            }),
        ];
        let mut output = Vec::new();
        let report = run_unwatched(
            &options(Order::Both, workers, 17),
            inputs,
            &Identity,
            vec![Output::writer(&mut output)],
        )
        .expect("no error");
        assert!(output == [&first[..], &second, &first].concat());
        let bytes: Vec<_> = report
            .inputs
            .iter()
            .map(|input| (input.bytes, input.short_record))
            .collect();
        assert_eq!(bytes, [(4000, None), (5, Some(5)), (0, None), (4000, None)]);
        assert_eq!(report.records, 1001);
    }
}

#[derive(Default)]
struct Inputs(Mutex<Vec<(usize, u64, u64)>>);

impl BlockProcessor for Inputs {
    type Scratch = ();

    fn new_scratch(&self) {}

    fn execute(
        &self,
        (): &mut (),
        block: &RecordBlock<'_>,
        out: &mut BufferOutput<'_>,
    ) -> Result<(), Cause> {
        self.0
            .lock()
            .expect("no panic")
            .push((block.input, block.input_offset, block.offset));
        Ok(out.forward(block.input)?)
    }
}

#[test]
fn fair_inputs_take_turns_until_each_ends() {
    let (long, short) = (numbered(400), numbered(100));
    for order in ORDERS {
        let noted = Inputs::default();
        let (mut one, mut two) = (Vec::new(), Vec::new());
        let outputs = vec![Output::writer(&mut one), Output::writer(&mut two)];
        let options = Options {
            merge: Merge::Fair,
            ramp: false,
            ..options(order, 1, 10)
        };
        let inputs = vec![Input::bytes(&long), Input::bytes(&short)];
        run_unwatched(&options, inputs, &noted, outputs).expect("no error");
        assert!(one == long && two == short, "{order:?}");
        let turns: Vec<_> = noted.0.into_inner().expect("no panic");
        let which: Vec<_> = turns.iter().map(|(input, ..)| *input).collect();
        let mut wanted = [0, 1].repeat(10);
        wanted.extend([0; 30]);
        assert_eq!(which, wanted);
        for (number, (_, _, offset)) in turns.iter().enumerate() {
            assert_eq!(*offset, (number * 10 * RECORD) as u64);
        }
    }
}

#[test]
fn a_silent_input_does_not_keep_the_others_waiting() {
    let (silent, mut late) = io::pipe().expect("a pipe");
    let (busy, mut now) = io::pipe().expect("a pipe");
    let input = |end: io::PipeReader| Input::file(File::from(OwnedFd::from(end))).expect("a pipe");
    let (reader, writer) = io::pipe().expect("a pipe");
    let done = Output::file(File::from(OwnedFd::from(writer))).expect("a pipe");
    let inputs = vec![input(silent), input(busy)];
    std::thread::scope(|scope| {
        let run = scope.spawn(move || {
            let options = Options {
                merge: Merge::Fair,
                ..options(Order::Both, 2, 100)
            };
            run_unwatched(&options, inputs, &Identity, vec![done]).expect("no error")
        });
        late.write_all(&7_u64.to_le_bytes()[..4]).expect("room");
        now.write_all(&numbered(50)).expect("room");
        let mut reader = reader;
        let mut got = vec![0; 50 * RECORD];
        io::Read::read_exact(&mut reader, &mut got).expect("it comes while the other is silent");
        assert_eq!(numbers(&got), (0..50).collect::<Vec<_>>());
        late.write_all(&7_u64.to_le_bytes()[4..]).expect("room");
        drop((late, now));
        let mut rest = Vec::new();
        io::Read::read_to_end(&mut reader, &mut rest).expect("it ends");
        assert_eq!(numbers(&rest), [7]);
        let report = run.join().expect("no panic");
        assert_eq!((report.inputs[0].bytes, report.inputs[1].bytes), (8, 400));
    });
}

#[test]
fn records_are_routed_and_the_full_stream_is_kept_beside_the_filtered() {
    let input = numbered(5000);
    for order in ORDERS {
        let (mut all, mut odd, mut threes) = (Vec::new(), Vec::new(), Vec::new());
        let route = PerRecord(|record: &[u8], out: &mut BufferOutput<'_>| {
            let number = numbers(record)[0];
            if number % 2 == 1 {
                out.write(1, record)?;
            }
            if number.is_multiple_of(3) {
                out.write(2, record)?;
            }
            Ok(out.write(0, record)?)
        });
        let outputs = vec![
            Output::writer(&mut all),
            Output::writer(ChunkedWriter {
                bytes: &mut odd,
                random: Random::new(4),
            }),
            Output::writer(&mut threes),
        ];
        // Then workers also hold the turns of all outputs at once.
        let options = Options {
            memory: 6000,
            ..options(order, 4, 60)
        };
        let report =
            run_unwatched(&options, vec![Input::bytes(&input)], &route, outputs).expect("no error");
        let written: u64 = report.outputs.iter().map(|output| output.bytes).sum();
        assert_eq!(written as usize, all.len() + odd.len() + threes.len());
        let sorted = |bytes: &[u8]| {
            let mut found = numbers(bytes);
            if !order.writes_in_turn() {
                found.sort_unstable();
            }
            found
        };
        assert!(sorted(&all) == numbers(&input), "{order:?}");
        assert!(
            sorted(&odd)
                == (0..5000)
                    .filter(|number| number % 2 == 1)
                    .collect::<Vec<_>>(),
            "{order:?}"
        );
        assert!(
            sorted(&threes)
                == (0..5000)
                    .filter(|number: &u64| number.is_multiple_of(3))
                    .collect::<Vec<_>>(),
            "{order:?}"
        );
    }
}

#[test]
fn a_forwarded_block_keeps_its_place_among_other_output() {
    struct DoublingProcessor;
    impl BlockProcessor for DoublingProcessor {
        type Scratch = ();
        fn new_scratch(&self) {}
        fn execute(
            &self,
            (): &mut (),
            block: &RecordBlock<'_>,
            out: &mut BufferOutput<'_>,
        ) -> Result<(), Cause> {
            out.forward(0)?;
            out.write(0, b"|")?;
            out.forward(0)?;
            out.write(0, b"\n")?;
            Ok(out.write(1, &[block.bytes[0]])?)
        }
    }
    let (mut one, mut two) = (Vec::new(), Vec::new());
    let options = Options {
        framing: Framing::Stride(2),
        buffer: Some(2),
        workers: Some(3),
        memory: 100,
        ..Options::default()
    };
    let outputs = vec![Output::writer(&mut one), Output::writer(&mut two)];
    run_unwatched(
        &options,
        vec![Input::bytes(b"aabbc")],
        &DoublingProcessor,
        outputs,
    )
    .expect("no error");
    assert_eq!((&*one, &*two), (&b"aa|aa\nbb|bb\nc|c\n"[..], &b"abc"[..]));
}

#[test]
fn a_copy_goes_to_every_output() {
    let input = numbered(5000);
    for order in ORDERS {
        let (mut one, mut two, mut three) = (Vec::new(), Vec::new(), Vec::new());
        let outputs = vec![
            Output::writer(&mut one),
            Output::writer(ChunkedWriter {
                bytes: &mut two,
                random: Random::new(4),
            }),
            Output::writer(&mut three),
        ];
        let report = run_unwatched(
            &options(order, 3, 100),
            vec![Input::bytes(&input)],
            &Identity,
            outputs,
        );
        let report = report.expect("no error");
        for (output, bytes) in report.outputs.iter().zip([&one, &two, &three]) {
            assert_eq!((output.bytes, bytes.len()), (40_000, 40_000));
            if order.writes_in_turn() {
                assert!(*bytes == input);
            }
        }
    }
}
