//! flow/links: cost of passing a segment between threads by a link, beside a bare ring.

use std::path::Path;

use isochrony::segment::{SigSeg, Stream};
use isochrony::time::{Rate, TimebaseId};

use crate::measure::{Results, interleave};

mod sync {
    pub use std::sync::atomic::{AtomicBool, AtomicU64};
}

#[allow(dead_code, unreachable_pub)]
#[path = "../../crates/flow/src/scheduler/stages/link.rs"]
mod link;

use link::{Batch, Link, ReceiveOutcome};

/// Capacity of link and ring in segments.
const SEGMENTS: usize = 64;

/// Each thread spins when idle, so that waking costs nothing.
pub fn run(_: &Path, quick: bool, results: &mut Results) -> Result<(), Box<dyn std::error::Error>> {
    let (count, rounds) = if quick {
        (10_000u64, 2)
    } else {
        (2_000_000, 15)
    };
    let stream = Stream::new("noise", TimebaseId(0), Rate::from_hz(1000)?).intern();
    let segment = &SigSeg::from_slice(&[0i16; 64], 0, stream)?;
    let bytes = 128;
    let by_link = || {
        let link: Link<SigSeg> = Link::new(SEGMENTS as u64 * bytes);
        let got = std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..count {
                    while link.is_full() {
                        std::hint::spin_loop();
                    }
                    let events = vec![segment.clone()];
                    link.send(Batch {
                        events,
                        bytes,
                        delivered: 0,
                        arrived: None,
                    });
                }
                link.end();
            });
            let mut got = 0;
            loop {
                match link.receive() {
                    ReceiveOutcome::Batch(batch) => got += batch.events.len() as u64,
                    ReceiveOutcome::Nothing => std::hint::spin_loop(),
                    ReceiveOutcome::End => break got,
                }
            }
        });
        assert_eq!(got, count);
    };
    let by_ring = || {
        let (mut to, mut from) = rtrb::RingBuffer::<SigSeg>::new(SEGMENTS);
        let got = std::thread::scope(|scope| {
            scope.spawn(move || {
                for _ in 0..count {
                    let mut next = segment.clone();
                    while let Err(rtrb::PushError::Full(back)) = to.push(next) {
                        next = back;
                        std::hint::spin_loop();
                    }
                }
            });
            let mut got = 0;
            while got < count {
                match from.pop() {
                    Ok(_) => got += 1,
                    Err(_) => std::hint::spin_loop(),
                }
            }
            got
        });
        assert_eq!(got, count);
    };
    let (ours, ring) = interleave(rounds, by_link, by_ring);
    let each = |times: &crate::measure::Times| 1e9 * times.seconds().median / count as f64;
    let (link_ns, ring_ns) = (each(&ours), each(&ring));
    let name = format!("a ring of rtrb ({ring_ns:.0} ns a segment; the link {link_ns:.0} ns)");
    results.compare(
        "flow/links/segment-a-batch",
        &ours,
        &name,
        &ring,
        None,
        None,
    );
    Ok(())
}
