//! Inputs and outputs from Python: memory, descriptors, and `read` or `write` callables.

use std::fs::File;
use std::io::{self, Read, Write};

use isochrony_nbuf::{Input, Output};
use isochrony_segment::Buffer;
use pyo3::exceptions::{PyBlockingIOError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::Result;
use crate::{descriptor, memory};

/// `(name, kind, object)`
pub(super) type Source<'py> = (String, String, Bound<'py, PyAny>);

/// `(name, kind, object)`
pub(super) type OutputStream<'py> = (String, String, Bound<'py, PyAny>);

/// Shared with Python; None for inputs not in memory.
pub(super) fn adopt_memory(inputs: &[Source<'_>]) -> Result<Vec<Option<Buffer>>> {
    let adopted = inputs.iter().map(|(_, kind, object)| {
        let is_memory = kind == "memory";
        let buffer = is_memory
            .then(|| memory::adopt(object, false))
            .transpose()?;
        Ok(buffer.map(|(buffer, _)| buffer))
    });
    adopted.collect()
}

/// Like [`adopt_memory`], as a `memoryview` for Python functions.
pub(super) fn read_only_views(inputs: &[Source<'_>]) -> Result<Vec<Option<Py<PyAny>>>> {
    let views = inputs.iter().map(|(_, kind, object)| {
        if kind != "memory" {
            return Ok(None);
        }
        let view = object.getattr("data")?.call_method0("toreadonly")?;
        Ok(Some(view.unbind()))
    });
    views.collect()
}

pub(super) fn inputs<'m>(
    inputs: Vec<Source<'_>>,
    memory: &'m [Option<Buffer>],
) -> Result<Vec<Input<'m>>> {
    let inputs = inputs
        .into_iter()
        .zip(memory)
        .map(|((name, kind, object), memory)| {
            let input = match (memory, kind.as_str()) {
                (Some(memory), _) => Input::bytes(memory.bytes()),
                (None, "descriptor") => Input::file(owned(&object)?).map_err(PyErr::from)?,
                _ => Input::reader(Reader {
                    read: object.unbind(),
                }),
            };
            Ok(input.named(name))
        });
    inputs.collect()
}

pub(super) fn outputs<'m>(outputs: Vec<OutputStream<'_>>) -> Result<Vec<Output<'m>>> {
    let outputs = outputs.into_iter().map(|(name, kind, object)| {
        let output = match kind.as_str() {
            "descriptor" => Output::file(owned(&object)?).map_err(PyErr::from)?,
            _ => Output::writer(Writer {
                write: object.unbind(),
            }),
        };
        Ok(output.named(name))
    });
    outputs.collect()
}

fn owned(number: &Bound<'_, PyAny>) -> PyResult<File> {
    Ok(File::from(descriptor::duplicate(number.extract()?)?))
}

struct Reader {
    read: Py<PyAny>,
}

impl Read for Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        crate::interpreter::attach(|py| {
            let got = self.read.bind(py).call1((into.len(),))?;
            if got.is_none() {
                let message =
                    "the source's read returned None: it is non-blocking and has no bytes yet; give one that blocks";
                return Err(PyBlockingIOError::new_err(message));
            }
            let bytes = bytes(&got, "the source's read")?;
            let bytes = bytes.as_bytes();
            let Some(room) = into.get_mut(..bytes.len()) else {
                let message = format!(
                    "the source returned {} bytes, but {} were requested; return at most as many as requested",
                    bytes.len(),
                    into.len()
                );
                return Err(PyValueError::new_err(message));
            };
            room.copy_from_slice(bytes);
            Ok(bytes.len())
        })
        .map_err(io::Error::other)
    }
}

struct Writer {
    write: Py<PyAny>,
}

impl Write for Writer {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        crate::interpreter::attach(|py| {
            let wrote = self.write.call1(py, (PyBytes::new(py, from),))?;
            if wrote.is_none(py) {
                return Ok(from.len());
            }
            let count = wrote.extract::<usize>(py).ok();
            count.filter(|count| *count <= from.len()).ok_or_else(|| {
                let wrote = wrote.bind(py).repr().map_or("an object".into(), |text| text.to_string());
                PyValueError::new_err(format!(
                    "the destination's write returned {wrote} for {} bytes; return how many of them it took",
                    from.len()
                ))
            })
        })
        .map_err(io::Error::other)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// No copy if it is `bytes`.
pub(super) fn bytes<'py>(object: &Bound<'py, PyAny>, who: &str) -> PyResult<Bound<'py, PyBytes>> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(bytes.clone());
    }
    let view = pyo3::types::PyMemoryView::from(object).map_err(|_| {
        let kind = object.get_type().to_string();
        PyTypeError::new_err(format!(
            "{who} returned {kind}; return something bytes-like, or None"
        ))
    })?;
    let bytes = view.call_method0("tobytes")?;
    bytes.cast_into::<PyBytes>().map_err(PyErr::from)
}
