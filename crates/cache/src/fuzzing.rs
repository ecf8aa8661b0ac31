//! Entry point for the fuzz target; no public API.

use crate::index::Index;
use crate::journal::{Header, Records, opening_bytes, parse_opening};

/// Reads bytes as a journal. What is read must lead to an index that adds up, and that a snapshot reproduces.
///
/// # Panics
/// If it does not.
pub fn journal(bytes: &[u8]) {
    let Ok((header, base, at)) = parse_opening(bytes) else {
        return;
    };
    let Ok(mut index) = Index::load(&base) else {
        return;
    };
    let mut records = Records::new(bytes, at, header.sequence);
    while let Some(Ok(ops)) = records.next() {
        if ops.iter().any(|op| index.apply(op).is_err()) {
            return;
        }
        let pieces: usize = index
            .objects
            .values()
            .map(|object| object.pieces.len())
            .sum();
        if pieces > 1 << 20 {
            // A few bytes may stand for many reserved pieces; that is no reason for the fuzzer to run out of memory.
            return;
        }
    }
    let _ = records.is_damaged();
    index.check();
    let header = Header {
        epoch: header.epoch,
        sequence: records.sequence,
    };
    let snapshot = index.snapshot();
    let written = opening_bytes(&header, &snapshot).expect("bytes of a journal");
    let (again, read, end) = parse_opening(&written).expect("a journal that was written");
    assert_eq!((again, &read, end), (header, &snapshot, written.len()));
    let loaded = Index::load(&read).expect("an index of a journal that was written");
    loaded.check();
    assert_eq!(loaded.usage, index.usage);
    assert_eq!(loaded.objects, index.objects);
}
