//! Prefetch for loops bound by memory.
#![allow(unsafe_code)] // The hint takes a pointer.

/// Two pages: the hardware prefetcher stops at the end of one.
#[cfg(target_arch = "x86_64")]
const PREFETCH_DISTANCE: usize = 2 * 4096;

/// What a loop reads until the hardware prefetcher follows it.
const START_BYTES: usize = 1024;
const LINE_BYTES: usize = 64;

/// Does nothing on other architectures.
#[inline(always)]
pub(crate) fn prefetch_ahead<T>(from: &T) {
    prefetch(
        std::ptr::from_ref(from)
            .cast::<u8>()
            .wrapping_add(PREFETCH_DISTANCE),
    );
}

/// Asks for the first cache lines of samples that are read soon, so that the loop over them does not begin with misses.
/// Does nothing on other architectures.
#[inline]
pub fn prefetch_start(samples: &[u8]) {
    let lines = samples.len().min(START_BYTES).div_ceil(LINE_BYTES);
    for line in 0..lines {
        prefetch(samples.as_ptr().wrapping_add(line * LINE_BYTES));
    }
}

#[inline(always)]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and never faults at any address; every x86-64 CPU has SSE.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast::<i8>()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
