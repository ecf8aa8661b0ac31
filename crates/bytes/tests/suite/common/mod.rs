//! Runs chains over streams that are cut anywhere.
#![allow(dead_code)] // Not every test needs all of it.

use isochrony_bytes::{BytesError, Chain, JoinOutcome, Outcome, Piece};
use proptest::prelude::*;

/// Results, and the output.
pub(crate) type Ran = (Vec<Outcome>, Vec<u8>);

/// As several workers would: scans `workers` parts before joining the first, the last buffer first.
pub(crate) fn run_cut(
    chain: &Chain,
    bytes: &[u8],
    cuts: &[usize],
    workers: usize,
) -> Result<Ran, BytesError> {
    let mut parts: Vec<_> = (0..workers).map(|_| chain.part()).collect();
    let mut state = chain.state();
    let mut output = vec![];
    for round in pieces(bytes, cuts).chunks(workers) {
        for (piece, part) in round.iter().zip(&mut parts).rev() {
            chain.scan(*piece, part)?;
        }
        for (piece, part) in round.iter().zip(&mut parts) {
            loop {
                let joined = chain.join(*piece, part, &mut state)?;
                for half in part.output() {
                    output.extend_from_slice(half);
                }
                if joined == JoinOutcome::Done {
                    break;
                }
                assert!(chain.needs().again);
            }
        }
    }
    let outcomes = chain.finish(&mut state)?;
    output.extend_from_slice(state.output());
    Ok((outcomes, output))
}

pub(crate) fn run(names: &[&str], bytes: &[u8], cuts: &[usize]) -> Result<Ran, BytesError> {
    run_cut(&Chain::parse(names)?, bytes, cuts, 3)
}

/// Equal cuts make empty pieces; those beyond the end are ignored.
pub(crate) fn pieces<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<Piece<'a>> {
    let mut ends: Vec<usize> = cuts.iter().map(|&cut| cut.min(bytes.len())).collect();
    ends.push(bytes.len());
    ends.sort_unstable();
    let mut from = 0;
    ends.into_iter()
        .map(|to| {
            let piece = Piece {
                offset: from as u64,
                bytes: &bytes[from..to],
            };
            from = to;
            piece
        })
        .collect()
}

pub(crate) fn cuts(length: usize) -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        prop::collection::vec(0..=length, 0..12),
        // Equal buffers, some tiny.
        prop_oneof![1usize..40, 1usize..=length.max(2)]
            .prop_map(move |step| (0..length).step_by(step.max(length / 4000)).collect()),
    ]
}

/// Deterministic.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}
