//! Every metadata file for other Zarr readers is verified and can be rewritten.

use std::collections::BTreeMap;

use isochrony_store::repair;
use serde_json::Value;

use super::*;

fn described(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("listed") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(described(&path));
        } else if path.file_name().is_some_and(|name| name == "zarr.json") {
            found.insert(path.clone(), fs::read_to_string(&path).expect("read"));
        }
    }
    found
}

fn case_with_event() -> Case {
    let case = case();
    let store = Store::open(&case.path, Mode::ReadWrite).expect("opens");
    let writer = store.writer("n/s").expect("the signal");
    writer
        .add_event("note", 5..9, &serde_json::Map::new())
        .expect("noted");
    store.close_committed();
    case
}

#[test]
fn every_file_that_describes_the_store_is_checked_and_written_anew() {
    let case = case_with_event();
    let before = described(&case.path);
    assert!(before.len() > 15, "{before:#?}");
    for (path, text) in &before {
        for damage in ["gone", "cut", "changed"] {
            match damage {
                "gone" => fs::remove_file(path).expect("removed"),
                "cut" => fs::write(path, &text[..text.len() / 2]).expect("written"),
                _ => {
                    let changed = text.replacen("\"zarr_format\": 3", "\"zarr_format\": 2", 1);
                    assert_ne!(changed, *text);
                    fs::write(path, changed).expect("written");
                }
            }
            let found = case.verify().findings;
            assert_eq!(found.len(), 1, "{damage} {}: {found:#?}", path.display());
            assert_ne!(
                found[0].code,
                "missing_table",
                "{damage} {}",
                path.display()
            );
            let (_, after) = repair(&case.path, &DEEP).expect("repaired");
            assert_eq!(after.findings, [], "{damage} {}", path.display());
            // Whether a truncated root had attributes is unknown.
            let lost: Vec<&str> = after.lost.iter().map(|loss| &*loss.reason).collect();
            let is_cut_root = damage == "cut" && *path == case.path.join("zarr.json");
            let expected: &[&str] = if is_cut_root {
                &["damaged_metadata"]
            } else {
                &[]
            };
            assert_eq!(lost, expected, "{damage} {}", path.display());
            assert_eq!(case.verify().findings, []);
            assert_eq!(
                fs::read_to_string(path).expect("read"),
                *text,
                "{damage} {}",
                path.display()
            );
        }
    }
}

#[test]
fn the_stores_own_attributes_outlive_the_repair_of_its_group() {
    let case = case();
    let path = case.path.join("zarr.json");
    let text = fs::read_to_string(&path).expect("read");
    let changed = text
        .replacen("\"attributes\": {", "\"attributes\": { \"mine\": 1,", 1)
        .replacen("\"store\"", "\"other\"", 1);
    fs::write(&path, changed).expect("written");
    assert_eq!(case.only().code, "foreign_metadata");
    repair(&case.path, &DEEP).expect("repaired");
    assert_eq!(case.verify().findings, []);
    let json: Value = serde_json::from_slice(&fs::read(&path).expect("read")).expect("JSON");
    assert_eq!(json["attributes"]["mine"], 1);
}

#[test]
fn the_length_of_an_array_is_that_of_the_last_commit() {
    for sealed in [false, true] {
        let case = case();
        if sealed {
            let store = Store::open(&case.path, Mode::ReadWrite).expect("opens");
            store.seal("n/s", Codec::default()).expect("sealed");
            store.close().expect("closed");
        }
        assert_eq!(case.verify().findings, [], "sealed: {sealed}");
        for array in ["data", "crc"] {
            let path = case.file(array).join("zarr.json");
            let text = fs::read_to_string(&path).expect("read");
            for length in [0, 1, SHARD * 3 / 2 + 1, i64::MAX] {
                let mut json: Value = serde_json::from_str(&text).expect("JSON");
                if json["shape"][0] == length {
                    continue;
                }
                json["shape"][0] = length.into();
                fs::write(&path, json.to_string()).expect("written");
                let finding = case.only();
                assert_eq!(finding.path, path);
                assert!(finding.repairable, "{finding:?}");
                let (_, after) = repair(&case.path, &DEEP).expect("repaired");
                assert_eq!(after.findings, []);
                assert_eq!(after.lost, []);
                assert_eq!(fs::read_to_string(&path).expect("read"), text);
            }
        }
    }
}

