use std::collections::BTreeSet;

use isochrony_ingest::IngestError;
use isochrony_time::Fixed;

/// Every variant, its code, and parts of its message.
fn samples() -> Vec<(IngestError, &'static str, &'static [&'static str])> {
    let template = || "{a}".to_owned();
    let path = || "s/f.raw".to_owned();
    vec![
        (
            IngestError::EmptyTemplate,
            "empty_template",
            &["empty", "write one"],
        ),
        (
            IngestError::TemplateTooLong {
                length: 1001,
                max: 1000,
            },
            "template_too_long",
            &["1001", "1000", "shorten"],
        ),
        (
            IngestError::UnbalancedBrace {
                template: template(),
                at: 3,
                brace: '{',
            },
            "unbalanced_brace",
            &["character 3", "'{'", "double the brace"],
        ),
        (
            IngestError::InvalidField {
                template: template(),
                at: 2,
                field: "a b".into(),
            },
            "invalid_field",
            &["{a b}", "character 2", "starts with a letter"],
        ),
        (
            IngestError::InvalidFieldSpec {
                template: template(),
                at: 1,
                field: "year".into(),
                spec: "2".into(),
                legal: "years have 4 digits",
            },
            "invalid_field_spec",
            &["{year:2}", "character 1", "4 digits"],
        ),
        (
            IngestError::TouchingFields {
                template: template(),
                at: 4,
                first: "{a}".into(),
                second: "{b}".into(),
            },
            "touching_fields",
            &["{b} at character 4 touches {a}", "give a width"],
        ),
        (
            IngestError::MissingTimeField {
                template: template(),
                field: "hour",
                needs: "{day}",
            },
            "missing_time_field",
            &["{hour} needs {day}", "add it"],
        ),
        (
            IngestError::ConflictingTimeFields {
                template: template(),
                first: "epoch",
                second: "iso",
            },
            "conflicting_time_fields",
            &["{epoch} and {iso}", "keep one"],
        ),
        (
            IngestError::InvalidComponent {
                template: template(),
                component: "..".into(),
                reason: "it leads elsewhere",
            },
            "invalid_component",
            &["\"..\"", "it leads elsewhere", "relative"],
        ),
        (
            IngestError::UnknownPreset {
                name: "x".into(),
                known: "\"censam\"",
            },
            "unknown_preset",
            &["\"x\"", "known are \"censam\""],
        ),
        (
            IngestError::Misnamed {
                path: path(),
                at: 7,
                expected: "{epoch}".into(),
            },
            "misnamed",
            &["{epoch} was expected at character 7", "s/f.raw", "rename"],
        ),
        (
            IngestError::FieldDisagrees {
                path: path(),
                field: "{a}".into(),
                first: "x".into(),
                second: "y".into(),
            },
            "field_disagrees",
            &["{a} is \"x\" and \"y\"", "rename or move"],
        ),
        (
            IngestError::ImpossibleStamp {
                path: path(),
                stamp: "99".into(),
                reason: "months go from 1 to 12",
            },
            "impossible_stamp",
            &["\"99\"", "months go from 1 to 12", "rename"],
        ),
        (
            IngestError::NotUnicode { path: path() },
            "not_unicode",
            &["s/f.raw", "UTF-8", "rename"],
        ),
        (IngestError::EmptyFile, "empty_file", &["empty"]),
        (
            IngestError::PartialSample {
                bytes: 7,
                size: 2,
                rest: 1,
                whole: 3,
            },
            "partial_sample",
            &[
                "7 bytes",
                "2-byte",
                "1 bytes left over",
                "partial",
                "3 whole",
            ],
        ),
        (
            IngestError::Rewritten {
                signal: "s/p".into(),
                samples: 70,
            },
            "rewritten",
            &["first 70 samples", "\"s/p\"", "another name", "delete"],
        ),
        (
            IngestError::LinkNotFollowed {
                reason: "it leads outside",
            },
            "link_not_followed",
            &["it leads outside"],
        ),
        (
            IngestError::NotAFile { kind: "socket" },
            "not_a_file",
            &["socket", "move it"],
        ),
        (
            IngestError::Duplicate {
                signal: "s/p".into(),
                index: 7,
            },
            "duplicate",
            &["stored already", "\"s/p\" at index 7", "remove the copy"],
        ),
        (
            IngestError::Overlap {
                signal: "s/p".into(),
                index: 7,
                start: Fixed::from_int(1_267_401_600_000_000_000),
                end: Fixed::from_int(1_267_401_601_000_000_000),
            },
            "overlap",
            &[
                "2010-03-01T00:00:00",
                "to 2010-03-01T00:00:01",
                "overlap in time",
                "\"s/p\"",
                "from index 7",
                "all are kept",
            ],
        ),
        (
            IngestError::Repeated {
                signal: "s/p".into(),
                index: 7,
                samples: 400,
                start: Fixed::from_int(1_267_401_600_000_000_000),
                end: Fixed::from_int(1_267_401_604_000_000_000),
            },
            "repeated",
            &[
                "400 of its samples, from 2010-03-01T00:00:00",
                "to 2010-03-01T00:00:04",
                "stored already",
                "\"s/p\" from index 7",
                "were skipped",
                "remove the copy",
            ],
        ),
        (
            IngestError::Mismatch {
                signal: "s/p".into(),
                what: "unit",
                have: "kPa".into(),
                got: "bar".into(),
            },
            "mismatch",
            &["\"s/p\" has unit kPa, the source has bar", "another name"],
        ),
        (
            IngestError::MixedTime {
                signal: "s/p".into(),
                signal_is_timed: true,
            },
            "mixed_time",
            &[
                "\"s/p\" has civil time, and the source states none",
                "another name",
                "start=",
            ],
        ),
        (
            IngestError::BlockSizes {
                signal: "s".into(),
                have: 4,
                stated: 5,
            },
            "block_sizes",
            &["\"s\"", "4 samples", "add up to 5", "state for each"],
        ),
        (
            IngestError::EmptyBlock,
            "empty_block",
            &["has no samples", "leave it out"],
        ),
        (
            IngestError::InvalidOption {
                option: "value_jump",
                got: "-1".into(),
                legal: "give a difference above 0",
            },
            "invalid_option",
            &["value_jump=-1", "above 0"],
        ),
        (
            IngestError::Shrank { expected: 7 },
            "shrank",
            &["shorter than its 7 bytes", "import it again"],
        ),
        (
            IngestError::Cancelled,
            "cancelled",
            &["cancelled", "run it again"],
        ),
        (
            IngestError::Io {
                action: "read",
                path: "s/f.raw".into(),
                source: std::io::Error::other("gone"),
            },
            "io",
            &["cannot read s/f.raw: gone", "check its permissions"],
        ),
        (
            IngestError::NotAFolder { path: "s".into() },
            "not_a_folder",
            &["s is not a folder", "give the folder"],
        ),
    ]
}

#[test]
fn every_error_has_its_own_code_and_a_complete_message() {
    let mut codes = BTreeSet::new();
    for (error, code, parts) in samples() {
        assert_eq!(error.code(), code);
        assert!(codes.insert(code), "{code} twice");
        for part in parts {
            assert!(
                error.to_string().contains(part),
                "{code}: {error} lacks {part:?}"
            );
        }
    }
    let inner = isochrony_store::StoreError::NoSuchSignal {
        name: "x".into(),
        hint: String::new(),
    };
    let text = inner.to_string();
    let error = IngestError::from(inner);
    assert_eq!((error.code(), error.to_string()), ("no_such_signal", text));
    assert!(error.is_fatal());
    // So that no variant can be forgotten.
    let source = include_str!("../../src/error.rs");
    let known: BTreeSet<&str> = source
        .split("=> \"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert_eq!(codes, known);
}
