//! Random operations through several handles, compared with a model.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use isochrony_cache::{
    Cache, CacheError, CacheOptions, Change, Check, EvictionPolicy, ObjectKey, PinnedObject,
    Sequence,
};
use proptest::prelude::*;

use crate::common::{PIECE, check_folder, fetch, key, options, origin, read};

const QUOTA: u64 = 12 * PIECE;
const HANDLES: usize = 3;
const KEYS: u64 = 5;

#[derive(Debug, Clone)]
enum Step {
    Pin {
        handle: usize,
        number: u64,
        bytes: u64,
    },
    Unpin {
        slot: usize,
    },
    Fetch {
        slot: usize,
        part: (u64, u64),
    },
    /// Fetches wrong bytes.
    FetchWrong {
        slot: usize,
        part: (u64, u64),
    },
    Abandon {
        slot: usize,
        part: (u64, u64),
    },
    Read {
        slot: usize,
        part: (u64, u64),
    },
    Map {
        slot: usize,
        part: (u64, u64),
    },
    Clear {
        handle: usize,
    },
    Reopen {
        handle: usize,
        eviction: EvictionPolicy,
    },
    Follow {
        handle: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let slot = || 0usize..6;
    let part = || (0u64..9 * PIECE, 1u64..4 * PIECE);
    let eviction = prop::sample::select(vec![
        EvictionPolicy::Random,
        EvictionPolicy::Fifo,
        EvictionPolicy::Lru,
        EvictionPolicy::Lfu,
    ]);
    prop_oneof![
        4 => (0..HANDLES, 0..KEYS, 0u64..7 * PIECE)
            .prop_map(|(handle, number, bytes)| Step::Pin { handle, number, bytes }),
        3 => slot().prop_map(|slot| Step::Unpin { slot }),
        6 => (slot(), part()).prop_map(|(slot, part)| Step::Fetch { slot, part }),
        1 => (slot(), part()).prop_map(|(slot, part)| Step::FetchWrong { slot, part }),
        1 => (slot(), part()).prop_map(|(slot, part)| Step::Abandon { slot, part }),
        3 => (slot(), part()).prop_map(|(slot, part)| Step::Read { slot, part }),
        2 => (slot(), part()).prop_map(|(slot, part)| Step::Map { slot, part }),
        1 => (0..HANDLES).prop_map(|handle| Step::Clear { handle }),
        1 => (0..HANDLES, eviction).prop_map(|(handle, eviction)| Step::Reopen { handle, eviction }),
        2 => (0..HANDLES).prop_map(|handle| Step::Follow { handle }),
    ]
}

#[derive(Default)]
struct Follower {
    sequence: Option<Sequence>,
    present: BTreeSet<(ObjectKey, u32)>,
}

impl Follower {
    fn follow(&mut self, cache: &Cache) {
        let known = self
            .sequence
            .and_then(|at| cache.changes_since(at).expect("changes"));
        let manifest = cache.manifest().expect("a manifest");
        let everything: BTreeSet<_> = (manifest.objects.iter())
            .flat_map(|entry| {
                entry
                    .pieces
                    .iter()
                    .cloned()
                    .flatten()
                    .map(|p| (entry.key.clone(), p))
            })
            .collect();
        match known {
            None => self.present.clone_from(&everything),
            Some((changes, _)) => {
                for change in changes {
                    match change {
                        Change::Added { key, pieces, .. } => {
                            self.present
                                .extend(pieces.map(|piece| (key.clone(), piece)));
                        }
                        Change::Dropped { key, piece } => {
                            self.present.remove(&(key, piece));
                        }
                        Change::Removed { key } => self.present.retain(|(k, _)| *k != key),
                        other => panic!("{other:?}"),
                    }
                }
            }
        }
        self.sequence = Some(manifest.sequence);
        assert_eq!(self.present, everything);
    }
}

/// Its pieces must stay present while it lives.
struct Slot {
    number: u64,
    object: PinnedObject,
    must: BTreeSet<u64>,
}

#[derive(Default)]
struct Model {
    slots: Vec<Slot>,
    /// By pinned object.
    lengths: BTreeMap<u64, u64>,
    stored: BTreeSet<(u64, u64)>,
}

fn clip(object: &PinnedObject, part: (u64, u64)) -> Range<u64> {
    let start = part.0.min(object.bytes());
    start..(start + part.1).min(object.bytes())
}

fn pieces(range: &Range<u64>) -> Range<u64> {
    match range.is_empty() {
        true => 0..0,
        false => range.start / PIECE..range.end.div_ceil(PIECE),
    }
}

impl Model {
    /// All that pinned objects may have allocated.
    fn pinned_bytes(&self) -> u64 {
        let numbers: BTreeSet<_> = self.slots.iter().map(|slot| slot.number).collect();
        let most = |number: &u64| self.lengths[number].next_multiple_of(PIECE) + PIECE;
        numbers.iter().map(most).sum()
    }

    /// Correct only if pinned objects leave no room.
    fn check_full(&self, error: &CacheError) {
        match error {
            CacheError::CacheFull {
                needed_bytes,
                allocated_bytes,
                quota_bytes,
                ..
            } => {
                assert_eq!(*quota_bytes, QUOTA);
                assert!(allocated_bytes + needed_bytes > QUOTA);
                assert!(self.pinned_bytes() + needed_bytes > QUOTA, "{error}");
            }
            other => panic!("{other}"),
        }
    }

