//! Plans an import: files in order, and what is known of their positions.

use std::collections::HashMap;
use std::ops::Range;

use isochrony_time::Rate;

use super::RawOptions;
use super::order::{OrderedSpan, Span, recording_order};
use crate::session::{EarlierImport, KnownFiles, Sequence, Session};
use crate::{Catalogue, IngestError};

#[derive(Debug, Clone, Copy)]
pub(crate) struct PlannedFile {
    pub(crate) place: usize,
    pub(crate) next: Option<usize>,
    pub(crate) sequence: Sequence,
}

#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) files: Vec<PlannedFile>,
    /// Files that have grown since an import, by index.
    pub(crate) grown: HashMap<usize, EarlierImport>,
    pub(crate) bytes: u64,
}

impl Plan {
    pub(crate) fn new(
        session: &mut Session,
        catalogue: &Catalogue,
        options: &RawOptions,
    ) -> Result<Self, IngestError> {
        let mut plan = Self::default();
        let mut first = 0;
        for signal in catalogue.signals() {
            let mut end = first;
            while catalogue.get(end).is_some_and(|file| file.signal == signal) {
                end += 1;
            }
            let known = session.take_known(signal)?;
            plan.signal(session, catalogue, options, first..end, &known)?;
            if options.follow.is_some() {
                session.keep_known(signal, known);
            }
            first = end;
        }
        Ok(plan)
    }

    /// The signal's files have consecutive indices.
    fn signal(
        &mut self,
        session: &mut Session,
        catalogue: &Catalogue,
        options: &RawOptions,
        places: Range<usize>,
        known: &KnownFiles,
    ) -> Result<(), IngestError> {
        let order = in_order(catalogue, places, options);
        // What precedes a known recording is late; what follows is new, whatever its stamp.
        let mut late = 0;
        let mut any_known = false;
        let first = self.files.len();
        for (position, ordered) in order.iter().enumerate() {
            let (place, overlaps) = (ordered.member, ordered.overlaps);
            let Some(file) = catalogue.get(place) else {
                continue;
            };
            // It comes last in the order, and does not show what is late.
            let seen = |late: &mut usize, any_known: &mut bool, count: usize| {
                if !overlaps {
                    (*late, *any_known) = (count, true);
                }
            };
            let before = known.get(&file.path);
            if before.is_some_and(|before| before.bytes >= file.size) {
                session
                    .count_known(file.signal, &options.spec)
                    .or_else(only_fatal)?;
                seen(&mut late, &mut any_known, self.files.len());
                continue;
            }
            if let Some(before) = before {
                self.grown.insert(place, before);
                seen(&mut late, &mut any_known, self.files.len());
            }
            self.bytes += file.size;
            self.files.push(PlannedFile {
                place,
                next: order
                    .get(position + 1)
                    .filter(|next| next.overlaps == overlaps)
                    .map(|next| next.member)
                    // A copy, or a step back, does not confirm this stamp.
                    .filter(|next| start(catalogue, *next) > start(catalogue, place)),
                sequence: if overlaps {
                    Sequence::Late
                } else {
                    Sequence::Unknown
                },
            });
        }
        if any_known {
            for (number, file) in self.files.iter_mut().enumerate().skip(first) {
                file.sequence = if number < late || file.sequence == Sequence::Late {
                    Sequence::Late
                } else {
                    Sequence::Newest
                };
            }
        }
        Ok(())
    }
}

fn start(catalogue: &Catalogue, place: usize) -> Option<i64> {
    Some(catalogue.get(place)?.stamp?.ns)
}

/// Other errors are reported for each file.
fn only_fatal(error: IngestError) -> Result<(), IngestError> {
    if error.is_fatal() { Err(error) } else { Ok(()) }
}

fn in_order(catalogue: &Catalogue, places: Range<usize>, options: &RawOptions) -> Vec<OrderedSpan> {
    let first = places.start;
    if !options.layout.is_timed() {
        let ordered = |member| OrderedSpan {
            member,
            overlaps: false,
        };
        return places.map(ordered).collect();
    }
    let spans = places.filter_map(|place| {
        let file = catalogue.get(place)?;
        let stamp = file.stamp?;
        let samples = file.size / options.spec.format.size() as u64;
        Some(Span {
            start_ns: stamp.ns,
            resolution_ns: stamp.resolution_ns,
            duration_ns: duration_ns(options.spec.rate, samples),
        })
    });
    recording_order(spans)
        .into_iter()
        .map(|ordered| OrderedSpan {
            member: first + ordered.member,
            ..ordered
        })
        .collect()
}

fn duration_ns(rate: Rate, samples: u64) -> i64 {
    let samples = i64::try_from(samples).unwrap_or(i64::MAX);
    rate.duration_ns(samples)
        .ok()
        .and_then(|ns| ns.floor_i64())
        .unwrap_or(i64::MAX)
}
