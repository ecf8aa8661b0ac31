//! Buffers: ownership, write access, misaligned memory.
#![allow(unsafe_code)] // The tests lend memory of their own.

use std::borrow::Cow;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use isochrony_segment::{
    ALIGNMENT, Buffer, BufferKind, BufferMut, DType, Owner, SigSeg, Stream, StreamId,
};
use isochrony_time::{Rate, TimebaseId};

struct Lender {
    bytes: Box<[u8]>,
    gone: Arc<AtomicBool>,
}

impl Owner for Lender {
    fn kind(&self) -> BufferKind {
        BufferKind::Mapped
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Relaxed);
    }
}

fn lend(bytes: &[u8], from: usize) -> (Buffer, Arc<AtomicBool>) {
    let gone = Arc::new(AtomicBool::new(false));
    let owner = Arc::new(Lender {
        bytes: bytes.into(),
        gone: gone.clone(),
    });
    let ptr = NonNull::from(&*owner.bytes).cast::<u8>();
    let whole = owner.bytes.len();
    // SAFETY: a boxed slice, never written, that lives as long as its owner.
    let buffer = unsafe { Buffer::from_owner(owner, ptr, whole) };
    (buffer.slice(from..whole).unwrap(), gone)
}

fn stream() -> StreamId {
    Stream::new("buffers", TimebaseId(0), Rate::new(1, 1).unwrap()).intern()
}

#[test]
fn a_view_keeps_foreign_memory_alive() {
    let (buffer, gone) = lend(&[1, 2, 3, 4], 0);
    assert!(buffer.is_read_only());
    assert_eq!(buffer.kind(), BufferKind::Mapped);
    let seg = SigSeg::new(buffer, 0, DType::U8, stream()).unwrap();
    let part = seg.subseg(2..3).unwrap();
    drop(seg);
    assert!(!gone.load(Ordering::Relaxed));
    assert_eq!(part.as_contiguous::<u8>(), Some(&[3u8][..]));
    let elsewhere = std::thread::spawn(move || part.to_vec::<u8>().unwrap());
    assert_eq!(elsewhere.join().unwrap(), [3]);
    assert!(gone.load(Ordering::Relaxed));
}

#[test]
fn unaligned_samples_are_copied_never_viewed() {
    let expected: Vec<f64> = (0..1000).map(f64::from).collect();
    let mut bytes = vec![0xff; 16];
    bytes.extend_from_slice(bytemuck::cast_slice(&expected));
    for shift in 0..8 {
        bytes.truncate(16);
        bytes.extend(vec![0; shift]);
        bytes.extend_from_slice(bytemuck::cast_slice(&expected));
        let (buffer, _) = lend(&bytes, 16 + shift);
        let on_line = buffer.as_ptr().addr().is_multiple_of(8);
        let seg = SigSeg::new(buffer, 0, DType::F64, stream()).unwrap();
        assert_eq!(seg.is_contiguous(), on_line);
        assert_eq!(seg.as_contiguous::<f64>().is_some(), on_line);
        assert_eq!(seg.to_vec::<f64>().unwrap(), expected);
        let slices: Vec<Cow<'_, [f64]>> = seg.as_slices().unwrap().collect();
        assert_eq!(slices.len(), 1);
        assert_eq!(slices[0].as_ref(), expected);
        assert_eq!(matches!(slices[0], Cow::Borrowed(_)), on_line);
        let mut visited = Vec::new();
        seg.visit::<f64>(|part| visited.extend_from_slice(part))
            .unwrap();
        assert_eq!(visited, expected);
        let moved = seg.materialise().unwrap();
        assert_eq!(moved.as_contiguous::<f64>(), Some(&expected[..]));
        let mut mutable = seg.clone();
        mutable.make_mut::<f64>().unwrap()[0] = -1.0;
        assert_eq!(seg.to_vec::<f64>().unwrap(), expected);
    }
}

#[test]
fn owned_memory_is_aligned_and_writable_until_shared() {
    for len in [0, 1, 63, 64, 65, 4096] {
        let mut memory = BufferMut::zeroed(len).unwrap();
        assert!(memory.bytes().as_ptr().addr().is_multiple_of(ALIGNMENT));
        assert!(memory.bytes().iter().all(|&b| b == 0));
        memory.bytes_mut().fill(7);
        let buffer = memory.freeze();
        assert_eq!(buffer.bytes(), vec![7; len]);
        assert!(!buffer.is_read_only());
    }
    let mut odd = BufferMut::zeroed(7).unwrap();
    assert_eq!(odd.samples_mut::<i16>().len(), 3);
}

#[test]
fn mutation_copies_only_what_is_shared() {
    let mut buffer = Buffer::copy_of(&[1u8, 2, 3, 4]).unwrap();
    let before = buffer.as_ptr();
    buffer.make_mut().unwrap()[0] = 9;
    assert_eq!(buffer.as_ptr(), before, "alone: in place");
    let mut part = buffer.slice(1..3).unwrap();
    part.make_mut().unwrap()[0] = 8;
    assert_eq!(
        buffer.bytes(),
        [9, 2, 3, 4],
        "shared: the other keeps its bytes"
    );
    assert_eq!(part.bytes(), [8, 3]);
    let (mut mapped, _) = lend(&[5, 6], 0);
    mapped.make_mut().unwrap()[1] = 0;
    assert_eq!(mapped.bytes(), [5, 0]);
    assert_eq!(mapped.kind(), BufferKind::Owned);
}

#[test]
fn refuses_slices_outside_and_absurd_sizes() {
    let buffer = Buffer::copy_of(&[1u8, 2]).unwrap();
    assert!(buffer.slice(1..3).is_none());
    #[allow(clippy::reversed_empty_ranges)]
    let reversed = buffer.slice(2..1);
    assert!(reversed.is_none());
    assert!(buffer.slice(2..2).unwrap().is_empty());
    assert_eq!(
        BufferMut::zeroed(usize::MAX).unwrap_err().code(),
        "out_of_memory"
    );
    let huge = BufferMut::zeroed_samples::<f64>(usize::MAX / 2);
    assert_eq!(huge.unwrap_err().code(), "out_of_memory");
}

#[test]
fn views_join_only_within_one_owner() {
    let (buffer, _) = lend(&[1, 2, 3, 4], 0);
    let mut head = buffer.slice(0..2).unwrap();
    assert!(head.try_join(buffer.slice(2..4).unwrap()).is_ok());
    assert_eq!(head.bytes(), [1, 2, 3, 4]);
    assert!(head.try_join(buffer.slice(3..4).unwrap()).is_err());
    let other = Buffer::copy_of(&[5u8]).unwrap();
    assert!(head.try_join(other).is_err());
}
