//! `ReadRing` on systems without reads in flight: never granted.

use std::io::{self, ErrorKind};
use std::marker::PhantomData;

use super::{CompletedRead, ReadTarget};

/// Reads in flight. Not supported on this system.
#[derive(Debug)]
pub struct ReadRing<T> {
    never: std::convert::Infallible,
    targets: PhantomData<T>,
}

impl<T: ReadTarget> ReadRing<T> {
    /// Fails.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn new() -> io::Result<Self> {
        Err(ErrorKind::Unsupported.into())
    }

    /// Begins a read.
    pub fn submit(&mut self, _target: T) -> io::Result<usize> {
        match self.never {}
    }

    /// Gives up a read.
    pub fn abandon(&mut self, _number: usize) {
        match self.never {}
    }

    /// Waits until a read is complete.
    pub fn wait(&mut self, _number: usize) -> io::Result<CompletedRead<T>> {
        match self.never {}
    }
}
