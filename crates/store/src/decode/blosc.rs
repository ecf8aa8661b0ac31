//! Decompressing Blosc frames into memory that is given.
#![allow(unsafe_code)] // Calls of the C library, which takes addresses and lengths.

use std::ffi::c_void;

/// Decompresses a frame; gives the bytes that `content` then begins with.
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
    // SAFETY: the library guarantees that a frame which `blosc_cbuffer_validate` accepts can be decompressed without
    // reading outside of it, whatever offsets it has inside. At most `content.len()` bytes of `content`, which nobody else
    // refers to, are written. The call uses no state of the library and one
    // thread, this one.
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
