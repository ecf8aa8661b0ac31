//! Numbered records, slow inputs and outputs, and executions without a watch.
#![allow(dead_code)] // Not every test needs all of it.

use std::io::{self, Read, Write};
use std::time::Duration;

use isochrony_nbuf::{
    BlockProcessor, Framing, Input, Options, Order, Output, Report, StreamFailure, run,
};

pub(crate) const ORDERS: [Order; 4] = [Order::None, Order::Output, Order::Execution, Order::Both];

/// So that tests fail instead of hanging.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) const RECORD: usize = 8;

/// 8 bytes each.
pub(crate) fn numbered(records: u64) -> Vec<u8> {
    (0..records).flat_map(u64::to_le_bytes).collect()
}

pub(crate) fn numbers(bytes: &[u8]) -> Vec<u64> {
    let records = bytes.chunks_exact(RECORD);
    assert!(records.remainder().is_empty(), "a record was split");
    records
        .map(|record| u64::from_le_bytes(record.try_into().expect("8 bytes")))
        .collect()
}

pub(crate) fn options(order: Order, workers: usize, records_per_buffer: usize) -> Options {
    Options {
        order,
        workers: Some(workers),
        buffer: Some(records_per_buffer * RECORD),
        framing: Framing::Stride(RECORD),
        ..Options::default()
    }
}

pub(crate) fn run_unwatched<P: BlockProcessor>(
    options: &Options,
    inputs: Vec<Input<'_>>,
    processor: &P,
    outputs: Vec<Output<'_>>,
) -> Result<Report, StreamFailure> {
    run(options, inputs, processor, outputs, &mut |_| true)
}

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    pub(crate) fn pause(&mut self) {
        match self.below(8) {
            0 => std::thread::sleep(Duration::from_micros(self.below(300))),
            1 | 2 => std::thread::yield_now(),
            _ => {}
        }
    }
}

pub(crate) struct ChunkedReader<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) random: Random,
}

impl Read for ChunkedReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.random.pause();
        if self.random.below(10) == 0 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let most = into.len().min(self.bytes.len());
        let count = if most == 0 {
            0
        } else {
            1 + self.random.below(most as u64) as usize
        };
        into[..count].copy_from_slice(&self.bytes[..count]);
        self.bytes = &self.bytes[count..];
        Ok(count)
    }
}

pub(crate) struct ChunkedWriter<'a> {
    pub(crate) bytes: &'a mut Vec<u8>,
    pub(crate) random: Random,
}

impl Write for ChunkedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.random.pause();
        let count = 1 + self.random.below(bytes.len() as u64) as usize;
        self.bytes.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
