//! Texts and codes of all errors.

use super::*;

fn path() -> PathBuf {
    PathBuf::from("/c")
}

fn key() -> String {
    "k".into()
}

#[test]
fn every_message_states_cause_place_and_fix() {
    let waited = Duration::from_secs(3);
    let all = [
        (
            CacheError::Io {
                action: "read",
                path: path(),
                source: std::io::ErrorKind::PermissionDenied.into(),
            },
            "io: cannot read /c: permission denied; check the disk and the folder's permissions, or open the cache in another folder",
        ),
        (
            CacheError::NotACache {
                path: path(),
                found: "a.txt".into(),
            },
            "not_a_cache: /c is not a cache: it contains \"a.txt\"; give an empty or a new folder",
        ),
        (
            CacheError::NoSuchCache { path: path() },
            "no_such_cache: no cache at /c; check the path, or open one with a quota",
        ),
        (
            CacheError::DamagedJournal { path: path() },
            "damaged_journal: the journal of the cache at /c is missing or damaged, so what it holds is not known; open the cache with a quota, which starts it empty, or remove the folder",
        ),
        (
            CacheError::NetworkFolder {
                path: path(),
                file_system: "NFS",
            },
            "network_folder: cannot cache in /c: it is on NFS, whose locks and mappings are not the kernel's own; give a folder on a local disk",
        ),
        (
            CacheError::NewerFormat {
                path: path(),
                got: 2,
                supported: 1,
            },
            "newer_format: the cache at /c has format 2, this version reads up to 1; upgrade isochrony, or give another folder",
        ),
        (
            CacheError::InvalidPieceBytes {
                piece_bytes: 5,
                min: 1,
                max: 9,
            },
            "invalid_piece_bytes: piece_bytes=5 is refused: it must be a power of two from 1 to 9; choose one, such as 1048576",
        ),
        (
            CacheError::QuotaTooSmall {
                quota_bytes: 1,
                piece_bytes: 2,
                needed_bytes: 3,
            },
            "quota_too_small: quota_bytes=1 is too small: one piece of piece_bytes=2 needs 3 bytes; raise the quota or lower piece_bytes",
        ),
        (
            CacheError::InvalidKey {
                part: "url",
                bytes: 0,
                max_bytes: 9,
            },
            "invalid_key: url of the object's key has 0 bytes; give one of 1 to 9 bytes",
        ),
        (
            CacheError::TooManyPieces {
                key: key(),
                bytes: 9,
                piece_bytes: 1,
                pieces: 9,
                max_pieces: 8,
            },
            "too_many_pieces: k of 9 bytes has 9 pieces of 1 bytes, at most 8 are allowed; open the cache with larger piece_bytes",
        ),
        (
            CacheError::CacheFull {
                path: path(),
                needed_bytes: 1,
                allocated_bytes: 2,
                quota_bytes: 3,
            },
            "cache_full: cache at /c is full: 1 bytes are needed, 2 of the quota of 3 are allocated, and pinned objects cannot be evicted; raise the quota, release objects, or read without the cache",
        ),
        (
            CacheError::DiskFull {
                path: path(),
                needed_bytes: 1,
                allocated_bytes: 2,
                quota_bytes: 3,
            },
            "disk_full: disk of the cache at /c is full: 1 bytes more do not fit, with 2 of the quota of 3 allocated; free space, lower the quota, or read without the cache",
        ),
        (
            CacheError::OutsideObject {
                key: key(),
                start: 1,
                end: 9,
                bytes: 8,
            },
            "outside_object: range 1..9 is outside k, which has 8 bytes; clip the range, or pin the object with its new length",
        ),
        (
            CacheError::NotReserved {
                key: key(),
                start: 1,
                end: 2,
                piece_bytes: 4,
            },
            "not_reserved: bytes 1..2 of k are not whole reserved pieces of 4 bytes; store the ranges that the reservation lists, cut at multiples of the piece length",
        ),
        (
            CacheError::NotStored {
                key: key(),
                start: 1,
                end: 2,
            },
            "not_stored: fetch left bytes 1..2 of k without content; store every range of the reservation, or return an error",
        ),
        (
            CacheError::CheckFailed {
                key: key(),
                start: 1,
                end: 2,
                reason: "r".into(),
            },
            "check_failed: bytes 1..2 of k failed their check and were not cached: r; fetch them again",
        ),
        (
            CacheError::NotPresent {
                key: key(),
                start: 1,
                end: 2,
            },
            "not_present: bytes 1..2 of k are not in the cache; fetch the ranges that `missing` returns before reading",
        ),
        (
            CacheError::ObjectLost {
                path: path(),
                key: key(),
            },
            "object_lost: the cache at /c lost k while it was pinned: its folder was removed or its journal was damaged; drop the object and pin it again",
        ),
        (
            CacheError::FetchTimeout {
                key: key(),
                start: 1,
                end: 2,
                waited,
            },
            "fetch_timeout: waited 3s for another process to fetch bytes 1..2 of k; wait longer, or read without the cache",
        ),
        (
            CacheError::IndexLocked {
                path: path(),
                waited,
            },
            "index_locked: waited 3s for the lock /c; a process that holds it is stopped or hangs: resume or end it",
        ),
        (
            CacheError::Forked {
                path: path(),
                opened_by: 1,
                process: 2,
            },
            "forked: the cache at /c was opened by process 1 and is used in its fork 2; open it in the fork",
        ),
    ];
    for (error, expected) in &all {
        assert_eq!(format!("{}: {error}", error.code()), *expected);
    }
    // Each variant once, by the codes in the source.
    let source = include_str!("mod.rs");
    assert_eq!(source.matches(" { .. } => \"").count(), all.len());
}
