//! Live sources whose clocks restart.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

use isochrony_flow::{Break, RangeOrigin};
use isochrony_time::RunId;

use super::*;

pub(super) const MS: i64 = 1_000_000;

static NEXT_TIMEBASE: AtomicU32 = AtomicU32::new(1_000);

#[derive(Debug, Clone, Copy)]
pub(super) struct ClockRun {
    first: i64,
    zero: i64,
}

#[derive(Debug)]
struct LiveClock {
    period: i64,
    known: Mutex<(Vec<ClockRun>, i64)>,
    announces: bool,
}

fn time_in(runs: &[ClockRun], period: i64, index: i64) -> i64 {
    let after = runs.partition_point(|run| run.first <= index);
    let run = runs[after.saturating_sub(1)];
    run.zero + (index - run.first) * period
}

/// Time of the first index of each later run, up to a run, as the run before it has it.
fn announced_in(runs: &[ClockRun], period: i64) -> Option<i64> {
    let expected = runs
        .windows(2)
        .map(|pair| pair[0].zero + (pair[1].first - pair[0].first) * period);
    expected.max()
}

impl Clock for LiveClock {
    fn times(&self, indices: &[i64], out: &mut [i64]) -> Result<(), Cause> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (runs, error) = &*known;
        for (out, &index) in out.iter_mut().zip(indices) {
            *out = match runs.is_empty() {
                true => i64::MIN,
                false => time_in(runs, self.period, index) + error,
            };
        }
        Ok(())
    }

    fn announced_before(&self, index: i64) -> Option<i64> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = known.0.partition_point(|run| run.first <= index);
        announced_in(&known.0[..begun], self.period).filter(|_| self.announces)
    }
}

#[derive(Debug, Clone)]
pub(super) enum LiveEvent {
    Samples(Range<i64>),
    Start(i64, Option<Break>),
    Mark(i64),
    Run(ClockRun),
    End,
}

