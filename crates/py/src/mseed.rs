//! Samples of miniSEED records.

use isochrony_ingest::{EncodedSamples, RecordRun, RunPart, RunSamples};
use isochrony_segment::{Buffer, DType};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyList;

use crate::memory;

/// A record: bytes, offset of its samples, number of their encoding, whether little endian, number of samples.
type EncodedRecord = (PyBackedBytes, usize, u8, bool, usize);

/// Decodes the samples of miniSEED records, without the interpreter, so that several threads do it at a time.
///
/// Parameters:
///     records: of each its bytes, the place of its samples in them, the number of their encoding, whether they are
///         little endian, and how many they are.
///
/// Returns:
///     Of each record an array of int32, float32 or float64; None where samples are not as stated, or their encoding is
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

/// Finds a run of records of version 2 that lie one behind the other: of one channel, rate and encoding, and each sure to be
/// as its header says.
///
/// Parameters:
///     window: part of a file.
///     start: where in it a record begins.
///     most: bytes of records.
///     rest: bytes from the window's beginning to the end of the file.
///
/// Returns:
///     Where the run ends in the window, and its number of records; 0 where the first is out of the ordinary: its blockettes
///     tell no length or encoding, it has no samples or a leap second, no header follows it, one is within it.
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

/// Part of a run: start and end; samples, numbers of them, and starts.
type DecodedPart<'py> = (usize, usize, Option<[Bound<'py, PyAny>; 3]>);

/// Decodes the samples of a run that `find_mseed_run` found.
///
/// Parameters:
///     window, start, end: where it lies.
///     count: number of its records.
///
/// Returns:
///     Of each stretch of the run, in their order, where it begins and ends, and three arrays: the samples of its records,
///     how many each has, and the time of the first of each, ns since 1970; None in place of the arrays for a record whose
///     samples are not as its header says. None if there is no memory for them.
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
