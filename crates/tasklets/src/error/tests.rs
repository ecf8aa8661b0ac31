//! Every error says what happened, with values and a remedy.

use std::collections::BTreeSet;

use super::*;

fn examples() -> Vec<(TaskletError, &'static [&'static str])> {
    let (name, signal) = (|| "t".to_owned(), || "stn/x".to_owned());
    let io = || std::io::Error::other("no luck");
    vec![
        (
            TaskletError::Option {
                option: "workers",
                got: "0".into(),
                legal: "a number from 1",
            },
            &["workers=0", "give a number from 1"],
        ),
        (
            TaskletError::DuplicateName { name: name() },
            &["\"t\"", "give each a different name="],
        ),
        (
            TaskletError::UnknownTasklet {
                name: name(),
                after: "u".into(),
            },
            &["\"t\"", "\"u\"", "add tasklet"],
        ),
        (
            TaskletError::TwoWriters {
                first: name(),
                second: "u".into(),
                signal: signal(),
                start: 3,
                end: 7,
            },
            &[
                "\"t\"",
                "\"u\"",
                "3..7 of stn/x",
                "write to different ranges",
            ],
        ),
        (
            TaskletError::Cycle {
                path: "\"t\" needs \"u\" needs \"t\"".into(),
            },
            &["\"t\" needs \"u\"", "remove one"],
        ),
        (
            TaskletError::NobodyWrites {
                name: name(),
                signal: signal(),
                start: 3,
                end: 7,
            },
            &["\"t\"", "3..7 of stn/x", "add a tasklet"],
        ),
        (
            TaskletError::ScratchTooSmall {
                budget: 5,
                needed: 9,
                name: name(),
                order: "",
            },
            &["scratch=5", "\"t\"", "give scratch=9"],
        ),
        (
            TaskletError::OutputOccupied {
                name: name(),
                signal: signal(),
                start: 3,
                end: 7,
                at: 5,
                journal: Some("/a/1.journal".into()),
            },
            &[
                "\"t\"",
                "stn/x: 3..7",
                "first at index 5",
                "call mark_invalid(",
                "resume=True and journal=/a/1.journal",
            ],
        ),
        (
            TaskletError::MissingOutput {
                name: name(),
                signal: signal(),
                start: 3,
                end: 7,
            },
            &[
                "\"t\"",
                "3..7 of stn/x",
                "write all of them, or declare a smaller",
            ],
        ),
        (
            TaskletError::WrongOutput {
                name: name(),
                output: 1,
                got: "8 bytes".into(),
                expected: "4 bytes".into(),
            },
            &[
                "\"t\"",
                "8 bytes",
                "output 1 is 4 bytes",
                "write what is declared",
            ],
        ),
        (
            TaskletError::NotWritable {
                name: name(),
                signal: signal(),
                why: "it is sealed; unseal it first",
            },
            &["\"t\"", "stn/x", "unseal it first"],
        ),
        (
            TaskletError::Failed {
                name: name(),
                failed: 3,
                not_run: 4,
                resumable: true,
                why: "no luck".into(),
            },
            &[
                "\"t\"",
                "no luck",
                "2 others",
                "4 tasklets that depend on failed ones",
                "run again with resume=True",
            ],
        ),
        (
            TaskletError::Interrupted {
                done: 3,
                total: 9,
                resumable: true,
            },
            &["3 of 9", "run again with resume=True"],
        ),
        (
            TaskletError::Journal {
                action: "write",
                path: "/a/journal".into(),
                source: io(),
            },
            &[
                "write the journal /a/journal",
                "no luck",
                "the disk is not full",
            ],
        ),
        (
            TaskletError::JournalInUse {
                path: "/a/journal".into(),
            },
            &["/a/journal", "wait for that run"],
        ),
        (
            TaskletError::NotAJournal {
                path: "/a/journal".into(),
            },
            &["/a/journal", "give journal= the path of a new file"],
        ),
        (
            TaskletError::Thread {
                worker: 3,
                source: io(),
            },
            &["worker thread 3", "no luck", "set a smaller workers="],
        ),
        (
            TaskletError::Store(StoreError::NoSuchEvent {
                signal: signal(),
                event: 3,
            }),
            &["stn/x", "no event 3"],
        ),
    ]
}

/// Makes a new variant a compile error.
fn position(error: &TaskletError) -> usize {
    match error {
        TaskletError::Option { .. } => 0,
        TaskletError::DuplicateName { .. } => 1,
        TaskletError::UnknownTasklet { .. } => 2,
        TaskletError::TwoWriters { .. } => 3,
        TaskletError::Cycle { .. } => 4,
        TaskletError::NobodyWrites { .. } => 5,
        TaskletError::ScratchTooSmall { .. } => 6,
        TaskletError::OutputOccupied { .. } => 7,
        TaskletError::MissingOutput { .. } => 8,
        TaskletError::WrongOutput { .. } => 9,
        TaskletError::NotWritable { .. } => 10,
        TaskletError::Failed { .. } => 11,
        TaskletError::Interrupted { .. } => 12,
        TaskletError::Journal { .. } => 13,
        TaskletError::JournalInUse { .. } => 14,
        TaskletError::NotAJournal { .. } => 15,
        TaskletError::Thread { .. } => 16,
        TaskletError::Store(_) => 17,
    }
}

#[test]
fn every_message_states_values_and_fix() {
    let examples = examples();
    let mut codes = BTreeSet::new();
    for (at, (error, named)) in examples.iter().enumerate() {
        assert_eq!(position(error), at);
        let message = error.to_string();
        for what in *named {
            assert!(message.contains(what), "{message:?} does not say {what:?}");
        }
        let code = error.code();
        assert!(
            code.bytes()
                .all(|byte| byte == b'_' || byte.is_ascii_lowercase()),
            "{code}"
        );
        assert!(codes.insert(code), "{code} twice");
    }
}

#[test]
fn errors_mention_resume_only_with_a_journal() {
    let message = |resumable| {
        let failed = TaskletError::Failed {
            name: "t".into(),
            failed: 1,
            not_run: 0,
            resumable,
            why: "no luck".into(),
        };
        let interrupted = TaskletError::Interrupted {
            done: 3,
            total: 9,
            resumable,
        };
        [failed.to_string(), interrupted.to_string()]
    };
    for message in message(true) {
        assert!(
            message.contains("recorded in the journal")
                && message.ends_with("run again with resume=True")
        );
    }
    for message in message(false) {
        assert!(
            message.contains("no finished tasklet was recorded") && !message.contains("resume")
        );
    }
}
