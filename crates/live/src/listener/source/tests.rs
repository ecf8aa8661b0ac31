//! Recorded arrivals, replayed with a simulated clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use isochrony_flow::arrow::RecordBatch;
use isochrony_flow::arrow::array::Array as _;
use isochrony_flow::arrow::schema::DataType;
use isochrony_flow::{
    Break, Catalog, Clock, Item, Plan, PortType, Recording, RunOptions, SharedRecording, Stat, json,
};
use isochrony_segment::DType;
use isochrony_time::Rate;
use proptest::prelude::*;

use super::*;
use crate::Listener;
use crate::feed_counts::FeedCounts;
use crate::frame::FrameHeader;
use crate::receive::ArrivalTime;

mod late;

const MS: u64 = 1_000_000;
/// 2026-01-01, in ns.
const START: i64 = 1_767_225_600_000_000_000;

#[derive(Debug, Clone)]
struct Arrival {
    at: u64,
    bytes: Vec<u8>,
}

/// Sample `k` is `k`, modulo 1000.
fn frame(session: u32, first: u64, len: u64, stamp: Option<i64>) -> Vec<u8> {
    let header = FrameHeader {
        time: stamp.map(isochrony_time::Fixed::from_int),
        ..FrameHeader::new(DType::I16, session, first)
    };
    let samples = (first..first + len).flat_map(|k| ((k % 1000) as i16).to_ne_bytes());
    let (samples, mut bytes) = (samples.collect::<Vec<_>>(), Vec::new());
    header.write(&samples, &mut bytes);
    bytes
}

#[derive(Debug, Clone)]
struct Sender {
    rate: u64,
    len: u64,
    is_stamped: bool,
    /// Delay of each frame in ms; None: lost.
    delays: Vec<Option<u64>>,
    /// From this frame on, nothing is sent for this many ms.
    silent: (usize, u64),
    sends_backlog: bool,
    /// What is sent after the silence, a backlog too, is of another session.
    restarts: bool,
    /// By so many ms the stamps of that session are ahead.
    set_by: i64,
    /// Delay of a copy of each frame in ms; None: sent once.
    repeats: Vec<Option<u64>>,
}

impl Sender {
    fn arrivals(&self) -> Vec<Arrival> {
        let period = 1_000_000_000 / self.rate;
        let mut all = Vec::new();
        let (from, silence) = self.silent;
        let missed = silence * MS / (self.len * period);
        let mut session_start = 0;
        let copies = self.repeats.iter().copied().chain(std::iter::repeat(None));
        for (k, (delay, copy)) in self.delays.iter().zip(copies).enumerate() {
            let silent = k >= from && (k as u64) < from as u64 + missed;
            if silent && !self.sends_backlog {
                continue;
            }
            let taken = k as u64 * self.len;
            let sent = match silent {
                true => (from as u64 + missed) * self.len * period,
                false => taken * period,
            };
            let session = u32::from(self.restarts && k >= from);
            if session == 1 && session_start == 0 {
                session_start = taken;
            }
            let set_by = if session == 1 { self.set_by } else { 0 };
            let stamp = START + (taken * period) as i64 + set_by * MS as i64;
            let delays = [*delay, copy].into_iter().flatten();
            all.extend(delays.map(|delay| Arrival {
                at: sent + (self.len * period) + delay * MS,
                bytes: frame(
                    7 + session,
                    taken - if session == 1 { session_start } else { 0 },
                    self.len,
                    self.is_stamped.then_some(stamp),
                ),
            }));
        }
        all.sort_by_key(|arrival| arrival.at);
        all
    }
}

/// Replays packets on a simulated clock shared by two feeds.
struct ReplayedFeed {
    listener: Listener,
    arrivals: Vec<Arrival>,
    clock: Arc<AtomicU64>,
    /// Steps of the idle clock, cyclically.
    steps: Vec<u64>,
    marks: Arc<Mutex<Vec<i64>>>,
}

