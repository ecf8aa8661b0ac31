//! Every moment between two steps of a writer: a kill, or a reader between its own steps.

use std::path::{Path, PathBuf};

use isochrony_segment::DType;
use isochrony_store::media::Access;
use isochrony_store::media::sim::SimMedia;
use isochrony_store::{Mode, Signal, Store, StoreError, VerifyOptions};

use super::{made, options, read, samples};

const COUNT: usize = 3000;
const ROOT: &str = "/a.iso";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Overwrite,
    Seal,
    SealAgain,
    Unseal,
    Rename,
    Swap,
    WriteInPlace,
    MarkAndFill,
    MarkAndAppend,
    Remove,
}

const ACTIONS: [Action; 10] = [
    Action::Overwrite,
    Action::Seal,
    Action::SealAgain,
    Action::Unseal,
    Action::Rename,
    Action::Swap,
    Action::WriteInPlace,
    Action::MarkAndFill,
    Action::MarkAndAppend,
    Action::Remove,
];

impl Action {
    /// An existing handle's samples may be gone.
    fn takes_samples_away(self) -> bool {
        matches!(
            self,
            Self::Overwrite | Self::WriteInPlace | Self::MarkAndFill | Self::Remove
        )
    }

    fn prepare(self, store: &Store) -> Result<(), StoreError> {
        store.create("x", &options(1))?.append(&samples(1, COUNT))?;
        store.create("y", &options(2))?.append(&samples(2, COUNT))?;
        store.commit(true)?;
        if matches!(self, Self::Unseal | Self::SealAgain) {
            store.seal("x", "zstd:1".parse()?)?;
        }
        store.checkpoint()
    }

    fn run(self, store: &Store) -> Result<(), StoreError> {
        match self {
            Self::Overwrite => {
                store.create("x", &options(3))?.append(&samples(3, COUNT))?;
            }
            Self::Seal => _ = store.seal("x", "zstd:1".parse()?)?,
            Self::SealAgain => _ = store.seal("x", "zstd:3".parse()?)?,
            Self::Unseal => _ = store.unseal("x")?,
            Self::Rename => store.rename("x", "z")?,
            Self::Swap => {
                store.rename("x", "aside")?;
                store.rename("y", "x")?;
                store.rename("aside", "y")?;
            }
            Self::WriteInPlace => store.writer("x")?.write(7, &samples(3, 20))?,
            Self::MarkAndFill => {
                let writer = store.writer("x")?;
                writer.mark_invalid(7..27)?;
                store.commit(true)?;
                store.checkpoint()?;
                writer.fill(7, &samples(3, 20))?;
            }
            Self::MarkAndAppend => {
                let writer = store.writer("x")?;
                writer.mark_invalid(7..27)?;
                store.commit(true)?;
                store.checkpoint()?;
                writer.append(&samples(1, COUNT + 20)[COUNT..])?;
            }
            Self::Remove => store.remove("x")?,
        }
        store.commit(true)?;
        Ok(())
    }
}

fn open(media: &SimMedia, mode: Mode) -> Result<Store, StoreError> {
    Store::open_on(Path::new(ROOT), mode, media.media())
}

/// Samples must be of one version.
fn check_whole(signal: &Signal, what: &str) -> Result<(), StoreError> {
    let mut found = read(signal)?;
    assert!(matches!(found.len() - COUNT, 0 | 20), "{what}");
    let expected = samples(made(signal), found.len());
    if found[7..27] == samples(3, 20)[..] || found[7..27] == [-1; 20] {
        found[7..27].copy_from_slice(&expected[7..27]);
    }
    assert!(found == expected, "{what}: samples and attributes differ");
    Ok(())
}

fn is_told(error: &StoreError) -> bool {
    matches!(
        error.code(),
        "signal_overwritten" | "signal_removed" | "samples_replaced" | "no_such_signal"
    )
}

fn check_handle(action: Action, handle: &Signal, what: &str) {
    match read(handle) {
        Ok(found) => assert!(found == samples(1, COUNT), "{what}: other samples"),
        Err(error) => {
            assert!(
                action.takes_samples_away() && is_told(&error),
                "{what}: {error}"
            );
        }
    }
}

/// Changes of the medium before and after.
fn changes(action: Action) -> (u64, u64) {
    let media = SimMedia::new(1);
    let store = open(&media, Mode::Create).unwrap();
    action.prepare(&store).unwrap();
    let before = media.changes();
    action.run(&store).unwrap();
    (before, media.changes())
}

#[test]
fn a_writer_killed_anywhere_leaves_every_reader_whole_samples() {
    for action in ACTIONS {
        let (before, after) = changes(action);
        for at in before..=after {
            for has_read in [false, true] {
                let what = format!("{action:?} killed before change {at}, read before: {has_read}");
                let media = SimMedia::new(1);
                let writer = open(&media.process(Some(at)), Mode::Create).unwrap();
                action.prepare(&writer).unwrap();
                let reader = open(&media.process(None), Mode::Read).unwrap();
                let handle = reader.signal("x").unwrap();
                if has_read {
                    read(&handle).unwrap();
                }
                let done = action.run(&writer).is_ok();
                check_handle(action, &handle, &what);

                let fresh = open(&media.process(None), Mode::Read).unwrap();
                for name in fresh.names().unwrap() {
                    let signal = fresh.signal(&name).unwrap();
                    check_whole(&signal, &what).unwrap_or_else(|error| panic!("{what}: {error}"));
                }
                reader.refresh().unwrap();
                for name in reader.names().unwrap() {
                    let signal = reader.signal(&name).unwrap();
                    check_whole(&signal, &what).unwrap_or_else(|error| panic!("{what}: {error}"));
                }
                drop(writer);
                let again = open(&media.kill(), Mode::ReadWrite).unwrap();
                for name in again.names().unwrap() {
                    let signal = again.signal(&name).unwrap();
                    check_whole(&signal, &what).unwrap_or_else(|error| panic!("{what}: {error}"));
                }
                if done && action == Action::Overwrite {
                    assert_eq!(made(&again.signal("x").unwrap()), 3, "{what}");
                }
            }
        }
    }
}

