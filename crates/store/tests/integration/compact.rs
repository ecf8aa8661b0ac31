//! Short recordings take few files and little space: their tables are in the log until they grow.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, Report, Store, VerifyOptions, verify};
use isochrony_time::{Fixed, Rate, Stamp};
use serde_json::{Map, Value, json};

const SECOND: i64 = 1_000_000_000;
const CHUNK: i64 = 32_768;
/// A signal of this length is not compact.
const LONG: i64 = 1 << 19;

fn options() -> CreateOptions {
    let mut options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    options.start = Some(Fixed::from_int(1_577_836_800 * SECOND));
    options
}

fn samples(from: i64, to: i64) -> Vec<i16> {
    (from..to).map(|x| (x * 31 % 30_011) as i16).collect()
}

fn fields() -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("file".into(), "2020/a.dat".into());
    fields
}

fn store(folder: &Path, end: i64) -> Store {
    let store = Store::open(folder.join("a.iso"), Mode::Create).unwrap();
    let writer = store.create("n/s", &options()).unwrap();
    writer.append(&samples(0, end)).unwrap();
    writer.add_event("imported", 0..end, &fields()).unwrap();
    store.commit(true).unwrap();
    store
}

fn deep(path: &Path) -> Report {
    let options = VerifyOptions {
        signals: None,
        deep: true,
    };
    verify(path, &options).unwrap()
}

fn nodes(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        all.push(path.clone());
        if path.is_dir() {
            all.extend(nodes(&path));
        }
    }
    all
}

fn names(folder: &Path) -> Vec<String> {
    let name = |path: &PathBuf| path.strip_prefix(folder).unwrap().display().to_string();
    let mut names: Vec<String> = nodes(folder).iter().map(name).collect();
    names.sort();
    names
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn attributes(path: &Path) -> Value {
    let bytes = fs::read(path.join("n/s/zarr.json")).unwrap();
    serde_json::from_slice::<Value>(&bytes).unwrap()["attributes"]["isochrony"].clone()
}

fn contents(store: &Store) -> (i64, usize, usize, Vec<String>, Option<Fixed>) {
    let signal = store.signal("n/s").unwrap();
    let end = signal.end_index();
    for segment in signal.select(0..end).unwrap().segments() {
        let segment = segment.unwrap();
        let start = segment.start();
        let expected = samples(start, start + segment.len() as i64);
        assert_eq!(segment.to_vec::<i16>().unwrap(), expected);
    }
    let kinds = signal.events().map(|event| event.kind.clone()).collect();
    let time = signal.time_of(0).ok().map(|time| time.value);
    let runs = signal.runs().unwrap().len();
    (end, signal.gaps().len(), runs, kinds, time)
}

fn few_files_and_little_room(signals: usize, count: i64, codec: Option<&str>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iso");
    let writing = Store::open(&path, Mode::Create).unwrap();
    for number in 0..signals {
        let name = format!("stn_{number:04}");
        let writer = writing.create(&name, &options()).unwrap();
        writer.append(&samples(0, count)).unwrap();
        writer.add_event("imported", 0..count, &fields()).unwrap();
    }
    writing.commit(true).unwrap();
    for name in writing.names().unwrap() {
        if let Some(codec) = codec {
            writing.seal(&name, codec.parse().unwrap()).unwrap();
        }
    }
    writing.close().unwrap();
    let (mut lengths, mut files, mut blocks, mut all) = (0, 0, 0, 0);
    for node in (0..signals).flat_map(|number| nodes(&path.join(format!("stn_{number:04}")))) {
        let about = fs::metadata(node).unwrap();
        all += about.blocks() * 512;
        if about.is_file() {
            files += 1;
            lengths += about.len();
            blocks += about.blocks() * 512;
        }
    }
    let of_each = signals as u64;
    let raw = 2 * count as u64;
    println!(
        "a signal of {raw} bytes: {} files; on disk {} bytes of files, {} with folders; {} bytes of length",
        files / of_each,
        blocks / of_each,
        all / of_each,
        lengths / of_each
    );
    assert!(files <= 14 * of_each, "{raw}: {files}");
    assert!(
        blocks / of_each <= raw * 3 / 2 + (16 << 10),
        "{raw}: {blocks}"
    );
    let store = Store::open(&path, Mode::Read).unwrap();
    assert_eq!(store.names().unwrap().len(), signals);
    let report = verify(&path, &VerifyOptions::default()).unwrap();
    assert_eq!(report.findings, []);
}

#[test]
fn short_recordings_take_few_files_and_little_room() {
    few_files_and_little_room(1_500, 4_600, None);
    few_files_and_little_room(100, 4_600, Some("zstd"));
}

/// About one chunk, the first level of views, and the largest size without arrays.
#[test]
fn slightly_longer_signals_take_little_space_too() {
    for count in [
        CHUNK - 1,
        CHUNK,
        CHUNK + 1,
        65_535,
        65_537,
        131_071,
        131_073,
        (1 << 19) - 1,
    ] {
        few_files_and_little_room(10, count, None);
    }
    few_files_and_little_room(10, CHUNK + 1, Some("zstd"));
}

#[test]
fn other_programs_find_the_tables_of_a_short_signal_in_its_attributes() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path(), 4600);
    let path = store.path().to_path_buf();
    let tables = attributes(&path)["tables"].clone();
    store.close().unwrap();
    assert_eq!(attributes(&path)["tables"], tables);
    assert_eq!(tables["runs"], json!([[0, 0, 4600, 0]]));
    let [point] = tables["timebase/points"].as_array().unwrap().as_slice() else {
        panic!("{tables}")
    };
    assert_eq!(point[2], json!(1_577_836_800 * SECOND));
    let event = json!({ "id": 0, "start": 0, "end": 4600, "kind": "imported", "fields": { "file": "2020/a.dat" } });
    assert_eq!(tables["events"], json!([event]));
    let expected = [
        "data",
        "data/.signal",
        "data/c",
        "data/c/0",
        "data/zarr.json",
        "zarr.json",
    ];
    assert_eq!(names(&path.join("n/s")), expected);
    assert_eq!(deep(&path).findings, []);
}