struct ReplayedSource {
    source: FeedSource,
    queue: Arc<PacketQueue>,
    arrivals: VecDeque<Arrival>,
    clock: Arc<AtomicU64>,
    steps: Vec<u64>,
    turn: usize,
    waker: Option<Waker>,
    promised: i64,
    marks: Arc<Mutex<Vec<i64>>>,
}

impl Source for ReplayedSource {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        let now = self.clock.load(Ordering::Acquire);
        while let Some(next) = self.arrivals.front()
            && next.at <= now
        {
            let arrival = ArrivalTime {
                since_start: Duration::from_nanos(next.at),
                civil_ns: START + next.at as i64,
                sampled_ns: None,
            };
            assert!(self.queue.try_push(&next.bytes, arrival, false));
            self.arrivals.pop_front();
        }
        let pulled = self.source.pull()?;
        match &pulled {
            SourceEvent::Idle => {
                self.turn += 1;
                let step = self.steps[self.turn % self.steps.len()];
                self.clock.fetch_add(step, Ordering::AcqRel);
                self.waker.iter().for_each(Waker::wake_by_ref);
            }
            SourceEvent::ProgressMark(index) => {
                self.promised = self.promised.max(*index);
                self.marks.lock().unwrap().push(*index);
            }
            SourceEvent::Item(Item::Samples(samples)) => {
                assert!(samples.start() >= self.promised, "what was given up came");
            }
            SourceEvent::RangeStart { origin, .. } => {
                assert!(origin.anchor >= self.promised.min(origin.anchor))
            }
            _ => {}
        }
        Ok(pulled)
    }

    fn arrival(&self, asked: Instant) -> Option<Instant> {
        self.source.arrival(asked)
    }

    fn set_waker(&mut self, waker: &Waker) {
        self.waker = Some(waker.clone());
    }

    fn close(&mut self) {
        self.source.close();
    }
}

impl Recording for ReplayedFeed {
    fn port(&self) -> PortType {
        self.listener.port()
    }

    fn open(&self, _: Option<Range<i64>>, segment: u64) -> Result<Box<dyn Source>, OpError> {
        let inner = &self.listener.0;
        inner.is_scanned.store(true, Ordering::Release);
        inner.axis.begin_scan();
        let queue = Arc::new(PacketQueue::new(1 << 30));
        let clock = RunClock::Simulated(self.clock.clone());
        let guard = ScanGuard(inner.clone());
        let source = FeedSource::new(guard, queue.clone(), None, segment, clock);
        inner.clock.set(source.clock());
        Ok(Box::new(ReplayedSource {
            source,
            queue,
            arrivals: self.arrivals.clone().into(),
            clock: self.clock.clone(),
            steps: self.steps.clone(),
            turn: 0,
            waker: None,
            promised: i64::MIN,
            marks: self.marks.clone(),
        }))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.listener.clock()
    }
}

fn listener(rate: u64, lateness: u64) -> Listener {
    let mut options = ListenOptions::new(DType::I16, Rate::from_hz(rate).unwrap());
    options.name = format!("replayed/{rate}");
    options.lateness = Some(Duration::from_millis(lateness));
    options.silence = Some(Duration::from_secs(3));
    options.keep_late = 1 << 20;
    Listener::bind(&"udp://127.0.0.1:0".parse().unwrap(), &options).unwrap()
}

/// Joined rows, counts, late rows. None: the join met a clock that was set back.
type Replayed = Option<(RecordBatch, Vec<FeedCounts>, Vec<Option<RecordBatch>>)>;

