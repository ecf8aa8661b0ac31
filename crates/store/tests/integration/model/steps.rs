//! Steps applied to store and model.

use std::path::{Path, PathBuf};

use isochrony_segment::DType;
use isochrony_store::{
    Backfilled, BloscCompressor, Codec, CreateOptions, Mode, SignalWriter, Store, StoreError,
};
use isochrony_time::{Fixed, Rate, Stamp};
use proptest::prelude::*;

use super::damage::Damage;
use super::plain::{GRID, Plain, T0};

const SIGNALS: usize = 4;

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Append(i64),
    /// More than an inner chunk, for checksums of full chunks.
    AppendChunk,
    /// Samples, and the stamp's deviation from the expected time.
    AppendAt(i64, i64),
    Gap(i64),
    GapDuration(i64),
    /// Samples, and time before the live end in thousandths of all time so far.
    Backfill(i64, i64),
    Mark(i64, i64),
    Write(i64, i64),
    Rename(u8),
    Remove,
    Overwrite,
    Seal(bool),
    Unseal,
    /// Commits, closes, damages a file, verifies, repairs, reopens.
    Harm(Damage),
    Create(u8),
    Commit(bool),
    Checkpoint,
    /// Commits, closes, reopens.
    Reopen,
    /// Loses uncommitted changes.
    Crash,
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let n = || (0i64..9).prop_map(|n| n * 10);
    let delta = prop_oneof![
        Just(0),
        (1i64..30).prop_map(|d| d * 10),
        (-20i64..0).prop_map(|d| d * 10)
    ];
    prop_oneof![
        16 => n().prop_map(Step::Append),
        1 => Just(Step::AppendChunk),
        24 => (n(), delta).prop_map(|(n, delta)| Step::AppendAt(n, delta)),
        8 => (1i64..20).prop_map(|n| Step::Gap(n * 10)),
        4 => (1i64..20).prop_map(|n| Step::GapDuration(n * 10)),
        20 => (n(), -100i64..1100).prop_map(|(n, back)| Step::Backfill(n, back)),
        8 => (0i64..1000, 0i64..12).prop_map(|(at, n)| Step::Mark(at, n * 10)),
        8 => (0i64..1000, 1i64..50).prop_map(|(at, n)| Step::Write(at, n)),
        4 => any::<u8>().prop_map(Step::Rename),
        2 => Just(Step::Remove),
        2 => Just(Step::Overwrite),
        4 => any::<bool>().prop_map(Step::Seal),
        4 => Just(Step::Unseal),
        5 => super::damage::damage().prop_map(Step::Harm),
        8 => any::<u8>().prop_map(Step::Create),
        12 => any::<bool>().prop_map(Step::Commit),
        4 => Just(Step::Checkpoint),
        4 => Just(Step::Reopen),
        4 => Just(Step::Crash),
    ]
}

pub(crate) fn civil(time: i64) -> Fixed {
    Fixed::from_int(time * GRID)
}

pub(crate) struct Pair {
    pub(crate) path: PathBuf,
    pub(crate) store: Option<Store>,
    pub(crate) plains: Vec<Plain>,
    pub(crate) committed: Vec<Plain>,
    next_value: i16,
}

/// A sealed signal must refuse changes.
fn made<T>(plain: &Plain, result: Result<T, StoreError>) -> Option<T> {
    match result {
        Ok(value) => {
            assert!(!plain.sealed, "a sealed signal changed");
            Some(value)
        }
        Err(error) => {
            assert!(plain.sealed && error.code() == "sealed", "{error}");
            None
        }
    }
}

impl Pair {
    pub(crate) fn new(path: &Path) -> Self {
        let mut pair = Self {
            path: path.to_path_buf(),
            store: Some(Store::open(path, Mode::Create).unwrap()),
            plains: Vec::new(),
            committed: Vec::new(),
            next_value: 0,
        };
        pair.create("net/station/channel", false);
        pair.commit(true);
        pair
    }

    pub(crate) fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn writer(&self, plain: &Plain) -> SignalWriter {
        self.store().writer(&plain.name).unwrap()
    }

    fn samples(&mut self, n: i64) -> Vec<i16> {
        (0..n)
            .map(|_| {
                self.next_value = self.next_value.wrapping_add(1);
                self.next_value
            })
            .collect()
    }

    fn create(&mut self, name: &str, overwrite: bool) {
        let mut options = CreateOptions::new(DType::I16, Rate::from_hz(1000).unwrap());
        options.start = Some(civil(T0));
        options.overwrite = overwrite;
        self.store().create(name, &options).unwrap();
        self.plains.push(Plain::new(name));
    }

    pub(crate) fn commit(&mut self, publish: bool) {
        self.store().commit(publish).unwrap();
        self.committed = self.plains.clone();
    }

    fn reopen(&mut self) {
        self.store.take().unwrap().close().unwrap();
        self.plains = self.committed.clone();
        self.store = Some(Store::open(&self.path, Mode::ReadWrite).unwrap());
    }