#[test]
fn events_as_other_programs_see_them_are_those_that_we_see() {
    let case = case_with_event();
    let path = case.file("events/table/c/0/0");
    let bytes = fs::read(&path).expect("read");
    for damage in ["gone", "flipped"] {
        match damage {
            "gone" => fs::remove_file(&path).expect("removed"),
            _ => flip(&path, bytes.len() as u64 - 40 * 256),
        }
        if fs::read(&path).is_ok_and(|now| now == bytes) {
            continue;
        }
        assert_eq!(case.only().code, "stale_events", "{damage}");
        let (_, after) = repair(&case.path, &DEEP).expect("repaired");
        assert_eq!(after.findings, [], "{damage}");
        assert_eq!(case.verify().findings, [], "{damage}");
    }
}

/// A copy without publication of the last commits.
#[test]
fn unpublished_changes_of_a_killed_writer_are_not_damage() {
    let case = case();
    let store = Store::open(&case.path, Mode::ReadWrite).expect("opens");
    let writer = store.writer("n/s").expect("the signal");
    writer.append(&[7i16; 40_000]).expect("appended");
    writer.append_gap(500).expect("a gap");
    store.commit(false).expect("committed");
    let options = CreateOptions::new(DType::I16, Rate::new(100, 1).expect("a rate"));
    let new = store.create("m/new", &options).expect("created");
    new.append(&[1i16; 100]).expect("appended");
    let mut attributes = serde_json::Map::new();
    attributes.insert("place".into(), "harbour".into());
    new.set_attributes(&attributes).expect("set");
    store.commit(false).expect("committed");
    let path = case.path.with_extension("killed");
    copy_folder(&case.path, &path);
    let killed = Case { path, ..case };
    assert_eq!(killed.verify().findings, []);
    let reopened = Store::open(&killed.path, Mode::ReadWrite).expect("recovers");
    reopened.close().expect("closed");
    assert_eq!(killed.verify().findings, []);
    store.close().expect("closed");
}

#[test]
fn the_group_of_events_is_described_also_once_every_event_was_removed() {
    let case = case_with_event();
    let store = Store::open(&case.path, Mode::ReadWrite).expect("opens");
    let writer = store.writer("n/s").expect("the signal");
    let signal = store.signal("n/s").expect("the signal");
    let events: Vec<u64> = signal.events().map(|event| event.id).collect();
    for event in &events {
        writer.remove_event(*event).expect("removed");
    }
    store.close_committed();
    // Killed between the checkpoint, which writes the table, and the publication.
    let group = case.path.join("n/s/events/zarr.json");
    fs::remove_file(&group).expect("removed");
    let store = Store::open(&case.path, Mode::ReadWrite).expect("opens");
    let writer = store.writer("n/s").expect("the signal");
    writer.append(&[1i16]).expect("appended");
    store.close_committed();
    assert_eq!(case.verify().findings, []);
}

#[test]
fn a_repair_keeps_what_it_replaces_by_metadata() {
    const LIMIT: u64 = 64 << 20;
    let case = case();
    let outside = case.path.with_extension("elsewhere");
    fs::write(&outside, "{}").expect("written");
    let kept = |number: usize| {
        let name = match number {
            0 => "zarr.json.replaced".into(),
            _ => format!("zarr.json.replaced.{number}"),
        };
        case.path.join(".isochrony").join(name)
    };
    let files = [
        "n/zarr.json",
        "n/s/zarr.json",
        "n/s/data/zarr.json",
        "n/s/crc/zarr.json",
    ];
    for (number, file) in files.iter().enumerate() {
        let path = case.path.join(file);
        let text = fs::read_to_string(&path).expect("read");
        for is_link in [true, false] {
            if is_link {
                fs::remove_file(&path).expect("removed");
                std::os::unix::fs::symlink(&outside, &path).expect("linked");
            } else {
                let file = fs::File::options().write(true).open(&path).expect("opens");
                file.set_len(LIMIT + 1).expect("longer");
            }
            let finding = case.only();
            assert_eq!(
                (finding.code, finding.path.as_path(), finding.repairable),
                ("missing_metadata", path.as_path(), true)
            );
            let (_, after) = repair(&case.path, &DEEP).expect("repaired");
            assert_eq!((after.findings, after.lost), (vec![], vec![]), "{file}");
            assert_eq!(fs::read_to_string(&path).expect("read"), text, "{file}");
            let kept = kept(2 * number + usize::from(!is_link));
            let about = fs::symlink_metadata(&kept).expect("kept");
            match is_link {
                true => assert_eq!(fs::read_link(&kept).expect("a link"), outside),
                false => assert_eq!(about.len(), LIMIT + 1),
            }
        }
    }
    assert_eq!(fs::read_to_string(&outside).expect("read"), "{}");
}