fn replay(
    feeds: &[Vec<Arrival>; 2],
    rates: [u64; 2],
    lateness: u64,
    params: &serde_json::Value,
    steps: &[u64],
    segment: u64,
) -> Replayed {
    let clock = Arc::new(AtomicU64::new(0));
    let listeners = rates.map(|rate| listener(rate, lateness));
    let scan = |nth: usize| {
        let feed = ReplayedFeed {
            listener: listeners[nth].clone(),
            arrivals: feeds[nth].clone(),
            clock: clock.clone(),
            steps: steps.to_vec(),
            marks: Arc::default(),
        };
        let plan = Plan::scan_part(SharedRecording::new(feed), None, segment);
        let windows = plan.rewindow_every(20, 20).unwrap();
        windows.stats([Stat::Min, Stat::Max]).unwrap()
    };
    let catalog = Catalog::standard();
    let join = catalog.get("join").unwrap();
    let joined = scan(0).apply(join, params.as_object().unwrap().clone(), &[scan(1)]);
    let late = |nth: usize| Plan::scan(listeners[nth].late().unwrap());
    let plans = [joined.unwrap(), late(0), late(1)];
    let (gathered, _) = match Plan::collect_all(&plans, &RunOptions::default()) {
        Err(error) if error.code() == "back_in_time" => return None,
        run => run.unwrap(),
    };
    let mut rows = gathered.iter().map(|one| one.rows().cloned());
    let joined = rows.next().unwrap().unwrap();
    let counts: Vec<FeedCounts> = listeners.iter().map(Listener::counts).collect();
    let late: Vec<_> = rows.collect();
    for ((late, counts), listener) in late.iter().zip(&counts).zip(&listeners) {
        check_late_rows(late.as_ref(), counts, listener);
    }
    Some((joined, counts, late))
}

fn column(rows: &RecordBatch, name: &str) -> Vec<i64> {
    let column = rows.column_by_name(name).unwrap();
    let column = column.to_data();
    match column.data_type() {
        DataType::Int16 => {
            let values = column.buffer::<i16>(0)[column.offset()..].iter();
            values
                .take(column.len())
                .map(|&value| value.into())
                .collect()
        }
        _ => column.buffer::<i64>(0)[column.offset()..][..column.len()].to_vec(),
    }
}

/// Late rows are samples that were sent, each once, and that the feed had passed.
fn check_late_rows(late: Option<&RecordBatch>, counts: &FeedCounts, listener: &Listener) {
    let count = late.map_or(0, RecordBatch::num_rows) as u64;
    assert_eq!(count, counts.late_samples);
    assert_eq!(counts.dropped_late_samples, 0);
    assert_eq!(listener.take_late(), []);
    let Some(late) = late else {
        return;
    };
    let [starts, indices, values] = ["start", "index", "value"].map(|name| column(late, name));
    assert!(starts.is_sorted());
    let mut places = starts.iter().zip(&indices);
    assert!(places.all(|(start, index)| index < start));
    // Those before the first released frame of a later session may have indices of the session before.
    let session = |(index, value): (&i64, &i64)| (index - value).rem_euclid(1000);
    let mut bases: Vec<i64> = indices.iter().zip(&values).map(session).collect();
    let mut once: Vec<_> = indices.into_iter().zip(values).collect();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len() as u64, count);
    bases.sort_unstable();
    bases.dedup();
    assert!(bases.len() as u64 <= 1 + counts.clock_steps, "{bases:?}");
}

