//! What strategies bring into the page cache.

use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use isochrony_segment::SigSeg;
use isochrony_system::page_cache::{cached, drop_cached};
use isochrony_system::usage::page_faults;
use tempfile::TempDir;

use super::Strategy;
use super::populate::populate_ahead;
use super::readahead_all::advise_ahead;
use crate::scan::{PieceIter, PieceReader, PrefetchThread, READ_AHEAD_BYTES, SourceFiles};
use crate::source::SampleSource;
use crate::test_source::TestSource;

/// 14 MiB of 16-bit samples.
const SAMPLES: i64 = 7 << 20;
/// More than the kernel reads ahead by itself.
const PIECE: i64 = 1 << 19;

struct OnDisk {
    source: Arc<dyn SampleSource>,
    path: PathBuf,
    file: File,
    _folder: TempDir,
}

impl OnDisk {
    /// None if cached pages cannot be counted or dropped.
    fn new() -> Option<Self> {
        // /tmp may be in memory.
        let folder = tempfile::tempdir_in(".").unwrap();
        let path = folder.path().join("samples");
        std::fs::write(&path, [7, 0].repeat(SAMPLES as usize)).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        let on_disk = Self {
            source: TestSource::shared(&path, SAMPLES, Vec::new()),
            path,
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

    fn source_of_its_own(&self) -> Arc<dyn SampleSource> {
        TestSource::shared(&self.path, SAMPLES, Vec::new())
    }

    fn parts(&self) -> Vec<Range<i64>> {
        std::iter::once(0..SAMPLES).collect()
    }

    fn reader(&self, strategy: Strategy) -> PieceReader {
        PieceReader::new(&self.source, &self.parts(), PIECE, strategy).unwrap()
    }

    fn cached(&self, range: Range<i64>) -> Option<u64> {
        let files = SourceFiles::new(&self.source);
        let spans: Vec<_> = files.spans(&range).collect();
        assert_eq!(spans.len(), 1);
        cached(&self.file, spans[0].offset..spans[0].offset + spans[0].len)
    }

    fn wait_until_cached(&self, range: Range<i64>) {
        let bytes = (range.end - range.start).cast_unsigned() * 2;
        let patience = Instant::now() + Duration::from_secs(60);
        while self.cached(range.clone()) != Some(bytes) {
            let here = self.cached(range.clone());
            assert!(Instant::now() < patience, "{here:?} of {range:?} came");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[test]
fn readahead_caches_exactly_two_pieces() {
    let Some(disk) = OnDisk::new() else { return };
    let mut mapped = disk.reader(Strategy::Mmap);
    let kept = mapped.read(0..PIECE).unwrap();
    let little = disk.cached(0..SAMPLES).unwrap();
    assert!(little < PIECE as u64, "{little} bytes came by themselves");
    let mut reader = disk.reader(Strategy::Readahead);
    let first = reader.read(0..PIECE).unwrap();
    disk.wait_until_cached(0..2 * PIECE);
    assert_eq!(disk.cached(4 * PIECE..6 * PIECE), Some(0));
    let second = reader.read(PIECE..2 * PIECE).unwrap();
    disk.wait_until_cached(0..3 * PIECE);
    assert_eq!(disk.cached(5 * PIECE..7 * PIECE), Some(0));
    drop((kept, first, second));
}

#[test]
fn whole_signal_read_ahead_caches_all_before_the_first_request() {
    let Some(disk) = OnDisk::new() else { return };
    let _reader = disk.reader(Strategy::ReadaheadAll);
    disk.wait_until_cached(0..SAMPLES);
}

#[test]
fn whole_signal_read_ahead_stays_within_its_limit() {
    let Some(disk) = OnDisk::new() else { return };
    let pieces = PieceIter::new(disk.source.clone(), disk.parts(), PIECE);
    let most = 4 * PIECE.cast_unsigned() * 2;
    let ahead = advise_ahead(&disk.source, pieces, most).unwrap();
    disk.wait_until_cached(0..4 * PIECE);
    // The kernel then reads less than a piece.
    assert_eq!(disk.cached(6 * PIECE..SAMPLES), Some(0));
    // Repeated ranges are passed once.
    for _ in 0..3 {
        consume(&ahead, 0..3 * PIECE);
    }
    disk.wait_until_cached(0..7 * PIECE);
    assert_eq!(disk.cached(9 * PIECE..SAMPLES), Some(0));
}

fn consume(ahead: &PrefetchThread, range: Range<i64>) {
    ahead.consumed(&range);
}

#[test]
fn for_unordered_parts_consumed_bytes_are_summed() {
    let Some(disk) = OnDisk::new() else { return };
    let halves = [8 * PIECE..14 * PIECE, 0..6 * PIECE];
    let pieces = PieceIter::new(disk.source.clone(), halves.to_vec(), PIECE);
    let most = 4 * PIECE.cast_unsigned() * 2;
    let ahead = advise_ahead(&disk.source, pieces, most).unwrap();
    disk.wait_until_cached(8 * PIECE..12 * PIECE);
    assert_eq!(disk.cached(2 * PIECE..6 * PIECE), Some(0));
    consume(&ahead, 8 * PIECE..14 * PIECE);
    disk.wait_until_cached(0..4 * PIECE);
}

#[test]
fn populating_reads_all_uncached_pages_within_its_limit() {
    let Some(disk) = OnDisk::new() else { return };
    let mut reader = disk.reader(Strategy::Populate);
    let first = reader.read(0..PIECE).unwrap();
    if reader.reading().used != Some(Strategy::Populate) {
        eprintln!("the system cannot fill page tables: not tested");
        return;
    }
    disk.wait_until_cached(0..SAMPLES);
    drop((reader, first));

    // The kernel reads around faults.
    let pieces = PieceIter::new(disk.source.clone(), disk.parts(), PIECE);
    let most = 4 * PIECE.cast_unsigned() * 2;
    let ahead = populate_ahead(&disk.source, pieces, most).unwrap();
    for _ in 0..3 {
        consume(&ahead, 0..9 * PIECE);
        std::thread::sleep(Duration::from_millis(20));
        assert!(!ahead.has_ended());
    }
    consume(&ahead, 9 * PIECE..10 * PIECE);
    wait_for_end(&ahead);
}

fn wait_for_end(ahead: &PrefetchThread) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !ahead.has_ended() {
        assert!(Instant::now() < patience, "it goes on for ever");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn pages_filled_by_the_thread_are_read_without_faults() {
    let Some(disk) = OnDisk::new() else { return };
    let touched = |filled: bool| {
        std::io::copy(&mut &disk.file, &mut std::io::sink()).unwrap();
        let source = disk.source_of_its_own();
        let samples = source.read(0..SAMPLES).unwrap();
        if filled {
            let pieces = PieceIter::new(source.clone(), disk.parts(), PIECE);
            let ahead = populate_ahead(&source, pieces, READ_AHEAD_BYTES).unwrap();
            wait_for_end(&ahead);
        }
        touch(&samples)
    };
    assert!(touched(false) > 2);
    let mut reader = disk.reader(Strategy::Populate);
    reader.read(0..PIECE).unwrap();
    if reader.reading().used == Some(Strategy::Populate) {
        assert_eq!(touched(true), 0);
    }
}

fn touch(samples: &SigSeg) -> u64 {
    let bytes = samples.buffers().next().unwrap().bytes();
    let before = page_faults().0;
    let sum: u64 = bytes
        .iter()
        .step_by(4096)
        .map(|byte| u64::from(*byte))
        .sum();
    assert_eq!(sum, 7 * (2 * SAMPLES as u64 / 4096));
    page_faults().0 - before
}

#[test]
fn populated_pages_are_read_without_faults() {
    let Some(disk) = OnDisk::new() else { return };
    let touched = |strategy| {
        std::io::copy(&mut &disk.file, &mut std::io::sink()).unwrap();
        let source = disk.source_of_its_own();
        let parts = disk.parts();
        let mut reader = PieceReader::new(&source, &parts, SAMPLES, strategy).unwrap();
        let samples = reader.read(0..SAMPLES).unwrap();
        (touch(&samples), reader.reading().used)
    };
    let (mapped, _) = touched(Strategy::Mmap);
    assert!(mapped > 2, "{mapped} faults");
    let (populated, used) = touched(Strategy::Populate);
    if used == Some(Strategy::Populate) {
        assert_eq!(populated, 0, "{mapped} where nothing was populated");
    }
}
