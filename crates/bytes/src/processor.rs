//! What a processor is: work on one buffer alone, and what joins the buffers.

use std::any::Any;

use crate::{BytesError, Outcome};

/// Where chains cut buffers to feed several processors from the cache: multiples of it in the stream, in bytes.
pub const BLOCK: usize = 128 << 10;

/// Bytes of a stream, and where they begin in it. Any number of bytes, none too.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// Bytes of the stream before these.
    pub offset: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl Piece<'_> {
    /// Bytes of the stream before the end of these.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

/// What a call of [`Chain::join`](crate::Chain::join) leaves to do.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joined {
    /// Nothing.
    Done,
    /// The output is full: write it, then call again with the same piece, part and state, before any other piece.
    Again,
}

/// How a processor is run; says what need not be done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// `scan` does something.
    pub scan: bool,
    /// `join` works in proportion to the bytes: pipelining hides that, replication does not.
    pub ordered: bool,
    /// There is output of its own. Without it, what is passed on is the input.
    pub output: bool,
    /// `join` may say [`Joined::Again`].
    pub again: bool,
    /// Output is cut into frames as the stream is into buffers, so other cuts make other bytes.
    pub frames: bool,
}

/// The bytes that a buffer became, in two halves. Cleared, never freed, between buffers.
#[derive(Debug, Default)]
pub struct Output {
    /// What `join` puts before: a sample that the cut went through.
    pub before: Vec<u8>,
    /// What `scan` makes, or `join` where all is in order.
    pub body: Vec<u8>,
}

impl Output {
    /// Removes the bytes and keeps their memory.
    pub fn clear(&mut self) {
        self.before.clear();
        self.body.clear();
    }
}

/// Work over a stream that is cut into buffers anywhere. See the [crate] for who calls what, and when.
pub trait Processor: Send + Sync + 'static {
    /// What one buffer leaves behind, with the memory that scanning takes; reused for every buffer.
    type Part: Send + 'static;
    /// What the stream leaves behind so far.
    type State: Send + 'static;

    /// What it asks of who runs it.
    fn needs(&self) -> Needs;

    /// Whether one buffer may be scanned in several consecutive calls.
    fn blockwise(&self) -> bool {
        false
    }

    /// Upper bound of the bytes of a part that scans `buffer` bytes, with its output.
    fn part_bytes(&self, buffer: usize) -> usize;

    /// Upper bound of the bytes of a state.
    fn state_bytes(&self) -> usize;

    /// An empty part.
    fn part(&self) -> Self::Part;

    /// The state of a stream before its first byte.
    fn state(&self) -> Self::State;

    /// Scans one buffer, the `first` call clears what the part held. Where [`blockwise`](Self::blockwise), consecutive
    /// pieces of the buffer may follow, which begin at a multiple of [`BLOCK`] in the stream.
    ///
    /// # Errors
    /// Where the bytes cannot be processed, with their place in the stream.
    fn scan(
        &self,
        piece: Piece<'_>,
        first: bool,
        part: &mut Self::Part,
        out: &mut Output,
    ) -> Result<(), BytesError>;

    /// Takes the whole buffer in its turn.
    ///
    /// # Errors
    /// Where the bytes cannot be processed, with their place in the stream.
    fn join(
        &self,
        piece: Piece<'_>,
        part: &mut Self::Part,
        state: &mut Self::State,
        out: &mut Output,
    ) -> Result<Joined, BytesError>;

    /// The result once every buffer was joined, and output that is still to come.
    ///
    /// # Errors
    /// Where the stream ended in the middle of something.
    fn finish(&self, state: &mut Self::State, out: &mut Vec<u8>) -> Result<Outcome, BytesError>;
}

/// A processor of any type.
pub struct AnyProcessor(pub(crate) Box<dyn Erased>);

impl AnyProcessor {
    /// Forgets the processor's type.
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

/// A [`Processor`] whose part and state are behind pointers.
pub(crate) trait Erased: Send + Sync {
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
    ) -> Result<Joined, BytesError>;
    fn finish(&self, state: &mut dyn Any, out: &mut Vec<u8>) -> Result<Outcome, BytesError>;
}

/// What a pointer points to, or that it was made by another chain.
fn own<T: 'static>(any: &mut dyn Any) -> Result<&mut T, BytesError> {
    any.downcast_mut().ok_or(BytesError::Foreign)
}

impl<P: Processor> Erased for P {
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
    ) -> Result<Joined, BytesError> {
        Processor::join(self, piece, own(part)?, own(state)?, out)
    }

    fn finish(&self, state: &mut dyn Any, out: &mut Vec<u8>) -> Result<Outcome, BytesError> {
        Processor::finish(self, own(state)?, out)
    }
}
