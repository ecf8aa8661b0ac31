//! Saved plans and their expressions: reading ends in a plan or an error, and a plan is written and read again as the
//! same.
#![no_main]

use std::ops::Range;

use isochrony_flow::{
    Catalog, OpError, Plan, PortType, Recording, Segments, SharedRecording, Source,
};
use isochrony_segment::{SigSeg, Stream};
use isochrony_time::{Rate, TimebaseId};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

struct Named(Segments, Map<String, Value>);

impl Recording for Named {
    fn port(&self) -> PortType {
        self.0.port()
    }

    fn open(&self, range: Option<Range<i64>>, segment: u64) -> Result<Box<dyn Source>, OpError> {
        self.0.open(range, segment)
    }

    fn saved(&self) -> Option<Map<String, Value>> {
        Some(self.1.clone())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(saved) = serde_json::from_slice::<Value>(bytes) else {
        return;
    };
    let stream = Stream::new("fuzz", TimebaseId(0), Rate::new(100, 1).expect("a rate")).intern();
    let samples: Vec<i16> = (0..64).collect();
    let segments = Segments::new(SigSeg::from_slice(&samples, 0, stream)).expect("a segment");
    let resolve =
        |name: &Map<String, Value>| Ok(SharedRecording::new(Named(segments.clone(), name.clone())));
    let catalog = Catalog::standard();
    let Ok(plan) = Plan::from_json(&saved, &catalog, &resolve) else {
        return;
    };
    let written = plan.to_json().expect("what was read can be written");
    let again =
        Plan::from_json(&written, &catalog, &resolve).expect("what was written can be read");
    assert!(again == plan, "{plan} became {again}");
    let _ = plan.explain();
});
