//! Table files: rows in one self-describing shard.
//!
//! A table is a sharded Zarr array of one shard, replaced by renaming. `zarr.json` cannot be replaced atomically with
//! it, so the file describes itself between index and payload:
//!
//! ```text
//! 0                index of all inner chunks of the geometry, crc32c
//! (multiple of 8)  header, 96 bytes: see `Header`
//! payload_start    inner chunks with the rows, the last one zero-filled
//! attachment_at    bytes that no Zarr reader sees (the rows of `events/table` behind the text of `events/text`)
//! ```

use super::flat::Flat;

const MAGIC: [u8; 8] = *b"ISOTABLE";
const FORMAT: u32 = 1;
const HEADER_LEN: usize = 96;

/// Rows per inner chunk and inner chunks of tables; the smallest sufficient geometry is used.
pub const ROWS: [(u64, u64); 3] = [(256, 256), (8_192, 512), (65_536, 4_096)];
/// Bytes per inner chunk and inner chunks of text.
pub const TEXT: [(u64, u64); 3] = [(4_096, 256), (65_536, 4_096), (1 << 20, 1 << 16)];

/// Text of events' rows. Two files cannot be replaced atomically, so its file holds the rows too; the array of rows is
/// for other readers.
pub(crate) const TEXT_ARRAY: &str = "events/text";

/// Geometry of a table's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes per row.
    pub row_bytes: u64,
    /// Rows per inner chunk.
    pub chunk_rows: u64,
    /// Number of inner chunks.
    pub chunks: u64,
}

impl Geometry {
    /// The smallest of `choices` for `rows`, if any.
    #[must_use]
    pub fn for_rows(row_bytes: u64, rows: u64, choices: &[(u64, u64)]) -> Option<Self> {
        choices
            .iter()
            .find(|(chunk_rows, chunks)| rows <= chunk_rows * chunks)
            .map(|&(chunk_rows, chunks)| Self {
                row_bytes,
                chunk_rows,
                chunks,
            })
    }

    fn header_at(self) -> u64 {
        Flat::index_len(self.chunks).next_multiple_of(8)
    }

    fn flat(self) -> Flat {
        Flat {
            chunk_bytes: self.row_bytes * self.chunk_rows,
            chunks: self.chunks,
            payload_start: (self.header_at() + HEADER_LEN as u64).next_multiple_of(4096),
        }
    }
}

/// A table's rows as bytes, with an attachment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableFile {
    /// Id of the signal.
    pub signal: u64,
    /// Last commit in them.
    pub sequence: u64,
    /// Rows in little endian.
    pub rows: Vec<u8>,
    /// Bytes after the array.
    pub attachment: Vec<u8>,
}

/// A table file: two pieces with a hole between.
#[derive(Debug)]
pub struct EncodedTable {
    /// Index and header, from byte 0.
    pub head: Vec<u8>,
    /// Offset of the rows.
    pub payload_start: u64,
    /// Offset of the attachment.
    pub attachment_at: u64,
    /// Length of the file.
    pub len: u64,
}

impl TableFile {
    /// The encoded file without rows and attachment.
    #[must_use]
    pub fn encode(&self, geometry: Geometry) -> EncodedTable {
        let flat = geometry.flat();
        let attachment_at = flat.file_len(self.rows.len() as u64);
        let mut head = flat.index();
        head.resize(geometry.header_at() as usize, 0);
        let from = head.len();
        head.extend(MAGIC);
        head.extend(FORMAT.to_le_bytes());
        head.extend(crc32c::crc32c(&self.rows).to_le_bytes());
        for number in [
            self.signal,
            self.sequence,
            geometry.row_bytes,
            geometry.chunk_rows,
            geometry.chunks,
            self.rows.len() as u64,
            attachment_at,
            self.attachment.len() as u64,
        ] {
            head.extend(number.to_le_bytes());
        }
        head.extend(crc32c::crc32c(&self.attachment).to_le_bytes());
        head.extend([0; 8]);
        head.extend(crc32c::crc32c(&head[from..]).to_le_bytes());
        debug_assert_eq!(head.len() - from, HEADER_LEN);
        EncodedTable {
            head,
            payload_start: flat.payload_start,
            attachment_at,
            len: attachment_at + self.attachment.len() as u64,
        }
    }

    /// Decodes rows of `row_bytes` in a geometry of `choices`.
    ///
    /// # Errors
    /// Offset and reason.
    pub fn decode(
        bytes: &[u8],
        row_bytes: u64,
        choices: &[(u64, u64)],
    ) -> Result<Self, (u64, &'static str)> {
        for &(chunk_rows, chunks) in choices {
            let geometry = Geometry {
                row_bytes,
                chunk_rows,
                chunks,
            };
            let at = geometry.header_at();
            let header = slice(bytes, at, HEADER_LEN as u64);
            if let Some(header) = header.filter(|header| header.starts_with(&MAGIC)) {
                return Self::decode_as(bytes, header, geometry)
                    .map_err(|(offset, reason)| (at * u64::from(offset == 0) + offset, reason));
            }
        }
        Err((0, "it has no table header"))
    }

