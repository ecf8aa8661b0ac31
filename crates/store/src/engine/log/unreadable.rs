//! Why a log is unreadable: a newer version, or damage.

use std::path::Path;

use crate::error::StoreError;
use crate::op::Op;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// Offset and reason.
    Damaged(u64, &'static str),
    /// Written by a newer version.
    Newer {
        what: &'static str,
        got: u64,
        supported: u64,
    },
}

impl Unreadable {
    pub(crate) fn beginning_at(self, offset: u64) -> Self {
        match self {
            Self::Damaged(at, reason) => Self::Damaged(offset + at, reason),
            newer => newer,
        }
    }

    pub(crate) fn error(self, path: &Path) -> StoreError {
        let path = path.to_path_buf();
        match self {
            Self::Damaged(offset, reason) => StoreError::DamagedFile {
                path,
                offset,
                reason,
            },
            Self::Newer {
                what,
                got,
                supported,
            } => StoreError::NewerFormat {
                path,
                what,
                got,
                supported,
            },
        }
    }
}

/// The record's checksum is valid: a failure is not a torn write.
pub(super) fn decode(payload: &[u8], at: usize) -> Result<Vec<Op>, Unreadable> {
    postcard::from_bytes(payload).map_err(|_| {
        let reason = "a record's operations make no sense";
        unknown_operation(payload).unwrap_or(Unreadable::Damaged(at as u64, reason))
    })
}

fn unknown_operation(payload: &[u8]) -> Option<Unreadable> {
    let (count, mut rest) = postcard::take_from_bytes::<u64>(payload).ok()?;
    for _ in 0..count {
        match postcard::take_from_bytes::<Op>(rest) {
            Ok((_, behind)) => rest = behind,
            Err(_) => {
                let (kind, _) = postcard::take_from_bytes::<u32>(rest).ok()?;
                return (!is_known(kind)).then(|| Unreadable::Newer {
                    what: "operation",
                    got: kind.into(),
                    supported: (0..kind)
                        .rev()
                        .find(|kind| is_known(*kind))
                        .unwrap_or(0)
                        .into(),
                });
            }
        }
    }
    None
}

/// Decoding it without fields always fails; an unknown number fails first.
fn is_known(kind: u32) -> bool {
    let number = postcard::to_stdvec(&kind).unwrap_or_default();
    !matches!(
        postcard::from_bytes::<Op>(&number),
        Err(postcard::Error::SerdeDeCustom)
    )
}

#[cfg(test)]
mod tests {
    use super::super::{Header, Records, begin, finish, opening_bytes, parse_opening, push};
    use super::*;
    use crate::op::SignalId;

    const NEW: u32 = 250;

    fn header() -> Header {
        Header {
            uuid: [7; 16],
            generation: 1,
            boot: "boot".into(),
            next_signal: 2,
        }
    }

    fn of_the_future() -> Vec<u8> {
        let mut record = Vec::new();
        begin(&mut record, 2);
        let (id, end) = (SignalId(1), 5);
        push(&mut record, &Op::End { id, end });
        record.extend(postcard::to_stdvec(&(NEW, 1u64, "fields")).unwrap());
        finish(&mut record, 1).unwrap();
        record
    }

    #[test]
    fn reports_an_unknown_operation_as_newer() {
        let record = of_the_future();
        let read = Records::new(&record, 0, 0).next().unwrap();
        let Err(Unreadable::Newer {
            what,
            got,
            supported,
        }) = read
        else {
            panic!("{read:?}")
        };
        assert_eq!((what, got), ("operation", u64::from(NEW)));
        assert!(is_known(supported as u32) && !is_known(supported as u32 + 1));

        // The base is a record too.
        let mut log = opening_bytes(&header(), 0, std::iter::empty()).unwrap();
        log.truncate(parse_opening(&log).unwrap().records_at - finished_empty().len());
        log.extend(of_the_future());
        assert_eq!(parse_opening(&log).unwrap_err(), read.unwrap_err());
    }

    fn finished_empty() -> Vec<u8> {
        let mut record = Vec::new();
        begin(&mut record, 0);
        finish(&mut record, 0).unwrap();
        record
    }

    #[test]
    fn reports_an_unknown_format_as_newer() {
        let mut log = opening_bytes(&header(), 0, std::iter::empty()).unwrap();
        log[8] = 9;
        let error = parse_opening(&log).unwrap_err();
        let error = error.error(Path::new("a.iso/.isochrony/log.1"));
        assert_eq!(error.code(), "newer_format", "{error}");
        assert!(error.to_string().contains("format 9"), "{error}");
    }

    #[test]
    fn reports_a_truncated_operation_as_damage() {
        let mut record = Vec::new();
        begin(&mut record, 2);
        let (id, end) = (SignalId(1), 5);
        push(&mut record, &Op::End { id, end });
        finish(&mut record, 1).unwrap();
        let read = Records::new(&record, 0, 0).next().unwrap();
        assert!(matches!(read, Err(Unreadable::Damaged(0, _))), "{read:?}");
    }
}
