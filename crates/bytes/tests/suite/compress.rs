//! Frames through other decoders, and back through ours.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::common::{cuts, noise, run, run_cut};
use isochrony_bytes::{Chain, JoinOutcome, Outcome, Piece, Sizes, compress};
use proptest::prelude::*;

/// Half of it compresses well.
fn sample(length: usize) -> Vec<u8> {
    let mut bytes = noise(length);
    for (i, byte) in bytes.iter_mut().enumerate() {
        if i / 1000 % 2 == 0 {
            *byte = b"a sentence, "[i % 12];
        }
    }
    bytes
}

fn compressed(name: &str, bytes: &[u8], cuts: &[usize]) -> Vec<u8> {
    let (outcomes, output) = run(&[name], bytes, cuts).unwrap();
    assert_eq!(
        outcomes,
        [Outcome::Sizes(Sizes {
            bytes_in: bytes.len() as u64,
            bytes_out: output.len() as u64,
        })]
    );
    output
}

/// Output of a program, if installed.
fn through(program: &str, arguments: &[&str], bytes: &[u8]) -> Option<Vec<u8>> {
    let Ok(mut child) = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
    else {
        eprintln!("{program} is not there: skipped");
        return None;
    };
    let mut input = child.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&bytes));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{program}");
    Some(output.stdout)
}

#[test]
fn other_decoders_read_the_frames_one_after_another() {
    let bytes = sample(700_000);
    for cuts in [&[][..], &[1, 300_000, 300_000], &[350_000]] {
        for level in ["gzip:1", "gzip", "gzip:12"] {
            let output = compressed(level, &bytes, cuts);
            assert!(output.len() < 450_000, "{level} {}", output.len());
            if let Some(back) = through("gzip", &["-dc"], &output) {
                assert!(back == bytes, "{level} {cuts:?}");
            }
        }
        for level in ["zstd:-7", "zstd:1", "zstd", "zstd:19"] {
            let output = compressed(level, &bytes, cuts);
            assert!(output.len() < 480_000, "{level} {}", output.len());
            // The library's one-shot decoder.
            let mut back = vec![0; bytes.len() + 1];
            let length = zstd_safe::decompress(&mut back[..], &output).unwrap();
            assert!(back[..length] == bytes, "{level} {cuts:?}");
        }
    }
}

#[test]
fn a_stream_of_nothing_becomes_an_empty_frame() {
    for name in ["zstd", "gzip"] {
        assert!(!compressed(name, &[], &[0]).is_empty());
    }
    if let Some(back) = through("gzip", &["-dc"], &compressed("gzip", &[], &[])) {
        assert!(back.is_empty());
    }
    for (make, take) in [("zstd", "unzstd"), ("gzip", "gunzip")] {
        let (_, back) = run(&[take], &compressed(make, &[], &[]), &[]).unwrap();
        assert!(back.is_empty());
        // An empty stream is no frame for the system's tools, either.
        let error = run(&[take], &[], &[]).unwrap_err();
        assert_eq!((error.code(), error.offset()), ("cut_off", Some(0)));
    }
}

#[test]
fn decompression_takes_bounded_memory_whatever_comes_out() {
    // 16 MiB of zeros in one buffer.
    let zeros = vec![0; 16 << 20];
    for (make, take) in [("zstd", "unzstd"), ("gzip", "gunzip")] {
        let output = compressed(make, &zeros, &[]);
        assert!(output.len() < 100_000);
        let chain = Chain::parse(&[take]).unwrap();
        let (mut part, mut state) = (chain.part(), chain.state());
        let piece = Piece {
            offset: 0,
            bytes: &output,
        };
        let (mut total, mut again) = (0, true);
        while again {
            again = chain.join(piece, &mut part, &mut state).unwrap() == JoinOutcome::Again;
            let [before, body] = part.output();
            assert!(before.is_empty() && body.iter().all(|&byte| byte == 0));
            assert!(body.len() <= compress::STEP);
            total += body.len();
        }
        assert_eq!(total, zeros.len());
        assert!(chain.finish(&mut state).is_ok());
    }
}

