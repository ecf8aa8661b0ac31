//! The index follows caches over a channel that loses, repeats and reorders reports.

use std::collections::{BTreeMap, BTreeSet};

use isochrony_placement::{CacheIndex, Change, HostId, ObjectId, Reply};
use proptest::prelude::*;

#[derive(Debug, Clone, Copy)]
enum Delivery {
    Arrives,
    Lost,
    Twice,
    Late,
}

fn delivery() -> impl Strategy<Value = Delivery> {
    prop_oneof![
        6 => Just(Delivery::Arrives),
        1 => Just(Delivery::Lost),
        1 => Just(Delivery::Twice),
        1 => Just(Delivery::Late),
    ]
}

#[derive(Default)]
struct Cache {
    objects: BTreeMap<u32, u64>,
    next: u64,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_manifest_after_a_missing_delta_restores_the_truth(
        steps in prop::collection::vec(
            (0..3usize, prop::collection::vec((0..8u32, any::<bool>()), 0..4), delivery()),
            1..80,
        ),
    ) {
        let mut index = CacheIndex::new(64);
        let mut caches: Vec<Cache> = Vec::new();
        for _ in 0..3 {
            index.add_host();
            caches.push(Cache::default());
        }
        let mut late: Vec<(usize, u64, Vec<Change>)> = Vec::new();
        let mut manifests = Vec::new();
        for (host, changes, delivery) in steps {
            let id = HostId(host as u32);
            let cache = &mut caches[host];
            let mut delta = Vec::new();
            for (object, add) in changes {
                let bytes = u64::from(object) + 1;
                if add {
                    cache.objects.insert(object, bytes);
                    delta.push(Change::Added { object: ObjectId(object), bytes });
                } else if cache.objects.remove(&object).is_some() {
                    delta.push(Change::Removed { object: ObjectId(object) });
                }
            }
            let number = cache.next;
            cache.next += 1;
            let times = match delivery {
                Delivery::Arrives => 1,
                Delivery::Twice => 2,
                Delivery::Lost => 0,
                Delivery::Late => {
                    late.push((host, number, delta.clone()));
                    0
                }
            };
            let mut asked = false;
            for _ in 0..times {
                asked |= index.apply_delta(id, number, &delta).unwrap() == Reply::SendManifest;
            }
            if asked {
                let cache = &caches[host];
                let objects: Vec<_> =
                    cache.objects.iter().map(|(&o, &bytes)| (ObjectId(o), bytes)).collect();
                prop_assert_eq!(index.apply_manifest(id, cache.next, &objects), Ok(Reply::Applied));
                manifests.push((id, cache.next, objects));
            }
            // A late report is covered by a manifest, or answered with a request for one.
            if number.is_multiple_of(3) {
                for (host, number, delta) in late.drain(..) {
                    index.apply_delta(HostId(host as u32), number, &delta).unwrap();
                }
            }
        }
        for (host, cache) in caches.iter_mut().enumerate() {
            let id = HostId(host as u32);
            let overtaken = manifests.iter().filter(|(of, next, _)| *of == id && *next < cache.next);
            let before: BTreeSet<_> = index.held_by(id).collect();
            let mut any = false;
            for (_, next, objects) in overtaken {
                any |= index.apply_manifest(id, *next, objects).unwrap() == Reply::Applied;
            }
            if !any {
                prop_assert_eq!(before, index.held_by(id).collect::<BTreeSet<_>>());
            }
            if index.apply_delta(id, cache.next, &[]).unwrap() == Reply::SendManifest {
                let objects: Vec<_> =
                    cache.objects.iter().map(|(&o, &bytes)| (ObjectId(o), bytes)).collect();
                index.apply_manifest(id, cache.next + 1, &objects).unwrap();
            }
            let found: BTreeSet<_> = index.held_by(id).map(|object| object.0).collect();
            prop_assert_eq!(&found, &cache.objects.keys().copied().collect());
            prop_assert_eq!(index.bytes_of(id), cache.objects.values().sum::<u64>());
        }
        for object in 0..8 {
            let found: Vec<_> = index.holders(ObjectId(object)).map(|host| host.0 as usize).collect();
            let expected: Vec<_> =
                (0..3).filter(|&host| caches[host].objects.contains_key(&object)).collect();
            prop_assert_eq!(index.replicas(ObjectId(object)), expected.len());
            prop_assert_eq!(found, expected);
        }
        let copies: usize = caches.iter().map(|cache| cache.objects.len()).sum();
        prop_assert_eq!(index.copies(), copies);
        index.remove_host(HostId(0)).unwrap();
        prop_assert_eq!(index.copies(), copies - caches[0].objects.len());
        prop_assert!(index.apply_delta(HostId(0), 0, &[]).is_err());
    }
}

#[test]
fn reports_are_taken_in_order_only() {
    let mut index = CacheIndex::new(64);
    let host = index.add_host();
    let (a, b) = (ObjectId(0), ObjectId(1));
    let added = |object| [Change::Added { object, bytes: 5 }];
    assert_eq!(index.apply_delta(host, 0, &added(a)), Ok(Reply::Applied));
    for number in [2, 3] {
        let reply = index.apply_delta(host, number, &added(b));
        assert_eq!(reply, Ok(Reply::SendManifest));
    }
    assert_eq!(index.holders(b).count(), 0);
    let manifest = index.apply_manifest(host, 4, &[(b, 5)]);
    assert_eq!(manifest, Ok(Reply::Applied));
    assert!(index.held_by(host).eq([b]));
    // Deltas continue after the manifest; overtaken ones change nothing.
    assert_eq!(index.apply_delta(host, 1, &added(a)), Ok(Reply::Repeated));
    let removed = [Change::Removed { object: b }];
    assert_eq!(index.apply_delta(host, 4, &removed), Ok(Reply::Applied));
    assert_eq!(
        index.apply_manifest(host, 4, &[(b, 5)]),
        Ok(Reply::Repeated)
    );
    assert_eq!(index.held_by(host).count(), 0);
    assert_eq!(index.bytes_of(host), 0);
}
