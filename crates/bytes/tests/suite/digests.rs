//! Published vectors, the system's tools, and any cuts.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::common::{cuts, noise, run};
use isochrony_bytes::Outcome;
use proptest::prelude::*;

const NAMES: [&str; 7] = [
    "md5", "sha256", "sha512", "blake3", "xxh3", "xxh3-128", "crc32c",
];

fn hex(name: &str, bytes: &[u8], cuts: &[usize]) -> String {
    let (outcomes, output) = run(&[name], bytes, cuts).unwrap();
    assert!(output.is_empty());
    match &outcomes[..] {
        [Outcome::Digest(digest)] => digest.hex(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn published_vectors_come_out() {
    let million = vec![b'a'; 1_000_000];
    let ascending: Vec<u8> = (0..32).collect();
    let descending: Vec<u8> = (0..32).rev().collect();
    // RFC 1321 A.5; NIST's examples of FIPS 180; RFC 3720 B.4 (most significant byte first); XXH3's specification.
    let vectors: [(&str, &[u8], &str); 17] = [
        ("md5", b"", "d41d8cd98f00b204e9800998ecf8427e"),
        ("md5", b"abc", "900150983cd24fb0d6963f7d28e17f72"),
        (
            "md5",
            b"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
            "57edf4a22be3c955ac49da2e2107b67a",
        ),
        (
            "sha256",
            b"",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ),
        (
            "sha256",
            b"abc",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
        (
            "sha256",
            b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        ),
        (
            "sha256",
            &million,
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
        ),
        (
            "sha512",
            b"abc",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        ),
        (
            "sha512",
            b"",
            "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e",
        ),
        (
            "sha512",
            &million,
            "e718483d0ce769644e2e42c7bc15b4638e1f98b13b2044285632a803afa973ebde0ff244877ea60a4cb0432ce577c31beb009c5c2c49aa2e4eadb217ad8cc09b",
        ),
        ("crc32c", &[0; 32], "8a9136aa"),
        ("crc32c", &[0xff; 32], "62a8ab43"),
        ("crc32c", &ascending, "46dd794e"),
        ("crc32c", &descending, "113fdb5c"),
        ("crc32c", b"", "00000000"),
        ("xxh3", b"", "2d06800538d394c2"),
        ("xxh3-128", b"", "99aa06d3014798d86001c324468d497f"),
    ];
    for (name, bytes, want) in vectors {
        for cuts in [&[][..], &[0, 1, 1], &[63, 64, 65, 999]] {
            assert_eq!(hex(name, bytes, cuts), want, "{name} {cuts:?}");
        }
    }
}

/// From `test_vectors.json`: input byte `i` is `i % 251`; the first 32 bytes of each result.
#[test]
fn blake3_gives_the_specification_s_vectors() {
    let vectors = [
        (
            0,
            "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
        ),
        (
            1,
            "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213",
        ),
        (
            1023,
            "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11",
        ),
        (
            1024,
            "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7",
        ),
        (
            1025,
            "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444",
        ),
        (
            2048,
            "e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a",
        ),
        (
            2049,
            "5f4d72f40d7a5f82b15ca2b2e44b1de3c2ef86c426c95c1af0b6879522563030",
        ),
        (
            3072,
            "b98cb0ff3623be03326b373de6b9095218513e64f1ee2edd2525c7ad1e5cffd2",
        ),
        (
            4096,
            "015094013f57a5277b59d8475c0501042c0b642e531b0a1c8f58d2163229e969",
        ),
        (
            8192,
            "aae792484c8efe4f19e2ca7d371d8c467ffb10748d8a5a1ae579948f718a2a63",
        ),
        (
            31744,
            "62b6960e1a44bcc1eb1a611a8d6235b6b4b78f32e7abc4fb4c6cdcce94895c47",
        ),
        (
            102_400,
            "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085",
        ),
    ];
    for (length, want) in vectors {
        let bytes: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
        for cuts in [&[][..], &[1024], &[2048], &[1, 5000], &[4096, 8192, 16_384]] {
            assert_eq!(hex("blake3", &bytes, cuts), want, "{length} {cuts:?}");
        }
    }
}

/// Chunks, subtrees and powers of two, cut at and around each.
#[test]
fn blake3_of_whole_subtrees_is_that_of_one_pass() {
    let bytes = noise(1 << 18);
    for chunks in [1usize, 2, 3, 4, 5, 8, 64, 127, 128, 129, 256] {
        for length in [
            chunks * 1024 - 1,
            chunks * 1024,
            (chunks * 1024 + 1).min(bytes.len()),
        ] {
            let bytes = &bytes[..length];
            let want = blake3::hash(bytes).to_hex().to_string();
            for cut in [0, 1, 1023, 1024, 1025, 2048, length / 2, length - 1, length] {
                for second in [cut, cut + 1024, cut + 65_536] {
                    let got = hex("blake3", bytes, &[cut, second]);
                    assert_eq!(got, want, "{length} {cut} {second}");
                }
            }
        }
    }
}

/// `md5sum`, `sha256sum` and `sha512sum`, if installed.
#[test]
fn digests_are_those_of_the_system_s_tools() {
    let bytes = noise(300_000);
    for name in ["md5", "sha256", "sha512"] {
        let Ok(mut child) = Command::new(format!("{name}sum"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
        else {
            eprintln!("{name}sum is not there: skipped");
            continue;
        };
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let printed = child.wait_with_output().unwrap().stdout;
        let printed = String::from_utf8(printed).unwrap();
        let want = printed.split(' ').next().unwrap();
        assert_eq!(hex(name, &bytes, &[7, 100_000]), want);
    }
}

/// Bit by bit, from the polynomial of RFC 3720.
fn slow_crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg())
        })
    })
}

#[test]
fn joined_checksums_are_those_computed_bit_by_bit() {
    let bytes = noise(50_000);
    let want = format!("{:08x}", slow_crc32c(&bytes));
    for cuts in [&[][..], &[4096, 8192], &[4095], &[1, 20_000, 20_001]] {
        assert_eq!(hex("crc32c", &bytes, cuts), want, "{cuts:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_cutting_equals_one_pass(
        (bytes, cuts) in (0usize..40_000)
            .prop_flat_map(|length| (Just(noise(length)), cuts(length))),
    ) {
        let whole = run(&NAMES, &bytes, &[]).unwrap();
        prop_assert_eq!(run(&NAMES, &bytes, &cuts).unwrap(), whole);
    }

    /// Many blocks of the cache and levels of the tree.
    #[test]
    fn any_cutting_of_a_long_stream_equals_one_pass(cuts in cuts(600_000)) {
        let bytes = noise(600_000);
        let names = ["blake3", "crc32c"];
        let (got, _) = run(&names, &bytes, &cuts).unwrap();
        let Outcome::Digest(digest) = &got[0] else { panic!() };
        prop_assert_eq!(digest.hex(), blake3::hash(&bytes).to_hex().to_string());
        let Outcome::Digest(digest) = &got[1] else { panic!() };
        prop_assert_eq!(digest.hex(), format!("{:08x}", crc32c::crc32c(&bytes)));
    }
}
