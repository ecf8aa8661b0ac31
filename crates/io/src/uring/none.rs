//! `ReadRing` on systems without io_uring: never granted.

use std::io::{self, ErrorKind};

use isochrony_segment::Buffer;

use crate::scan::PieceRequest;

#[derive(Debug)]
pub(crate) struct ReadJob {
    pub(crate) request: PieceRequest,
    pub(crate) buffer: Buffer,
    pub(crate) got: Vec<usize>,
}

#[derive(Debug)]
pub(crate) struct ReadRing(std::convert::Infallible);

impl ReadRing {
    pub(crate) fn new() -> io::Result<Self> {
        Err(ErrorKind::Unsupported.into())
    }

    pub(crate) fn submit(&mut self, _request: PieceRequest, _buffer: Buffer) -> io::Result<usize> {
        match self.0 {}
    }

    pub(crate) fn abandon(&mut self, _number: usize) {
        match self.0 {}
    }

    pub(crate) fn wait(&mut self, _number: usize) -> io::Result<ReadJob> {
        match self.0 {}
    }
}
