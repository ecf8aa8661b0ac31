//! A symmetric streaming hash join on time stamps, for comparison with sync.
//!
//! Each input has a table. The control input's ranges count as a tuple per time stamp. Times that no later range can
//! request are forgotten.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use super::tuples::{Row, Rows};
use super::{Data, Flow};
use crate::data::CHANNELS;
use crate::engine::{Emit, Node, Then};
use crate::kernels::digest_samples;

/// A fast hash of one integer, so that hashing is not measured.
#[derive(Default)]
pub struct IntHasher(u64);

impl Hasher for IntHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|&byte| self.write_i64(i64::from(byte)));
    }

    fn write_i64(&mut self, time: i64) {
        self.0 = (self.0 ^ time as u64)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(26);
    }
}

type Hash = BuildHasherDefault<IntHasher>;

/// The tables.
#[derive(Default)]
pub struct Join {
    tables: [HashMap<i64, f32, Hash>; CHANNELS],
    /// Times of each channel below this are forgotten or wanted.
    oldest: [i64; CHANNELS],
    newest: [i64; CHANNELS],
    wanted: HashSet<i64, Hash>,
    upto: i64,
}

impl Join {
    /// The joined samples at a time, if all are there and it is wanted.
    fn look(&mut self, time: i64) -> Option<[f32; CHANNELS]> {
        if !self.wanted.contains(&time) {
            return None;
        }
        let mut values = [0f32; CHANNELS];
        for (value, table) in values.iter_mut().zip(&self.tables) {
            *value = *table.get(&time)?;
        }
        self.tables.iter_mut().for_each(|table| {
            table.remove(&time);
        });
        self.wanted.remove(&time);
        Some(values)
    }

    fn arrive<D: Data>(&mut self, channel: usize, row: Row<f32>, out: &mut dyn Emit<Flow<D>>) {
        let time = row.time;
        self.newest[channel] = time + 1;
        if time < self.upto && !self.wanted.contains(&time) {
            return;
        }
        self.tables[channel].insert(time, row.value);
        if let Some(values) = self.look(time) {
            out.emit(0, &mut Flow::Joined { time, values });
        }
    }

    fn control<D: Data>(
        &mut self,
        range: std::ops::Range<i64>,
        upto: i64,
        out: &mut dyn Emit<Flow<D>>,
    ) {
        for time in range {
            self.wanted.insert(time);
            if let Some(values) = self.look(time) {
                out.emit(0, &mut Flow::Joined { time, values });
            }
        }
        self.upto = self.upto.max(upto);
        for channel in 0..CHANNELS {
            let end = self.upto.min(self.newest[channel]);
            for time in self.oldest[channel]..end {
                if !self.wanted.contains(&time) {
                    self.tables[channel].remove(&time);
                }
            }
            self.oldest[channel] = self.oldest[channel].max(end);
        }
    }
}

impl Node<Flow<Row<f32>>> for Join {
    fn process(
        &mut self,
        port: usize,
        message: &mut Flow<Row<f32>>,
        out: &mut dyn Emit<Flow<Row<f32>>>,
    ) -> Then {
        match message {
            Flow::Data(row) => self.arrive(port, *row, out),
            Flow::Control { range, upto } => self.control(range.clone(), *upto, out),
            _ => {}
        }
        Then::Taken
    }
}

impl Node<Flow<Rows<f32>>> for Join {
    fn process(
        &mut self,
        port: usize,
        message: &mut Flow<Rows<f32>>,
        out: &mut dyn Emit<Flow<Rows<f32>>>,
    ) -> Then {
        match message {
            Flow::Data(rows) => rows.iter().for_each(|row| self.arrive(port, row, out)),
            Flow::Control { range, upto } => self.control(range.clone(), *upto, out),
            _ => {}
        }
        Then::Taken
    }
}

/// The digest of joined samples.
#[derive(Default)]
pub struct JoinedDigest(u64);

impl<D: Data> Node<Flow<D>> for JoinedDigest {
    fn process(&mut self, _: usize, message: &mut Flow<D>, _: &mut dyn Emit<Flow<D>>) -> Then {
        if let Flow::Joined { time, values } = message {
            for (channel, value) in values.iter().enumerate() {
                let one = digest_samples(channel, *time, std::slice::from_ref(value));
                self.0 = self.0.wrapping_add(one);
            }
        }
        Then::Taken
    }

    fn result(&self) -> u64 {
        self.0
    }
}
