//! A fork of a process with an open cache changes nothing in it, and ends no pin.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)] // A fork in the middle of a program has no safe crate.

use isochrony_cache::{Cache, CacheOptions, Check, ObjectKey};

const PIECE: u64 = 4096;

#[test]
fn a_fork_is_refused_and_ends_no_pin_or_reservation() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = CacheOptions {
        piece_bytes: PIECE,
        ..CacheOptions::new(16 * PIECE)
    };
    let cache = Cache::open(folder.path(), options).expect("a cache");
    let key = ObjectKey::file("https://a/b", "1");
    let object = cache.pin(&key, 2 * PIECE).expect("pinned");
    let mut first = object.reserve(0..PIECE).expect("reserved");
    let second = object.reserve(PIECE..2 * PIECE).expect("reserved");
    // SAFETY: the new process has only this thread, and no other test runs, so no other thread holds a lock that it
    // takes.
    let process = unsafe { libc::fork() };
    assert!(process >= 0);
    if process == 0 {
        let code = |error: isochrony_cache::CacheError| error.code() == "forked";
        let is_refused = cache
            .pin(&ObjectKey::file("https://a/c", "1"), 1)
            .is_err_and(code)
            && cache.clear().is_err_and(code)
            && object.reserve(0..PIECE).is_err_and(code);
        drop((first, second, object, cache));
        // SAFETY: it does not return.
        unsafe { libc::_exit(i32::from(!is_refused)) }
    }
    let mut status = 0;
    // SAFETY: the address is that of a number that lives as long as the call.
    assert_eq!(unsafe { libc::waitpid(process, &mut status, 0) }, process);
    assert_eq!(status, 0, "the fork was not refused");
    let other = Cache::open(folder.path(), options).expect("a cache");
    assert_eq!(other.clear().expect("cleared").kept_objects, 1);
    assert_eq!(other.info().expect("info").reserved_bytes, 2 * PIECE);
    first
        .store(0, &[1; PIECE as usize], Check::VerifiedByCaller)
        .expect("stored");
    drop((first, second));
    assert_eq!(other.info().expect("info").reserved_bytes, 0);
}
