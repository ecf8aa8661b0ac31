use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path as Key;
use proptest::prelude::*;

use super::table::CACHE_BYTES;
use super::*;
use crate::client::Service;
use crate::requests::Requests;

fn location() -> StoreLocation {
    StoreLocation {
        requests: Requests {
            client: Arc::new(InMemory::new()),
            service: Service::Custom,
        },
        prefix: Key::default(),
    }
}

fn put(location: &StoreLocation, name: &str, bytes: Vec<u8>) -> Object {
    let (client, key) = (
        location.requests.client.clone(),
        location.key(name).unwrap(),
    );
    let meta = driver::wait(async move {
        client.put(&key, bytes.into()).await.unwrap();
        Ok(client.head(&key).await.unwrap())
    });
    Object::new(name, Version::of(&meta.unwrap(), Service::Custom))
}

fn content(len: u64, seed: u64) -> Vec<u8> {
    (0..len).map(|at| ((at * 31 + seed) % 251) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn any_parts_in_any_order_equal_the_object(
        len in 1..3 * BLOCK_BYTES,
        reads in prop::collection::vec((0.0..1.0f64, 1..BLOCK_BYTES, 0..2 * BLOCK_BYTES), 1..8),
    ) {
        let location = location();
        let bytes = content(len, 1);
        let object = put(&location, "a", bytes.clone());
        let blocks = BlockCache::default();
        for (start, count, ahead) in reads {
            let start = ((len - 1) as f64 * start) as u64;
            let count = count.min(len - start);
            let mut read = vec![0; count as usize];
            blocks.read(&location, &object, start, &mut read, ahead).unwrap();
            prop_assert_eq!(&read[..], &bytes[start as usize..(start + count) as usize]);
        }
        prop_assert!(blocks.count() as u64 <= len.div_ceil(BLOCK_BYTES));
    }
}

#[test]
fn memory_is_bounded_and_recently_used_blocks_stay() {
    let location = location();
    let len = CACHE_BYTES + 8 * BLOCK_BYTES;
    let object = put(&location, "a", content(len, 1));
    let small = put(&location, "b", content(10, 2));
    let blocks = BlockCache::default();
    let mut byte = [0; 1];
    for block in 0..len / BLOCK_BYTES {
        blocks.read(&location, &small, 0, &mut byte, 0).unwrap();
        blocks
            .read(&location, &object, block * BLOCK_BYTES, &mut byte, 0)
            .unwrap();
        assert!(blocks.count() as u64 * BLOCK_BYTES <= CACHE_BYTES);
    }
    let table = lock(&blocks.table);
    assert!(table.contains(&small.block(0)));
    assert!(!table.contains(&object.block(0)));
}

#[test]
fn small_objects_leave_room_for_others() {
    let location = location();
    let blocks = BlockCache::default();
    let mut byte = [0; 1];
    let count = 2 * CACHE_BYTES / BLOCK_BYTES;
    let small: Vec<Object> = (0..count)
        .map(|number| put(&location, &format!("small/{number}"), content(10, number)))
        .collect();
    for object in &small {
        blocks.read(&location, object, 0, &mut byte, 0).unwrap();
    }
    let table = lock(&blocks.table);
    assert!(small.iter().all(|object| table.contains(&object.block(0))));
}

#[test]
fn blocks_of_an_impossible_request_are_errors_for_all_waiters() {
    let location = location();
    // No request for an invalid name starts.
    let object = Object::new(
        "a//b",
        put(&location, "a", content(10, 1)).pin.listed.clone(),
    );
    let blocks = BlockCache::default();
    let (send, from) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for _ in 0..2 {
            let read = blocks.read(&location, &object, 0, &mut [0; 10], 0);
            send.send(read.map_err(|error| error.code())).unwrap();
        }
        assert_eq!(blocks.count(), 0);
        send.send(Ok(())).unwrap();
    });
    let patience = std::time::Duration::from_secs(20);
    for expected in [Err("bad_url"), Err("bad_url"), Ok(())] {
        assert_eq!(from.recv_timeout(patience), Ok(expected));
    }
}

#[test]
fn blocks_of_a_dropped_request_are_errors_for_all_waiters() {
    let location = location();
    let object = put(&location, "a", content(10, 1));
    let blocks = BlockCache::default();
    let block = Arc::new(PendingBlock::default());
    let mut run = BlockFetch::new(blocks.table.clone());
    lock(&blocks.table).insert(object.block(0), 10, block.clone());
    run.push(object.block(0), block.clone());
    let waiting = std::thread::spawn(move || block.wait());
    drop(run);
    assert_eq!(waiting.join().unwrap(), Err(CloudError::unanswered()));
    assert_eq!(blocks.count(), 0);
}

#[test]
fn a_replaced_version_is_an_error_and_is_not_cached() {
    let location = location();
    let old = put(&location, "a", content(10, 1));
    let new = put(&location, "a", content(10, 2));
    let blocks = BlockCache::default();
    let mut bytes = [0; 10];
    let read = blocks.read(&location, &old, 0, &mut bytes, 0);
    assert_eq!(read, Err(CloudError::ChangedRemotely));
    assert_eq!(blocks.count(), 0);
    blocks.read(&location, &new, 0, &mut bytes, 0).unwrap();
    assert_eq!(bytes[..], content(10, 2));
}
