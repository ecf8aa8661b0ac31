//! Section III-C: a chain of 1000 operators that pass segments, by scheduler.

use isochrony::SigSeg;

use serde_json::{Value, json};

use crate::data::audio;
use crate::engine::{Boxed, Emit, Engine, Graph, Held, Inline, Message, Node, Scheduler, Then};
use crate::kernels::bits;
use crate::measure::{Contestant, contest, rates, show};
use crate::memory::stream;
use crate::product;

/// Samples of a segment.
pub const LENGTH: usize = 4096;
/// Segments admitted at once, as in the product.
pub const BURST: usize = 64;
/// Names of contestants: [`Scheduler`]s with queues in own memory and in rings.
const PRODUCT: &str = "Isochrony";

impl Message for SigSeg {
    fn nothing() -> Self {
        SigSeg::empty(0, isochrony::DType::F32, stream())
    }

    fn extent(&self) -> (i64, i64, u64) {
        (self.start(), self.end(), self.len())
    }
}

struct Pass;

impl<M> Node<M> for Pass {
    fn process(&mut self, _: usize, _: &mut M, _: &mut dyn Emit<M>) -> Then {
        Then::Tail
    }
}

#[derive(Default)]
struct Read {
    sum: u64,
    samples: u64,
    last: bool,
}

impl Node<SigSeg> for Read {
    fn process(&mut self, _: usize, segment: &mut SigSeg, _: &mut dyn Emit<SigSeg>) -> Then {
        self.samples += segment.len();
        let read = segment.visit::<f32>(|part| self.sum = self.sum.wrapping_add(bits(part)));
        read.expect("32-bit samples");
        std::hint::black_box(self.sum);
        if self.last { Then::Taken } else { Then::Tail }
    }

    fn result(&self) -> u64 {
        self.samples
    }
}

struct Count(u64);

impl Node<SigSeg> for Count {
    fn process(&mut self, _: usize, segment: &mut SigSeg, _: &mut dyn Emit<SigSeg>) -> Then {
        self.0 += segment.len();
        Then::Taken
    }

    fn result(&self) -> u64 {
        self.0
    }
}

/// A chain whose ends read every sample, if `reads`; returns the samples that came through.
pub fn chain<Q: Held<SigSeg>>(
    whole: &SigSeg,
    operators: usize,
    scheduler: Scheduler,
    reads: bool,
) -> u64 {
    let mut graph = Graph::new(1);
    let mut at = if reads {
        graph.add(1, Read::default())
    } else {
        graph.add(1, Pass)
    };
    graph.feed(0, (at, 0));
    for _ in 2..operators {
        at = graph.then(at, Pass);
    }
    let sink = if reads {
        let last = true;
        graph.then(
            at,
            Read {
                last,
                ..Read::default()
            },
        )
    } else {
        graph.then(at, Count(0))
    };
    let mut engine: Engine<SigSeg, Q> = Engine::new(graph, scheduler);
    let starts: Vec<i64> = (whole.start()..whole.end()).step_by(LENGTH).collect();
    for burst in starts.chunks(BURST) {
        for &start in burst {
            let end = whole.end().min(start + LENGTH as i64);
            engine.offer(0, whole.subseg(start..end).expect("within"));
        }
        engine.drain();
    }
    engine.result(sink)
}

