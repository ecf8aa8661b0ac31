use std::collections::BTreeSet;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use isochrony_cache::{
    Cache, CacheError, CacheOptions, Check, ObjectKey, PinnedObject, Reservation,
};

pub(crate) const PIECE: u64 = 4096;
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) fn options(quota_bytes: u64) -> CacheOptions {
    CacheOptions {
        piece_bytes: PIECE,
        ..CacheOptions::new(quota_bytes)
    }
}

pub(crate) fn key(number: u64) -> ObjectKey {
    ObjectKey::Shard {
        store: [9; 16],
        signal: number / 4,
        shard: number % 4,
        content_version: 1,
    }
}

/// No byte is zero, as a hole's are.
pub(crate) fn origin(number: u64, range: Range<u64>) -> Vec<u8> {
    range
        .map(|at| {
            let mixed = (at / 8 + (number << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed >> (8 * (at % 8))) as u8 | 1
        })
        .collect()
}

pub(crate) fn store_all(number: u64, reservation: &mut Reservation) -> Result<(), CacheError> {
    for range in reservation.ranges() {
        let bytes = origin(number, range.clone());
        reservation.store(range.start, &bytes, Check::Crc32c(crc32c::crc32c(&bytes)))?;
    }
    Ok(())
}

pub(crate) fn fetch(
    object: &PinnedObject,
    number: u64,
    range: Range<u64>,
) -> Result<(), CacheError> {
    object.fetch(range, TIMEOUT, |reservation| store_all(number, reservation))
}

/// Checks present bytes. `None` if any is missing.
pub(crate) fn read(object: &PinnedObject, number: u64, range: Range<u64>) -> Option<()> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    match object.read_at(range.start, &mut bytes) {
        Ok(()) => {
            assert!(
                bytes == origin(number, range.clone()),
                "object {number}, {range:?}"
            );
            Some(())
        }
        Err(CacheError::NotPresent { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

pub(crate) fn only(range: Range<u64>) -> Vec<Range<u64>> {
    vec![range]
}

/// Files below `objects`.
pub(crate) fn object_files(folder: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).map(|all| all.map(|e| e.expect("an entry").path()));
        entries.map(Iterator::collect).unwrap_or_default()
    };
    list(&folder.join("objects"))
        .iter()
        .flat_map(|f| list(f))
        .collect()
}

pub(crate) fn disk_bytes(folder: &Path) -> u64 {
    let blocks = |path: &PathBuf| std::fs::metadata(path).map_or(0, |meta| meta.blocks());
    object_files(folder).iter().map(blocks).sum::<u64>() * 512
}

/// Checks folder, index and quota, and that present bytes are the origin's. `numbers`: all keys ever used.
pub(crate) fn check_folder(folder: &Path, quota: u64, numbers: Range<u64>) {
    let cache = Cache::open(folder, options(quota)).expect("a cache");
    assert!(
        disk_bytes(folder) <= quota,
        "{} of {quota} bytes",
        disk_bytes(folder)
    );
    let info = cache.info().expect("info");
    assert!(info.allocated_bytes <= quota);
    assert_eq!(
        (info.resets, info.reserved_bytes, info.pinned_objects),
        (0, 0, 0)
    );
    let manifest = cache.manifest().expect("a manifest");
    let expected: BTreeSet<_> = (manifest.objects.iter())
        .map(|entry| {
            let name: String = entry
                .key
                .digest()
                .iter()
                .map(|b| format!("{b:02x}"))
                .collect();
            folder.join("objects").join(&name[..2]).join(&name[2..])
        })
        .collect();
    assert_eq!(
        object_files(folder).into_iter().collect::<BTreeSet<_>>(),
        expected
    );
    for entry in &manifest.objects {
        let number = numbers.clone().find(|number| key(*number) == entry.key);
        let number = number.expect("a key that was used");
        let object = cache.pin(&entry.key, entry.bytes).expect("pinned");
        for run in &entry.pieces {
            let start = u64::from(run.start) * PIECE;
            let end = (u64::from(run.end) * PIECE).min(entry.bytes);
            read(&object, number, start..end).expect("a piece that is present");
        }
    }
}
