//! What reading ahead does, by what the kernel says is in the page cache, and not by what was asked for.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use isochrony_segment::DType;
use isochrony_time::Rate;
use tempfile::TempDir;

use super::ahead::AllAhead;
use super::files::Files;
use super::pieces::Pieces;
use super::{SignalReader, Strategy};
use crate::machine::cache::{cached, drop_cached, faults};
use crate::options::{CreateOptions, Mode};
use crate::selection::Stretch;
use crate::signal::Signal;
use crate::store::Store;

/// Samples of 16 bits: 14 MiB, which lie in one shard.
const SAMPLES: i64 = 7 << 20;
/// A piece of 1 MiB, more than the kernel reads ahead of its own accord.
const PIECE: i64 = 1 << 19;

/// A signal on a real disk, whose file nobody has mapped.
struct OnDisk {
    signal: Signal,
    file: File,
    _folder: TempDir,
}

impl OnDisk {
    /// None, and why, where what is cached can neither be told nor dropped.
    fn new() -> Option<Self> {
        // In the memory of /tmp there may be no disk.
        let folder = tempfile::tempdir_in(".").unwrap();
        let path = folder.path().join("a.iso");
        let store = Store::open(&path, Mode::Create).unwrap();
        let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
        let writer = store.create("p", &options).unwrap();
        writer.append(&vec![7i16; SAMPLES as usize]).unwrap();
        store.commit(true).unwrap();
        drop((writer, store));
        let file = File::open(largest(&path).1).unwrap();
        file.sync_all().unwrap();
        let signal = Store::open(&path, Mode::Read).unwrap().signal("p").unwrap();
        let on_disk = Self {
            signal,
            file,
            _folder: folder,
        };
        let (Ok(()), Some(left)) = (drop_cached(&on_disk.file), on_disk.cached(0..SAMPLES)) else {
            eprintln!("the system does not tell what is cached: not tested");
            return None;
        };
        if left > 0 {
            eprintln!("{left} bytes stay in the page cache: not tested");
            return None;
        }
        Some(on_disk)
    }

    fn parts(&self) -> Vec<Stretch> {
        self.signal.select(0..SAMPLES).unwrap().parts().to_vec()
    }

    fn reader(&self, strategy: Strategy) -> SignalReader {
        SignalReader::new(&self.signal, &self.parts(), PIECE, strategy).unwrap()
    }

    /// Bytes of samples that are cached.
    fn cached(&self, range: Range<i64>) -> Option<u64> {
        let files = Files::new(self.signal.clone());
        let spans: Vec<_> = files.spans(&range).collect();
        assert_eq!(spans.len(), 1);
        cached(&self.file, spans[0].offset..spans[0].offset + spans[0].len)
    }

    /// Waits until all of a range is cached, and not for ever.
    fn comes(&self, range: Range<i64>) {
        let bytes = (range.end - range.start).cast_unsigned() * 2;
        let patience = Instant::now() + Duration::from_secs(60);
        while self.cached(range.clone()) != Some(bytes) {
            let here = self.cached(range.clone());
            assert!(Instant::now() < patience, "{here:?} of {range:?} came");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The file in a folder that is longest.
fn largest(folder: &Path) -> (u64, PathBuf) {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let found = entries.map(|entry| match entry.metadata().unwrap() {
        found if found.is_dir() => largest(&entry.path()),
        found => (found.len(), entry.path()),
    });
    found.max().unwrap_or_default()
}

#[test]
fn readahead_brings_twice_a_piece_and_no_more() {
    let Some(disk) = OnDisk::new() else { return };
    let mut mapped = disk.reader(Strategy::Mmap);
    let kept = mapped.read(0..PIECE).unwrap();
    // Nobody has looked at a sample; the index of the shard may have been read, and what lies around it.
    let little = disk.cached(0..SAMPLES).unwrap();
    assert!(little < PIECE as u64, "{little} bytes came by themselves");
    let mut reader = disk.reader(Strategy::Readahead);
    let first = reader.read(0..PIECE).unwrap();
    disk.comes(0..2 * PIECE);
    assert_eq!(disk.cached(4 * PIECE..6 * PIECE), Some(0));
    let second = reader.read(PIECE..2 * PIECE).unwrap();
    disk.comes(0..3 * PIECE);
    assert_eq!(disk.cached(5 * PIECE..7 * PIECE), Some(0));
    drop((kept, first, second));
}

#[test]
fn whole_signal_read_ahead_brings_all_of_it_before_the_first_piece_is_asked_for() {
    let Some(disk) = OnDisk::new() else { return };
    let _reader = disk.reader(Strategy::ReadaheadAll);
    disk.comes(0..SAMPLES);
}

#[test]
fn whole_signal_read_ahead_stays_so_far_ahead_and_no_further() {
    let Some(disk) = OnDisk::new() else { return };
    let pieces = Pieces::new(disk.signal.clone(), disk.parts(), PIECE);
    let most = 4 * PIECE.cast_unsigned() * 2;
    let ahead = AllAhead::within(Files::new(disk.signal.clone()), pieces, most).unwrap();
    disk.comes(0..4 * PIECE);
    // What the kernel takes in beyond the last request is less than a piece.
    assert_eq!(disk.cached(6 * PIECE..SAMPLES), Some(0));
    ahead.gave(3 * PIECE.cast_unsigned() * 2);
    disk.comes(0..7 * PIECE);
    assert_eq!(disk.cached(9 * PIECE..SAMPLES), Some(0));
}

#[test]
fn what_was_populated_is_touched_without_a_fault() {
    let Some(disk) = OnDisk::new() else { return };
    let touched = |strategy| {
        // A mapping of its own, of pages that are all cached.
        std::io::copy(&mut &disk.file, &mut std::io::sink()).unwrap();
        let path = disk.signal.shared().backend.path().to_owned();
        let signal = Store::open(path, Mode::Read).unwrap().signal("p").unwrap();
        let parts = disk.parts();
        let mut reader = SignalReader::new(&signal, &parts, SAMPLES, strategy).unwrap();
        let samples = reader.read(0..SAMPLES).unwrap();
        let bytes = samples.buffers().next().unwrap().bytes();
        let before = faults().0;
        let sum: u64 = bytes
            .iter()
            .step_by(4096)
            .map(|byte| u64::from(*byte))
            .sum();
        assert_eq!(sum, 7 * (2 * SAMPLES as u64 / 4096));
        (faults().0 - before, reader.reading().used)
    };
    let (mapped, _) = touched(Strategy::Mmap);
    assert!(mapped > 2, "{mapped} faults");
    let (populated, used) = touched(Strategy::Populate);
    if used == Some(Strategy::Populate) {
        assert_eq!(populated, 0, "{mapped} where nothing was populated");
    }
}
