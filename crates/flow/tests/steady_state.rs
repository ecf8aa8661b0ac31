//! In steady state a run allocates nothing.
#![allow(unsafe_code)] // A counting allocator is an unsafe trait.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use isochrony_expr::Expr;
use isochrony_flow::{Catalog, Plan, Segments, SharedRecording, json};
use isochrony_segment::{SigSeg, Stream};
use isochrony_time::{Rate, TimebaseId};

struct CountingAllocator;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: forwards every request unchanged to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps `dealloc`'s contract.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// From building to dropping it.
fn allocations(samples: i64, plan: &dyn Fn(Plan) -> Plan) -> usize {
    let stream = Stream::new("steady", TimebaseId(0), Rate::new(2000, 1).unwrap()).intern();
    let values: Vec<i16> = (0..samples).map(|i| (i % 1000) as i16).collect();
    let recording = Segments::new([SigSeg::from_slice(&values, 0, stream).unwrap()]).unwrap();
    let plan = plan(Plan::scan_part(SharedRecording::new(recording), None, 1000))
        .count()
        .unwrap();
    let before = ALLOCATIONS.with(Cell::get);
    assert!(plan.collect().unwrap().count().unwrap() > 0);
    ALLOCATIONS.with(Cell::get) - before
}

fn s() -> Expr {
    Expr::input()
}

fn does_not_grow(name: &str, plan: &dyn Fn(Plan) -> Plan) {
    let (few, many) = (allocations(200_000, plan), allocations(2_000_000, plan));
    assert!(few > 0, "the counter counts");
    assert_eq!(few, many, "{name}: 200 segments and 2,000");
}

#[test]
fn chains_windows_and_filters_allocate_nothing_per_segment() {
    does_not_grow("passthrough", &|scan| {
        scan.passthrough().unwrap().passthrough().unwrap()
    });
    does_not_grow("rewindow that fits", &|scan| scan.rewindow(100).unwrap());
    does_not_grow("rewindow across segments", &|scan| {
        scan.rewindow_every(300, 170).unwrap()
    });
    does_not_grow("statfilter", &|scan| {
        let windows = scan.rewindow(100).unwrap();
        windows
            .filter(&s().std().gt(1))
            .unwrap()
            .filter(&s().mean().lt(900))
            .unwrap()
    });
    does_not_grow("map of windows", &|scan| {
        scan.rewindow(100)
            .unwrap()
            .map(&(s() - s().mean()))
            .unwrap()
    });
    does_not_grow("map of samples", &|scan| scan.map(&(s() * 2.5)).unwrap());
    does_not_grow("a branch", &|scan| {
        let other = scan.map(&(s() * 2)).unwrap();
        scan.zip(&[other]).unwrap().output(1).unwrap()
    });
}

#[test]
fn detectors_and_running_statistics_allocate_nothing_per_segment() {
    let catalog = Catalog::standard();
    let step = |plan: &Plan, name: &str, given: serde_json::Value| {
        let params = given.as_object().cloned().unwrap_or_default();
        plan.apply(catalog.get(name).unwrap(), params, &[]).unwrap()
    };
    does_not_grow("stalta to ranges", &|scan| {
        let ratios = step(&scan, "stalta", json!({"sta": 0.01, "lta": 0.4}));
        step(&ratios, "triggers", json!({"on": 1.2}))
    });
    does_not_grow("running statistics", &|scan| {
        let rms = step(&scan, "running_rms", json!({"window": 0.4}));
        step(&rms, "running_quantile", json!({"window": 0.1, "q": 0.5}))
    });
    does_not_grow("cells before and behind", &|scan| {
        step(&scan, "ca_cfar", json!({"pfa": 0.001, "order": 0.75}))
    });
    does_not_grow("levels of windows", &|scan| {
        let scores = scan.rewindow(100).unwrap().map(&s().max()).unwrap();
        step(&scores, "cfar", json!({"pfa": 0.001, "memory": 10}))
    });
}
