//! An interrupt ends stages soon, and what sources gave before is delivered as by one thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use isochrony_flow::{Plan, RunError, RunOptions};
use isochrony_runtime::{Interrupt, Watch};

use super::{filters, generated};

/// In which an execution ends. Other programs may have the cores: the best of a few runs counts.
const SOON: Duration = Duration::from_millis(100);
/// For as long, what sources gave is still delivered.
const MAX_DRAIN: Duration = Duration::from_millis(40);

#[derive(Debug, Clone, Copy)]
enum StopRequest {
    Interrupt,
    /// A callback that from then on returns false.
    Watch,
}

struct Interrupted {
    after: Duration,
    /// Samples made, and those in delivered windows.
    made: u64,
    delivered: u64,
}

/// Of 1000 samples a segment; without the gaps that windows do not cross.
fn interrupted(workers: usize, count: usize, link_bytes: u64, request: StopRequest) -> Interrupted {
    let (made, delivered) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&delivered);
    let source = generated(0, 0..i64::MAX, 1000, &made);
    let plan = filters(source, count).rewindow(500).unwrap();
    let plan = plan.each(move |item| {
        counted.fetch_add(item.samples(), Ordering::Relaxed);
        Ok(())
    });
    let plan: Plan = plan.unwrap();
    let interrupt = Interrupt::default();
    let mut options = RunOptions::default();
    options.workers = workers;
    let watched = interrupt.clone();
    let watch = Watch::new(move || !watched.is_requested());
    match request {
        StopRequest::Interrupt => options.interrupt = Some(&interrupt),
        StopRequest::Watch => options.watch = Some(&watch),
    }
    options.stages.helpers_after_us = 0;
    options.stages.link_bytes = link_bytes;
    std::thread::scope(|scope| {
        let ran = scope.spawn(|| (plan.run_with(&options), Instant::now()));
        std::thread::sleep(Duration::from_millis(120));
        let asked = Instant::now();
        interrupt.request();
        let (ran, ended) = ran.join().unwrap();
        assert!(matches!(ran, Err(RunError::Interrupted { .. })), "{ran:?}");
        Interrupted {
            after: ended.saturating_duration_since(asked),
            made: 1000 * made.load(Ordering::Relaxed),
            delivered: delivered.load(Ordering::Relaxed),
        }
    })
}

#[test]
fn what_is_in_links_is_delivered() {
    let mut complete = 0;
    for (workers, request) in [
        (2, StopRequest::Interrupt),
        (3, StopRequest::Interrupt),
        (2, StopRequest::Watch),
        (3, StopRequest::Watch),
    ] {
        let mut least = Duration::MAX;
        for _ in 0..5 {
            let Interrupted {
                after,
                made,
                delivered,
            } = interrupted(workers, 3, 1 << 14, request);
            assert!(made > 0 && delivered <= made);
            // Of a burst too long for the time that is left the rest is lost.
            assert!(
                after >= MAX_DRAIN || delivered == made,
                "{workers}, {request:?}: {delivered} of {made} in {after:?}"
            );
            complete += u32::from(delivered == made);
            assert!(after < Duration::from_secs(20), "{after:?}");
            least = least.min(after);
        }
        assert!(least < SOON, "{least:?}");
    }
    assert!(complete > 0);
}

#[test]
fn what_does_not_fit_into_the_time_is_lost_and_the_end_comes_as_soon() {
    // Hundreds of filters take longer than that for what links hold.
    let runs = (0..3).map(|_| interrupted(2, 400, 2 << 20, StopRequest::Interrupt));
    let runs: Vec<Interrupted> = runs.collect();
    assert!(runs.iter().all(|run| run.delivered <= run.made));
    assert!(runs.iter().map(|run| run.after).min() < Some(3 * SOON));
}
