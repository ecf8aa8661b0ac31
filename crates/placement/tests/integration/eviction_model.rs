//! Eviction against a slow model that sorts all keys.

use isochrony_placement::{Eviction, EvictionPolicy};
use proptest::prelude::*;

#[derive(Debug, Clone, Copy)]
enum Step {
    Insert(u8, u64),
    Touch(u8),
    Remove(u8),
    Pin(u8),
    Unpin(u8),
    Evict(u64),
    Resize(u8, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..12u8;
    prop_oneof![
        4 => (key.clone(), 0..10u64).prop_map(|(key, bytes)| Step::Insert(key, bytes)),
        4 => key.clone().prop_map(Step::Touch),
        1 => key.clone().prop_map(Step::Remove),
        2 => key.clone().prop_map(Step::Pin),
        2 => key.clone().prop_map(Step::Unpin),
        1 => (key, 0..10u64).prop_map(|(key, bytes)| Step::Resize(key, bytes)),
        3 => (0..25u64).prop_map(Step::Evict),
    ]
}

#[derive(Debug, Clone)]
struct Entry {
    key: u8,
    bytes: u64,
    pins: u32,
    inserted: u64,
    touched: u64,
    touches: u64,
}

#[derive(Default)]
struct Model {
    entries: Vec<Entry>,
    clock: u64,
}

impl Model {
    fn find(&mut self, key: u8) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.key == key)
    }

    fn all(&self, policy: EvictionPolicy) -> Vec<Entry> {
        let mut all = self.entries.clone();
        all.sort_by_key(|entry| match policy {
            EvictionPolicy::Fifo | EvictionPolicy::Random => (0, entry.inserted),
            EvictionPolicy::Lru => (0, entry.touched),
            EvictionPolicy::Lfu => (entry.touches, entry.touched),
        });
        all
    }

    fn order(&self, policy: EvictionPolicy) -> Vec<Entry> {
        let all = self.all(policy).into_iter();
        all.filter(|entry| entry.pins == 0).collect()
    }
}

