//! Samples of miniSEED records.

use isochrony_ingest::EncodedSamples;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyList;

use crate::memory;

/// A record: its bytes, where its samples begin, number of their encoding, whether they are little endian, their number.
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
