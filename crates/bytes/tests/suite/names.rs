//! Processors by name.

use isochrony_bytes::{BytesError, Chain, Matches, Outcome};
use proptest::prelude::*;

fn refused(name: &str) -> String {
    Chain::parse(&[name]).unwrap_err().to_string()
}

fn matches(name: &str, bytes: &[u8]) -> Matches {
    match Chain::parse(&[name]).unwrap().run(bytes).unwrap().pop() {
        Some(Outcome::Matches(matches)) => matches,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_name_of_the_table_is_one() {
    for name in [
        "md5",
        "sha256",
        "sha512",
        "blake3",
        "xxh3",
        "xxh3-128",
        "crc32c",
        "zstd",
        "zstd:19",
        "zstd:-1",
        "gzip",
        "gzip:9",
        "unzstd",
        "gunzip",
        "stats:i2",
        "stats:>f8",
        "stats:float32",
        "convert:<i2:<f4",
        "convert,scale=0.5,offset=-1,saturate:f8:u1",
        "count:x",
        "find,keep=3,overlapping,ignore-case:x|y",
        " sha256 ",
    ] {
        let chain = Chain::parse(&[name]).unwrap();
        assert_eq!(chain.names().collect::<Vec<_>>(), [name]);
    }
}

#[test]
fn messages_name_the_processor_the_parameter_and_what_is_allowed() {
    let cases: [(&str, &[&str]); 20] = [
        (
            "sha1",
            &["there is no processor \"sha1\"", "give one of", "sha256"],
        ),
        ("", &["there is no processor \"\""]),
        (
            "sha256:x",
            &["sha256 takes no argument, got \"x\"; write sha256"],
        ),
        (
            "sha256,fast",
            &["sha256 has no option \"fast\"; write sha256"],
        ),
        (
            "unzstd,level=3",
            &["no option \"level\"; write unzstd[,window=LOG]"],
        ),
        (
            "unzstd:3",
            &["unzstd takes no argument, got \"3\"; write unzstd["],
        ),
        (
            "stats",
            &[
                "stats needs a dtype; write stats:DTYPE, such as",
                "one of i1",
            ],
        ),
        (
            "stats,fast:<i2",
            &["stats has no option \"fast\"; write stats:"],
        ),
        (
            "stats:u8",
            &["stats: dtype=u8 is refused; give one of i1", "before it"],
        ),
        ("stats:c8", &["stats: dtype=c8"]),
        ("zstd:fast", &["zstd: level=fast", "from -7 to 22"]),
        ("gzip:10.5", &["gzip: level=10.5", "from 1 to 12"]),
        ("convert:<i2", &["convert: dtypes=<i2", "convert:<i2:<f4"]),
        ("convert,scale:<i2:<f4", &["scale= is refused", "a number"]),
        ("convert,scale=nan:<i2:<f4", &["scale=NaN", "finite"]),
        ("convert,gain=2:<i2:<f4", &["no option \"gain\"", "scale=X"]),
        (
            "convert,saturate=yes:<i2:<f4",
            &["saturate=yes", "without a value"],
        ),
        ("count", &["count needs a pattern", "count:needle"]),
        (
            "count,keep=3:x",
            &["count has no option \"keep\"", "overlapping"],
        ),
        ("find,keep=-1:x", &["find: keep=-1", "a whole number"]),
    ];
    for (name, parts) in cases {
        let text = refused(name);
        for part in parts {
            assert!(text.contains(part), "{text:?} lacks {part:?}");
        }
    }
}

#[test]
fn patterns_are_what_follows_the_first_colon() {
    assert_eq!(matches("count:a:b", b"a:b a:b").total, 2);
    // Spaces count, commas too.
    assert_eq!(matches("count: x,", b" x, x").total, 1);
    let found = matches("count:cat|dog", b"dog cat dog");
    let counts: Vec<_> = found
        .patterns
        .iter()
        .map(|p| (&p.pattern[..], p.count))
        .collect();
    assert_eq!(counts, [(&b"cat"[..], 1), (b"dog", 2)]);
}

#[test]
fn escapes_are_bytes() {
    let found = matches(r"count:\n\r\t\0\\\|\x7f\xFF|é", b"\n\r\t\0\\|\x7f\xff");
    assert_eq!(found.patterns[0].pattern, b"\n\r\t\0\\|\x7f\xff");
    assert_eq!(found.patterns[1].pattern, "é".as_bytes());
    assert_eq!(found.total, 1);
    for (name, shown) in [
        (r"count:\q", r"escape=\q"),
        (r"count:a\", r"escape=\ is refused"),
        (r"count:\x4", r"escape=\x4"),
        (r"count:\x+1", r"escape=\x+1"),
        (r"count:\xéé", r"escape=\xéé"),
    ] {
        assert!(refused(name).contains(shown), "{}", refused(name));
    }
    for name in ["find:", "find:a||b"] {
        assert_eq!(
            refused(name),
            "find: a pattern is empty; give patterns of 1 to 65536 bytes, separated by |"
        );
    }
    assert!(refused("count:").starts_with("count: a pattern is empty"));
}

/// Escapes for all bytes.
fn escaped(pattern: &[u8]) -> String {
    pattern
        .iter()
        .map(|byte| format!("\\x{byte:02x}"))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_text_panics(name in "\\PC{0,40}") {
        let _ = Chain::parse(&[name]);
    }

    #[test]
    fn no_text_like_a_name_panics(
        name in "(stats|zstd|convert|count|find|md5)(,[a-z]{0,6}(=[0-9.e-]{0,4})?){0,3}(:[<>a-z0-9|\\\\:]{0,8}){0,3}",
    ) {
        match Chain::parse(&[&name]) {
            Ok(chain) => { let _ = chain.run(b"some bytes, cats and dogs"); }
            Err(
                BytesError::Parameter { processor, .. }
                | BytesError::MissingArgument { processor, .. }
                | BytesError::UnexpectedArgument { processor, .. }
                | BytesError::UnknownOption { processor, .. }
                | BytesError::Patterns { processor, .. },
            ) => prop_assert!(name.starts_with(&processor)),
            Err(BytesError::Unknown { .. }) => {}
            Err(other) => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn any_patterns_can_be_written(patterns in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..5), 1..4)) {
        let text: Vec<String> = patterns.iter().map(|pattern| escaped(pattern)).collect();
        let found = matches(&format!("count:{}", text.join("|")), b"");
        let read: Vec<_> = found.patterns.into_iter().map(|p| p.pattern).collect();
        prop_assert_eq!(read, patterns);
    }
}
