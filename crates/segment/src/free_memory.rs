//! Free memory, checked before allocations whose size comes from outside.
//!
//! Linux overcommits memory and kills a process that uses it, so a size from a file, packet or parameter is checked
//! first.

/// Smaller allocations are not checked: a check takes about 20 µs.
const UNCHECKED: u64 = 256 << 20;

/// Whether `bytes` fit into the free memory. Small sizes always do.
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

/// Free memory and swap in bytes, of this machine or of this process's control group, whichever is less; `u64::MAX` if
/// unknown.
#[must_use]
pub fn free_memory() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).ok();
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

/// Free bytes of a control group; None without a limit.
fn left_in_group(max: &str, current: &str, stat: &str) -> Option<u64> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let (max, current) = (number(max)?, number(current)?);
    // Counted as used, but reclaimable: page cache and kernel caches.
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
}
