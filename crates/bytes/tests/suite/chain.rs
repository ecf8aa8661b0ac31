//! Several processors, and what chains refuse.

use crate::common::{cuts, noise, run, run_cut};
use isochrony_bytes::{BytesError, Chain, JoinOutcome, Needs, Outcome, Piece, Value};
use proptest::prelude::*;

fn piece(offset: u64, bytes: &[u8]) -> Piece<'_> {
    Piece { offset, bytes }
}

const EVERY: [&str; 13] = [
    "stats:<i2",
    "stats:>f4",
    "md5",
    "sha256",
    "sha512",
    "blake3",
    "xxh3",
    "xxh3-128",
    "crc32c",
    "count:ab",
    "find,keep=5:a|b",
    "count,overlapping,ignore-case:aA",
    "zstd",
];

#[test]
fn results_come_in_the_order_of_names() {
    let chain = Chain::parse(&["crc32c", "count:a", "stats:u1"]).unwrap();
    assert_eq!(
        chain.names().collect::<Vec<_>>(),
        ["crc32c", "count:a", "stats:u1"]
    );
    let outcomes = chain.run(b"banana").unwrap();
    assert!(matches!(
        outcomes[..],
        [
            Outcome::Digest(_),
            Outcome::Matches(_),
            Outcome::Statistics(_)
        ]
    ));
}

#[test]
fn a_chain_of_none_is_a_copy() {
    let chain = Chain::parse::<&str>(&[]).unwrap();
    assert_eq!(chain.needs(), Needs::default());
    assert_eq!(chain.run(b"bytes").unwrap(), []);
}

#[test]
fn needs_say_what_may_be_left_out() {
    let needs = |names: &[&str]| Chain::parse(names).unwrap().needs();
    let sequential = needs(&["sha256", "md5"]);
    assert!(sequential.ordered && !sequential.scan && !sequential.output);
    let parts = needs(&["stats:u1", "crc32c", "count:x"]);
    assert!(parts.scan && !parts.ordered && !parts.output);
    assert!(needs(&["sha256", "gzip"]).output);
    assert!(needs(&["unzstd"]).again && !needs(&["zstd"]).again);
    let chain = Chain::parse(&["sha256"]).unwrap();
    let (mut part, mut state) = (chain.part(), chain.state());
    assert_eq!(
        chain.join(piece(0, b"abc"), &mut part, &mut state),
        Ok(JoinOutcome::Done)
    );
    assert_eq!(chain.finish(&mut state), chain.run(b"abc"));
}

#[test]
fn one_stream_has_one_output_and_names_tell_results_apart() {
    let code = |names: &[&str]| Chain::parse(names).unwrap_err().code();
    assert_eq!(code(&["zstd", "sha256", "gzip"]), "two_outputs");
    assert_eq!(code(&["md5", "md5"]), "named_twice");
    assert!(Chain::parse(&["stats:<i2", "stats:>i2"]).is_ok());
}

#[test]
fn pieces_out_of_order_are_refused_and_change_nothing() {
    let chain = Chain::parse(&["crc32c", "count:ab"]).unwrap();
    let (mut part, mut state) = (chain.part(), chain.state());
    let refuse = |offset, bytes: &'static [u8], part: &mut _, state: &mut _| {
        let piece = piece(offset, bytes);
        chain.scan(piece, part).unwrap();
        chain.join(piece, part, state).unwrap_err()
    };
    let error = refuse(1, b"ab", &mut part, &mut state);
    assert_eq!(
        error,
        BytesError::OutOfOrder {
            expected: 0,
            got: 1
        }
    );
    let first = piece(0, b"abc");
    chain.scan(first, &mut part).unwrap();
    assert_eq!(
        chain.join(first, &mut part, &mut state),
        Ok(JoinOutcome::Done)
    );
    for offset in [0, 4] {
        let error = refuse(offset, b"abc", &mut part, &mut state);
        assert_eq!(error.code(), "out_of_order");
    }
    assert_eq!(state.bytes(), 3);
    assert_eq!(chain.finish(&mut state), chain.run(b"abc"));
}

