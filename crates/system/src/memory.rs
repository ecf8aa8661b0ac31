//! Memory of this machine and process; pages of large allocations.
#![allow(unsafe_code)] // Advice about memory is given by its address.

use std::mem::MaybeUninit;

/// Minimum worth a system call.
const LARGE: usize = 4 << 20;
/// A multiple of every system's page size.
#[cfg(target_os = "linux")]
const PAGE: usize = 1 << 16;

/// Bytes of a page.
#[must_use]
pub fn page_size() -> usize {
    // SAFETY: the call touches no memory of ours.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size)
        .ok()
        .filter(|size| size.is_power_of_two())
        .unwrap_or(4096)
}

/// Bytes of memory of this machine. None if unknown.
#[must_use]
pub fn total_memory() -> Option<u64> {
    kibibytes(&read("/proc/meminfo")?, "MemTotal:")
}

/// Bytes available without swapping, whatever limit this process has; 1 GiB if unknown.
#[must_use]
pub fn available_memory() -> u64 {
    let meminfo = read("/proc/meminfo").unwrap_or_default();
    kibibytes(&meminfo, "MemAvailable:").unwrap_or(1 << 30)
}

/// Free memory and swap in bytes, within this process's limit; `u64::MAX` if unknown.
#[must_use]
pub fn free_memory() -> u64 {
    let meminfo = read("/proc/meminfo").unwrap_or_default();
    let free = ["MemAvailable:", "SwapFree:"].map(|name| kibibytes(&meminfo, name));
    let machine = free[0].map_or(u64::MAX, |free_memory| {
        free_memory.saturating_add(free[1].unwrap_or(0))
    });
    let group = |name: &str| read(&format!("/sys/fs/cgroup/memory.{name}"));
    let left = match (group("max"), group("current")) {
        (Some(max), Some(current)) => {
            left_in_group(&max, &current, &group("stat").unwrap_or_default())
        }
        _ => None,
    };
    machine.min(left.unwrap_or(u64::MAX))
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Free bytes of a control group; None without a limit.
fn left_in_group(max: &str, current: &str, stat: &str) -> Option<u64> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let (max, current) = (number(max)?, number(current)?);
    // Counted as used, but reclaimable.
    let reclaimable: u64 = ["inactive_file", "active_file", "slab_reclaimable"]
        .iter()
        .filter_map(|name| {
            let value = |line: &str| number(line.strip_prefix(name)?.strip_prefix(' ')?);
            stat.lines().find_map(value)
        })
        .fold(0, u64::saturating_add);
    Some(max.saturating_sub(current.saturating_sub(reclaimable)))
}

/// A KiB value of `/proc/meminfo`, in bytes.
fn kibibytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(number.saturating_mul(1024))
}

/// Advises the system to back new memory with large pages. Page faults of small pages take longer than computing 32
/// MiB.
pub fn prefer_large_pages<T>(memory: &mut [MaybeUninit<T>]) {
    if size_of_val(memory) < LARGE {
        return;
    }
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};

        let skipped = memory.as_ptr().addr().wrapping_neg() % PAGE;
        let bytes = (size_of_val(memory) - skipped) / PAGE * PAGE;
        let whole = memory.as_mut_ptr().wrapping_byte_add(skipped);
        // SAFETY: the range is page-aligned and inside `memory`. The advice affects only unmapped pages, and fails
        // harmlessly.
        let _ = unsafe { madvise(whole.cast(), bytes, Advice::LinuxHugepage) };
    }
}

/// Returns pages that an allocator might keep; contents become undefined but initialised.
pub fn give_pages_back(memory: &mut [u8]) {
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};

        let skipped = memory.as_ptr().addr().wrapping_neg() % PAGE;
        let Some(whole) = memory.get_mut(skipped..) else {
            return;
        };
        let bytes = whole.len() / PAGE * PAGE;
        if bytes > 0 {
            // SAFETY: the range is page-aligned and inside `memory`, which has no other references. Its bytes stay
            // initialised: private memory reads as zeros, a mapped file as the file; locked memory does not change.
            let _ = unsafe { madvise(whole.as_mut_ptr().cast(), bytes, Advice::LinuxDontNeed) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_meminfo_are_kibibytes() {
        let text = "MemTotal:  100 kB\nMemAvailable:    64 kB\n";
        assert_eq!(kibibytes(text, "MemAvailable:"), Some(65536));
        assert_eq!(kibibytes(text, "SwapFree:"), None);
    }

    #[test]
    fn page_cache_of_a_control_group_is_not_used_memory() {
        let stat = "anon 300\nfile 650\ninactive_file 400\nactive_file 200\nslab_reclaimable 50\nslab 60\n";
        assert_eq!(left_in_group("1000\n", "1000\n", stat), Some(650));
        assert_eq!(left_in_group("1000\n", "700\n", ""), Some(300));
        assert_eq!(left_in_group("1000\n", "1200\n", ""), Some(0));
        assert_eq!(left_in_group("max\n", "700\n", stat), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_machine_has_no_less_memory_than_is_available() {
        let (total, available) = (total_memory().unwrap(), available_memory());
        assert!(
            0 < available && available <= total,
            "{available} of {total}"
        );
        assert!(free_memory() > 0);
    }

    #[test]
    fn contents_do_not_change() {
        for (bytes, from) in [
            (0, 0),
            (100, 3),
            (LARGE, 0),
            (LARGE + 77, 1),
            (3 * LARGE, 70_001),
        ] {
            let mut memory: Vec<u8> = Vec::with_capacity(from + bytes);
            memory.resize(from, 7);
            prefer_large_pages(memory.spare_capacity_mut());
            memory.resize(from + bytes, 9);
            assert!(memory[..from].iter().all(|&byte| byte == 7));
            assert!(memory[from..].iter().all(|&byte| byte == 9));
        }
    }
}
