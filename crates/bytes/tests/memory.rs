//! Chains keep to their stated bounds; once warm, buffers allocate nothing.
#![allow(unsafe_code)] // A counting allocator is an unsafe trait.

#[path = "suite/common/mod.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::noise;
use isochrony_bytes::{Chain, JoinOutcome, Part, Piece, State};

struct CountingAllocator;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: forwards every request to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        BYTES.with(|bytes| bytes.set(bytes.get() + layout.size() as isize));
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        BYTES.with(|bytes| bytes.set(bytes.get() - layout.size() as isize));
        // SAFETY: the caller keeps `dealloc`'s contract.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const BUFFER: usize = 10_007;

/// Continues an endless stream.
fn go_on(chain: &Chain, part: &mut Part, state: &mut State, bytes: &[u8], buffers: usize) {
    for _ in 0..buffers {
        let at = state.bytes() as usize % (bytes.len() - BUFFER);
        let piece = Piece {
            offset: state.bytes(),
            bytes: &bytes[at..at + BUFFER],
        };
        chain.scan(piece, part).unwrap();
        assert_eq!(chain.join(piece, part, state), Ok(JoinOutcome::Done));
    }
}

#[test]
fn warm_chains_allocate_nothing_and_hold_what_they_say() {
    let bytes: Vec<u8> = noise(1 << 20)
        .iter()
        .map(|byte| b"abc A"[usize::from(byte % 5)])
        .collect();
    let names = [
        "stats:<i2",
        "stats:>i4",
        "stats:<f8",
        "md5",
        "sha256",
        "sha512",
        "blake3",
        "xxh3",
        "xxh3-128",
        "crc32c",
        "count:ab",
        "count:c",
        "count:abcabcabcabc|bb",
        "count,overlapping:ab|b",
        "count,ignore-case:Aa",
        "find,keep=100:abc",
        "find,keep=5000,ignore-case:ab|c",
        "zstd",
        "gzip:1",
        "convert:<i2:<f8",
        "convert,scale=0.5:>i2:<f4",
    ];
    for name in names {
        let chain = Chain::parse(&[name]).unwrap();
        let before = BYTES.with(Cell::get);
        let (mut part, mut state) = (chain.part(), chain.state());
        // Kept positions and outputs are full, and a buffer was not aligned.
        go_on(&chain, &mut part, &mut state, &bytes, 150);
        let warm = ALLOCATIONS.with(Cell::get);
        go_on(&chain, &mut part, &mut state, &bytes, 300);
        assert_eq!(ALLOCATIONS.with(Cell::get), warm, "{name}");
        // Allocations of C libraries are not seen.
        let held = BYTES.with(Cell::get) - before;
        let said = (chain.part_bytes(BUFFER) + chain.state_bytes()) as isize;
        assert!(held <= said, "{name} holds {held}, said {said}");
    }
}

#[test]
fn what_is_said_grows_with_nothing_but_the_output() {
    let said = |name: &str, buffer| Chain::parse(&[name]).unwrap().part_bytes(buffer);
    for name in [
        "stats:<f8",
        "blake3",
        "crc32c",
        "count:ab|cd",
        "find:x",
        "sha512",
        "unzstd",
        "gunzip",
    ] {
        assert_eq!(said(name, 1 << 10), said(name, 1 << 30), "{name}");
        assert!(said(name, 1 << 30) < 2 << 20, "{name}");
    }
    // No length overflows.
    for name in ["zstd:22", "gzip", "convert:i1:f8"] {
        assert!(said(name, usize::MAX / 2) > 1 << 40, "{name}");
    }
}
