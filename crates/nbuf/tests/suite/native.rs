//! Published digests and naive counts, for any order, workers and buffer sizes.

use crate::common::{ChunkedReader, ORDERS, Random, run_unwatched};
use isochrony_bytes::Outcome;
use isochrony_nbuf::{
    BlockProcessor, Framing, Input, NativeProcessors, NbufError, Options, Order, Output,
};

fn options(order: Order, workers: usize, buffer: usize) -> Options {
    Options {
        order,
        workers: Some(workers),
        buffer: Some(buffer),
        framing: Framing::Stride(1),
        ..Options::default()
    }
}

const WINDOW: usize = 200_000_000;

fn field(outcome: &Outcome, name: &str) -> String {
    let fields = outcome.fields();
    let found = fields.iter().find(|(field, _)| *field == name);
    format!("{:?}", found.expect("it has that field").1)
}

#[test]
fn digests_are_those_that_were_published() {
    // Examples of FIPS 180-4 and RFC 1321.
    let million = vec![b'a'; 1_000_000];
    let sha = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
    let md5 = "7707d6ae4e027c70eea2a935c2296f21";
    for order in ORDERS {
        for (workers, buffer) in [(1, 1_000_000), (2, 65_537), (3, 1000), (8, 20_000)] {
            for lent in [true, false] {
                let native = NativeProcessors::parse(&["sha256", "crc32c", "md5"])
                    .expect("there are such processors");
                let random = Random::new(buffer as u64);
                let input = if lent {
                    Input::bytes(&million)
                } else {
                    Input::reader(ChunkedReader {
                        bytes: &million,
                        random,
                    })
                };
                let mut copy = Vec::new();
                let outputs = vec![Output::writer(&mut copy)];
                run_unwatched(
                    &options(order, workers, buffer),
                    vec![input],
                    &native,
                    outputs,
                )
                .expect("no error");
                assert!(copy == million);
                let found = native.outcomes();
                let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
                assert_eq!(names, ["sha256", "crc32c", "md5"]);
                assert!(field(&found[0].1, "hex").contains(sha));
                assert!(field(&found[2].1, "hex").contains(md5));
            }
        }
    }
}

#[test]
fn matches_that_span_buffers_are_found_once() {
    let mut random = Random::new(5);
    let text: Vec<u8> = (0..50_000).map(|_| b'a' + random.below(2) as u8).collect();
    let naive = |needle: &[u8]| {
        let (mut count, mut at) = (0, 0);
        while at + needle.len() <= text.len() {
            if &text[at..at + needle.len()] == needle {
                count += 1;
                at += needle.len();
            } else {
                at += 1;
            }
        }
        count
    };
    for (workers, buffer) in [(1, 50_000), (2, 1), (3, 7), (4, 4096)] {
        let native = NativeProcessors::parse(&["count:abba"]).expect("there is such a processor");
        run_unwatched(
            &options(Order::None, workers, buffer),
            vec![Input::bytes(&text)],
            &native,
            vec![],
        )
        .expect("no error");
        assert_eq!(
            field(&native.outcomes()[0].1, "total"),
            format!("Int({})", naive(b"abba"))
        );
    }
}

#[test]
fn compression_round_trips_in_bounded_memory() {
    let mut random = Random::new(8);
    let data: Vec<u8> = (0..400_000).map(|_| b'a' + random.below(3) as u8).collect();
    let through = |name: &str, bytes: &[u8], workers| {
        let native = NativeProcessors::parse(&[name]).expect("there is such a processor");
        let mut out = Vec::new();
        let options = Options {
            memory: WINDOW,
            ..options(Order::Both, workers, 50_000)
        };
        let report = run_unwatched(
            &options,
            vec![Input::reader(bytes)],
            &native,
            vec![Output::writer(&mut out)],
        )
        .expect("no error");
        assert!(report.peak_bytes <= options.memory as u64);
        out
    };
    let packed: Vec<_> = [1, 2, 5]
        .map(|workers| through("zstd", &data, workers))
        .into();
    assert!(packed[0].len() < data.len() / 2);
    assert!(
        packed.iter().all(|one| *one == packed[0]),
        "workers show in the output"
    );
    for workers in [1, 3] {
        assert!(through("unzstd", &packed[0], workers) == data);
    }
}

#[test]
fn malformed_input_of_a_processor_is_named_with_its_offset() {
    let native = NativeProcessors::parse(&["unzstd"]).expect("there is such a processor");
    let garbage = vec![7; 10_000];
    let options = Options {
        memory: WINDOW,
        ..options(Order::Both, 3, 1000)
    };
    let done = run_unwatched(&options, vec![Input::bytes(&garbage)], &native, vec![]);
    let error = done.expect_err("it is no zstd").error;
    assert!(matches!(error, NbufError::Process { .. }), "{error}");
    assert!(NativeProcessors::parse(&["sha265"]).is_err());
}

#[test]
fn memory_for_processors_is_counted_to_the_limit() {
    let native = NativeProcessors::parse(&["zstd"]).expect("there is such a processor");
    let needs = native.scratch_bytes(100_000);
    let options = Options {
        memory: 3 * needs,
        ..options(Order::Both, 4, 100_000)
    };
    let done = run_unwatched(&options, vec![Input::bytes(b"abc")], &native, vec![]);
    assert!(matches!(
        done.expect_err("four workers").error,
        NbufError::Memory { .. }
    ));
}

#[test]
fn several_outputs_are_refused_for_compression_and_not_for_a_digest() {
    for (name, refused) in [("zstd", true), ("gunzip", true), ("sha256", false)] {
        let native = NativeProcessors::parse(&[name]).expect("there is such a processor");
        let (mut one, mut two) = (Vec::new(), Vec::new());
        let outputs = vec![Output::writer(&mut one), Output::writer(&mut two)];
        let options = Options {
            memory: WINDOW,
            ..options(Order::Both, 2, 1000)
        };
        let done = run_unwatched(&options, vec![Input::bytes(b"abc")], &native, outputs);
        if refused {
            let error = done.expect_err("one stream").error;
            assert!(error.to_string().contains("dst=2 destinations"), "{error}");
            assert!(one.is_empty() && two.is_empty());
        } else {
            done.expect("no error");
            assert_eq!((&*one, &*two), (&b"abc"[..], &b"abc"[..]));
        }
    }
}
