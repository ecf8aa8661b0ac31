//! A repair with a full disk, a failing call, a kill or a power cut at each change. Every loss appears in exactly one
//! report, of this repair or the next; nothing else is lost.

mod damaged;

use damaged::{DamagedStore, ROOT, StoreContents, damaged, store_contents};
use std::path::Path;

use isochrony_store::media::sim::{Faults, SimMedia};
use isochrony_store::{Loss, StoreError, VerifyOptions, repair_on};

const DEEP: VerifyOptions = VerifyOptions {
    signals: None,
    deep: true,
};

#[derive(Debug, Clone, Copy, PartialEq)]
enum RepairFault {
    /// No space from this change on.
    Full,
    /// This change fails.
    WriteError,
    Kill,
    PowerCut,
}

/// Those of an ended process are unknown.
fn repair(media: &SimMedia) -> Result<Vec<Loss>, StoreError> {
    let (_, after) = repair_on(Path::new(ROOT), &DEEP, media.media())?;
    Ok(after.lost)
}

/// The medium after a faulty repair, and what that reported.
fn faulty(case: &SimMedia, fault: RepairFault, at: u64) -> (SimMedia, Vec<Loss>) {
    let media = case.fork();
    let faults = match fault {
        RepairFault::Kill => {
            let _ = repair(&media.process(Some(at)));
            return (media.kill(), Vec::new());
        }
        RepairFault::Full => Faults {
            full: Some((at, u64::MAX - at)),
            ..Faults::default()
        },
        RepairFault::WriteError => Faults {
            fail_at: Some(at),
            ..Faults::default()
        },
        RepairFault::PowerCut => Faults {
            cut_at: Some(at),
            ..Faults::default()
        },
    };
    media.set_faults(faults);
    let reported = repair(&media);
    if fault == RepairFault::PowerCut {
        let media = media.restart();
        media.set_faults(Faults::default());
        return (media, Vec::new());
    }
    media.set_faults(Faults::default());
    (media, reported.unwrap_or_default())
}

fn sorted(mut losses: Vec<Loss>) -> Vec<Loss> {
    losses.sort_by_key(|loss| (loss.signal.clone(), loss.range.start, loss.reason.clone()));
    losses
}

/// Changes at which a fault is injected; overridden by `ISOCHRONY_CRASH_LIVES`.
const POINTS: u64 = 20;

fn check(damage: DamagedStore, fault: RepairFault) {
    let most = std::env::var("ISOCHRONY_CRASH_LIVES").ok();
    let most = most.map_or(POINTS, |most| most.parse().unwrap());
    let case = damaged(damage);
    let first = case.changes();
    let whole = case.fork();
    let expected = sorted(repair(&whole).unwrap());
    let last = whole.changes();
    let sound: StoreContents = store_contents(&whole);
    assert!(expected.len() >= 2, "{expected:#?}");
    let step = ((last - first) / most).max(1);
    let spread = (first..last - 8).step_by(step as usize);
    for at in spread.chain(last - 8..last) {
        let when = format!(
            "{damage:?}, {fault:?} at {} of {}",
            at - first,
            last - first
        );
        let (media, mut reported) = faulty(&case, fault, at);
        let again = repair(&media).unwrap_or_else(|error| panic!("{when}: {error}"));
        // The last two changes remove the note: a process that ends there has no report to give, but events still
        // record the losses.
        let is_reported =
            last - at > 2 || !matches!(fault, RepairFault::Kill | RepairFault::PowerCut);
        reported.extend(again);
        if is_reported || !reported.is_empty() {
            // A note that stays leads to a repeated report rather than none.
            if fault == RepairFault::WriteError && last - at <= 2 {
                let mut once: Vec<Loss> = Vec::new();
                for loss in reported {
                    if !once.contains(&loss) {
                        once.push(loss);
                    }
                }
                reported = once;
            }
            assert_eq!(sorted(reported), expected, "{when}");
        }
        assert_eq!(store_contents(&media), sound, "{when}");
        assert_eq!(repair(&media).unwrap(), [], "{when}: reported twice");
    }
}

#[test]
fn a_disk_that_fills_up_during_a_repair_hides_no_loss() {
    check(DamagedStore::Closed, RepairFault::Full);
    check(DamagedStore::Killed, RepairFault::Full);
    check(DamagedStore::KilledAfterGap, RepairFault::Full);
}

#[test]
fn a_call_that_fails_during_a_repair_hides_no_loss() {
    check(DamagedStore::Closed, RepairFault::WriteError);
    check(DamagedStore::Killed, RepairFault::WriteError);
    check(DamagedStore::KilledAfterGap, RepairFault::WriteError);
}

#[test]
fn a_kill_during_a_repair_hides_no_loss() {
    check(DamagedStore::Closed, RepairFault::Kill);
    check(DamagedStore::Killed, RepairFault::Kill);
    check(DamagedStore::KilledAfterGap, RepairFault::Kill);
}

#[test]
fn a_power_cut_during_a_repair_hides_no_loss() {
    check(DamagedStore::Closed, RepairFault::PowerCut);
    check(DamagedStore::Killed, RepairFault::PowerCut);
    check(DamagedStore::KilledAfterGap, RepairFault::PowerCut);
}
