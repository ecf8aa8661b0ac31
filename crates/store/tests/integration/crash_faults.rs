//! Temporarily full disks leave the last commit and pending changes, and the writer continues with space. A failed sync
//! stops the writer until it is reopened; then everything acknowledged is there, even after a power cut.

use std::path::Path;

use crate::crash::{Model, Work, check_crcs, difference, open, read_back};
use isochrony_store::engine::Engine;
use isochrony_store::media::sim::{Dice, Faults, SimMedia};

const CASES: u64 = 300;
const ROOT: &str = "/store.iso";

/// Checksums are of committed samples.
fn check(engine: &Engine, models: &[&Model], seed: u64, steps: &[String]) -> Model {
    let have = read_back(engine).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let different: Vec<String> = models
        .iter()
        .filter_map(|model| difference(&have, model))
        .collect();
    assert!(
        different.len() < models.len(),
        "seed {seed}: {different:?} after {steps:?}"
    );
    if !engine.has_pending() {
        check_crcs(engine, &have).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    have
}

#[test]
fn a_full_disk_changes_nothing_and_passes() {
    let mut refused = 0;
    for seed in 0..CASES {
        let mut dice = Dice(seed ^ 0xf011);
        let mut media = SimMedia::new(seed);
        let mut work = Work::new(seed);
        let engine = open(Path::new(ROOT), media.media()).unwrap();
        for _ in 0..4 {
            let from = media.changes() + dice.below(60);
            let full = Some((from, 1 + dice.below(30)));
            media.set_faults(Faults {
                full,
                ..Faults::default()
            });
            for _ in 0..15 {
                match work.step(&engine) {
                    Ok(()) => {}
                    Err(error) => {
                        refused += 1;
                        let full = error.code() == "disk_full"
                            || error.to_string().contains("no storage space");
                        assert!(full, "seed {seed}: {error}");
                    }
                }
                check(&engine, &[&work.model], seed, &work.steps);
            }
            media.set_faults(Faults::default());
            work.commit(&engine)
                .unwrap_or_else(|error| panic!("seed {seed}: with space again: {error}"));
        }
        drop(engine);
        media = media.restart();
        let engine = open(Path::new(ROOT), media.media()).unwrap();
        check(&engine, &[&work.acknowledged], seed, &work.steps);
    }
    assert!(refused > CASES, "the disk was hardly ever full: {refused}");
}

#[test]
fn a_failed_sync_stops_the_writer_until_it_is_opened_again() {
    let mut stopped = 0;
    for seed in 0..2 * CASES {
        let mut dice = Dice(seed ^ 0xe10);
        let mut media = SimMedia::new(seed);
        let mut work = Work::new(seed);
        for _ in 0..4 {
            let engine =
                open(Path::new(ROOT), media.media()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            let mut models = vec![work.acknowledged.clone()];
            models.extend(work.in_doubt.then(|| work.model.clone()));
            let models: Vec<&Model> = models.iter().collect();
            let have = check(&engine, &models, seed, &work.steps);
            work.steps.push("opened".into());
            work.model.clone_from(&have);
            work.acknowledged = have;
            work.in_doubt = false;
            let fail_sync = Some(dice.below(40));
            media.set_faults(Faults {
                fail_sync,
                ..Faults::default()
            });
            for _ in 0..40 {
                let Err(error) = work.step(&engine) else {
                    continue;
                };
                assert_eq!(error.code(), "io", "seed {seed}: {error}");
                stopped += 1;
                let refused = engine.commit(true).unwrap_err();
                assert_eq!(refused.code(), "poisoned", "seed {seed}: {refused}");
                assert!(refused.to_string().contains("simulated"), "{refused}");
                break;
            }
            media.set_faults(Faults::default());
            if work.in_doubt {
                drop(engine);
            } else {
                // Closing may itself hit the failing sync.
                let _ = engine.close();
                drop(engine);
                work.model.clone_from(&work.acknowledged);
            }
            media = if dice.chance(50) {
                media.kill()
            } else {
                media.restart()
            };
        }
    }
    assert!(stopped > CASES, "syncs hardly ever failed: {stopped}");
}
