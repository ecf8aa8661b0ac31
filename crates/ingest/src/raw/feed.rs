//! Reads planned files and stores their samples.
//!
//! The first piece of a file is placed by its stamp, the next file's, and the file's number of samples; later pieces
//! continue it.

use std::collections::HashMap;
use std::sync::Arc;

use isochrony_dsp::convert::swap_bytes;
use isochrony_time::{Fixed, Stamp};

use super::plan::{Plan, PlannedFile};
use super::read_ahead::{Job, Piece, ReadAhead};
use super::{RawOptions, whole};
use crate::progress::Meter;
use crate::session::{EarlierImport, NextStamp, PlacedBlock, Sequence, Session};
use crate::stamp::CivilStamp;
use crate::{Catalogue, IngestError};

pub(crate) fn feed(
    session: &mut Session,
    catalogue: Catalogue,
    options: &RawOptions,
    meter: &mut Meter<'_>,
) -> Result<(), IngestError> {
    let plan = Plan::new(session, &catalogue, options)?;
    meter.expect(plan.files.len() as u64, plan.bytes);
    let mut feed = Feed {
        session,
        catalogue: Arc::new(catalogue),
        options,
        meter,
        grown: plan.grown,
        current: None,
        again: Vec::new(),
    };
    let mut files = plan.files;
    while !files.is_empty() {
        feed.all(&Arc::new(files))?;
        files = std::mem::take(&mut feed.again);
    }
    Ok(())
}

struct Feed<'a, 'm> {
    session: &'a mut Session,
    catalogue: Arc<Catalogue>,
    options: &'a RawOptions,
    meter: &'a mut Meter<'m>,
    grown: HashMap<usize, EarlierImport>,
    current: Option<CurrentFile>,
    /// Files whose beginning is stored already but whose rest differs.
    again: Vec<PlannedFile>,
}

struct CurrentFile {
    number: usize,
    path: String,
    signal: String,
    stamp: Option<Stamp>,
    /// Bytes when listed, and those counted.
    listed: u64,
    counted: u64,
    /// Bytes from its beginning that are stored.
    stored: u64,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    /// Before the first piece.
    Begin,
    /// The next piece follows the one before.
    FollowsOn,
    /// The next piece is late and follows `end`.
    Late { end: i64 },
    /// A copy so far of stored samples up to `end`.
    Copy { end: i64 },
    /// The rest is ignored.
    Over,
}

impl Feed<'_, '_> {
    fn all(&mut self, files: &Arc<Vec<PlannedFile>>) -> Result<(), IngestError> {
        let sample = self.options.spec.format.size() as u64;
        let partial = self.options.partial;
        let catalogue = Arc::clone(&self.catalogue);
        let planned = Arc::clone(files);
        let grown = self.grown.clone();
        let jobs = (0..files.len()).filter_map(move |number| {
            let place = planned[number].place;
            let before = grown.get(&place).map_or(0, |before| before.bytes);
            Some(Job {
                number,
                path: catalogue.root().join(catalogue.get(place)?.path),
                skip: before - before % sample,
            })
        });
        let reader = ReadAhead::start(jobs, move |size| whole(size, sample, partial))?;
        while let Some(message) = reader.next() {
            let number = message
                .as_ref()
                .map_or_else(|(number, _)| *number, |piece| piece.number);
            let file = files[number];
            let mut current = match self.current.take() {
                Some(current) if current.number == number => current,
                _ => self.begin(number, &file)?,
            };
            match message {
                Ok(mut piece) => {
                    let fed = self.piece(&mut current, &file, &mut piece);
                    self.after(&mut current, &piece, fed)?;
                }
                Err((_, error)) => self.failed(&mut current, &error)?,
            }
            self.current = Some(current);
        }
        self.current = None;
        Ok(())
    }

    fn begin(&self, number: usize, file: &PlannedFile) -> Result<CurrentFile, IngestError> {
        if self.options.interrupt.is_requested() {
            return Err(IngestError::Cancelled);
        }
        // Positions in the plan refer to this catalogue.
        let found = self
            .catalogue
            .get(file.place)
            .ok_or(IngestError::Cancelled)?;
        Ok(CurrentFile {
            number,
            signal: found.signal.into(),
            stamp: found.stamp.map(stamp),
            listed: found.size,
            counted: 0,
            stored: 0,
            state: State::Begin,
            path: found.path,
        })
    }

