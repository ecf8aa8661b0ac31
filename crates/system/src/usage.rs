//! Used processor time, page faults, involuntary switches.
#![allow(unsafe_code)] // One call has no safe crate.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Processor time of this thread. None if unknown.
#[must_use]
pub fn thread_cpu_time() -> Option<Duration> {
    cpu_time(ClockId::ThreadCPUTime)
}

/// Processor time of all threads of this process. None if unknown.
#[must_use]
pub fn process_cpu_time() -> Option<Duration> {
    cpu_time(ClockId::ProcessCPUTime)
}

fn cpu_time(clock: ClockId) -> Option<Duration> {
    clock_gettime(clock).try_into().ok()
}

/// How often the system took the processor from this thread. None if unknown.
#[must_use]
pub fn involuntary_switches() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
    value.trim().parse().ok()
}

/// Page faults of this thread: those without and with a disk read.
#[cfg(target_os = "linux")]
#[must_use]
pub fn page_faults() -> (u64, u64) {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call fills the structure; zeros are valid.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    (usage.ru_minflt as u64, usage.ru_majflt as u64)
}

/// Not counted on this system.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn page_faults() -> (u64, u64) {
    (0, 0)
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::time::Instant;

    use super::*;

    #[test]
    fn faults_are_counted() {
        let before = page_faults();
        black_box(vec![1u8; 64 << 20]);
        #[cfg(target_os = "linux")]
        assert!(page_faults().0 > before.0);
        #[cfg(not(target_os = "linux"))]
        assert_eq!(page_faults(), before);
    }

    #[test]
    fn work_takes_processor_time_of_its_own_thread_and_of_the_process() {
        let work = || {
            let before = thread_cpu_time().unwrap();
            let begun = Instant::now();
            let mut sum = 0u64;
            while thread_cpu_time().unwrap() - before < Duration::from_millis(20) {
                assert!(begun.elapsed() < Duration::from_secs(60), "no time passes");
                sum = black_box(sum + 1);
            }
        };
        let (own, process) = (thread_cpu_time().unwrap(), process_cpu_time().unwrap());
        std::thread::spawn(work).join().unwrap();
        assert!(process_cpu_time().unwrap() - process >= Duration::from_millis(20));
        assert!(thread_cpu_time().unwrap() >= own);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn switches_never_decrease() {
        let before = involuntary_switches().unwrap();
        assert!(involuntary_switches().unwrap() >= before);
    }
}
