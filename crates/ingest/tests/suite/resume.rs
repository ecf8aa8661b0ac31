//! An import that is killed and repeated has the result of an uninterrupted one.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::common::{Recorder, SECOND};
use isochrony_ingest::{ImportProgress, RawOptions, import_raw};
use isochrony_store::{Mode, Signal, Store};

const FOLDER: &str = "ISOCHRONY_RESUME_TEST";
/// Kills after which more must be committed.
const PARTS: u32 = 6;
const MAX_KILLS: u32 = 300;
const SIGNALS: [&str; 2] = ["a/p", "b/p"];

fn options() -> RawOptions {
    let mut options = RawOptions::preset("censam").unwrap();
    // So that kills fall between, within and after commits.
    options.session.commit_bytes = 30_000;
    options
}

/// A child process; otherwise does nothing.
#[test]
fn child_that_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let folder = Path::new(&folder);
    let store = Store::open(folder.join("killed.iso"), Mode::Append).unwrap();
    let mut tell = |progress: &ImportProgress| println!("at {}", progress.files.done());
    println!("begin");
    import_raw(&store, &folder.join("src"), &options(), Some(&mut tell)).unwrap();
    store.close().unwrap();
    println!("end");
}

fn write_recordings(source: &Path) -> Vec<Recorder> {
    ["a", "b"]
        .into_iter()
        .zip([20.0, -7.0])
        .map(|(station, ppm)| {
            let mut recorder = Recorder::new(1_267_401_600 * SECOND, 2000.0, ppm, 4000, 1000);
            recorder.record(70).outage(12_345);
            recorder
                .record(60)
                .step(-3 * SECOND)
                .record(60)
                .step(-SECOND);
            recorder.record(50);
            recorder.write(source, station, "p");
            recorder
        })
        .collect()
}

fn assert_same(killed: &Signal, whole: &Signal) {
    let (killed_state, whole_state) = (killed.state(), whole.state());
    assert_eq!(killed.end_index(), whole.end_index());
    let gaps = |signal: &Signal| {
        signal
            .gaps()
            .iter()
            .map(|gap| (gap.start, gap.length))
            .collect::<Vec<_>>()
    };
    assert_eq!(gaps(killed), gaps(whole));
    assert_eq!(
        killed_state.runs.iter().collect::<Vec<_>>(),
        whole_state.runs.iter().collect::<Vec<_>>()
    );
    assert_eq!(
        killed_state.points.iter().collect::<Vec<_>>(),
        whole_state.points.iter().collect::<Vec<_>>()
    );
    let samples = |signal: &Signal| {
        let selection = signal.select(0..signal.end_index()).unwrap();
        selection
            .segments()
            .map(|segment| segment.unwrap().to_vec::<i16>().unwrap())
            .collect::<Vec<_>>()
            .concat()
    };
    assert_eq!(samples(killed), samples(whole));
    // The fits may differ by less than the stamps' resolution.
    for index in (0..whole.end_index()).step_by(997) {
        let (killed, whole) = (
            killed.time_of(index).unwrap().value,
            whole.time_of(index).unwrap().value,
        );
        assert!(
            (killed.to_f64() - whole.to_f64()).abs() < 1500.0,
            "{index}: {killed} {whole}"
        );
    }
}

fn sample_count(store: &Store) -> i64 {
    let names = store.names().unwrap();
    let counts = names
        .iter()
        .map(|name| store.signal(name).unwrap().sample_count());
    counts.sum()
}

/// Whether the child still ran after `delay`.
fn killed_after(folder: &Path, delay: Duration) -> bool {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "resume::child_that_is_killed", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let began = lines.any(|line| line.unwrap().ends_with("begin"));
    assert!(began, "the child did nothing: {:?}", child.wait());
    std::thread::sleep(delay);
    let lives = child.try_wait().unwrap().is_none();
    if lives {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    assert!(lives || status.success(), "the child failed: {status}");
    lives
}

/// Committed samples, from a copy, so that the next child recovers what the kill left.
fn left_by_kill(path: &Path, copy: &Path) -> i64 {
    let _ = std::fs::remove_dir_all(copy);
    copy_folder(path, copy);
    sample_count(&Store::open(copy, Mode::ReadWrite).unwrap())
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (entry, to) = (
            entry.as_ref().unwrap(),
            to.join(entry.as_ref().unwrap().file_name()),
        );
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn a_killed_import_resumes_after_its_last_commit() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("src");
    let recorders = write_recordings(&source);
    let whole = Store::open(folder.path().join("whole.iso"), Mode::Create).unwrap();
    let summary = import_raw(&whole, &source, &options(), None).unwrap();
    assert_eq!((summary.files, summary.problems.len()), (480, 0));

    let all = sample_count(&whole);
    let path = folder.path().join("killed.iso");
    let (mut kills, mut parts, mut kept) = (0, 0, 0);
    let mut delay = Duration::from_millis(1);
    while parts < PARTS {
        assert!(kills < MAX_KILLS, "{parts} of {kills} kills left a part");
        if killed_after(folder.path(), delay) {
            kills += 1;
        }
        let left = left_by_kill(&path, &folder.path().join("copy.iso"));
        assert!(
            left >= kept,
            "{kept} samples were committed, {left} are left"
        );
        if left == all {
            // Too late: retry with a shorter delay.
            std::fs::remove_dir_all(&path).unwrap();
            (delay, kept) = (delay / 4, 0);
        } else {
            parts += u32::from(left > kept);
            delay = if left > kept { delay } else { delay * 2 };
            kept = left;
        }
    }
    println!("{kills} kills, of which {parts} left a part more, at last {kept} of {all} samples");
    let killed = Store::open(&path, Mode::Append).unwrap();
    let summary = import_raw(&killed, &source, &options(), None).unwrap();
    assert!(summary.is_clean(), "{:?}", summary.problems);
    assert_eq!(summary.files + summary.skipped, 480);
    for (name, recorder) in SIGNALS.iter().zip(&recorders) {
        let (killed, whole) = (killed.signal(name).unwrap(), whole.signal(name).unwrap());
        assert_same(&killed, &whole);
        assert_eq!(whole.sample_count() as usize, recorder.recorded);
    }
    let again = import_raw(&killed, &source, &options(), None).unwrap();
    assert_eq!((again.files, again.skipped, again.bytes), (0, 480, 0));
}
