//! Reference-counted memory: mapped, owned or foreign.
//!
//! Only owned memory, aligned to [`ALIGNMENT`], is written, and only while it has a single reference.
#![allow(unsafe_code)] // Views into memory whose owner is counted apart from the view need raw pointers.

use std::alloc::{Layout, alloc, dealloc};
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use crate::{Sample, SegmentError, has_free_memory, prefer_large_pages};

/// Alignment of owned memory in bytes: a cache line, the widest vector register.
pub const ALIGNMENT: usize = 64;

/// Owner of foreign memory: a mapped file, a Python buffer.
pub trait Owner: Send + Sync + 'static {
    /// Origin of the memory.
    fn kind(&self) -> BufferKind {
        BufferKind::Foreign
    }
}

/// Origin of a [`Buffer`]'s memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BufferKind {
    /// A memory-mapped file.
    Mapped,
    /// Aligned memory of this process.
    Owned,
    /// Memory of another owner.
    Foreign,
}

/// One aligned allocation. All access goes through `ptr`, so that references last only as long as borrows of the owner.
struct AlignedMemory {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: `AlignedMemory` owns its allocation alone, and shared access to it only reads.
unsafe impl Send for AlignedMemory {}
// SAFETY: as above; writing needs `&mut` or a unique `Arc`.
unsafe impl Sync for AlignedMemory {}

impl AlignedMemory {
    fn layout(len: usize) -> Result<Layout, SegmentError> {
        // Empty allocations are not allowed.
        Layout::from_size_align(len.max(1), ALIGNMENT)
            .map_err(|_| SegmentError::OutOfMemory { bytes: len })
    }

    /// Uninitialised.
    fn new(len: usize) -> Result<Self, SegmentError> {
        let layout = Self::layout(len)?;
        // Linux overcommits memory and kills the process that writes to it.
        if !has_free_memory(len as u64) {
            return Err(SegmentError::OutOfMemory { bytes: len });
        }
        // SAFETY: the layout has a size above zero.
        let ptr = NonNull::new(unsafe { alloc(layout) })
            .ok_or(SegmentError::OutOfMemory { bytes: len })?;
        // SAFETY: the new allocation has at least `len` bytes, possibly uninitialised.
        prefer_large_pages::<u8>(unsafe { slice::from_raw_parts_mut(ptr.as_ptr().cast(), len) });
        Ok(Self { ptr, len })
    }

    fn zeroed(len: usize) -> Result<Self, SegmentError> {
        let owned = Self::new(len)?;
        // SAFETY: `len` bytes lie inside the allocation.
        unsafe { owned.ptr.write_bytes(0, len) };
        Ok(owned)
    }

    fn concat<'a>(parts: impl Iterator<Item = &'a [u8]>, len: usize) -> Result<Self, SegmentError> {
        let owned = Self::new(len)?;
        let ptr = owned.ptr;
        let mut filled = 0;
        for part in parts {
            let part = &part[..part.len().min(len - filled)];
            // SAFETY: `filled + part.len() <= len` by the line above; the allocation is new, so nothing overlaps.
            unsafe {
                ptr.add(filled)
                    .copy_from_nonoverlapping(NonNull::from(part).cast(), part.len());
            }
            filled += part.len();
        }
        // SAFETY: `filled..len` lies inside the allocation. Usually empty; a wrong `len` must not expose uninitialised
        // memory.
        unsafe { ptr.add(filled).write_bytes(0, len - filled) };
        Ok(owned)
    }
}

impl Drop for AlignedMemory {
    fn drop(&mut self) {
        if let Ok(layout) = Self::layout(self.len) {
            // SAFETY: allocated with this layout, and no reference is left.
            unsafe { dealloc(self.ptr.as_ptr(), layout) };
        }
    }
}

#[derive(Clone)]
enum Keeper {
    Owned(Arc<AlignedMemory>),
    Other(Arc<dyn Owner>),
}

/// A shared view of immutable bytes, which keeps its memory alive; cloning and slicing copy nothing.
#[derive(Clone)]
pub struct Buffer {
    keeper: Keeper,
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: `&Buffer` only reads, the keeper is `Send + Sync`, and writing needs `&mut Buffer` and a unique keeper.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A view of `len` bytes at `ptr` in memory of `owner`.
    ///
    /// # Safety
    /// While `owner` or a clone of it exists:
    /// - `ptr..ptr + len` is readable, initialised memory that is neither moved, unmapped nor truncated;
    /// - all views with one owner lie in one allocation or mapping of at most `isize::MAX` bytes, and their pointers
    ///   derive from one to the whole of it (adjacent views are joined);
    /// - nobody writes to these bytes, other processes with a shared mapping included. A store guarantees this for
    ///   committed samples; the caller must for a Python buffer.
    #[must_use]
    pub unsafe fn from_owner(owner: Arc<dyn Owner>, ptr: NonNull<u8>, len: usize) -> Self {
        Self {
            keeper: Keeper::Other(owner),
            ptr,
            len,
        }
    }

