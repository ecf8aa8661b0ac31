//! A disk with less space than the quota.

use std::path::Path;
use std::process::Command;

use isochrony_cache::{Cache, CacheError};

use crate::common::{PIECE, check_folder, disk_bytes, fetch, key, options, read};

/// A small file system, unmounted at the end.
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
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_evicts_then_tells_and_leaves_the_cache_whole() {
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
    // Pinned ones do not: the disk is full.
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
    // Something else takes the last block: a full disk never stops reading, nor giving back.
    let filler = disk.0.join("filler");
    let _ = std::fs::write(&filler, vec![1; 64 * PIECE as usize]);
    let (number, object) = pinned.pop().expect("a pinned object");
    assert!(read(&object, number, 0..10 * PIECE).is_some());
    let reopened = Cache::open(&folder, options(QUOTA));
    if let Err(error) = &reopened {
        assert!(
            matches!(error, CacheError::Io { .. } | CacheError::DiskFull { .. }),
            "{error}"
        );
    }
    drop((object, pinned, reopened));
    // Its space comes back, and with it the cache.
    std::fs::remove_file(&filler).expect("removed");
    let object = cache.pin(&key(40), 20 * PIECE).expect("pinned");
    fetch(&object, 40, 0..20 * PIECE).expect("room again");
    drop((object, cache));
    assert!(disk_bytes(&folder) <= 64 * PIECE);
    check_folder(&folder, QUOTA, 0..41);
}
