//! Frames of samples from the network: whatever the bytes, reading ends in a frame or an error, a frame that was read is
//! written as the same bytes, and whatever frames say of themselves, indices go out in order and at most once.
#![no_main]

use std::time::Duration;

use isochrony_live::frame::{HEADER, Header};
use isochrony_live::order::{Given, Order, Window};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((header, samples)) = Header::parse(bytes) {
        let mut again = Vec::new();
        header.write(samples, &mut again);
        assert_eq!(again, bytes);
    }
    let window = Window {
        wait: Duration::from_millis(3),
        samples: 1000,
    };
    let mut order = Order::new(window);
    let mut next = 0;
    let mut check = |given: Given<()>| {
        let (from, to) = match given {
            Given::Frame { range, skip, .. } => (range.start + skip, range.end),
            Given::Lost(lost) => (lost.start, lost.end),
        };
        assert!(next <= from && from < to, "{from}..{to} after {next}");
        next = to;
    };
    for (k, header) in bytes.chunks_exact(HEADER).enumerate() {
        let Ok(header) = Header::read(header) else {
            continue;
        };
        let (first, samples) = (header.first, u64::from(header.samples));
        let now = Duration::from_millis(k as u64);
        let _ = order.push(first - header.gap..first + samples, samples, (), now);
        while let Some(given) = order.pop(now, false) {
            check(given);
        }
    }
    while let Some(given) = order.pop(Duration::from_secs(1), true) {
        check(given);
    }
    assert_eq!(order.waiting(), 0);
});
