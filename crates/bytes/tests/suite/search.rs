//! Search against a loop that tries every position.

use crate::common::{cuts, noise, run_cut};
use isochrony_bytes::search::{Search, search};
use isochrony_bytes::{Chain, Matches, Outcome};
use proptest::prelude::*;

fn slow(wanted: &Search, bytes: &[u8]) -> (Vec<u64>, Vec<(u64, usize)>) {
    let mut counts = vec![0; wanted.patterns.len()];
    let mut offsets = vec![];
    let mut at = 0;
    while at < bytes.len() {
        let here = wanted.patterns.iter().enumerate().filter(|(_, pattern)| {
            bytes[at..].get(..pattern.len()).is_some_and(|there| {
                if wanted.ignore_case {
                    there.eq_ignore_ascii_case(pattern)
                } else {
                    there == &pattern[..]
                }
            })
        });
        let mut step = 1;
        for (which, pattern) in here {
            counts[which] += 1;
            offsets.push((at as u64, which));
            if !wanted.overlapping {
                step = pattern.len();
                break;
            }
        }
        at += step;
    }
    offsets.truncate(wanted.keep);
    (counts, offsets)
}

fn found(wanted: &Search, bytes: &[u8], cuts: &[usize], workers: usize) -> Matches {
    let chain = Chain::new(vec![("it".into(), search(wanted.clone()).unwrap())]).unwrap();
    let (mut outcomes, output) = run_cut(&chain, bytes, cuts, workers).unwrap();
    assert!(output.is_empty());
    match outcomes.pop() {
        Some(Outcome::Matches(matches)) => matches,
        other => panic!("{other:?}"),
    }
}

fn check(wanted: &Search, bytes: &[u8], cuts: &[usize]) {
    let (counts, offsets) = slow(wanted, bytes);
    let matches = found(wanted, bytes, cuts, 3);
    let got: Vec<u64> = matches.patterns.iter().map(|p| p.count).collect();
    assert_eq!(got, counts, "{wanted:?} {cuts:?}");
    assert_eq!(matches.offsets, offsets, "{wanted:?} {cuts:?}");
    assert_eq!(matches.total, counts.iter().sum::<u64>());
}

fn looking_for(patterns: &[&[u8]], keep: usize) -> Search {
    Search {
        patterns: patterns.iter().map(|pattern| pattern.to_vec()).collect(),
        keep,
        ..Search::default()
    }
}

#[test]
fn matches_do_not_overlap_unless_asked_for() {
    let mut wanted = looking_for(&[b"aa"], 10);
    let matches = found(&wanted, b"aaaa", &[], 1);
    assert_eq!((matches.total, matches.offsets), (2, vec![(0, 0), (2, 0)]));
    wanted.overlapping = true;
    let matches = found(&wanted, b"aaaa", &[], 1);
    assert_eq!(
        (matches.total, matches.offsets),
        (3, vec![(0, 0), (1, 0), (2, 0)])
    );
}

#[test]
fn of_several_at_one_place_the_first_given_is_taken() {
    let matches = found(&looking_for(&[b"ab", b"abcd"], 10), b"abcd", &[1], 2);
    assert_eq!(matches.offsets, [(0, 0)]);
    let matches = found(&looking_for(&[b"abcd", b"ab"], 10), b"abcd", &[1, 3], 2);
    assert_eq!(matches.offsets, [(0, 0)]);
    // A longer match that begins earlier wins over one that ends before.
    let matches = found(&looking_for(&[b"bc", b"abcde"], 10), b"abcde", &[4], 2);
    assert_eq!(matches.offsets, [(0, 1)]);
}

#[test]
fn a_pattern_longer_than_every_buffer_is_found_once() {
    let pattern = noise(5000);
    let mut bytes = noise(20_000);
    bytes[3000..8000].copy_from_slice(&pattern);
    bytes[11_000..16_000].copy_from_slice(&pattern);
    for step in [1, 7, 100, 4999, 5000] {
        let cuts: Vec<usize> = (0..bytes.len()).step_by(step).collect();
        let matches = found(&looking_for(&[&pattern], 9), &bytes, &cuts, 3);
        // `noise` always begins alike.
        assert_eq!(matches.offsets, [(3000, 0), (11_000, 0)], "{step}");
    }
}

