use std::ops::Range;
use std::sync::Arc;

use isochrony_flow::arrow::array::Array;
use isochrony_flow::{
    Break, Cause, Clock, OpError, Plan, PortType, RangeOrigin, Recording, Source, SourceEvent, Stat,
};
use isochrony_segment::{SigSeg, Stream, StreamId};
use isochrony_time::{Rate, RunId, TimebaseId};

use super::{floats, ints, table};

/// Two runs whose indices touch, at one second per index.
struct Steps(Arc<Seconds>);

struct Seconds;

impl Clock for Seconds {
    fn times(&self, indices: &[i64], out: &mut [i64]) -> Result<(), Cause> {
        for (out, &index) in out.iter_mut().zip(indices) {
            *out = if index < 3 {
                index * 1_000_000_000
            } else {
                i64::MIN
            };
        }
        Ok(())
    }
}

fn steps() -> StreamId {
    Stream::new("steps", TimebaseId(7), Rate::new(1, 1).unwrap()).intern()
}

impl Recording for Steps {
    fn port(&self) -> PortType {
        let run = SigSeg::from_slice(&[0i16], 0, steps()).unwrap();
        PortType::Samples {
            dtype: run.dtype(),
            stream: run.stream_id(),
        }
    }

    fn open(&self, _: Option<Range<i64>>, _: u64) -> Result<Box<dyn Source>, OpError> {
        let run = |start: i64, value: i16| -> Result<SourceEvent, OpError> {
            Ok(SourceEvent::Item(
                SigSeg::from_slice(&[value; 3], start, steps())?.into(),
            ))
        };
        let step = Break::ClockStep {
            old: RunId(0),
            new: RunId(1),
        };
        let stretch = |index, why| SourceEvent::RangeStart {
            origin: RangeOrigin::at(index),
            why,
        };
        Ok(Box::new(Script(vec![
            run(3, 5)?,
            stretch(3, Some(step)),
            run(0, 1)?,
            stretch(0, None),
        ])))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        Some(self.0.clone())
    }
}

struct Script(Vec<SourceEvent>);

impl Source for Script {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        Ok(self.0.pop().unwrap_or(SourceEvent::End))
    }
}

#[test]
fn a_clock_step_without_a_gap_is_a_break_and_unknown_times_are_null() {
    let plan = Plan::scan(Steps(Arc::new(Seconds)));
    let table = table(&plan.rewindow(2).unwrap().stats([Stat::Mean]).unwrap());
    assert_eq!(ints(&table, "start"), [0, 3]);
    assert_eq!(floats(&table, "mean"), [1.0, 5.0]);
    let times = table.column_by_name("time").unwrap();
    assert_eq!((times.is_null(0), times.is_null(1)), (false, true));
    // An expression's stream has another calibration.
    let doubled = isochrony_expr::Expr::input() * 2;
    let plan = plan.rewindow(2).unwrap().map(&doubled).unwrap();
    let table = self::table(&plan.stats([Stat::Mean]).unwrap());
    assert_eq!(floats(&table, "mean"), [2.0, 10.0]);
    assert!(table.column_by_name("time").is_some());
}
