//! flow/passchain: what the engine itself costs, for each operator and segment, and beside a bare loop.

use std::hint::black_box;
use std::path::Path;

use isochrony::flow::{
    Bound, Inputs, Item, Live, Next, OpError, Operator, Out, Plan, PlanError, Port, PortType,
    Segments, operator,
};
use isochrony::prelude::*;
use isochrony::segment::{Stream, StreamId};
use isochrony::time::TimebaseId;

use crate::measure::{Results, interleave, noise, ratio};

operator! {
    /// Reads every sample: the ends of the chain.
    pub struct Read = "read" (Inputs::Exactly(1)) {}
    state {
        sum: i64,
    }
}

fn sum(samples: &[i16]) -> i64 {
    // Partial sums of 32,768 samples fit 32 bits.
    let parts = samples
        .chunks(32_768)
        .map(|part| part.iter().map(|&x| i32::from(x)).sum::<i32>());
    parts.map(i64::from).sum()
}

impl Operator for Read {
    fn bind(&mut self, inputs: &[PortType]) -> Result<Bound, PlanError> {
        Ok(Bound::new(inputs.iter().copied()))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        if let Item::Samples(samples) = item {
            samples.visit::<i16>(|part| self.sum += sum(part))?;
        }
        black_box(self.sum);
        Ok(Next::Tail)
    }
}

const SEGMENT: usize = 4096;

pub fn run(_: &Path, quick: bool, results: &mut Results) -> Result<(), Box<dyn std::error::Error>> {
    let count = if quick { 1 << 20 } else { 1 << 25 };
    let stream: StreamId = Stream::new("noise", TimebaseId(0), Rate::from_hz(48_000)?).intern();
    let samples = noise(9, count);
    // Both read the same memory.
    let segment = SigSeg::from_slice(&samples, 0, stream)?;
    drop(samples);
    let samples = segment.as_contiguous::<i16>().ok_or("several buffers")?;
    let live = Live::new(Segments::new([segment.clone()]).ok_or("no segment")?);
    let rounds = if quick { 3 } else { 25 };
    for operators in [10, 1000] {
        // The chain of a thousand has less data, so that a round takes not as much longer; enough of it that making a
        // thousand operators, once a run, is not what is measured.
        let range = (operators == 1000).then(|| 0..count as i64 / 4);
        let read = range.as_ref().map_or(count, |r| r.end as usize);
        let chain = |ends: bool, operators: usize| -> Result<Plan, PlanError> {
            let mut plan = Plan::scan_part(live.clone(), range.clone(), SEGMENT as u64);
            if ends {
                plan = plan.then::<Read>(Default::default())?;
            }
            for _ in 0..operators {
                plan = plan.passthrough()?;
            }
            if ends {
                plan.then::<Read>(Default::default())?.count()
            } else {
                plan.count()
            }
        };
        let whole = chain(true, operators - 2)?;
        let ours = || assert_eq!(whole.collect().expect("ran").count(), Some(read as u64));
        let bare = || {
            let (mut first, mut last) = (0, 0);
            for part in samples[..read].chunks(SEGMENT) {
                first += black_box(sum(part));
                last += black_box(sum(part));
            }
            assert_eq!(first, last);
        };
        let (a, b) = interleave(rounds, ours, bare);
        let rate = read as f64 / a.seconds().median;
        let goal = match operators {
            10 => (">= 0.8", ratio(&a, &b) >= 0.8),
            _ => ("ours >= 0.6 Gsamples/s", rate >= 0.6e9),
        };
        let name = format!("flow/passchain/{operators}-operators/4096");
        results.compare(
            &name,
            &a,
            "a bare loop that reads as often",
            &b,
            Some(2 * read as u64),
            Some(goal),
        );

        // The same, with nothing read, against a chain without operators: the difference is the engine.
        let (long, short) = (chain(false, operators)?, chain(false, 0)?);
        let (a, b) = interleave(
            rounds,
            || assert_eq!(long.collect().expect("ran").count(), Some(read as u64)),
            || assert_eq!(short.collect().expect("ran").count(), Some(read as u64)),
        );
        let hops = (operators * read / SEGMENT) as f64;
        let nanoseconds = (a.seconds().median - b.seconds().median) / hops * 1e9;
        println!(
            "flow/passchain/{operators}-operators: {nanoseconds:.2} ns per operator and segment (goal <= 6)"
        );
    }
    Ok(())
}
