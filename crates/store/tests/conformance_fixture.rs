//! Stores of every format version stay in the tree, as the version that wrote them left them, and are read for ever.

use std::fs;
use std::path::{Path, PathBuf};

use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, Store, VerifyOptions, verify};
use isochrony_time::{Fixed, Rate, Stamp, civil};
use serde_json::{Map, json};

/// Samples of the fixture's signals: a function of the index alone.
fn sample(index: i64) -> i16 {
    (index.wrapping_mul(2_654_435_761) >> 20) as i16
}

fn fixture(version: u64) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/format-{version}.iso"))
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("the fixture") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}

fn at(text: &str) -> Fixed {
    civil::parse(text).expect("a time")
}

/// Writes the fixture of the current format. Run by hand, once per format version:
/// `cargo test -p isochrony-store --test conformance_fixture -- --ignored`.
#[test]
#[ignore = "writes the fixture of a new format version"]
fn writes_the_fixture() {
    let path = fixture(1);
    let _ = fs::remove_dir_all(&path);
    let store = Store::open(&path, Mode::Create).expect("created");
    let mut options = CreateOptions::new(DType::I16, Rate::new(100, 1).expect("a rate"));
    options.unit = "kPa".into();
    options.calibration = Some((0.5, -3.0));
    options.attributes.insert("station".into(), json!("STN10"));
    let writer = store.create("net/flat", &options).expect("a signal");
    let samples: Vec<i16> = (0..9000).map(sample).collect();
    let stamp = |text| Stamp::new(at(text), Fixed::from_int(1000));
    writer
        .append_at(&samples[..3000], &stamp("2020-01-01T00:00:00Z"))
        .expect("appended");
    // Ten seconds later than it would follow: a gap of a thousand samples.
    writer
        .append_at(&samples[4000..6000], &stamp("2020-01-01T00:00:40Z"))
        .expect("appended");
    // A minute back: another run.
    writer
        .append_at(&samples[6000..], &stamp("2020-01-01T00:00:00.5Z"))
        .expect("appended");
    let mut fields = Map::new();
    fields.insert("text".into(), json!("hello"));
    writer.add_event("note", 10..20, &fields).expect("an event");
    let sealed = store
        .create(
            "net/sealed",
            &CreateOptions::new(DType::F32, Rate::new(100, 1).expect("a rate")),
        )
        .expect("a signal");
    let values: Vec<f32> = (0..40_000)
        .map(|index| f32::from(sample(index)) / 4.0)
        .collect();
    sealed.append(&values).expect("appended");
    store.commit(true).expect("committed");
    store
        .seal("net/sealed", "zstd:3".parse().expect("a codec"))
        .expect("sealed");
    store.close().expect("closed");
}

#[test]
fn format_1_is_read_and_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("old.iso");
    copy(&fixture(1), &path);
    let deep = VerifyOptions {
        signals: None,
        deep: true,
    };
    assert_eq!(verify(&path, &deep).expect("verified").findings, []);
    for mode in [Mode::Read, Mode::ReadWrite, Mode::Read] {
        let store = Store::open(&path, mode).expect("opens");
        assert_eq!(store.names().expect("names"), ["net/flat", "net/sealed"]);
        let flat = store.signal("net/flat").expect("the signal");
        assert_eq!((flat.dtype(), flat.unit()), (DType::I16, "kPa"));
        assert_eq!(
            (flat.calibration().scale(), flat.calibration().offset()),
            (0.5, -3.0)
        );
        assert_eq!(flat.attributes()["station"], "STN10");
        let gaps: Vec<_> = flat.gaps().iter().map(|gap| gap.range()).collect();
        assert_eq!(gaps, std::slice::from_ref(&(3000..4000)));
        let runs = flat.runs().expect("runs");
        let ranges: Vec<_> = runs.iter().map(|run| run.start..run.end).collect();
        assert_eq!(ranges, [0..6000, 6000..9000]);
        let event = flat.events().next().expect("an event");
        assert_eq!(
            (event.kind.as_str(), event.start, event.end),
            ("note", 10, 20)
        );
        assert_eq!(event.fields, r#"{"text":"hello"}"#);
        for range in [0..3000, 4000..6000, 6000..9000] {
            let segment = flat
                .select(range.clone())
                .expect("a range")
                .as_segment()
                .expect("a segment");
            let expected: Vec<i16> = range.map(sample).collect();
            assert_eq!(segment.to_vec::<i16>().expect("i16"), expected);
        }
        let start = flat.time_of(0).expect("a time").value;
        let off = start
            .checked_sub(at("2020-01-01T00:00:00Z"))
            .expect("near")
            .to_f64();
        assert!((0.0..=1000.0).contains(&off), "{off} ns");
        let sealed = store.signal("net/sealed").expect("the signal");
        assert_eq!(sealed.codec(), "zstd");
        let segment = sealed
            .select(0..40_000)
            .expect("all")
            .as_segment()
            .expect("a segment");
        let expected: Vec<f32> = (0..40_000)
            .map(|index| f32::from(sample(index)) / 4.0)
            .collect();
        assert_eq!(segment.to_vec::<f32>().expect("f32"), expected);
    }
    let store = Store::open(&path, Mode::ReadWrite).expect("opens");
    store
        .writer("net/flat")
        .expect("a writer")
        .append(&[1i16, 2, 3])
        .expect("appended");
    store.commit(true).expect("committed");
    assert_eq!(
        store.signal("net/flat").expect("the signal").end_index(),
        9003
    );
    store.close().expect("closed");
    assert_eq!(verify(&path, &deep).expect("verified").findings, []);
}
