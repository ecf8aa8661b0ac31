//! Files longer than one piece.

use std::path::Path;

use crate::common::write;
use isochrony_ingest::{RawOptions, Summary, import_raw};
use isochrony_segment::{ByteOrder, DType};
use isochrony_store::{Mode, RunReason, Signal, Store};
use isochrony_time::Rate;

const LONG: usize = 18_000_000;
const START_US: usize = 1_267_401_600_000_000;

fn import(store: &Store, source: &Path) -> Summary {
    let layout = "{s}/*{epoch:16}.raw".parse().unwrap();
    let rate = Rate::from_hz(500_000).unwrap();
    let mut options = RawOptions::new(layout, DType::I16, ByteOrder::Little, rate);
    options.session.commit_bytes = 8 << 20;
    import_raw(store, source, &options, None).unwrap()
}

/// 2 us each.
fn ramp(from: usize, count: usize) -> Vec<u8> {
    (from..from + count)
        .flat_map(|number| ((number * 7919 / 64) as i16).to_le_bytes())
        .collect()
}

fn assert_ramp(signal: &Signal, index: i64, from: usize, count: usize) {
    let expected = ramp(from, count);
    let mut at = 0;
    for segment in signal
        .select(index..index + count as i64)
        .unwrap()
        .segments()
    {
        for buffer in segment.unwrap().buffers() {
            assert!(expected[at..].starts_with(buffer.bytes()), "at byte {at}");
            at += buffer.len();
        }
    }
    assert_eq!(at, expected.len());
}

#[test]
fn long_files_are_streamed_copied_filled_in_and_kept_where_they_overlap() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let name = |part: usize| format!("a/{}.raw", START_US + 2 * part * LONG);
    write(&first, &name(0), &ramp(0, LONG));
    write(&first, &name(2), &ramp(2 * LONG, LONG));
    write(
        &first,
        &name(2).replace("a/", "a/copy"),
        &ramp(2 * LONG, LONG),
    );
    let mut differs = ramp(2 * LONG, LONG);
    *differs.last_mut().unwrap() ^= 1;
    write(&first, &name(2).replace("a/", "a/differs"), &differs);
    write(&second, &name(1), &ramp(LONG, LONG));

    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    let summary = import(&store, &first);
    assert_eq!(
        (summary.files, summary.duplicates),
        (3, 1),
        "{:?}",
        summary.problems
    );
    let codes: Vec<_> = summary
        .problems
        .list
        .iter()
        .map(|problem| problem.code)
        .collect();
    assert_eq!(codes, ["duplicate", "overlap"]);
    let signal = store.signal("a").unwrap();
    let long = LONG as i64;
    let runs = |signal: &Signal| {
        signal
            .runs()
            .unwrap()
            .iter()
            .map(|run| (run.start, run.end, run.reason))
            .collect::<Vec<_>>()
    };
    let expected = [
        (0, 3 * long, RunReason::First),
        (3 * long, 4 * long, RunReason::Overlap),
    ];
    assert_eq!(runs(&signal), expected);
    let gaps = |signal: &Signal| {
        signal
            .gaps()
            .iter()
            .map(|gap| (gap.start, gap.length))
            .collect::<Vec<_>>()
    };
    assert_eq!(gaps(&signal), [(long, long)]);

    let summary = import(&store, &second);
    assert!(summary.is_clean(), "{:?}", summary.problems);
    let signal = store.signal("a").unwrap();
    assert_eq!(runs(&signal), expected);
    assert_eq!(gaps(&signal), []);
    assert_ramp(&signal, 0, 0, 3 * LONG);
    assert_ramp(&signal, 3 * long, 2 * LONG, LONG - 1);
    assert_eq!(
        (
            import(&store, &first).skipped,
            import(&store, &second).skipped
        ),
        (4, 1)
    );
}

#[test]
fn one_wrong_stamp_of_a_long_file_is_an_outlier() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("src");
    for part in 0..4 {
        // Its name is five seconds late.
        let late = if part == 2 { 5_000_000 } else { 0 };
        let name = format!("a/{}.raw", START_US + 2 * part * LONG + late);
        write(&source, &name, &ramp(part * LONG, LONG));
    }
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    let summary = import(&store, &source);
    assert!(summary.is_clean(), "{:?}", summary.problems);
    let signal = store.signal("a").unwrap();
    let kinds: Vec<_> = signal
        .events()
        .filter(|event| event.kind != "import")
        .map(|event| (event.kind.to_string(), event.start))
        .collect();
    assert_eq!(kinds, [("stamp_outlier".to_owned(), 2 * LONG as i64)]);
    assert_eq!((signal.gaps().len(), signal.runs().unwrap().len()), (0, 1));
    assert_ramp(&signal, 0, 0, 4 * LONG);
    let last = signal.time_of(4 * LONG as i64 - 1).unwrap().value;
    let expected = (START_US + 2 * (4 * LONG - 1)) as f64 * 1000.0;
    assert!((last.to_f64() - expected).abs() < 1e5);
}
