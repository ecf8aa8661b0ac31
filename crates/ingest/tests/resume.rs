//! An import that is killed, and run again, gives what an import that was not killed gives.

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Recorder, SECOND};
use isochrony_ingest::{Progress, RawOptions, import_raw};
use isochrony_store::{Mode, Signal, Store};

const FOLDER: &str = "ISOCHRONY_RESUME_TEST";
const SIGNALS: [&str; 2] = ["a/p", "b/p"];

fn options() -> RawOptions {
    let mut options = RawOptions::preset("censam").unwrap();
    // A commit every few files, so that a kill falls between, in and after some.
    options.session.commit_bytes = 30_000;
    options
}

/// Run by the test below in a process of its own; does nothing otherwise.
#[test]
fn child_that_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let folder = Path::new(&folder);
    let store = Store::open(folder.join("killed.iso"), Mode::Append).unwrap();
    let mut tell = |progress: &Progress| println!("at {}", progress.done_files);
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
    // The fits agree: where they differ at all, by less than the stamps' resolution.
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

#[test]
fn a_killed_import_goes_on_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("src");
    let recorders = write_recordings(&source);
    let whole = Store::open(folder.path().join("whole.iso"), Mode::Create).unwrap();
    let summary = import_raw(&whole, &source, &options(), None).unwrap();
    assert_eq!((summary.files, summary.problems.len()), (480, 0));

    let mut kills = 0;
    for delay_us in (0..20).map(|round| 1500 * round) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_is_killed", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut ended = false;
        for line in lines {
            let line = line.unwrap();
            ended = line.ends_with("end");
            if ended || line.contains("begin") {
                break;
            }
        }
        std::thread::sleep(std::time::Duration::from_micros(delay_us));
        if child.try_wait().unwrap().is_none() {
            child.kill().unwrap();
            kills += 1;
        }
        child.wait().unwrap();
        if ended {
            break;
        }
    }
    assert!(kills > 0, "no child lived long enough to be killed");
    let killed = Store::open(folder.path().join("killed.iso"), Mode::Append).unwrap();
    let summary = import_raw(&killed, &source, &options(), None).unwrap();
    assert!(summary.is_clean(), "{:?}", summary.problems);
    assert_eq!(summary.files + summary.known, 480);
    for (name, recorder) in SIGNALS.iter().zip(&recorders) {
        let (killed, whole) = (killed.signal(name).unwrap(), whole.signal(name).unwrap());
        assert_same(&killed, &whole);
        assert_eq!(whole.sample_count() as usize, recorder.recorded);
    }
    let again = import_raw(&killed, &source, &options(), None).unwrap();
    assert_eq!((again.files, again.known, again.bytes), (0, 480, 0));
}
