//! Samples of miniSEED records.

use isochrony_ingest::{EncodedSamples, RecordRun, RunPart, RunSamples};
use isochrony_segment::{Buffer, DType};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyList;

use crate::memory;

/// Bytes, offset of samples, encoding number, whether little endian, number of samples.
type EncodedRecord = (PyBackedBytes, usize, u8, bool, usize);

/// Decodes the samples of miniSEED records, detached from the interpreter.
///
/// Parameters:
///     records: of each its bytes, the offset of its samples, its encoding number, whether it is little endian, and its
///         number of samples.
///
/// Returns:
///     An array of int32, float32 or float64 per record; None where samples contradict the header, or the encoding is
///     none of int16, int32, float32, float64, Steim 1 and 2.
///
/// >>> from isochrony._native import decode_mseed
/// >>> decode_mseed([(b"..\x00\x01\xff\xfe", 2, 1, False, 2)])
/// [array([ 1, -2], dtype=int32)]
#[pyfunction]
#[pyo3(signature = (records, /))]
pub(crate) fn decode_mseed(
    py: Python<'_>,
    records: Vec<EncodedRecord>,
) -> PyResult<Bound<'_, PyList>> {
    let decoded: Vec<_> = crate::interpreter::detach(py, || {
        let decode = |(bytes, offset, encoding, little_endian, count): &EncodedRecord| {
            let encoded = EncodedSamples {
                payload: bytes.get(*offset..)?,
                encoding: *encoding,
                little_endian: *little_endian,
                count: *count,
            };
            encoded.decode()
        };
        records.iter().map(decode).collect()
    });
    let arrays = decoded.into_iter().map(|decoded| match decoded {
        Some((dtype, samples)) => memory::view(py, samples, dtype).map(Some),
        None => Ok(None),
    });
    PyList::new(py, arrays.collect::<PyResult<Vec<_>>>()?)
}

/// Finds a run of adjacent, self-consistent version 2 records of one channel, rate and encoding.
///
/// Parameters:
///     window: part of a file.
///     start: offset of a record in it.
///     most: bytes of records.
///     rest: bytes from the window's beginning to the end of the file.
///
/// Returns:
///     End offset of the run in the window, and its number of records; 0 if the first is irregular: its blockettes
///     state no length or encoding, it has no samples or a leap second, no header follows it, or it contains one.
///
/// >>> from isochrony._native import find_mseed_run
/// >>> find_mseed_run(b"no record", 0, 512, 9)
/// (0, 0)
#[pyfunction]
#[pyo3(signature = (window, start, most, rest, /))]
pub(crate) fn find_mseed_run(
    py: Python<'_>,
    window: PyBackedBytes,
    start: usize,
    most: usize,
    rest: usize,
) -> (usize, usize) {
    let run = crate::interpreter::detach(py, || RecordRun::find(&window, start, most, rest));
    (run.bytes.end, run.records)
}

type DecodedPart<'py> = (usize, usize, Option<[Bound<'py, PyAny>; 3]>);

/// Decodes the samples of a run found by `find_mseed_run`.
///
/// Parameters:
///     window, start, end: its place.
///     count: number of its records.
///
/// Returns:
///     Start and end of each part of the run, in order, and three arrays: the samples of its records, the number of
///     samples of each, and the time of the first sample of each, ns since 1970; None instead of the arrays for a
///     record whose samples contradict its header. None if memory is short.
///
/// >>> from isochrony._native import decode_mseed_run
/// >>> decode_mseed_run(b"no record", 0, 0, 0) is None
/// True
#[pyfunction]
#[pyo3(signature = (window, start, end, count, /))]
pub(crate) fn decode_mseed_run<'py>(
    py: Python<'py>,
    window: PyBackedBytes,
    start: usize,
    end: usize,
    count: usize,
) -> PyResult<Option<Vec<DecodedPart<'py>>>> {
    let run = RecordRun {
        bytes: start..end,
        records: count,
    };
    let Some(parts) = crate::interpreter::detach(py, || run.decode(&window)) else {
        return Ok(None);
    };
    let numbers = |numbers: &[i64]| -> crate::errors::Result<_> {
        Ok(memory::view(py, Buffer::copy_of(numbers)?, DType::I64)?)
    };
    let arrays = |one: RunSamples| -> PyResult<_> {
        let samples = memory::view(py, one.samples, one.dtype)?;
        Ok([samples, numbers(&one.counts)?, numbers(&one.starts)?])
    };
    let part = |part: RunPart| -> PyResult<DecodedPart<'py>> {
        let arrays = part.samples.map(arrays).transpose()?;
        Ok((part.bytes.start, part.bytes.end, arrays))
    };
    let parts: PyResult<Vec<_>> = parts.into_iter().map(part).collect();
    parts.map(Some)
}
