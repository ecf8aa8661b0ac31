//! Records are those of a naive division, for any framing, buffer and read sizes.

use std::io::Read;
use std::sync::Mutex;

use crate::common::{ChunkedReader, Random, run_unwatched};
use isochrony_nbuf::{
    BlockProcessor, BufferOutput, Cause, Framing, Input, NbufError, Options, Order, Output,
    PerRecord, Prefix, RecordBlock,
};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Rule {
    Stride(usize),
    Delimited(Vec<u8>),
    Fixed { bytes: usize, big_endian: bool },
    Varint,
}

impl Rule {
    fn framing(&self) -> Framing {
        match self {
            Self::Stride(stride) => Framing::Stride(*stride),
            Self::Delimited(delimiter) => Framing::Delimited(delimiter.clone()),
            Self::Fixed { bytes, big_endian } => Framing::Prefixed(if *big_endian {
                Prefix::big_endian(*bytes)
            } else {
                Prefix::little_endian(*bytes)
            }),
            Self::Varint => Framing::Prefixed(Prefix::varint()),
        }
    }

    fn is_whole(&self, record: &[u8]) -> bool {
        let (digits, base) = match self {
            Self::Stride(stride) => return record.len() == *stride,
            Self::Delimited(delimiter) => return record.ends_with(delimiter),
            Self::Fixed { bytes, big_endian } => {
                let Some(prefix) = record.get(..*bytes) else {
                    return false;
                };
                let mut digits = prefix.to_vec();
                if !big_endian {
                    digits.reverse();
                }
                (digits, 256)
            }
            Self::Varint => {
                let Some(last) = record.iter().position(|byte| *byte < 128) else {
                    return false;
                };
                let prefix = record[..=last].iter().rev();
                (prefix.map(|byte| byte % 128).collect(), 128)
            }
        };
        let length = digits
            .iter()
            .fold(0, |all, digit| all * base + u128::from(*digit));
        record.len() as u128 == digits.len() as u128 + length
    }
}

fn naive(rule: &Rule, bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    let mut record = Vec::new();
    for byte in bytes {
        record.push(*byte);
        if rule.is_whole(&record) {
            records.push(std::mem::take(&mut record));
        }
    }
    if !record.is_empty() {
        records.push(record);
    }
    records
}

fn rules() -> impl Strategy<Value = Rule> {
    prop_oneof![
        (1_usize..40).prop_map(Rule::Stride),
        prop::sample::select(vec![&b"\n"[..], b"aa", b"\r\n", b"aba"])
            .prop_map(|delimiter| Rule::Delimited(delimiter.to_vec())),
        (prop::sample::select(vec![1, 2]), any::<bool>())
            .prop_map(|(bytes, big_endian)| Rule::Fixed { bytes, big_endian }),
        Just(Rule::Varint),
    ]
}

/// With frequent delimiters, halves of them, and short lengths.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![4 => prop::sample::select(b"ab\r\n\0\0\x03".to_vec()), 1 => any::<u8>()];
    prop::collection::vec(byte, 0..600)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_cutting_gives_the_naive_records(
        rule in rules(), bytes in streams(), seed in any::<u64>(), workers in 1_usize..4, lent in any::<bool>(),
        eager in any::<bool>(),
    ) {
        let seen = Mutex::new(Vec::new());
        let note = PerRecord(|record: &[u8], out: &mut BufferOutput<'_>| {
            seen.lock().expect("no panic").push(record.to_vec());
            Ok(out.write(0, record)?)
        });
        let options = Options {
            order: Order::Both,
            workers: Some(workers),
            memory: 1 << 20,
            framing: rule.framing(),
            eager,
            ..Options::default()
        };
        // They grow for longer records, up to 64 KiB.
        let options = Options { buffer: small_buffer(&rule), ..options };
        let mut output = Vec::new();
        let input = if lent {
            Input::bytes(&bytes)
        } else {
            Input::reader(ChunkedReader { bytes: &bytes, random: Random::new(seed) })
        };
        let done = run_unwatched(&options, vec![input], &note, vec![Output::writer(&mut output)]);
        let report = done.map_err(|failure| TestCaseError::fail(failure.to_string()))?;
        let wanted = naive(&rule, &bytes);
        prop_assert_eq!(report.records, wanted.len() as u64);
        prop_assert_eq!(seen.into_inner().expect("no panic"), wanted);
        prop_assert!(output == bytes);
    }
}

fn small_buffer(rule: &Rule) -> Option<usize> {
    match rule {
        Rule::Stride(stride) => Some(stride * 3 + 1),
        Rule::Delimited(_) => Some(700),
        _ => None,
    }
}

