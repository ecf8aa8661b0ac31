//! Late samples of a feed as rows that plans scan: a side output of the run that reads the feed.
//!
//! Rows are placed at the index up to which the feed was when their sample came, not at the sample's own: the feed has
//! passed that. So rows come in order of index, and all plans that meet them know how far they are: as far as the feed.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use isochrony_flow::arrow::RecordBatch;
use isochrony_flow::arrow::array::{ArrayRef, Int64Array, TimestampNanosecondArray};
use isochrony_flow::arrow::samples_column;
use isochrony_flow::arrow::schema::{DataType, Field};
use isochrony_flow::{
    Break, Clock, Fields, OpError, OpErrorKind, PortType, RangeOrigin, Recording, Rows, Source,
    SourceEvent,
};

use super::failed;
use super::late_samples::{LateEvent, LateSamples, NextLate};
use super::shared::ListenerInner;
use crate::LiveError;

/// A long frame becomes several batches.
const MAX_ROWS: usize = 4096;

/// The late samples of a [`Listener`](crate::Listener), a row each: `start`, `end` and `time` of the index at which the
/// feed was when the sample came, then `index`, `sample_time` and `value` of the sample.
///
/// Read in the run that reads the feed. What [`ListenOptions::keep_late`](crate::ListenOptions::keep_late) has no room
/// for is dropped and counted. If the plan ends before the feed, what it has not read is left to
/// [`Listener::take_late`](crate::Listener::take_late); batches that were on their way to its operators, or in the
/// links of its stages, are dropped without a count.
#[derive(Debug, Clone)]
pub struct LateRecording {
    listener: Arc<ListenerInner>,
    fields: Fields,
}

impl LateRecording {
    pub(super) fn new(listener: &Arc<ListenerInner>) -> Result<Self, LiveError> {
        let options = &listener.options;
        if options.keep_late == 0 {
            return Err(LiveError::Option {
                option: "keep_late",
                got: "0".into(),
                legal:
                    "listen() the bytes of late samples that may wait for a plan, such as 1048576"
                        .into(),
            });
        }
        let value = Field::new("value", Fields::arrow_type(options.dtype), false);
        let value = match options.unit.as_str() {
            "" => value,
            unit => value.with_metadata(HashMap::from([("unit".into(), unit.into())])),
        };
        let fields = Fields::intern([
            Field::new("start", DataType::Int64, false),
            Field::new("end", DataType::Int64, false),
            Field::new("time", Fields::civil(), true),
            Field::new("index", DataType::Int64, false),
            Field::new("sample_time", Fields::civil(), true),
            value,
        ]);
        Ok(Self {
            listener: Arc::clone(listener),
            fields,
        })
    }
}

impl Recording for LateRecording {
    fn port(&self) -> PortType {
        PortType::Rows {
            fields: self.fields,
            stream: Some(self.listener.stream),
        }
    }

    fn open(&self, range: Option<Range<i64>>, _: u64) -> Result<Box<dyn Source>, OpError> {
        let address = || format!("the late samples of {}", self.listener.shown_address());
        if range.is_some() {
            return Err(failed(LiveError::Range { address: address() }));
        }
        if self.listener.is_late_read.swap(true, Ordering::AcqRel) {
            return Err(failed(LiveError::Busy { address: address() }));
        }
        Ok(Box::new(LateSource {
            scan: self.listener.late.scan_to_read(),
            recording: self.clone(),
            started: false,
            promised: i64::MIN,
            waiting: None,
        }))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        let clock = Arc::clone(&self.listener.clock);
        Some(clock)
    }
}

struct LateSource {
    recording: LateRecording,
    scan: u64,
    started: bool,
    promised: i64,
    /// A piece, and how many of its samples were given.
    waiting: Option<(LateSamples, usize)>,
}

impl LateSource {
    fn start_at(&mut self, index: i64, why: Option<Break>) -> SourceEvent {
        self.started = true;
        let origin = RangeOrigin::at(index);
        SourceEvent::RangeStart { origin, why }
    }

