//! store/commit: one commit of 66 growing signals beside a bare fdatasync.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use isochrony::prelude::*;

use crate::measure::{Results, interleave, noise};

const SIGNALS: usize = 66;

pub fn run(
    dir: &Path,
    quick: bool,
    results: &mut Results,
) -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::open(dir.join("commit.iso"), Mode::Create)?;
    let options = CreateOptions::new(DType::I32, Rate::from_hz(100)?);
    let writers: Vec<SignalWriter> = (0..SIGNALS)
        .map(|k| store.create(&format!("net/s{k}"), &options))
        .collect::<Result<_, _>>()?;
    store.commit(true)?;
    // One second of a live feed at 100 Hz.
    let block: Vec<i32> = noise(2, 100).into_iter().map(i32::from).collect();
    let file = File::create(dir.join("bare"))?;
    file.write_all_at(&vec![0; 64 << 20], 0)?;
    file.sync_all()?;
    let rounds = if quick { 5 } else { 200 };
    let mut appended = 0;
    let mut at = 0;
    let record = vec![1; SIGNALS * (block.len() * 4 + 40)];
    // Appending is untimed.
    let mut pending = false;
    let mut commits = Vec::new();
    let (_, bare) = interleave(
        rounds,
        || {
            for writer in &writers {
                writer.append(&block).expect("appended");
            }
            appended += block.len() as i64;
            pending = true;
            let start = std::time::Instant::now();
            store.commit(false).expect("committed");
            commits.push(start.elapsed());
            pending = false;
        },
        || {
            file.write_all_at(&record, at).expect("written");
            file.sync_data().expect("synced");
            at += record.len() as u64;
        },
    );
    assert!(!pending);
    for k in 0..SIGNALS {
        assert_eq!(store.signal(&format!("net/s{k}"))?.sample_count(), appended);
    }
    let commits = crate::measure::Times::from(commits.split_off(1));
    let met = commits.seconds().median < 0.002;
    results.compare(
        "store/commit/66-signals/publish=false",
        &commits,
        "one write and fdatasync of as many bytes",
        &bare,
        None,
        Some(("< 2 ms", met)),
    );
    Ok(())
}
