//! Stores of every format version stay readable.

use std::fs;
use std::path::{Path, PathBuf};

use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, Store, VerifyOptions, verify};
use isochrony_time::{Fixed, Rate, Stamp, civil};
use serde_json::{Map, json};

fn sample(index: i64) -> i16 {
    (index.wrapping_mul(2_654_435_761) >> 20) as i16
}

fn fixture(version: u64) -> PathBuf {
    fixture_of(&format!("format-{version}.iso"))
}

fn fixture_of(name: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    fixtures.join(name)
}

fn samples_of(store: &Store, name: &str) -> Vec<Option<i16>> {
    let signal = store.signal(name).expect("the signal");
    let end = signal.end_index();
    let mut samples = vec![None; usize::try_from(end).expect("a length")];
    for segment in signal.select(0..end).expect("all").segments() {
        let segment = segment.expect("read");
        let from = usize::try_from(segment.start()).expect("an index");
        let values = segment.to_vec::<i16>().expect("i16");
        for (at, value) in values.into_iter().enumerate() {
            samples[from + at] = Some(value);
        }
    }
    samples
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

/// Run by hand, once per format version: `cargo test -p isochrony-store --test conformance_fixture -- --ignored`.
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
    // Ten seconds late: a gap of a thousand samples.
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

fn expected(range: std::ops::Range<i64>, gap: std::ops::Range<i64>) -> Vec<Option<i16>> {
    let sample_at = |at| (!gap.contains(&at)).then(|| sample(at));
    range.map(sample_at).collect()
}

/// Stores from before short signals had their tables in the log: closed, and left by a killed writer with a new signal
/// and changes in the log.
#[test]
fn stores_in_which_every_table_is_an_array_are_read_and_written() {
    let deep = VerifyOptions {
        signals: None,
        deep: true,
    };
    for (name, killed) in [
        ("format-1-arrays.iso", false),
        ("format-1-arrays-killed.iso", true),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("old.iso");
        copy(&fixture_of(name), &path);
        assert_eq!(verify(&path, &deep).expect("verified").findings, []);
        let (end, short) = if killed { (6100, 150) } else { (6000, 100) };
        for mode in [Mode::Read, Mode::ReadWrite, Mode::Read] {
            let store = Store::open(&path, mode).expect("opens");
            assert_eq!(samples_of(&store, "net/flat"), expected(0..end, 3000..4000));
            assert_eq!(samples_of(&store, "net/short"), expected(0..short, 0..0));
            assert_eq!(samples_of(&store, "net/sealed"), expected(0..40_000, 0..0));
            let empty = store.signal("net/empty").expect("the signal");
            assert_eq!((empty.end_index(), empty.dtype()), (0, DType::F32));
            let flat = store.signal("net/flat").expect("the signal");
            let start = flat.time_of(0).expect("a time").value;
            assert_eq!(start, at("2020-01-01T00:00:00Z"));
            let kinds: Vec<_> = flat.events().map(|event| event.kind.clone()).collect();
            assert_eq!(kinds, ["note"]);
            assert_eq!(store.signal("net/new").is_ok(), killed);
            if killed {
                assert_eq!(samples_of(&store, "net/new"), expected(0..600, 500..550));
                let new = store.signal("net/new").expect("the signal");
                assert_eq!(new.events().count(), 1);
            }
        }
        assert_eq!(verify(&path, &deep).expect("verified").findings, []);
        let store = Store::open(&path, Mode::ReadWrite).expect("opens");
        for signal in ["net/flat", "net/short"] {
            let writer = store.writer(signal).expect("a writer");
            writer.append_gap(10).expect("a gap");
            writer.append(&[1i16, 2, 3]).expect("appended");
        }
        let options = CreateOptions::new(DType::I16, Rate::new(100, 1).expect("a rate"));
        let beside = store.create("net/beside", &options).expect("a signal");
        beside.append(&[1i16, 2, 3]).expect("appended");
        store.commit(true).expect("committed");
        store.close().expect("closed");
        assert!(path.join("net/short/runs/c/0/0").is_file());
        assert!(!path.join("net/beside/runs").exists());
        assert_eq!(verify(&path, &deep).expect("verified").findings, []);
        let store = Store::open(&path, Mode::Read).expect("opens");
        let short_now = store.signal("net/short").expect("the signal");
        assert_eq!(short_now.end_index(), short + 13);
        let copied = folder.path().join("copy.iso");
        store.backup(&copied, &mut |_| ()).expect("backed up");
        let backup = Store::open(&copied, Mode::Read).expect("opens");
        for signal in ["net/flat", "net/short", "net/sealed"] {
            assert_eq!(samples_of(&backup, signal), samples_of(&store, signal));
        }
        assert!(!copied.join("net/short/runs").exists());
    }
}
