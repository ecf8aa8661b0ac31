//! Whether this kernel grants an io_uring; containers and `sysctl` may refuse.
#![allow(unsafe_code)] // The code under test must not be asked, and no other safe crate has these calls.

/// None if this thread gets an io_uring that reads files, else why not.
#[cfg(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64",
        target_arch = "loongarch64",
        target_arch = "powerpc64"
    )
))]
pub(crate) fn refused() -> Option<String> {
    use std::os::fd::{FromRawFd, OwnedFd};

    /// Words before the features, of 120 bytes in total.
    const FEATURES: usize = 5;
    /// Since Linux 5.6, like reads into one memory range.
    const RW_CUR_POS: u32 = 1 << 3;

    let mut parameters = [0_u32; 30];
    // SAFETY: the kernel accesses the 120 bytes of the parameters during the call.
    let descriptor =
        unsafe { libc::syscall(libc::SYS_io_uring_setup, 16, parameters.as_mut_ptr()) };
    if descriptor < 0 {
        return Some(format!(
            "io_uring_setup: {}",
            std::io::Error::last_os_error()
        ));
    }
    // SAFETY: the kernel just made this descriptor for us.
    let ring = unsafe { OwnedFd::from_raw_fd(descriptor as i32) };
    // SAFETY: nothing is submitted, so the call touches no memory.
    let entered = unsafe {
        let nothing = std::ptr::null::<libc::c_void>();
        libc::syscall(
            libc::SYS_io_uring_enter,
            descriptor as i32,
            0,
            0,
            0,
            nothing,
            0,
        )
    };
    let error = std::io::Error::last_os_error();
    drop(ring);
    if entered < 0 {
        return Some(format!("io_uring_enter: {error}"));
    }
    (parameters[FEATURES] & RW_CUR_POS == 0).then(|| "the kernel is older than 5.6".into())
}

#[cfg(not(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64",
        target_arch = "loongarch64",
        target_arch = "powerpc64"
    )
)))]
pub(crate) fn refused() -> Option<String> {
    Some("this is no Linux, or its structures are not known here".into())
}
