//! Writing and reading frames.

use super::*;
use proptest::prelude::*;

fn any_header() -> impl Strategy<Value = FrameHeader> {
    let dtype = (0..DType::ALL.len()).prop_map(|at| DType::ALL[at]);
    let time = prop::option::of((any::<i64>(), any::<u32>()));
    let flags = any::<(bool, bool, bool, bool)>();
    (dtype, flags, any::<u32>(), 0..MAX_INDEX, time, any::<i64>()).prop_map(
        |(dtype, (step, end, truncated, exact), session, first, time, drift)| {
            let time = time.filter(|&(ns, _)| ns != UNKNOWN_TIME);
            let exact = exact && time.is_some();
            FrameHeader {
                step,
                end,
                truncated: end && truncated,
                time: time.map(|(ns, fraction)| Fixed::from_parts(ns, fraction)),
                exact,
                drift: if exact { drift } else { 0 },
                gap: first / 3,
                ..FrameHeader::new(dtype, session, first)
            }
        },
    )
}

/// Written independently of the code under test.
fn version_1(header: &FrameHeader, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend(b"ISOF\x01");
    frame.push(
        DType::ALL
            .iter()
            .position(|&one| one == header.dtype)
            .unwrap() as u8,
    );
    frame.extend((u16::from(header.step) + 2 * u16::from(header.end)).to_le_bytes());
    frame.extend(header.session.to_le_bytes());
    frame.extend(((payload.len() / header.dtype.size()) as u32).to_le_bytes());
    frame.extend(header.first.to_le_bytes());
    frame.extend(
        header
            .time
            .map_or(i64::MIN, |time| time.floor_i64().unwrap())
            .to_le_bytes(),
    );
    frame.extend(header.gap.to_le_bytes());
    frame.extend([0; 8]);
    frame.extend(payload);
    let sum = crc32c::crc32c(&frame);
    frame[40..44].copy_from_slice(&sum.to_le_bytes());
    frame
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn frames_survive_a_round_trip(header in any_header(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let samples = bytes.len() / header.dtype.size();
        let payload = &bytes[..samples * header.dtype.size()];
        let mut frame = Vec::new();
        header.write(payload, &mut frame);
        let expected = FrameHeader { samples: samples as u32, ..header };
        prop_assert_eq!(FrameHeader::parse(&frame), Ok((expected, payload)));
        prop_assert_eq!(FrameHeader::frame_len(&frame), Ok(Some(frame.len())));
        // Right or unknown, never wrong.
        for cut in 0..frame.len() {
            let known = FrameHeader::frame_len(&frame[..cut]);
            prop_assert!(known == Ok(None) && cut < HEADER_LEN || known == Ok(Some(frame.len())));
        }
    }

    #[test]
    fn frames_of_version_1_are_read(header in any_header(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let samples = bytes.len() / header.dtype.size();
        let payload = &bytes[..samples * header.dtype.size()];
        let frame = version_1(&header, payload);
        let expected = FrameHeader {
            samples: samples as u32,
            truncated: false,
            exact: false,
            drift: 0,
            time: header.time.map(|time| Fixed::from_parts(time.floor_i64().unwrap(), 0)),
            ..header
        };
        prop_assert_eq!(FrameHeader::parse(&frame), Ok((expected, payload)));
        prop_assert_eq!(FrameHeader::frame_len(&frame), Ok(Some(frame.len())));
    }

    #[test]
    fn a_frame_with_a_changed_bit_is_rejected(
        header in any_header(), bytes in prop::collection::vec(any::<u8>(), 0..64), at: prop::sample::Index, bit in 0u32..8,
    ) {
        let payload = &bytes[..bytes.len() / header.dtype.size() * header.dtype.size()];
        let mut frame = Vec::new();
        header.write(payload, &mut frame);
        let at = at.index(frame.len());
        frame[at] ^= 1u8 << bit;
        prop_assert!(FrameHeader::parse(&frame).is_err());
    }

    #[test]
    fn any_bytes_are_parsed_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..128)) {
        let _ = (FrameHeader::parse(&bytes), FrameHeader::frame_len(&bytes));
    }
}

#[test]
fn bytes_on_the_wire_are_as_documented() {
    let header = FrameHeader {
        step: true,
        gap: 5,
        ..FrameHeader::new(DType::I16, 0x0403_0201, 7)
    };
    let mut frame = Vec::new();
    header.write(&[1, 2, 3, 4], &mut frame);
    assert_eq!(&frame[..8], b"ISOF\x02\x02\x01\x00");
    assert_eq!(&frame[8..16], [1, 2, 3, 4, 2, 0, 0, 0]);
    assert_eq!(frame[16..24], 7u64.to_le_bytes());
    assert_eq!(frame[24..32], i64::MIN.to_le_bytes());
    assert_eq!(frame[32..40], 5u64.to_le_bytes());
    assert_eq!(&frame[44..56], [0; 12]);
    assert_eq!(&frame[56..], [1, 2, 3, 4]);

    let timed = FrameHeader {
        time: Some(Fixed::from_parts(-9, 3)),
        exact: true,
        end: true,
        truncated: true,
        drift: -2,
        ..header
    };
    frame.clear();
    timed.write(&[], &mut frame);
    assert_eq!(frame[6..8], [1 + 2 + 4 + 8, 0]);
    assert_eq!(frame[24..32], (-9i64).to_le_bytes());
    assert_eq!(frame[44..48], 3u32.to_le_bytes());
    assert_eq!(frame[48..56], (-2i64).to_le_bytes());
}

#[test]
fn every_message_states_got_and_expected() {
    let examples: [(FrameError, &[&str]); 4] = [
        (
            FrameError::Length {
                expected: 48,
                got: 12,
            },
            &["48", "12"],
        ),
        (
            FrameError::Magic { got: *b"RIFF\0" },
            &["ISOF", "1 or 2", "[52, 49, 46, 46, 00]"],
        ),
        (
            FrameError::Field {
                field: "dtype",
                got: 99,
            },
            &["dtype=99"],
        ),
        (
            FrameError::Checksum {
                expected: 1,
                got: 2,
            },
            &["00000001", "00000002"],
        ),
    ];
    for (error, words) in examples {
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
}
