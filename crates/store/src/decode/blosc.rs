//! Decompresses Blosc frames into existing memory.
#![allow(unsafe_code)] // Calls of the C library, which takes addresses and lengths.

use std::ffi::c_void;

/// Decompresses to the start of `content`; gives the length.
pub(super) fn decompress(frame: &[u8], content: &mut [u8]) -> Result<usize, String> {
    let mut claimed = 0usize;
    // SAFETY: reads at most `frame.len()` bytes of `frame`, and writes one number.
    let valid = unsafe {
        blosc_src::blosc_cbuffer_validate(
            frame.as_ptr().cast::<c_void>(),
            frame.len(),
            &raw mut claimed,
        )
    };
    if valid != 0 {
        return Err("it is no Blosc frame".into());
    }
    // SAFETY: the library guarantees that decompressing a frame accepted by `blosc_cbuffer_validate` reads only within
    // it, whatever its offsets. It writes at most `content.len()` bytes of `content`, which is not shared, and uses no
    // global state and only this thread.
    let filled = unsafe {
        blosc_src::blosc_decompress_ctx(
            frame.as_ptr().cast::<c_void>(),
            content.as_mut_ptr().cast::<c_void>(),
            content.len(),
            1,
        )
    };
    usize::try_from(filled).map_err(|_| format!("Blosc cannot decompress it (code {filled})"))
}