#[derive(Debug, Clone)]
pub(super) struct Feed {
    pub(super) id: u32,
    rate: i64,
    pub(super) window: u64,
    pub(super) hop: u64,
    runs: Vec<ClockRun>,
    ranges: Vec<(usize, Range<i64>)>,
    pub(super) events: Vec<(LiveEvent, i64)>,
    /// Its clock knows what it had announced when it was started anew.
    pub(super) announces: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Restart {
    /// Start of the next run minus the expected time of its first index, in ns.
    pub(super) step: i64,
    /// Samples that the source gives up before.
    pub(super) silent: i64,
}

#[derive(Debug, Clone)]
pub(super) struct RunShape {
    /// Lengths of packets and of the silence after each.
    pub(super) packets: Vec<(i64, i64)>,
    pub(super) restart: Restart,
}

fn a_restart(back: bool) -> impl Strategy<Value = Restart> {
    let hundredths = |of: Range<i64>| of.prop_map(|step| step * 10 * MS + MS / 10);
    let forward = hundredths(0..500);
    let step = match back {
        // By less than the clock's error, by fractions of a sample, by samples, by windows.
        true => prop_oneof![
            forward,
            -9_000i64..9_000,
            hundredths(-9..0),
            hundredths(-300..0)
        ]
        .boxed(),
        false => prop_oneof![forward, 0i64..9_000].boxed(),
    };
    let silent = prop_oneof![Just(0), Just(0), 1i64..30];
    (step, silent).prop_map(|(step, silent)| Restart { step, silent })
}

pub(super) fn a_feed(id: u32, back: bool) -> impl Strategy<Value = Feed> {
    let silent = prop_oneof![4 => Just(0), 1 => 1i64..30];
    let packets = prop::collection::vec((1i64..12, silent), 0..8);
    let shape =
        (packets, a_restart(back)).prop_map(|(packets, restart)| RunShape { packets, restart });
    let errors = prop::collection::vec(-5_000i64..5_000, 1..20);
    let shapes = prop::collection::vec(shape, 1..6);
    let rate = prop::sample::select(vec![10i64, 20]);
    (rate, 1u64..8, 1u64..8, 0i64..300, shapes, errors).prop_map(
        move |(rate, window, hop, zero, shapes, errors)| {
            feed(id, rate, (window, hop), zero, &shapes, &errors)
        },
    )
}

/// Times never coincide: multiples of 10 ms, and 3 ms more; each run adds 0.1 ms.
pub(super) fn feed(
    id: u32,
    rate: i64,
    (window, hop): (u64, u64),
    zero: i64,
    shapes: &[RunShape],
    errors: &[i64],
) -> Feed {
    let period = 1_000 * MS / rate;
    let mut zero = zero * 10 * MS + if id == 1 { 0 } else { 3 * MS };
    let (mut runs, mut ranges, mut events) = (Vec::new(), Vec::new(), Vec::new());
    let mut next = 0;
    for (nth, shape) in shapes.iter().enumerate() {
        let run = ClockRun { first: next, zero };
        events.push(LiveEvent::Run(run));
        let why = (nth > 0).then(|| Break::ClockStep {
            old: RunId(nth as u32 - 1),
            new: RunId(nth as u32),
        });
        events.push(LiveEvent::Start(next, why));
        runs.push(run);
        let mut last: Option<Range<i64>> = None;
        for &(length, silent) in &shape.packets {
            let packet = next..next + length;
            next = packet.end;
            events.push(LiveEvent::Samples(packet.clone()));
            last = match last {
                Some(last) => Some(last.start..packet.end),
                None => Some(packet),
            };
            if silent > 0 {
                ranges.extend(last.take().map(|range| (nth, range)));
                next = fall_silent(next, silent, &mut events);
                events.push(LiveEvent::Start(next, Some(Break::Dropped(next - 1..next))));
            }
        }
        ranges.extend(last.map(|range| (nth, range)));
        if shape.restart.silent > 0 {
            next = fall_silent(next, shape.restart.silent, &mut events);
        }
        zero += (next - run.first) * period + shape.restart.step;
    }
    events.push(LiveEvent::End);
    let errors = errors.iter().copied().cycle();
    Feed {
        id,
        rate,
        window,
        hop,
        runs,
        ranges,
        events: events.into_iter().zip(errors).collect(),
        announces: false,
    }
}

/// The first index is lost, then progress follows.
fn fall_silent(next: i64, samples: i64, events: &mut Vec<LiveEvent>) -> i64 {
    events.push(LiveEvent::Start(
        next + 1,
        Some(Break::Dropped(next..next + 1)),
    ));
    for upto in [next + (samples + 1) / 2, next + samples] {
        events.push(LiveEvent::Mark(upto));
    }
    next + samples
}

pub(super) type Turns = Arc<Mutex<Vec<u32>>>;

#[derive(Clone)]
struct LiveRecording {
    feed: Feed,
    stream: StreamId,
    clock: Arc<LiveClock>,
    /// Reversed. None: all is there from the start.
    turns: Option<Turns>,
}

impl Recording for LiveRecording {
    fn port(&self) -> PortType {
        PortType::Samples {
            dtype: isochrony_segment::DType::I16,
            stream: self.stream,
        }
    }

