//! Asking the memory for what will be read soon.
#![allow(unsafe_code)] // The hint takes a pointer.

/// What lies so many bytes ahead is asked for: loops that wait for memory, since the processor's own look-ahead ends with
/// a page.
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 2 * 4096;

/// Asks for what lies two pages behind a place that is read now; does nothing where there is no such hint.
#[inline(always)]
pub(crate) fn fetch_ahead<T>(from: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let ahead = std::ptr::from_ref(from).cast::<i8>().wrapping_add(AHEAD);
        // SAFETY: it is a hint that reads nothing and never faults, whatever the address; every x86-64 CPU has SSE.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(ahead) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = from;
}
