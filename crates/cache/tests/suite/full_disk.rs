//! A disk with less space than the quota.

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use std::time::{Duration, Instant};

use isochrony_cache::{Cache, CacheError};

use crate::common::{
    PIECE, check_folder, disk_bytes, fetch, key, object_files, only, options, read,
};

/// Unmounted when dropped.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(at: &'a Path, bytes: u64) -> Option<Self> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "none"])
            .arg(at)
            .output();
        mounted
            .is_ok_and(|done| done.status.success())
            .then_some(Self(at))
    }

    /// Fills the disk until the result is removed.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("filler");
        let mut file = std::fs::File::create(&path).expect("a file");
        while file.write_all(&[1; PIECE as usize]).is_ok() {}
        path
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_evicts_then_reports_and_leaves_the_cache_intact() {
    const QUOTA: u64 = 1024 * PIECE;
    let temporary = tempfile::tempdir().expect("a folder");
    let Some(disk) = SmallDisk::mount(temporary.path(), 64 * PIECE) else {
        eprintln!("skipped: mounting a small disk needs root");
        return;
    };
    let folder = disk.0.join("cache");
    let cache = Cache::open(&folder, options(QUOTA)).expect("a cache");
    // Unpinned objects make room for each other.
    for number in 0..8 {
        let object = cache.pin(&key(number), 20 * PIECE).expect("pinned");
        fetch(&object, number, 0..20 * PIECE).expect("room by eviction");
        assert!(read(&object, number, 0..20 * PIECE).is_some());
    }
    assert!(cache.info().expect("info").evictions > 0);
    let mut pinned = Vec::new();
    let error = loop {
        let number = pinned.len() as u64 + 8;
        let object = match cache.pin(&key(number), 10 * PIECE) {
            Ok(object) => object,
            Err(error) => break error,
        };
        match fetch(&object, number, 0..10 * PIECE) {
            Ok(()) => pinned.push((number, object)),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(
            error,
            CacheError::DiskFull {
                quota_bytes: QUOTA,
                ..
            }
        ),
        "{error}"
    );
    assert!(pinned.len() >= 4, "{}", pinned.len());
    for (number, object) in &pinned {
        assert!(read(object, *number, 0..10 * PIECE).is_some());
    }
    assert_eq!(cache.info().expect("info").reserved_bytes, 0);
    // A full disk stops neither reads nor releases.
    let filler = disk.fill();
    let (number, object) = pinned.pop().expect("a pinned object");
    assert!(read(&object, number, 0..10 * PIECE).is_some());
    let reopened = Cache::open(&folder, options(QUOTA)).expect("a cache");
    drop((object, pinned, reopened));
    std::fs::remove_file(&filler).expect("removed");
    let object = cache.pin(&key(40), 20 * PIECE).expect("pinned");
    fetch(&object, 40, 0..20 * PIECE).expect("room again");
    drop((object, cache));
    assert!(disk_bytes(&folder) <= 64 * PIECE);
    check_folder(&folder, QUOTA, 0..41);
}

#[test]
fn each_reservation_allocates_blocks_also_after_a_full_disk() {
    const QUOTA: u64 = 1024 * PIECE;
    let temporary = tempfile::tempdir().expect("a folder");
    let Some(disk) = SmallDisk::mount(temporary.path(), 32 * PIECE) else {
        eprintln!("skipped: mounting a small disk needs root");
        return;
    };
    let folder = disk.0.join("cache");
    let cache = Cache::open(&folder, options(QUOTA)).expect("a cache");
    let object = cache.pin(&key(0), 40 * PIECE).expect("pinned");
    for _ in 0..3 {
        let error = object.reserve(0..40 * PIECE).expect_err("no room");
        assert_eq!(error.code(), "disk_full");
    }
    // Another object has released it.
    let part = object.reserve(0..4 * PIECE).expect("reserved");
    drop((part, object));
    let other = cache.pin(&key(1), 20 * PIECE).expect("pinned");
    fetch(&other, 1, 0..20 * PIECE).expect("room by eviction");
}

#[test]
fn a_full_disk_stops_no_read_of_what_is_cached() {
    const QUOTA: u64 = 1024 * PIECE;
    let temporary = tempfile::tempdir().expect("a folder");
    let Some(disk) = SmallDisk::mount(temporary.path(), 64 * PIECE) else {
        eprintln!("skipped: mounting a small disk needs root");
        return;
    };
    let folder = disk.0.join("cache");
    let cache = Cache::open(&folder, options(QUOTA)).expect("a cache");
    let object = cache.pin(&key(0), 8 * PIECE).expect("pinned");
    fetch(&object, 0, 0..8 * PIECE).expect("fetched");
    let filler = disk.fill();
    // To fill the journal's last block.
    for _ in 0..400 {
        let pinned = cache.pin(&key(0), 8 * PIECE).expect("pinned");
        assert!(pinned.missing(0..8 * PIECE).expect("missing").is_empty());
        assert!(read(&pinned, 0, 0..8 * PIECE).is_some());
        assert_eq!(cache.info().expect("info").objects, 1);
    }
    let mut options_of_file = std::fs::File::options();
    let file = (options_of_file.write(true).open(&object_files(&folder)[0])).expect("the object");
    file.write_all_at(&[0; 8], 2 * PIECE).expect("damaged");
    let other = Cache::open(&folder, options(QUOTA / 2)).expect("a cache");
    let same = other.pin(&key(0), 8 * PIECE).expect("pinned");
    for _ in 0..2 {
        assert!(read(&same, 0, 0..2 * PIECE).is_some());
        assert!(read(&same, 0, 3 * PIECE..8 * PIECE).is_some());
        let missing = same.missing(0..8 * PIECE).expect("missing");
        assert_eq!(missing, only(2 * PIECE..3 * PIECE));
    }
    // The fetch reports the cause at once.
    let start = Instant::now();
    let error = fetch(&same, 0, 0..8 * PIECE).expect_err("no room for a record");
    assert_eq!(error.code(), "disk_full");
    assert!(start.elapsed() < Duration::from_secs(10));
    std::fs::remove_file(&filler).expect("removed");
    fetch(&same, 0, 0..8 * PIECE).expect("fetched");
    assert!(read(&same, 0, 0..8 * PIECE).is_some());
    drop((object, same, cache, other));
    check_folder(&folder, QUOTA, 0..1);
}