    fn piece(
        &mut self,
        current: &mut CurrentFile,
        file: &PlannedFile,
        piece: &mut Piece,
    ) -> Result<(), IngestError> {
        let format = self.options.spec.format;
        let piece_file = piece.file_size;
        let bytes = piece.bytes();
        if !self.options.order.is_native() {
            swap_bytes(bytes, format.component_size()).map_err(|_| IngestError::EmptyBlock)?;
        }
        let bytes = &*bytes;
        let signal = current.signal.as_str();
        let source = self.session.source(&current.path);
        let resolution = current.stamp.map_or(Fixed::ZERO, |stamp| stamp.resolution);
        if let (State::Begin, Some(before)) = (current.state, self.grown.get(&file.place)) {
            let end = before.index + before.samples;
            let at_end = self
                .session
                .target(signal, &self.options.spec)?
                .signal()?
                .end_index()
                == end;
            current.state = if at_end {
                State::FollowsOn
            } else {
                State::Late { end }
            };
        }
        let session = &mut *self.session;
        current.state = match current.state {
            State::Begin => {
                session.target(signal, &self.options.spec)?;
                let next = file.next.and_then(|next| self.catalogue.get(next));
                let next = next.and_then(|next| next.stamp).map(stamp);
                // The stamp after a file determines the precision of its own, in one piece or many.
                let samples = (piece_file / format.size() as u64).cast_signed();
                let next = next.as_ref().map(|stamp| NextStamp {
                    stamp,
                    samples: Some(samples),
                });
                let placed = session.put(
                    source,
                    signal,
                    bytes,
                    current.stamp.as_ref(),
                    next,
                    file.sequence,
                )?;
                after(&placed)
            }
            State::FollowsOn => {
                session.put(source, signal, bytes, None, None, Sequence::Newest)?;
                State::FollowsOn
            }
            State::Late { end } => {
                let stamp = session
                    .target(signal, &self.options.spec)?
                    .stamp_at(end, resolution)?;
                let placed = session.put(
                    source,
                    signal,
                    bytes,
                    Some(&stamp),
                    None,
                    Sequence::LateCertain,
                )?;
                State::Late {
                    end: placed.index + placed.samples,
                }
            }
            State::Copy { end } => {
                let samples = (bytes.len() / format.size()) as i64;
                if session
                    .target(signal, &self.options.spec)?
                    .holds_at(end, bytes)?
                {
                    session.count_copied(source, signal, samples);
                    State::Copy { end: end + samples }
                } else {
                    // All of it is stored again, like any overlap.
                    let sequence = Sequence::LateCertain;
                    self.again.push(PlannedFile { sequence, ..*file });
                    session.forget(&current.path);
                    State::Over
                }
            }
            State::Over => State::Over,
        };
        Ok(())
    }

    fn after(
        &mut self,
        current: &mut CurrentFile,
        piece: &Piece,
        fed: Result<(), IngestError>,
    ) -> Result<(), IngestError> {
        if let Err(error) = fed {
            if error.is_fatal() {
                return Err(error);
            }
            self.session.reject(&current.path, &error);
            current.state = State::Over;
        }
        let end = piece.end();
        current.stored = end;
        if piece.last {
            self.meter
                .file(current.listed.saturating_sub(current.counted));
            if !matches!(current.state, State::Over) {
                self.session.done(&current.path, piece.file_size, None)?;
            }
            return Ok(());
        }
        self.meter.bytes(end.saturating_sub(current.counted));
        current.counted = end;
        if self.session.is_due() && matches!(current.state, State::FollowsOn | State::Late { .. }) {
            self.session.commit_part(&current.path, end)?;
        }
        Ok(())
    }

    fn failed(
        &mut self,
        current: &mut CurrentFile,
        error: &IngestError,
    ) -> Result<(), IngestError> {
        self.meter
            .file(current.listed.saturating_sub(current.counted));
        if matches!(current.state, State::FollowsOn | State::Late { .. }) {
            self.session.commit_part(&current.path, current.stored)?;
        }
        self.session.reject(&current.path, error);
        current.state = State::Over;
        Ok(())
    }
}

fn after(placed: &PlacedBlock) -> State {
    let end = placed.index + placed.samples;
    match placed {
        PlacedBlock { stored: false, .. } => State::Copy { end },
        PlacedBlock { late: true, .. } => State::Late { end },
        _ => State::FollowsOn,
    }
}

fn stamp(stamp: CivilStamp) -> Stamp {
    Stamp::new(
        Fixed::from_int(stamp.ns),
        Fixed::from_int(stamp.resolution_ns),
    )
}