fn senders(rate: u64) -> impl Strategy<Value = Sender> {
    let delay = prop_oneof![
        20 => (0u64..20).prop_map(Some),
        1 => (0u64..90).prop_map(Some),
        1 => Just(None),
    ];
    let copy = prop_oneof![
        8 => Just(None),
        1 => (0u64..200).prop_map(Some),
    ];
    (
        (
            5u64..30,
            any::<bool>(),
            prop::collection::vec(delay, 60..120),
            prop::collection::vec(copy, 120),
        ),
        (
            10usize..60,
            0u64..1500,
            any::<bool>(),
            any::<bool>(),
            prop_oneof![Just(0), -60i64..60],
        ),
    )
        .prop_map(
            move |(
                (len, is_stamped, delays, repeats),
                (from, silence, backlog, restarts, set_by),
            )| {
                Sender {
                    rate,
                    len,
                    is_stamped,
                    delays,
                    silent: (from, silence),
                    sends_backlog: backlog,
                    restarts,
                    set_by,
                    repeats,
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// For any clock polling and division of samples.
    #[test]
    fn the_same_arrivals_give_the_same_bits(
        first in senders(1000),
        second in prop_oneof![senders(1000), senders(250)],
        lateness in 50u64..400,
        how in prop::sample::select(vec!["inner", "left", "outer"]),
        tolerance in prop::option::of(0.0..0.2),
        steps in prop::collection::vec(1u64..300, 1..5),
        segment in 1u64..200,
    ) {
        let rates = [first.rate, second.rate];
        let feeds = [first.arrivals(), second.arrivals()];
        let params = match tolerance {
            Some(tolerance) => json!({"how": how, "tolerance": tolerance}),
            None => json!({"how": how}),
        };
        let each_ms = replay(&feeds, rates, lateness, &params, &[MS], 1 << 20);
        let steps: Vec<u64> = steps.into_iter().map(|ms| ms * MS).collect();
        let other = replay(&feeds, rates, lateness, &params, &steps, segment);
        prop_assert_eq!(other.is_some(), each_ms.is_some());
        prop_assert!(each_ms.is_some() || first.restarts || second.restarts);
        let (Some(other), Some(each_ms)) = (other, each_ms) else {
            return Ok(());
        };
        prop_assert_eq!(&other.1, &each_ms.1);
        prop_assert_eq!(&other.2, &each_ms.2);
        prop_assert_eq!(&other.0, &each_ms.0);
    }
}

/// Samples, breaks and marks.
fn events(sender: &Sender, lateness: u64) -> (Vec<i64>, Vec<Break>, Vec<i64>, Listener) {
    events_of(sender.arrivals(), sender.rate, lateness)
}

fn events_of(
    arrivals: Vec<Arrival>,
    rate: u64,
    lateness: u64,
) -> (Vec<i64>, Vec<Break>, Vec<i64>, Listener) {
    let listener = listener(rate, lateness);
    let marks = Arc::default();
    let feed = ReplayedFeed {
        listener: listener.clone(),
        arrivals,
        clock: Arc::default(),
        steps: vec![MS],
        marks: Arc::clone(&marks),
    };
    let mut source = feed.open(None, 1 << 16).unwrap();
    let (mut indices, mut breaks) = (Vec::new(), Vec::new());
    loop {
        match source.pull().unwrap() {
            SourceEvent::Item(item) => indices.extend(item.range().unwrap()),
            SourceEvent::RangeStart { why, .. } => breaks.extend(why),
            SourceEvent::End => break,
            _ => {}
        }
    }
    let marks = marks.lock().unwrap().clone();
    (indices, breaks, marks, listener)
}

fn steady_sender(silent: (usize, u64)) -> Sender {
    Sender {
        rate: 1000,
        len: 10,
        is_stamped: true,
        delays: vec![Some(1); 200],
        silent,
        sends_backlog: false,
        restarts: false,
        set_by: 0,
        repeats: Vec::new(),
    }
}

#[test]
fn samples_arrived_with_the_first_packet_of_their_segment() {
    let sender = Sender {
        rate: 10,
        ..steady_sender((0, 0))
    };
    let (arrivals, clock) = (sender.arrivals(), Arc::new(AtomicU64::new(0)));
    let feed = ReplayedFeed {
        listener: listener(sender.rate, 5000),
        arrivals: arrivals.clone(),
        clock: clock.clone(),
        // Several packets of a second each wait when the source is asked.
        steps: vec![2500 * MS, 1500 * MS],
        marks: Arc::default(),
    };
    let mut source = feed.open(None, 1 << 16).unwrap();
    let mut waited = Duration::ZERO;
    loop {
        match source.pull().unwrap() {
            SourceEvent::Item(item) => {
                let first = arrivals[item.range().unwrap().start as usize / 10].at;
                let expected = clock.load(Ordering::Acquire) - first;
                let asked = Instant::now();
                let arrived = source.arrival(asked).unwrap();
                let found = asked.saturating_duration_since(arrived);
                let difference = found.abs_diff(Duration::from_nanos(expected));
                assert!(difference < Duration::from_millis(500), "{found:?}");
                waited = waited.max(found);
            }
            SourceEvent::End => break,
            _ => {}
        }
    }
    assert!(waited > Duration::from_secs(1), "{waited:?}");
    // What is no sample arrived when it was asked for.
    let asked = Instant::now();
    assert_eq!(source.arrival(asked), Some(asked));
}

#[test]
fn a_silence_is_a_gap_and_progress_goes_on() {
    let (indices, breaks, marks, listener) = events(&steady_sender((50, 500)), 100);
    assert_eq!(indices, (0..500).chain(1000..2000).collect::<Vec<_>>());
    let dropped: Vec<Range<i64>> = breaks
        .iter()
        .map(|why| match why {
            Break::Dropped(range) => range.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    // The frame of 490 arrived at 501 ms, that of 1000 at 1011 ms: by then the clock was at 900. Nothing follows the
    // end, which is not known for a while.
    assert_eq!(dropped, [500..501, 501..900, 900..1000, 2000..2001]);
    assert!(
        marks.first().is_some_and(|&first| first <= 502),
        "{marks:?}"
    );
    // The first from 611 ms on, every ten.
    let within: Vec<_> = marks.iter().filter(|mark| **mark < 1000).collect();
    assert!((35..=40).contains(&within.len()), "{marks:?}");
    let counts = listener.counts();
    assert_eq!((counts.lost_samples, counts.late_samples), (500, 0));
}

fn ending_in_silence(gap: u64) -> Vec<Arrival> {
    let mut arrivals = steady_sender((50, 1500)).arrivals();
    let header = FrameHeader {
        end: true,
        gap,
        ..FrameHeader::new(DType::I16, 7, 1000)
    };
    let mut bytes = Vec::new();
    header.write(&[], &mut bytes);
    arrivals.extend((0..3).map(|k| Arrival {
        at: (1000 + k) * MS,
        bytes: bytes.clone(),
    }));
    arrivals
}

#[test]
fn a_feed_that_ends_in_a_silence_has_lost_all_of_it() {
    let (indices, breaks, marks, listener) = events_of(ending_in_silence(0), 1000, 100);
    assert_eq!(indices, (0..500).collect::<Vec<_>>());
    assert_eq!(breaks, [Break::Dropped(500..501)]);
    assert!(marks.iter().all(|&mark| mark <= 1000), "{marks:?}");
    assert_eq!(listener.counts().lost_samples, 500);
    assert_eq!(listener.outer_gaps().after, 0..0);
}

#[test]
fn a_gap_at_the_end_of_a_feed_begins_where_its_silence_began() {
    let (indices, _, marks, listener) = events_of(ending_in_silence(500), 1000, 100);
    assert_eq!(indices, (0..500).collect::<Vec<_>>());
    assert!(!marks.is_empty());
    assert_eq!(listener.outer_gaps().after, 500..1000);
    assert_eq!(listener.counts().lost_samples, 0);
}

#[test]
fn a_restarted_clock_begins_a_run_and_is_not_late() {
    let mut sender = steady_sender((50, 1000));
    sender.restarts = true;
    let (indices, breaks, marks, listener) = events(&sender, 100);
    let counts = listener.counts();
    assert_eq!((counts.late_samples, counts.late_frames), (0, 0));
    assert_eq!(counts.samples, 500 + 500);
    let steps = breaks
        .iter()
        .filter(|why| matches!(why, Break::ClockStep { .. }));
    assert_eq!(steps.count(), 1);
    let last = marks
        .iter()
        .copied()
        .filter(|mark| *mark < indices[500])
        .max();
    assert!(last.is_some_and(|last| last > 1000), "{marks:?}");
    assert_eq!(indices[500..].len(), 500);
}
