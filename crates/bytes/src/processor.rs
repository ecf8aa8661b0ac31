use std::any::Any;

use crate::{BytesError, Outcome};

/// Chains scan in blocks that end at multiples of so many bytes.
pub const BLOCK: usize = 128 << 10;

/// A range of a stream; may be empty.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// Offset in the stream.
    pub offset: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl Piece<'_> {
    /// Offset of the end.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

/// What [`Chain::join`](crate::Chain::join) leaves to do.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinOutcome {
    /// Nothing.
    Done,
    /// The output is full: write it, and repeat the call.
    Again,
}

/// What a processor needs of its caller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// `scan` does work.
    pub scan: bool,
    /// `join` takes time proportional to the bytes: it can be pipelined, not replicated.
    pub ordered: bool,
    /// It makes output; else the input is passed on.
    pub output: bool,
    /// `join` may return [`JoinOutcome::Again`].
    pub again: bool,
    /// Output is cut into frames as the stream is into buffers, so other cuts make other bytes.
    pub frames: bool,
}

/// A buffer's output, in two halves, with reused memory.
#[derive(Debug, Default)]
pub struct Output {
    /// From `join`: a sample that began in the previous buffer.
    pub before: Vec<u8>,
    /// From `scan`, or from `join` if all work is in order.
    pub body: Vec<u8>,
}

impl Output {
    /// Clears it, but keeps the memory.
    pub fn clear(&mut self) {
        self.before.clear();
        self.body.clear();
    }
}

/// A processor of a stream that may be cut anywhere. The [crate] describes the calls.
pub trait Processor: Send + Sync + 'static {
    /// One buffer's data and scratch memory.
    type Part: Send + 'static;
    /// The stream's data so far.
    type State: Send + 'static;

    /// What it needs of its caller.
    fn needs(&self) -> Needs;

    /// Whether a buffer may be scanned in several calls.
    fn blockwise(&self) -> bool {
        false
    }

    /// Upper bound of a part's bytes, with output, for buffers of `buffer` bytes.
    fn part_bytes(&self, buffer: usize) -> usize;

    /// Upper bound of a state's bytes.
    fn state_bytes(&self) -> usize;

    /// An empty part.
    fn part(&self) -> Self::Part;

    /// The state at a stream's beginning.
    fn state(&self) -> Self::State;

    /// Scans a buffer. The `first` call resets the part; if [`blockwise`](Self::blockwise), consecutive pieces may
    /// follow, which begin at multiples of [`BLOCK`].
    ///
    /// # Errors
    /// Bytes that cannot be processed, with their offset.
    fn scan(
        &self,
        piece: Piece<'_>,
        first: bool,
        part: &mut Self::Part,
        out: &mut Output,
    ) -> Result<(), BytesError>;

    /// Adds the whole buffer, in stream order.
    ///
    /// # Errors
    /// Bytes that cannot be processed, with their offset.
    fn join(
        &self,
        piece: Piece<'_>,
        part: &mut Self::Part,
        state: &mut Self::State,
        out: &mut Output,
    ) -> Result<JoinOutcome, BytesError>;

    /// Returns the result, and appends the last output.
    ///
    /// # Errors
    /// An incomplete stream.
    fn finish(&self, state: &mut Self::State, out: &mut Vec<u8>) -> Result<Outcome, BytesError>;
}

/// A processor of any type.
pub struct AnyProcessor(pub(crate) Box<dyn DynProcessor>);

impl AnyProcessor {
    /// Erases the processor's type.
    #[must_use]
    pub fn new(processor: impl Processor) -> Self {
        Self(Box::new(processor))
    }
}

impl std::fmt::Debug for AnyProcessor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AnyProcessor")
            .field(&self.0.needs())
            .finish()
    }
}

pub(crate) trait DynProcessor: Send + Sync {
    fn needs(&self) -> Needs;
    fn blockwise(&self) -> bool;
    fn part_bytes(&self, buffer: usize) -> usize;
    fn state_bytes(&self) -> usize;
    fn part(&self) -> Box<dyn Any + Send>;
    fn state(&self) -> Box<dyn Any + Send>;
    fn scan(
        &self,
        piece: Piece<'_>,
        first: bool,
        part: &mut dyn Any,
        out: &mut Output,
    ) -> Result<(), BytesError>;
    fn join(
        &self,
        piece: Piece<'_>,
        part: &mut dyn Any,
        state: &mut dyn Any,
        out: &mut Output,
    ) -> Result<JoinOutcome, BytesError>;
    fn finish(&self, state: &mut dyn Any, out: &mut Vec<u8>) -> Result<Outcome, BytesError>;
}

/// Fails for another chain's data.
fn own<T: 'static>(any: &mut dyn Any) -> Result<&mut T, BytesError> {
    any.downcast_mut().ok_or(BytesError::OtherChain)
}

impl<P: Processor> DynProcessor for P {
    fn needs(&self) -> Needs {
        Processor::needs(self)
    }

    fn blockwise(&self) -> bool {
        Processor::blockwise(self)
    }

    fn part_bytes(&self, buffer: usize) -> usize {
        Processor::part_bytes(self, buffer)
    }

    fn state_bytes(&self) -> usize {
        Processor::state_bytes(self)
    }

    fn part(&self) -> Box<dyn Any + Send> {
        Box::new(Processor::part(self))
    }

    fn state(&self) -> Box<dyn Any + Send> {
        Box::new(Processor::state(self))
    }

    fn scan(
        &self,
        piece: Piece<'_>,
        first: bool,
        part: &mut dyn Any,
        out: &mut Output,
    ) -> Result<(), BytesError> {
        Processor::scan(self, piece, first, own(part)?, out)
    }

    fn join(
        &self,
        piece: Piece<'_>,
        part: &mut dyn Any,
        state: &mut dyn Any,
        out: &mut Output,
    ) -> Result<JoinOutcome, BytesError> {
        Processor::join(self, piece, own(part)?, own(state)?, out)
    }

    fn finish(&self, state: &mut dyn Any, out: &mut Vec<u8>) -> Result<Outcome, BytesError> {
        Processor::finish(self, own(state)?, out)
    }
}
