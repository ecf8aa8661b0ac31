use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path as Key;
use proptest::prelude::*;

use super::*;
use crate::client::Service;
use crate::requests::Requests;

fn place() -> Place {
    Place {
        requests: Requests {
            client: Arc::new(InMemory::new()),
            service: Service::Given,
        },
        prefix: Key::default(),
    }
}

fn put(place: &Place, name: &str, bytes: Vec<u8>) -> Object {
    let (client, key) = (place.requests.client.clone(), place.key(name).unwrap());
    let meta = driver::wait(async move {
        client.put(&key, bytes.into()).await.unwrap();
        Ok(client.head(&key).await.unwrap())
    });
    Object::new(name, Version::of(&meta.unwrap()))
}

fn content(len: u64, seed: u64) -> Vec<u8> {
    (0..len).map(|at| ((at * 31 + seed) % 251) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    /// Against slices of the whole object.
    #[test]
    fn any_parts_in_any_order_are_those_of_the_object(
        len in 1..3 * BLOCK,
        reads in prop::collection::vec((0.0..1.0f64, 1..BLOCK, 0..2 * BLOCK), 1..8),
    ) {
        let place = place();
        let bytes = content(len, 1);
        let object = put(&place, "a", bytes.clone());
        let blocks = Blocks::default();
        for (start, count, ahead) in reads {
            let start = ((len - 1) as f64 * start) as u64;
            let count = count.min(len - start);
            let mut read = vec![0; count as usize];
            blocks.read(&place, &object, start, &mut read, ahead).unwrap();
            prop_assert_eq!(&read[..], &bytes[start as usize..(start + count) as usize]);
        }
        prop_assert!(blocks.count() as u64 <= len.div_ceil(BLOCK));
    }
}

#[test]
fn memory_is_bounded_and_the_blocks_used_last_stay() {
    let place = place();
    let len = KEPT + 8 * BLOCK;
    let object = put(&place, "a", content(len, 1));
    let small = put(&place, "b", content(10, 2));
    let blocks = Blocks::default();
    let mut byte = [0; 1];
    for block in 0..len / BLOCK {
        blocks.read(&place, &small, 0, &mut byte, 0).unwrap();
        blocks
            .read(&place, &object, block * BLOCK, &mut byte, 0)
            .unwrap();
        assert!(blocks.count() as u64 * BLOCK <= KEPT);
    }
    let kept = lock(&blocks.0);
    assert!(kept.slots.contains_key(&small.block(0)));
    assert!(!kept.slots.contains_key(&object.block(0)));
    assert_eq!(kept.by_use.len(), kept.slots.len());
}

#[test]
fn a_version_that_was_replaced_is_an_error_and_is_not_kept() {
    let place = place();
    let old = put(&place, "a", content(10, 1));
    let new = put(&place, "a", content(10, 2));
    let blocks = Blocks::default();
    let mut bytes = [0; 10];
    let read = blocks.read(&place, &old, 0, &mut bytes, 0);
    assert_eq!(read, Err(CloudError::ChangedRemotely));
    assert_eq!(blocks.count(), 0);
    blocks.read(&place, &new, 0, &mut bytes, 0).unwrap();
    assert_eq!(bytes[..], content(10, 2));
}
