//! Reference-counted memory: mapped, owned or foreign.
//!
//! A [`Buffer`] is a view (address and length) and a counted reference to whatever keeps that
//! memory alive. Owned memory begins at a multiple of [`ALIGNMENT`] and is the only kind that
//! is ever written, and only while one reference exists.
#![allow(unsafe_code)] // Views into memory whose owner is counted apart from the view need raw pointers.

use std::alloc::{Layout, alloc, dealloc};
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use crate::{Sample, SegmentError, has_free_memory, prefer_large_pages};

/// Alignment of owned memory in bytes: a cache line, and the widest vector register.
pub const ALIGNMENT: usize = 64;

/// What keeps memory alive that this crate did not allocate: a mapped file, a Python buffer.
pub trait Owner: Send + Sync + 'static {
    /// Where the memory comes from.
    fn kind(&self) -> BufferKind {
        BufferKind::Foreign
    }
}

/// Where the memory of a [`Buffer`] comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BufferKind {
    /// A file mapped into memory.
    Mapped,
    /// Aligned memory of this process.
    Owned,
    /// Memory of somebody else, such as a Python object.
    Foreign,
}

/// One aligned allocation. Nobody keeps a Rust reference to its bytes beyond a borrow of a
/// `Buffer` or `BufferMut`, so all access goes through `ptr`.
struct Aligned {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: `Aligned` owns its allocation alone, and shared access to it only reads.
unsafe impl Send for Aligned {}
// SAFETY: as above; writing needs `&mut` or a unique `Arc`.
unsafe impl Sync for Aligned {}

impl Aligned {
    fn layout(len: usize) -> Result<Layout, SegmentError> {
        // An empty allocation is not allowed, so the smallest has one line.
        Layout::from_size_align(len.max(1), ALIGNMENT)
            .map_err(|_| SegmentError::OutOfMemory { bytes: len })
    }

    /// Not initialised.
    fn new(len: usize) -> Result<Self, SegmentError> {
        let layout = Self::layout(len)?;
        // The system may promise more memory than it has, and end the process that writes to it.
        if !has_free_memory(len as u64) {
            return Err(SegmentError::OutOfMemory { bytes: len });
        }
        // SAFETY: the layout has a size above zero.
        let ptr = NonNull::new(unsafe { alloc(layout) })
            .ok_or(SegmentError::OutOfMemory { bytes: len })?;
        // SAFETY: the allocation is new and has at least `len` bytes, which need not be initialised.
        prefer_large_pages(unsafe { slice::from_raw_parts_mut(ptr.as_ptr().cast(), len) });
        Ok(Self { ptr, len })
    }

    fn zeroed(len: usize) -> Result<Self, SegmentError> {
        let owned = Self::new(len)?;
        // SAFETY: `len` bytes lie inside the allocation.
        unsafe { owned.ptr.write_bytes(0, len) };
        Ok(owned)
    }

    /// The parts one after another, without zeroing first.
    fn concat<'a>(parts: impl Iterator<Item = &'a [u8]>, len: usize) -> Result<Self, SegmentError> {
        let owned = Self::new(len)?;
        let ptr = owned.ptr;
        let mut filled = 0;
        for part in parts {
            let part = &part[..part.len().min(len - filled)];
            // SAFETY: `filled + part.len() <= len` by the line above; the allocation is new, so
            // the two do not overlap.
            unsafe {
                ptr.add(filled)
                    .copy_from_nonoverlapping(NonNull::from(part).cast(), part.len());
            }
            filled += part.len();
        }
        // SAFETY: the rest `filled..len` lies inside the allocation. Usually empty; writing it
        // means that no caller's mistake can expose uninitialised memory.
        unsafe { ptr.add(filled).write_bytes(0, len - filled) };
        Ok(owned)
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        if let Ok(layout) = Self::layout(self.len) {
            // SAFETY: `ptr` was allocated with this very layout, and nobody refers to it now.
            unsafe { dealloc(self.ptr.as_ptr(), layout) };
        }
    }
}

