//! Samples of miniSEED records: Steim 1 and 2, and plain numbers.
//!
//! Steim frames repeat the last sample, which is checked. A record that contradicts its header or has another encoding
//! gives `None`; the importer then reports the cause.
//!
//! Source: SEED Reference Manual 2.4, appendix B.

use isochrony_segment::{Buffer, BufferMut, DType, Sample};

/// One word of codes, fifteen of differences.
const FRAME: usize = 64;
const WORDS: usize = FRAME / 4;
const MAX_PER_WORD: usize = 7;

/// The payload of a record, and its header's statements.
#[derive(Debug, Clone, Copy)]
pub struct EncodedSamples<'a> {
    /// Bytes from the first sample to the record's end.
    pub payload: &'a [u8],
    /// Encoding by blockette 1000.
    pub encoding: u8,
    /// Byte order.
    pub little_endian: bool,
    /// Number of samples.
    pub count: usize,
}

impl EncodedSamples<'_> {
    /// The samples, in libmseed's type. `None` if they contradict the header, the encoding is not supported, or memory
    /// is short.
    ///
    /// ```
    /// use isochrony_ingest::EncodedSamples;
    /// use isochrony_segment::DType;
    ///
    /// let (payload, encoding, little_endian) = ([0, 1, 0xff, 0xfe].as_slice(), 1, false);
    /// let encoded = EncodedSamples { payload, encoding, little_endian, count: 2 };
    /// let (dtype, samples) = encoded.decode().unwrap();
    /// assert_eq!((dtype, samples.samples::<i32>()), (DType::I32, Some([1, -2].as_slice())));
    /// assert!(EncodedSamples { count: 3, ..encoded }.decode().is_none());
    /// ```
    #[must_use]
    pub fn decode(&self) -> Option<(DType, Buffer)> {
        let dtype = Self::dtype_of(self.encoding).filter(|_| self.fits())?;
        let mut samples = BufferMut::zeroed(self.count * dtype.size()).ok()?;
        self.decode_into(samples.bytes_mut())?;
        Some((dtype, samples.freeze()))
    }

    pub(super) fn dtype_of(encoding: u8) -> Option<DType> {
        match encoding {
            1 | 3 | 10 | 11 => Some(DType::I32),
            4 => Some(DType::F32),
            5 => Some(DType::F64),
            _ => None,
        }
    }

    pub(super) fn fits(&self) -> bool {
        let most = match self.encoding {
            1 => self.payload.len() / 2,
            3 | 4 => self.payload.len() / 4,
            5 => self.payload.len() / 8,
            _ => self.payload.len() / 4 * MAX_PER_WORD,
        };
        self.count <= most
    }

    pub(super) fn decode_into(&self, out: &mut [u8]) -> Option<()> {
        match self.encoding {
            1 => self.numbers::<2, i32>(out, |bytes| i16::from_be_bytes(bytes).into()),
            3 => self.numbers::<4, i32>(out, i32::from_be_bytes),
            4 => self.numbers::<4, f32>(out, f32::from_be_bytes),
            5 => self.numbers::<8, f64>(out, f64::from_be_bytes),
            10 => self.steim::<1>(out),
            11 => self.steim::<2>(out),
            _ => None,
        }
    }

    fn numbers<const WIDTH: usize, T: Sample>(
        &self,
        out: &mut [u8],
        of: impl Fn([u8; WIDTH]) -> T,
    ) -> Option<()> {
        let (encoded, _) = self.payload.as_chunks::<WIDTH>();
        let encoded = encoded.get(..self.count)?;
        let out: &mut [T] = bytemuck::try_cast_slice_mut(out).ok()?;
        for (sample, bytes) in out.iter_mut().zip(encoded) {
            let mut bytes = *bytes;
            if self.little_endian {
                bytes.reverse();
            }
            *sample = of(bytes);
        }
        Some(())
    }

    fn steim<const VERSION: u8>(&self, out: &mut [u8]) -> Option<()> {
        if self.count == 0 {
            return None;
        }
        let (frames, _) = self.payload.as_chunks::<FRAME>();
        let out: &mut [i32] = bytemuck::try_cast_slice_mut(out).ok()?;
        match self.little_endian {
            true => steim::<VERSION, true>(frames, out),
            false => steim::<VERSION, false>(frames, out),
        }
    }
}

struct SampleSums<'a> {
    samples: &'a mut [i32],
    filled: usize,
    last: i32,
}

impl SampleSums<'_> {
    #[inline(always)]
    fn add<const N: usize, const BITS: u32>(&mut self, word: u32) {
        let rest = &mut self.samples[self.filled..];
        let count = rest.len().min(N);
        for (k, sample) in rest[..count].iter_mut().enumerate() {
            let high = word << (32 - BITS * (N - k) as u32);
            self.last = self.last.wrapping_add(high.cast_signed() >> (32 - BITS));
            *sample = self.last;
        }
        self.filled += count;
    }
}

