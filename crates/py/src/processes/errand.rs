//! A tasklet in a worker process: its inputs go into the memory that both share, its outputs come from there.
//!
//! The process writes outputs into that memory and nowhere else; what becomes of them is the parent's business, under the
//! writer's lock, so a process that dies has changed nothing.

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

use isochrony_segment::Buffer;
use isochrony_tasklets::Pool;
use pyo3::prelude::*;
use serde_json::{Value, json};

use super::process::{Look, Lost, Process};
use super::travel::Travelling;
use super::wire::{Heard, Say};

/// Where samples of any type may begin.
const LINE: u64 = 64;

/// What a process is asked to do.
pub(crate) struct Errand<'a> {
    /// The tasklet's name.
    pub(crate) name: &'a str,
    pub(crate) inputs: Vec<Taken>,
    pub(crate) outputs: Vec<Wanted>,
    /// Where blocks for what it writes come from.
    pub(crate) pool: &'a Pool,
}

/// An input: what is to be known of it, and its samples.
pub(crate) struct Taken {
    pub(crate) about: Value,
    pub(crate) stretches: Vec<Stretch>,
}

/// What lies between two gaps.
pub(crate) struct Stretch {
    /// Index of the first sample.
    pub(crate) start: i64,
    pub(crate) samples: u64,
    /// Of the first sample, as Python makes it again.
    pub(crate) time: Value,
    pub(crate) buffers: Vec<Buffer>,
}

/// An output.
pub(crate) struct Wanted {
    pub(crate) about: Value,
    pub(crate) samples: u64,
    pub(crate) size: u64,
}

/// What a process did.
pub(crate) enum Brought {
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
        errand: &Errand<'_>,
        look: Look<'_>,
    ) -> Result<Brought, Lost> {
        self.load(function, look)?;
        if let Some(error) = self.refusal(function) {
            return Ok(Brought::Raised(error));
        }
        let begun = Instant::now();
        let (about, places, bytes) = errand.laid_out();
        let memory = self.reserve(bytes)?;
        let mut at = 0;
        for stretch in errand.inputs.iter().flat_map(|input| &input.stretches) {
            for buffer in &stretch.buffers {
                memory.write_all_at(buffer.bytes(), at)?;
                at += buffer.len() as u64;
            }
            at = at.next_multiple_of(LINE);
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
                Brought::Raised(error)
            }
            Heard::Brought {
                kept,
                written,
                returned,
            } => {
                let written = self.fetched(errand, &places, &written)?;
                if kept {
                    self.leave_memory();
                }
                Brought::Done { written, returned }
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
        errand: &Errand<'_>,
        places: &[u64],
        written: &[[u64; 3]],
    ) -> Result<Vec<(usize, u64, Buffer)>, Lost> {
        let garbled = || Lost::Io(std::io::ErrorKind::InvalidData.into());
        let mut blocks = Vec::with_capacity(written.len());
        for [output, start, stop] in written {
            let output = usize::try_from(*output).map_err(|_| garbled())?;
            let (wanted, place) = (errand.outputs.get(output))
                .zip(places.get(output))
                .ok_or_else(garbled)?;
            if start > stop || *stop > wanted.samples {
                return Err(garbled());
            }
            let bytes = (stop - start) * wanted.size;
            let no_memory = |_| Lost::Memory(bytes, std::io::ErrorKind::OutOfMemory.into());
            let len = usize::try_from(bytes).map_err(|_| garbled())?;
            let mut block = errand.pool.take(len).map_err(no_memory)?;
            self.read(
                place + start * wanted.size,
                block.make_mut().map_err(no_memory)?,
            )?;
            blocks.push((output, *start, block));
        }
        Ok(blocks)
    }
}

impl Errand<'_> {
    /// The errand in words, where outputs lie, and how many bytes of memory all take. Inputs lie one behind the other, from
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
                    at = (at + bytes).next_multiple_of(LINE);
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
                at = (at + output.samples.saturating_mul(output.size)).next_multiple_of(LINE);
                about
            })
            .collect();
        let about = json!({"name": self.name, "inputs": inputs, "outputs": outputs});
        // An empty file cannot be mapped.
        (about, places, at.max(LINE))
    }
}
