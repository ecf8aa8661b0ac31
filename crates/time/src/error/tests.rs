//! Messages say what is wrong, with values, and how to fix it.

use std::collections::BTreeSet;

use super::TimeError;
use crate::{Fixed, RunId};

fn int(x: i64) -> Fixed {
    Fixed::from_int(x)
}

/// One of each, with required parts of its message.
fn all() -> Vec<(TimeError, &'static [&'static str])> {
    let s = |text: &str| text.to_owned();
    let run = RunId(3);
    vec![
        (
            TimeError::NotFinite {
                what: "rate",
                value: f64::NAN,
            },
            &["rate is NaN", "finite"],
        ),
        (
            TimeError::NotRepresentable { value: 0.1 },
            &["1e-1", "2^-32", "decimal text"],
        ),
        (
            TimeError::Overflow {
                what: "range length",
            },
            &["range length", "check"],
        ),
        (
            TimeError::BadNumber { text: s("1e5") },
            &["\"1e5\"", "-12.5"],
        ),
        (
            TimeError::BadRate {
                text: s("fast"),
                reason: "not a number",
            },
            &["\"fast\"", "not a number", "2 kHz"],
        ),
        (
            TimeError::BadCivil {
                text: s("now"),
                reason: "bad hour",
            },
            &["\"now\"", "bad hour", "ISO 8601", "UTC"],
        ),
        (
            TimeError::ZeroSlope {
                what: s("piece 4"),
                num: 0,
                den: 7,
            },
            &["0/7", "piece 4", "non-zero"],
        ),
        (
            TimeError::ReversedRange {
                start: int(5),
                end: int(2),
            },
            &["ends at 2", "starts at 5", "swap"],
        ),
        (
            TimeError::TimebaseMismatch {
                what: "overlaps",
                got: 2,
                expected: 0,
            },
            &["overlaps", "2", "0", "convert"],
        ),
        (
            TimeError::UnknownTimebase {
                name: s("x"),
                known: s("utc, a"),
            },
            &["\"x\"", "utc, a"],
        ),
        (
            TimeError::DuplicateTimebase {
                name: s("x"),
                existing: s("index"),
            },
            &["\"x\"", "index", "another name"],
        ),
        (
            TimeError::Unreachable {
                from: s("a"),
                to: s("b"),
                from_island: s("a, c"),
                to_island: s("b, d"),
            },
            &["\"a\"", "\"b\"", "{a, c}", "{b, d}", "add a metric"],
        ),
        (
            TimeError::ContradictoryCycle {
                cycle: s("a -> b -> a"),
                timebase: s("a"),
                value: int(1),
                back: int(3),
                off: int(2),
            },
            &["a -> b -> a", "1", "3", "off by 2", "remove"],
        ),
        (
            TimeError::Ambiguous {
                time: int(0),
                first: run,
                first_span: (int(0), int(1_000_000_000)),
                second: RunId(4),
                second_span: (int(0), int(2_000_000_000)),
            },
            &[
                "run 3",
                "run 4",
                "1970-01-01T00:00:01Z",
                "1970-01-01T00:00:02Z",
                "prefer",
            ],
        ),
        (
            TimeError::NotOnSample {
                time: int(7),
                index: 12,
                off_ns: int(3),
            },
            &["000000007Z", "3 ns after sample 12", "nearest"],
        ),
        (
            TimeError::InGap { time: int(0), run },
            &["1970-01-01", "gap of run 3", "nearest"],
        ),
        (TimeError::Empty, &["no pieces", "import"]),
        (
            TimeError::UnknownRun {
                run,
                known: s("0, 1"),
            },
            &["run 3", "0, 1"],
        ),
        (
            TimeError::BadPiece {
                position: 5,
                run,
                index: 9,
                reason: "it overlaps the next piece",
            },
            &["piece 5", "run 3", "index 9", "overlaps", "rebuild"],
        ),
        (
            TimeError::PointOrder {
                index: 4,
                expected: 8,
            },
            &["index 4", "8", "index order"],
        ),
        (
            TimeError::BadResolution {
                resolution: int(-1),
            },
            &["-1 ns", "negative", "width"],
        ),
        (
            TimeError::BadConfig {
                name: "alpha",
                value: 2.0,
                legal: "(0, 1]",
            },
            &["alpha=2", "(0, 1]"],
        ),
        (
            TimeError::BadPlacement {
                placement: "backward",
                index: 6,
                reason: "take next_run()",
            },
            &["backward", "index 6", "next_run"],
        ),
        (
            TimeError::TooFewPoints { got: 1 },
            &["1 points", "two or more", "give more"],
        ),
        (
            TimeError::UnsortedPoints {
                position: 3,
                from: int(7),
                before: int(9),
            },
            &["point 3 is at 7", "9", "sort"],
        ),
        (
            TimeError::NegativeUncertainty {
                position: 2,
                uncertainty: int(-4),
            },
            &["-4", "point 2", "half-width"],
        ),
        (
            TimeError::UnknownUncertainty {
                position: 0,
                points: 2,
                least: 5,
            },
            &["point 0", "2 points", "at least 5", "give uncertainty"],
        ),
        (
            TimeError::NotMonotone {
                before: 1,
                after: 2,
                before_to: int(50),
                after_to: int(40),
                falls: false,
            },
            &["50 at point 1", "40 at point 2", "rises", "leave out"],
        ),
    ]
}