#[test]
fn a_part_that_scanned_something_else_is_refused() {
    let chain = Chain::parse(&["crc32c"]).unwrap();
    let (mut part, mut state) = (chain.part(), chain.state());
    let join = |part: &mut _, state: &mut _| chain.join(piece(0, b"abc"), part, state);
    let refused = Err(BytesError::NotScanned { offset: 0 });
    assert_eq!(join(&mut part, &mut state), refused);
    chain.scan(piece(0, b"ab"), &mut part).unwrap();
    assert_eq!(join(&mut part, &mut state), refused);
}

#[test]
fn parts_and_states_of_other_chains_are_refused() {
    let (crc, stats) = (
        Chain::parse(&["crc32c"]).unwrap(),
        Chain::parse(&["stats:u1"]).unwrap(),
    );
    let both = Chain::parse(&["crc32c", "stats:u1"]).unwrap();
    let other_chain = Err(BytesError::OtherChain);
    assert_eq!(crc.scan(piece(0, b"a"), &mut stats.part()), other_chain);
    assert_eq!(crc.scan(piece(0, b"a"), &mut both.part()), other_chain);
    let mut part = crc.part();
    crc.scan(piece(0, b"a"), &mut part).unwrap();
    let joined = crc.join(piece(0, b"a"), &mut part, &mut stats.state());
    assert_eq!(joined, Err(BytesError::OtherChain));
    let finished = crc.finish(&mut both.state());
    assert_eq!(finished, Err(BytesError::OtherChain));
}

/// Only the first of thousands of buffers may make it grow.
#[test]
fn parts_serve_any_number_of_buffers_of_any_stream() {
    let bytes = noise(50_000);
    let chain = Chain::parse(&EVERY).unwrap();
    let cuts: Vec<usize> = (0..bytes.len()).step_by(1000).collect();
    let want = run_cut(&chain, &bytes, &cuts, 1).unwrap();
    let mut part = chain.part();
    for _ in 0..2 {
        let (mut state, mut output) = (chain.state(), vec![]);
        for piece in crate::common::pieces(&bytes, &cuts) {
            chain.scan(piece, &mut part).unwrap();
            chain.scan(piece, &mut part).unwrap();
            assert_eq!(
                chain.join(piece, &mut part, &mut state),
                Ok(JoinOutcome::Done)
            );
            output.extend(part.output().concat());
        }
        assert_eq!(chain.finish(&mut state).unwrap(), want.0);
        assert_eq!(output, want.1);
    }
}

#[test]
fn fields_are_named_for_tables() {
    let chain = Chain::parse(&["md5", "stats:u1", "find:b|n", "gzip"]).unwrap();
    let fields: Vec<Vec<_>> = chain
        .run(b"banana")
        .unwrap()
        .iter()
        .map(Outcome::fields)
        .collect();
    let names: Vec<Vec<&str>> = fields
        .iter()
        .map(|fields| fields.iter().map(|field| field.0).collect())
        .collect();
    assert_eq!(
        names,
        [
            &["hex"][..],
            &["count", "nonfinite", "min", "max", "mean", "std", "m2"],
            &["total", "patterns", "offsets"],
            &["bytes_in", "bytes_out"],
        ]
    );
    let md5 = "72b302bf297a228a75730123efef7c41";
    assert_eq!(fields[0][0].1, Value::Text(md5.into()));
    assert_eq!(fields[1][0].1, Value::Int(6));
    assert_eq!(fields[1][2].1, Value::Int(97));
    assert_eq!(fields[2][0].1, Value::Int(3));
    let pair = |a, b| Value::List(vec![Value::Int(a), Value::Int(b)]);
    let offsets = vec![pair(0, 0), pair(2, 1), pair(4, 1)];
    assert_eq!(fields[2][2].1, Value::List(offsets));
    assert_eq!(fields[3][0].1, Value::Int(6));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// zstd's frames follow the cuts, so its sizes are left out.
    #[test]
    fn any_cutting_and_any_number_of_workers_equal_one_pass(cuts in cuts(16_000), workers in 1usize..6) {
        let bytes: Vec<u8> = noise(16_000).iter().map(|byte| b"aAb "[usize::from(byte % 4)]).collect();
        let chain = Chain::parse(&EVERY).unwrap();
        let (mut whole, _) = run(&EVERY, &bytes, &[]).unwrap();
        let (mut outcomes, _) = run_cut(&chain, &bytes, &cuts, workers).unwrap();
        whole.pop();
        outcomes.pop();
        prop_assert_eq!(outcomes, whole);
    }
}
