//! Scratch stays in memory while there is room; only files show the difference.

use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

fn on_disk(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    let bytes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(about) if about.is_dir() => on_disk(&entry.path()),
        Ok(about) if entry.path().parent().is_some_and(|in_| in_.ends_with("c")) => {
            about.blocks() * 512
        }
        _ => 0,
    });
    bytes.sum()
}

#[test]
fn scratch_goes_to_files_only_beyond_its_memory() {
    // All, one part, none.
    for (memory, files) in [
        (None, false),
        (Some(PART as u64 * 4), true),
        (Some(0), true),
    ] {
        for workers in [1, 3] {
            let folder = tempfile::tempdir().unwrap();
            let store = recorded(&folder.path().join("a.iso"));
            let temporary = store.path().join(".isochrony/tmp");
            let most = Arc::new(AtomicU64::new(0));
            let seen = Arc::clone(&most);
            let mut options = with(workers, 1 << 30);
            options.scratch_memory = memory;
            let (executor, room) = adder(&store, options, move |name| {
                if name.starts_with("add") {
                    seen.fetch_max(on_disk(&temporary), Ordering::Relaxed);
                }
                Ok(())
            });
            let report = run(&executor, false).unwrap();
            check_sums(&store.signal("sum").unwrap());
            assert!(report.peak_scratch >= 2 * PART as u64 * 4);
            assert_eq!(most.load(Ordering::Relaxed) > 0, files, "{memory:?}");
            for scratch in room {
                assert_eq!(scratch.signal().unwrap().sample_count(), 0);
            }
        }
    }
}

#[test]
fn one_worker_may_be_the_calling_thread() {
    let folder = tempfile::tempdir().unwrap();
    let store = recorded(&folder.path().join("a.iso"));
    let caller = std::thread::current().id();
    let others = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&others);
    let mut options = with(1, 1 << 30);
    options.in_caller = true;
    let (executor, _) = adder(&store, options, move |_| {
        if std::thread::current().id() != caller {
            seen.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    });
    let mut looked = 0;
    let report = executor.run(false, &mut |_| {
        looked += 1;
        true
    });
    assert_eq!(count(&report.unwrap(), "done"), 3 * PARTS as usize);
    assert_eq!(others.load(Ordering::Relaxed), 0);
    assert!(looked > 0);
    check_sums(&store.signal("sum").unwrap());
    let report = run(&executor, true).unwrap();
    assert_eq!(count(&report, "kept"), 3 * PARTS as usize);
    let stopped = executor.run(false, &mut |_| false).unwrap_err();
    assert_eq!(stopped.error.code(), "output_occupied");
}
