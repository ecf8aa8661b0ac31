//! store/open: opening a store with a signal of 1 TB, and reading its end.

use std::path::Path;

use isochrony::prelude::*;

use crate::measure::{Results, interleave};

pub fn run(
    dir: &Path,
    quick: bool,
    results: &mut Results,
) -> Result<(), Box<dyn std::error::Error>> {
    let path = dir.join("open.iso");
    let samples: i64 = 1_000_000_000_000 / 2;
    {
        let store = Store::open(&path, Mode::Create)?;
        let mut options = CreateOptions::new(DType::I16, Rate::from_hz(2000)?);
        options.start = Some(civil::parse("2020-01-01T00:00:00Z")?);
        let writer = store.create("s", &options)?;
        // A thousand islands of samples among half a tera of indices.
        let block = vec![3i16; 4096];
        let islands = if quick { 10 } else { 1000 };
        for _ in 0..islands {
            writer.append(&block)?;
            writer.append_gap(samples / islands - 4096)?;
        }
        writer.append(&block)?;
        store.commit(true)?;
        store.close()?;
    }
    let rounds = if quick { 3 } else { 31 };
    let open = || {
        let store = Store::open(&path, Mode::Read).expect("opens");
        let signal = store.signal("s").expect("the signal");
        let end = signal.end_index();
        assert!(end >= samples);
        let last = signal
            .select(end - 100..end)
            .expect("a range")
            .as_segment()
            .expect("a segment");
        assert_eq!(last.to_vec::<i16>().expect("i16"), [3; 100]);
    };
    let file = path.join(".isochrony/MANIFEST");
    let bare = || assert!(!std::fs::read(&file).expect("read").is_empty());
    let (a, b) = interleave(rounds, open, bare);
    let met = a.seconds().median < 0.010;
    results.compare(
        "store/open/1TB-sparse/read-100-at-end",
        &a,
        "reading one small file",
        &b,
        None,
        Some(("< 10 ms", met)),
    );
    Ok(())
}
