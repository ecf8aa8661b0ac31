//! Power cuts: the medium loses, tears and reorders what was not synced. No committed sample is lost, and a commit that
//! was not acknowledged is there as a whole or not at all. And every sync is needed: without any single one of them,
//! the same cases find loss.

mod crash;

use std::path::Path;

use crash::{Model, Work, check_crcs, difference, open, read_back, read_by_reader};
use isochrony_store::engine::{Engine, Reader};
use isochrony_store::media::Site;
use isochrony_store::media::sim::{Dice, Faults, SimMedia};

const CASES: u64 = 1000;
const ROOT: &str = "/disk/store.iso";

/// Opens the store, through as many power cuts as there may be while it recovers.
fn open_through_cuts(
    media: &mut SimMedia,
    dice: &mut Dice,
    ignore: Option<Site>,
    cuts: u64,
) -> Result<Engine, String> {
    for left in (0..=cuts).rev() {
        let cut_at = (left > 0).then(|| media.changes() + dice.below(60));
        media.set_faults(Faults {
            cut_at,
            ignore,
            ..Faults::default()
        });
        match open(Path::new(ROOT), media.media()) {
            Ok(engine) => return Ok(engine),
            Err(_) if !media.is_running() => *media = media.restart(),
            Err(error) => return Err(format!("opening: {error}")),
        }
    }
    Err("unreachable: the last attempt has no cut".into())
}

/// Which of the models the store holds.
fn settle(engine: &Engine, work: &mut Work) -> Result<(), String> {
    let have = read_back(engine).map_err(|error| format!("{error}\nafter {:?}", work.steps))?;
    let Some(against) = difference(&have, &work.acknowledged) else {
        work.model.clone_from(&work.acknowledged);
        work.in_doubt = false;
        return check_crcs(engine, &have);
    };
    if !work.in_doubt {
        return Err(format!("against what was acknowledged: {against}"));
    }
    if let Some(pending) = difference(&have, &work.model) {
        return Err(format!(
            "against what was acknowledged: {against}; against the commit in doubt: {pending}"
        ));
    }
    work.acknowledged.clone_from(&work.model);
    work.in_doubt = false;
    check_crcs(engine, &have)
}

/// One seeded life of a store with several power cuts and kills.
fn live(seed: u64, ignore: Option<Site>) -> Result<(), String> {
    let mut dice = Dice(seed ^ 0x5eed);
    let mut media = SimMedia::new(seed);
    let disk = media.media();
    disk.make_folder(Path::new("/disk"))
        .map_err(|e| e.to_string())?;
    disk.sync_folder(Path::new("/"), Site::StoreFolder)
        .map_err(|e| e.to_string())?;
    let tell = std::env::var_os("ISOCHRONY_CRASH_SEED").is_some();
    let mut work = Work::new(seed);
    for _life in 0..4 {
        let cuts = dice.below(3);
        let engine = open_through_cuts(&mut media, &mut dice, ignore, cuts)?;
        if tell {
            media.trace().iter().for_each(|line| println!("{line}"));
            println!(
                "opened; steps before: {:?}",
                std::mem::take(&mut work.steps)
            );
            crash::files_below(&media.media(), Path::new(ROOT))
                .iter()
                .for_each(|path| println!("{}", path.display()));
        }
        settle(&engine, &mut work)?;
        // Short lives often, long ones sometimes.
        let span = [20, 100, 400][dice.below(3) as usize];
        let cut_at = Some(media.changes() + dice.below(span));
        media.set_faults(Faults {
            cut_at,
            ignore,
            ..Faults::default()
        });
        let steps = 5 + dice.below(60);
        for _ in 0..steps {
            match work.step(&engine) {
                Ok(()) => {}
                Err(_) if !media.is_running() => break,
                Err(error) => return Err(format!("working: {error}")),
            }
        }
        if !media.is_running() {
            media = media.restart();
        } else if dice.chance(30) {
            // Between a kill and a power cut somebody may recover from the page cache.
            media = media.kill();
            drop(engine);
            let engine = open_through_cuts(&mut media, &mut dice, ignore, 1)?;
            settle(&engine, &mut work)?;
            drop(engine);
            media = media.restart();
        } else if dice.chance(50) {
            // A clean close, and then the power goes.
            let closed = engine.close();
            if closed.is_err() && media.is_running() {
                return Err(format!("closing: {closed:?}"));
            }
            // Nothing was acknowledged that was not before, and pending changes are forgotten.
            work.model.clone_from(&work.acknowledged);
            media = media.restart();
        } else {
            media = media.restart();
        }
        if dice.chance(20) {
            // A reader is the first to come: it recovers the store, since it may.
            media.set_faults(Faults {
                ignore,
                ..Faults::default()
            });
            if let Ok(reader) = Reader::open_on(Path::new(ROOT), media.media()) {
                let have = read_by_reader(&reader)?;
                let known = difference(&have, &work.acknowledged).is_none();
                let whole = work.in_doubt && difference(&have, &work.model).is_none();
                if !known && !whole {
                    return Err("the first reader sees something else".into());
                }
            }
        }
    }
    let engine = open_through_cuts(&mut media, &mut dice, ignore, 0)?;
    settle(&engine, &mut work)?;
    engine
        .close()
        .map_err(|error| format!("closing: {error}"))?;
    drop(engine);
    // What a reader sees of the closed store is the same.
    let reader = Reader::open_on(Path::new(ROOT), media.media()).map_err(|e| e.to_string())?;
    let have: Model = read_by_reader(&reader)?;
    match difference(&have, &work.acknowledged) {
        Some(different) => Err(format!("by a reader: {different}")),
        None => Ok(()),
    }
}

#[test]
fn no_power_cut_loses_a_committed_sample_or_splits_a_commit() {
    // `ISOCHRONY_CRASH_SEED=7` runs one case, and says what the medium saw.
    let only: Option<u64> = std::env::var("ISOCHRONY_CRASH_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    for seed in only.map_or(0..CASES, |seed| seed..seed + 1) {
        if let Err(loss) = live(seed, None) {
            panic!("seed {seed}: {loss}");
        }
    }
}

#[test]
fn without_any_single_sync_the_same_cases_find_loss() {
    let needless: Vec<Site> = Site::ALL
        .into_iter()
        .filter(|site| (0..8 * CASES).all(|seed| live(seed, Some(*site)).is_ok()))
        .collect();
    assert!(
        needless.is_empty(),
        "no case needs the syncs of {needless:?}"
    );
}