    fn decode_as(
        bytes: &[u8],
        header: &[u8],
        geometry: Geometry,
    ) -> Result<Self, (u64, &'static str)> {
        let flat = geometry.flat();
        let u32_at = |at: usize| slice(header, at as u64, 4).map_or(0, |b| number(b) as u32);
        let u64_at = |at: usize| slice(header, at as u64, 8).map_or(0, number);
        if crc32c::crc32c(&header[..HEADER_LEN - 4]) != u32_at(HEADER_LEN - 4) {
            return Err((0, "the header's checksum is wrong"));
        }
        if u32_at(8) > FORMAT {
            return Err((0, "the table has a newer format"));
        }
        let written = [u64_at(32), u64_at(40), u64_at(48)];
        if written != [geometry.row_bytes, geometry.chunk_rows, geometry.chunks] {
            return Err((0, "the header names another geometry"));
        }
        let rows = slice(bytes, flat.payload_start, u64_at(56))
            .filter(|rows| (rows.len() as u64).is_multiple_of(geometry.row_bytes))
            .ok_or((flat.payload_start, "rows are cut off"))?;
        if crc32c::crc32c(rows) != u32_at(12) {
            return Err((flat.payload_start, "the rows' checksum is wrong"));
        }
        let attachment = slice(bytes, u64_at(64), u64_at(72))
            .ok_or((u64_at(64), "the attachment is cut off"))?;
        if crc32c::crc32c(attachment) != u32_at(80) {
            return Err((u64_at(64), "the attachment's checksum is wrong"));
        }
        Ok(Self {
            signal: u64_at(16),
            sequence: u64_at(24),
            rows: rows.to_vec(),
            attachment: attachment.to_vec(),
        })
    }
}

fn slice(bytes: &[u8], at: u64, len: u64) -> Option<&[u8]> {
    let at = usize::try_from(at).ok()?;
    bytes.get(at..at.checked_add(usize::try_from(len).ok()?)?)
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes_of(table: &TableFile, geometry: Geometry) -> Vec<u8> {
        let encoded = table.encode(geometry);
        let mut bytes = vec![0; encoded.len as usize];
        bytes[..encoded.head.len()].copy_from_slice(&encoded.head);
        let at = encoded.payload_start as usize;
        bytes[at..at + table.rows.len()].copy_from_slice(&table.rows);
        let at = encoded.attachment_at as usize;
        bytes[at..at + table.attachment.len()].copy_from_slice(&table.attachment);
        bytes
    }

    fn some_table() -> (TableFile, Geometry) {
        let table = TableFile {
            signal: 7,
            sequence: 99,
            rows: (0..300u32 * 16).map(|i| i as u8).collect(),
            attachment: vec![1, 2, 3],
        };
        (table, Geometry::for_rows(16, 300, &ROWS).unwrap())
    }

    #[test]
    fn every_geometry_reads_back() {
        for rows in [0u64, 1, 256, 65_536, 65_537, 4_194_305] {
            let table = TableFile {
                rows: vec![3; (rows * 8) as usize],
                ..some_table().0
            };
            let geometry = Geometry::for_rows(8, rows, &ROWS).unwrap();
            let back = TableFile::decode(&bytes_of(&table, geometry), 8, &ROWS).unwrap();
            assert!(back == table, "{rows} rows");
        }
    }

    #[test]
    fn any_flipped_bit_or_cut_that_matters_is_noticed() {
        let (table, geometry) = some_table();
        let good = bytes_of(&table, geometry);
        let header = geometry.header_at() as usize;
        let payload = geometry.flat().payload_start as usize;
        for at in (header..header + HEADER_LEN)
            .chain(payload..payload + table.rows.len())
            .chain(good.len() - 3..good.len())
        {
            let mut bad = good.clone();
            bad[at] ^= 16;
            assert!(TableFile::decode(&bad, 16, &ROWS).is_err(), "byte {at}");
        }
        for len in [0, 10, header + 4, payload, payload + 5, good.len() - 1] {
            assert!(
                TableFile::decode(&good[..len], 16, &ROWS).is_err(),
                "cut at {len}"
            );
        }
    }

    proptest! {
        #[test]
        fn parses_any_bytes_as_a_table_or_an_error(mut bytes in prop::collection::vec(any::<u8>(), 0..6000), seal in any::<bool>()) {
            if seal && bytes.len() > 4300 {
                bytes[4104..4112].copy_from_slice(&MAGIC);
                let crc = crc32c::crc32c(&bytes[4104..4196]);
                bytes[4196..4200].copy_from_slice(&crc.to_le_bytes());
            }
            let _ = TableFile::decode(&bytes, 16, &ROWS);
        }
    }
}
