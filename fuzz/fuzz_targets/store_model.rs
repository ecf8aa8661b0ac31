//! The store against a model in memory, on a medium with power failures, failing syncs and limited space.

#![no_main]

#[path = "../../crates/store/tests/crash/mod.rs"]
mod crash;

use std::path::Path;

use crash::{Work, difference, open, read_back};
use isochrony_store::media::sim::{Faults, SimMedia};
use libfuzzer_sys::fuzz_target;

const ROOT: &str = "/disk/store.iso";

fuzz_target!(|data: &[u8]| {
    let Some((seed, faults)) = data.split_first_chunk::<8>() else {
        return;
    };
    let seed = u64::from_le_bytes(*seed);
    let mut media = SimMedia::new(seed);
    let mut work = Work::new(seed);
    // Every four bytes are one life of the store: fault and time.
    for life in faults.as_chunks::<4>().0.iter().take(6) {
        let [kind, when, length, steps] = life.map(u64::from);
        let faults = match kind % 4 {
            0 => Faults {
                cut_at: Some(media.changes() + when * 4),
                ..Faults::default()
            },
            1 => Faults {
                fail_sync: Some(when),
                ..Faults::default()
            },
            2 => Faults {
                full: Some((media.changes() + when * 2, length + 1)),
                ..Faults::default()
            },
            _ => Faults::default(),
        };
        media.set_faults(Faults::default());
        let engine = match open(Path::new(ROOT), media.media()) {
            Ok(engine) => engine,
            Err(error) => panic!("a store that lost nothing but power does not open: {error}"),
        };
        let have = read_back(&engine).expect("everything committed can be read");
        match difference(&have, &work.acknowledged) {
            None => work.model.clone_from(&work.acknowledged),
            Some(lost) => {
                assert!(work.in_doubt, "{lost}");
                assert_eq!(
                    difference(&have, &work.model),
                    None,
                    "neither before nor after the commit in doubt"
                );
                work.acknowledged.clone_from(&work.model);
            }
        }
        work.in_doubt = false;
        media.set_faults(faults);
        for _ in 0..steps.min(60) {
            if work.step(&engine).is_err() {
                break;
            }
        }
        drop(engine);
        media = if media.is_running() {
            media.kill()
        } else {
            media.restart()
        };
    }
});
