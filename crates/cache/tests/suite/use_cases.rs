//! Single properties of an intact cache.

use std::time::Duration;

use isochrony_cache::{
    Cache, CacheError, CacheInfo, CacheOptions, Check, EvictionPolicy, FileVersion, ObjectKey,
};

use crate::common::{PIECE, fetch, key, object_files, only, options, origin, read, store_all};

const QUOTA: u64 = 16 * PIECE;

#[test]
fn pieces_survive_a_restart_and_are_shared_by_handles() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = Cache::open(folder.path(), options(QUOTA)).expect("a cache");
    let object = cache.pin(&key(1), 3 * PIECE + 5).expect("pinned");
    fetch(&object, 1, 10..PIECE + 1).expect("fetched");
    let other = Cache::open(folder.path(), options(QUOTA)).expect("a cache");
    let same = other.pin(&key(1), 3 * PIECE + 5).expect("pinned");
    assert_eq!(
        same.missing(0..same.bytes()).expect("missing"),
        only(2 * PIECE..3 * PIECE + 5)
    );
    drop((object, same, other, cache));
    let again = Cache::open_existing(folder.path()).expect("a cache");
    let object = again.pin(&key(1), 1).expect("pinned");
    assert_eq!(
        (object.bytes(), object.piece_bytes()),
        (3 * PIECE + 5, PIECE)
    );
    assert!(read(&object, 1, 0..2 * PIECE).is_some());
    let info = again.info().expect("info");
    assert_eq!(
        (info.objects, info.present_bytes, info.quota_bytes),
        (1, 2 * PIECE, QUOTA)
    );
    assert!(info.misses >= 4 && info.hits >= 2, "{info:?}");
    let text = serde_json::to_string(&info).expect("text");
    assert_eq!(
        serde_json::from_str::<CacheInfo>(&text).expect("info"),
        info
    );
}

#[test]
fn a_mapping_outlives_eviction_and_is_never_evicted() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = Cache::open(folder.path(), options(QUOTA)).expect("a cache");
    let object = cache.pin(&key(0), 8 * PIECE).expect("pinned");
    fetch(&object, 0, 0..8 * PIECE).expect("fetched");
    let map = object.map().expect("a mapping");
    drop(object);
    for number in 1..6 {
        let other = cache.pin(&key(number), 6 * PIECE).expect("pinned");
        fetch(&other, number, 0..6 * PIECE).expect("fetched");
        assert!(map.slice(0..8 * PIECE).expect("present") == origin(0, 0..8 * PIECE));
    }
    assert_eq!(cache.info().expect("info").evictions, 4);
    // Its name is gone, as after a reset; the bytes stay.
    std::fs::remove_dir_all(folder.path().join("objects")).expect("removed");
    let other = Cache::open(folder.path(), options(QUOTA)).expect("a cache");
    let new = other.pin(&key(0), 8 * PIECE).expect("pinned");
    fetch(&new, 0, 0..8 * PIECE).expect("fetched");
    assert!(map.slice(0..8 * PIECE).expect("present") == origin(0, 0..8 * PIECE));
}

#[test]
fn a_full_cache_reports_needed_and_pinned_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = Cache::open(folder.path(), options(QUOTA)).expect("a cache");
    let object = cache.pin(&key(0), 20 * PIECE).expect("pinned");
    fetch(&object, 0, 0..14 * PIECE).expect("fetched");
    let error = fetch(&object, 0, 14 * PIECE..16 * PIECE).expect_err("no room");
    let CacheError::CacheFull {
        needed_bytes,
        allocated_bytes,
        quota_bytes,
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(
        [needed_bytes, allocated_bytes, quota_bytes],
        [2 * PIECE, 15 * PIECE, QUOTA]
    );
    assert!(read(&object, 0, 0..14 * PIECE).is_some());
}

#[test]
fn each_policy_evicts_in_its_order() {
    let cases = [
        (EvictionPolicy::Fifo, 0),
        (EvictionPolicy::Lru, 1),
        (EvictionPolicy::Lfu, 1),
    ];
    for (eviction, gone) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        let options = CacheOptions {
            eviction,
            ..options(QUOTA)
        };
        let cache = Cache::open(folder.path(), options).expect("a cache");
        for number in [0, 1, 2, 0, 2, 0] {
            let object = cache.pin(&key(number), 4 * PIECE).expect("pinned");
            fetch(&object, number, 0..4 * PIECE).expect("fetched");
        }
        // Uses are reported, so the order is the same.
        let other = Cache::open(folder.path(), options).expect("a cache");
        cache.info().expect("info");
        let object = other.pin(&key(3), 4 * PIECE).expect("pinned");
        fetch(&object, 3, 0..4 * PIECE).expect("fetched");
        let left = other.manifest().expect("a manifest");
        assert_eq!(left.objects.len(), 3);
        assert!(
            left.objects.iter().all(|entry| entry.key != key(gone)),
            "{eviction:?}"
        );
    }
}

