//! Damage on disk, between openings and under open caches.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use isochrony_cache::{Cache, CacheError, Change, Check, PinnedObject};

use crate::common::{
    PIECE, TIMEOUT, check_folder, fetch, key, object_files, only, options, origin, read,
};

const QUOTA: u64 = 64 * PIECE;

struct Place {
    _temporary: tempfile::TempDir,
    folder: PathBuf,
}

fn place() -> Place {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = temporary.path().join("cache");
    Place {
        _temporary: temporary,
        folder,
    }
}

fn open(folder: &Path) -> Cache {
    Cache::open(folder, options(QUOTA)).expect("a cache")
}

fn filled(folder: &Path) -> (Cache, PinnedObject) {
    let cache = open(folder);
    let object = cache.pin(&key(1), 4 * PIECE + 100).expect("pinned");
    fetch(&object, 1, 0..object.bytes()).expect("fetched");
    (cache, object)
}

fn writable(path: &Path) -> File {
    File::options().write(true).open(path).expect("a file")
}

#[test]
fn a_flipped_byte_is_found_before_the_first_use_after_a_restart() {
    let place = place();
    drop(filled(&place.folder));
    let file = writable(&object_files(&place.folder)[0]);
    let at = 2 * PIECE + 77;
    let byte = origin(1, at..at + 1)[0];
    file.write_all_at(&[byte ^ 4], at).expect("flipped");
    let cache = open(&place.folder);
    let before = cache.manifest().expect("a manifest").sequence;
    let object = cache.pin(&key(1), 4 * PIECE + 100).expect("pinned");
    assert!(read(&object, 1, 0..2 * PIECE).is_some());
    assert_eq!(
        object.missing(0..4 * PIECE).expect("missing"),
        only(2 * PIECE..3 * PIECE)
    );
    assert!(object.map().expect("a mapping").slice(at..at + 1).is_err());
    let (changes, _) = cache
        .changes_since(before)
        .expect("changes")
        .expect("known");
    assert_eq!(
        changes,
        [Change::Dropped {
            key: key(1),
            piece: 2
        }]
    );
    fetch(&object, 1, 0..object.bytes()).expect("fetched");
    assert!(read(&object, 1, 0..object.bytes()).is_some());
    drop((object, cache));
    check_folder(&place.folder, QUOTA, 0..2);
}

/// Reading files again for each task would double disk reads.
#[test]
fn bytes_are_compared_with_their_checksum_once_by_a_process_and_by_each_other_one() {
    let place = place();
    let (cache, object) = filled(&place.folder);
    drop(object);
    let other = open(&place.folder);
    let pin = |cache: &Cache| cache.pin(&key(1), 4 * PIECE + 100).expect("pinned");
    let missing = |object: &PinnedObject| object.missing(0..object.bytes()).expect("missing");
    assert_eq!(missing(&pin(&cache)), []);
    let file = writable(&object_files(&place.folder)[0]);
    let byte = origin(1, 77..78)[0];
    file.write_all_at(&[byte ^ 4], 77).expect("flipped");
    assert_eq!(missing(&pin(&cache)), []);
    assert_eq!(missing(&pin(&other)), only(0..PIECE));
    // The first process knows of the damage, too.
    assert_eq!(missing(&pin(&cache)), only(0..PIECE));
    fetch(&pin(&other), 1, 0..PIECE).expect("fetched");
    assert_eq!(missing(&pin(&cache)), []);
    assert!(read(&pin(&cache), 1, 0..4 * PIECE).is_some());
}

#[test]
fn a_truncated_file_is_fetched_again() {
    let place = place();
    drop(filled(&place.folder));
    writable(&object_files(&place.folder)[0])
        .set_len(PIECE)
        .expect("truncated");
    let cache = open(&place.folder);
    let object = cache.pin(&key(1), 4 * PIECE + 100).expect("pinned");
    assert_eq!(
        object.missing(0..object.bytes()).expect("missing"),
        only(0..object.bytes())
    );
    fetch(&object, 1, 0..object.bytes()).expect("fetched");
    assert!(read(&object, 1, 0..object.bytes()).is_some());
    drop((object, cache));
    check_folder(&place.folder, QUOTA, 0..2);
}