/// Fails to compile until the list has a new variant.
fn position(error: &TimeError) -> usize {
    match error {
        TimeError::NotFinite { .. } => 0,
        TimeError::NotRepresentable { .. } => 1,
        TimeError::Overflow { .. } => 2,
        TimeError::BadNumber { .. } => 3,
        TimeError::BadRate { .. } => 4,
        TimeError::BadCivil { .. } => 5,
        TimeError::ZeroSlope { .. } => 6,
        TimeError::ReversedRange { .. } => 7,
        TimeError::TimebaseMismatch { .. } => 8,
        TimeError::UnknownTimebase { .. } => 9,
        TimeError::DuplicateTimebase { .. } => 10,
        TimeError::Unreachable { .. } => 11,
        TimeError::ContradictoryCycle { .. } => 12,
        TimeError::Ambiguous { .. } => 13,
        TimeError::NotOnSample { .. } => 14,
        TimeError::InGap { .. } => 15,
        TimeError::Empty => 16,
        TimeError::UnknownRun { .. } => 17,
        TimeError::BadPiece { .. } => 18,
        TimeError::PointOrder { .. } => 19,
        TimeError::BadResolution { .. } => 20,
        TimeError::BadConfig { .. } => 21,
        TimeError::BadPlacement { .. } => 22,
        TimeError::TooFewPoints { .. } => 23,
        TimeError::UnsortedPoints { .. } => 24,
        TimeError::NegativeUncertainty { .. } => 25,
        TimeError::UnknownUncertainty { .. } => 26,
        TimeError::NotMonotone { .. } => 27,
    }
}

#[test]
fn every_message_says_what_where_and_how_to_mend_it() {
    let all = all();
    for (k, (error, parts)) in all.iter().enumerate() {
        assert_eq!(position(error), k, "the list follows the enum");
        let message = error.to_string();
        for part in *parts {
            assert!(
                message.contains(part),
                "{:?} lacks {part:?}: {message}",
                error.code()
            );
        }
        assert!(!message.contains('\n'));
    }
    assert_eq!(all.len(), 28);
}

#[test]
fn codes_are_distinct_and_snake_case() {
    let codes: BTreeSet<&str> = all().iter().map(|(e, _)| e.code()).collect();
    assert_eq!(codes.len(), all().len());
    assert!(
        codes
            .iter()
            .all(|c| c.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
    );
}
