//! gzip members: compressed by libdeflate, which is fast but needs whole buffers; decompressed by zlib-rs, which does
//! not.

use flate2::{Decompress, FlushDecompress, Status};
use libdeflater::{CompressionLvl, Compressor};

use super::frames::Format;
use super::steps::Decoder;

pub(super) struct Gzip {
    pub(super) level: i32,
}

/// Blocks grow by at most 5 bytes in 5,000; header and trailer have 18.
const fn bound(bytes: usize) -> usize {
    bytes + bytes / 5000 * 5 + 64
}

impl Format for Gzip {
    const NAME: &'static str = "gzip";
    type Context = Compressor;

    fn context(&self) -> Compressor {
        // The level was checked before.
        Compressor::new(CompressionLvl::new(self.level).unwrap_or_default())
    }

    /// Levels from 10 on compare many parses.
    fn context_bytes(&self, _buffer: usize) -> usize {
        if self.level < 10 { 2 << 20 } else { 10 << 20 }
    }

    fn bound(bytes: usize) -> usize {
        bound(bytes)
    }

    fn compress(
        compressor: &mut Compressor,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        // Zeroing takes a hundredth of the time.
        out.resize(bound(bytes.len()), 0);
        let length = compressor
            .gzip_compress(bytes, out)
            .map_err(|error| error.to_string())?;
        out.truncate(length);
        Ok(())
    }
}

/// Decodes concatenated members, and the zeros after the last one, which pad tapes.
#[derive(Default)]
pub(super) struct Gunzip {
    member: Option<Decompress>,
    ended: bool,
    padded: bool,
}

impl Decoder for Gunzip {
    const NAME: &'static str = "gunzip";
    type Options = ();

    /// A window of 32 KiB, and tables.
    fn bytes((): ()) -> usize {
        128 << 10
    }

    fn open((): ()) -> Result<Self, String> {
        Ok(Self::default())
    }

    fn step(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(usize, bool), String> {
        if self.member.is_none() && self.ended {
            let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
            self.padded |= zeros > 0;
            if zeros > 0 {
                return Ok((zeros, false));
            }
            if self.padded && !bytes.is_empty() {
                return Err("more follows the zeros behind the last member".into());
            }
        }
        // gzip's window is 2^15.
        let decoder = (self.member).get_or_insert_with(|| Decompress::new_gzip(15));
        let before = decoder.total_in();
        let status = decoder
            .decompress_vec(bytes, out, FlushDecompress::None)
            .map_err(|error| error.to_string())?;
        let taken = (decoder.total_in() - before) as usize;
        if status == Status::StreamEnd {
            self.member = None;
            self.ended = true;
        }
        Ok((taken, self.member.is_some()))
    }
}
