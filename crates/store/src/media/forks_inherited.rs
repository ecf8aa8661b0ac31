//! Locks on platforms without fork detection: a child keeps its parent's lock until it exits.

use std::fs::File;

pub(crate) fn this_process() -> u32 {
    std::process::id()
}

/// A file that forked children share.
#[derive(Debug)]
pub(super) struct UninheritedFile(File);

impl UninheritedFile {
    pub(super) fn new(file: File) -> Self {
        Self(file)
    }

    pub(super) fn file(&self) -> &File {
        &self.0
    }
}
