//! Changes stored data: invalidates ranges, writes in place, edits events and metadata.

use std::ops::Range;

use isochrony_segment::{Calibration, Sample};
use serde_json::{Map, Value};

use crate::append::{Change, SignalWriter, checked_end, replace_shards, sample_count};
use crate::error::StoreError;
use crate::op::{EventRow, Op};
use crate::options::attributes_text;
use crate::state::SignalState;

impl SignalWriter {
    /// Makes a range a gap; its samples become inaccessible.
    ///
    /// # Errors
    /// [`StoreError::OutOfBounds`], [`StoreError::ReadOnly`].
    pub fn mark_invalid(&self, range: Range<i64>) -> Result<(), StoreError> {
        let backend = &self.shared.backend;
        self.change("mark samples as invalid", |state, _, change| {
            check_bounds(state, &range)?;
            if !range.is_empty() {
                if !state.meta.codec.is_empty() {
                    change.ops = crate::seal::checksums_after_gap(backend, state, &range)?;
                }
                change.ops.push(Op::Gap {
                    id: state.id,
                    start: range.start,
                    end: range.end,
                });
            }
            Ok(())
        })
    }

    /// Replaces samples from `index` on: in place in a scratch signal, else by copies of shards with the next commit,
    /// so that existing segments stay.
    ///
    /// # Errors
    /// [`StoreError::OutOfBounds`], [`StoreError::WriteIntoGap`], [`StoreError::DTypeMismatch`],
    /// [`StoreError::ReadOnly`], [`StoreError::Io`].
    pub fn write<T: Sample>(&self, index: i64, samples: &[T]) -> Result<(), StoreError> {
        self.check_dtype(T::DTYPE)?;
        self.write_bytes(index, bytemuck::cast_slice(samples))
    }

    /// As [`write`](Self::write), from bytes in native order.
    ///
    /// # Errors
    /// As [`write`](Self::write), and [`StoreError::PartialSample`].
    pub fn write_bytes(&self, index: i64, bytes: &[u8]) -> Result<(), StoreError> {
        let engine = self.shared.backend.engine("write samples")?;
        let in_place = self.shared.in_place;
        self.change("write samples", |state, _, change| {
            let range = index..checked_end(index, sample_count(state, bytes)?)?;
            check_bounds(state, &range)?;
            if let Some(gap) = state.gaps.first_within(range.clone()) {
                return Err(StoreError::WriteIntoGap {
                    signal: (*state.name).into(),
                    start: range.start,
                    end: range.end,
                    gap_start: gap.start,
                    gap_end: gap.end(),
                });
            }
            if in_place {
                change.write(index, bytes);
            } else {
                change.ops = replace_shards(engine, state, index, bytes)?;
            }
            Ok(())
        })
    }

    /// Adds an event over an index range (empty for an instant); gives its id.
    ///
    /// # Errors
    /// [`StoreError::OutOfBounds`], [`StoreError::ReadOnly`], [`StoreError::InvalidOption`] for a kind with control
    /// characters.
    pub fn add_event(
        &self,
        kind: &str,
        range: Range<i64>,
        fields: &Map<String, Value>,
    ) -> Result<u64, StoreError> {
        self.change("add an event", |state, _, change| {
            check_bounds(state, &range)?;
            if kind.chars().any(char::is_control) {
                return Err(StoreError::InvalidOption {
                    signal: (*state.name).into(),
                    option: "kind",
                    got: kind.escape_debug().to_string(),
                    legal: "give a kind without control characters",
                });
            }
            let event = state.events.next_id();
            change.ops.push(Op::Event {
                id: state.id,
                event: EventRow {
                    id: event,
                    start: range.start,
                    end: range.end,
                    kind: kind.into(),
                    fields: Value::Object(fields.clone()).to_string(),
                },
            });
            Ok(event)
        })
    }

    /// Removes an event.
    ///
    /// # Errors
    /// [`StoreError::NoSuchEvent`], [`StoreError::ReadOnly`].
    pub fn remove_event(&self, event: u64) -> Result<(), StoreError> {
        self.change("remove an event", |state, _, change| {
            if state.events.by_id(event).is_none() {
                return Err(StoreError::NoSuchEvent {
                    signal: (*state.name).into(),
                    event,
                });
            }
            change.ops.push(Op::EventRemove {
                id: state.id,
                event,
            });
            Ok(())
        })
    }

    /// Replaces the user attributes.
    ///
    /// # Errors
    /// [`StoreError::InvalidAttributes`], [`StoreError::ReadOnly`].
    pub fn set_attributes(&self, attributes: &Map<String, Value>) -> Result<(), StoreError> {
        self.change("set attributes", |state, _, change| {
            let mut meta = (*state.meta).clone();
            meta.attributes = attributes_text(&state.name, attributes)?;
            set_meta(state, change, meta);
            Ok(())
        })
    }

    /// Sets unit and calibration (scale, offset; `None`: uncalibrated).
    ///
    /// # Errors
    /// [`StoreError::Segment`] unless scale is finite and not zero and offset is finite; [`StoreError::ReadOnly`].
    pub fn set_calibration(
        &self,
        unit: &str,
        calibration: Option<(f64, f64)>,
    ) -> Result<(), StoreError> {
        if let Some((scale, offset)) = calibration {
            Calibration::new(scale, offset, unit)?;
        }
        self.change("set the calibration", |state, _, change| {
            let mut meta = (*state.meta).clone();
            meta.unit = unit.into();
            meta.calibration = calibration;
            set_meta(state, change, meta);
            Ok(())
        })
    }
}

fn set_meta(state: &SignalState, change: &mut Change<'_>, meta: crate::meta::SignalMeta) {
    change.ops.push(Op::Meta {
        id: state.id,
        meta: Box::new(meta),
    });
}

pub(crate) fn check_bounds(state: &SignalState, range: &Range<i64>) -> Result<(), StoreError> {
    if range.start > range.end {
        return Err(StoreError::InvalidRange {
            signal: (*state.name).into(),
            start: range.start.to_string(),
            end: range.end.to_string(),
        });
    }
    if range.start < 0 || range.end > state.end {
        return Err(StoreError::OutOfBounds {
            signal: (*state.name).into(),
            start: range.start,
            end: range.end,
            have_start: 0,
            have_end: state.end,
        });
    }
    Ok(())
}