#[derive(Clone)]
enum Keeper {
    Owned(Arc<Aligned>),
    Other(Arc<dyn Owner>),
}

/// A shared view of bytes that nobody changes; cloning and slicing copy nothing.
///
/// The view keeps its memory alive whatever happens to store, signal or segment.
#[derive(Clone)]
pub struct Buffer {
    keeper: Keeper,
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory is only read through `&Buffer`, its keeper is `Send + Sync`, and writing
// needs `&mut Buffer` and a unique keeper.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A view of `len` bytes at `ptr` that `owner` keeps alive.
    ///
    /// # Safety
    /// As long as `owner` or a clone of it exists:
    /// - `ptr..ptr + len` is readable, initialised memory that neither moves nor is unmapped or
    ///   truncated;
    /// - all views made with one owner lie in one allocation or mapping of at most `isize::MAX`
    ///   bytes, and their pointers are derived from one to the whole of it (touching views are
    ///   joined into one);
    /// - no thread of this process writes to it, and whoever else may (another process on a shared
    ///   mapping) leaves the bytes of this view alone. A store vouches for its committed samples;
    ///   a Python buffer's caller must not write while a plan reads it.
    #[must_use]
    pub unsafe fn from_owner(owner: Arc<dyn Owner>, ptr: NonNull<u8>, len: usize) -> Self {
        Self {
            keeper: Keeper::Other(owner),
            ptr,
            len,
        }
    }

    /// A copy of samples in owned memory.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`].
    pub fn copy_of<T: Sample>(samples: &[T]) -> Result<Self, SegmentError> {
        Self::concat([bytemuck::cast_slice(samples)])
    }

    /// A copy of parts, one after another, in owned memory.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`].
    pub fn concat<'a, I>(parts: I) -> Result<Self, SegmentError>
    where
        I: IntoIterator<Item = &'a [u8], IntoIter: Clone>,
    {
        let parts = parts.into_iter();
        let len = parts
            .clone()
            .try_fold(0usize, |sum, part| sum.checked_add(part.len()))
            .ok_or(SegmentError::OutOfMemory { bytes: usize::MAX })?;
        Aligned::concat(parts, len).map(|memory| BufferMut { memory }.freeze())
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: valid for reads and unchanged while the keeper lives, which `self` holds:
        // `from_owner`'s caller or `Aligned` guarantee it.
        unsafe { slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }

    /// Address of the first byte.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.ptr.as_ptr()
    }

    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the memory comes from.
    #[must_use]
    pub fn kind(&self) -> BufferKind {
        match &self.keeper {
            Keeper::Owned(_) => BufferKind::Owned,
            Keeper::Other(owner) => owner.kind(),
        }
    }