#[test]
fn damaged_and_shortened_frames_are_errors_with_their_place() {
    for (make, take) in [("zstd", "unzstd"), ("gzip", "gunzip")] {
        let whole = compressed(make, &sample(10_000), &[]);
        let end = whole.len() as u64 - 1;
        for cuts in [&[][..], &[100]] {
            let error = run(&[take], &whole[..whole.len() - 1], cuts).unwrap_err();
            assert_eq!((error.code(), error.offset()), ("cut_off", Some(end)));
        }

        // The checksum shows a wrong bit at the latest.
        let mut damaged = whole.clone();
        damaged[whole.len() / 2] ^= 1;
        let error = run(&[take], &damaged, &[]).unwrap_err();
        assert!(matches!(error.code(), "corrupt" | "cut_off"), "{error}");

        let mut longer = whole.clone();
        longer.extend_from_slice(b"rubbish");
        let error = run(&[take], &longer, &[]).unwrap_err();
        assert_eq!(error.code(), "corrupt");
        assert!(error.offset() >= Some(end), "{error}");

        let error = run(&[take], b"no frame at all", &[]).unwrap_err();
        assert_eq!(error.code(), "corrupt");
    }
}

#[test]
fn frames_of_zstd_before_1_0_are_refused_wherever_they_are_cut_and_skipped_ones_are_skipped() {
    // Found by fuzzing: the decoder of 0.5 ignores memory limits.
    let old = b"\x25\xb5\x2f\xfd\x04\x58\xd5\0\0\xa0a need";
    let frame = compressed("zstd", b"new", &[]);
    let skipped = [&[0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"any"].concat();
    for first in [0x1e, 0x22, 0x25, 0x27] {
        for before in [vec![], frame.clone(), [&frame[..], &skipped].concat()] {
            let at = before.len() as u64;
            let mut bytes = [&before[..], old].concat();
            bytes[before.len()] = first;
            let each: Vec<usize> = (1..bytes.len()).collect();
            for cuts in [&[][..], &[before.len() + 1], &each] {
                let error = run(&["unzstd"], &bytes, cuts).unwrap_err();
                assert_eq!((error.code(), error.offset()), ("corrupt", Some(at)));
                assert!(error.to_string().contains("before 1.0"), "{error}");
            }
        }
    }
    let all = [&skipped[..], &frame, &skipped, &frame].concat();
    let each: Vec<usize> = (1..all.len()).collect();
    for cuts in [&[][..], &each] {
        let (_, back) = run(&["unzstd"], &all, cuts).unwrap();
        assert_eq!(back, b"newnew");
    }
}

#[test]
fn windows_beyond_what_was_said_are_refused_with_the_way_out() {
    // A full window of 8 MiB.
    let bytes = sample(9 << 20);
    let mut context = zstd_safe::CCtx::create();
    context
        .set_parameter(zstd_safe::CParameter::WindowLog(23))
        .unwrap();
    let mut frame = Vec::with_capacity(zstd_safe::compress_bound(bytes.len()));
    context.compress2(&mut frame, &bytes).unwrap();
    let error = run(&["unzstd,window=22"], &frame, &[]).unwrap_err();
    assert_eq!(error.code(), "corrupt");
    assert!(error.to_string().contains("window=LOG"), "{error}");
    let (_, back) = run(&["unzstd,window=23"], &frame, &[]).unwrap();
    assert!(back == bytes);
    // The default fits the limit of n-buffering.
    let state = |name: &str| Chain::parse(&[name]).unwrap().state_bytes();
    assert!(state("unzstd") < 70_000_000);
    assert!(state("unzstd,window=23") < 10_000_000);
    for (name, code) in [
        ("unzstd,window=9", "parameter"),
        ("unzstd,window=32", "parameter"),
        ("unzstd,window=x", "parameter"),
        ("unzstd,level=3", "unknown_option"),
    ] {
        assert_eq!(Chain::parse(&[name]).unwrap_err().code(), code, "{name}");
    }
}

#[test]
fn levels_that_do_not_exist_are_refused() {
    for name in [
        "zstd:23",
        "zstd:-8",
        "gzip:0",
        "gzip:13",
        "zstd:three",
        "zstd:",
    ] {
        let error = Chain::parse(&[name]).unwrap_err();
        assert_eq!(error.code(), "parameter", "{name}");
        assert!(error.to_string().contains("from "), "{error}");
    }
}

/// Hardly on the content.
#[test]
fn a_part_stays_within_what_it_says() {
    let bytes = vec![0; 4 << 20];
    for level in compress::ZSTD_LEVELS {
        let chain = Chain::parse(&[format!("zstd:{level}")]).unwrap();
        for length in [1, 1000, 16 << 10, 100_000, 256 << 10, 1 << 20, 4 << 20] {
            if length > 1 << 20 && !matches!(level, 3 | 12 | 19 | 22) {
                continue; // The others take their time, too.
            }
            let mut context = zstd_safe::CCtx::create();
            context
                .set_parameter(zstd_safe::CParameter::CompressionLevel(level))
                .unwrap();
            let mut out = Vec::with_capacity(zstd_safe::compress_bound(length));
            context.compress2(&mut out, &bytes[..length]).unwrap();
            let real = context.sizeof() + out.capacity();
            let said = chain.part_bytes(length);
            assert!(real <= said, "{level} {length}: {real} > {said}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_cutting_decompresses_to_the_stream(
        first in cuts(30_000),
        second in cuts(20_000),
        level in prop::sample::select(vec!["zstd", "zstd:-3", "zstd:9"]),
    ) {
        let bytes = sample(30_000);
        let output = compressed(level, &bytes, &first);
        let (outcomes, back) = run(&["unzstd"], &output, &second).unwrap();
        prop_assert!(back == bytes);
        prop_assert_eq!(&outcomes[0], &Outcome::Sizes(Sizes {
            bytes_in: output.len() as u64,
            bytes_out: bytes.len() as u64,
        }));
    }

    #[test]
    fn any_cutting_of_gzip_members_decompresses_to_the_stream(first in cuts(3_000), second in cuts(3_000)) {
        let bytes = sample(3_000);
        let output = compressed("gzip:1", &bytes, &first);
        let (outcomes, back) = run(&["gunzip"], &output, &second).unwrap();
        prop_assert!(back == bytes);
        prop_assert_eq!(&outcomes[0], &Outcome::Sizes(Sizes {
            bytes_in: output.len() as u64,
            bytes_out: bytes.len() as u64,
        }));
    }
}

/// With names and comments in their headers.
#[test]
fn members_of_other_programs_are_read() {
    let bytes = sample(300_000);
    let Some(member) = through("gzip", &["-6"], &bytes) else {
        return;
    };
    // Flag 8: after the ten bytes follows a name that ends with a zero.
    let mut named = member[..10].to_vec();
    named[3] |= 8;
    named.extend_from_slice(b"name.txt\0");
    named.extend_from_slice(&member[10..]);
    let both = [&member[..], &named[..]].concat();
    let (_, back) = run(&["gunzip"], &both, &[5, 12, 14, member.len() + 11]).unwrap();
    assert!(back == [&bytes[..], &bytes[..]].concat());
}

#[test]
fn compressing_beside_a_hash_changes_neither() {
    let bytes = sample(100_000);
    let chain = Chain::parse(&["sha256", "zstd", "crc32c"]).unwrap();
    let (together, output) = run_cut(&chain, &bytes, &[10, 50_000], 2).unwrap();
    assert_eq!(output, compressed("zstd", &bytes, &[10, 50_000]));
    assert_eq!(together[0], run(&["sha256"], &bytes, &[]).unwrap().0[0]);
    assert_eq!(together[2], run(&["crc32c"], &bytes, &[]).unwrap().0[0]);
}

/// As in gzip(1).
#[test]
fn zeros_behind_the_last_member_are_padding_and_anything_else_is_not() {
    let bytes = sample(3000);
    let members = [
        compressed("gzip", &bytes, &[]),
        compressed("gzip", &bytes, &[1000]),
    ]
    .concat();
    let twice = [&bytes[..], &bytes].concat();
    for zeros in [1, 2, 10, 511, 70_000] {
        let padded = [&members[..], &vec![0; zeros]].concat();
        for cuts in [
            &[][..],
            &[1, members.len() - 1, members.len(), members.len() + 1],
        ] {
            let (_, back) = run(&["gunzip"], &padded, cuts).unwrap();
            assert!(back == twice, "{zeros} {cuts:?}");
        }
        if let Some(back) = through("gzip", &["-dcq"], &padded) {
            assert!(back == twice);
        }
        for rest in [&members[..], b"x"] {
            let followed = [&padded[..], rest].concat();
            let error = run(&["gunzip"], &followed, &[]).unwrap_err().to_string();
            assert!(error.contains("zeros behind the last member"), "{error}");
        }
    }
    run(&["gunzip"], &[0; 100], &[]).unwrap_err();
}