#[test]
fn an_empty_stream_has_no_matches() {
    let matches = found(&looking_for(&[b"x", b"yy"], 3), b"", &[0, 0], 2);
    assert_eq!(matches.total, 0);
    assert_eq!(matches.patterns.len(), 2);
}

#[test]
fn places_beyond_those_to_keep_are_counted_only() {
    let text = b"spam ".repeat(1000);
    let matches = found(&looking_for(&[b"spam"], 3), &text, &[17, 999], 2);
    assert_eq!(matches.total, 1000);
    assert_eq!(matches.offsets, [(0, 0), (5, 0), (10, 0)]);
}

/// The buffer begins with more short matches than are kept, all inside an earlier one.
#[test]
fn places_are_looked_for_again_where_those_kept_were_none() {
    let wanted = looking_for(&[b"b", b"abbbbbb"], 4);
    let text = b"abbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
    let matches = found(&wanted, text, &[1], 2);
    assert_eq!(matches.offsets, [(0, 1), (7, 0), (8, 0), (9, 0)]);
    for keep in 0..9 {
        for cut in 0..text.len() {
            check(&looking_for(&[b"b", b"abbbbbb"], keep), text, &[cut]);
        }
    }
}

#[test]
fn what_cannot_be_looked_for_is_refused() {
    let code = |wanted: Search| search(wanted).unwrap_err().to_string();
    assert!(
        code(looking_for(&[], 0))
            .contains("search: 0 patterns of 0 bytes together are refused; give 1 to")
    );
    assert!(
        code(looking_for(&[b"a", b""], 0))
            .contains("search: a pattern is empty; give patterns of 1 to 65536")
    );
    assert!(code(looking_for(&[&[0; 70_000]], 0)).contains("70000 bytes"));
    assert!(
        code(looking_for(&[b"a"], 2_000_000))
            .contains("keep=2000000 is refused; give up to 1048576")
    );
}

/// Few letters, so that patterns overlap often.
fn case() -> impl Strategy<Value = (Search, Vec<u8>, Vec<usize>)> {
    let letter = prop_oneof![4 => Just(b'a'), 2 => Just(b'b'), 1 => Just(b'A')];
    let pattern = prop::collection::vec(letter.clone(), 1..7);
    let wanted = (
        prop::collection::vec(pattern, 1..4),
        any::<bool>(),
        any::<bool>(),
        prop_oneof![Just(0usize), 1usize..8, Just(1000)],
    );
    (wanted, prop::collection::vec(letter, 0..300)).prop_flat_map(|(wanted, text)| {
        let (patterns, overlapping, ignore_case, keep) = wanted;
        let wanted = Search {
            patterns,
            overlapping,
            ignore_case,
            keep,
        };
        let length = text.len();
        (Just(wanted), Just(text), cuts(length))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_cutting_finds_what_trying_every_place_finds((wanted, text, cuts) in case()) {
        check(&wanted, &text, &cuts);
    }

    /// The positions that the scan assumed are never right.
    #[test]
    fn runs_of_one_letter_are_counted_from_the_stream_s_beginning(
        length in 0usize..200,
        run in 2usize..5,
        keep in 0usize..40,
        cuts in cuts(200),
    ) {
        let text = vec![b'z'; length];
        check(&looking_for(&[&vec![b'z'; run]], keep), &text, &cuts);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn longer_texts_and_frequent_words_agree_too(
        cuts in cuts(30_000),
        pattern in prop::sample::select(vec!["e", "the", "of times", "it was", "zzz", "s, it", "was the worst of times, it was"]),
        keep in prop_oneof![Just(0usize), Just(25)],
    ) {
        let text = b"it was the best of times, it was the worst of times, eee ".repeat(500);
        check(&looking_for(&[pattern.as_bytes()], keep), &text, &cuts);
    }
}