fn run(policy: EvictionPolicy, seed: u64, steps: &[Step]) {
    let mut cache = Eviction::with_seed(policy, seed);
    let mut model = Model::default();
    for &step in steps {
        model.clock += 1;
        let clock = model.clock;
        match step {
            Step::Insert(key, bytes) => {
                let found = cache.insert(key, bytes).map_err(|error| error.code());
                if model.find(key).is_some() {
                    assert_eq!(found, Err("already_cached"));
                } else {
                    assert_eq!(found, Ok(()));
                    model.entries.push(Entry {
                        key,
                        bytes,
                        pins: 0,
                        inserted: clock,
                        touched: clock,
                        touches: 1,
                    });
                }
            }
            Step::Touch(key) => {
                let found = cache.touch(&key).is_ok();
                let entry = model.find(key);
                assert_eq!(found, entry.is_some());
                if let Some(entry) = entry {
                    entry.touched = clock;
                    entry.touches += 1;
                }
            }
            Step::Remove(key) => {
                let expected = model.find(key).map(|entry| entry.bytes);
                assert_eq!(cache.remove(&key).ok(), expected);
                model.entries.retain(|entry| entry.key != key);
            }
            Step::Pin(key) => {
                let found = cache.pin(&key).is_ok();
                assert_eq!(
                    found,
                    model.find(key).map(|entry| entry.pins += 1).is_some()
                );
            }
            Step::Unpin(key) => {
                let found = cache.unpin(&key).map_err(|error| error.code());
                match model.find(key) {
                    None => assert_eq!(found, Err("not_cached")),
                    Some(entry) if entry.pins == 0 => assert_eq!(found, Err("not_pinned")),
                    Some(entry) => {
                        assert_eq!(found, Ok(()));
                        entry.pins -= 1;
                    }
                }
            }
            Step::Resize(key, bytes) => {
                let found = cache.set_bytes(&key, bytes).is_ok();
                let entry = model.find(key);
                assert_eq!(found, entry.map(|entry| entry.bytes = bytes).is_some());
            }
            Step::Evict(needed) => {
                let order = model.order(policy);
                let evictable: u64 = order.iter().map(|entry| entry.bytes).sum();
                let found = cache.evict(needed);
                if evictable < needed {
                    assert_eq!(found.unwrap_err().code(), "not_evictable");
                    continue;
                }
                let found = found.unwrap();
                let mut freed = 0;
                for (at, &(key, bytes)) in found.iter().enumerate() {
                    assert!(freed < needed);
                    freed += bytes;
                    let here = order.iter().find(|entry| entry.key == key).unwrap();
                    assert_eq!(here.bytes, bytes);
                    if !matches!(policy, EvictionPolicy::Random) {
                        assert_eq!(key, order[at].key, "{policy:?}");
                    }
                    model.entries.retain(|entry| entry.key != key);
                }
                assert!(freed >= needed);
            }
        }
        let bytes = |pinned: bool| {
            let entries = model
                .entries
                .iter()
                .filter(|entry| pinned || entry.pins == 0);
            entries.map(|entry| entry.bytes).sum::<u64>()
        };
        assert_eq!(cache.bytes(), bytes(true));
        assert_eq!(cache.evictable_bytes(), bytes(false));
        assert_eq!(cache.len(), model.entries.len());
        assert_eq!(cache.is_empty(), model.entries.is_empty());
        let mut found: Vec<_> = cache.iter().map(|(&key, bytes)| (key, bytes)).collect();
        let mut expected: Vec<_> = model.entries.iter().map(|e| (e.key, e.bytes)).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
        for (key, bytes) in expected {
            assert_eq!(cache.get(&key), Some(bytes));
        }
        let all = model.all(policy).into_iter();
        let all: Vec<_> = all.map(|entry| (entry.key, entry.touches)).collect();
        assert_eq!(cache.in_order(), all);
        let (next, order) = (cache.next_victim(), model.order(policy));
        match policy {
            EvictionPolicy::Random => {
                let is_free = |key: u8| order.iter().any(|entry| entry.key == key);
                assert_eq!(next.map(is_free), (!order.is_empty()).then_some(true));
            }
            _ => assert_eq!(next, order.first().map(|entry| entry.key)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn evictions_equal_the_slow_model(
        steps in prop::collection::vec(step(), 1..150),
        seed in any::<u64>(),
    ) {
        for policy in [
            EvictionPolicy::Fifo,
            EvictionPolicy::Lru,
            EvictionPolicy::Lfu,
            EvictionPolicy::Random,
        ] {
            run(policy, seed, &steps);
        }
    }
}

#[test]
fn random_eviction_is_uniform_and_repeatable() {
    let evicted = |seed| {
        let mut cache = Eviction::with_seed(EvictionPolicy::Random, seed);
        for key in 0..10 {
            cache.insert(key, 1).unwrap();
        }
        // Survivors have unchanged probabilities in the next eviction.
        cache.evict(5).unwrap();
        let left: Vec<_> = cache.iter().map(|(&key, _)| key).collect();
        left.into_iter()
            .for_each(|key: usize| cache.touch(&key).unwrap());
        cache.evict(1).unwrap()[0].0
    };
    assert_eq!(evicted(7), evicted(7));
    let mut counts = [0; 10];
    for seed in 0..10_000 {
        counts[evicted(seed)] += 1;
    }
    // Binomial of 10,000 and 0.1: standard deviation 30.
    assert!(
        counts.iter().all(|&n| (850..1150).contains(&n)),
        "{counts:?}"
    );
}

#[test]
fn a_refused_eviction_removes_nothing() {
    let mut cache = Eviction::new(EvictionPolicy::Lru);
    cache.insert("a", 3).unwrap();
    cache.insert("b", 4).unwrap();
    cache.pin(&"a").unwrap();
    let refused = cache.evict(5).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "cannot free 5 bytes: 4 of 7 bytes in the cache are not in use; unpin objects, or give the cache more bytes"
    );
    assert_eq!(cache.len(), 2);
}
