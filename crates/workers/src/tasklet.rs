//! Calls of a tasklet's function.
//!
//! The process writes outputs only to the shared memory. The parent stores them under the writer's lock, so a process
//! that dies has changed nothing.

use isochrony_segment::{Buffer, SegmentError};
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::error::{ProcessError, RemoteException};
use crate::wire::{InterruptCheck, Request, Response, WrittenRange};

const ALIGNMENT: u64 = 64;

/// A tasklet to execute.
pub struct TaskletCall<'a> {
    /// Its name.
    pub name: &'a str,
    /// Inputs.
    pub inputs: Vec<TaskletInput>,
    /// Writable outputs.
    pub outputs: Vec<TaskletOutput>,
    /// Allocates memory for written samples.
    pub allocate: &'a dyn Fn(usize) -> Result<Buffer, SegmentError>,
}

/// An input of a tasklet.
pub struct TaskletInput {
    /// Metadata for `isochrony/workers/tasklet_call.py`.
    pub metadata: Value,
    /// Its contiguous segments.
    pub segments: Vec<InputSegment>,
}

/// A gap-free part of an input.
pub struct InputSegment {
    /// Index of the first sample.
    pub start: i64,
    /// Number of samples.
    pub samples: u64,
    /// Time of the first sample, for Python.
    pub time: Value,
    /// The samples.
    pub buffers: Vec<Buffer>,
}

/// An output of a tasklet.
pub struct TaskletOutput {
    /// Metadata for `isochrony/workers/tasklet_call.py`.
    pub metadata: Value,
    /// Number of samples.
    pub samples: u64,
    /// Bytes of a sample.
    pub sample_size: u64,
}

/// Result of a tasklet.
#[derive(Debug)]
pub struct TaskletResult {
    /// Written ranges: output, first sample, samples.
    pub written: Vec<(usize, u64, Buffer)>,
    /// Pickled return value, if any.
    pub returned: Option<Vec<u8>>,
}

struct MemoryLayout {
    /// As JSON.
    description: Value,
    outputs_at: Vec<u64>,
    size: u64,
}

impl TaskletCall<'_> {
    pub(crate) fn call(
        &self,
        connection: &mut Connection,
        function: u64,
        check: InterruptCheck<'_>,
    ) -> Result<Result<TaskletResult, RemoteException>, ProcessError> {
        let layout = self.layout();
        let memory = connection.reserve(layout.size)?;
        let mut at = 0;
        for segment in self.inputs.iter().flat_map(|input| &input.segments) {
            for buffer in &segment.buffers {
                memory.write(buffer.bytes(), at)?;
                at += buffer.len() as u64;
            }
            at = at.next_multiple_of(ALIGNMENT);
        }
        let (number, size) = (function.to_ne_bytes(), memory.size().to_ne_bytes());
        let description = layout.description.to_string();
        let parts: [&[u8]; 3] = [&number, &size, description.as_bytes()];
        let (keeps_memory, answer) = match connection.ask(Request::CallTasklet, &parts, check)? {
            Response::Raised {
                keeps_memory,
                exception,
            } => (keeps_memory, Err(exception)),
            Response::TaskletDone {
                keeps_memory,
                written,
                returned,
            } => {
                let written = written
                    .into_iter()
                    .map(|range| self.copy_output(connection, &layout, range))
                    .collect::<Result<_, _>>()?;
                (keeps_memory, Ok(TaskletResult { written, returned }))
            }
            _ => return Err(ProcessError::unexpected_response()),
        };
        if keeps_memory {
            connection.abandon_memory();
        }
        Ok(answer)
    }

    fn copy_output(
        &self,
        connection: &Connection,
        layout: &MemoryLayout,
        WrittenRange { output, start, end }: WrittenRange,
    ) -> Result<(usize, u64, Buffer), ProcessError> {
        let index = usize::try_from(output).map_err(|_| ProcessError::invalid_message())?;
        let (output, at) = (self.outputs.get(index))
            .zip(layout.outputs_at.get(index))
            .ok_or_else(ProcessError::invalid_message)?;
        if start > end || end > output.samples {
            return Err(ProcessError::invalid_message());
        }
        let bytes = (end - start) * output.sample_size;
        let no_memory = |_| ProcessError::OutOfMemory {
            bytes,
            error: std::io::ErrorKind::OutOfMemory.into(),
        };
        let len = usize::try_from(bytes).map_err(|_| ProcessError::invalid_message())?;
        let mut block = (self.allocate)(len).map_err(no_memory)?;
        let into = block.make_mut().map_err(no_memory)?;
        connection.read(into, at + start * output.sample_size)?;
        Ok((index, start, block))
    }

    /// Inputs in order, then outputs.
    fn layout(&self) -> MemoryLayout {
        let mut at = 0u64;
        let inputs: Vec<Value> = (self.inputs.iter())
            .map(|input| {
                let mut segments = Vec::with_capacity(input.segments.len());
                for segment in &input.segments {
                    let (start, samples, time) = (segment.start, segment.samples, &segment.time);
                    segments.push(json!([start, samples, at, time]));
                    let buffers = segment.buffers.iter();
                    let bytes: u64 = buffers.map(|buffer| buffer.len() as u64).sum();
                    at = (at + bytes).next_multiple_of(ALIGNMENT);
                }
                let mut metadata = input.metadata.clone();
                metadata["segments"] = segments.into();
                metadata
            })
            .collect();
        let mut outputs_at = Vec::with_capacity(self.outputs.len());
        let outputs: Vec<Value> = (self.outputs.iter())
            .map(|output| {
                outputs_at.push(at);
                let mut metadata = output.metadata.clone();
                metadata["length"] = output.samples.into();
                metadata["place"] = at.into();
                let bytes = output.samples.saturating_mul(output.sample_size);
                at = (at + bytes).next_multiple_of(ALIGNMENT);
                metadata
            })
            .collect();
        MemoryLayout {
            description: json!({"name": self.name, "inputs": inputs, "outputs": outputs}),
            outputs_at,
            size: at,
        }
    }
}