#[test]
fn gaps_are_an_array_however_short_the_signal() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path(), 500);
    let path = store.path().to_path_buf();
    let writer = store.writer("n/s").unwrap();
    writer.append_gap(100).unwrap();
    writer.append(&samples(600, 700)).unwrap();
    store.commit(true).unwrap();
    let gaps = path.join("n/s/gaps");
    assert!(gaps.join("c/0/0").is_file() && gaps.join("zarr.json").is_file());
    assert!(!path.join("n/s/runs").exists());
    let expected = contents(&store);
    assert_eq!((expected.0, expected.1), (700, 1));
    // After the checkpoint at closing, too.
    store.close().unwrap();
    let store = Store::open(&path, Mode::ReadWrite).unwrap();
    assert_eq!(contents(&store), expected);
    store.writer("n/s").unwrap().mark_invalid(10..20).unwrap();
    store.commit(true).unwrap();
    store.close().unwrap();
    assert_eq!(deep(&path).findings, []);
    fs::remove_dir_all(&gaps).unwrap();
    let store = Store::open(&path, Mode::Read).unwrap();
    assert_eq!(store.signal("n/s").unwrap_err().code(), "missing_table");
}

#[test]
fn a_signal_that_grows_gets_all_arrays() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path(), 4600);
    let path = store.path().to_path_buf();
    store.close().unwrap();
    let beside = Store::open(&path, Mode::Read).unwrap();
    let store = Store::open(&path, Mode::ReadWrite).unwrap();
    let writer = store.writer("n/s").unwrap();
    writer.append(&samples(4600, CHUNK + 10)).unwrap();
    store.commit(true).unwrap();
    store.checkpoint().unwrap();
    assert!(path.join("n/s/crc/c/0").is_file() && path.join("n/s/crc/zarr.json").is_file());
    assert!(!path.join("n/s/runs").exists());
    beside.refresh().unwrap();
    assert_eq!(contents(&beside).0, CHUNK + 10);
    assert_eq!(deep(&path).findings, []);
    writer.append(&samples(CHUNK + 10, LONG)).unwrap();
    store.commit(true).unwrap();
    store.close().unwrap();
    for array in [
        "gaps",
        "runs",
        "timebase/points",
        "timebase/fit",
        "events/text",
        "crc",
    ] {
        let described = path.join("n/s").join(array).join("zarr.json");
        assert!(described.is_file(), "{}", described.display());
    }
    assert_eq!(attributes(&path)["tables"], Value::Null);
    assert_eq!(deep(&path).findings, []);
    let expected = contents(&Store::open(&path, Mode::Read).unwrap());
    assert_eq!(expected.0, LONG);
    // A reader of the previous log follows, whether it had read the signal or not.
    beside.refresh().unwrap();
    assert_eq!(contents(&beside), expected);
    // For good, even if the array is replaced.
    let store = Store::open(&path, Mode::ReadWrite).unwrap();
    store.seal("n/s", "zstd".parse().unwrap()).unwrap();
    store.unseal("n/s").unwrap();
    store.close().unwrap();
    assert!(path.join("n/s/runs/c/0/0").is_file());
    assert_eq!(deep(&path).findings, []);
}

#[test]
fn a_signal_with_many_rows_gets_all_arrays() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path(), 100);
    let path = store.path().to_path_buf();
    let writer = store.writer("n/s").unwrap();
    for event in 0..40 {
        writer
            .add_event("note", event..event + 1, &fields())
            .unwrap();
    }
    store.commit(true).unwrap();
    store.close().unwrap();
    assert!(path.join("n/s/events/text/c/0").is_file());
    assert_eq!(deep(&path).findings, []);
    let store = Store::open(&path, Mode::ReadWrite).unwrap();
    assert_eq!(contents(&store).3.len(), 41);
}