    /// The next rows of a piece.
    fn rows(&mut self, piece: LateSamples, from: usize) -> Result<SourceEvent, OpError> {
        let dtype = self.recording.listener.options.dtype;
        let (size, count) = (dtype.size(), piece.samples.len() / dtype.size());
        let upto = count.min(from + MAX_ROWS);
        let rows = upto - from;
        let position = piece.position;
        let integers = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
        let times = |times: Vec<Option<i64>>| {
            Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC")) as ArrayRef
        };
        let index = |nth: usize| piece.start.saturating_add_unsigned(nth as u64);
        let columns = vec![
            integers(vec![position; rows]),
            integers(vec![position.saturating_add(1); rows]),
            times(vec![piece.position_time; rows]),
            integers((from..upto).map(index).collect()),
            times((from..upto).map(|nth| piece.time_of(nth, count)).collect()),
            samples_column(dtype, &piece.samples[from * size..upto * size])?,
        ];
        let batch = RecordBatch::try_new(self.recording.fields.schema().clone(), columns)
            .map_err(OpErrorKind::from)?;
        if upto < count {
            self.waiting = Some((piece, upto));
        }
        // The next may have come at the same index.
        let covers = position..position.saturating_add(1);
        Ok(SourceEvent::Item(Rows::new(batch, covers, position).into()))
    }
}

impl Source for LateSource {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        if let Some((piece, from)) = self.waiting.take() {
            if !self.started {
                let start = self.start_at(piece.position, None);
                self.waiting = Some((piece, from));
                return Ok(start);
            }
            return self.rows(piece, from);
        }
        let listener = &self.recording.listener;
        Ok(match listener.late.next(self.scan) {
            NextLate::NotScanned => {
                let address = listener.shown_address();
                return Err(failed(LiveError::LateAlone { address }));
            }
            NextLate::Event(LateEvent::RangeStart(at, why)) => self.start_at(at, why),
            NextLate::Event(LateEvent::Samples(piece)) => {
                self.waiting = Some((piece, 0));
                return self.pull();
            }
            NextLate::Position(position) if position > self.promised => {
                if !self.started {
                    return Ok(self.start_at(position, None));
                }
                self.promised = position;
                SourceEvent::ProgressMark(position)
            }
            NextLate::Position(_) => SourceEvent::Idle,
            NextLate::End => SourceEvent::End,
        })
    }

    fn set_waker(&mut self, waker: &Waker) {
        self.recording.listener.late.set_waker(waker.clone());
    }

    fn overlaps(&self) -> bool {
        true
    }
}

impl Drop for LateSource {
    fn drop(&mut self) {
        let listener = &self.recording.listener;
        if let Some((piece, from)) = self.waiting.take() {
            let rest = piece.without_first(from, listener.options.dtype.size());
            listener.count_dropped(listener.late.put_back(self.scan, rest));
        }
        listener.is_late_read.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ListenOptions, Listener};
    use isochrony_flow::Item;
    use isochrony_segment::DType;
    use isochrony_time::Rate;

    #[test]
    fn a_plan_that_ends_early_leaves_the_rest_of_a_piece() {
        let mut options = ListenOptions::new(DType::I16, Rate::from_hz(1000).unwrap());
        options.keep_late = 1 << 20;
        let address = "udp://127.0.0.1:0".parse().unwrap();
        let listener = Listener::bind(&address, &options).unwrap();
        let samples: Vec<i16> = (0..5000).collect();
        let bytes = |samples: &[i16]| samples.iter().flat_map(|one| one.to_ne_bytes()).collect();
        let piece = LateSamples {
            start: 100,
            time: Some(0),
            end_time: Some(5_000_000_000),
            position: 9000,
            position_time: None,
            samples: bytes(&samples),
        };
        let late = listener.late().unwrap();
        for read in [0, MAX_ROWS] {
            listener.0.late.begin_scan();
            listener.0.late.add(piece.clone());
            let mut source = late.open(None, 1 << 16).unwrap();
            let start = source.pull().unwrap();
            assert!(matches!(start, SourceEvent::RangeStart { .. }));
            if read > 0 {
                let rows = source.pull().unwrap();
                assert!(matches!(rows, SourceEvent::Item(Item::Rows(_))));
            }
            drop(source);
            let rest = LateSamples {
                start: 100 + read as i64,
                time: Some(read as i64 * 1_000_000),
                samples: bytes(&samples[read..]),
                ..piece.clone()
            };
            assert_eq!(listener.take_late(), [rest]);
            assert_eq!(listener.counts().dropped_late_samples, 0);
        }
    }
}
