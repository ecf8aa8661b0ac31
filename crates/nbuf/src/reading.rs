//! The state *read*: finding the next whole records of one of the inputs, by one worker at a time.
//!
//! Lent memory and regular files with a stride are only divided here; a worker reads its part of a file after it has
//! given up its turn, so that several read at once. Of all others the bytes are read here, and what follows the last whole
//! record is kept for the next buffer.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::descriptor;
use crate::error::NbufError;
use crate::feed::{Feed, Filled, How};
use crate::framing::Framing;
use crate::input::{Input, Kind};
use crate::options::{Merge, Options};
use crate::report::InputReport;
use crate::sizes::Sizes;

pub(crate) struct Reading<'r> {
    feeds: Vec<Feed<'r>>,
    /// Whose turn it is among the inputs.
    at: usize,
    merge: Merge,
    eager: bool,
    framing: Framing,
    sizes: Sizes,
    number: u64,
    offset: u64,
}

/// The part of the stream that a worker has to process.
pub(crate) struct Claim<'r> {
    pub(crate) number: u64,
    pub(crate) offset: u64,
    pub(crate) input: usize,
    pub(crate) input_offset: u64,
    pub(crate) found: Found<'r>,
}

pub(crate) enum Found<'r> {
    /// In the worker's buffer.
    Here(usize),
    /// In the memory of the input.
    Lent(&'r [u8]),
    /// In a file, from where the worker has to read it.
    There {
        file: Arc<File>,
        at: u64,
        length: usize,
    },
}

pub(crate) enum Next<'r> {
    Claim(Claim<'r>),
    /// All inputs have ended, or the run was stopped while it waited for them.
    Nothing,
}

impl<'r> Reading<'r> {
    pub(crate) fn new(inputs: Vec<Input<'r>>, options: &Options, sizes: Sizes) -> Self {
        let feeds = inputs.into_iter().map(|input| Feed {
            input,
            position: 0,
            carry: Vec::new(),
            ended: false,
            short_record: None,
            failed: None,
        });
        Self {
            feeds: feeds.collect(),
            at: 0,
            merge: options.merge,
            eager: options.eager,
            framing: options.framing.clone(),
            sizes,
            number: 0,
            offset: 0,
        }
    }

    /// The number that the next buffer gets.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The next whole records, if need be read into `buffer`. What makes waiting end is asked now and then.
    pub(crate) fn next(
        &mut self,
        buffer: &mut Vec<u8>,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Next<'r>, NbufError> {
        loop {
            let mut waits = Vec::new();
            for step in 0..self.feeds.len() {
                let index = (self.at + step) % self.feeds.len();
                if self.feeds[index].ended {
                    continue;
                }
                match self.fill(index, buffer, stopped)? {
                    Filled::Whole(length) => return Ok(Next::Claim(self.claim(index, length))),
                    Filled::Stopped => return Ok(Next::Nothing),
                    Filled::End => {}
                    Filled::NotYet => waits.push(index),
                }
            }
            if waits.is_empty() || stopped() {
                return Ok(Next::Nothing);
            }
            self.wait_for_any(&waits)?;
        }
    }

    /// Waits a moment for one of several inputs.
    fn wait_for_any(&self, waits: &[usize]) -> Result<(), NbufError> {
        let files: Vec<_> = waits
            .iter()
            .filter_map(|index| match &self.feeds[*index].input.kind {
                Kind::Descriptor(file) => Some(file.as_fd()),
                _ => None,
            })
            .collect();
        descriptor::readable(&files, true)
            .map(drop)
            .map_err(|why| self.feeds[waits[0]].error(waits[0], why))
    }

    fn claim(&mut self, index: usize, length: usize) -> Claim<'r> {
        let feed = &mut self.feeds[index];
        let at = feed.position;
        let found = match &feed.input.kind {
            // The reference lives as long as the run, not only as long as this borrow.
            Kind::Lent(bytes) => {
                let bytes: &'r [u8] = bytes;
                Found::Lent(&bytes[at as usize..at as usize + length])
            }
            Kind::File { file, start, .. } if self.framing.stride().is_some() => Found::There {
                file: Arc::clone(file),
                at: start + at,
                length,
            },
            _ => Found::Here(length),
        };
        feed.position += length as u64;
        let claim = Claim {
            number: self.number,
            offset: self.offset,
            input: index,
            input_offset: at,
            found,
        };
        self.number += 1;
        self.offset += length as u64;
        self.at = match self.merge {
            Merge::InOrder => index,
            Merge::Fair => (index + 1) % self.feeds.len(),
        };
        claim
    }

    fn fill(
        &mut self,
        index: usize,
        buffer: &mut Vec<u8>,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Filled, NbufError> {
        let (framing, sizes) = (&self.framing, self.sizes);
        let fill = sizes.fill_of(self.number);
        // Where inputs take turns, none may keep the others waiting for more than it has.
        let alone = self.merge == Merge::InOrder || self.feeds.len() == 1;
        let how = How {
            patient: alone,
            eager: self.eager || !alone,
        };
        let feed = &mut self.feeds[index];
        let whole = match feed.input.kind {
            Kind::Lent(bytes) => {
                let rest = &bytes[feed.position as usize..];
                feed.divide(index, framing, sizes, rest, fill)?
            }
            Kind::File { start, end, .. } if framing.stride().is_some() => {
                let rest = end - start - feed.position;
                usize::try_from(rest).map_or(fill, |rest| rest.min(fill))
            }
            _ => return feed.read(index, framing, sizes, fill, buffer, how, stopped),
        };
        if whole == 0 {
            feed.ended = true;
            return Ok(Filled::End);
        }
        if let Some(stride) = framing.stride() {
            feed.short_record = Some((whole % stride) as u64).filter(|rest| *rest > 0);
        }
        Ok(Filled::Whole(whole))
    }

    /// How many bytes all inputs have, if that is known of each.
    pub(crate) fn size(&self) -> Option<u64> {
        self.feeds.iter().map(|feed| feed.input.size()).sum()
    }

    /// Leaves files where their reading ended, and says how far that is.
    pub(crate) fn end(self) -> Vec<InputReport> {
        self.feeds
            .into_iter()
            .map(|feed| {
                feed.input.leave_at(feed.position);
                InputReport {
                    name: feed.input.name,
                    bytes: feed.position,
                    short_record: feed.short_record,
                    ended: feed.ended,
                }
            })
            .collect()
    }
}

/// Reads a worker's part of a file, which must be there: how much was read, and why not all.
pub(crate) fn read_there(file: &File, at: u64, into: &mut [u8]) -> (usize, Option<io::Error>) {
    let mut read = 0;
    while read < into.len() {
        match file.read_at(&mut into[read..], at + read as u64) {
            Ok(0) => {
                let message = "the file is shorter than when the run began; keep it as it is while it is read";
                let why = io::Error::new(io::ErrorKind::UnexpectedEof, message);
                return (read, Some(why));
            }
            Ok(bytes) => read += bytes,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return (read, Some(why)),
        }
    }
    (read, None)
}
