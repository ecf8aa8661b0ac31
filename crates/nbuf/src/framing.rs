use memchr::memmem;

use crate::prefix::{Prefix, PrefixFault};

/// How a stream divides into records, which include their delimiter or prefix. An input's last record may be short.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Framing {
    /// Records of this many bytes.
    Stride(usize),
    /// Records that end with these bytes.
    Delimited(Vec<u8>),
    /// Records that begin with the number of following bytes.
    Prefixed(Prefix),
}

impl Framing {
    /// The shortest buffer that can hold a record, as far as known.
    pub(crate) fn shortest_buffer(&self) -> usize {
        match self {
            Self::Stride(stride) => *stride,
            Self::Delimited(delimiter) => delimiter.len(),
            Self::Prefixed(prefix) => prefix.min_bytes(),
        }
    }

    /// The length of records, if equal, which gives their ends without reading.
    pub(crate) fn stride(&self) -> Option<usize> {
        match self {
            Self::Stride(stride) => Some(*stride),
            _ => None,
        }
    }

    /// The length of the first record, if it ends within `bytes`.
    fn end(&self, bytes: &[u8]) -> Option<usize> {
        let end = match self {
            Self::Stride(stride) => Some(*stride as u64),
            Self::Delimited(delimiter) => match delimiter.as_slice() {
                [byte] => memchr::memchr(*byte, bytes).map(|at| at as u64 + 1),
                _ => memmem::find(bytes, delimiter).map(|at| (at + delimiter.len()) as u64),
            },
            // A record with a faulty prefix has no end.
            Self::Prefixed(prefix) => prefix.record_length(bytes).unwrap_or(None),
        };
        end.filter(|end| *end <= bytes.len() as u64)
            .map(|end| end as usize)
    }

    /// The length of whole records in `bytes`, which begin with a record.
    pub(crate) fn whole(&self, bytes: &[u8]) -> usize {
        match self {
            Self::Stride(stride) => bytes.len() - bytes.len() % stride,
            // Searched from the end. A longer delimiter may overlap itself, as "aa" in "aaa", and is then found
            // elsewhere than from the beginning.
            Self::Delimited(delimiter) if delimiter.len() == 1 => {
                memchr::memrchr(delimiter[0], bytes).map_or(0, |at| at + 1)
            }
            _ => {
                let mut at = 0;
                while let Some(length) = self.end(&bytes[at..]) {
                    at += length;
                }
                at
            }
        }
    }

    /// The length of the first record by its prefix.
    pub(crate) fn announced(&self, bytes: &[u8]) -> Option<u64> {
        match self {
            Self::Prefixed(prefix) => prefix.record_length(bytes).ok().flatten(),
            _ => None,
        }
    }

    pub(crate) fn prefix_fault(&self, bytes: &[u8]) -> Option<PrefixFault> {
        match self {
            Self::Prefixed(prefix) => prefix.record_length(bytes).err(),
            _ => None,
        }
    }

    /// Records in `bytes`, the last of which may be short.
    pub(crate) fn count(&self, bytes: &[u8]) -> u64 {
        match self {
            Self::Stride(stride) => bytes.len().div_ceil(*stride) as u64,
            Self::Delimited(delimiter) if delimiter.len() == 1 => {
                let ends = memchr::memchr_iter(delimiter[0], bytes).count() as u64;
                ends + u64::from(bytes.last().is_some_and(|last| *last != delimiter[0]))
            }
            _ => Records::new(self, bytes).count() as u64,
        }
    }
}

/// The records of a block, in order.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    framing: &'a Framing,
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    pub(crate) fn new(framing: &'a Framing, bytes: &'a [u8]) -> Self {
        Self {
            framing,
            rest: bytes,
        }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let length = match self.framing.end(self.rest) {
            // A length of 0 would loop forever.
            Some(length) => length.max(1),
            None => self.rest.len(),
        };
        let (record, rest) = self.rest.split_at(length);
        self.rest = rest;
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records<'a>(framing: &'a Framing, bytes: &'a [u8]) -> Vec<&'a [u8]> {
        Records::new(framing, bytes).collect()
    }

    #[test]
    fn the_last_record_of_a_stride_may_be_short() {
        let framing = Framing::Stride(3);
        assert_eq!(records(&framing, b"abcdefgh"), [&b"abc"[..], b"def", b"gh"]);
        assert_eq!(framing.whole(b"abcdefgh"), 6);
        assert_eq!(framing.count(b"abcdefgh"), 3);
    }

    #[test]
    fn delimited_records_keep_their_delimiter() {
        let framing = Framing::Delimited(b"\n".to_vec());
        assert_eq!(records(&framing, b"a\n\nbc"), [&b"a\n"[..], b"\n", b"bc"]);
        assert_eq!(framing.whole(b"a\n\nbc"), 3);
        assert_eq!(framing.count(b"a\n\nbc"), 3);
        assert_eq!(framing.count(b"a\n"), 1);
    }

    #[test]
    fn a_delimiter_that_overlaps_itself_is_searched_from_the_front() {
        let framing = Framing::Delimited(b"aa".to_vec());
        assert_eq!(records(&framing, b"aaab"), [&b"aa"[..], b"ab"]);
        assert_eq!(framing.whole(b"aaa"), 2);
        assert_eq!(framing.count(b"xaaaaa"), 3);
    }

    #[test]
    fn a_prefix_tells_the_length() {
        let little = Framing::Prefixed(Prefix::little_endian(2));
        let bytes = [1, 0, 9, 0, 0, 3, 0, 7];
        assert_eq!(
            records(&little, &bytes),
            [&bytes[..3], &bytes[3..5], &bytes[5..]]
        );
        assert_eq!(little.whole(&bytes), 5);
        assert_eq!(little.announced(&bytes[5..]), Some(5));
        assert_eq!(little.announced(&[1]), None);
        let big = Framing::Prefixed(Prefix::big_endian(8));
        assert_eq!(big.announced(&[255; 8]), Some(u64::MAX));
        assert_eq!(big.whole(&[255; 9]), 0);
    }
}
