//! Headers of miniSEED records of version 2.
//!
//! Equivalent to `importers/mseed_records.py`, the oracle of the tests; what that would report is `None` here.
//!
//! Source: SEED Reference Manual 2.4, chapter 8.

use std::ops::RangeInclusive;

use isochrony_time::civil;

pub(super) const FIXED_BYTES: usize = 48;
const FIXED_BYTES_V3: usize = 40;
const MAX_BYTES_V3: u64 = 10 << 20;
pub(super) const BLOCKETTE_OFFSET_LIMIT: usize = 8192;
const LENGTH_EXPONENTS: RangeInclusive<u8> = 6..=20;
/// The manual allows up to 9999; writers that round up give 10000 or more.
const MAX_TICKS: u16 = 20_000;
const TICK_NS: i64 = 100_000;
const NS_PER_SECOND: i64 = 1_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Recording {
    codes: [u8; 12],
    rate: (i16, i16),
    /// Bits of blockette 100's rate.
    stated_rate: Option<u32>,
    has_microseconds: bool,
    /// Encoding by blockette 1000.
    pub(super) encoding: u8,
    pub(super) little_endian: bool,
}

/// A header with a stated record length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) recording: Recording,
    /// Time of the first sample, ns since 1970.
    pub(super) start_ns: i64,
    pub(super) samples: u16,
    pub(super) data_offset: usize,
    pub(super) length: usize,
    /// Whether it contains a positive leap second.
    pub(super) leap: bool,
}

#[derive(Clone, Copy)]
struct Fields<'a> {
    bytes: &'a [u8],
    little_endian: bool,
}

impl Fields<'_> {
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        let mut bytes: [u8; N] = *self.bytes.get(at..)?.first_chunk()?;
        if self.little_endian {
            bytes.reverse();
        }
        Some(bytes)
    }

    fn u8(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    fn u16(&self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_be_bytes)
    }

    fn i16(&self, at: usize) -> Option<i16> {
        self.array(at).map(i16::from_be_bytes)
    }

    fn u32(&self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_be_bytes)
    }

    fn is_header(&self) -> Option<bool> {
        let is_time = (1900..=2100).contains(&self.u16(20)?)
            && (1..=366).contains(&self.u16(22)?)
            && self.u8(24)? <= 23
            && self.u8(25)? <= 59
            && self.u8(26)? <= 60
            && self.u16(28)? < MAX_TICKS;
        let (data, blockette): (usize, usize) = (self.u16(44)?.into(), self.u16(46)?.into());
        let is_offset = (data == 0 || data >= FIXED_BYTES)
            && (blockette == 0 || (FIXED_BYTES..BLOCKETTE_OFFSET_LIMIT).contains(&blockette));
        Some(is_time && is_offset)
    }

    /// Time of the first sample, ns since 1970, without microseconds.
    fn start_ns(&self) -> Option<i64> {
        let days = civil::days_from_ymd(self.u16(20)?.into(), 1, 1)? + i64::from(self.u16(22)?) - 1;
        let hours = days * 24 + i64::from(self.u8(24)?);
        let seconds = (hours * 60 + i64::from(self.u8(25)?)) * 60 + i64::from(self.u8(26)?);
        // Bit 1 of the activity flags: the correction is applied already.
        let correction = match self.u8(36)? & 0x02 {
            0 => i64::from(self.u32(40)?.cast_signed()),
            _ => 0,
        };
        Some(seconds * NS_PER_SECOND + (i64::from(self.u16(28)?) + correction) * TICK_NS)
    }
}

/// In the byte order in which all fields are valid.
fn fields(head: &[u8]) -> Option<Fields<'_>> {
    let fixed: &[u8; FIXED_BYTES] = head.first_chunk()?;
    // Writers without sequence numbers leave blanks or zeros.
    let is_sequence = |byte: &u8| matches!(byte, 0 | b' '..=b'~');
    if !matches!(fixed[6], b'D' | b'R' | b'Q' | b'M')
        || !matches!(fixed[7], b' ' | 0)
        || !fixed[..6].iter().all(is_sequence)
    {
        return None;
    }
    let orders = [false, true].map(|little_endian| Fields {
        bytes: head,
        little_endian,
    });
    orders
        .into_iter()
        .find(|fields| fields.is_header() == Some(true))
}

impl Header {
    /// `is_all`: `bytes` reach to the end of the file. `None` without a header, if blockettes end behind `bytes`, or
    /// unless they state encoding and length exactly once.
    pub(super) fn read(bytes: &[u8], is_all: bool) -> Option<Self> {
        let bytes = &bytes[..bytes.len().min(BLOCKETTE_OFFSET_LIMIT)];
        let fields = fields(bytes)?;
        let mut start_ns = fields.start_ns()?;
        let (mut encoding, mut length, mut stated_rate, mut has_microseconds) =
            (None, None, None, false);
        let mut little_endian = fields.little_endian;
        let mut at = usize::from(fields.u16(46)?);
        while (FIXED_BYTES..=BLOCKETTE_OFFSET_LIMIT - 8).contains(&at) {
            if at + 8 > bytes.len() {
                if is_all {
                    break;
                }
                return None;
            }
            let (kind, following) = (fields.u16(at)?, fields.u16(at + 2)?.into());
            match kind {
                1000 => {
                    let exponent = fields.u8(at + 6)?;
                    encoding = Some(fields.u8(at + 4)?);
                    little_endian = fields.u8(at + 5)? == 0;
                    length = LENGTH_EXPONENTS.contains(&exponent).then(|| 1 << exponent);
                }
                1001 => {
                    start_ns += i64::from(fields.u8(at + 5)?.cast_signed()) * 1000;
                    has_microseconds = true;
                }
                // Only the Python reader compares a second one.
                100 if stated_rate.is_some() => return None,
                100 => stated_rate = Some(fields.u32(at + 4)?),
                _ => {}
            }
            // The chain ends unless it leads forward.
            if following <= at {
                break;
            }
            at = following;
        }
        Some(Self {
            recording: Recording {
                codes: *bytes.get(8..)?.first_chunk()?,
                rate: (fields.i16(32)?, fields.i16(34)?),
                stated_rate,
                has_microseconds,
                encoding: encoding?,
                little_endian,
            },
            start_ns,
            samples: fields.u16(30)?,
            data_offset: fields.u16(44)?.into(),
            length: length?,
            leap: fields.u8(36)? & 0x10 != 0,
        })
    }
}

pub(super) fn is_data(head: &[u8]) -> bool {
    fields(head).is_some() || is_version_3(head) == Some(true)
}

fn is_version_3(head: &[u8]) -> Option<bool> {
    let fields = Fields {
        bytes: head
            .first_chunk::<FIXED_BYTES_V3>()
            .filter(|head| head.starts_with(b"MS\x03"))?,
        little_endian: true,
    };
    let is_time = (1..=366).contains(&fields.u16(10)?)
        && fields.u8(12)? <= 23
        && fields.u8(13)? <= 59
        && fields.u8(14)? <= 60
        && fields.u32(4)? < 1_000_000_000;
    let length = FIXED_BYTES_V3 as u64
        + u64::from(fields.u8(33)?)
        + u64::from(fields.u16(34)?)
        + u64::from(fields.u32(36)?);
    Some(is_time && length <= MAX_BYTES_V3)
}

pub(super) fn is_control(head: &[u8]) -> bool {
    let Some(head) = head.first_chunk::<8>() else {
        return false;
    };
    head[..6].iter().all(u8::is_ascii_digit)
        && matches!(head[6], b'V' | b'A' | b'S' | b'T')
        && matches!(head[7], b' ' | b'*')
}
