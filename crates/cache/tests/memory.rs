//! Memory per piece is bounded, and repeated reads need none.
#![allow(unsafe_code)] // A counting allocator is an unsafe trait.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use isochrony_cache::{Cache, CacheOptions, Check, ObjectKey};

struct CountingAllocator;

static HELD_BYTES: AtomicI64 = AtomicI64::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);

// SAFETY: forwards everything to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        HELD_BYTES.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD_BYTES.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const PIECE: u64 = 4096;
const PIECES: u64 = 1 << 16;

#[test]
fn memory_is_bounded_per_piece_and_reading_allocates_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = CacheOptions {
        piece_bytes: PIECE,
        ..CacheOptions::new(2 * PIECES * PIECE)
    };
    let cache = Cache::open(folder.path(), options).expect("a cache");
    let start = HELD_BYTES.load(Ordering::Relaxed);
    let object = cache
        .pin(&ObjectKey::file("u", "e"), PIECES * PIECE)
        .expect("pinned");
    let table = HELD_BYTES.load(Ordering::Relaxed) - start;
    assert!(table <= 8 * PIECES as i64 + 4096, "{table} bytes");
    let bytes = vec![5; PIECE as usize];
    let before = HELD_BYTES.load(Ordering::Relaxed);
    let mut at = 0;
    while at < PIECES * PIECE {
        let mut reservation = object.reserve(at..PIECES * PIECE).expect("reserved");
        let range = reservation.ranges().remove(0);
        reservation
            .store(at, &bytes, Check::VerifiedByCaller)
            .expect("stored");
        at = range.end;
    }
    let index = HELD_BYTES.load(Ordering::Relaxed) - before;
    assert!(
        index <= 48 * PIECES as i64,
        "{index} bytes for {PIECES} pieces"
    );
    let map = object.map().expect("a mapping");
    let mut buffer = [0; 100];
    let calls = CALLS.load(Ordering::Relaxed);
    for _ in 0..1000 {
        object.read_at(7, &mut buffer).expect("read");
        assert_eq!(map.slice(0..PIECE).expect("present").len(), PIECE as usize);
        assert!(object.missing(0..PIECE).expect("missing").is_empty());
    }
    assert_eq!(CALLS.load(Ordering::Relaxed), calls);
    assert_eq!(buffer, [5; 100]);
}
