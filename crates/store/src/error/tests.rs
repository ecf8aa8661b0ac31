//! Every error says what happened, with values, and how to fix it.

use std::collections::BTreeSet;

use super::*;

/// The match in [`position`] does not compile without a new variant.
fn examples() -> Vec<StoreError> {
    vec![
        StoreError::NotAStore {
            path: "/a/store".into(),
            reason: "name".into(),
            remedy: "check the path",
        },
        StoreError::StoreExists {
            path: "/a/store".into(),
        },
        StoreError::ReadOnly {
            path: "/a/store".into(),
            action: "what",
        },
        StoreError::Closed {
            path: "/a/store".into(),
            action: "what",
        },
        StoreError::Io {
            action: "what",
            path: "/a/store".into(),
            source: std::io::Error::other("no luck"),
        },
        StoreError::InvalidName {
            name: "name".into(),
            component: "name".into(),
            rule: "what",
        },
        StoreError::NoSuchSignal {
            name: "name".into(),
            hint: "name".into(),
        },
        StoreError::SignalExists {
            name: "name".into(),
        },
        StoreError::SignalInsideSignal {
            name: "name".into(),
            other: "name".into(),
        },
        StoreError::SignalRemoved {
            name: "name".into(),
        },
        StoreError::InvalidPattern {
            pattern: "name".into(),
            reason: "what",
        },
        StoreError::InvalidRange {
            signal: "name".into(),
            start: "name".into(),
            end: "name".into(),
        },
        StoreError::OutOfBounds {
            signal: "name".into(),
            start: 7,
            end: 7,
            have_start: 7,
            have_end: 7,
        },
        StoreError::GapInSelection {
            signal: "name".into(),
            start: 7,
            length: 7,
            civil: "name".into(),
        },
        StoreError::ClockStepInSelection {
            signal: "name".into(),
            index: 7,
            before: 7,
            after: 7,
        },
        StoreError::NoCivilTime {
            signal: "name".into(),
        },
        StoreError::NoSuchEvent {
            signal: "name".into(),
            event: 7,
        },
        StoreError::DTypeMismatch {
            signal: "name".into(),
            expected: DType::I16.into(),
            got: DType::I16,
        },
        StoreError::PartialSample {
            signal: "name".into(),
            bytes: 7,
            format: DType::I16.into(),
        },
        StoreError::InvalidLength {
            signal: "name".into(),
            action: "what",
            length: 7,
            max: 7,
        },
        StoreError::WriteIntoGap {
            signal: "name".into(),
            start: 7,
            end: 7,
            gap_start: 7,
            gap_end: 7,
        },
        StoreError::InvalidAttributes {
            owner: "name".into(),
            reason: "name".into(),
        },
        StoreError::InvalidOption {
            signal: "name".into(),
            option: "what",
            got: "name".into(),
            legal: "what",
        },
        StoreError::TooLarge {
            what: "what",
            bytes: 7,
            limit: 7,
        },
        StoreError::CannotGather {
            signal: "name".into(),
            reason: "what",
        },
        StoreError::DamagedTable {
            signal: "name".into(),
            table: "what",
            row: 7,
            reason: "what",
        },
        StoreError::Locked {
            path: "/a/store".into(),
            holder: "name".into(),
        },
        StoreError::NetworkFileSystem {
            path: "/a/store".into(),
            kind: "what",
        },
        StoreError::DiskFull {
            action: "what",
            path: "/a/store".into(),
        },
        StoreError::Poisoned {
            path: "/a/store".into(),
            action: "what",
            reason: "name".into(),
        },
        StoreError::Forked {
            path: "/a/store".into(),
            action: "what",
            owner: 7,
        },
        StoreError::NewerFormat {
            path: "/a/store".into(),
            what: "what",
            got: 7,
            supported: 7,
        },
        StoreError::DamagedFile {
            path: "/a/store".into(),
            offset: 7,
            reason: "what",
        },
        StoreError::MissingSamples {
            path: "/a/store".into(),
            have: 7,
            need: 7,
        },
        StoreError::ForeignShard {
            path: "/a/store".into(),
        },
        StoreError::InvalidCodec {
            codec: "name".into(),
        },
        StoreError::Undecodable {
            path: "/a/store".into(),
            reason: "name".into(),
        },
        StoreError::Sealed {
            signal: "name".into(),
            codec: "name".into(),
        },
        StoreError::Occupied {
            signal: "name".into(),
            start: 7,
            end: 7,
            at: 7,
        },
        StoreError::InTheWay {
            signal: "name".into(),
            path: "/a/store".into(),
        },
        StoreError::NeedsRecovery {
            path: "/a/store".into(),
        },
        StoreError::StoreVanished {
            path: "/a/store".into(),
            action: "what",
            reason: "what",
        },
        StoreError::StoreInsideStore {
            path: "/a/store/b".into(),
            other: "/a/store".into(),
        },
        StoreError::Interrupted { action: "what" },
        StoreError::MissingTable {
            signal: "name".into(),
            table: "what",
            path: "/a/store/b".into(),
            rows: Some(7),
        },
        StoreError::NameOfView {
            name: "name".into(),
        },
        StoreError::MissingFolder {
            signal: "name".into(),
            path: "/a/store/b".into(),
        },
        StoreError::UnknownStrategy {
            name: "name".into(),
            known: "read, mmap".into(),
        },
        StoreError::RefusedCalibration {
            option: "what",
            got: "7".into(),
            legal: "it must be less",
        },
        StoreError::BadProfile {
            path: "/a/store".into(),
            reason: "name".into(),
        },
        StoreError::ScratchFree {
            start: 7,
            end: 9,
            whose: " of name".into(),
        },
        StoreError::UnexpectedFile {
            action: "what",
            path: "/a/store".into(),
            found: "a symbolic link",
        },
        StoreError::OversizedFile {
            path: "/a/store".into(),
            have: 9,
            limit: 7,
        },
        StoreError::WrongShard {
            path: "/a/store/b".into(),
            got: "shard 1".into(),
            expected: "shard 2".into(),
        },
        StoreError::SamplesReplaced {
            signal: "name".into(),
            start: 7,
            end: 9,
        },
        StoreError::SignalOverwritten {
            name: "name".into(),
        },
        StoreError::WrongTable {
            signal: "name".into(),
            table: "what",
            path: "/a/store/b".into(),
            got: "older".into(),
            expected: "newer".into(),
        },
        StoreError::LostCommit {
            signal: "name".into(),
            log: "/a/store".into(),
            path: "/a/store".into(),
            start: 7,
            end: 9,
        },
        StoreError::NotABackup {
            path: "/a/store".into(),
            store: "/a/store".into(),
            reason: "what".into(),
        },
        StoreError::UnfinishedBackup {
            path: "/a/store".into(),
        },
        StoreError::Time(TimeError::Overflow { what: "a test" }),
        StoreError::Segment(SegmentError::OutOfMemory { bytes: 7 }),
        StoreError::NoMemoryForFile {
            path: "/a/store".into(),
            have: 9,
            free: 7,
        },
        StoreError::Snapshot(SnapshotError::Moved {
            signal: "name".into(),
            sequence: 7,
            end: 7,
            change: "what".into(),
        }),
        StoreError::Remote {
            action: "what",
            path: "/a/store".into(),
            kind: std::io::ErrorKind::Other,
            error: crate::media::RemoteError {
                code: "unreachable",
                message: "nobody answers; check the network".into(),
            },
        },
        StoreError::RemoteReadOnly {
            path: "/a/store".into(),
            action: "what",
        },
        StoreError::NoMatchingSignals {
            path: "/a/store".into(),
            count: 7,
        },
    ]
}

