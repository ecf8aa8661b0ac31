//! Following a growing folder.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::{Duration, Instant};

use crate::common::{Recorder, SECOND, write};
use isochrony_ingest::{Follow, RawOptions, import_raw};
use isochrony_store::{Mode, Store};

/// Waits until another handle of the store sees them.
fn wait_for(store: &Store, samples: i64) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while store
        .signal("s/p")
        .map_or(0, |signal| signal.sample_count())
        != samples
    {
        assert!(Instant::now() < deadline, "{samples} samples did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn files_are_imported_when_they_are_complete_and_not_before() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("src");
    let mut recorder = Recorder::new(1_267_401_600 * SECOND, 2000.0, 5.0, 6000, 1000);
    recorder.record(12);
    let write_file =
        |number: usize| recorder.write_file(&source, "s", "p", &recorder.files[number]);
    (0..3).for_each(write_file);
    let store = Store::open(folder.path().join("water.iso"), Mode::Create).unwrap();
    let mut options = RawOptions::preset("censam").unwrap();
    options.follow = Some(Follow {
        interval: Duration::from_millis(20),
        settle: Duration::from_secs(2),
        file_samples: Some(6000),
    });
    let interrupt = options.interrupt.clone();
    let importing = {
        let (store, source) = (store.clone(), source.clone());
        std::thread::spawn(move || import_raw(&store, &source, &options, None).unwrap())
    };
    wait_for(&store, 18_000);
    let growing = source.join(recorder.path("s", "p", &recorder.files[3]));
    let bytes: Vec<u8> = recorder.files[3]
        .samples
        .iter()
        .flat_map(|sample| sample.to_le_bytes())
        .collect();
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(growing)
        .unwrap();
    file.write_all(&bytes[..4001]).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(store.signal("s/p").unwrap().sample_count(), 18_000);
    file.write_all(&bytes[4001..]).unwrap();
    wait_for(&store, 24_000);
    // A temporary name is not reported, a permanent one is.
    write(&source, "s/passing.tmp", b"x");
    write(&source, "s/staying.txt", b"x");
    std::thread::sleep(Duration::from_millis(100));
    std::fs::remove_file(source.join("s/passing.tmp")).unwrap();
    // A short file counts once the next exists, or it no longer grows.
    let mut short = recorder.clone();
    short.files.truncate(4);
    short.record_samples(1000);
    for file in &mut short.files[4..] {
        let at = recorder.files[4].first;
        file.stamp_ns = recorder.files[4].stamp_ns;
        file.samples = (at..at + 1000).map(Recorder::sample).collect();
    }
    short.write_file(&source, "s", "p", &short.files[4]);
    write_file(6);
    wait_for(&store, 24_000 + 1000 + 6000);
    std::thread::sleep(Duration::from_millis(2500));
    interrupt.request();
    let summary = importing.join().unwrap();
    assert!(summary.cancelled);
    let problems: Vec<_> = summary
        .problems
        .list
        .iter()
        .map(|problem| (problem.path.as_str(), problem.code))
        .collect();
    assert_eq!(problems, [("s/staying.txt", "misnamed")]);
    let signal = store.signal("s/p").unwrap();
    let gaps: Vec<_> = signal
        .gaps()
        .iter()
        .map(|gap| (gap.start, gap.length))
        .collect();
    assert_eq!(gaps, [(25_000, 11_000)]);
    assert_eq!(summary.files, 6);
}
