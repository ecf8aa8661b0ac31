//! Attributes of the store, only in its root `zarr.json`, are never lost without a report.

use isochrony_store::repair;
use serde_json::{Map, Value};

use super::*;

/// The store is closed or left by a killed writer; `text`: its root `zarr.json`.
fn damaged(closed: bool, text: impl Fn(&str) -> String) -> Case {
    let case = case();
    let store = Store::open(&case.path, Mode::ReadWrite).expect("opens");
    let mut attributes = Map::new();
    attributes.insert("operator".into(), "city water works".into());
    store.set_attributes(&attributes).expect("set");
    let writer = store.writer("n/s").expect("the signal");
    writer.append(&[1i16; 10]).expect("appended");
    store.commit(true).expect("committed");
    let path = case.path.with_extension("damaged");
    if closed {
        store.close().expect("closed");
    }
    copy_folder(&case.path, &path);
    let root = path.join("zarr.json");
    let was = fs::read_to_string(&root).expect("read");
    assert!(was.contains("city water works"));
    fs::write(&root, text(&was)).expect("written");
    Case { path, ..case }
}

fn half(text: &str) -> String {
    text[..text.len() / 2].into()
}

#[test]
fn a_root_that_cannot_be_read_is_an_error_and_is_never_written_over() {
    let texts: [fn(&str) -> String; 4] = [
        half,
        |_| String::new(),
        |text| text.replacen(':', ";", 1),
        |text| text.replacen("\"attributes\": {", "\"attributes\": 3, \"other\": {", 1),
    ];
    for closed in [true, false] {
        for text in texts {
            let case = damaged(closed, text);
            let root = case.path.join("zarr.json");
            let before = fs::read(&root).expect("read");
            for mode in [Mode::Read, Mode::ReadWrite] {
                let store = Store::open(&case.path, mode).expect("opens");
                let refused = store.attributes().expect_err("no attributes");
                assert_eq!(refused.code(), "damaged_file", "{mode:?}");
                if mode == Mode::ReadWrite {
                    let refused = store.set_attributes(&Map::new()).expect_err("not set");
                    assert_eq!(refused.code(), "damaged_file");
                }
                store.close().expect("closed");
                assert_eq!(fs::read(&root).expect("read"), before, "{mode:?}");
            }
            assert_eq!(case.only().code, "damaged_metadata");
        }
    }
}

#[test]
fn a_repair_keeps_the_damaged_root_and_says_that_attributes_are_lost() {
    for closed in [true, false] {
        let case = damaged(closed, half);
        for kept in ["zarr.json.damaged", "zarr.json.damaged.1"] {
            let root = case.path.join("zarr.json");
            let before = fs::read(&root).expect("read");
            let (_, after) = repair(&case.path, &DEEP).expect("repaired");
            assert_eq!(after.findings, []);
            let lost: Vec<(&str, i64)> = after
                .lost
                .iter()
                .map(|loss| (&*loss.reason, loss.samples))
                .collect();
            assert_eq!(lost, [("damaged_metadata", 0)]);
            let kept = case.path.join(".isochrony").join(kept);
            assert_eq!(fs::read(kept).expect("read"), before);
            assert_eq!(case.verify().findings, []);
            let store = Store::open(&case.path, Mode::ReadWrite).expect("opens");
            assert_eq!(store.attributes().expect("attributes"), Map::new());
            store.close().expect("closed");
            let (before, after) = repair(&case.path, &DEEP).expect("repaired");
            assert_eq!((before.findings, after.lost), (vec![], vec![]));
            fs::write(&root, "{").expect("written");
        }
    }
}

#[test]
fn a_repair_that_was_interrupted_leaves_the_loss_to_the_next() {
    let case = damaged(true, half);
    let root = case.path.join("zarr.json");
    let engine = case.path.join(".isochrony");
    // Killed after the first change: a note without losses, and the kept file.
    let note = "{\"events\":[],\"lacks_commit\":false}";
    let sum = crc32c::crc32c(note.as_bytes());
    fs::write(engine.join("REPAIR"), format!("{note}\n{sum:08x}\n")).expect("written");
    fs::rename(&root, engine.join("zarr.json.damaged")).expect("moved");
    let (_, after) = repair(&case.path, &DEEP).expect("repaired");
    let lost: Vec<&str> = after.lost.iter().map(|loss| &*loss.reason).collect();
    assert_eq!(lost, ["damaged_metadata"]);
    let json: Value = serde_json::from_slice(&fs::read(&root).expect("read")).expect("JSON");
    assert_eq!(json["attributes"]["isochrony"]["kind"], "store");
}
