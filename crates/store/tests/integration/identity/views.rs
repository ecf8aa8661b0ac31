//! View rows belong to their signal and place; torn ones are rewritten after a power cut, durable ones stay.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use isochrony_store::views::Measure;
use isochrony_store::{Mode, Store, VerifyOptions};

use super::damage::findings;
use super::{on_disk, options, samples};

fn two_long_signals() -> (tempfile::TempDir, PathBuf) {
    let (folder, store) = on_disk();
    for (name, made) in [("x", 1), ("y", 2)] {
        let writer = store.create(name, &options(made)).unwrap();
        writer.append(&samples(made, 3_000_000)).unwrap();
    }
    store.commit(true).unwrap();
    store.close().unwrap();
    let path = store.path().to_path_buf();
    (folder, path)
}

/// By a plot and by a level: the samples' extremes, or an error.
fn extremes_of_x(path: &PathBuf, mode: Mode) -> Result<(), String> {
    let expected = (1000, 1000 + 996);
    let signal = Store::open(path, mode).unwrap().signal("x").unwrap();
    let view = signal
        .view(0..3_000_000, 100)
        .map_err(|error| error.code().to_owned())?;
    let columns = view.physical(signal.dtype()).unwrap();
    let least = columns.min.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = columns
        .max
        .iter()
        .copied()
        .fold(f64::NEG_INFINITY, f64::max);
    assert_eq!(
        (least, greatest),
        (f64::from(expected.0), f64::from(expected.1))
    );
    let level = signal.decimated(0).unwrap();
    let rows = level.read(Measure::Max, 0..10);
    for segment in rows.map_err(|error| error.code().to_owned())? {
        for value in segment.to_vec::<i16>().unwrap() {
            assert!((expected.0..=expected.1).contains(&value), "{value}");
        }
    }
    Ok(())
}

#[test]
fn rows_of_views_are_those_of_their_signal_and_place() {
    let (_folder, path) = two_long_signals();
    let (_other_folder, other) = two_long_signals();
    let bucket = fs::read_dir(path.join("x/views")).unwrap();
    let mut buckets: Vec<u64> = bucket
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .collect();
    buckets.sort_unstable();
    let (first, second) = (buckets[0], buckets[1]);
    let shard = |store: &Path, signal: &str, bucket: u64, array: &str| {
        let folder = store.join(format!("{signal}/views/{bucket}/{array}"));
        folder.join("c/0/0")
    };
    for (from, bucket) in [
        (shard(&path, "y", first, "extrema"), first),
        (shard(&other, "y", first, "extrema"), first),
        (shard(&other, "x", first, "extrema"), first),
        (shard(&path, "x", second, "extrema"), first),
        (shard(&path, "x", first, "moments"), first),
        (shard(&path, "y", second, "extrema"), second),
    ] {
        extremes_of_x(&path, Mode::Read).unwrap();
        let to = shard(&path, "x", bucket, "extrema");
        fs::copy(&from, &to).unwrap();
        let found = findings(&path);
        assert_eq!(
            found,
            [("stale_views", path.join("x/views"))],
            "{}",
            from.display()
        );
        for mode in [Mode::Read, Mode::ReadWrite] {
            if let Err(code) = extremes_of_x(&path, mode) {
                assert_eq!(code, "wrong_shard", "{}", from.display());
            }
        }
        let (_, after) = isochrony_store::repair(&path, &VerifyOptions::default()).unwrap();
        assert_eq!(after.findings, [], "{}", from.display());
    }
    extremes_of_x(&path, Mode::Read).unwrap();
}

#[test]
fn rows_of_earlier_versions_which_say_nothing_are_read_and_continued() {
    let (_folder, path) = two_long_signals();
    let mut changed = 0;
    for bucket in fs::read_dir(path.join("x/views")).unwrap() {
        for array in ["extrema", "moments"] {
            let shard = bucket.as_ref().unwrap().path().join(array).join("c/0/0");
            let Ok(mut bytes) = fs::read(&shard) else {
                continue;
            };
            let header = bytes[..65_536].windows(8).position(|at| at == b"ISOSHARD");
            let header = header.unwrap();
            bytes[header..header + 64].fill(0);
            fs::write(&shard, bytes).unwrap();
            changed += 1;
        }
    }
    assert!(changed >= 4, "{changed}");
    assert_eq!(findings(&path), []);
    extremes_of_x(&path, Mode::Read).unwrap();
    let store = Store::open(&path, Mode::ReadWrite).unwrap();
    store
        .writer("x")
        .unwrap()
        .append(&samples(1, 100_000))
        .unwrap();
    store.commit(true).unwrap();
    store.close().unwrap();
    assert_eq!(findings(&path), []);
    extremes_of_x(&path, Mode::Read).unwrap();
}

#[test]
fn levels_of_too_few_rows_which_earlier_versions_stored_are_removed() {
    let (_folder, store) = on_disk();
    let writer = store.create("x", &options(1)).unwrap();
    writer.append(&samples(1, 6_000_000)).unwrap();
    store.commit(true).unwrap();
    store.close().unwrap();
    let path = store.path().to_path_buf();
    let record = path.join("x/views/zarr.json");
    let text = fs::read_to_string(&record).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["attributes"]["isochrony"]["version"], 2);
    json["attributes"]["isochrony"]["version"] = 1.into();
    fs::write(&record, json.to_string()).unwrap();
    let level = path.join("x/views/32768");
    assert!(!level.exists());
    for array in ["extrema", "moments"] {
        let shards = level.join(array).join("c/0");
        fs::create_dir_all(&shards).unwrap();
        fs::write(shards.join("0"), [7; 100]).unwrap();
    }
    extremes_of_x(&path, Mode::Read).unwrap();
    append_to_x(&path);
    assert!(!level.exists());
    let text = fs::read_to_string(&record).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["attributes"]["isochrony"]["version"], 2);
    assert_eq!(findings(&path), []);
    extremes_of_x(&path, Mode::Read).unwrap();
}

