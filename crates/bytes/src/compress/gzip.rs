//! gzip members: made by libdeflate, faster and smaller than zlib because it sees a whole buffer at once; taken apart by zlib-rs, which needs no whole.

use flate2::{Decompress, FlushDecompress, Status};
use libdeflater::{CompressionLvl, Compressor};

use super::frames::Format;
use super::steps::Decoder;

pub(super) struct Gzip {
    pub(super) level: i32,
}

/// A deflate block cannot grow by more than 5 bytes in 5,000; header and trailer of a member have 18.
const fn bound(bytes: usize) -> usize {
    bytes + bytes / 5000 * 5 + 64
}

impl Format for Gzip {
    const NAME: &'static str = "gzip";
    type Context = Compressor;

    fn context(&self) -> Compressor {
        // The level was checked where the processor was made.
        Compressor::new(CompressionLvl::new(self.level).unwrap_or_default())
    }

    /// Levels from 10 on weigh many parses against each other.
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
        // Clearing what will be overwritten takes a hundredth of compressing it.
        out.resize(bound(bytes.len()), 0);
        let length = compressor
            .gzip_compress(bytes, out)
            .map_err(|error| error.to_string())?;
        out.truncate(length);
        Ok(())
    }
}

/// A member's decoder; none before the first and between two.
pub(super) struct Gunzip(Option<Decompress>);

impl Decoder for Gunzip {
    const NAME: &'static str = "gunzip";
    type Options = ();

    /// A window of 32 KiB and tables.
    fn bytes((): ()) -> usize {
        128 << 10
    }

    fn open((): ()) -> Result<Self, String> {
        Ok(Self(None))
    }

    fn step(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(usize, bool), String> {
        // gzip's window is 2^15.
        let decoder = self.0.get_or_insert_with(|| Decompress::new_gzip(15));
        let before = decoder.total_in();
        let status = decoder
            .decompress_vec(bytes, out, FlushDecompress::None)
            .map_err(|error| error.to_string())?;
        let taken = (decoder.total_in() - before) as usize;
        if status == Status::StreamEnd {
            self.0 = None;
        }
        Ok((taken, self.0.is_some()))
    }
}
