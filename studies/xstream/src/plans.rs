//! For each real plan: does another scheduler beat the product's?
//!
//! Only scheduling and the engine around a call differ. A scheduler that beats the product's by more than a tenth
//! should become selectable.

use isochrony::SigSeg;
use isochrony::flow::{Plan, PlanError};
use isochrony::segment::Sample;
use serde_json::{Value, json};

use crate::data::{self, CHANNELS, SENSORS, audio, vibration};
use crate::engine::{Inline, Scheduler};
use crate::engine_bench::{LENGTH, chain};
use crate::measure::{Contestant, contest, rates, show};
use crate::models::blocks::{self, Block};
use crate::models::{Admission, End, Query, drive};
use crate::product;

const PRODUCT: &str = "Isochrony";
/// Samples that the product admits at once.
const BURST_SAMPLES: usize = 1 << 18;
const BURST_ITEMS: usize = 64;

struct Case<'a> {
    name: String,
    samples: u64,
    expected: u64,
    plan: Plan,
    rival: Box<dyn Fn(Scheduler) -> u64 + 'a>,
}

impl Case<'_> {
    fn run(&self, rounds: usize) -> Value {
        let mut all: Vec<Contestant<'_>> = Scheduler::ALL
            .into_iter()
            .map(|scheduler| Contestant::new(scheduler.name(), move || (self.rival)(scheduler)))
            .collect();
        all.push(Contestant::new(PRODUCT, || product::result(&self.plan)));
        let times = contest(&self.name, rounds, self.expected, &mut all);
        let rates = rates(&times, self.samples, PRODUCT);
        show(&self.name, &rates);
        json!({"plan": self.name, "rates": rates})
    }
}

fn shared<T: Sample>(channels: &[Vec<T>]) -> Vec<SigSeg> {
    channels
        .iter()
        .map(|samples| product::shared(samples))
        .collect()
}

/// A query over blocks, without copying its input.
fn rival<'a>(
    query: impl Fn() -> Query<Block> + 'a,
    whole: &'a [SigSeg],
    segment: usize,
) -> Box<dyn Fn(Scheduler) -> u64 + 'a> {
    let admission = Admission {
        sources: whole.len(),
        total: whole[0].len() as usize,
        segment,
        burst: (BURST_SAMPLES / segment).clamp(1, BURST_ITEMS),
    };
    Box::new(move |scheduler| {
        drive::<Block, Inline<_>>(query(), scheduler, admission, &mut |source, range, give| {
            let part = whole[source].subseg(range.start as i64..range.end as i64);
            give(Block::Samples(part.expect("within")));
        })
    })
}

/// In segments of two sizes, over recordings of 2^`scale` times the minimum.
fn each_case(scale: u32, each: &mut dyn FnMut(&Case<'_>)) {
    let one = audio(1, 1 << (18 + scale));
    let four = audio(CHANNELS, 1 << (17 + scale));
    let three = vibration(1 << (15 + scale));
    let (shared_one, shared_four, shared_three) = (shared(&one), shared(&four), shared(&three));
    let live = |shared: &[SigSeg]| shared.iter().map(product::recorded).collect::<Vec<_>>();
    let (live_one, live_four, live_three) =
        (live(&shared_one), live(&shared_four), live(&shared_three));
    for operators in [10, 1000] {
        let count = one[0].len() / if operators == 1000 { 4 } else { 1 };
        let whole = shared_one[0].subseg(0..count as i64).expect("within");
        let live = product::recorded(&whole);
        each(&Case {
            name: format!("passchain-{operators}/{LENGTH}"),
            samples: count as u64,
            expected: count as u64,
            plan: product::chain(&live, LENGTH, operators, true).expect("a plan"),
            rival: Box::new(move |scheduler| {
                chain::<Inline<_>>(&whole, operators, scheduler, true)
            }),
        });
    }
    for segment in [4096, isochrony::flow::SEGMENT_SAMPLES as usize] {
        let mut add =
            |name: &str, samples: usize, expected: u64, plan: Result<Plan, PlanError>, rival| {
                each(&Case {
                    name: format!("{name}/{segment}"),
                    samples: samples as u64,
                    expected,
                    plan: plan.expect("a plan"),
                    rival,
                });
            };
        add(
            "statfilter",
            one[0].len(),
            data::stat_filter(&one[0]),
            product::stat_filter(&live_one[0], segment),
            rival(blocks::stat_filter, &shared_one, segment),
        );
        add(
            "silencefilter",
            one[0].len(),
            data::silence_filter(&one[0]),
            product::silence_filter(&live_one[0], segment, End::Sync),
            rival(blocks::silence_filter, &shared_one, segment),
        );
        add(
            "detectaudio",
            CHANNELS * four[0].len(),
            data::detect_audio(&four),
            product::detect_audio_scan(&live_four, segment, End::Sync),
            rival(|| blocks::detect_audio(End::Sync), &shared_four, segment),
        );
        add(
            "pipeline",
            SENSORS * three[0].len(),
            data::pipeline(&three),
            product::pipeline_scan(&live_three, segment),
            rival(blocks::pipeline, &shared_three, segment),
        );
    }
}

/// Everybody on every plan.
pub fn run(quick: bool) -> Value {
    // Must hide some ten microseconds to make a plan.
    let (scale, rounds) = if quick { (0, 1) } else { (5, 11) };
    let mut results = Vec::new();
    each_case(scale, &mut |case| results.push(case.run(rounds)));
    json!(results)
}

/// One plan, run repeatedly by one engine alone, for a profiler.
pub fn alone(
    mut arguments: impl Iterator<Item = String>,
) -> Result<(), Box<dyn std::error::Error>> {
    let plan = arguments.next().ok_or("give a plan")?;
    let who = arguments.next().ok_or("give a scheduler")?;
    let times: usize = arguments.next().ok_or("give a number of runs")?.parse()?;
    let scheduler = Scheduler::ALL.into_iter().find(|one| one.name() == who);
    if scheduler.is_none() && who != PRODUCT {
        return Err(format!("{who} is no scheduler").into());
    }
    let mut found = false;
    each_case(5, &mut |case| {
        if case.name == plan {
            found = true;
            for _ in 0..times {
                let result = scheduler.map_or_else(|| product::result(&case.plan), &case.rival);
                assert_eq!(result, case.expected);
            }
        }
    });
    if found {
        Ok(())
    } else {
        Err(format!("{plan} is no plan").into())
    }
}
