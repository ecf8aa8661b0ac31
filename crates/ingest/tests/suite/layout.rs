use isochrony_ingest::{IngestError, Layout, Preset};
use proptest::prelude::*;

const SECOND: i64 = 1_000_000_000;

/// Template, path, signal; stamp and resolution in ns.
type Row = (&'static str, &'static str, &'static str, Option<(i64, i64)>);

const READ: &[Row] = &[
    (
        Layout::CENSAM,
        "stn_10/2010/060/pressure/stn_10_1267401600.raw",
        "stn_10/pressure",
        Some((1_267_401_600 * SECOND, SECOND)),
    ),
    (
        "{network}.{station}.{iso}.bin",
        "FJ.N1.20100301T003005.25.bin",
        "FJ/N1",
        Some((1_267_403_405_250_000_000, 10_000_000)),
    ),
    (
        "{station}/{station}_{epoch}.raw",
        "stn_10/stn_10_1267401600000001.raw",
        "stn_10",
        Some((1_267_401_600_000_001_000, 1000)),
    ),
    // Greedy: the last underscore.
    (
        "{station}_{epoch}.raw",
        "a_b_c_7.raw",
        "a_b_c",
        Some((7 * SECOND, SECOND)),
    ),
    (
        "{a}/{year}-{month}-{day}.raw",
        "x/2010-3-1.raw",
        "x",
        Some((1_267_401_600 * SECOND, 86_400 * SECOND)),
    ),
    (
        "{a}/{year}.{day}.raw",
        "x/2010.60.raw",
        "x",
        Some((1_267_401_600 * SECOND, 86_400 * SECOND)),
    ),
    (
        "{a}/{year}{month}{day}{hour}{minute}{second}{fraction}",
        "x/20100301003005125",
        "x",
        Some((1_267_403_405_125_000_000, 1_000_000)),
    ),
    (
        "{a}/{year}{day}_{hour}",
        "x/2010060_01",
        "x",
        Some((1_267_405_200 * SECOND, 3600 * SECOND)),
    ),
    ("{a}/{epoch:us}", "x/5000000", "x", Some((5 * SECOND, 1000))),
    (
        "{a}/{epoch:13}*.raw",
        "x/1267401600123456.raw",
        "x",
        Some((1_267_401_600_123_000_000, 1_000_000)),
    ),
    (
        "{code}{year}{month}{day}.raw",
        "ABC20100301.raw",
        "ABC",
        Some((1_267_401_600 * SECOND, 86_400 * SECOND)),
    ),
    (
        "*/{code:3}{epoch}",
        "any/ABC1267401600",
        "ABC",
        Some((1_267_401_600 * SECOND, SECOND)),
    ),
    ("{{{a}}}/{b}.raw", "{x}/y.raw", "x/y", None),
    ("{a}.raw", "grün.raw", "grün", None),
    ("{a:4}*.raw", "grünlich.raw", "grün", None),
    (
        Layout::CENSAM,
        "s/2010/061/p/s_1267401599.raw",
        "s/p",
        Some((1_267_401_599 * SECOND, SECOND)),
    ),
    (
        "{epoch}.raw",
        "1267401600.5.raw",
        "",
        Some((1_267_401_600_500_000_000, 100_000_000)),
    ),
];

#[test]
fn paths_give_signal_stamp_and_resolution() {
    for (template, path, signal, stamp) in READ {
        let layout: Layout = template
            .parse()
            .unwrap_or_else(|e| panic!("{template}: {e}"));
        let found = layout
            .read(path)
            .unwrap_or_else(|e| panic!("{template}: {e}"));
        assert_eq!(found.signal, *signal, "{template}");
        assert_eq!(
            found.stamp.map(|s| (s.ns, s.resolution_ns)),
            *stamp,
            "{template}"
        );
        assert_eq!(layout.is_timed(), stamp.is_some(), "{template}");
        assert_eq!(layout.depth(), path.split('/').count(), "{template}");
    }
}

#[test]
fn rejects_templates_that_are_ambiguous_or_leave_the_folder() {
    for (template, code) in [
        ("", "empty_template"),
        ("{station", "unbalanced_brace"),
        ("station}", "unbalanced_brace"),
        ("{sta/tion}", "unbalanced_brace"),
        ("{}", "invalid_field"),
        ("{1a}", "invalid_field"),
        ("{a b}", "invalid_field"),
        ("{a:x}", "invalid_field_spec"),
        ("{a:0}", "invalid_field_spec"),
        ("{a:+4}", "invalid_field_spec"),
        ("{year:2}/{day}", "invalid_field_spec"),
        ("{iso:15}", "invalid_field_spec"),
        ("{epoch:days}", "invalid_field_spec"),
        ("{a}{b}", "touching_fields"),
        ("{a}{epoch}", "touching_fields"),
        ("{epoch}{a}", "touching_fields"),
        ("{a}{b:3}{c}", "touching_fields"),
        ("{a}*", "touching_fields"),
        ("*{a}", "touching_fields"),
        ("{a}/{year}/{month}", "missing_time_field"),
        ("{a}/{day}", "missing_time_field"),
        ("{a}/{year}/{day}/{minute}", "missing_time_field"),
        ("{a}/{fraction}", "missing_time_field"),
        ("{a}/{epoch}/{iso}", "conflicting_time_fields"),
        ("../{a}", "invalid_component"),
        ("/{a}", "invalid_component"),
        ("{a}//b", "invalid_component"),
        ("{a}/", "invalid_component"),
        ("{a}/./b", "invalid_component"),
        ("{a}\\b", "invalid_component"),
        ("{a}\u{7}", "invalid_component"),
    ] {
        let error = template.parse::<Layout>().expect_err(template);
        assert_eq!(error.code(), code, "{template}: {error}");
    }
    assert_eq!(
        "x".repeat(1001).parse::<Layout>().unwrap_err().code(),
        "template_too_long"
    );
}

#[test]
fn rejected_paths_say_where_and_why() {
    let layout: Layout = Layout::CENSAM.parse().unwrap();
    for (path, code, part) in [
        (
            "readme.txt",
            "misnamed",
            "\"/\" was expected at character 11",
        ),
        (
            "stn_10/2010/060/pressure/stn_10_.raw",
            "misnamed",
            "{epoch} was expected at character 33",
        ),
        (
            "stn_10/2010/060/pressure/stn_10_5.raw~",
            "misnamed",
            "the end of the name was expected at character 38",
        ),
        (
            "stn_10/2010/060/pressure/stn_11_5.raw",
            "field_disagrees",
            "{station} is \"stn_10\" and \"stn_11\"",
        ),
        (
            "stn_10/201/060/pressure/stn_10_5.raw",
            "misnamed",
            "{year} was expected at character 8",
        ),
        (
            "stn_10/2010/060/pressure/stn_10_99999999999999999999.raw",
            "misnamed",
            "\".raw\"",
        ),
        (
            "stn_10/2010/060/pressure/stn_10_9999999999.raw",
            "impossible_stamp",
            "1677 to 2262",
        ),
    ] {
        let error = layout.read(path).expect_err(path);
        assert_eq!(error.code(), code, "{path}: {error}");
        assert!(error.to_string().contains(part), "{path}: {error}");
    }
    let layout: Layout = "{a}/{year}{month}{day}.raw".parse().unwrap();
    assert_eq!(
        layout.read("x/20100229.raw").unwrap_err().code(),
        "impossible_stamp"
    );
    for path in ["../20100301.raw", "./20100301.raw", ".//20100301.raw"] {
        assert_eq!(layout.read(path).unwrap_err().code(), "misnamed", "{path}");
    }
}

#[test]
fn matching_an_adversarial_name_is_bounded() {
    let layout: Layout = format!("{}b", "*a".repeat(40)).parse().unwrap();
    let error = layout.read(&"a".repeat(250)).unwrap_err();
    assert!(matches!(error, IngestError::Misnamed { .. }), "{error}");
}

#[test]
fn every_preset_parses() {
    for preset in Preset::ALL {
        assert_eq!(Preset::find(preset.name).unwrap(), preset);
        preset.template.parse::<Layout>().unwrap();
    }
    assert_eq!(Preset::find("nosuch").unwrap_err().code(), "unknown_preset");
}

#[derive(Debug, Clone)]
enum Piece {
    Literal(String),
    Name(usize),
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        "[-_.x{}]{1,3}".prop_map(Piece::Literal),
        (0_usize..3).prop_map(Piece::Name),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn parse_print_parse_gives_the_same_layout(template in "[a{}:*/_.\\-0-9]{0,12}|(\\{(a|b|c2|epoch|epoch:us|iso|year|month|day|hour|minute|second|fraction|day:3|a:4)\\}|[/_.*x-]|\\{\\{|\\}\\}){1,10}") {
        if let Ok(layout) = template.parse::<Layout>() {
            let printed = layout.to_string();
            prop_assert_eq!(printed.parse::<Layout>().unwrap(), layout.clone());
            prop_assert_eq!(printed.parse::<Layout>().unwrap().to_string(), printed);
        }
    }

    #[test]
    fn a_path_written_by_a_layout_is_read_back(
        components in prop::collection::vec(prop::collection::vec(piece(), 1..4), 1..4),
        values in prop::array::uniform3("[a-w][a-w0-9]{0,6}"),
        epoch in 0_i64..9_000_000_000,
    ) {
        // They share no character, so that paths are unambiguous.
        let (mut template, mut path, mut order, mut touching) = (String::new(), String::new(), Vec::new(), false);
        for component in &components {
            let mut was_name = false;
            for piece in component {
                match piece {
                    Piece::Literal(text) => {
                        template.push_str(&text.replace('{', "{{").replace('}', "}}"));
                        path.push_str(text);
                        was_name = false;
                    }
                    Piece::Name(index) => {
                        touching |= was_name;
                        was_name = true;
                        template.push_str(&format!("{{n{index}}}"));
                        path.push_str(&values[*index]);
                        if !order.contains(index) {
                            order.push(*index);
                        }
                    }
                }
            }
            template.push('/');
            path.push('/');
        }
        template.push_str("{epoch}.raw");
        path.push_str(&format!("{epoch}.raw"));
        let refused = path.split('/').any(|part| part == "." || part == "..");
        match template.parse::<Layout>() {
            Ok(layout) => {
                prop_assert!(!touching && !refused);
                let found = layout.read(&path).unwrap();
                let names: Vec<&str> = order.iter().map(|index| values[*index].as_str()).collect();
                prop_assert_eq!(found.signal, names.join("/"));
                prop_assert_eq!(found.stamp.unwrap().ns, epoch * SECOND);
            }
            Err(error) => prop_assert!(touching || refused, "{} {}", template, error),
        }
    }

    #[test]
    fn no_path_makes_matching_panic_or_leave(template in ".{0,20}", path in ".{0,30}") {
        if let Ok(layout) = template.parse::<Layout>()
            && let Ok(found) = layout.read(&path) {
            prop_assert!(found.signal.split('/').all(|part| part != ".." && part != "."));
        }
    }
}

#[test]
fn a_date_beside_an_hour_and_a_minute_is_a_whole_stamp() {
    let layout: Layout = "{station}_{iso}_{hour}{minute}.wav".parse().unwrap();
    for (name, seconds) in [("a_20100301_0000.wav", 0), ("a_20100301_0740.wav", 27_600)] {
        let stamp = layout.read(name).unwrap().stamp.unwrap();
        assert_eq!(stamp.ns, (1_267_401_600 + seconds) * 1_000_000_000);
        assert_eq!(stamp.resolution_ns, 60_000_000_000);
    }
    // Beside a complete time they are labels.
    let layout: Layout = "{hour}/{station}_{iso}.wav".parse().unwrap();
    let stamp = layout
        .read("23/a_20100301T0740.wav")
        .unwrap()
        .stamp
        .unwrap();
    assert_eq!(stamp.ns, (1_267_401_600 + 27_600) * 1_000_000_000);
}

#[test]
fn a_counter_after_a_time_is_not_a_zone() {
    let base = 1_267_401_600 * 1_000_000_000;
    for (template, name) in [
        ("{iso}*.raw", "20100301T000000-0040.raw"),
        ("{iso}*.raw", "20100301T000000-0100.raw"),
        ("{iso}-{part}.raw", "20100301T000000-0100.raw"),
        ("{iso}{part:5}.raw", "20100301T000000-0100.raw"),
    ] {
        let layout: Layout = template.parse().unwrap();
        let stamp = layout.read(name).unwrap().stamp.unwrap();
        assert_eq!(stamp.ns, base, "{template} {name}");
    }
    let layout: Layout = "{iso}.raw".parse().unwrap();
    assert!(layout.read("20100301T000000-0040.raw").is_err());
    let stamp = layout
        .read("20100301T000000-0100.raw")
        .unwrap()
        .stamp
        .unwrap();
    assert_eq!(stamp.ns, base + 3600 * 1_000_000_000);
}