/// `None` if the frames contradict count or last value, or have an unknown code.
#[inline(always)]
fn steim<const VERSION: u8, const LITTLE: bool>(
    frames: &[[u8; FRAME]],
    samples: &mut [i32],
) -> Option<()> {
    let word = |frame: &[u8; FRAME], at: usize| {
        let at = 4 * at;
        let bytes = [frame[at], frame[at + 1], frame[at + 2], frame[at + 3]];
        match LITTLE {
            true => u32::from_le_bytes(bytes),
            false => u32::from_be_bytes(bytes),
        }
    };
    // Bytes and halves have the same positions in both byte orders.
    let bytes_of = |word: u32| if LITTLE { word.swap_bytes() } else { word };
    let halves_of = |word: u32| if LITTLE { word.rotate_left(16) } else { word };
    let head = frames.first()?;
    let (first, stored_last) = (word(head, 1).cast_signed(), word(head, 2).cast_signed());
    let mut sums = SampleSums {
        samples,
        filled: 0,
        last: 0,
    };
    let mut from = 3;
    'frames: for frame in frames {
        let codes = word(frame, 0);
        for at in from..WORDS {
            let word = word(frame, at);
            let is_first = sums.filled == 0;
            match (VERSION, codes >> (30 - 2 * at) & 3, word >> 30) {
                (_, 0, _) => continue,
                (_, 1, _) => sums.add::<4, 8>(bytes_of(word)),
                (1, 2, _) => sums.add::<2, 16>(halves_of(word)),
                (1, _, _) => sums.add::<1, 32>(word),
                (_, 2, 1) => sums.add::<1, 30>(word),
                (_, 2, 2) => sums.add::<2, 15>(word),
                (_, 2, 3) => sums.add::<3, 10>(word),
                (_, 3, 0) => sums.add::<5, 6>(word),
                (_, 3, 1) => sums.add::<6, 5>(word),
                (_, 3, 2) => sums.add::<7, 4>(word),
                _ => return None,
            }
            if is_first && sums.filled > 0 {
                // The first difference is to the last record.
                let shift = first.wrapping_sub(sums.samples[0]);
                for sample in &mut sums.samples[..sums.filled] {
                    *sample = sample.wrapping_add(shift);
                }
                sums.last = sums.last.wrapping_add(shift);
            }
            if sums.filled == sums.samples.len() {
                break 'frames;
            }
        }
        from = 1;
    }
    let is_whole = sums.filled == sums.samples.len();
    (is_whole && sums.samples.last() == Some(&stored_last)).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(words: &[(u32, u32)]) -> [u8; FRAME] {
        let mut frame = [0; FRAME];
        let mut codes = 0;
        for (at, (code, word)) in words.iter().enumerate() {
            codes |= code << (28 - 2 * at);
            frame[4 * at + 4..4 * at + 8].copy_from_slice(&word.to_be_bytes());
        }
        frame[..4].copy_from_slice(&u32::to_be_bytes(codes));
        frame
    }

    #[test]
    fn frames_decode_as_the_manual_says() {
        // Steim 1: first value, last value, 8, 16 and 32 bits; the first difference does not count.
        let minus = |value: i32| value.cast_unsigned();
        let words = [
            (0, 5),
            (0, minus(-70_000)),
            (1, 0x63_01_ff_02),
            (2, 0x0064_ff9c),
            (3, minus(-70_007)),
        ];
        let payload = frame(&words);
        let encoded = EncodedSamples {
            payload: &payload,
            encoding: 10,
            little_endian: false,
            count: 7,
        };
        let (dtype, samples) = encoded.decode().unwrap();
        let expected = [5, 6, 5, 7, 107, 7, -70_000];
        assert_eq!(dtype, DType::I32);
        assert_eq!(samples.samples::<i32>(), Some(&expected[..]));
        // The same in the other byte order.
        let mut swapped = payload;
        for (at, width) in [(0, 4), (4, 4), (8, 4), (16, 2), (18, 2), (20, 4)] {
            swapped[at..at + width].reverse();
        }
        let little = EncodedSamples {
            payload: &swapped,
            little_endian: true,
            ..encoded
        };
        assert_eq!(little.decode().unwrap().1.bytes(), samples.bytes());
        assert!(
            EncodedSamples {
                payload: &swapped,
                ..encoded
            }
            .decode()
            .is_none()
        );
        // Fewer samples end in another value; more do not exist.
        for count in [0, 6, 8, 1 << 40] {
            assert!(
                EncodedSamples { count, ..encoded }.decode().is_none(),
                "{count}"
            );
        }
        let cut = &payload[..FRAME - 1];
        assert!(
            EncodedSamples {
                payload: cut,
                ..encoded
            }
            .decode()
            .is_none()
        );
    }

    #[test]
    fn every_width_of_steim_2_is_decoded_and_unknown_codes_are_not() {
        let widths: [(u32, u32, u32, usize); 7] = [
            (1, 0, 8, 4),
            (2, 1, 30, 1),
            (2, 2, 15, 2),
            (2, 3, 10, 3),
            (3, 0, 6, 5),
            (3, 1, 5, 6),
            (3, 2, 4, 7),
        ];
        for (code, kind, bits, count) in widths {
            // The first difference does not count.
            let mut word = kind << 30;
            for k in 0..count as u32 {
                word |= ((1 << bits) - 1) << (bits * k);
            }
            let last = 1000 - (count as u32 - 1);
            let payload = frame(&[(0, 1000), (0, last), (code, word)]);
            let encoded = EncodedSamples {
                payload: &payload,
                encoding: 11,
                little_endian: false,
                count,
            };
            let (_, samples) = encoded.decode().unwrap();
            let expected: Vec<i32> = (0..count as i32).map(|k| 1000 - k).collect();
            assert_eq!(samples.samples::<i32>(), Some(&expected[..]), "{bits}");
        }
        for (code, kind) in [(2, 0), (3, 3)] {
            let payload = frame(&[(0, 1), (0, 1), (code, kind << 30)]);
            let encoded = EncodedSamples {
                payload: &payload,
                encoding: 11,
                little_endian: false,
                count: 1,
            };
            assert!(encoded.decode().is_none());
        }
    }
}