    fn open(&self, _: Option<Range<i64>>, _: u64) -> Result<Box<dyn Source>, OpError> {
        let mut events = self.feed.events.clone();
        events.reverse();
        Ok(Box::new(LiveSource {
            recording: self.clone(),
            events,
            waker: None,
        }))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        Some(self.clock.clone())
    }
}

struct LiveSource {
    recording: LiveRecording,
    events: Vec<(LiveEvent, i64)>,
    waker: Option<Waker>,
}

impl Source for LiveSource {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        if let Some(turns) = &self.recording.turns {
            let mut turns = turns.lock().unwrap();
            if turns
                .last()
                .is_some_and(|turn| *turn != self.recording.feed.id)
            {
                self.waker.iter().for_each(Waker::wake_by_ref);
                return Ok(SourceEvent::Idle);
            }
            turns.pop();
        }
        let Some((event, error)) = self.events.pop() else {
            return Ok(SourceEvent::End);
        };
        if self.recording.turns.is_some() {
            let mut known = self.recording.clock.known.lock().unwrap();
            known.1 = error;
            if let LiveEvent::Run(run) = event {
                known.0.push(run);
            }
        }
        Ok(match event {
            LiveEvent::Run(_) => {
                self.waker.iter().for_each(Waker::wake_by_ref);
                SourceEvent::Idle
            }
            LiveEvent::Samples(range) => {
                let values: Vec<i16> = range.clone().map(|index| index as i16).collect();
                let samples = SigSeg::from_slice(&values, range.start, self.recording.stream)?;
                SourceEvent::Item(samples.into())
            }
            LiveEvent::Start(index, why) => SourceEvent::RangeStart {
                origin: RangeOrigin::at(index),
                why,
            },
            LiveEvent::Mark(upto) => SourceEvent::ProgressMark(upto),
            LiveEvent::End => SourceEvent::End,
        })
    }

    fn set_waker(&mut self, waker: &Waker) {
        self.waker = Some(waker.clone());
    }
}

impl Feed {
    fn period(&self) -> i64 {
        1_000 * MS / self.rate
    }

    fn time(&self, index: i64) -> i64 {
        time_in(&self.runs, self.period(), index)
    }

    pub(super) fn rows(&self) -> Vec<LiveRow> {
        let mut rows = Vec::new();
        for (run, range) in &self.ranges {
            let mut start = range.start;
            let announced = announced_in(&self.runs[..=*run], self.period());
            let announced = announced.filter(|_| self.announces).unwrap_or(i64::MIN);
            while start + self.window as i64 <= range.end {
                let from = self.time(start);
                rows.push(LiveRow {
                    start,
                    from,
                    announced: if from < announced {
                        announced
                    } else {
                        i64::MIN
                    },
                    to: self.time(start + self.window as i64 - 1) + self.period(),
                    is_late: (1..=*run).any(|run| {
                        let (before, first) = (self.runs[run - 1], self.runs[run].first);
                        // The clock is off by up to 5 us.
                        from < before.zero + (first - before.first) * self.period() + MS / 100
                    }),
                });
                start += self.hop as i64;
            }
        }
        rows
    }

    pub(super) fn plan(&self, turns: Option<&Turns>) -> Plan {
        let windows = self.scan(turns).rewindow_every(self.window, self.hop);
        windows.unwrap().stats([Stat::Min]).unwrap()
    }

    pub(super) fn scan(&self, turns: Option<&Turns>) -> Plan {
        let known = match turns {
            Some(_) => (Vec::new(), 0),
            None => (self.runs.clone(), 0),
        };
        let recording = LiveRecording {
            // Clocks are found by timebase, and tests run concurrently.
            stream: stream(
                "restarts",
                NEXT_TIMEBASE.fetch_add(1, Ordering::Relaxed),
                self.rate as u64,
            ),
            clock: Arc::new(LiveClock {
                period: self.period(),
                known: Mutex::new(known),
                announces: self.announces,
            }),
            feed: self.clone(),
            turns: turns.cloned(),
        };
        Plan::scan(recording)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LiveRow {
    pub(super) start: i64,
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) is_late: bool,
    /// What it began before, by its own clock; else `i64::MIN`.
    announced: i64,
}

impl LiveRow {
    pub(super) fn place(&self) -> i64 {
        self.from.max(self.announced)
    }

    pub(super) fn meets(&self, other: &Self, tolerance: Option<i64>) -> bool {
        match tolerance {
            None => self.to > other.announced,
            Some(tolerance) => self.from + tolerance >= other.announced,
        }
    }
}
