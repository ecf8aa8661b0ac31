//! flow/passchain: cost of the engine per operator and segment, beside a bare loop.

use std::hint::black_box;
use std::path::Path;

use isochrony::flow::{
    Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, Plan, PlanError, Port,
    PortType, Segments, SharedRecording, operator,
};
use isochrony::prelude::*;
use isochrony::segment::{Stream, StreamId};
use isochrony::time::TimebaseId;

use crate::measure::{Results, Times, noise, ratio, turns};

operator! {
    /// Reads every sample: the ends of the chain.
    pub struct Read = "read" (Inputs::Exactly(1)) {}
    state {
        sum: i64,
    }
}

/// Not inlined, so that operator and bare loop run the same instructions.
#[inline(never)]
fn sum(samples: &[i16]) -> i64 {
    // Partial sums of 32,768 samples fit 32 bits.
    let parts = samples
        .chunks(32_768)
        .map(|part| part.iter().map(|&x| i32::from(x)).sum::<i32>());
    parts.map(i64::from).sum()
}

impl Operator for Read {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied()).in_step())
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        if let Item::Samples(samples) = item {
            samples.visit::<i16>(|part| self.sum += sum(part))?;
        }
        black_box(self.sum);
        Ok(Next::Forward)
    }
}

const SEGMENT: usize = 4096;
/// Offset before the samples per place: a whole number of cache lines.
const SHIFT: usize = 5 * 32;

/// The place in memory changes such times by a fifth, so all contestants take turns on copies of the samples at several
/// places. Ratios and differences are within one round.
pub fn run(_: &Path, quick: bool, results: &mut Results) -> Result<(), Box<dyn std::error::Error>> {
    let (count, places, rounds) = if quick {
        (1 << 18, 1, 2)
    } else {
        (1 << 25, 5, 7)
    };
    let stream: StreamId = Stream::new("noise", TimebaseId(0), Rate::from_hz(48_000)?).intern();
    let mut times: [Times; 6] = std::array::from_fn(|_| Times::default());
    for place in 0..places {
        let samples = noise(9, count + place * SHIFT);
        let from = (place * SHIFT) as i64;
        let all = SigSeg::from_slice(&samples, 0, stream)?;
        let segment = all.subseg(from..all.end())?;
        drop(samples);
        for (times, more) in times.iter_mut().zip(at_one_place(&segment, rounds)?) {
            times.extend(more);
        }
    }
    let [bare, ten, thousand, none, ten_unread, thousand_unread] = times;
    let name = |operators: usize| format!("flow/passchain/{operators}-operators/{SEGMENT}");
    let mut compare = |operators: usize, times: &Times, goal: (&str, bool)| {
        let other = "a bare loop that reads as often";
        let bytes = Some(2 * count as u64);
        results.compare(&name(operators), times, other, &bare, bytes, Some(goal));
    };
    compare(10, &ten, (">= 0.8", ratio(&ten, &bare) >= 0.8));
    let rate = count as f64 / thousand.seconds().median;
    let goal = ("ours >= 0.6 Gsamples/s", rate >= 0.6e9);
    compare(1000, &thousand, goal);
    // With nothing read, the difference between operators is the engine.
    let segments = (count / SEGMENT) as f64;
    let what = "for each operator and segment";
    let first = ten_unread.beyond(&none, 10.0 * segments);
    results.nanoseconds(&format!("{}/hop", name(10)), what, first, 6.0);
    let further = thousand_unread.beyond(&ten_unread, 990.0 * segments);
    results.nanoseconds(&format!("{}/hop", name(1000)), what, further, 6.0);
    Ok(())
}

/// Of the bare loop, chains of 10 and 1000 operators whose ends read, and of 0, 10 and 1000 that do not.
fn at_one_place(segment: &SigSeg, rounds: usize) -> Result<[Times; 6], Box<dyn std::error::Error>> {
    let samples = segment.as_contiguous::<i16>().ok_or("several buffers")?;
    let live = SharedRecording::new(Segments::new([segment.clone()]).ok_or("no segment")?);
    let chain = |operators: usize, reads: bool| chain(&live, operators, reads);
    let plans = [
        chain(10, true)?,
        chain(1000, true)?,
        chain(0, false)?,
        chain(10, false)?,
        chain(1000, false)?,
    ];
    let mut bare = || {
        let (mut first, mut last) = (0, 0);
        for part in samples.chunks(SEGMENT) {
            first += black_box(sum(part));
            last += black_box(sum(part));
        }
        assert_eq!(first, last);
    };
    let passed = Some(samples.len() as u64);
    let [
        mut ten,
        mut thousand,
        mut none,
        mut ten_unread,
        mut thousand_unread,
    ] = plans.map(|plan| move || assert_eq!(plan.collect().expect("ran").count(), passed));
    Ok(turns(
        rounds,
        [
            &mut bare,
            &mut ten,
            &mut thousand,
            &mut none,
            &mut ten_unread,
            &mut thousand_unread,
        ],
    ))
}

/// A chain of operators, whose first and last read every sample if `reads`.
pub fn chain(live: &SharedRecording, operators: usize, reads: bool) -> Result<Plan, PlanError> {
    let mut plan = Plan::scan_part(live.clone(), None, SEGMENT as u64);
    let between = operators.saturating_sub(if reads { 2 } else { 0 });
    if reads {
        plan = plan.then::<Read>(Default::default())?;
    }
    for _ in 0..between {
        plan = plan.passthrough()?;
    }
    if reads {
        plan = plan.then::<Read>(Default::default())?;
    }
    plan.count()
}
