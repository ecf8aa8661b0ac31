mod errors;
mod fields;
mod keys;
mod loops;
mod recordings;
mod restarting_feeds;
mod restarts;
mod windows;

use std::ops::Range;
use std::sync::Arc;

use isochrony_expr::Expr;
use isochrony_flow::arrow::RecordBatch;
use isochrony_flow::arrow::array::cast::AsArray;
use isochrony_flow::arrow::array::types::{Float64Type, Int64Type};
use isochrony_flow::arrow::array::{
    Array, ArrayRef, Float64Array, Int64Array, TimestampNanosecondArray,
};
use isochrony_flow::arrow::schema::{DataType, Field};
use isochrony_flow::{
    Catalog, Cause, Clock, Fields, OpError, Plan, PlanError, PortType, Recording, Rows, RunOptions,
    SEGMENT_SAMPLES, Segments, SharedRecording, Source, SourceEvent, Stat, json,
};
use isochrony_segment::{Calibration, SigSeg, Stream, StreamId};
use isochrony_time::{Rate, TimebaseId};
use proptest::prelude::*;

use recordings::*;

fn stream(name: &str, timebase: u32, rate: u64) -> StreamId {
    let rate = Rate::new(rate, 1).unwrap();
    Stream::new(name, TimebaseId(timebase), rate)
        .with_calibration(Calibration::identity("kPa"))
        .intern()
}

fn table(plan: &Plan) -> RecordBatch {
    plan.collect().unwrap().rows().unwrap().clone()
}

fn ints(table: &RecordBatch, name: &str) -> Vec<i64> {
    let column = table.column_by_name(name).unwrap();
    column.as_primitive::<Int64Type>().values().to_vec()
}

fn floats(table: &RecordBatch, name: &str) -> Vec<f64> {
    let column = table.column_by_name(name).unwrap();
    column.as_primitive::<Float64Type>().values().to_vec()
}

fn names(table: &RecordBatch) -> Vec<String> {
    table
        .schema_ref()
        .fields()
        .iter()
        .map(|f| f.name().clone())
        .collect()
}

fn samples(samples: &[i16], piece: u64) -> Plan {
    let segment = SigSeg::from_slice(samples, 0, stream("rows/s", 0, 100)).unwrap();
    Plan::scan_part(
        SharedRecording::new(Segments::new([segment]).unwrap()),
        None,
        piece,
    )
}

fn s() -> Expr {
    Expr::input()
}

fn r(name: &str) -> Expr {
    Expr::field(name)
}
