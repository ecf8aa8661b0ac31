//! Figure 8: PIPELINE and DETECTAUDIO by representation and scheduler; and join against sync.

use std::sync::Arc;

use isochrony::SigSeg;
use isochrony::flow::Plan;
use serde_json::{Map, Value, json};

use crate::data::{self, CHANNELS, SEGMENT, SENSORS, audio, vibration};
use crate::engine::{Boxed, Scheduler};
use crate::measure::{Contestant, contest, rates, show};
use crate::memory::{Pool, stream};
use crate::models::blocks::{self, Block};
use crate::models::tuples::{Row, Rows};
use crate::models::{Admission, End, Query, drive, rows, samples, segments};
use crate::product::{self, Pushed};

const PRODUCT: &str = "Isochrony";
const BURST: usize = 16;

type Source<'a, D> = Box<dyn FnMut(usize, std::ops::Range<usize>, &mut dyn FnMut(D)) + 'a>;

fn tuples<T: Copy>(channels: &[Vec<T>]) -> Source<'_, Row<T>> {
    Box::new(move |channel, range, give| {
        for time in range {
            give(Row {
                time: time as i64,
                value: channels[channel][time],
            });
        }
    })
}

fn stamped<T: Copy>(channels: &[Vec<T>]) -> Source<'_, Rows<T>> {
    Box::new(move |channel, range, give| {
        give(Rows::stamped(range.start as i64, &channels[channel][range]));
    })
}

fn segmented<T: isochrony::Sample>(channels: &[Vec<T>]) -> Source<'_, SigSeg> {
    let mut pool = Pool::default();
    Box::new(move |channel, range, give| {
        give(pool.segment(range.start as i64, &channels[channel][range], stream()));
    })
}

fn blocked<T: isochrony::Sample>(channels: &[Vec<T>]) -> Source<'_, Block> {
    let mut source = segmented(channels);
    Box::new(move |channel, range, give| {
        source(channel, range, &mut |segment| give(Block::Samples(segment)));
    })
}

fn enter<'a, D: crate::models::Data + 'a, T>(
    contestants: &mut Vec<Contestant<'a>>,
    model: &str,
    query: impl Fn() -> Query<D> + Copy + 'a,
    source: impl Fn(&'a [Vec<T>]) -> Source<'a, D> + Copy + 'a,
    channels: &'a [Vec<T>],
) {
    let admission = Admission {
        sources: channels.len(),
        total: channels[0].len(),
        segment: SEGMENT,
        burst: BURST,
    };
    for scheduler in Scheduler::ALL {
        let name = format!("{model}/{}", scheduler.name());
        contestants.push(Contestant::new(name, move || {
            let mut make = source(channels);
            drive::<D, Boxed<_>>(query(), scheduler, admission, &mut *make)
        }));
    }
}

/// The product's sources copy samples into segments, too.
fn pushed<T: isochrony::Sample, const N: usize>(channels: &[Vec<T>]) -> [Plan; N] {
    std::array::from_fn(|k| {
        let samples: Arc<[T]> = channels[k].as_slice().into();
        Plan::scan(Pushed::in_batches(samples, BURST * SEGMENT))
    })
}

fn detect_audio(quick: bool, end: End) -> Value {
    let channels = audio(CHANNELS, if quick { 1 << 17 } else { 1 << 18 });
    let expected = match end {
        End::Cut => data::detect_only(&channels),
        End::Sync => data::detect_audio(&channels),
    };
    let count = (CHANNELS * channels[0].len()) as u64;
    let plan = match end {
        End::Cut => product::detect_received(pushed(&channels)),
        End::Sync => product::detect_audio(pushed(&channels), end),
    }
    .expect("a plan");
    let mut all = Vec::new();
    enter(
        &mut all,
        "Samples",
        move || samples::detect_audio(end),
        tuples,
        &channels,
    );
    enter(
        &mut all,
        "Windows",
        move || rows::detect_audio(end),
        stamped,
        &channels,
    );
    enter(
        &mut all,
        "Segs",
        move || segments::detect_audio(end),
        segmented,
        &channels,
    );
    enter(
        &mut all,
        "Blocks",
        move || blocks::detect_audio(end),
        blocked,
        &channels,
    );
    all.push(Contestant::new(PRODUCT, || product::result(&plan)));
    let what = if end == End::Cut {
        "detectaudio-cut"
    } else {
        "detectaudio"
    };
    let rates = rates(
        &contest(what, if quick { 1 } else { 9 }, expected, &mut all),
        count,
        PRODUCT,
    );
    show(what, &rates);
    json!(rates)
}

fn pipeline(quick: bool) -> Value {
    let sensors = vibration(if quick { 1 << 15 } else { 1 << 17 });
    let expected = data::pipeline(&sensors);
    let count = (SENSORS * sensors[0].len()) as u64;
    let plan = product::pipeline(pushed(&sensors)).expect("a plan");
    let mut all = Vec::new();
    enter(&mut all, "Samples", samples::pipeline, tuples, &sensors);
    enter(
        &mut all,
        "WindowStride",
        || rows::pipeline(false),
        stamped,
        &sensors,
    );
    enter(
        &mut all,
        "Windows",
        || rows::pipeline(true),
        stamped,
        &sensors,
    );
    enter(&mut all, "Segs", segments::pipeline, segmented, &sensors);
    enter(&mut all, "Blocks", blocks::pipeline, blocked, &sensors);
    all.push(Contestant::new(PRODUCT, || product::result(&plan)));
    let rates = rates(
        &contest("pipeline", if quick { 1 } else { 9 }, expected, &mut all),
        count,
        PRODUCT,
    );
    show("pipeline", &rates);
    json!(rates)
}

/// All of figure 8.
pub fn run(quick: bool) -> Value {
    let mut results = Map::new();
    results.insert("pipeline".into(), pipeline(quick));
    results.insert("detectaudio_cut".into(), detect_audio(quick, End::Cut));
    results.insert("detectaudio".into(), detect_audio(quick, End::Sync));
    Value::Object(results)
}
