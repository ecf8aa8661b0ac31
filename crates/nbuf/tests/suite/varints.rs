//! Records with varint prefixes by a slow encoder, and refused prefixes.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::Mutex;

use isochrony_nbuf::{
    BufferOutput, Framing, Input, NbufError, Options, Output, PerRecord, Prefix, PrefixFault,
    Report, StreamFailure,
};
use proptest::prelude::*;

use crate::common::{ChunkedReader, Random, run_unwatched};

/// Oracle in text: groups of seven bits, the last group first, each but the last led by a 1.
fn encoded(number: usize) -> Vec<u8> {
    let bits = format!("{number:070b}");
    let groups: Vec<&str> = (0..10).map(|at| &bits[at * 7..at * 7 + 7]).collect();
    let first = groups.iter().position(|group| group.contains('1'));
    let used = &groups[first.unwrap_or(9)..];
    let marked = used.iter().enumerate().map(|(at, group)| {
        let more = if at == 0 { "0" } else { "1" };
        u8::from_str_radix(&format!("{more}{group}"), 2).expect("eight bits")
    });
    let mut bytes: Vec<u8> = marked.collect();
    bytes.reverse();
    bytes
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&encoded(message.len())[..], message].concat()
}

fn records(
    bytes: &[u8],
    prefix: Prefix,
    buffer: Option<usize>,
    seed: Option<u64>,
) -> (Vec<Vec<u8>>, Result<Report, StreamFailure>) {
    let seen = Mutex::new(Vec::new());
    let note = PerRecord(|record: &[u8], out: &mut BufferOutput<'_>| {
        seen.lock().expect("no panic").push(record.to_vec());
        Ok(out.write(0, record)?)
    });
    let options = Options {
        workers: Some(2),
        memory: 1 << 20,
        buffer,
        framing: Framing::Prefixed(prefix),
        ..Options::default()
    };
    let input = match seed {
        None => Input::bytes(bytes),
        Some(seed) => Input::reader(ChunkedReader {
            bytes,
            random: Random::new(seed),
        }),
    };
    let mut output = Vec::new();
    let done = run_unwatched(
        &options,
        vec![input],
        &note,
        vec![Output::writer(&mut output)],
    );
    let seen = seen.into_inner().expect("no panic");
    assert_eq!(output, seen.concat(), "ordered output");
    (seen, done)
}

fn messages() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let length = prop_oneof![0..5_usize, 120..140_usize, 16_370..16_400_usize];
    let message = (length, any::<u8>()).prop_map(|(length, byte)| vec![byte; length]);
    prop::collection::vec(message, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn encoded_messages_come_back(
        messages in messages(), buffer in 1_usize..300, seed in prop::option::of(any::<u64>()),
    ) {
        let wanted: Vec<Vec<u8>> = messages.iter().map(|message| framed(message)).collect();
        let (seen, done) = records(&wanted.concat(), Prefix::varint(), Some(buffer), seed);
        let report = done.map_err(|failure| TestCaseError::fail(failure.to_string()))?;
        prop_assert_eq!(report.records, messages.len() as u64);
        prop_assert_eq!(report.inputs[0].short_record, None);
        prop_assert_eq!(seen, wanted);
    }

    #[test]
    fn a_faulty_prefix_is_named_after_the_records_before_it(
        messages in messages(), buffer in 1_usize..300, seed in prop::option::of(any::<u64>()),
        limited in any::<bool>(), rest in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let wanted: Vec<Vec<u8>> = messages.iter().map(|message| framed(message)).collect();
        let (bad, fault) = if limited {
            let fault = PrefixFault::AboveLimit { length: 20_000, max_length: 19_999 };
            (encoded(20_000), fault)
        } else {
            (vec![0xff; 10], PrefixFault::Overlong)
        };
        let bytes = [&wanted.concat()[..], &bad, &rest].concat();
        let prefix = Prefix::varint().with_max_length(19_999);
        let (seen, done) = records(&bytes, prefix, Some(buffer), seed);
        let failure = done.expect_err("the prefix is faulty");
        let place = wanted.concat().len() as u64;
        let NbufError::Prefix { input: 0, offset, fault: found } = failure.error else {
            return Err(TestCaseError::fail(failure.to_string()));
        };
        prop_assert_eq!((offset, found), (place, fault));
        prop_assert_eq!(seen, wanted);
    }
}

#[test]
fn an_incomplete_last_record_is_short() {
    for cut in [1, 2, 50] {
        let bytes = [framed(b"abc"), framed(&[7; 200])[..cut].to_vec()].concat();
        for seed in [None, Some(1)] {
            let (seen, done) = records(&bytes, Prefix::varint(), None, seed);
            let report = done.expect("a short record is no error");
            assert_eq!(report.inputs[0].short_record, Some(cut as u64));
            assert_eq!(seen, [framed(b"abc"), framed(&[7; 200])[..cut].to_vec()]);
        }
    }
}

#[test]
fn a_limit_holds_for_fixed_prefixes_too() {
    let bytes = [0, 2, b'a', b'b', 0, 3, b'a', b'b', b'c'];
    let prefix = Prefix::big_endian(2).with_max_length(2);
    let (seen, done) = records(&bytes, prefix, None, None);
    assert_eq!(seen, [&bytes[..4]]);
    let text = done.expect_err("the second is too long").to_string();
    assert_eq!(
        text,
        "input 0: the length prefix at byte 4 gives a length of 3 bytes, but max_length=2; check the framing, or give \
         a larger max_length; the output is incomplete: 4 bytes in writer"
    );
}

#[test]
fn a_length_beyond_memory_is_refused_before_the_record_is_read() {
    let before = framed(b"fits");
    let bytes = [&before[..], &encoded(10_000_000), &[7; 5]].concat();
    let options = Options {
        workers: Some(1),
        memory: 1 << 20,
        framing: Framing::Prefixed(Prefix::varint()),
        eager: true,
        ..Options::default()
    };
    let nothing = PerRecord(|_: &[u8], _: &mut BufferOutput<'_>| Ok(()));
    // Waiting for the record would not end.
    let (from, mut into) = io::pipe().expect("a pipe");
    into.write_all(&bytes).expect("room in the pipe");
    let input = Input::file(File::from(OwnedFd::from(from))).expect("a pipe");
    let done = run_unwatched(&options, vec![input], &nothing, vec![]);
    let error = done.expect_err("there is no memory for it").error;
    assert!(
        matches!(
            error,
            NbufError::Record {
                offset: 5,
                length: Some(10_000_004),
                ..
            }
        ),
        "{error}"
    );
}