/// Lower bound of run to completion, for operators that return their input: a burst stays in place.
fn in_place(whole: &SigSeg, operators: usize) -> u64 {
    struct Nowhere;
    impl Emit<SigSeg> for Nowhere {
        fn emit(&mut self, _: usize, _: &mut SigSeg) {}
    }
    let pass = |_| Box::new(Pass) as Box<dyn Node<SigSeg>>;
    let mut nodes: Vec<Counted> =
        std::iter::once(Box::new(Read::default()) as Box<dyn Node<SigSeg>>)
            .chain((2..operators).map(pass))
            .chain([Box::new(Read::default()) as Box<dyn Node<SigSeg>>])
            .map(|node| Counted {
                node,
                expected: 0,
                jumps: 0,
                items: 0,
                samples: 0,
            })
            .collect();
    let starts: Vec<i64> = (whole.start()..whole.end()).step_by(LENGTH).collect();
    let mut waiting: Vec<SigSeg> = Vec::new();
    for burst in starts.chunks(BURST) {
        waiting.extend(burst.iter().map(|&start| {
            let end = whole.end().min(start + LENGTH as i64);
            whole.subseg(start..end).expect("within")
        }));
        for counted in &mut nodes {
            for segment in &mut waiting {
                counted.jumps += u64::from(counted.expected != segment.start());
                counted.expected = segment.end();
                counted.items += 1;
                counted.samples += segment.len();
                let then = counted.node.process(0, segment, &mut Nowhere);
                assert_eq!(then, Then::Tail);
            }
        }
        waiting.clear();
    }
    nodes.last().map_or(0, |last| last.node.result())
}

struct Counted {
    node: Box<dyn Node<SigSeg>>,
    expected: i64,
    jumps: u64,
    items: u64,
    samples: u64,
}

/// Every scheduler, with queues of either kind, and the product, over chains.
pub fn run(quick: bool) -> Value {
    let lengths = [10, 1000];
    let each = lengths.map(|operators| {
        let count = match (quick, operators) {
            (true, _) => 1 << 18,
            (false, 10) => 1 << 23,
            (false, _) => 1 << 22,
        };
        let samples = audio(1, count).swap_remove(0);
        let whole = SigSeg::from_slice(&samples, 0, stream()).expect("memory");
        let live = product::recorded(&whole);
        let plan = product::chain(&live, LENGTH, operators, true).expect("a plan");
        let mut contestants = Vec::new();
        for scheduler in Scheduler::ALL {
            let own = &whole;
            let name = scheduler.name();
            contestants.push(Contestant::new(name, move || {
                chain::<Boxed<_>>(own, operators, scheduler, true)
            }));
            if scheduler != Scheduler::DepthFirst {
                let name = format!("{name}, ring queues");
                contestants.push(Contestant::new(name, move || {
                    chain::<Inline<_>>(own, operators, scheduler, true)
                }));
            }
        }
        let own = &whole;
        contestants.push(Contestant::new("RTC, in place", move || {
            in_place(own, operators)
        }));
        contestants.push(Contestant::new(PRODUCT, || product::result(&plan)));
        let times = contest(
            "chain",
            if quick { 1 } else { 15 },
            count as u64,
            &mut contestants,
        );
        let rates = rates(&times, count as u64, PRODUCT);
        show(&format!("chain/{operators}"), &rates);
        json!({"operators": operators, "rates": rates})
    });
    json!(each)
}

/// One chain of 1000 operators that read nothing, for a cache simulator: the difference between two numbers of segments
/// is the schedulers' own.
pub fn alone(
    mut arguments: impl Iterator<Item = String>,
) -> Result<(), Box<dyn std::error::Error>> {
    let name = arguments.next().ok_or("give a scheduler")?;
    let segments: usize = arguments
        .next()
        .ok_or("give a number of segments")?
        .parse()?;
    let samples = vec![0f32; segments * LENGTH];
    let count = samples.len() as u64;
    let passed = if name == PRODUCT {
        let plan = product::chain(
            &product::recorded(&product::shared(&samples)),
            LENGTH,
            1000,
            false,
        )?;
        product::result(&plan)
    } else {
        let scheduler = Scheduler::ALL.into_iter().find(|s| {
            name.starts_with(s.name()) && (s.name() != "FIFO" || !name.starts_with("FIFO-Slice"))
        });
        let scheduler = scheduler.ok_or("no such scheduler")?;
        let whole = SigSeg::from_slice(&samples, 0, stream())?;
        if name.ends_with("ring queues") {
            chain::<Inline<_>>(&whole, 1000, scheduler, false)
        } else {
            chain::<Boxed<_>>(&whole, 1000, scheduler, false)
        }
    };
    if passed == count {
        Ok(())
    } else {
        Err(format!("{passed} of {count} samples").into())
    }
}