fn failure(framing: Framing, buffer: Option<usize>, memory: usize, bytes: &[u8]) -> NbufError {
    let bytes = bytes.chain(std::io::repeat(0));
    let options = Options {
        workers: Some(2),
        memory,
        buffer,
        framing,
        ..Options::default()
    };
    let nothing = PerRecord(|_: &[u8], _: &mut BufferOutput<'_>| Ok(()));
    run_unwatched(&options, vec![Input::reader(bytes)], &nothing, vec![])
        .expect_err("it fits in no buffer")
        .error
}

#[test]
fn a_record_larger_than_a_buffer_is_an_error_that_names_it() {
    let mut lines = b"short\n".repeat(5);
    lines.extend([b'x'; 500]);
    let error = failure(Framing::Delimited(b"\n".to_vec()), Some(100), 1000, &lines);
    assert!(
        matches!(
            error,
            NbufError::Record {
                input: 0,
                offset: 30,
                length: None,
                buffer: 200
            }
        ),
        "{error}"
    );
    let bytes = [0, 0, 0, 1, 7, 0x7f, 0, 0, 0, 1, 2, 3];
    let error = failure(
        Framing::Prefixed(Prefix::big_endian(4)),
        None,
        1 << 20,
        &bytes,
    );
    let NbufError::Record {
        offset: 5,
        length: Some(length),
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(length, 4 + 0x7f00_0000);
}

#[test]
fn a_long_record_may_use_the_memory_that_is_left() {
    let mut lines = b"short\n".repeat(5);
    lines.resize(lines.len() + 3_000_000, b'x');
    lines.push(b'\n');
    let count = Mutex::new(Vec::new());
    let note = PerRecord(|record: &[u8], _: &mut BufferOutput<'_>| {
        count.lock().expect("no panic").push(record.len());
        Ok(())
    });
    for buffer in [None, Some(1 << 20), Some(100)] {
        let framing = Framing::Delimited(b"\n".to_vec());
        let options = Options {
            workers: Some(2),
            memory: 20_000_000,
            buffer,
            framing,
            ..Options::default()
        };
        run_unwatched(&options, vec![Input::reader(&*lines)], &note, vec![]).expect("it fits");
        let mut lengths = std::mem::take(&mut *count.lock().expect("no panic"));
        lengths.sort_unstable();
        assert_eq!(lengths, [6, 6, 6, 6, 6, 3_000_001]);
    }
}

#[test]
fn illegal_options_are_refused() {
    for (framing, buffer, workers) in [
        (Framing::Stride(0), None, None),
        (Framing::Delimited(vec![]), None, None),
        (Framing::Prefixed(Prefix::big_endian(3)), None, None),
        (Framing::Stride(100), Some(99), None),
        (Framing::Stride(100), None, Some(0)),
        (Framing::Stride(100), None, Some(1_000_000)),
    ] {
        let options = Options {
            framing,
            buffer,
            workers,
            ..Options::default()
        };
        let nothing = PerRecord(|_: &[u8], _: &mut BufferOutput<'_>| Ok(()));
        let error = run_unwatched(&options, vec![], &nothing, vec![])
            .expect_err("refused")
            .error;
        assert_eq!(error.code(), "nbuf_option", "{error}");
    }
}

/// Needs as much memory as a buffer has bytes.
struct CopyingProcessor;

impl BlockProcessor for CopyingProcessor {
    type Scratch = ();

    fn new_scratch(&self) {}

    fn execute(
        &self,
        (): &mut (),
        block: &RecordBlock<'_>,
        out: &mut BufferOutput<'_>,
    ) -> Result<(), Cause> {
        assert!(block.bytes.len() <= 20_000, "{} bytes", block.bytes.len());
        Ok(out.forward(0)?)
    }

    fn needs_staging(&self) -> bool {
        false
    }

    fn scratch_bytes(&self, buffer: usize) -> usize {
        buffer
    }
}

#[test]
fn a_record_in_memory_is_limited_by_the_memory_of_processors() {
    let options = Options {
        workers: Some(2),
        memory: 40_000,
        buffer: Some(1000),
        framing: Framing::Delimited(b"\n".to_vec()),
        ..Options::default()
    };
    let line = |length: usize| [&vec![b'x'; length - 1][..], b"\n"].concat();
    let lines = [line(10), line(20_000), line(500), line(800), line(19_000)].concat();
    let report = run_unwatched(
        &options,
        vec![Input::bytes(&lines)],
        &CopyingProcessor,
        vec![],
    )
    .expect("it fits");
    assert_eq!(report.records, 5);
    assert!(report.complete);
    for end in [&b"\n"[..], b""] {
        let lines = [&line(10)[..], &vec![b'x'; 20_001 - end.len()], end].concat();
        let done = run_unwatched(
            &options,
            vec![Input::bytes(&lines)],
            &CopyingProcessor,
            vec![],
        );
        let text = done.expect_err("it is too large").to_string();
        assert!(
            text.contains(
                "the record at byte 10 has 20001 bytes, more than a buffer of 20000 bytes holds"
            ),
            "{text}"
        );
    }
}