fn position(error: &StoreError) -> usize {
    match error {
        StoreError::NotAStore { .. } => 0,
        StoreError::StoreExists { .. } => 1,
        StoreError::ReadOnly { .. } => 2,
        StoreError::Closed { .. } => 3,
        StoreError::Io { .. } => 4,
        StoreError::InvalidName { .. } => 5,
        StoreError::NoSuchSignal { .. } => 6,
        StoreError::SignalExists { .. } => 7,
        StoreError::SignalInsideSignal { .. } => 8,
        StoreError::SignalRemoved { .. } => 9,
        StoreError::InvalidPattern { .. } => 10,
        StoreError::InvalidRange { .. } => 11,
        StoreError::OutOfBounds { .. } => 12,
        StoreError::GapInSelection { .. } => 13,
        StoreError::ClockStepInSelection { .. } => 14,
        StoreError::NoCivilTime { .. } => 15,
        StoreError::NoSuchEvent { .. } => 16,
        StoreError::DTypeMismatch { .. } => 17,
        StoreError::PartialSample { .. } => 18,
        StoreError::InvalidLength { .. } => 19,
        StoreError::WriteIntoGap { .. } => 20,
        StoreError::InvalidAttributes { .. } => 21,
        StoreError::InvalidOption { .. } => 22,
        StoreError::TooLarge { .. } => 23,
        StoreError::CannotGather { .. } => 24,
        StoreError::DamagedTable { .. } => 25,
        StoreError::Locked { .. } => 26,
        StoreError::NetworkFileSystem { .. } => 27,
        StoreError::DiskFull { .. } => 28,
        StoreError::Poisoned { .. } => 29,
        StoreError::Forked { .. } => 30,
        StoreError::NewerFormat { .. } => 31,
        StoreError::DamagedFile { .. } => 32,
        StoreError::MissingSamples { .. } => 33,
        StoreError::ForeignShard { .. } => 34,
        StoreError::InvalidCodec { .. } => 35,
        StoreError::Undecodable { .. } => 36,
        StoreError::Sealed { .. } => 37,
        StoreError::Occupied { .. } => 38,
        StoreError::InTheWay { .. } => 39,
        StoreError::NeedsRecovery { .. } => 40,
        StoreError::StoreVanished { .. } => 41,
        StoreError::StoreInsideStore { .. } => 42,
        StoreError::Interrupted { .. } => 43,
        StoreError::MissingTable { .. } => 44,
        StoreError::NameOfView { .. } => 45,
        StoreError::MissingFolder { .. } => 46,
        StoreError::UnknownStrategy { .. } => 47,
        StoreError::RefusedCalibration { .. } => 48,
        StoreError::BadProfile { .. } => 49,
        StoreError::ScratchFree { .. } => 50,
        StoreError::UnexpectedFile { .. } => 51,
        StoreError::OversizedFile { .. } => 52,
        StoreError::WrongShard { .. } => 53,
        StoreError::SamplesReplaced { .. } => 54,
        StoreError::SignalOverwritten { .. } => 55,
        StoreError::WrongTable { .. } => 56,
        StoreError::LostCommit { .. } => 57,
        StoreError::NotABackup { .. } => 58,
        StoreError::UnfinishedBackup { .. } => 59,
        StoreError::Time(_) => 60,
        StoreError::Segment(_) => 61,
        StoreError::NoMemoryForFile { .. } => 62,
        StoreError::Snapshot(_) => 63,
        StoreError::Remote { .. } => 64,
        StoreError::RemoteReadOnly { .. } => 65,
        StoreError::NoMatchingSignals { .. } => 66,
    }
}

