//! Backups with commits before the end.

use std::os::unix::fs::FileExt;

use isochrony_segment::DType;
use isochrony_time::Rate;

use super::*;
use crate::options::CreateOptions;
use crate::verify::{VerifyOptions, verify};

#[test]
fn a_signal_with_a_damaged_end_is_intact_up_to_the_commit() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, copy) = (folder.path().join("a.iso"), folder.path().join("b.iso"));
    let store = Store::open(&path, Mode::Create).expect("created");
    let options = CreateOptions::new(DType::I16, Rate::from_hz(100).expect("a rate"));
    let writer = store.create("x", &options).expect("a signal");
    let samples: Vec<i16> = (0..400_000).map(|x| (x % 30_011) as i16).collect();
    writer.append(&samples).expect("appended");
    store.commit(true).expect("committed");
    store.close().expect("closed");
    let shard = std::fs::OpenOptions::new()
        .write(true)
        .open(path.join("x/data/c/0"));
    let written = shard
        .expect("opens")
        .write_all_at(&[0xAA; 8], 4_096 + 2 * 350_000);
    written.expect("written");
    let source = Store::open(&path, Mode::Read).expect("opens");
    let options = CopyOptions {
        commit_bytes: 1 << 16,
        ..CopyOptions::default()
    };
    let report = copy_to(&source, &copy, &options, &mut |_| ()).expect("backed up");
    assert_eq!(report.failed.len(), 1, "{report:?}");
    let deep = VerifyOptions {
        deep: true,
        ..VerifyOptions::default()
    };
    assert_eq!(verify(&copy, &deep).expect("verified").findings, []);
    let copied = Store::open(&copy, Mode::Read).expect("opens");
    let signal = copied.signal("x").expect("the signal");
    let end = signal.end_index();
    assert!((200_000..350_000).contains(&end), "{end}");
    let part = signal.select(0..end).expect("all").as_segment();
    let part = part.expect("a segment").to_vec::<i16>().expect("i16");
    assert!(part == samples[..part.len()]);
}
