//! Messages between a client and a cluster's workers: reading ends in tasks, blocks, results, items of a host, or an
//! error.
#![no_main]

use std::sync::LazyLock;

use isochrony_expr::Expr;
use isochrony_flow::{
    Cause, CauseCodec, GeneratedRecording, Plan, PreparedTasks, RunOptions, Segments, SharedRecording, Stat,
};
use isochrony_segment::{DType, SigSeg, Stream};
use isochrony_time::{Rate, TimebaseId};
use libfuzzer_sys::fuzz_target;

struct TextCauses;

impl CauseCodec for TextCauses {
    fn encode(&self, _: &Cause) -> Option<Vec<u8>> {
        None
    }

    fn decode(&self, _: &[u8]) -> Option<Cause> {
        None
    }
}

/// Samples, windows, rows and partial results leave tasks of these plans.
static PREPARED: LazyLock<PreparedTasks> = LazyLock::new(|| {
    let stream = Stream::new("fuzz", TimebaseId(0), Rate::new(100, 1).expect("a rate")).intern();
    let samples: Vec<i16> = (0..4096).collect();
    let segments = Segments::new(SigSeg::from_slice(&samples, 0, stream)).expect("a segment");
    let recording = SharedRecording::new(segments);
    let scan = Plan::scan_part(recording, None, 64).map(&(Expr::input() * 3)).expect("samples");
    let windows = scan.rewindow(8).expect("windows");
    let rows = windows.stats([Stat::Mean]).expect("rows");
    let filtered = windows.filter(&Expr::input().mean().gt(0)).expect("windows");
    let plans = [scan, filtered.clone(), rows, filtered.count().expect("a count")];
    let mut options = RunOptions::default();
    (options.workers, options.task) = (2, 512);
    PreparedTasks::new(&plans, true, &options).expect("plans that can be split")
});

/// Blocks of samples enter this plan's stage, and windows leave it.
static STAGES: LazyLock<PreparedTasks> = LazyLock::new(|| {
    let stream = Stream::new("feed", TimebaseId(0), Rate::new(100, 1).expect("a rate")).intern();
    let feed = GeneratedRecording::new(DType::I16, stream, || Ok(Box::new(|| Ok(None))));
    let windows = Plan::scan(feed).rewindow(8).expect("windows").power().expect("windows");
    let mut options = RunOptions::default();
    options.workers = 2;
    PreparedTasks::new(&[windows], true, &options).expect("a plan that is cut into stages")
});

fn read(message: &[u8]) {
    PREPARED.read_messages(message, &TextCauses);
    STAGES.read_messages(message, &TextCauses);
}

// The header (kind, length of the control part) is made here, to reach what follows.
fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    let [kind, low, high, body @ ..] = bytes else {
        return;
    };
    let control = usize::from(u16::from_le_bytes([*low, *high])).min(body.len());
    let (control, payload) = body.split_at(control);
    let mut message = b"ISOT\x03\x00".to_vec();
    message.extend([1 + kind % 4, 0]);
    message.extend((control.len() as u64).to_le_bytes());
    message.extend((payload.len() as u64).to_le_bytes());
    message.extend(control);
    message.resize(message.len().next_multiple_of(64), 0);
    message.extend(payload);
    read(&message);
});