#[test]
fn a_reader_interrupted_anywhere_by_a_writer_reads_whole_samples() {
    for action in ACTIONS {
        for has_read in [true, false] {
            for call in 0.. {
                let what = format!("{action:?} before call {call}, read before: {has_read}");
                let media = SimMedia::new(1);
                let writer = open(&media.process(None), Mode::Create).unwrap();
                action.prepare(&writer).unwrap();
                // Calls count from the opening of the store.
                let beside = media.interrupted(call, move || {
                    action.run(&writer).unwrap();
                    // The live writer publishes and checkpoints during the read.
                    std::mem::forget(writer);
                });
                let reader = open(&beside, Mode::Read).unwrap();
                let found = reader.signal("x");
                if let (true, Ok(handle)) = (has_read, &found) {
                    // What is read later must be of the same version.
                    let _ = handle.select(0..10).and_then(|part| part.counts(-1i16));
                }
                let is_before = !beside.was_interrupted();
                match found {
                    Ok(handle) if is_before => check_handle(action, &handle, &what),
                    Ok(handle) => {
                        if let Err(error) = check_whole(&handle, &what) {
                            assert!(is_told(&error), "{what}: {error}");
                        }
                    }
                    Err(error) => assert!(is_told(&error), "{what}: {error}"),
                }
                if !beside.was_interrupted() {
                    break;
                }
            }
        }
    }
}

fn check_view(signal: &Signal, made: i16, count: usize) -> Result<(), StoreError> {
    let view = signal.view(0..signal.end_index(), 3)?;
    let values = view.physical(DType::I16).unwrap();
    for (column, (min, max)) in values.min.iter().zip(&values.max).enumerate() {
        let own = f64::from(made) * 1000.0..f64::from(made + 1) * 1000.0;
        assert!(
            own.contains(min) && own.contains(max),
            "column {column} of a signal of making {made} is {min} to {max}"
        );
    }
    assert_eq!(view.columns.count.iter().sum::<u64>(), count as u64);
    Ok(())
}

#[test]
fn a_view_interrupted_anywhere_by_a_writer_counts_samples_of_one_signal() {
    const LONG: usize = 70_000;
    type Change = fn(&Store) -> Result<(), StoreError>;
    let actions: [(&str, Change); 4] = [
        ("rename", |store| store.rename("x", "z")),
        ("remove", |store| store.remove("x")),
        ("swap", |store| {
            store.rename("x", "aside")?;
            store.rename("y", "x")?;
            store.rename("aside", "y")
        }),
        ("overwrite", |store| {
            let writer = store.create("x", &options(3))?;
            writer.append(&samples(3, LONG))?;
            Ok(())
        }),
    ];
    for (name, action) in actions {
        for call in 0.. {
            let media = SimMedia::new(1);
            let writer = open(&media.process(None), Mode::Create).unwrap();
            for (name, made) in [("x", 1), ("y", 2)] {
                let own = writer.create(name, &options(made)).unwrap();
                own.append(&samples(made, LONG)).unwrap();
            }
            writer.commit(true).unwrap();
            writer.checkpoint().unwrap();
            let beside = media.interrupted(call, move || {
                action(&writer).unwrap();
                writer.commit(true).unwrap();
                writer.checkpoint().unwrap();
                std::mem::forget(writer);
            });
            let reader = open(&beside, Mode::Read).unwrap();
            let seen = reader
                .signal("x")
                .and_then(|signal| check_view(&signal, made(&signal), LONG));
            if let Err(error) = seen {
                assert!(is_told(&error), "{name} before call {call}: {error}");
            }
            if !beside.was_interrupted() {
                break;
            }
        }
    }
}

#[test]
fn damage_is_found_wherever_a_killed_writer_left_the_signals_folder() {
    let everything = VerifyOptions {
        deep: true,
        ..VerifyOptions::default()
    };
    for action in [Action::Rename, Action::Swap] {
        let (before, after) = changes(action);
        for at in before..=after {
            let what = format!("{action:?} killed before change {at}");
            let media = SimMedia::new(1);
            let writer = open(&media.process(Some(at)), Mode::Create).unwrap();
            action.prepare(&writer).unwrap();
            let _ = action.run(&writer);
            drop(writer);
            let media = media.kill();
            let files = media.media();
            let places = ["x", "y", "z", "aside", ".isochrony/staging/1"];
            let is_first = |folder: &PathBuf| {
                let identity = files
                    .read(&folder.join("data/.signal"), 4096)
                    .ok()
                    .flatten();
                identity.is_some_and(|text| text.starts_with(b"isochrony signal 1"))
            };
            let mut folders = places.iter().map(|place| Path::new(ROOT).join(place));
            let folder = folders.find(is_first).expect(&what);
            let shard = files.open(&folder.join("data/c/0"), Access::Write).unwrap();
            shard.write_at(4096 + 100, &[0xff, 0x7f]).unwrap();
            let reader = open(&media, Mode::Read).unwrap();
            let found = reader.verify(&everything).unwrap().findings;
            assert!(
                found.iter().any(|finding| finding.code == "flipped_bits"),
                "{what}: {found:#?}"
            );
        }
    }
}
