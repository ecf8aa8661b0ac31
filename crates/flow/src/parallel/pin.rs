//! Threads that stay on a core.

/// Keeps the thread on one core, of those that the process may use; where the system refuses, it goes anywhere.
pub(super) fn pin(number: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else {
        return;
    };
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|&core| allowed.is_set(core))
        .collect();
    if let Some(&core) = cores.get(number % cores.len().max(1)) {
        let mut one = CpuSet::new();
        one.set(core);
        let _ = sched_setaffinity(None, &one);
    }
}
