//! A recording as seen after operators.

use std::ops::Range;
use std::sync::Arc;

use isochrony_store::Signal;
use serde_json::{Map, Value};

use crate::{Clock, OpError, PortType, Recording, Resource, Source};

/// A recording changed by operators: the clock still holds; calibration, attributes and outer gaps do not.
pub(crate) struct ProcessedRecording(pub(crate) Arc<dyn Recording>);

impl Recording for ProcessedRecording {
    fn port(&self) -> PortType {
        self.0.port()
    }

    fn open(&self, range: Option<Range<i64>>, segment: u64) -> Result<Box<dyn Source>, OpError> {
        self.0.open(range, segment)
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.0.clock()
    }

    fn stored(&self) -> Option<(&Signal, Option<&[Range<i64>]>)> {
        self.0.stored()
    }

    fn saved(&self) -> Option<Map<String, Value>> {
        self.0.saved()
    }

    fn needs(&self) -> Resource {
        self.0.needs()
    }

    fn knows_all_times(&self) -> bool {
        self.0.knows_all_times()
    }

    fn gives_own_samples(&self) -> bool {
        false
    }
}
