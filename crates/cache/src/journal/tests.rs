//! Truncated and corrupted journals, invalid operations, snapshots.

use proptest::prelude::*;

use super::*;
use crate::index::Index;
use crate::key::ObjectKey;
use isochrony_placement::EvictionPolicy;

fn settings() -> Settings {
    Settings {
        quota_bytes: 1 << 30,
        piece_bytes: 4096,
        eviction: EvictionPolicy::Lru,
    }
}

fn created(object: u64, bytes: u64) -> Op {
    Op::Created {
        object,
        key: ObjectKey::file(format!("u{object}"), "e"),
        bytes,
        piece_bytes: 4096,
        created: 7,
    }
}

fn reserved(object: u64, first: u32, count: u32) -> Op {
    Op::Reserved {
        object,
        first,
        count,
        owner: 5,
    }
}

/// A journal of several records, and their ends.
fn journal() -> (Vec<u8>, Vec<usize>) {
    let header = Header {
        epoch: 3,
        sequence: 10,
    };
    let mut bytes =
        opening_bytes(&header, &Index::new(settings(), 1).snapshot()).expect("an opening");
    let mut ends = vec![bytes.len()];
    let records = [
        vec![created(1, 10_000)],
        vec![reserved(1, 0, 3), created(2, 0)],
        vec![Op::Stored {
            object: 1,
            first: 1,
            checksums: vec![8, 9],
        }],
        vec![Op::OwnerDied { owner: 5 }],
        vec![Op::Removed {
            object: 2,
            evicted: true,
        }],
    ];
    for (at, ops) in records.iter().enumerate() {
        bytes.extend(record_bytes(11 + at as u64, ops).expect("a record"));
        ends.push(bytes.len());
    }
    (bytes, ends)
}

/// Number of whole records read, and whether the rest is damage.
fn read(bytes: &[u8]) -> Result<(usize, bool), JournalError> {
    let (header, base, at) = parse_opening(bytes)?;
    let mut index = Index::load(&base).map_err(|_| JournalError::Damaged)?;
    let mut records = Records::new(bytes, at, header.sequence);
    let mut count = 0;
    for ops in records.by_ref() {
        ops?.iter()
            .try_for_each(|op| index.apply(op))
            .map_err(|_| JournalError::Damaged)?;
        index.check();
        count += 1;
    }
    Ok((count, records.is_damaged()))
}

#[test]
fn a_torn_tail_ends_at_the_last_whole_record() {
    let (bytes, ends) = journal();
    for cut in ends[0]..=bytes.len() {
        let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
        assert_eq!(read(&bytes[..cut]), Ok((whole, false)), "cut at {cut}");
    }
    for cut in 0..ends[0] {
        assert_eq!(
            read(&bytes[..cut]),
            Err(JournalError::Damaged),
            "cut at {cut}"
        );
    }
}

#[test]
fn a_flipped_bit_is_always_detected() {
    let (bytes, ends) = journal();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        match read(&flipped) {
            Err(JournalError::Damaged | JournalError::Newer { .. }) => assert!(bit / 8 < ends[0]),
            Ok((count, is_damaged)) => {
                // Padding is arbitrary, and the last record may count as torn.
                let hit = ends.iter().filter(|end| **end <= bit / 8).count();
                let is_intact = count == ends.len() - 1;
                assert!(is_intact || count == hit - 1, "bit {bit}");
                assert_eq!(is_damaged, !is_intact && hit < ends.len() - 1, "bit {bit}");
            }
        }
    }
}

#[test]
fn later_formats_are_distinguished_from_damage() {
    let (mut bytes, _) = journal();
    bytes[8] = 2;
    assert_eq!(read(&bytes), Err(JournalError::Newer { format: 2 }));
}

#[test]
fn the_index_refuses_what_no_writer_records() {
    let mut index = Index::new(settings(), 1);
    index.apply(&created(1, 10_000)).expect("an object");
    index.apply(&reserved(1, 0, 2)).expect("reserved");
    let stored = |first, checksums: &[u32]| Op::Stored {
        object: 1,
        first,
        checksums: checksums.to_vec(),
    };
    let refused = [
        created(1, 10),
        reserved(1, 1, 1),
        reserved(1, 2, 2),
        reserved(1, 2, 0),
        reserved(2, 0, 1),
        stored(1, &[1, 2]),
        stored(0, &[]),
        Op::Dropped {
            object: 1,
            piece: 0,
        },
        Op::Released {
            object: 1,
            first: 0,
            count: 1,
            owner: 6,
        },
        Op::Grown {
            object: 1,
            bytes: 10_000,
        },
        Op::Removed {
            object: 2,
            evicted: false,
        },
    ];
    for op in refused {
        assert!(index.clone().apply(&op).is_err(), "{op:?}");
    }
    index.check();
}

#[test]
fn growing_drops_the_short_last_piece_and_charges_for_it() {
    let mut index = Index::new(settings(), 1);
    index.apply(&created(1, 4097)).expect("an object");
    index.apply(&reserved(1, 0, 2)).expect("reserved");
    let stored = Op::Stored {
        object: 1,
        first: 0,
        checksums: vec![1, 2],
    };
    index.apply(&stored).expect("stored");
    assert_eq!(index.usage.present, 4097);
    let grown = Op::Grown {
        object: 1,
        bytes: 9000,
    };
    index.apply(&grown).expect("grown");
    index.check();
    assert_eq!(index.usage.present, 4096);
    assert_eq!(index.usage.allocated, 3 * 4096);
}

fn op() -> impl Strategy<Value = Op> {
    let object = 1u64..5;
    prop_oneof![
        (object.clone(), 0u64..60_000).prop_map(|(object, bytes)| created(object, bytes)),
        (object.clone(), 0u64..90_000).prop_map(|(object, bytes)| Op::Grown { object, bytes }),
        (object.clone(), 0u32..16, 1u32..5).prop_map(|(o, first, count)| reserved(o, first, count)),
        (
            object.clone(),
            0u32..16,
            prop::collection::vec(any::<u32>(), 1..4)
        )
            .prop_map(|(object, first, checksums)| Op::Stored {
                object,
                first,
                checksums
            }),
        (object.clone(), 0u32..16).prop_map(|(object, piece)| Op::Dropped { object, piece }),
        (object.clone(), any::<bool>())
            .prop_map(|(object, evicted)| Op::Removed { object, evicted }),
        object.prop_map(|object| Op::Touched { object }),
        Just(Op::OwnerDied { owner: 5 }),
        Just(Op::Counted { hits: 1, misses: 2 }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn a_snapshot_restores_the_same_index(ops in prop::collection::vec(op(), 0..60)) {
        let mut index = Index::new(settings(), 1);
        for op in &ops {
            let before = index.clone();
            if index.apply(op).is_err() {
                index = before;
            }
            index.check();
        }
        let header = Header { epoch: 1, sequence: 2 };
        let bytes = opening_bytes(&header, &index.snapshot()).expect("an opening");
        let (_, base, end) = parse_opening(&bytes).expect("what was written");
        prop_assert_eq!(end, bytes.len());
        let loaded = Index::load(&base).expect("an index");
        loaded.check();
        prop_assert_eq!(&loaded.objects, &index.objects);
        prop_assert_eq!(loaded.counters, index.counters);
        prop_assert_eq!(loaded.next_object, index.next_object);
        let order = |index: &Index| index.queue.in_order().into_iter().map(|(id, _)| id).collect::<Vec<_>>();
        prop_assert_eq!(order(&loaded), order(&index));
    }
}
