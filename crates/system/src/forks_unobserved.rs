//! `forks` where forks are not detected: a child keeps its parent's lock until it exits.

use std::fs::File;

/// Distinguishes a process from those forked off it.
#[must_use]
pub fn this_process() -> u32 {
    std::process::id()
}

/// A file that forked children share.
#[derive(Debug)]
pub struct UninheritedFile(File);

impl UninheritedFile {
    /// Shared by children.
    #[must_use]
    pub fn new(file: File) -> Self {
        Self(file)
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.0
    }
}
