//! Hints on how to fix errors of the operating system.

use std::io::{Error, ErrorKind};

/// `"; do this"` for an error of the system.
pub(crate) fn io_hint(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::ReadOnlyFilesystem => {
            "; the file system is mounted read-only: open the store with mode \"r\", or mount it writable"
        }
        ErrorKind::PermissionDenied => {
            "; get the right to it from its owner, or open the store with mode \"r\" if it was to be written"
        }
        ErrorKind::NotFound => "; check the path, and that the disk it lies on is mounted",
        ErrorKind::NotADirectory => "; a part of the path is a file: check the path",
        ErrorKind::IsADirectory => "; a folder is where a file should be: move it away",
        ErrorKind::AlreadyExists => "; something else has that name: move it away",
        ErrorKind::DirectoryNotEmpty => "; files of others are in the folder: move them away",
        ErrorKind::StorageFull => "; free some space and try again",
        ErrorKind::QuotaExceeded => "; free some space, or have the quota raised, and try again",
        ErrorKind::FileTooLarge => {
            "; the file system or `ulimit -f` allows no file of this size: choose another disk, or raise the limit"
        }
        ErrorKind::InvalidFilename => {
            "; the file system allows no such name: choose a shorter or plainer one"
        }
        ErrorKind::StaleNetworkFileHandle
        | ErrorKind::NotConnected
        | ErrorKind::HostUnreachable => {
            "; the file system is out of reach: mount it again, and open the store again"
        }
        ErrorKind::OutOfMemory => {
            "; close other programs, or raise the limit of memory or of mappings (vm.max_map_count)"
        }
        ErrorKind::ResourceBusy
        | ErrorKind::WouldBlock
        | ErrorKind::Interrupted
        | ErrorKind::TimedOut => "; try again",
        ErrorKind::CrossesDevices => {
            "; the store must lie on one file system: mount nothing inside it"
        }
        ErrorKind::Unsupported => "; the file system cannot do this: choose a local disk",
        _ => match error.raw_os_error() {
            Some(23 | 24) => {
                "; too many files are open: close some, or raise the limit with `ulimit -n`"
            }
            Some(5) => "; the disk fails: copy what can be read, and check the system's log",
            _ => "; check the system's log, and try again",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hint_says_how_to_fix_the_error() {
        // By number: EROFS, EACCES, ENOENT, EMFILE, EIO, ENOTDIR, ESTALE, ENOMEM, EDQUOT.
        for (number, word) in [
            (30, "mode \"r\""),
            (13, "right"),
            (2, "mounted"),
            (24, "ulimit -n"),
            (5, "copy"),
            (20, "part of the path"),
            (116, "mount it again"),
            (12, "memory"),
            (122, "quota"),
        ] {
            let error = Error::from_raw_os_error(number);
            let hint = io_hint(&error);
            assert!(
                hint.starts_with("; ") && hint.contains(word),
                "{error}: {hint}"
            );
        }
        assert!(io_hint(&Error::other("no luck")).starts_with("; "));
    }
}