    fn pin(&mut self, caches: &[Cache], handle: usize, number: u64, bytes: u64) {
        match caches[handle].pin(&key(number), bytes) {
            Ok(object) => {
                let length = self.lengths.get(&number).copied().unwrap_or(0);
                // It may not know that the object grew.
                assert!(object.bytes() >= bytes);
                if object.bytes() > length {
                    // A short last piece must be fetched again.
                    for slot in self.slots.iter_mut().filter(|slot| slot.number == number) {
                        slot.must.retain(|piece| (piece + 1) * PIECE <= length);
                    }
                }
                self.lengths.insert(number, object.bytes().max(length));
                self.slots.push(Slot {
                    number,
                    object,
                    must: BTreeSet::new(),
                });
            }
            Err(error) => self.check_full(&error),
        }
    }

    fn fetch(&mut self, at: usize, part: (u64, u64)) {
        let number = self.slots[at].number;
        let range = clip(&self.slots[at].object, part);
        match fetch(&self.slots[at].object, number, range.clone()) {
            Ok(()) => {
                assert!(read(&self.slots[at].object, number, range.clone()).is_some());
                // Except a piece that some pin knows as short.
                let fetched = self.slots[at].object.bytes() / PIECE;
                for slot in self.slots.iter_mut().filter(|slot| slot.number == number) {
                    let whole = fetched.min(slot.object.bytes() / PIECE);
                    slot.must
                        .extend(pieces(&range).filter(|piece| *piece < whole));
                }
                self.stored
                    .extend(pieces(&range).map(|piece| (number, piece)));
            }
            Err(error) => self.check_full(&error),
        }
    }

    fn run(&mut self, caches: &mut [Cache], step: &Step, folder: &std::path::Path) {
        let at = |slot: usize, len: usize| (len > 0).then(|| slot % len);
        let len = self.slots.len();
        match *step {
            Step::Pin {
                handle,
                number,
                bytes,
            } => self.pin(caches, handle, number, bytes),
            Step::Unpin { slot } => {
                if let Some(at) = at(slot, len) {
                    let gone = self.slots.swap_remove(at);
                    if self.slots.iter().all(|slot| slot.number != gone.number) {
                        self.lengths.remove(&gone.number);
                    }
                }
            }
            Step::Fetch { slot, part } => {
                if let Some(at) = at(slot, len) {
                    self.fetch(at, part);
                }
            }
            Step::FetchWrong { slot, part } | Step::Abandon { slot, part } => {
                let Some(at) = at(slot, len) else { return };
                let Slot { number, object, .. } = &self.slots[at];
                match object.reserve(clip(object, part)) {
                    Ok(mut reservation) => {
                        if let (Step::FetchWrong { .. }, Some(range)) =
                            (step, reservation.ranges().first())
                        {
                            let mut bytes = origin(*number, range.clone());
                            let check = Check::Crc32c(crc32c::crc32c(&bytes));
                            bytes[0] ^= 1;
                            let error = reservation
                                .store(range.start, &bytes, check)
                                .expect_err("wrong bytes");
                            assert_eq!(error.code(), "check_failed");
                        }
                    }
                    Err(error) => self.check_full(&error),
                }
            }
            Step::Read { slot, part } => {
                let Some(at) = at(slot, len) else { return };
                let Slot {
                    number,
                    object,
                    must,
                    ..
                } = &self.slots[at];
                let range = clip(object, part);
                let found = read(object, *number, range.clone());
                let missing = object.missing(range.clone()).expect("missing");
                assert_eq!(found.is_some(), missing.is_empty());
                let missing: BTreeSet<u64> = missing.iter().flat_map(pieces).collect();
                for piece in pieces(&range) {
                    match missing.contains(&piece) {
                        true => assert!(!must.contains(&piece), "piece {piece} vanished"),
                        false => assert!(self.stored.contains(&(*number, piece))),
                    }
                }
            }
            Step::Map { slot, part } => {
                let Some(at) = at(slot, len) else { return };
                let Slot { number, object, .. } = &self.slots[at];
                let range = clip(object, part);
                let map = object.map().expect("a mapping");
                match map.slice(range.clone()) {
                    Ok(bytes) => assert!(bytes == origin(*number, range)),
                    Err(error) => assert_eq!(error.code(), "not_present"),
                }
            }
            Step::Clear { handle } => {
                let pinned: BTreeSet<_> = self.slots.iter().map(|slot| slot.number).collect();
                let cleared = caches[handle].clear().expect("cleared");
                assert_eq!(cleared.kept_objects, pinned.len() as u64);
            }
            Step::Reopen { handle, eviction } => {
                // Pins keep the old handle's state.
                caches[handle] = Cache::open(
                    folder,
                    CacheOptions {
                        eviction,
                        ..options(QUOTA)
                    },
                )
                .expect("a cache");
            }
            Step::Follow { .. } => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_shrink_iters: 300, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn any_operations_expose_the_origins_bytes_within_the_quota(steps in prop::collection::vec(step(), 1..60)) {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().join("cache");
        let mut caches: Vec<_> = (0..HANDLES).map(|_| Cache::open(&folder, options(QUOTA)).expect("a cache")).collect();
        let mut followers: Vec<_> = (0..HANDLES).map(|_| Follower::default()).collect();
        let mut model = Model::default();
        for step in &steps {
            model.run(&mut caches, step, &folder);
            match step {
                Step::Follow { handle } => followers[*handle].follow(&caches[*handle]),
                Step::Reopen { handle, .. } => followers[*handle].sequence = None,
                _ => {}
            }
            let info = caches[0].info().expect("info");
            prop_assert!(info.allocated_bytes <= QUOTA);
            prop_assert_eq!(info.reserved_bytes, 0);
            let pinned: BTreeSet<_> = model.slots.iter().map(|slot| slot.number).collect();
            prop_assert_eq!(info.pinned_objects, pinned.len() as u64);
        }
        drop((model, caches));
        check_folder(&folder, QUOTA, 0..KEYS);
    }
}
