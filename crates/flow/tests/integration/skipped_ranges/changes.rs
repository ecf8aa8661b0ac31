use std::cell::Cell;

use isochrony_expr::Expr;
use isochrony_flow::{Plan, StoredRecording};
use isochrony_segment::DType;
use isochrony_store::{Codec, Mode, Store};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::quiet::{self, QuietRecording};
use super::{one_loud, run, skipped};

#[derive(Debug, Clone, Copy, PartialEq)]
enum StoreChange {
    Write(f64),
    Quieten(f64),
    MarkInvalid(f64),
    Fill,
    Append,
    BeginRun,
    Commit,
    Seal,
    Unseal,
}

fn change() -> impl Strategy<Value = StoreChange> {
    use StoreChange::{Append, BeginRun, Commit, Fill, MarkInvalid, Quieten, Seal, Unseal, Write};
    let at = || 0.0f64..1.0;
    prop_oneof![
        2 => at().prop_map(Write),
        1 => at().prop_map(Quieten),
        1 => at().prop_map(MarkInvalid),
        3 => Just(Commit),
        5 => prop::sample::select(vec![Fill, Append, BeginRun, Seal, Unseal]),
    ]
}

/// Some changes are refused, such as filling without a gap.
fn apply(made: &QuietRecording, change: StoreChange) -> bool {
    let (writer, store, end) = (&made.writer, &made.store, made.signal().end_index());
    let at = |share: f64| (share * (end - 6000) as f64) as i64;
    let value = quiet::LIMIT as i16;
    match change {
        StoreChange::Write(share) => writer.write(at(share), &[-value, value, -value]).is_ok(),
        StoreChange::Quieten(share) => writer.write(at(share), &[3i16; 6000]).is_ok(),
        StoreChange::MarkInvalid(share) => writer.mark_invalid(at(share)..at(share) + 5000).is_ok(),
        StoreChange::Fill => {
            let gap = made.signal().gaps().iter().last().map(|gap| gap.range());
            gap.is_some_and(|gap| {
                let samples = vec![value; (gap.end - gap.start).min(9000) as usize];
                writer.fill(gap.start, &samples).is_ok()
            })
        }
        StoreChange::Append => writer.append(&[value; 700]).is_ok(),
        StoreChange::BeginRun => writer.begin_run().is_ok(),
        StoreChange::Commit => store.commit(true).is_ok(),
        StoreChange::Seal => store
            .seal("stn/p", "zstd".parse::<Codec>().unwrap())
            .is_ok(),
        StoreChange::Unseal => store.unseal("stn/p").is_ok(),
    }
}

/// Compares with reading everything after each change. Returns the changes, and the executions that skipped anything.
fn compare(
    changes: &[StoreChange],
    window: u64,
    least: bool,
) -> Result<(Vec<StoreChange>, u32), TestCaseError> {
    let made = one_loud(DType::I16);
    let old = made.stored();
    let reader = Store::open(made.store.path(), Mode::Read).unwrap();
    let s = Expr::input();
    let passes = match least {
        true => s.min().le(-quiet::LIMIT),
        false => s.max().ge(quiet::LIMIT),
    };
    let (mut done, mut left) = (Vec::new(), 0);
    for &change in changes {
        if apply(&made, change) {
            done.push(change);
        }
        reader.refresh().unwrap();
        let read = StoredRecording::new(reader.path(), reader.signal("stn/p").unwrap());
        for stored in [old.clone(), made.stored(), read] {
            let windows = Plan::scan(stored).rewindow(window).unwrap();
            let plan = windows.filter(&passes).unwrap();
            let (expected, _) = run(&plan, 1, 500_000, false);
            for workers in [1, 2] {
                let (got, report) = run(&plan, workers, 500_000, true);
                prop_assert_eq!(&got, &expected, "behind {:?}, {} workers", change, workers);
                left += u32::from(skipped(&report) > 0);
            }
        }
    }
    Ok((done, left))
}

#[test]
fn each_change_is_made_and_seen() {
    use StoreChange::{Append, BeginRun, Commit, Fill, MarkInvalid, Quieten, Seal, Unseal, Write};
    let changes = [
        Write(0.2),
        MarkInvalid(0.7),
        Fill,
        Commit,
        Quieten(0.2),
        Append,
        BeginRun,
        Append,
        Commit,
        Seal,
        Unseal,
    ];
    let (done, left) = compare(&changes, 1000, false).unwrap();
    assert_eq!(done, changes);
    // Of three recordings, each on one and on two workers.
    assert!(left > 40, "{left} executions skipped anything");
}

#[test]
fn changed_samples_are_seen() {
    let given = (
        prop::collection::vec(change(), 1..10),
        200u64..9000,
        any::<bool>(),
    );
    let (tried, done, left) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(35));
    let ran = runner.run(&given, |(changes, window, least)| {
        let (made, skipped) = compare(&changes, window, least)?;
        tried.set(tried.get() + changes.len());
        done.set(done.get() + made.len());
        left.set(left.get() + skipped);
        Ok(())
    });
    ran.unwrap_or_else(|error| panic!("{error}"));
    let (tried, done, left) = (tried.get(), done.get(), left.get());
    assert!(done > tried / 2, "{done} of {tried} changes were made");
    assert!(left > 200, "{left} executions skipped anything");
}
