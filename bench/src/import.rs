//! ingest/raw: import of a folder of raw recordings, with checksums and views, against copying and syncing its files.

use std::fs::{self, File};
use std::path::Path;

use isochrony::prelude::*;
use isochrony::segment::ByteOrder;

use crate::measure::{Results, interleave, noise, ratio};

pub fn run(
    dir: &Path,
    quick: bool,
    results: &mut Results,
) -> Result<(), Box<dyn std::error::Error>> {
    // 30 s files of 2 kHz, 16 bit, from four stations: syncing is most of a copy's cost. One file of 70 minutes: it is
    // little.
    let (stations, files) = if quick { (2, 20) } else { (4, 1000) };
    compare(dir, "30s-files", stations, files, 60_000, quick, results)?;
    let files = if quick { 1 } else { 8 };
    compare(dir, "70min-files", stations, files, 8 << 20, quick, results)
}

fn compare(
    dir: &Path,
    variant: &str,
    stations: usize,
    files: usize,
    samples: usize,
    quick: bool,
    results: &mut Results,
) -> Result<(), Box<dyn std::error::Error>> {
    let dir = &dir.join(variant);
    let source = dir.join("source");
    let block = noise(4, samples + 4096);
    for station in 0..stations {
        let folder = source.join(format!("stn_{station}"));
        fs::create_dir_all(&folder)?;
        for k in 0..files {
            let from = (k * 37 + station * 11) % 4096;
            let bytes: Vec<u8> = block[from..from + samples]
                .iter()
                .flat_map(|x| x.to_le_bytes())
                .collect();
            fs::write(
                folder.join(format!("p_{}.raw", 1_267_401_600 + k * samples / 2000)),
                bytes,
            )?;
        }
    }
    let bytes = (stations * files * samples * 2) as u64;
    let layout: Layout = "{station}/{sensor}_{epoch}.raw".parse()?;
    let options = RawOptions::new(layout, DType::I16, ByteOrder::Little, Rate::from_hz(2000)?);
    // A new place every round: removals are untimed.
    let (mut imports, mut copies) = (0, 0);
    let import = || {
        imports += 1;
        let store_path = dir.join(format!("import-{imports}.iso"));
        let store = Store::open(&store_path, Mode::Create).expect("created");
        let summary = import_raw(&store, &source, &options, None).expect("imported");
        assert_eq!(summary.files as usize, stations * files);
        for station in 0..stations {
            let signal = store.signal(&format!("stn_{station}/p")).expect("a signal");
            assert_eq!(signal.sample_count(), (files * samples) as i64);
        }
        store.close().expect("closed");
    };
    let copy = || {
        copies += 1;
        let copy_path = dir.join(format!("copy-{copies}"));
        let mut copied = 0;
        for station in 0..stations {
            let (from, to) = (
                source.join(format!("stn_{station}")),
                copy_path.join(format!("stn_{station}")),
            );
            fs::create_dir_all(&to).expect("made");
            for entry in fs::read_dir(from).expect("listed") {
                let entry = entry.expect("an entry");
                let target = to.join(entry.file_name());
                copied += fs::copy(entry.path(), &target).expect("copied");
            }
        }
        for station in 0..stations {
            for entry in fs::read_dir(copy_path.join(format!("stn_{station}"))).expect("listed") {
                File::open(entry.expect("an entry").path())
                    .and_then(|file| file.sync_all())
                    .expect("synced");
            }
        }
        assert_eq!(copied, bytes);
    };
    let rounds = if quick { 1 } else { 5 };
    let (a, b) = interleave(rounds, import, copy);
    let met = ratio(&a, &b) >= 0.8;
    results.compare(
        &format!("ingest/raw/0.5GB/{variant}"),
        &a,
        "cp, then fsync of its files",
        &b,
        Some(bytes),
        Some((">= 0.8", met)),
    );
    Ok(())
}
