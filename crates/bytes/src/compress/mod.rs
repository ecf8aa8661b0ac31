//! Compression and decompression.
//!
//! Every buffer becomes a zstd frame (RFC 8878, with content size and checksum) or a gzip member (RFC 1952) of its own. Both formats may be concatenated, so
//! `zstd -d`, `gzip -d` and every other decoder give the stream back; how long frames are follows the buffers. A stream of no
//! bytes becomes one empty frame or member. Compression ratios suffer below about 1 MiB a buffer, for zstd levels above 10 below about 8 MiB.
//!
//! Decompression takes the bytes in order and gives output in steps of [`STEP`] bytes, so however much they become, memory is bounded. zstd frames may ask for windows
//! up to what was said, as a rule [`WINDOW_LOG`]; frames, skippable frames and members may follow one another, and nothing else may follow them.
//! Frames of zstd before 1.0 are refused: their decoders heed no limit of memory.

mod frames;
mod gzip;
mod steps;
mod zstd;

use crate::BytesError;
use crate::processor::AnyProcessor;

/// Most bytes that decompression gives at a time.
pub const STEP: usize = 1 << 20;

/// Binary logarithm of the largest window that decompression holds if it is not told: 64 MiB, which suffices for all levels up to 21 and fits a limit of 100 MB.
/// Frames of level 22 and of `zstd --long` may ask for 27, which is what `zstd -d` takes.
pub const WINDOW_LOG: u32 = 26;

/// Binary logarithms of windows that may be asked for: 1 KiB to 2 GiB.
pub const WINDOW_LOGS: std::ops::RangeInclusive<u32> = 10..=31;

/// Levels of zstd; negative ones are faster, and 0 is 3. Levels above 19 take hundreds of MB a worker.
pub const ZSTD_LEVELS: std::ops::RangeInclusive<i32> = -7..=22;

/// Levels of gzip: 1 to 9 as usual, up to 12 for smaller and slower.
pub const GZIP_LEVELS: std::ops::RangeInclusive<i32> = 1..=12;

/// Compression to zstd frames, one a buffer.
///
/// # Errors
/// [`BytesError::Parameter`] for a level outside [`ZSTD_LEVELS`].
pub fn zstd(level: i32) -> Result<AnyProcessor, BytesError> {
    check("zstd", level, &ZSTD_LEVELS)?;
    Ok(AnyProcessor::new(frames::Frames(zstd::Zstd { level })))
}

/// Compression to gzip members, one a buffer.
///
/// # Errors
/// [`BytesError::Parameter`] for a level outside [`GZIP_LEVELS`].
pub fn gzip(level: i32) -> Result<AnyProcessor, BytesError> {
    check("gzip", level, &GZIP_LEVELS)?;
    Ok(AnyProcessor::new(frames::Frames(gzip::Gzip { level })))
}

/// Decompression of zstd frames whose windows have at most `2^window` bytes, [`WINDOW_LOG`] as a rule.
///
/// # Errors
/// [`BytesError::Parameter`] for a window outside [`WINDOW_LOGS`].
pub fn unzstd(window: u32) -> Result<AnyProcessor, BytesError> {
    if !WINDOW_LOGS.contains(&window) {
        return Err(BytesError::Parameter {
            processor: "unzstd".into(),
            parameter: "window".into(),
            got: window.to_string(),
            allowed: format!(
                "the binary logarithm of bytes, from {} to {}",
                WINDOW_LOGS.start(),
                WINDOW_LOGS.end()
            ),
        });
    }
    Ok(AnyProcessor::new(steps::Steps::<zstd::Unzstd>(window)))
}

/// Decompression of gzip members.
#[must_use]
pub fn gunzip() -> AnyProcessor {
    AnyProcessor::new(steps::Steps::<gzip::Gunzip>(()))
}

fn check(
    processor: &str,
    level: i32,
    allowed: &std::ops::RangeInclusive<i32>,
) -> Result<(), BytesError> {
    if allowed.contains(&level) {
        return Ok(());
    }
    Err(BytesError::Parameter {
        processor: processor.into(),
        parameter: "level".into(),
        got: level.to_string(),
        allowed: format!("from {} to {}", allowed.start(), allowed.end()),
    })
}
