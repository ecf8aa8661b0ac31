//! Compression and decompression.
//!
//! Each buffer becomes a zstd frame (RFC 8878, with content size and checksum) or a gzip member (RFC 1952); an empty
//! stream becomes one empty frame or member. Decoders accept concatenated ones. Ratios suffer with buffers below about
//! 1 MiB, at zstd levels above 10 below about 8 MiB.
//!
//! Decompression is in order and in steps of [`STEP`] bytes of output, which bounds memory. zstd windows are limited,
//! by default to [`WINDOW_LOG`]. Input is concatenated frames, skippable frames or members; any other trailing bytes
//! are an error. zstd frames from before 1.0 are refused: their decoders ignore memory limits.

mod frames;
mod gzip;
mod steps;
mod zstd;

use crate::BytesError;
use crate::processor::AnyProcessor;

pub use steps::STEP;

/// Default limit of windows in decompression, as a binary logarithm: 64 MiB suffices up to level 21 and fits a limit of
/// 100 MB. Frames of level 22 and `zstd --long` may need 27.
pub const WINDOW_LOG: u32 = 26;

/// Legal limits of windows, as binary logarithms.
pub const WINDOW_LOGS: std::ops::RangeInclusive<u32> = 10..=31;

/// zstd levels; negative ones are faster, 0 is 3. Above 19 a worker needs hundreds of MB.
pub const ZSTD_LEVELS: std::ops::RangeInclusive<i32> = -7..=22;

/// gzip levels: the usual 1 to 9; up to 12 is smaller and slower.
pub const GZIP_LEVELS: std::ops::RangeInclusive<i32> = 1..=12;

/// Compresses to zstd frames, one per buffer.
///
/// # Errors
/// [`BytesError::Parameter`]: a level outside [`ZSTD_LEVELS`].
pub fn zstd(level: i32) -> Result<AnyProcessor, BytesError> {
    check("zstd", level, &ZSTD_LEVELS)?;
    Ok(AnyProcessor::new(frames::Frames(zstd::Zstd { level })))
}

/// Compresses to gzip members, one per buffer.
///
/// # Errors
/// [`BytesError::Parameter`]: a level outside [`GZIP_LEVELS`].
pub fn gzip(level: i32) -> Result<AnyProcessor, BytesError> {
    check("gzip", level, &GZIP_LEVELS)?;
    Ok(AnyProcessor::new(frames::Frames(gzip::Gzip { level })))
}

/// Decompresses zstd frames with windows of up to `2^window` bytes.
///
/// # Errors
/// [`BytesError::Parameter`]: a window outside [`WINDOW_LOGS`].
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

/// Decompresses gzip members.
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