/// Changes every view shard of `x` that `is_torn` accepts.
fn change_heads(path: &Path, is_torn: impl Fn(&Path) -> bool, change: impl Fn(&mut [u8], usize)) {
    let mut changed = 0;
    for bucket in fs::read_dir(path.join("x/views")).unwrap() {
        for array in ["extrema", "moments"] {
            let shards = bucket.as_ref().unwrap().path().join(array).join("c");
            for shard in fs::read_dir(shards).into_iter().flatten() {
                let shard = shard.unwrap().path().join("0");
                if !is_torn(&shard) {
                    continue;
                }
                let mut head = vec![0; 65_536];
                let file = fs::File::options()
                    .read(true)
                    .write(true)
                    .open(&shard)
                    .unwrap();
                file.read_exact_at(&mut head, 0).unwrap();
                let header = head.windows(8).position(|at| at == b"ISOSHARD");
                change(&mut head, header.unwrap());
                file.write_all_at(&head, 0).unwrap();
                changed += 1;
            }
        }
    }
    assert!(changed >= 2, "{changed}");
}

/// Pretends that another boot wrote the rows.
fn forget_unsynced(path: &Path, synced: i64) {
    let record = path.join("x/views/zarr.json");
    let text = fs::read_to_string(&record).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let own = &mut json["attributes"]["isochrony"];
    for name in ["built", "synced"] {
        own[name] = synced.into();
    }
    own["boot"] = "another".into();
    fs::write(&record, json.to_string()).unwrap();
}

/// A power cut may lose any page of a head.
const TORN: [fn(&mut [u8], usize); 3] = [
    |head, header| head[header + 32..header + 64].fill(0),
    |head, _| head.fill(0),
    |head, _| head[..4096].fill(0),
];

fn append_to_x(path: &Path) {
    let store = Store::open(path, Mode::ReadWrite).unwrap();
    let writer = store.writer("x").unwrap();
    writer.append(&samples(1, 100_000)).unwrap();
    store.commit(true).unwrap();
    store.checkpoint().unwrap();
    store.close().unwrap();
}

#[test]
fn torn_heads_of_rows_that_were_never_synced_are_written_anew() {
    for torn in TORN {
        let (_folder, path) = two_long_signals();
        let shard = path.join("x/views/512/extrema/c/0/0");
        let before = fs::read(&shard).unwrap();
        forget_unsynced(&path, 0);
        change_heads(&path, |_| true, torn);
        append_to_x(&path);
        // Index and header, which earlier verifications did not check.
        assert_eq!(fs::read(&shard).unwrap()[..65_536], before[..65_536]);
        assert_eq!(findings(&path), []);
        extremes_of_x(&path, Mode::Read).unwrap();
    }
}

#[test]
fn torn_heads_of_rows_behind_a_long_gap_are_written_anew() {
    // Rows of a shard of the finest level begin at multiples of this sample.
    const SHARD: i64 = 524_288 * 512;
    for synced in [0, SHARD / 2, SHARD + SHARD / 4] {
        for torn in TORN {
            let (folder, store) = on_disk();
            let writer = store.create("x", &options(1)).unwrap();
            writer.append(&samples(1, 200_000)).unwrap();
            writer.append_gap(SHARD + SHARD / 2).unwrap();
            writer.append(&samples(1, 200_000)).unwrap();
            store.commit(true).unwrap();
            store.close().unwrap();
            let path = store.path().to_path_buf();
            // Rows after the gap, and their file, are later than the last sync.
            forget_unsynced(&path, synced);
            change_heads(&path, |shard| shard.ends_with("c/1/0"), torn);
            append_to_x(&path);
            assert_eq!(findings(&path), [], "{synced}");
            drop(folder);
        }
    }
}

#[test]
fn a_damaged_index_of_synced_rows_is_found_and_written_anew() {
    let (_folder, path) = two_long_signals();
    change_heads(&path, |_| true, |head, _| head[..4096].fill(0));
    assert_eq!(findings(&path), [("stale_views", path.join("x/views"))]);
    let (_, after) = isochrony_store::repair(&path, &VerifyOptions::default()).unwrap();
    assert_eq!(after.findings, []);
    assert_eq!(findings(&path), []);
    extremes_of_x(&path, Mode::Read).unwrap();
}

#[test]
fn a_pending_gap_removes_no_durable_rows() {
    let (_folder, path) = two_long_signals();
    let record = path.join("x/views/zarr.json");
    let text = fs::read_to_string(&record).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["attributes"]["isochrony"]["boot"] = "another".into();
    fs::write(&record, json.to_string()).unwrap();
    let killed = path.with_extension("killed");
    {
        let store = Store::open(&path, Mode::ReadWrite).unwrap();
        let writer = store.writer("x").unwrap();
        writer.mark_invalid(0..3_000_000).unwrap();
        writer.append(&samples(1, 100_000)).unwrap();
        // As after a kill before the commit.
        copy_folder(&path, &killed);
    }
    extremes_of_x(&killed, Mode::Read).unwrap();
    extremes_of_x(&killed, Mode::ReadWrite).unwrap();
    assert_eq!(findings(&killed), []);
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}
