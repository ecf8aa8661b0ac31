//! A kill or power cut at each change of a short life. `verify` accepts the result before and after recovery.

use std::path::Path;

use crate::crash::{Work, difference, open, read_back, use_format};
use isochrony_segment::DType;
use isochrony_store::media::sim::{Dice, Faults, SimMedia};
use isochrony_store::{CreateOptions, Mode, SampleFormat, Store, StoreError, VerifyOptions};
use isochrony_time::Rate;

/// Lives, each ended at each of its changes; overridden by `ISOCHRONY_CRASH_LIVES`.
const LIVES: u64 = 5;
const STEPS: u64 = 25;
const ROOT: &str = "/disk/store.iso";

const DEEP: VerifyOptions = VerifyOptions {
    signals: None,
    deep: true,
};

#[derive(Debug, Clone, Copy, PartialEq)]
enum LifeEnd {
    Kill,
    PowerCut,
}

fn medium(seed: u64) -> SimMedia {
    let media = SimMedia::new(seed);
    media.media().make_folder(Path::new("/disk")).unwrap();
    media.settle();
    media
}

/// Uses several signals, so that every kind of operation applies to one.
fn live(media: &SimMedia, seed: u64) -> Work {
    let mut work = Work::new(seed);
    let Ok(engine) = open(Path::new(ROOT), media.media()) else {
        return work;
    };
    for _ in 0..STEPS {
        if work.step(&engine).is_err() {
            return work;
        }
    }
    work
}

/// A power cut may remove published files that `verify` can restore.
fn assert_sound(media: &SimMedia, end: Option<LifeEnd>, when: &str) {
    let store = match Store::open_on(Path::new(ROOT), Mode::Read, media.media()) {
        Ok(store) => store,
        Err(StoreError::NotAStore { .. }) => return,
        Err(error) => panic!("{when}: {error}"),
    };
    let report = store.verify(&DEEP).unwrap();
    let mut findings = report.findings;
    if end == Some(LifeEnd::PowerCut) {
        findings.retain(|finding| !finding.repairable || finding.range.is_some());
    }
    assert!(findings.is_empty(), "{when}: {findings:#?}");
}

fn ended(media: &SimMedia, end: LifeEnd, at: u64, act: impl FnOnce(&SimMedia)) -> SimMedia {
    match end {
        LifeEnd::Kill => {
            act(&media.process(Some(at)));
            media.kill()
        }
        LifeEnd::PowerCut => {
            media.set_faults(Faults {
                cut_at: Some(at),
                ..Faults::default()
            });
            act(media);
            let next = media.restart();
            next.set_faults(Faults::default());
            next
        }
    }
}

fn assert_complete(media: &SimMedia, work: &Work, when: &str) {
    let engine =
        open(Path::new(ROOT), media.media()).unwrap_or_else(|error| panic!("{when}: {error}"));
    let have = read_back(&engine).unwrap_or_else(|error| panic!("{when}: {error}"));
    if let Some(different) = difference(&have, &work.acknowledged) {
        let also = difference(&have, &work.model);
        let whole = work.in_doubt && also.is_none();
        assert!(whole, "{when}: {different}; {also:?}");
    }
    engine
        .close()
        .unwrap_or_else(|error| panic!("{when}: {error}"));
}

#[test]
fn a_life_that_ends_at_any_change_leaves_a_sound_store() {
    end_lives_everywhere(LIVES);
}

#[test]
fn a_life_with_shards_beside_metadata_leaves_a_sound_store() {
    use_format(SampleFormat::ComplexInt16);
    end_lives_everywhere(2);
}

fn end_lives_everywhere(lives: u64) {
    let number = |name| {
        let text = std::env::var(name).ok();
        text.and_then(|text| text.parse::<u64>().ok())
    };
    let only = number("ISOCHRONY_CRASH_SEED");
    let lives = number("ISOCHRONY_CRASH_LIVES").unwrap_or(lives);
    let mut points = 0;
    for seed in only.map_or(0..lives, |seed| seed..seed + 1) {
        let whole = medium(seed);
        let first = whole.changes();
        live(&whole, seed);
        let last = whole.changes();
        for at in first..last {
            for end in [LifeEnd::Kill, LifeEnd::PowerCut] {
                points += 1;
                let when = format!("seed {seed}, {end:?} at {at}");
                let media = medium(seed);
                let mut work = Work::new(seed);
                let mut media = ended(&media, end, at, |media| work = live(media, seed));
                assert_sound(&media, Some(end), &format!("{when}, as it was left"));
                let mut dice = Dice(seed ^ at);
                if dice.chance(50) {
                    let at = media.changes() + dice.below(60);
                    media = ended(&media, end, at, |media| {
                        let _ = open(Path::new(ROOT), media.media());
                    });
                    assert_sound(
                        &media,
                        Some(end),
                        &format!("{when}, and the recovery at {at}"),
                    );
                }
                assert_complete(&media, &work, &when);
                assert_sound(&media, None, &format!("{when}, recovered and closed"));
            }
        }
    }
    println!("{points} ends");
}

fn medium_with_views() -> SimMedia {
    let media = medium(1);
    let store = Store::open_on(Path::new(ROOT), Mode::Create, media.media()).unwrap();
    let options = CreateOptions::new(DType::I16, Rate::from_hz(2000).unwrap());
    let samples: Vec<i16> = (0..200_000).map(|number| (number % 997) as i16).collect();
    let writer = store.create("s", &options).unwrap();
    writer.append(&samples).unwrap();
    store.commit(true).unwrap();
    store.close().unwrap();
    media
}

/// The record of views names whole shards, with samples after all rows.
#[test]
fn a_record_of_views_stays_valid_whenever_a_life_ends_that_takes_away_samples_behind_all_rows() {
    fn take_away(media: &SimMedia) -> Result<(), StoreError> {
        let store = Store::open_on(Path::new(ROOT), Mode::ReadWrite, media.media())?;
        store.writer("s")?.mark_invalid(199_900..199_950)?;
        store.commit(true).map(drop)
    }
    let whole = medium_with_views();
    let first = whole.changes();
    take_away(&whole).unwrap();
    let last = whole.changes();
    for at in first..=last {
        for end in [LifeEnd::Kill, LifeEnd::PowerCut] {
            let media = ended(&medium_with_views(), end, at, |media| {
                let _ = take_away(media);
            });
            let store = Store::open_on(Path::new(ROOT), Mode::ReadWrite, media.media()).unwrap();
            // Before invalid rows are rebuilt.
            let report = store.verify(&DEEP).unwrap();
            assert_eq!(report.findings, [], "{end:?} at {at}");
        }
    }
}