#[test]
fn a_short_signal_is_sealed_renamed_and_unsealed() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path(), 4600);
    let path = store.path().to_path_buf();
    let expected = contents(&store);
    store.seal("n/s", "zstd".parse().unwrap()).unwrap();
    store.rename("n/s", "m/t").unwrap();
    store.commit(true).unwrap();
    store.rename("m/t", "n/s").unwrap();
    store.commit(true).unwrap();
    assert_eq!(contents(&store), expected);
    store.close().unwrap();
    assert_eq!(deep(&path).findings, []);
    let store = Store::open(&path, Mode::ReadWrite).unwrap();
    store.unseal("n/s").unwrap();
    assert_eq!(contents(&store), expected);
    store.close().unwrap();
    assert_eq!(deep(&path).findings, []);
}

#[test]
fn a_killed_writer_leaves_short_signals_whole() {
    let folder = tempfile::tempdir().unwrap();
    for reopened in [false, true] {
        let mut writing = store(&folder.path().join(format!("{reopened}")), 500);
        let path = writing.path().to_path_buf();
        if reopened {
            writing.close().unwrap();
            writing = Store::open(&path, Mode::ReadWrite).unwrap();
        }
        let writer = writing.writer("n/s").unwrap();
        let stamp = Stamp::new(
            Fixed::from_int(1_577_836_700 * SECOND),
            Fixed::from_int(1000),
        );
        writer.append_at(&samples(500, 600), &stamp).unwrap();
        writer.append_gap(50).unwrap();
        writer.append(&samples(650, 700)).unwrap();
        writing.commit(true).unwrap();
        let expected = contents(&writing);
        assert_eq!((expected.1, expected.2), (1, 2));
        let killed = path.with_extension("killed");
        copy(&path, &killed);
        assert_eq!(
            contents(&Store::open(&killed, Mode::Read).unwrap()),
            expected
        );
        assert_eq!(deep(&killed).findings, []);
        let store = Store::open(&killed, Mode::ReadWrite).unwrap();
        assert_eq!(contents(&store), expected);
        store.close().unwrap();
        assert_eq!(deep(&killed).findings, []);
        assert!(!killed.join("n/s/runs").exists());
    }
}

#[test]
fn changed_attributes_are_found_and_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path(), 500);
    let path = store.path().to_path_buf();
    store.close().unwrap();
    let described = path.join("n/s/zarr.json");
    let right = fs::read_to_string(&described).unwrap();
    fs::write(&described, right.replace("imported", "exported")).unwrap();
    let report = deep(&path);
    let [finding] = report.findings.as_slice() else {
        panic!("{report:#?}")
    };
    assert_eq!(
        (finding.code, finding.repairable),
        ("foreign_metadata", true)
    );
    let store = Store::open(&path, Mode::ReadWrite).unwrap();
    let (_, after) = store.repair(&VerifyOptions::default()).unwrap();
    assert_eq!(after.findings, []);
    store.close().unwrap();
    assert_eq!(fs::read_to_string(&described).unwrap(), right);
}

#[test]
fn the_description_of_checksums_is_found_missing_and_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path(), CHUNK + 1);
    let path = store.path().to_path_buf();
    store.close().unwrap();
    let described = path.join("n/s/crc/zarr.json");
    let right = fs::read_to_string(&described).unwrap();
    fs::remove_file(&described).unwrap();
    let report = deep(&path);
    let [finding] = report.findings.as_slice() else {
        panic!("{report:#?}")
    };
    assert_eq!(
        (finding.code, finding.repairable),
        ("missing_metadata", true)
    );
    let store = Store::open(&path, Mode::ReadWrite).unwrap();
    store.repair(&VerifyOptions::default()).unwrap();
    store.close().unwrap();
    assert_eq!(fs::read_to_string(&described).unwrap(), right);
    assert_eq!(deep(&path).findings, []);
}

#[test]
fn a_short_signal_is_backed_up() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path(), 500);
    let writer = store.writer("n/s").unwrap();
    writer.append_gap(50).unwrap();
    writer.append(&samples(550, 600)).unwrap();
    store.commit(true).unwrap();
    let copied = folder.path().join("b.iso");
    for more in 0..2 {
        store.backup(&copied, &mut |_| ()).unwrap();
        let copy = Store::open(&copied, Mode::Read).unwrap();
        assert_eq!(contents(&copy), contents(&store));
        drop(copy);
        assert_eq!(deep(&copied).findings, []);
        assert!(!copied.join("n/s/runs").exists());
        writer.add_event("note", more..more + 1, &fields()).unwrap();
        writer
            .append(&samples(600 + 10 * more, 610 + 10 * more))
            .unwrap();
        store.commit(true).unwrap();
    }
}
