//! Which CPUs a thread may use.

use std::fmt;

/// Some CPUs, by the system's numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CpuSet {
    /// One bit for each number.
    words: [u64; CpuSet::MAX_CPUS / 64],
}

impl CpuSet {
    /// CPUs from this number on cannot be in a set.
    pub const MAX_CPUS: usize = 1024;

    /// CPUs that the current thread may use; None if unknown, as with more than [`MAX_CPUS`](Self::MAX_CPUS).
    #[must_use]
    pub fn of_current_thread() -> Option<Self> {
        #[cfg(target_os = "linux")]
        {
            let allowed = rustix::thread::sched_getaffinity(None).ok()?;
            let most = rustix::thread::CpuSet::MAX_CPU;
            Some((0..most).filter(|&cpu| allowed.is_set(cpu)).collect())
        }
        #[cfg(not(target_os = "linux"))]
        {
            None
        }
    }

    /// Restricts the current thread, and threads that it starts, to these CPUs. `false` where the system refuses, as
    /// for a set without an existing CPU.
    pub fn apply(&self) -> bool {
        #[cfg(target_os = "linux")]
        {
            let mut set = rustix::thread::CpuSet::new();
            self.cpus().for_each(|cpu| set.set(cpu));
            rustix::thread::sched_setaffinity(None, &set).is_ok()
        }
        #[cfg(not(target_os = "linux"))]
        {
            false
        }
    }

    /// Their numbers, ascending.
    pub fn cpus(&self) -> impl Iterator<Item = usize> {
        let words = self.words;
        (0..Self::MAX_CPUS).filter(move |cpu| words[cpu / 64] >> (cpu % 64) & 1 == 1)
    }
}

impl FromIterator<usize> for CpuSet {
    /// Leaves out numbers from [`MAX_CPUS`](Self::MAX_CPUS) on.
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut words = [0; Self::MAX_CPUS / 64];
        for cpu in cpus.into_iter().filter(|&cpu| cpu < Self::MAX_CPUS) {
            words[cpu / 64] |= 1 << (cpu % 64);
        }
        Self { words }
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.cpus()).finish()
    }
}

/// CPU of the current thread; 0 if unknown.
#[must_use]
pub fn current_cpu() -> usize {
    #[cfg(target_os = "linux")]
    {
        rustix::thread::sched_getcpu()
    }
    #[cfg(not(target_os = "linux"))]
    {
        0
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_numbers_that_it_was_made_of() {
        let set: CpuSet = [5, 3, 5, 1023, CpuSet::MAX_CPUS].into_iter().collect();
        assert_eq!(set.cpus().collect::<Vec<_>>(), [3, 5, 1023]);
        assert_eq!(format!("{set:?}"), "{3, 5, 1023}");
    }

    #[test]
    fn a_thread_keeps_to_the_cpus_that_it_was_given() {
        let allowed = CpuSet::of_current_thread().unwrap();
        assert!(allowed.cpus().any(|cpu| cpu == current_cpu()));
        let restricted = std::thread::spawn(move || {
            let last = allowed.cpus().last().unwrap();
            let one: CpuSet = [last].into_iter().collect();
            assert!(one.apply());
            assert_eq!(current_cpu(), last);
            let none: CpuSet = std::iter::empty().collect();
            assert!(!none.apply());
            (CpuSet::of_current_thread(), Some(one))
        });
        let (found, given) = restricted.join().unwrap();
        assert_eq!(found, given);
        assert_eq!(CpuSet::of_current_thread(), Some(allowed));
    }
}