#[test]
fn a_file_truncated_while_pinned_is_not_mapped() {
    let place = place();
    let (_cache, object) = filled(&place.folder);
    writable(&object_files(&place.folder)[0])
        .set_len(PIECE)
        .expect("truncated");
    assert_eq!(object.map().expect_err("too short").code(), "object_lost");
}

#[test]
fn missing_files_and_unknown_files_are_found_when_opening() {
    let place = place();
    drop(filled(&place.folder));
    let file = object_files(&place.folder).remove(0);
    let orphan = file.with_file_name("0".repeat(62));
    std::fs::rename(&file, &orphan).expect("renamed");
    std::fs::write(file.with_file_name("garbage"), "x").expect("written");
    let cache = open(&place.folder);
    // Not an object's name.
    let garbage = file.with_file_name("garbage");
    assert_eq!(object_files(&place.folder), [garbage]);
    assert_eq!(cache.info().expect("info").objects, 0);
    assert_eq!(cache.info().expect("info").resets, 0);
}

#[test]
fn a_flipped_byte_of_the_journal_loses_at_most_the_content() {
    let place = place();
    drop(filled(&place.folder));
    let journal = place.folder.join("journal");
    let bytes = std::fs::read(&journal).expect("the journal");
    let object = std::fs::read(&object_files(&place.folder)[0]).expect("the object");
    let name = object_files(&place.folder).remove(0);
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x21;
        std::fs::write(&journal, &flipped).expect("written");
        std::fs::write(&name, &object).expect("written");
        match Cache::open(&place.folder, options(QUOTA)) {
            Ok(cache) => {
                let pinned = cache.pin(&key(1), 4 * PIECE + 100).expect("pinned");
                read(&pinned, 1, 0..PIECE);
                fetch(&pinned, 1, 0..pinned.bytes()).expect("fetched");
                assert!(read(&pinned, 1, 0..pinned.bytes()).is_some(), "byte {at}");
            }
            // The format's number.
            Err(error) => assert_eq!((error.code(), at / 4), ("newer_format", 2)),
        }
    }
}

#[test]
fn every_cut_of_the_journal_gives_a_working_cache() {
    let place = place();
    drop(filled(&place.folder));
    let journal = place.folder.join("journal");
    let bytes = std::fs::read(&journal).expect("the journal");
    for cut in (0..bytes.len()).step_by(3) {
        std::fs::write(&journal, &bytes[..cut]).expect("written");
        let cache = open(&place.folder);
        let object = cache.pin(&key(1), 4 * PIECE + 100).expect("pinned");
        read(&object, 1, 0..PIECE);
        fetch(&object, 1, 0..object.bytes()).expect("fetched");
        assert!(
            read(&object, 1, 0..object.bytes()).is_some(),
            "cut at {cut}"
        );
        drop((object, cache));
    }
    check_folder(&place.folder, QUOTA, 0..2);
}

#[test]
fn an_open_cache_survives_removal_of_its_folder() {
    let place = place();
    let (cache, object) = filled(&place.folder);
    let map = object.map().expect("a mapping");
    std::fs::remove_dir_all(&place.folder).expect("removed");
    assert!(map.slice(0..object.bytes()).expect("present") == origin(1, 0..object.bytes()));
    assert!(read(&object, 1, 0..object.bytes()).is_some());
    assert_eq!(cache.info().expect("info").objects, 0);
    assert_eq!(cache.info().expect("info").resets, 1);
    let error = object.reserve(0..PIECE).expect_err("the object is gone");
    assert_eq!(error.code(), "object_lost");
    let again = cache.pin(&key(1), 4 * PIECE + 100).expect("pinned anew");
    assert_eq!(again.missing(0..PIECE).expect("missing"), only(0..PIECE));
    fetch(&again, 1, 0..again.bytes()).expect("fetched");
    assert!(read(&again, 1, 0..again.bytes()).is_some());
    drop((map, object, again, cache));
    check_folder(&place.folder, QUOTA, 0..2);
}