#[test]
fn every_variant_is_tested() {
    let examples = examples();
    let positions: Vec<usize> = examples.iter().map(position).collect();
    assert_eq!(positions, (0..examples.len()).collect::<Vec<_>>());
}

#[test]
fn codes_are_unique_and_snake_case() {
    let codes: BTreeSet<&str> = examples().iter().map(StoreError::code).collect();
    assert_eq!(codes.len(), examples().len());
    let plain = |code: &&str| code.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    assert!(codes.iter().all(plain), "{codes:?}");
}

#[test]
fn messages_name_the_values_and_a_fix() {
    for error in examples() {
        let (text, code) = (error.to_string(), error.code());
        if matches!(error, StoreError::Time(_) | StoreError::Segment(_)) {
            continue;
        }
        assert!(
            text.len() > 20 && !text.contains('\n') && !text.contains("  "),
            "{code}: {text}"
        );
        let shows = ["/a/store", "name", "7", "what"];
        assert!(
            shows.iter().any(|value| text.contains(value)),
            "{code} shows no value: {text}"
        );
        // Errors of `gather` have the advice in their reason.
        if !matches!(error, StoreError::CannotGather { .. }) {
            assert!(
                text.contains(';') || text.contains(", or "),
                "{code} offers no way to mend: {text}"
            );
        }
    }
}