#[test]
fn an_object_that_grew_keeps_whole_pieces_and_fetches_its_short_one_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = Cache::open(folder.path(), options(QUOTA)).expect("a cache");
    let other = Cache::open(folder.path(), options(QUOTA)).expect("a cache");
    let short = cache.pin(&key(0), PIECE + 10).expect("pinned");
    fetch(&short, 0, 0..PIECE + 10).expect("fetched");
    let third = Cache::open(folder.path(), options(QUOTA)).expect("a cache");
    let untouched = third.pin(&key(0), PIECE + 10).expect("pinned");
    let mut late = None;
    let long = other.pin(&key(0), 2 * PIECE + 10).expect("pinned");
    assert_eq!(
        long.missing(0..long.bytes()).expect("missing"),
        only(PIECE..2 * PIECE + 10)
    );
    assert!(read(&long, 0, 0..PIECE).is_some());
    // One that has not read the piece finds that it is longer.
    assert!(read(&short, 0, 0..PIECE + 10).is_some());
    fetch(&untouched, 0, PIECE..PIECE + 10).expect("present");
    let piece = cache.pin(&key(0), 2 * PIECE + 10).expect("pinned");
    fetch(&piece, 0, PIECE..PIECE + 10).expect("fetched");
    assert!(read(&untouched, 0, PIECE..PIECE + 10).is_some());
    assert!(read(&long, 0, PIECE..2 * PIECE).is_some());
    // It stores no short piece.
    long.fetch(
        2 * PIECE..2 * PIECE + 10,
        Duration::from_secs(1),
        |reservation| {
            late.get_or_insert_with(|| cache.pin(&key(0), 3 * PIECE).expect("pinned"));
            store_all(0, reservation)
        },
    )
    .expect("fetched at last");
    let longest = late.expect("pinned");
    fetch(&longest, 0, 0..3 * PIECE).expect("fetched");
    assert!(read(&longest, 0, 0..3 * PIECE).is_some());
    assert!(read(&short, 0, 0..PIECE + 10).is_some());
}

#[test]
fn threads_of_one_handle_fetch_each_piece_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = Cache::open(folder.path(), options(QUOTA)).expect("a cache");
    let fetched = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let object = cache.pin(&key(0), 8 * PIECE).expect("pinned");
                for piece in 0..8 {
                    let range = piece * PIECE..(piece + 1) * PIECE;
                    let result = object.fetch(range, Duration::from_secs(20), |reservation| {
                        fetched.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        std::thread::yield_now();
                        store_all(0, reservation)
                    });
                    result.expect("fetched");
                }
                assert!(read(&object, 0, 0..8 * PIECE).is_some());
            });
        }
    });
    assert_eq!(fetched.into_inner(), 8);
}

#[test]
fn refuses_invalid_options_and_ranges() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cache");
    let code = |result: Result<Cache, CacheError>| result.expect_err("refused").code();
    assert_eq!(code(Cache::open_existing(&path)), "no_such_cache");
    assert_eq!(
        code(Cache::open(&path, options(2 * PIECE - 1))),
        "quota_too_small"
    );
    let odd = CacheOptions {
        piece_bytes: 5000,
        ..options(QUOTA)
    };
    assert_eq!(code(Cache::open(&path, odd)), "invalid_piece_bytes");
    std::fs::write(folder.path().join("thesis.tex"), "x").expect("written");
    assert_eq!(
        code(Cache::open(folder.path(), options(QUOTA))),
        "not_a_cache"
    );
    let cache = Cache::open(&path, options(2 * PIECE)).expect("a cache");
    let error = cache
        .pin(&ObjectKey::file("", "e"), 1)
        .expect_err("refused");
    assert_eq!(error.code(), "invalid_key");
    let error = cache.pin(&key(0), PIECE << 23).expect_err("refused");
    assert_eq!(error.code(), "too_many_pieces");
    let object = cache.pin(&key(0), PIECE).expect("pinned");
    assert_eq!(
        object.missing(0..PIECE + 1).expect_err("refused").code(),
        "outside_object"
    );
    let mut reservation = object.reserve(0..PIECE).expect("reserved");
    let bytes = origin(0, 0..PIECE);
    for (offset, len) in [(0, 5), (1, 5), (PIECE, 0)] {
        let stored = reservation.store(offset, &bytes[..len], Check::VerifiedByCaller);
        assert_eq!(stored.expect_err("refused").code(), "not_reserved");
    }
    reservation
        .store(0, &bytes, Check::VerifiedByCaller)
        .expect("stored");
    assert!(reservation.is_empty());
    let again = reservation.store(0, &bytes, Check::VerifiedByCaller);
    assert_eq!(again.expect_err("refused").code(), "not_reserved");
}