    pub(crate) fn commit_and_reopen(&mut self) {
        self.commit(true);
        self.reopen();
    }

    pub(crate) fn take(&mut self, which: usize, step: &Step) {
        match step {
            Step::Create(k) => {
                let name = format!("net/new{}/channel", k % 8);
                if self.plains.len() < SIGNALS && !self.has(&name) {
                    self.create(&name, false);
                }
            }
            Step::Commit(publish) => self.commit(*publish),
            Step::Checkpoint => {
                self.commit(true);
                self.store().checkpoint().unwrap();
            }
            Step::Reopen => self.commit_and_reopen(),
            Step::Crash => self.reopen(),
            step if !self.plains.is_empty() => {
                let mut plain = self.plains.remove(which % self.plains.len());
                match step {
                    Step::Remove => return self.store().remove(&plain.name).unwrap(),
                    Step::Overwrite => return self.create(&plain.name.clone(), true),
                    Step::Seal(zstd) => self.seal(&mut plain, *zstd),
                    Step::Unseal => {
                        self.store().unseal(&plain.name).unwrap();
                        plain.sealed = false;
                    }
                    Step::Rename(k) => self.rename(&mut plain, *k),
                    Step::Harm(_) => {}
                    step => self.change(&mut plain, step),
                }
                self.plains.push(plain);
                match step {
                    // These commit pending changes of all signals.
                    Step::Seal(_) | Step::Unseal => self.committed = self.plains.clone(),
                    Step::Harm(damage) => self.harm(damage),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn has(&self, name: &str) -> bool {
        self.plains.iter().any(|plain| plain.name == name)
    }

    fn rename(&self, plain: &mut Plain, k: u8) {
        let to = format!("net/other{k}/channel");
        if to != plain.name && !self.has(&to) {
            self.store().rename(&plain.name, &to).unwrap();
            plain.name = to;
        }
    }

    fn seal(&self, plain: &mut Plain, zstd: bool) {
        let codec = if zstd {
            Codec::Zstd { level: 1 }
        } else {
            Codec::Blosc {
                compressor: BloscCompressor::Lz4,
                level: 1,
            }
        };
        self.store().seal(&plain.name, codec).unwrap();
        plain.sealed = true;
    }

    fn change(&mut self, plain: &mut Plain, step: &Step) {
        let writer = self.writer(plain);
        match *step {
            Step::Append(_) | Step::AppendChunk => {
                let n = if let Step::Append(n) = *step {
                    n
                } else {
                    33_000
                };
                let samples = self.samples(n);
                if n > 0 && made(plain, writer.append(&samples)).is_some() {
                    plain.append(&samples);
                }
            }
            Step::AppendAt(n, delta) => {
                let samples = self.samples(n);
                let time = plain.live_next + delta;
                let stamp = Stamp::new(civil(time), Fixed::ZERO);
                if n > 0 && made(plain, writer.append_at(&samples, &stamp)).is_some() {
                    plain.append_at(&samples, time);
                }
            }
            Step::Gap(n) => {
                if let Some(gap) = made(plain, writer.append_gap(n)) {
                    assert_eq!((gap.start, gap.length), (plain.end(), n));
                    plain.gap(n);
                }
            }
            Step::GapDuration(n) => {
                let duration = Fixed::from_int(n * GRID);
                if let Some(gap) = made(plain, writer.append_gap_duration(duration)) {
                    assert_eq!(gap.length, n);
                    plain.gap(n);
                }
            }
            Step::Backfill(n, back) if n > 0 => self.backfill(plain, &writer, n, back),
            Step::Mark(at, n) => {
                let start = (plain.end() * at / 1000).div_euclid(10) * 10;
                let end = (start + n).min(plain.end());
                writer.mark_invalid(start..end).unwrap();
                plain.mark(start..end);
            }
            Step::Write(at, n) => {
                let start = plain.end() * at / 1000;
                let end = plain.valid_until(start, start + n);
                let samples = self.samples(end - start);
                if end > start && made(plain, writer.write(start, &samples)).is_some() {
                    plain.write(start, &samples);
                }
            }
            _ => {}
        }
    }

    fn backfill(&mut self, plain: &mut Plain, writer: &SignalWriter, n: i64, back: i64) {
        let samples = self.samples(n);
        let reach = (plain.live_next - T0).max(0);
        let time = T0 + (reach * back / 1000).div_euclid(10) * 10;
        let stamp = Stamp::new(civil(time), Fixed::ZERO);
        let bytes: Vec<u8> = samples.iter().flat_map(|x| x.to_le_bytes()).collect();
        let Some(got) = made(plain, writer.backfill(&bytes, &stamp)) else {
            return;
        };
        let index = plain.backfill(&samples, time);
        match got {
            Backfilled::Filled { index: at, .. } => assert_eq!(at, index),
            Backfilled::Appended(at) => assert_eq!(at.index, index),
            other => panic!("{other:?}"),
        }
        let found = writer.matches(&bytes, &stamp).unwrap();
        assert!(found.is_some(), "what was just stored is a duplicate");
    }
}
