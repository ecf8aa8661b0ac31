//! Compressed chunks, with sizes validated before anything is allocated: a damaged frame may claim gigabytes. A chunk
//! of a sealed signal decodes to exactly an inner chunk.

use serde_json::{Value, json};
use zstd_safe::DCtx;

use super::blosc;
use crate::layout::shard::SEALED_SHARD_CHUNKS;
use crate::layout::zarr;
use crate::meta::SignalMeta;

const BLOSC_HEAD: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frames {
    Zstd,
    Blosc,
}

impl Frames {
    pub(super) fn of(meta: &SignalMeta) -> Option<Self> {
        match meta.codec.as_str() {
            "zstd" => Some(Self::Zstd),
            "blosc" => Some(Self::Blosc),
            _ => None,
        }
    }

    pub(super) fn check(self, frame: &[u8], len: usize) -> Result<(), String> {
        let claimed = match self {
            Self::Zstd => zstd_safe::get_frame_content_size(frame).ok().flatten(),
            Self::Blosc => {
                let head = frame.get(..BLOSC_HEAD).ok_or("the frame is cut off")?;
                let number = |at: usize| {
                    let bytes = [head[at], head[at + 1], head[at + 2], head[at + 3]];
                    u64::from(u32::from_le_bytes(bytes))
                };
                if number(12) != frame.len() as u64 {
                    return Err("the frame is cut off".into());
                }
                Some(number(4))
            }
        };
        match claimed.filter(|claimed| *claimed != len as u64) {
            Some(claimed) => Err(wrong(claimed, len)),
            None => Ok(()),
        }
    }

    pub(super) fn decode(
        self,
        frame: &[u8],
        content: &mut [u8],
        context: &mut DCtx<'static>,
    ) -> Result<(), String> {
        let filled = match self {
            Self::Zstd => context
                .decompress(content, frame)
                .map_err(|code| zstd_safe::get_error_name(code).to_owned())?,
            Self::Blosc => blosc::decompress(frame, content)?,
        };
        match filled == content.len() {
            true => Ok(()),
            false => Err(wrong(filled as u64, content.len())),
        }
    }
}

/// Used by one thread, so that nothing is allocated per chunk.
#[derive(Default)]
pub(super) struct Decompressor {
    frame: Vec<u8>,
    context: DCtx<'static>,
}

impl Decompressor {
    pub(super) fn parts(&mut self) -> (&mut Vec<u8>, &mut DCtx<'static>) {
        (&mut self.frame, &mut self.context)
    }
}

fn wrong(claimed: u64, len: usize) -> String {
    format!("its frame claims {claimed} bytes where a chunk has {len}")
}

/// No compressor makes longer chunks.
pub(super) fn check_length(encoded: u64, len: usize) -> Result<(), String> {
    let most = (len as u64).saturating_mul(2).saturating_add(1 << 16);
    if encoded > most {
        return Err(format!(
            "it takes {encoded} bytes, compressed, where a chunk has {len}"
        ));
    }
    Ok(())
}

/// Fails unless as sealing writes it: whole shards of inner chunks of the signal's size, type and byte order,
/// compressed once.
pub(super) fn check_layout(found: &Value, meta: &SignalMeta) -> Result<(), &'static str> {
    let expected = zarr::data_array(meta, 0);
    let sharding = |array: &Value| array["codecs"][0]["configuration"].clone();
    let (found_sharding, expected_sharding) = (sharding(found), sharding(&expected));
    if found["codecs"].as_array().map(Vec::len) != Some(1)
        || found["codecs"][0]["name"] != "sharding_indexed"
        || found_sharding["chunk_shape"] != expected_sharding["chunk_shape"]
        || found_sharding["index_location"] != "end"
    {
        return Err("its chunks are not those of the signal");
    }
    let grid = &found["chunk_grid"]["configuration"]["chunk_shape"];
    let shard = meta.chunk_samples.saturating_mul(SEALED_SHARD_CHUNKS);
    if *grid != json!(meta.format.shape(shard)) {
        return Err("its shards do not have as many chunks as sealing writes");
    }
    let codecs = found_sharding["codecs"].as_array();
    let [bytes, compressor] = codecs.map_or(&[][..], Vec::as_slice) else {
        return Err("its chunks are not compressed as the signal's are");
    };
    if found["data_type"] != expected["data_type"]
        || *bytes != expected_sharding["codecs"][0]
        || compressor["name"] != meta.codec.as_str()
        || found_sharding["index_codecs"] != expected_sharding["index_codecs"]
    {
        return Err("its type or its codecs are not the signal's");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_claims_another_size_is_refused_before_it_is_decoded() {
        let content: Vec<u8> = (0..4096u32).map(|x| (x / 7) as u8).collect();
        let mut frame = Vec::with_capacity(8192);
        zstd_safe::compress(&mut frame, &content, 3).unwrap();
        let mut decompressor = Decompressor::default();
        let (_, context) = decompressor.parts();
        let mut decoded = vec![7; 4096];
        Frames::Zstd.check(&frame, 4096).unwrap();
        Frames::Zstd.decode(&frame, &mut decoded, context).unwrap();
        assert_eq!(decoded, content);
        for len in [4095, 4097, 1 << 20] {
            assert!(Frames::Zstd.check(&frame, len).is_err(), "{len}");
        }
        // A frame without a length is refused once its length is known.
        for len in [4095, 4097] {
            let mut decoded = vec![0; len];
            let refused = Frames::Zstd.decode(&frame, &mut decoded, context);
            assert!(refused.is_err(), "{len}");
        }
        // Claims 6 GiB: magic number, single segment with eight bytes of size, raw block.
        let mut claims = vec![0x28, 0xb5, 0x2f, 0xfd, 0xe0];
        claims.extend((6u64 << 30).to_le_bytes());
        claims.extend([1, 0, 0]);
        let refused = Frames::Zstd.check(&claims, 4096).unwrap_err();
        assert!(
            refused.contains("claims 6442450944 bytes where a chunk has 4096"),
            "{refused}"
        );
        let mut blosc = vec![2, 1, 0, 1];
        for number in [u32::MAX, 4096, 20] {
            blosc.extend(number.to_le_bytes());
        }
        blosc.extend([0; 4]);
        let refused = Frames::Blosc.check(&blosc, 4096).unwrap_err();
        assert!(refused.contains("claims 4294967295 bytes"), "{refused}");
        assert!(Frames::Blosc.check(&blosc[..10], 4096).is_err());
        assert!(check_length(6 << 30, 4096).is_err() && check_length(5000, 4096).is_ok());
    }
}
