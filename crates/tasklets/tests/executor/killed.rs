//! A child runs the adder and is killed; others resume until all is done.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use isochrony_store::{VerifyOptions, verify};

use super::*;

const CHILD: &str = "ISOCHRONY_TASKLETS_CHILD";
const LIMIT: &str = "ISOCHRONY_TASKLETS_LIMIT";

fn child_options() -> ExecutorOptions {
    let mut options = with(2, 1 << 14);
    options.keep_every = Duration::from_millis(15);
    options
}

/// Records each tasklet that began.
fn child(root: &Path) {
    // Later ones wait to be killed.
    let limit: usize = std::env::var(LIMIT).unwrap().parse().unwrap();
    let begun = Arc::new(AtomicUsize::new(0));
    let store = Store::open(root, Mode::ReadWrite).unwrap();
    let log = root.with_extension("log");
    let (executor, _room) = adder(&store, child_options(), move |name| {
        let mut log = std::fs::File::options()
            .append(true)
            .create(true)
            .open(&log)
            .unwrap();
        writeln!(log, "{name}").unwrap();
        std::thread::sleep(Duration::from_millis(2));
        if begun.fetch_add(1, Ordering::Relaxed) >= limit {
            std::thread::sleep(Duration::from_secs(600));
        }
        Ok(())
    });
    run(&executor, true).unwrap();
}

#[test]
fn a_run_killed_at_any_time_can_be_resumed_to_the_end() {
    if let Ok(root) = std::env::var(CHILD) {
        child(Path::new(&root));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut kills, mut kept) = (0u64, 0);
    for history in 0..3u64 {
        let root: PathBuf = folder.path().join(format!("{history}.iso"));
        recorded(&root).close().unwrap();
        let log = root.with_extension("log");
        for life in 0.. {
            assert!(life < 500, "no child came to its end");
            let began = std::fs::read_to_string(&log).map_or(0, |log| log.lines().count());
            let mut process = Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "killed::a_run_killed_at_any_time_can_be_resumed_to_the_end",
                    "--nocapture",
                ])
                .env(CHILD, &root)
                .env(LIMIT, if life == 0 { "60" } else { "1000" })
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            // After a few more tasklets, so runs complete at any speed.
            let more = began + 10 + (life * 7 + history as usize * 13) % 40;
            let status = loop {
                if let Some(status) = process.try_wait().unwrap() {
                    break status;
                }
                if std::fs::read_to_string(&log).map_or(0, |log| log.lines().count()) > more {
                    std::thread::sleep(Duration::from_micros(life as u64 * 977 % 9000));
                    process.kill().unwrap();
                    break process.wait().unwrap();
                }
                std::thread::sleep(Duration::from_millis(1));
            };
            if status.success() {
                break;
            }
            assert_eq!(status.signal(), Some(9), "the child ended by itself");
            kills += 1;
            let store = Store::open(&root, Mode::ReadWrite).unwrap();
            let sum = store.signal("sum").unwrap();
            for part in 0..PARTS {
                let missing = sum.gaps().missing_within(range(part));
                assert!(missing == 0 || missing == PART, "a part of {part}");
                if missing == 0 {
                    let sums = sum.select(range(part)).unwrap().counts(-1i32).unwrap();
                    assert_eq!(sums[3], expected(range(part).start + 3));
                }
            }
            assert_eq!(
                std::fs::read_dir(root.join(".isochrony/tmp"))
                    .unwrap()
                    .count(),
                0
            );
        }
        let store = Store::open(&root, Mode::ReadWrite).unwrap();
        check_sums(&store.signal("sum").unwrap());
        let (executor, _room) = adder(&store, child_options(), |_| {
            Err("nothing is left to do".into())
        });
        kept += count(&run(&executor, true).unwrap(), "kept");
        store.close().unwrap();
        let report = verify(&root, &VerifyOptions::default()).unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }
    assert!(kills >= 3, "{kills} kills");
    assert_eq!(kept, 3 * 3 * PARTS as usize);
}
