//! The Arrow C data interface: <https://arrow.apache.org/docs/format/CDataInterface.html>.
//!
//! Numbers cross without a copy; bools are repacked between bits and bytes. Complex numbers are fixed-size lists of two
//! floats.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use isochrony_segment::{Buffer, DType, Owner};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::errors::{PackageError, Result};

/// `struct ArrowSchema` of the specification.
#[repr(C)]
struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private_data: *mut c_void,
}

/// `struct ArrowArray` of the specification.
#[repr(C)]
struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Array,
    dictionary: *mut Array,
    release: Option<unsafe extern "C" fn(*mut Array)>,
    private_data: *mut c_void,
}

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";

/// A capsule's content. Dropping it calls the producer's release function, unless a consumer took it over.
struct OwnedSchema(Schema);
struct OwnedArray(Array);

// SAFETY: a consumer may move the structs and release them from any thread, by specification; ours hold a `Buffer` and
// plain memory, which are `Send`.
unsafe impl Send for OwnedSchema {}
// SAFETY: as above.
unsafe impl Send for OwnedArray {}
// SAFETY: nothing is changed through a shared reference.
unsafe impl Sync for OwnedArray {}

impl Drop for OwnedSchema {
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            // SAFETY: not released yet, and only this struct releases it.
            unsafe { release(&raw mut self.0) };
        }
    }
}

impl Drop for OwnedArray {
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            // SAFETY: as for the schema.
            unsafe { release(&raw mut self.0) };
        }
    }
}

struct SchemaParts {
    format: CString,
    child: Option<Box<OwnedSchema>>,
    children: [*mut Schema; 1],
}

struct ArrayParts {
    _data: Option<Buffer>,
    buffers: [*const c_void; 2],
    child: Option<Box<OwnedArray>>,
    children: [*mut Array; 1],
}

unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: called once with a schema of `schema()`: private_data is its `SchemaParts`.
    unsafe {
        drop(Box::from_raw((*schema).private_data.cast::<SchemaParts>()));
        (*schema).release = None;
    }
}

unsafe extern "C" fn release_array(array: *mut Array) {
    // SAFETY: called once with an array of `array()`: private_data is its `ArrayParts`.
    unsafe {
        drop(Box::from_raw((*array).private_data.cast::<ArrayParts>()));
        (*array).release = None;
    }
}

fn schema(format: &CStr, child: Option<OwnedSchema>) -> OwnedSchema {
    let has_child = child.is_some();
    let mut parts = Box::new(SchemaParts {
        format: format.to_owned(),
        child: child.map(Box::new),
        children: [std::ptr::null_mut()],
    });
    if let Some(child) = &mut parts.child {
        parts.children[0] = &raw mut child.0;
    }
    let parts = Box::into_raw(parts);
    // SAFETY: `parts` was just leaked, and stays until the release function takes it back.
    let (format, children) = unsafe {
        (
            (*parts).format.as_ptr(),
            (&raw mut (*parts).children).cast(),
        )
    };
    OwnedSchema(Schema {
        format,
        name: c"".as_ptr(),
        metadata: std::ptr::null(),
        flags: 0,
        n_children: i64::from(has_child),
        children: if has_child {
            children
        } else {
            std::ptr::null_mut()
        },
        dictionary: std::ptr::null_mut(),
        release: Some(release_schema),
        private_data: parts.cast(),
    })
}

fn array(data: Option<Buffer>, length: usize, child: Option<OwnedArray>) -> OwnedArray {
    let has_child = child.is_some();
    let values = data
        .as_ref()
        .map_or(std::ptr::null(), |data| data.as_ptr().cast::<c_void>());
    let mut parts = Box::new(ArrayParts {
        _data: data,
        // No validity bitmap: no sample is missing.
        buffers: [std::ptr::null(), values],
        child: child.map(Box::new),
        children: [std::ptr::null_mut()],
    });
    if let Some(child) = &mut parts.child {
        parts.children[0] = &raw mut child.0;
    }
    let parts = Box::into_raw(parts);
    // SAFETY: `parts` was just leaked, and stays until the release function takes it back.
    let (buffers, children) = unsafe {
        (
            (&raw mut (*parts).buffers).cast(),
            (&raw mut (*parts).children).cast(),
        )
    };
    OwnedArray(Array {
        length: length as i64,
        null_count: 0,
        offset: 0,
        n_buffers: if has_child { 1 } else { 2 },
        n_children: i64::from(has_child),
        buffers,
        children: if has_child {
            children
        } else {
            std::ptr::null_mut()
        },
        dictionary: std::ptr::null_mut(),
        release: Some(release_array),
        private_data: parts.cast(),
    })
}

fn format(dtype: DType) -> &'static CStr {
    match dtype {
        DType::Bool => c"b",
        DType::I8 => c"c",
        DType::I16 => c"s",
        DType::I32 => c"i",
        DType::I64 => c"l",
        DType::U8 => c"C",
        DType::U16 => c"S",
        DType::U32 => c"I",
        DType::F32 | DType::C64 => c"f",
        DType::F64 | DType::C128 => c"g",
    }
}

