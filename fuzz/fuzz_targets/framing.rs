//! Streams cut into records and buffers by workers: the records of a naive division, or an error that names one too
//! large for a buffer.
#![no_main]

use std::sync::Mutex;

use isochrony_nbuf::{
    BufferOutput, Framing, Input, NbufError, Options, Order, Output, PerRecord, Prefix, run,
};

enum Rule {
    Stride(usize),
    Delimited(Vec<u8>),
    Fixed { bytes: usize, big_endian: bool },
    Varint { max_length: u64 },
}

impl Rule {
    fn framing(&self) -> Framing {
        match self {
            Self::Stride(stride) => Framing::Stride(*stride),
            Self::Delimited(delimiter) => Framing::Delimited(delimiter.clone()),
            Self::Fixed {
                bytes,
                big_endian: true,
            } => Framing::Prefixed(Prefix::big_endian(*bytes)),
            Self::Fixed { bytes, .. } => Framing::Prefixed(Prefix::little_endian(*bytes)),
            Self::Varint { max_length } => {
                Framing::Prefixed(Prefix::varint().with_max_length(*max_length))
            }
        }
    }

    /// Base and digits of the length, most significant first; None: not known yet.
    fn digits(&self, record: &[u8]) -> Option<(u128, Vec<u8>)> {
        match self {
            Self::Fixed { bytes, big_endian } => {
                let mut digits = record.get(..*bytes)?.to_vec();
                if !big_endian {
                    digits.reverse();
                }
                Some((256, digits))
            }
            Self::Varint { .. } => {
                let last = record.iter().position(|byte| *byte < 128)?;
                Some((
                    128,
                    record[..=last]
                        .iter()
                        .rev()
                        .map(|byte| byte % 128)
                        .collect(),
                ))
            }
            _ => None,
        }
    }

    fn length(&self, record: &[u8]) -> Option<u128> {
        let (base, digits) = self.digits(record)?;
        let follow = digits.iter().fold(0_u128, |all, digit| {
            all.saturating_mul(base).saturating_add(u128::from(*digit))
        });
        Some(follow)
    }

    fn is_whole(&self, record: &[u8]) -> bool {
        match self {
            Self::Stride(stride) => record.len() == *stride,
            Self::Delimited(delimiter) => record.ends_with(delimiter),
            _ => {
                self.digits(record)
                    .zip(self.length(record))
                    .is_some_and(|((_, digits), length)| {
                        record.len() as u128 == digits.len() as u128 + length
                    })
            }
        }
    }

    fn is_faulty(&self, record: &[u8]) -> bool {
        let Self::Varint { max_length } = self else {
            return false;
        };
        let overlong =
            record.len() >= 10 && record[..9].iter().all(|byte| *byte >= 128) && record[9] > 1;
        overlong
            || self
                .length(record)
                .is_some_and(|length| length > u128::from(*max_length))
    }
}

/// Ends of the records, and where a faulty prefix begins; the last record may be short.
fn naive(rule: &Rule, bytes: &[u8]) -> (Vec<usize>, Option<usize>) {
    let (mut ends, mut begin) = (Vec::new(), 0);
    for end in 1..=bytes.len() {
        let record = &bytes[begin..end];
        if rule.is_faulty(record) {
            return (ends, Some(begin));
        }
        if rule.is_whole(record) || end == bytes.len() {
            ends.push(end);
            begin = end;
        }
    }
    (ends, None)
}

/// One byte or three per call, like a pipe.
struct Pieces<'a>(&'a [u8], usize);

impl std::io::Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let length = self.1.min(into.len());
        self.0.read(&mut into[..length])
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [kind, size, how, bytes @ ..] = data else {
        return;
    };
    let rule = match kind % 4 {
        0 => Rule::Stride(usize::from(*size) + 1),
        1 => {
            let length = usize::from(size % 4) + 1;
            let Some(delimiter) = bytes.get(..length) else {
                return;
            };
            Rule::Delimited(delimiter.to_vec())
        }
        2 => Rule::Fixed {
            bytes: [1, 2, 4, 8][usize::from(size % 4)],
            big_endian: how & 1 == 1,
        },
        _ => Rule::Varint {
            max_length: u64::from(*size) << (how & 1) * 50,
        },
    };
    let options = Options {
        order: [Order::Both, Order::Output][usize::from(how >> 1 & 1)],
        workers: Some(usize::from(how >> 2 & 1) + 1),
        memory: 1 << 20,
        buffer: Some(1 + usize::from(how >> 3) * 16),
        framing: rule.framing(),
        ..Options::default()
    };
    let seen = Mutex::new(0);
    let count = PerRecord(|record: &[u8], out: &mut BufferOutput<'_>| {
        *seen.lock().expect("nobody panics") += record.len();
        Ok(out.write(0, record)?)
    });
    let mut output = Vec::new();
    let input = match kind / 4 % 2 {
        0 => Input::bytes(bytes),
        _ => Input::reader(Pieces(bytes, 1 + usize::from(size % 3))),
    };
    match run(
        &options,
        vec![input],
        &count,
        vec![Output::writer(&mut output)],
        &mut |_| true,
    ) {
        Ok(report) => {
            let (ends, fault) = naive(&rule, bytes);
            assert_eq!((report.records, fault), (ends.len() as u64, None));
            assert_eq!(*seen.lock().expect("nobody panics"), bytes.len());
            assert!(output == bytes, "ordered output of everything is the input");
        }
        Err(failure) => {
            let text = failure.to_string();
            match failure.error {
                NbufError::Record { length, offset, .. } => {
                    assert!(offset < bytes.len() as u64, "{text}");
                    assert!(length.is_none_or(|length| length > 1), "{text}");
                }
                NbufError::Prefix { offset, .. } => {
                    let (ends, fault) = naive(&rule, bytes);
                    assert_eq!(fault, Some(offset as usize), "{text}");
                    let before = ends.last().copied().unwrap_or(0);
                    assert!(output == bytes[..before], "{text}");
                }
                NbufError::Option { .. } | NbufError::Memory { .. } => {}
                _ => panic!("{text}"),
            }
        }
    }
});
