//! Bounds of the lists, on a signal of which much can be skipped.

use isochrony_store::{CreateOptions, Mode, Store};
use isochrony_time::Rate;

use super::*;

const TOTAL: i64 = 3 << 20;
/// Between loud samples.
const APART: i64 = 100_000;

fn is_loud(index: i64) -> bool {
    index % APART == APART / 2
}

fn passes(start: i64) -> bool {
    (start..start + 100).any(is_loud)
}

fn checked(most: usize) -> (IndexRanges, Result<Arc<SkipMap>, String>) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    let writer = store.create("stn", &options).unwrap();
    let samples = (0..TOTAL).map(|at| if is_loud(at) { 1000 } else { 5i16 });
    writer.append(&samples.collect::<Vec<_>>()).unwrap();
    store.commit(true).unwrap();
    let signal = writer.signal().unwrap();
    let parts = signal.select(0..TOTAL).unwrap().parts().to_vec();
    let read = ContiguousRanges::new(signal.clone(), parts);
    let predicate = Expr::input().max().gt(500);
    let calibration = Calibration::default();
    let filter = WindowFilter::new((100, 100, false), &predicate, DType::I16, &calibration);
    let filter = filter.unwrap();
    let ranges: Vec<ContiguousRange> = read.at_least(1).collect();
    let excluded = filter.excluded(&signal, &ranges, most).unwrap();
    (excluded, SkipMap::with_most(&filter, &read, most))
}

#[test]
fn no_list_is_longer_than_its_bound_and_the_rest_is_read() {
    let (all, map) = checked(MAX_RANGES);
    let skipped = map.unwrap().skipped.concat();
    // 64 KiB of the 200 kB or less around each loud sample are read.
    assert_eq!(skipped.len() as i64, (TOTAL - APART / 2) / APART + 2);
    for most in [1, 4, 16, 32, 40, 64] {
        let (excluded, map) = checked(most);
        for range in &excluded {
            let around = all
                .iter()
                .any(|one| one.start <= range.start && range.end <= one.end);
            assert!(around, "{range:?}");
        }
        let Ok(map) = map else {
            assert!(most < 40);
            continue;
        };
        let skipped = &map.skipped[0];
        assert!(skipped.len() <= most, "{} of {most}", skipped.len());
        for range in skipped {
            let starts = (range.start - 99).max(0)..range.end;
            let starts = starts.filter(|start| start % 100 == 0);
            assert!(!{ starts }.any(passes), "{range:?}");
        }
    }
    // Look-ups end at this number.
    let length = |ranges: &[Range<i64>]| ranges.iter().map(|one| one.end - one.start).sum::<i64>();
    for most in [1, 4, 16, 32, 40] {
        assert!(length(&checked(most).0) < length(&all), "{most}");
    }
}
