//! Number of files opened by reads of sealed signals.

use std::sync::Arc;

use super::medium::Medium;
use isochrony_segment::DType;
use isochrony_store::{Codec, CreateOptions, Mode, Store};
use isochrony_time::Rate;

#[test]
fn a_sealed_shard_is_opened_once_for_all_its_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iso");
    let store = Store::open(&path, Mode::Create).unwrap();
    let chunk = 32_768i64;
    let samples: Vec<i16> = (0..40 * chunk).map(|x| (x * x % 9973) as i16).collect();
    let codecs = ["zstd:3", "blosc:lz4:5"];
    for codec in codecs {
        let name = &codec[..4];
        let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
        let writer = store.create(name, &options).unwrap();
        writer.append(&samples).unwrap();
        store.commit(true).unwrap();
        store.seal(name, codec.parse::<Codec>().unwrap()).unwrap();
    }
    store.close().unwrap();
    for codec in codecs {
        let medium = Arc::new(Medium::new());
        let store = Store::open_on(&path, Mode::Read, medium.clone()).unwrap();
        let signal = store.signal(&codec[..4]).unwrap();
        let read = |number: i64| {
            let range = number * chunk..(number + 1) * chunk;
            let segment = signal.select(range.clone()).unwrap().as_segment().unwrap();
            let expected = &samples[range.start as usize..range.end as usize];
            assert!(
                segment.to_vec::<i16>().unwrap() == expected,
                "{codec} {number}"
            );
        };
        read(0);
        let before = medium.opened();
        (1..40).for_each(read);
        assert_eq!(medium.opened(), before, "{codec}");
    }
}
