//! Free memory, checked before allocations whose size comes from outside.
//!
//! Linux overcommits memory and kills a process that uses it.

use isochrony_system::memory::free_memory;

/// Smaller allocations are not checked: a check takes about 20 µs.
const UNCHECKED: u64 = 256 << 20;

/// Whether `bytes` fit into the free memory.
///
/// ```
/// use isochrony_segment::has_free_memory;
///
/// assert!(has_free_memory(1 << 20));
/// assert!(!has_free_memory(1 << 60));
/// ```
#[must_use]
pub fn has_free_memory(bytes: u64) -> bool {
    bytes <= UNCHECKED || bytes <= free_memory()
}
