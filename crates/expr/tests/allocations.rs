//! Running a program allocates nothing.
#![allow(unsafe_code)] // A global allocator that counts; it only passes on what it is asked.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use isochrony_expr::{Expr, Frames, Program};
use isochrony_segment::{Bool8, DType};

struct CountingAllocator;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is forwarded to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Fails only while the thread ends.
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: by the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: `place` came from `alloc` above, and so from the system's allocator.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn running_allocates_nothing() {
    let s = Expr::input();
    let x = (&s - s.mean()) / s.std();
    let loud = (x.gt(3) & s.lt(s.max() * 0.5)).select(&s, x.abs().min());
    let state = s.rms().ewm(0.1).hysteresis(1, 2).counter();
    let samples: Vec<i16> = (0..40_000).map(|i| (i * 7919 % 4001) as i16).collect();
    for window in [7, 1000, 4096, 5000] {
        let frames = Frames::new(&samples, window, window).unwrap();
        let program = Program::compile(&loud, DType::I16).unwrap();
        let mut out = vec![0.0f64; program.results(&frames)];
        let counter = Program::compile(&state, DType::I16).unwrap();
        let mut counts = vec![0i64; counter.results(&frames)];
        let (mut scratch, mut memory) = (program.scratch(), program.state());
        let (mut others, mut counted) = (counter.scratch(), counter.state());
        let any = Program::compile(&x.gt(2).any(), DType::I16).unwrap();
        let mut truth = vec![Bool8::default(); any.results(&frames)];
        let (mut third, mut none) = (any.scratch(), any.state());
        let before = COUNT.get();
        for _ in 0..3 {
            program
                .run(&mut scratch, &mut memory, &frames, &mut out)
                .unwrap();
            counter
                .run(&mut others, &mut counted, &frames, &mut counts)
                .unwrap();
            any.run(&mut third, &mut none, &frames, &mut truth).unwrap();
            counted.reset();
        }
        assert_eq!(COUNT.get(), before, "window {window}");
    }
}