    /// Copies samples to owned memory.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`].
    pub fn copy_of<T: Sample>(samples: &[T]) -> Result<Self, SegmentError> {
        Self::concat([bytemuck::cast_slice(samples)])
    }

    /// Concatenates parts in owned memory.
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
        AlignedMemory::concat(parts, len).map(|memory| BufferMut { memory }.freeze())
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: readable and unchanged while `self` holds the keeper; guaranteed by `from_owner`'s caller or
        // `AlignedMemory`.
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

    /// Origin of the memory.
    #[must_use]
    pub fn kind(&self) -> BufferKind {
        match &self.keeper {
            Keeper::Owned(_) => BufferKind::Owned,
            Keeper::Other(owner) => owner.kind(),
        }
    }

    /// Whether the memory is never writable: all but owned memory.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        matches!(self.keeper, Keeper::Other(_))
    }

    /// A range of bytes of this view; `None` if out of bounds.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        if range.start > range.end || range.end > self.len {
            return None;
        }
        let mut part = self.clone();
        // SAFETY: `start <= end <= len`: inside the view or at its end.
        part.ptr = unsafe { self.ptr.add(range.start) };
        part.len = range.end - range.start;
        Some(part)
    }

    /// Drops up to `bytes` first bytes.
    pub(crate) fn advance(&mut self, bytes: usize) {
        let bytes = bytes.min(self.len);
        // SAFETY: `bytes <= len`: inside the view or at its end.
        self.ptr = unsafe { self.ptr.add(bytes) };
        self.len -= bytes;
    }

    /// The bytes as samples; `None` if misaligned or not a whole number of samples.
    #[must_use]
    pub fn samples<T: Sample>(&self) -> Option<&[T]> {
        bytemuck::try_cast_slice(self.bytes()).ok()
    }

    /// Whether `next` continues this view in memory.
    #[must_use]
    pub fn is_followed_by(&self, next: &Self) -> bool {
        let same = match (&self.keeper, &next.keeper) {
            (Keeper::Owned(a), Keeper::Owned(b)) => Arc::ptr_eq(a, b),
            // Compare addresses only: an owner may have several vtables.
            (Keeper::Other(a), Keeper::Other(b)) => {
                std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b))
            }
            _ => false,
        };
        same && self.ptr.addr().get() + self.len == next.ptr.addr().get()
    }

    /// Extends this view by `next` if adjacent.
    ///
    /// # Errors
    /// `next`, unchanged.
    pub fn try_join(&mut self, next: Self) -> Result<(), Self> {
        if !self.is_followed_by(&next) {
            return Err(next);
        }
        // Adjacent views of one owner: their union is readable.
        self.len += next.len;
        Ok(())
    }

    /// The bytes for writing, if this is the only reference to owned memory.
    pub fn get_mut(&mut self) -> Option<&mut [u8]> {
        match &mut self.keeper {
            Keeper::Owned(memory) => Arc::get_mut(memory)?,
            Keeper::Other(_) => return None,
        };
        // SAFETY: the keeper is owned memory with a single reference, held by the mutably borrowed `self`.
        Some(unsafe { slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) })
    }

    /// The bytes for writing; replaces this view by a copy unless it is the only reference to owned memory.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`].
    pub fn make_mut(&mut self) -> Result<&mut [u8], SegmentError> {
        if self.get_mut().is_none() {
            *self = Self::concat([self.bytes()])?;
        }
        // The copy has a single reference.
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

/// Aligned memory to be filled; [`freeze`](Self::freeze) makes it shareable.
pub struct BufferMut {
    memory: AlignedMemory,
}

impl BufferMut {
    /// `len` bytes, all zero.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`].
    pub fn zeroed(len: usize) -> Result<Self, SegmentError> {
        AlignedMemory::zeroed(len).map(|memory| Self { memory })
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
        // SAFETY: as in `bytes`; only the mutably borrowed `self` accesses this memory.
        unsafe { slice::from_raw_parts_mut(self.memory.ptr.as_ptr(), self.memory.len) }
    }

    /// The memory as samples, without a trailing partial sample.
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

    /// Makes the memory immutable and shareable, without a copy.
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
