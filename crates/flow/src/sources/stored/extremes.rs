//! Minimum, maximum and count of a stored signal, from its views instead of its samples.

use std::ops::Range;
use std::sync::Arc;

use isochrony_store::{Signal, Stretch};
use isochrony_time::RunId;
use serde_json::{Map, Value};

use super::StoredRecording;
use super::contiguous::first_contiguous;
use super::pass::{first_sample, samples_end};
use crate::operators::partial_of_view;
use crate::plan::error::store_error;
use crate::{Break, Clock, Item, OpError, PortType, RangeOrigin, Recording, Source, SourceEvent};

/// Gives exact partial results of `stats`: one per part read, of a few view rows and the samples at both ends.
pub(crate) struct ExtremesRecording(pub(super) StoredRecording);

impl Recording for ExtremesRecording {
    fn port(&self) -> PortType {
        self.0.port()
    }

    fn open(&self, range: Option<Range<i64>>, _: u64) -> Result<Box<dyn Source>, OpError> {
        let (signal, parts) = self.0.now(range)?;
        Ok(Box::new(ExtremesPass {
            signal,
            parts: parts.into_iter(),
            run: None,
            pending: None,
        }))
    }

    fn within(&self) -> Option<Range<i64>> {
        self.0.within()
    }

    fn skips_samples(&self) -> bool {
        self.0.skips_samples()
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.0.clock()
    }

    fn knows_all_times(&self) -> bool {
        true
    }

    fn reads(&self, _: Option<Range<i64>>) -> Option<String> {
        let name = self.0.signal.name();
        Some(format!(
            "{name}: minima and maxima from the stored pyramid, and samples only at the ends of ranges"
        ))
    }

    fn stored(&self) -> Option<(&Signal, Option<&[Range<i64>]>)> {
        self.0.stored()
    }

    fn saved(&self) -> Option<Map<String, Value>> {
        self.0.saved()
    }
}

struct ExtremesPass {
    signal: Signal,
    parts: std::vec::IntoIter<Stretch>,
    /// Of the part before.
    run: Option<u32>,
    pending: Option<Item>,
}

impl Source for ExtremesPass {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        if let Some(item) = self.pending.take() {
            return Ok(SourceEvent::Item(item));
        }
        for Stretch { run, range } in self.parts.by_ref() {
            let start = first_sample(&self.signal, range.start);
            if start >= range.end {
                continue;
            }
            let end = samples_end(&self.signal, range.end);
            let view = self.signal.view(start..end, 1).map_err(store_error)?;
            self.pending = Some(Item::Partial(partial_of_view(
                self.signal.dtype(),
                &view.columns,
                start..end,
            )?));
            let old = self.run.replace(run).filter(|&old| old != run);
            let origin = RangeOrigin {
                anchor: first_contiguous(&self.signal, start, run),
                first: start,
            };
            let why = old.map(|old| Break::ClockStep {
                old: RunId(old),
                new: RunId(run),
            });
            return Ok(SourceEvent::RangeStart { origin, why });
        }
        Ok(SourceEvent::End)
    }
}
