//! A segment of one buffer needs no heap memory.
#![allow(unsafe_code)] // A counting allocator is an unsafe trait.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

use isochrony_segment::{Buffer, DType, SigSeg, Stream};
use isochrony_time::{Rate, TimebaseId};

struct CountingAllocator;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: forwards every request to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: by the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: by the caller's contract.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn allocations<R>(work: impl FnOnce() -> R) -> usize {
    let before = ALLOCATIONS.with(Cell::get);
    drop(black_box(work()));
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn one_buffer_segments_never_allocate() {
    let rate = Rate::new(2000, 1).unwrap();
    let stream = Stream::new("allocation", TimebaseId(0), rate).intern();
    let buffer = Buffer::copy_of(&[1i16; 4096]).unwrap();
    assert_eq!(allocations(|| vec![0u8; 100]), 1, "the counter counts");

    let create = || SigSeg::new(buffer.clone(), 0, DType::I16, stream);
    assert_eq!(allocations(create), 0);
    let seg = create().unwrap();
    assert_eq!(allocations(|| seg.clone()), 0);
    assert_eq!(allocations(|| seg.subseg(100..4000)), 0);
    assert_eq!(allocations(|| seg.clone().split_front(4000)), 0);
    assert_eq!(allocations(|| seg.stream().rate), 0);
    assert_eq!(allocations(|| seg.materialise()), 0);
    assert_eq!(allocations(|| seg.as_slices::<i16>().map(|s| s.count())), 0);
    assert_eq!(
        allocations(|| seg.as_contiguous::<i16>().map(<[i16]>::len)),
        0
    );
    let cut_and_join = || {
        let mut head = seg.subseg(0..100)?;
        head.append(seg.subseg(100..4096)?)?;
        Ok::<_, isochrony_segment::SegmentError>(head)
    };
    assert_eq!(
        allocations(cut_and_join),
        0,
        "touching views become one again"
    );
}

#[test]
fn a_segment_is_one_cache_line() {
    assert!(size_of::<SigSeg>() <= 64, "{}", size_of::<SigSeg>());
    assert_eq!(size_of::<Buffer>(), 32);
}