pub(crate) fn export(py: Python<'_>, buffer: Buffer, dtype: DType) -> Result<Bound<'_, PyTuple>> {
    let length = buffer.len() / dtype.size();
    let (schema, array) = match dtype {
        DType::Bool => (
            schema(c"b", None),
            array(Some(packed(buffer.bytes())?), length, None),
        ),
        DType::C64 | DType::C128 => (
            schema(c"+w:2", Some(schema(format(dtype), None))),
            array(None, length, Some(array(Some(buffer), length * 2, None))),
        ),
        _ => (
            schema(format(dtype), None),
            array(Some(buffer), length, None),
        ),
    };
    let schema = PyCapsule::new_with_value(py, schema, SCHEMA)?;
    let array = PyCapsule::new_with_value(py, array, ARRAY)?;
    Ok(PyTuple::new(py, [schema, array])?)
}

/// One bit per sample, least significant first.
fn packed(bools: &[u8]) -> Result<Buffer> {
    let bits: Vec<u8> = bools
        .chunks(8)
        .map(|eight| {
            eight
                .iter()
                .enumerate()
                .fold(0, |byte, (bit, &value)| byte | u8::from(value != 0) << bit)
        })
        .collect();
    Ok(Buffer::copy_of(&bits)?)
}

impl Owner for OwnedArray {}

fn refuse(reason: &str) -> crate::errors::Error {
    let message = format!(
        "Arrow array is refused: {reason}; cast it first to bool, int8 to int64, uint8 to uint32, float32 or float64, without nulls"
    );
    PackageError::new("SegmentTypeError", "unsupported_arrow", message).into()
}

/// The samples of an object with `__arrow_c_array__`; copies only bools.
pub(crate) fn import(object: &Bound<'_, PyAny>) -> Result<(Buffer, DType)> {
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) =
        object.call_method0("__arrow_c_array__")?.extract()?;
    let schema = schema.pointer_checked(Some(SCHEMA))?.cast::<Schema>();
    let array = array.pointer_checked(Some(ARRAY))?.cast::<Array>();
    // SAFETY: capsules of these names hold these structs by specification. The array is moved out and marked as
    // released, so only we release it. The schema stays the capsule's, which lives until the end of this function.
    let (schema, array) = unsafe {
        let moved = OwnedArray(array.as_ptr().read());
        (*array.as_ptr()).release = None;
        (schema.as_ref(), moved)
    };
    if schema.release.is_none() || array.0.release.is_none() {
        return Err(refuse("it was released already"));
    }
    // SAFETY: a null-terminated string that lives as long as the schema.
    let spelling = unsafe { CStr::from_ptr(schema.format) };
    let complex = spelling == c"+w:2" && schema.n_children == 1 && array.0.n_children == 1;
    // SAFETY: with n_children == 1 there is one valid child pointer each, alive as long as its parent.
    let (leaf_schema, leaf) = unsafe {
        if complex {
            (&**schema.children, &**array.0.children)
        } else {
            (schema, &array.0)
        }
    };
    if !leaf_schema.dictionary.is_null() {
        return Err(refuse(
            "it is dictionary-encoded: its values are in another array",
        ));
    }
    // SAFETY: as above.
    let dtype = match (
        unsafe { CStr::from_ptr(leaf_schema.format) }.to_bytes(),
        complex,
    ) {
        (b"b", false) => DType::Bool,
        (b"c", false) => DType::I8,
        (b"s", false) => DType::I16,
        (b"i", false) => DType::I32,
        (b"l", false) => DType::I64,
        (b"C", false) => DType::U8,
        (b"S", false) => DType::U16,
        (b"I", false) => DType::U32,
        (b"f", false) => DType::F32,
        (b"g", false) => DType::F64,
        (b"f", true) => DType::C64,
        (b"g", true) => DType::C128,
        _ => {
            return Err(refuse(&format!(
                "its type {spelling:?} is none that signals can have"
            )));
        }
    };
    if array.0.null_count > 0 || leaf.null_count > 0 {
        return Err(refuse("it has nulls, and a segment has no missing samples"));
    }
    if (array.0.null_count < 0 || leaf.null_count < 0) && has_bitmap(&array.0, leaf) {
        return Err(refuse("it does not say that it has no nulls"));
    }
    if leaf.n_buffers != 2 || array.0.length < 0 || array.0.offset < 0 || leaf.offset < 0 {
        return Err(refuse("its structure is impossible"));
    }
    let length = array.0.length as usize;
    let offset = if complex {
        leaf.offset as usize + 2 * array.0.offset as usize
    } else {
        leaf.offset as usize
    };
    // SAFETY: n_buffers == 2, so the second pointer exists.
    let values = unsafe { *leaf.buffers.add(1) }.cast_mut().cast::<u8>();
    let Some(values) = NonNull::new(values).filter(|_| length > 0) else {
        return Ok((Buffer::concat([])?, dtype));
    };
    if dtype == DType::Bool {
        // SAFETY: the bitmap of an array holds `offset + length` bits.
        let bits =
            unsafe { std::slice::from_raw_parts(values.as_ptr(), (offset + length).div_ceil(8)) };
        let bools: Vec<u8> = (offset..offset + length)
            .map(|bit| bits[bit / 8] >> (bit % 8) & 1)
            .collect();
        return Ok((Buffer::copy_of(&bools)?, dtype));
    }
    let component = dtype.component_size();
    // SAFETY: the values buffer holds `offset + length` items (components for the list's child), which Arrow producers
    // do not change after export; its owner `array` keeps it alive.
    let buffer = unsafe {
        let first = values.add(offset * component);
        Buffer::from_owner(Arc::new(array), first, length * dtype.size())
    };
    Ok((buffer, dtype))
}

fn has_bitmap(array: &Array, leaf: &Array) -> bool {
    [array, leaf].into_iter().any(|a| {
        // SAFETY: n_buffers >= 1, so the first pointer, the bitmap or null, exists.
        a.n_buffers > 0 && !unsafe { *a.buffers }.is_null()
    })
}
