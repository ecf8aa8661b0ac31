//! Frames of samples from the network: reading ends in a frame or an error, a frame is written as the same bytes
//! (version 1 as the same frame of version 2), and indices go out in order and at most once.
#![no_main]

use std::time::Duration;

use isochrony_live::frame::{FrameHeader, HEADER_LEN, MAX_DESCRIPTION_BYTES, SenderDescription};
use isochrony_live::reorder::{JitterWindow, ReorderBuffer, ReorderOutput};
use isochrony_segment::DType;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((header, samples)) = FrameHeader::parse(bytes) {
        assert_eq!(FrameHeader::frame_len(bytes), Ok(Some(bytes.len())));
        let mut again = Vec::new();
        header.write(samples, &mut again);
        // Frames of version 1 are written as version 2.
        assert!(again == bytes || bytes[4] == 1);
        assert_eq!(FrameHeader::parse(&again), Ok((header, samples)));
    }
    let _ = FrameHeader::frame_len(bytes);
    // The text alone, and that of a whole frame, whose checksum a fuzzer seldom gets right.
    for text in [bytes, bytes.get(HEADER_LEN..).unwrap_or_default()] {
        if let Ok(said) = SenderDescription::parse(text) {
            let mut frame = Vec::new();
            let dtype = DType::I16;
            said.write(dtype, 1, MAX_DESCRIPTION_BYTES, &mut frame);
            let (header, again) = FrameHeader::parse(&frame).expect("a frame that was written");
            assert!(SenderDescription::is_carried_by(&header, again, dtype));
            let again = SenderDescription::parse(again).expect("a description that was written");
            assert_eq!(
                (again.rate, &again.calibration),
                (said.rate, &said.calibration)
            );
        }
    }
    let window = JitterWindow {
        wait: Duration::from_millis(3),
        samples: 1000,
    };
    let mut buffer = ReorderBuffer::new(window);
    let mut next = 0;
    let mut check = |output: ReorderOutput<()>| {
        let (from, to) = match output {
            ReorderOutput::Frame { range, skip, .. } => (range.start + skip, range.end),
            ReorderOutput::Lost(lost) => (lost.start, lost.end),
        };
        assert!(next <= from && from < to, "{from}..{to} after {next}");
        next = to;
    };
    for (k, header) in bytes.chunks_exact(HEADER_LEN).enumerate() {
        let Ok(header) = FrameHeader::read(header) else {
            continue;
        };
        let (first, samples) = (header.first, u64::from(header.samples));
        let now = Duration::from_millis(k as u64);
        let _ = buffer.push(first - header.gap..first + samples, samples, (), now);
        while let Some(output) = buffer.pop(now, false) {
            check(output);
        }
    }
    while let Some(output) = buffer.pop(Duration::from_secs(1), true) {
        check(output);
    }
    assert_eq!(buffer.buffered_samples(), 0);
});
