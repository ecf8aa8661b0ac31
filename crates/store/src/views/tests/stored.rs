//! Rows of samples that were never committed.

use std::path::{Path, PathBuf};

use isochrony_segment::DType;
use isochrony_time::Rate;

use crate::{CreateOptions, Mode, Store, VerifyOptions};

/// 40,000 samples are committed; 3 million more, with rows in files, are lost by `lose`, which gives the store to
/// continue with. A gap of more rows than fit in memory begins within them.
fn lost_samples_do_not_show_in_a_gap(gap: i64, lose: impl Fn(&Store, &Path) -> PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.iso");
    let store = Store::open(&path, Mode::Create).expect("a store");
    let options = CreateOptions::new(DType::I16, Rate::new(2000, 1).expect("a rate"));
    let writer = store.create("s", &options).expect("a signal");
    let (kept, block) = (40_000, vec![7i16; 1 << 20]);
    writer.append(&block[..kept]).expect("appended");
    store.commit(true).expect("committed");
    for _ in 0..3 {
        writer.append(&block).expect("appended");
    }
    drop(writer);
    assert!(path.join("s/views/512/moments/c/0/0").exists());

    let path = lose(&store, folder.path());
    let store = Store::open(&path, Mode::ReadWrite).expect("a store");
    let writer = store.writer("s").expect("a writer");
    writer.append_gap(gap).expect("a gap");
    for _ in 0..2 {
        writer.append(&block).expect("appended");
    }
    store.commit(true).expect("committed");
    let signal = store.signal("s").expect("the signal");
    let (start, end) = (kept as i64, kept as i64 + gap);
    for (range, count) in [
        (start..end, 0),
        (0..end, kept as u64),
        (0..end + (2 << 20), kept as u64 + (2 << 20)),
    ] {
        for pixels in [1, 10, 1000] {
            let view = signal.view(range.clone(), pixels).expect("a view");
            let counted: u64 = view.columns.count.iter().sum();
            assert_eq!(counted, count, "{range:?} in {pixels} columns");
        }
    }
    store.close().expect("closed");
    let store = Store::open(&path, Mode::Read).expect("a store");
    let deep = VerifyOptions {
        deep: true,
        ..VerifyOptions::default()
    };
    assert_eq!(store.verify(&deep).expect("verified").findings, []);
}

/// Gaps end before the lost rows, and after.
const GAPS: [i64; 2] = [1_200_000, 9_000_000];

#[test]
fn rows_that_a_rollback_leaves_do_not_show_in_a_gap() {
    for gap in GAPS {
        lost_samples_do_not_show_in_a_gap(gap, |store, _| {
            let path = store.path().to_path_buf();
            store.close().expect("closed");
            path
        });
    }
}

#[test]
fn rows_that_a_crash_leaves_do_not_show_in_a_gap() {
    for gap in GAPS {
        lost_samples_do_not_show_in_a_gap(gap, |store, folder| {
            let path = folder.join("b.iso");
            copy(store.path(), &path).expect("copied");
            path
        });
    }
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            std::fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
