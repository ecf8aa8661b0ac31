//! zstd frames.

use zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer};

use super::frames::Format;
use super::steps::Decoder;

pub(super) struct Zstd {
    pub(super) level: i32,
}

/// An error is reported with the first frame.
pub(super) type Context = Result<CCtx<'static>, String>;

impl Zstd {
    fn open(&self) -> Context {
        let mut context = CCtx::try_create().ok_or("no memory for a compression context")?;
        let text = |code| zstd_safe::get_error_name(code).to_owned();
        context
            .set_parameter(CParameter::CompressionLevel(self.level))
            .map_err(text)?;
        context
            .set_parameter(CParameter::ChecksumFlag(true))
            .map_err(text)?;
        Ok(context)
    }
}

impl Format for Zstd {
    const NAME: &'static str = "zstd";
    type Context = Context;

    fn context(&self) -> Context {
        self.open()
    }

    /// Measured with zstd 1.5.7 for sources of 1 KiB to 300 MiB, rounded up.
    fn context_bytes(&self, buffer: usize) -> usize {
        let largest: usize = match self.level {
            0 | 3 => 2,
            ..=2 => 1,
            4..=6 => 4,
            7..=8 => 6,
            9 => 11,
            10..=11 => 21,
            12 => 41,
            13 => 34,
            14 => 49,
            15 => 65,
            16 => 34,
            17..=18 => 50,
            19 => 82,
            20 => 162,
            21 => 322,
            _ => 706,
        };
        let short = buffer.saturating_mul(20).saturating_add(1 << 20);
        (largest << 20).min(short)
    }

    fn bound(bytes: usize) -> usize {
        zstd_safe::compress_bound(bytes)
    }

    fn compress(context: &mut Context, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let context = context.as_mut().map_err(|reason| reason.clone())?;
        context
            .compress2(out, bytes)
            .map(drop)
            .map_err(|code| zstd_safe::get_error_name(code).to_owned())
    }
}

pub(super) struct Unzstd {
    context: DCtx<'static>,
    /// Within a frame.
    inside: bool,
}

/// Whether a current or skippable frame may begin with this byte. The library may also decode frames from before 1.0,
/// whose decoders ignore memory limits.
fn begins_frame(byte: u8) -> bool {
    byte == 0x28 || (0x50..=0x5f).contains(&byte)
}

impl Decoder for Unzstd {
    const NAME: &'static str = "unzstd";
    /// Binary logarithm of the largest window.
    type Options = u32;

    /// The window, and two blocks of 128 KiB.
    fn bytes(window: u32) -> usize {
        (1 << window) + (1 << 20)
    }

    fn open(window: u32) -> Result<Self, String> {
        let mut context = DCtx::try_create().ok_or("no memory for a decompression context")?;
        context
            .set_parameter(DParameter::WindowLogMax(window))
            .map_err(|code| zstd_safe::get_error_name(code).to_owned())?;
        Ok(Self {
            context,
            inside: false,
        })
    }

    fn step(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(usize, bool), String> {
        if let Some(&first) = bytes.first()
            && !self.inside
            && !begins_frame(first)
        {
            return Err(match first {
                0x1e | 0x22..=0x27 => {
                    format!("a frame begins with 0x{first:02x}, as those of zstd before 1.0 did")
                }
                _ => format!("no zstd frame begins with 0x{first:02x}"),
            });
        }
        let filled = out.len();
        let mut from = InBuffer::around(bytes);
        let mut to = OutBuffer::around_pos(out, filled);
        let hint = self
            .context
            .decompress_stream(&mut to, &mut from)
            .map_err(|code| match zstd_safe::get_error_name(code) {
                // The only error with a remedy for the user.
                name if name.contains("too much memory") => {
                    format!("{name} (a greater window, see unzstd,window=LOG)")
                }
                name => name.to_owned(),
            })?;
        self.inside = hint != 0;
        Ok((from.pos(), self.inside))
    }
}
