//! Streams cut into records and buffers by workers: the records of a division byte by byte, or an error that names one
//! which fits in no buffer.
#![no_main]

use std::sync::Mutex;

use isochrony_nbuf::{
    BufferOutput, Framing, Input, NbufError, Options, Order, Output, PerRecord, Prefix, run,
};

/// Ends of the records, told byte by byte; the last record may be short.
fn naive(framing: &Framing, bytes: &[u8]) -> Vec<usize> {
    let (mut ends, mut begin) = (Vec::new(), 0);
    for end in 1..=bytes.len() {
        let record = &bytes[begin..end];
        let whole = match framing {
            Framing::Stride(stride) => record.len() == *stride,
            Framing::Delimited(delimiter) => record.ends_with(delimiter),
            Framing::Prefixed(prefix) => record.get(..prefix.bytes).is_some_and(|digits| {
                let mut digits = digits.to_vec();
                if !prefix.big_endian {
                    digits.reverse();
                }
                let follow = digits
                    .iter()
                    .fold(0_u128, |all, digit| all * 256 + u128::from(*digit));
                record.len() as u128 == prefix.bytes as u128 + follow
            }),
            _ => unreachable!("no other framing"),
        };
        if whole || end == bytes.len() {
            ends.push(end);
            begin = end;
        }
    }
    ends
}

/// One byte a call, or three: what pipes give.
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
    let framing = match kind % 3 {
        0 => Framing::Stride(usize::from(*size) + 1),
        1 => {
            let length = usize::from(size % 4) + 1;
            let Some(delimiter) = bytes.get(..length) else {
                return;
            };
            Framing::Delimited(delimiter.to_vec())
        }
        _ => Framing::Prefixed(Prefix {
            bytes: [1, 2, 4, 8][usize::from(size % 4)],
            big_endian: how & 1 == 1,
        }),
    };
    let options = Options {
        order: [Order::Both, Order::Output][usize::from(how >> 1 & 1)],
        workers: Some(usize::from(how >> 2 & 1) + 1),
        memory: 1 << 20,
        buffer: Some(1 + usize::from(how >> 3) * 16),
        framing: framing.clone(),
        ..Options::default()
    };
    let seen = Mutex::new(0);
    let count = PerRecord(|record: &[u8], out: &mut BufferOutput<'_>| {
        *seen.lock().expect("nobody panics") += record.len();
        Ok(out.write(0, record)?)
    });
    let mut output = Vec::new();
    let input = match kind / 3 % 2 {
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
            assert_eq!(report.records, naive(&framing, bytes).len() as u64);
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
                NbufError::Option { .. } | NbufError::Memory { .. } => {}
                _ => panic!("{text}"),
            }
        }
    }
});