    /// Whether the memory must never be written, whoever holds it: all but owned memory.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        matches!(self.keeper, Keeper::Other(_))
    }

    /// The part `range` of this view, in bytes; `None` if it reaches outside.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        if range.start > range.end || range.end > self.len {
            return None;
        }
        let mut part = self.clone();
        // SAFETY: `start <= end <= len`, so the address stays inside the view or at its end.
        part.ptr = unsafe { self.ptr.add(range.start) };
        part.len = range.end - range.start;
        Some(part)
    }

    /// Leaves out the first bytes of this view, or all if it has no more.
    pub(crate) fn advance(&mut self, bytes: usize) {
        let bytes = bytes.min(self.len);
        // SAFETY: `bytes <= len`, so the address stays inside the view or at its end.
        self.ptr = unsafe { self.ptr.add(bytes) };
        self.len -= bytes;
    }

    /// The bytes as samples; `None` if they are not aligned for `T` or not a whole number of them.
    #[must_use]
    pub fn samples<T: Sample>(&self) -> Option<&[T]> {
        bytemuck::try_cast_slice(self.bytes()).ok()
    }

    /// Whether `next` continues this view in the same memory.
    #[must_use]
    pub fn is_followed_by(&self, next: &Self) -> bool {
        let same = match (&self.keeper, &next.keeper) {
            (Keeper::Owned(a), Keeper::Owned(b)) => Arc::ptr_eq(a, b),
            // Compare addresses only: one owner may be known by several vtables.
            (Keeper::Other(a), Keeper::Other(b)) => {
                std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b))
            }
            _ => false,
        };
        same && self.ptr.addr().get() + self.len == next.ptr.addr().get()
    }

    /// Extends this view over `next` if that continues it; otherwise gives `next` back.
    ///
    /// # Errors
    /// `next`, unchanged.
    pub fn try_join(&mut self, next: Self) -> Result<(), Self> {
        if !self.is_followed_by(&next) {
            return Err(next);
        }
        // Both views lie in memory of one owner and touch, so their union is readable.
        self.len += next.len;
        Ok(())
    }

    /// The bytes for writing, if this is the only reference to owned memory; copies nothing. Memory whose other
    /// references are gone can so be used again.
    pub fn get_mut(&mut self) -> Option<&mut [u8]> {
        match &mut self.keeper {
            Keeper::Owned(memory) => Arc::get_mut(memory)?,
            Keeper::Other(_) => return None,
        };
        // SAFETY: the keeper is owned memory with one reference, held by `self`, which is borrowed
        // mutably: nobody else can read or write these bytes.
        Some(unsafe { slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) })
    }

    /// The bytes for writing: in place if this is the only reference to owned memory, otherwise
    /// of a copy that replaces this view. Other views keep what they see.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`].
    pub fn make_mut(&mut self) -> Result<&mut [u8], SegmentError> {
        if self.get_mut().is_none() {
            *self = Self::concat([self.bytes()])?;
        }
        // The copy has one reference, this one.
        Ok(self.get_mut().unwrap_or_default())
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("kind", &self.kind())
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// Aligned memory that is being filled; [`freeze`](Self::freeze) makes it shareable.
pub struct BufferMut {
    memory: Aligned,
}

impl BufferMut {
    /// `len` bytes, all zero.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`].
    pub fn zeroed(len: usize) -> Result<Self, SegmentError> {
        Aligned::zeroed(len).map(|memory| Self { memory })
    }

    /// `len` samples, all zero.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`].
    pub fn zeroed_samples<T: Sample>(len: usize) -> Result<Self, SegmentError> {
        let bytes = len
            .checked_mul(size_of::<T>())
            .ok_or(SegmentError::OutOfMemory { bytes: usize::MAX })?;
        Self::zeroed(bytes)
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the allocation has `len` initialised bytes and lives as long as `self`.
        unsafe { slice::from_raw_parts(self.memory.ptr.as_ptr(), self.memory.len) }
    }

    /// The bytes for writing.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; `self` is the only way to this memory and is borrowed mutably.
        unsafe { slice::from_raw_parts_mut(self.memory.ptr.as_ptr(), self.memory.len) }
    }

    /// The memory as samples for writing; trailing bytes short of a sample are left out.
    #[must_use]
    pub fn samples_mut<T: Sample>(&mut self) -> &mut [T] {
        let whole = self.memory.len / size_of::<T>() * size_of::<T>();
        bytemuck::cast_slice_mut(&mut self.bytes_mut()[..whole])
    }

    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.memory.len == 0
    }

    /// Shares the memory, which nobody changes from now on; no copy.
    #[must_use]
    pub fn freeze(self) -> Buffer {
        let (ptr, len) = (self.memory.ptr, self.memory.len);
        Buffer {
            keeper: Keeper::Owned(Arc::new(self.memory)),
            ptr,
            len,
        }
    }
}

impl fmt::Debug for BufferMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferMut")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
