//! Entry point of the fuzz target; not public API.

use crate::cache::CacheOptions;
use crate::index::Index;
use crate::journal::{Header, Op, Records, opening_bytes, parse_opening, record_bytes};

/// A few bytes may stand for many pieces and exhaust memory.
const MAX_PIECES: usize = 1 << 18;

/// Parses bytes as a journal, and as payloads of records. The index must be consistent, and a snapshot reproduce it.
///
/// # Panics
/// If it is not.
pub fn journal(bytes: &[u8]) {
    check(bytes);
    // Fuzzers hardly find checksums, so these are computed.
    let header = Header {
        epoch: 1,
        sequence: 0,
    };
    let base = Index::new(CacheOptions::new(1 << 30).settings(), 1).snapshot();
    let mut whole = opening_bytes(&header, &base).expect("bytes of a journal");
    let mut rest = bytes;
    let mut sequence = 0;
    while let Some((len, after)) = rest.split_first() {
        let (payload, next) = after.split_at(usize::from(*len).min(after.len()));
        let Ok(ops) = postcard::from_bytes::<Vec<Op>>(payload) else {
            break;
        };
        sequence += 1;
        whole.extend(record_bytes(sequence, &ops).expect("bytes of a record"));
        rest = next;
    }
    check(&whole);
}

fn check(bytes: &[u8]) {
    let Ok((header, base, at)) = parse_opening(bytes) else {
        return;
    };
    let Ok(mut index) = Index::load(&base) else {
        return;
    };
    let mut records = Records::new(bytes, at, header.sequence);
    while let Some(Ok(ops)) = records.next() {
        if ops.len() > 64 || ops.iter().any(|op| index.apply(op).is_err()) {
            return;
        }
        let pieces = index.objects.values().map(|object| object.pieces.len());
        if pieces.sum::<usize>() > MAX_PIECES {
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
