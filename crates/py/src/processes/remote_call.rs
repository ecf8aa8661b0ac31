//! A tasklet in a worker process: its inputs go into the memory that both share, its outputs come from there.
//!
//! The process writes outputs into that memory and nowhere else; what becomes of them is the parent's business, under the
//! writer's lock, so a process that dies has changed nothing.

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

use isochrony_segment::Buffer;
use isochrony_tasklets::BlockPool;
use pyo3::prelude::*;
use serde_json::{Value, json};

use super::process::{Look, Lost, Process};
use super::travel::Travelling;
use super::wire::{Heard, Say};

/// Where samples of any type may begin.
const ALIGNMENT: u64 = 64;

/// What a process is asked to do.
pub(crate) struct RemoteCall<'a> {
    /// The tasklet's name.
    pub(crate) name: &'a str,
    pub(crate) inputs: Vec<RemoteInput>,
    pub(crate) outputs: Vec<RemoteOutput>,
    /// Where blocks for what it writes come from.
    pub(crate) pool: &'a BlockPool,
}

/// An input: what is to be known of it, and its samples.
pub(crate) struct RemoteInput {
    pub(crate) about: Value,
    pub(crate) stretches: Vec<InputSegment>,
}

/// What lies between two gaps.
pub(crate) struct InputSegment {
    /// Index of the first sample.
    pub(crate) start: i64,
    pub(crate) samples: u64,
    /// Of the first sample, as Python makes it again.
    pub(crate) time: Value,
    pub(crate) buffers: Vec<Buffer>,
}

/// An output.
pub(crate) struct RemoteOutput {
    pub(crate) about: Value,
    pub(crate) samples: u64,
    pub(crate) size: u64,
}

/// What a process did.
pub(crate) enum RemoteResult {
    Done {
        /// Output, first sample, samples: blocks of the pool.
        written: Vec<(usize, u64, Buffer)>,
        /// What the function returned, pickled.
        returned: Option<Vec<u8>>,
    },
    Raised(PyErr),
}

impl Process {
    /// Has a function called over a tasklet's inputs.
    pub(super) fn run(
        &mut self,
        function: &Arc<Travelling>,
        call: &RemoteCall<'_>,
        look: Look<'_>,
    ) -> Result<RemoteResult, Lost> {
        self.load(function, look)?;
        if let Some(error) = self.refusal(function) {
            return Ok(RemoteResult::Raised(error));
        }
        let begun = Instant::now();
        let (about, places, bytes) = call.laid_out();
        let memory = self.reserve(bytes)?;
        let mut at = 0;
        for stretch in call.inputs.iter().flat_map(|input| &input.stretches) {
            for buffer in &stretch.buffers {
                memory.write_all_at(buffer.bytes(), at)?;
                at += buffer.len() as u64;
            }
            at = at.next_multiple_of(ALIGNMENT);
        }
        let (number, size) = (function.number.to_ne_bytes(), self.reserved.to_ne_bytes());
        self.say(Say::Run, &[&number, &size, about.to_string().as_bytes()])?;
        self.asked = true;
        let brought = match self.hear(look)? {
            Heard::Raised(raised) => {
                let error = self.rebuilt(&raised, false);
                if raised.kept {
                    self.leave_memory();
                }
                RemoteResult::Raised(error)
            }
            Heard::Brought {
                kept,
                written,
                returned,
            } => {
                let written = self.fetched(call, &places, &written)?;
                if kept {
                    self.leave_memory();
                }
                RemoteResult::Done { written, returned }
            }
            _ => {
                return Err(Lost::Io(std::io::Error::other(
                    "an answer to another question",
                )));
            }
        };
        self.report.blocks += 1;
        self.report.busy += begun.elapsed();
        Ok(brought)
    }

    /// What was written to outputs, in blocks of the pool.
    fn fetched(
        &self,
        call: &RemoteCall<'_>,
        places: &[u64],
        written: &[[u64; 3]],
    ) -> Result<Vec<(usize, u64, Buffer)>, Lost> {
        let garbled = || Lost::Io(std::io::ErrorKind::InvalidData.into());
        let mut blocks = Vec::with_capacity(written.len());
        for [output, start, stop] in written {
            let output = usize::try_from(*output).map_err(|_| garbled())?;
            let (wanted, place) = (call.outputs.get(output))
                .zip(places.get(output))
                .ok_or_else(garbled)?;
            if start > stop || *stop > wanted.samples {
                return Err(garbled());
            }
            let bytes = (stop - start) * wanted.size;
            let no_memory = |_| Lost::Memory(bytes, std::io::ErrorKind::OutOfMemory.into());
            let len = usize::try_from(bytes).map_err(|_| garbled())?;
            let mut block = call.pool.take(len).map_err(no_memory)?;
            self.read(
                place + start * wanted.size,
                block.make_mut().map_err(no_memory)?,
            )?;
            blocks.push((output, *start, block));
        }
        Ok(blocks)
    }
}

impl RemoteCall<'_> {
    /// The call in words, where outputs lie, and how many bytes of memory all take. Inputs lie one behind the other, from
    /// the beginning, each stretch at the next line.
    fn laid_out(&self) -> (Value, Vec<u64>, u64) {
        let mut at = 0u64;
        let inputs: Vec<Value> = (self.inputs.iter())
            .map(|input| {
                let mut stretches = Vec::with_capacity(input.stretches.len());
                for stretch in &input.stretches {
                    let (start, samples, time) = (stretch.start, stretch.samples, &stretch.time);
                    stretches.push(json!([start, samples, at, time]));
                    let buffers = stretch.buffers.iter();
                    let bytes: u64 = buffers.map(|buffer| buffer.len() as u64).sum();
                    at = (at + bytes).next_multiple_of(ALIGNMENT);
                }
                let mut about = input.about.clone();
                about["stretches"] = stretches.into();
                about
            })
            .collect();
        let mut places = Vec::with_capacity(self.outputs.len());
        let outputs: Vec<Value> = (self.outputs.iter())
            .map(|output| {
                places.push(at);
                let mut about = output.about.clone();
                about["length"] = output.samples.into();
                about["place"] = at.into();
                at = (at + output.samples.saturating_mul(output.size)).next_multiple_of(ALIGNMENT);
                about
            })
            .collect();
        let about = json!({"name": self.name, "inputs": inputs, "outputs": outputs});
        // An empty file cannot be mapped.
        (about, places, at.max(ALIGNMENT))
    }
}
