//! Reads in flight where the kernel, or the crate that knows its io_uring, is not: there are none.

use std::io::{self, ErrorKind};

use isochrony_segment::Buffer;

use super::requests::Plan;

/// A piece that is read.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) plan: Plan,
    pub(super) buffer: Buffer,
    pub(super) got: Vec<usize>,
}

/// Never made.
#[derive(Debug)]
pub(super) struct Reads(std::convert::Infallible);

impl Reads {
    pub(super) fn new() -> io::Result<Self> {
        Err(ErrorKind::Unsupported.into())
    }

    pub(super) fn begin(&mut self, _plan: Plan, _buffer: Buffer) -> io::Result<usize> {
        match self.0 {}
    }

    pub(super) fn abandon(&mut self, _number: usize) {
        match self.0 {}
    }

    pub(super) fn wait(&mut self, _number: usize) -> io::Result<Job> {
        match self.0 {}
    }
}
