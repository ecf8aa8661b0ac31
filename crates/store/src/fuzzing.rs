//! Entry points of fuzz targets; not public API. Each takes any bytes and must not panic.

use isochrony_segment::DType;
use isochrony_time::Rate;

use crate::engine::{log, manifest};
use crate::layout::flat::{Flat, IndexKind, parse_index};
use crate::layout::table::{ROWS, TableFile};
use crate::layout::zarr;
use crate::meta::SignalMeta;
use crate::op::{Op, SignalId};
use crate::options::CreateOptions;
use crate::snapshot::{SignalSnapshot, StoreSnapshot};
use crate::state::{GAPS, GapTable, SignalState, Table};
use crate::verify::metadata::compare;
use crate::views::record::Record;

fn some_meta() -> Option<SignalMeta> {
    CreateOptions::new(DType::I16, Rate::new(2000, 1).ok()?)
        .meta("fuzz")
        .ok()
}

/// Parses a shard index, also with corrected checksum; an accepted one encodes to the same.
pub fn shard_index(data: &[u8]) {
    let check = |bytes: &[u8]| {
        if let Some(entries) = parse_index(bytes) {
            let mut printed: Vec<u8> = entries
                .iter()
                .flat_map(|(offset, length)| [offset.to_le_bytes(), length.to_le_bytes()].concat())
                .collect();
            printed.extend(crc32c::crc32c(&printed).to_le_bytes());
            assert_eq!(printed, bytes);
        }
        for flat in [Flat::new(64, 1), Flat::new(64, 4), Flat::side()] {
            let flat_index = flat.index();
            let ours = bytes.get(..flat_index.len()) == Some(&flat_index);
            assert_eq!(flat.index_kind(bytes) == IndexKind::Flat, ours);
        }
    };
    check(data);
    let mut sealed = data.to_vec();
    sealed.extend(crc32c::crc32c(data).to_le_bytes());
    check(&sealed);
}

/// Parses a redo log, then operations of a valid record: they apply, and encode to operations that decode to the same.
pub fn redo_log(data: &[u8]) {
    if let Ok(opening) = log::parse_opening(data) {
        let mut records = log::Records::new(data, opening.records_at, opening.sequence);
        while let Some(Ok(_)) = records.next() {}
        let _ = records.end();
    }
    let mut records = log::Records::new(data, 0, 0);
    while let Some(Ok(_)) = records.next() {}
    let _ = records.end();
    let Ok(ops) = postcard::from_bytes::<Vec<Op>>(data) else {
        return;
    };
    let mut record = Vec::new();
    log::begin(&mut record, ops.len());
    ops.iter().for_each(|op| log::push(&mut record, op));
    if log::finish(&mut record, 1).is_some() {
        let mut again = log::Records::new(&record, 0, 0);
        match again.next() {
            // NaN is not equal to itself.
            Some(Ok((1, back))) => assert_eq!(format!("{ops:?}"), format!("{back:?}")),
            // Names with control characters, for example.
            Some(Err(_)) if !log::is_plausible(&ops) => {}
            _ => panic!("a record of {} operations does not read back", ops.len()),
        }
    }
    if let Some(meta) = some_meta() {
        let mut state = SignalState::new(SignalId(1), "fuzz", meta);
        ops.iter().for_each(|op| state.apply(op));
        let _ = (state.sample_count(), state.tables());
    }
}

/// Parses a table file, and rows of gaps; accepted ones encode to the same, and their sums match.
pub fn gap_table(data: &[u8]) {
    let rows =
        TableFile::decode(data, 16, &ROWS).map_or_else(|_| data.to_vec(), |table| table.rows);
    let rows: Vec<i64> = rows
        .as_chunks::<8>()
        .0
        .iter()
        .map(|number| i64::from_le_bytes(*number))
        .collect();
    let rows = &rows[..rows.len() / 2 * 2];
    for end in [0, 1 << 20, i64::MAX] {
        let Ok(table) = GapTable::from_rows(rows, end) else {
            continue;
        };
        assert_eq!(table.rows(), rows);
        let missing: i128 = rows.chunks_exact(2).map(|gap| i128::from(gap[1])).sum();
        assert_eq!(i128::from(table.missing_within(0..end)), missing);
        for gap in table.iter().take(64) {
            assert_eq!(table.at(gap.start), Some(gap));
        }
    }
    if let Some(meta) = some_meta() {
        let table = Table {
            name: GAPS,
            columns: 2,
            rows: rows.to_vec(),
            text: Vec::new(),
        };
        let _ = SignalState::from_tables(SignalId(1), "fuzz", meta, 1 << 20, &[table]);
    }
}

/// Parses MANIFEST (also with corrected checksum), the record of views, and a signal's `zarr.json`.
pub fn metadata(data: &[u8]) {
    let _ = manifest::Manifest::parse(data);
    if let Ok(text) = std::str::from_utf8(data) {
        let line = format!("{}\n", text.replace('\n', " "));
        let sealed = format!("{line}{:08x}\n", crc32c::crc32c(line.as_bytes()));
        if let Ok(manifest) = manifest::Manifest::parse(sealed.as_bytes()) {
            assert_eq!(
                manifest::Manifest::parse(&manifest.to_bytes()),
                Ok(manifest)
            );
        }
    }
    if let Some(record) = Record::parse(data) {
        assert_eq!(Record::parse(&record.to_bytes()), Some(record));
    }
    if let Some(meta) = some_meta() {
        let _ = compare(data, &zarr::signal_group(SignalId(1), &meta, None));
        let _ = compare(data, &zarr::data_array(&meta, 1000));
    }
}

/// Parses a snapshot of a store, and of a signal; the latter encodes to the same.
pub fn snapshot(data: &[u8]) {
    let _ = StoreSnapshot::from_bytes(data);
    let Ok(snapshot) = SignalSnapshot::from_bytes(data) else {
        return;
    };
    let bytes = snapshot.to_bytes().expect("what was decoded is encoded");
    let again = SignalSnapshot::from_bytes(&bytes).expect("what was encoded is decoded");
    // NaN is not equal to itself.
    assert_eq!(format!("{snapshot:?}"), format!("{again:?}"));
}