#[test]
fn wrong_bytes_are_refused_whatever_the_check() {
    let place = place();
    let cache = open(&place.folder);
    let object = cache.pin(&key(1), PIECE).expect("pinned");
    let right = origin(1, 0..PIECE);
    let mut wrong = right.clone();
    wrong[9] ^= 1;
    let mut reservation = object.reserve(0..PIECE).expect("reserved");
    let with = |bytes: &[u8]| match bytes == right {
        true => Ok(()),
        false => Err("chunk 3 is damaged".to_owned()),
    };
    let checks = [
        Check::Crc32c(crc32c::crc32c(&right)),
        Check::Blake3(*blake3::hash(&right).as_bytes()),
        Check::With(&with),
    ];
    for check in checks {
        let error = reservation
            .store(0, &wrong, check)
            .expect_err("wrong bytes");
        assert_eq!(error.code(), "check_failed");
        assert_eq!(object.missing(0..PIECE).expect("missing"), only(0..PIECE));
    }
    reservation
        .store(0, &right, Check::With(&with))
        .expect("right bytes");
    assert_eq!(
        object.digest().expect("a digest"),
        *blake3::hash(&right).as_bytes()
    );
}

#[test]
fn a_failed_fetch_leaves_the_pieces_to_others() {
    let place = place();
    let cache = open(&place.folder);
    let other = open(&place.folder);
    let object = cache.pin(&key(1), 2 * PIECE).expect("pinned");
    let failed = object.fetch(0..2 * PIECE, TIMEOUT, |_| {
        Err(CacheError::NoSuchCache { path: "x".into() })
    });
    assert_eq!(
        failed.expect_err("the fetch's own error").code(),
        "no_such_cache"
    );
    let nothing = object.fetch(0..2 * PIECE, TIMEOUT, |_| Ok::<_, CacheError>(()));
    assert_eq!(
        nothing.expect_err("nothing was stored").code(),
        "not_stored"
    );
    let same = other.pin(&key(1), 2 * PIECE).expect("pinned");
    fetch(&same, 1, 0..2 * PIECE).expect("fetched");
    assert!(read(&object, 1, 0..2 * PIECE).is_some());
}

#[test]
fn blocks_lost_by_the_journal_are_freed() {
    let place = place();
    let (cache, object) = filled(&place.folder);
    let few = cache.pin(&key(0), 40 * PIECE).expect("pinned");
    fetch(&few, 0, 0..PIECE).expect("fetched");
    drop((object, few, cache));
    // A power cut may keep blocks and lose the record that reserved them.
    let file = (object_files(&place.folder).into_iter())
        .find(|path| std::fs::metadata(path).expect("a file").len() == 40 * PIECE)
        .expect("the object");
    (writable(&file).write_all_at(&origin(0, 0..30 * PIECE), 0)).expect("written");
    check_folder(&place.folder, QUOTA, 0..2);
    assert!(!file.exists());
    assert_eq!(open(&place.folder).info().expect("info").objects, 1);
}

#[test]
fn foreign_files_in_the_caches_folder_are_ignored() {
    let place = place();
    drop(filled(&place.folder));
    let objects = place.folder.join("objects");
    std::fs::write(objects.join("stray"), "x").expect("written");
    std::fs::create_dir_all(objects.join("ab/deep")).expect("a folder");
    std::fs::write(place.folder.join("owners/none"), "x").expect("written");
    std::fs::write(place.folder.join("notes"), "x").expect("written");
    let cache = open(&place.folder);
    let object = cache.pin(&key(1), 4 * PIECE + 100).expect("pinned");
    assert!(read(&object, 1, 0..object.bytes()).is_some());
    assert!(objects.join("stray").exists() && place.folder.join("notes").exists());
}

#[test]
fn a_torn_record_is_cut_off_by_the_next_writer() {
    let place = place();
    let (cache, object) = filled(&place.folder);
    let journal = place.folder.join("journal");
    let len = std::fs::metadata(&journal).expect("the journal").len();
    // As if killed within its write.
    writable(&journal)
        .write_all_at(&[7, 0, 0, 0, 1, 2, 3], len)
        .expect("written");
    let other = cache.pin(&key(0), PIECE).expect("pinned");
    fetch(&other, 0, 0..PIECE).expect("fetched");
    drop((object, other, cache));
    let cache = open(&place.folder);
    let info = cache.info().expect("info");
    assert_eq!((info.objects, info.resets), (2, 0));
    drop(cache);
    check_folder(&place.folder, QUOTA, 0..2);
}
