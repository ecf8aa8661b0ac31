//! BLAKE3 in parts: aligned subtrees are hashed separately and combined as in the specification.
//!
//! The root is combined differently, so nodes that could be the root (the first chunk, the two halves of the first
//! subtree) are combined only when more bytes follow.

use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root,
};
use blake3::{CHUNK_LEN, Hasher};
use isochrony_dsp::reduction_tree::{MAX_NODES, ReductionTree};

use crate::processor::{JoinOutcome, Needs, Output, Piece, Processor};
use crate::samples::{round_down, round_up};
use crate::{BytesError, Digest, Outcome};

/// Bytes of a leaf.
const CHUNK: u64 = CHUNK_LEN as u64;

fn combine(left: &ChainingValue, right: &ChainingValue) -> ChainingValue {
    merge_subtrees_non_root(left, right, Mode::Hash)
}

pub(super) struct Blake3;

pub(super) struct Part {
    tree: ReductionTree<ChainingValue>,
    from: u64,
    to: u64,
}

impl Part {
    /// Hashes whole chunks from `self.to` on, in the largest aligned subtrees.
    fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let chunks = bytes.len() as u64 / CHUNK;
            let at = self.to / CHUNK;
            let fits = 1 << chunks.ilog2();
            let chunks = match at {
                // Push the two halves separately: this subtree may be the root.
                0 => fits / 2,
                at => fits.min(1 << at.trailing_zeros()),
            };
            let (subtree, rest) = bytes.split_at((chunks * CHUNK) as usize);
            // Not reused: `reset` keeps a part of the input offset (blake3 1.8).
            let value = Hasher::new()
                .set_input_offset(self.to)
                .update(subtree)
                .finalize_non_root();
            self.tree.push(at, chunks.ilog2(), value, combine);
            self.to += subtree.len() as u64;
            bytes = rest;
        }
    }
}

pub(super) struct State {
    tree: ReductionTree<ChainingValue>,
    open: Hasher,
    /// Start of the open chunk.
    open_start: u64,
    /// A whole chunk stays open until more follows.
    open_len: usize,
}

impl State {
    fn begin_chunk(&mut self, start: u64) {
        self.open = Hasher::new();
        self.open.set_input_offset(start);
        self.open_start = start;
        self.open_len = 0;
    }

    fn close(&mut self) {
        if self.open_len == CHUNK_LEN {
            let value = self.open.finalize_non_root();
            self.tree.push(self.open_start / CHUNK, 0, value, combine);
            self.begin_chunk(self.open_start + CHUNK);
        }
    }

    fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            self.close();
            let (head, tail) = bytes.split_at(bytes.len().min(CHUNK_LEN - self.open_len));
            self.open.update(head);
            self.open_len += head.len();
            bytes = tail;
        }
    }
}

impl Processor for Blake3 {
    type Part = Part;
    type State = State;

    fn needs(&self) -> Needs {
        Needs {
            scan: true,
            ..Needs::default()
        }
    }

    fn blockwise(&self) -> bool {
        true
    }

    fn part_bytes(&self, _buffer: usize) -> usize {
        size_of::<Part>() + MAX_NODES * (size_of::<ChainingValue>() + 16)
    }

    fn state_bytes(&self) -> usize {
        size_of::<State>() + MAX_NODES * (size_of::<ChainingValue>() + 16)
    }

    fn part(&self) -> Part {
        Part {
            tree: ReductionTree::new(),
            from: 0,
            to: 0,
        }
    }

    fn state(&self) -> State {
        State {
            tree: ReductionTree::new(),
            open: Hasher::new(),
            open_start: 0,
            open_len: 0,
        }
    }

    fn scan(
        &self,
        piece: Piece<'_>,
        first: bool,
        part: &mut Part,
        _out: &mut Output,
    ) -> Result<(), BytesError> {
        if first || part.from == part.to {
            part.tree.clear();
            part.from = round_up(piece.offset, CHUNK);
            part.to = part.from;
        }
        let to = round_down(piece.end(), CHUNK);
        // The first chunk may be the root. After a hole, `join` does the work.
        let alone = part.to == 0 && to == CHUNK;
        if part.to >= piece.offset && to > part.to && !alone {
            let bytes = &piece.bytes[(part.to - piece.offset) as usize..];
            let count = (to - part.to) as usize;
            part.push(&bytes[..count]);
        }
        Ok(())
    }

    fn join(
        &self,
        piece: Piece<'_>,
        part: &mut Part,
        state: &mut State,
        _out: &mut Output,
    ) -> Result<JoinOutcome, BytesError> {
        if part.from < part.to {
            let (head, rest) = piece.bytes.split_at((part.from - piece.offset) as usize);
            state.push(head);
            state.close();
            state.tree.append(&part.tree, combine);
            state.begin_chunk(part.to);
            state.push(&rest[(part.to - part.from) as usize..]);
        } else {
            state.push(piece.bytes);
        }
        Ok(JoinOutcome::Done)
    }

    fn finish(&self, state: &mut State, _out: &mut Vec<u8>) -> Result<Outcome, BytesError> {
        let mut tree = state.tree.clone();
        if !tree.is_empty() && state.open_len > 0 {
            let value = state.open.finalize_non_root();
            tree.push(state.open_start / CHUNK, 0, value, combine);
        }
        let root = |left: &_, right: &_| *merge_subtrees_root(left, right, Mode::Hash).as_bytes();
        // The tree never holds a single node: without a root, the input is at most one chunk.
        let bytes = tree
            .fold(combine, root, |alone| *alone)
            .unwrap_or_else(|| *state.open.finalize().as_bytes());
        Ok(Outcome::Digest(Digest {
            bytes: bytes.to_vec(),
        }))
    }
}