#[test]
fn keys_of_different_content_are_different_objects() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = Cache::open(folder.path(), options(QUOTA)).expect("a cache");
    let dated = |modified_ns| ObjectKey::File {
        url: "https://a/b".into(),
        version: FileVersion::SizeAndTime {
            bytes: 3,
            modified_ns,
        },
    };
    let shard = |content_version| ObjectKey::Shard {
        store: [1; 16],
        signal: 2,
        shard: 3,
        content_version,
    };
    let keys = [
        ObjectKey::file("https://a/b", "1"),
        ObjectKey::file("https://a/b", "2"),
        dated(1),
        dated(2),
        shard(1),
        shard(2),
    ];
    let pins: Vec<_> = keys
        .iter()
        .map(|key| cache.pin(key, 3).expect("pinned"))
        .collect();
    assert_eq!(cache.info().expect("info").objects, keys.len() as u64);
    assert_eq!(object_files(folder.path()).len(), keys.len());
    drop(pins);
    let empty = cache
        .pin(&ObjectKey::file("https://a/empty", "1"), 0)
        .expect("pinned");
    assert!(
        empty
            .map()
            .expect("a mapping")
            .slice(0..0)
            .expect("nothing")
            .is_empty()
    );
    assert!(empty.missing(0..0).expect("nothing").is_empty());
}

#[test]
fn a_long_journal_is_compacted_under_open_handles() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = || Cache::open(folder.path(), options(QUOTA)).expect("a cache");
    let (writers, near, far) = ([open(), open()], open(), open());
    let start = near.manifest().expect("a manifest").sequence;
    let (mut sequence, mut compactions, mut last, mut changes) = (start, 0, 0, 0);
    for turn in 0..1000usize {
        // Long records.
        let key = ObjectKey::file(
            format!("https://a/{}", "b".repeat(15_000)),
            turn.to_string(),
        );
        let object = writers[turn % 2].pin(&key, 3 * PIECE).expect("pinned");
        fetch(&object, 0, 0..2 * PIECE).expect("fetched");
        let (news, now) = (near.changes_since(sequence).expect("changes")).expect("known");
        (sequence, changes) = (now, changes + news.len());
        let bytes = near.info().expect("info").journal_bytes;
        compactions += usize::from(bytes < last);
        assert!(bytes <= (1 << 20) + (16 << 10));
        last = bytes;
        if compactions == 3 {
            break;
        }
    }
    assert_eq!(compactions, 3);
    let all = near
        .changes_since(start)
        .expect("changes")
        .expect("known")
        .0;
    assert_eq!(all.len(), changes);
    // It missed compactions.
    assert_eq!(far.changes_since(start).expect("changes"), None);
    let manifests = [&writers[0], &near, &far, &open()].map(|c| c.manifest().expect("a manifest"));
    assert!(manifests.iter().all(|manifest| *manifest == manifests[0]));
    assert_eq!(manifests[0].objects.len(), 5);
}

#[test]
fn pin_existing_creates_and_grows_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = Cache::open(folder.path(), options(QUOTA)).expect("a cache");
    let other = Cache::open(folder.path(), options(QUOTA)).expect("a cache");
    let existing = |cache: &Cache, bytes| cache.pin_existing(&key(0), bytes).expect("a look");
    assert!(existing(&cache, 0).is_none());
    assert_eq!(cache.info().expect("info").objects, 0);
    let object = other.pin(&key(0), 3 * PIECE).expect("pinned");
    fetch(&object, 0, 0..PIECE).expect("fetched");
    drop(object);
    for handle in [&cache, &other] {
        assert!(existing(handle, 3 * PIECE + 1).is_none());
        let pinned = existing(handle, 2 * PIECE).expect("an object");
        assert_eq!(pinned.bytes(), 3 * PIECE);
        assert!(existing(handle, 3 * PIECE + 1).is_none());
        assert!(read(&pinned, 0, 0..PIECE).is_some());
        assert_eq!(handle.clear().expect("cleared").kept_objects, 1);
    }
    std::fs::remove_file(&object_files(folder.path())[0]).expect("removed");
    assert!(existing(&cache, 0).is_none());
    assert_eq!(cache.info().expect("info").objects, 0);
    assert_eq!(object_files(folder.path()).len(), 0);
}
