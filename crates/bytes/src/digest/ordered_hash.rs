//! Hashes that need the bytes in order.

use std::hash::Hasher;
use std::marker::PhantomData;

use sha2::Digest as _;
use twox_hash::{XxHash3_64, XxHash3_128};

use crate::processor::{JoinOutcome, Needs, Output, Piece, Processor};
use crate::{BytesError, Digest, Outcome};

/// Heap of the largest hash: XXH3's secret and buffer.
const HEAP: usize = 1024;

/// A streaming hash.
pub(super) trait StreamHash: Default + Send + 'static {
    fn update(&mut self, bytes: &[u8]);
    fn digest(&self) -> Vec<u8>;
}

macro_rules! rust_crypto {
    ($($type:ty)*) => {$(
        impl StreamHash for $type {
            fn update(&mut self, bytes: &[u8]) {
                sha2::Digest::update(self, bytes);
            }

            fn digest(&self) -> Vec<u8> {
                self.clone().finalize().to_vec()
            }
        }
    )*};
}

rust_crypto!(md5::Md5 sha2::Sha256 sha2::Sha512);

impl StreamHash for XxHash3_64 {
    fn update(&mut self, bytes: &[u8]) {
        self.write(bytes);
    }

    fn digest(&self) -> Vec<u8> {
        self.finish().to_be_bytes().to_vec()
    }
}

impl StreamHash for XxHash3_128 {
    fn update(&mut self, bytes: &[u8]) {
        self.write(bytes);
    }

    fn digest(&self) -> Vec<u8> {
        self.finish_128().to_be_bytes().to_vec()
    }
}

pub(super) struct OrderedHash<H>(PhantomData<fn() -> H>);

impl<H> OrderedHash<H> {
    pub(super) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<H: StreamHash> Processor for OrderedHash<H> {
    type Part = ();
    type State = H;

    fn needs(&self) -> Needs {
        Needs {
            ordered: true,
            ..Needs::default()
        }
    }

    fn part_bytes(&self, _buffer: usize) -> usize {
        0
    }

    fn state_bytes(&self) -> usize {
        size_of::<H>() + HEAP
    }

    fn part(&self) {}

    fn state(&self) -> H {
        H::default()
    }

    fn scan(
        &self,
        _piece: Piece<'_>,
        _first: bool,
        _part: &mut (),
        _out: &mut Output,
    ) -> Result<(), BytesError> {
        Ok(())
    }

    fn join(
        &self,
        piece: Piece<'_>,
        _part: &mut (),
        state: &mut H,
        _out: &mut Output,
    ) -> Result<JoinOutcome, BytesError> {
        state.update(piece.bytes);
        Ok(JoinOutcome::Done)
    }

    fn finish(&self, state: &mut H, _out: &mut Vec<u8>) -> Result<Outcome, BytesError> {
        Ok(Outcome::Digest(Digest {
            bytes: state.digest(),
        }))
    }
}
