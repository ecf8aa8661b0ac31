use std::fs;
use std::path::{Path, PathBuf};

use isochrony_flow::{
    Catalog, Interrupt, Plan, PlanOutput, RunOptions, Stat, StoredRecording, json,
};
use isochrony_segment::DType;
use isochrony_store::{Codec, CreateOptions, Mode, Store};
use isochrony_time::Rate;
use tempfile::TempDir;

const SIGNALS: [(&str, Option<&str>); 3] = [
    ("plain", None),
    ("zstd", Some("zstd:1")),
    ("blosc", Some("blosc:lz4:5")),
];
/// 64 KiB at 100 Hz.
const CHUNK: i64 = 32_768;

fn made(folder: &TempDir) -> Store {
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    let samples: Vec<i16> = (0..40 * CHUNK)
        .map(|k| ((k * k) >> 7) as i16 / 16)
        .collect();
    for (name, codec) in SIGNALS {
        let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
        let writer = store.create(name, &options).unwrap();
        let (first, second) = samples.split_at(700_001);
        writer.append(first).unwrap();
        writer.append_gap(45_678).unwrap();
        writer.append(second).unwrap();
        store.commit(true).unwrap();
        if let Some(codec) = codec {
            store.seal(name, codec.parse::<Codec>().unwrap()).unwrap();
        }
    }
    store
}

fn scan(store: &Store, name: &str) -> Plan {
    Plan::scan(StoredRecording::new(
        store.path(),
        store.signal(name).unwrap(),
    ))
}

fn lowpass(plan: &Plan) -> Plan {
    let declaration = *Catalog::standard().get("iir").unwrap();
    let parameters = json!({"band": "lowpass", "cutoff_hz": 5.0});
    let parameters = parameters.as_object().unwrap().clone();
    plan.apply(&declaration, parameters, &[]).unwrap()
}

fn options(workers: usize) -> RunOptions<'static> {
    let mut options = RunOptions::default();
    (options.workers, options.task) = (workers, 200_000);
    options
}

fn plans(store: &Store, name: &str) -> [Plan; 3] {
    let scan = scan(store, name);
    let windows = scan.rewindow_every(700, 300).unwrap();
    [windows.stats([Stat::Max]).unwrap(), lowpass(&scan), scan]
}

#[test]
fn any_number_of_workers_gives_the_bits_of_the_plain_signal() {
    let folder = tempfile::tempdir().unwrap();
    let store = made(&folder);
    let expected = Plan::collect_all(&plans(&store, "plain"), &options(1))
        .unwrap()
        .0;
    for reader in [false, true] {
        // Writers and readers of a store access their files differently.
        let opened = Store::open(store.path(), Mode::Read).unwrap();
        let store = if reader { &opened } else { &store };
        for name in ["zstd", "blosc"] {
            for workers in [1, 2, 5] {
                for (plan, expected) in plans(store, name).iter().zip(&expected) {
                    let (found, report) = plan.collect_with(&options(workers)).unwrap();
                    assert_same(&found, expected, name);
                    assert_eq!(report.tasks.len() > 10, workers > 1, "{name}");
                    assert!(report.peak_bytes <= options(workers).memory);
                }
            }
        }
    }
}

fn assert_same(found: &PlanOutput, expected: &PlanOutput, what: &str) {
    match (found.rows(), expected.rows()) {
        (Some(found), Some(expected)) => assert_eq!(found.columns(), expected.columns(), "{what}"),
        _ => assert!(bytes(found) == bytes(expected), "{what}"),
    }
}

fn bytes(output: &PlanOutput) -> &[u8] {
    &output.array().unwrap().bytes
}

#[test]
fn little_memory_is_enough_and_is_kept_to() {
    let folder = tempfile::tempdir().unwrap();
    let store = made(&folder);
    let plan = lowpass(&scan(&store, "zstd")).count().unwrap();
    let mut little = options(4);
    little.memory = 4 << 20;
    let (counted, report) = plan.collect_with(&little).unwrap();
    assert_eq!(counted.count(), Some(40 * CHUNK as u64));
    assert!(report.peak_bytes <= little.memory, "{}", report.peak_bytes);
}

#[test]
fn explain_says_that_chunks_are_decompressed_in_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let store = made(&folder);
    for (name, codec) in SIGNALS {
        let text = lowpass(&scan(&store, name)).explain();
        let is_sealed = codec.is_some();
        assert_eq!(
            text.contains(", decoded there, then in order"),
            is_sealed,
            "{text}"
        );
        assert_eq!(
            text.contains("the signal is sealed with"),
            is_sealed,
            "{text}"
        );
    }
}

fn shard(store: &Path, name: &str) -> PathBuf {
    store.join(name).join("data/c/0")
}

#[test]
fn a_damaged_chunk_is_the_error_of_its_scan_and_of_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let store = made(&folder);
    let path = store.path().to_path_buf();
    store.close().unwrap();
    let file = shard(&path, "zstd");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 40].fill(0x55);
    fs::write(&file, bytes).unwrap();
    let store = Store::open(&path, Mode::Read).unwrap();
    let mut said = Vec::new();
    for workers in [1, 2, 5] {
        for plan in plans(&store, "zstd") {
            let error = plan.collect_with(&options(workers)).unwrap_err();
            assert_eq!(error.code(), "operator_failed");
            let text = error.to_string();
            assert!(text.starts_with("scan (node 0"), "{text}");
            let chunk = text
                .split("chunk ")
                .nth(1)
                .unwrap()
                .split(':')
                .next()
                .unwrap();
            said.push(chunk.to_owned());
        }
        let [found, expected] = ["zstd", "plain"].map(|name| {
            let recording = StoredRecording::new(store.path(), store.signal(name).unwrap());
            let before = Plan::scan(recording.ranges(std::iter::once(0..5 * CHUNK)));
            before.collect_with(&options(workers)).unwrap().0
        });
        assert_same(&found, &expected, "before the damage");
        for (plan, expected) in plans(&store, "blosc").iter().zip(plans(&store, "plain")) {
            let found = plan.collect_with(&options(workers)).unwrap().0;
            assert_same(&found, &expected.collect().unwrap(), "blosc");
        }
    }
    said.dedup();
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn an_interrupt_ends_decoding() {
    let folder = tempfile::tempdir().unwrap();
    let store = made(&folder);
    let recording = StoredRecording::new(store.path(), store.signal("zstd").unwrap());
    let plan = lowpass(&Plan::scan(recording.ranges(vec![0..40 * CHUNK; 5000])));
    let stop = Interrupt::default();
    let mut options = options(2);
    options.interrupt = Some(&stop);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(30));
            stop.request();
        });
        let error = plan.run_with(&options).unwrap_err();
        assert_eq!(error.code(), "interrupted");
    });
}
