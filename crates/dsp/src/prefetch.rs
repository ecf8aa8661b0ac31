//! Prefetch for loops bound by memory.
#![allow(unsafe_code)] // The hint takes a pointer.

/// Two pages: the hardware prefetcher stops at the end of one.
#[cfg(target_arch = "x86_64")]
const PREFETCH_DISTANCE: usize = 2 * 4096;

/// Does nothing on other architectures.
#[inline(always)]
pub(crate) fn prefetch_ahead<T>(from: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let target = std::ptr::from_ref(from)
            .cast::<i8>()
            .wrapping_add(PREFETCH_DISTANCE);
        // SAFETY: a prefetch reads nothing and never faults at any address; every x86-64 CPU has SSE.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(target) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = from;
}
