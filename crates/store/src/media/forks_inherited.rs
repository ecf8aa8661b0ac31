//! Locks where forks are not watched: a child keeps its parent's lock until it ends.

use std::fs::File;

/// Tells a process from those that it is forked off.
pub(crate) fn this_process() -> u32 {
    std::process::id()
}

/// A file that forked children share.
#[derive(Debug)]
pub(super) struct NotInherited(File);

impl NotInherited {
    pub(super) fn new(file: File) -> Self {
        Self(file)
    }

    pub(super) fn file(&self) -> &File {
        &self.0
    }
}
