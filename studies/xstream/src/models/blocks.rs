//! Many windows per item, as in the product: the same kernels serve both engines.

use std::ops::Range;

use isochrony::SigSeg;
use isochrony::flow::Frames;
use isochrony::segment::{Buffer, Sample, StreamId};

use super::common::{Leaks, RangeDigest};
use super::{Data, End, Flow, Query, Selected, Sync};
use crate::data::{CHANNELS, DEVIATION, HOP, LONG, LOUD, MEAN, SENSORS, STAT};
use crate::engine::{Emit, Graph, Node, Then};
use crate::kernels::{Detector, Peak, Spectrum, WINDOW, deviates, haar, mean_below, trim_peak};
use crate::memory::Pool;

/// Samples, or windows of them.
#[derive(Clone)]
pub enum Block {
    Samples(SigSeg),
    Frames(Frames),
}

impl Data for Block {
    fn extent(&self) -> (i64, i64, u64) {
        match self {
            Self::Samples(samples) => (samples.start(), samples.end(), samples.len()),
            Self::Frames(frames) => {
                let samples = frames.count() * frames.hop().min(frames.window());
                (frames.start(), frames.next_start(), samples)
            }
        }
    }
}

/// Gives kernels `bytes` of memory, filled by the function.
pub type Memory<'a> = dyn FnMut(usize, &mut dyn FnMut(&mut [u8])) -> Buffer + 'a;

fn rows<T: Sample>(
    frames: &Frames,
    width: usize,
    memory: &mut Memory<'_>,
    mut each: impl FnMut(usize, &mut [T]),
) -> Frames {
    let bytes = frames.count() as usize * width * T::DTYPE.size();
    let buffer = memory(bytes, &mut |memory| {
        let values: &mut [T] = bytemuck::cast_slice_mut(memory);
        values
            .chunks_exact_mut(width)
            .enumerate()
            .for_each(|(k, row)| each(k, row));
    });
    let stream: StreamId = frames.stream_id();
    frames
        .with_rows(buffer, T::DTYPE, width, stream)
        .expect("a row each")
}

fn row<T: Sample>(frames: &Frames, k: usize) -> &[T] {
    let values = frames.values::<T>().expect("of this type");
    &values[k * frames.stride()..][..frames.width()]
}

/// Scores of windows.
pub fn scores(spectrum: &Spectrum, frames: &Frames, memory: &mut Memory<'_>) -> Frames {
    rows::<f32>(frames, 1, memory, |k, out| {
        let window = row::<f32>(frames, k)
            .first_chunk::<WINDOW>()
            .expect("a window");
        out[0] = spectrum.score(window);
    })
}

/// Ranges detected by scores.
pub fn detect(detector: &mut Detector, frames: &Frames, mut each: impl FnMut(Range<i64>)) {
    let scores = frames.values::<f32>().expect("scores");
    for (k, &score) in scores.iter().enumerate() {
        if let Some(range) = detector.push(frames.window_start(k as u64), score) {
            each(range);
        }
    }
}

/// Wavelet coefficients of windows.
pub fn coefficients(scratch: &mut Vec<f64>, frames: &Frames, memory: &mut Memory<'_>) -> Frames {
    scratch.resize(frames.width(), 0.0);
    rows::<f64>(frames, frames.width(), memory, |k, out| {
        out.copy_from_slice(row::<f64>(frames, k));
        haar(out, scratch);
    })
}

/// Peak and rest of windows' coefficients.
pub fn peaks(frames: &Frames, memory: &mut Memory<'_>) -> Frames {
    rows::<f64>(frames, 2, memory, |k, out| {
        let found = trim_peak(row::<f64>(frames, k));
        out.copy_from_slice(&[found.peak, found.rest]);
    })
}

/// Each window's peak.
pub fn each_peak(frames: &Frames, mut each: impl FnMut(i64, Peak)) {
    for k in 0..frames.count() {
        let &[peak, rest] = row::<f64>(frames, k as usize) else {
            continue;
        };
        each(frames.window_start(k), Peak { peak, rest });
    }
}

/// Runs of windows of which something holds.
pub fn keep(frames: &Frames, passes: impl Fn(&[f32]) -> bool, mut give: impl FnMut(Frames)) {
    let count = frames.count() as usize;
    let mut from = 0;
    while from < count {
        if !passes(row(frames, from)) {
            from += 1;
            continue;
        }
        let end = (from..count)
            .find(|&k| !passes(row(frames, k)))
            .unwrap_or(count);
        give(frames.sub(from as u64..end as u64).expect("some windows"));
        from = end + 1;
    }
}

/// Ranges of loud windows.
pub fn loud(frames: &Frames, mut each: impl FnMut(Range<i64>)) {
    for k in 0..frames.count() {
        if deviates(row(frames, k as usize), LOUD) {
            let start = frames.window_start(k);
            each(start..start + frames.window() as i64);
        }
    }
}

struct Apply<F>(F);

impl<F: FnMut(Block, &mut dyn FnMut(Flow<Block>))> Node<Flow<Block>> for Apply<F> {
    fn process(
        &mut self,
        _: usize,
        message: &mut Flow<Block>,
        out: &mut dyn Emit<Flow<Block>>,
    ) -> Then {
        if let Flow::Data(block) = std::mem::replace(message, Flow::Nothing) {
            (self.0)(block, &mut |mut given| out.emit(0, &mut given));
        }
        Then::Taken
    }
}

fn apply(f: impl FnMut(Frames, &mut dyn FnMut(Flow<Block>)) + 'static) -> impl Node<Flow<Block>> {
    let mut f = f;
    Apply(move |block, give: &mut dyn FnMut(Flow<Block>)| {
        if let Block::Frames(frames) = block {
            f(frames, give);
        }
    })
}

fn rewindow(window: usize, hop: usize) -> impl Node<Flow<Block>> {
    let mut carry: Option<SigSeg> = None;
    Apply(move |block, give: &mut dyn FnMut(Flow<Block>)| {
        let Block::Samples(segment) = block else {
            return;
        };
        let all = match carry.take() {
            Some(mut before) => {
                before.append(segment).expect("adjacent");
                before
            }
            None => segment,
        };
        let Some(frames) = Frames::windows(&all, window as u64, hop as u64).expect("memory") else {
            carry = Some(all);
            return;
        };
        let next = frames.next_start();
        carry = (next < all.end()).then(|| all.subseg(next..all.end()).expect("within"));
        give(Flow::Data(Block::Frames(frames)));
    })
}

/// New rows, in memory of an own pool.
fn mapped(
    mut f: impl FnMut(&Frames, &mut Memory<'_>) -> Frames + 'static,
) -> impl Node<Flow<Block>> {
    let mut pool = Pool::default();
    apply(move |frames, give| {
        let rows = f(&frames, &mut |bytes, fill| pool.block(bytes, fill));
        give(Flow::Data(Block::Frames(rows)));
    })
}

/// DETECTAUDIO over blocks.
pub fn detect_audio(end: End) -> Query<Block> {
    let mut graph = Graph::new(CHANNELS);
    let windows = graph.add(1, rewindow(WINDOW, WINDOW));
    graph.feed(0, (windows, 0));
    let spectrum = Spectrum::default();
    let scored = graph.then(
        windows,
        mapped(move |frames, memory| scores(&spectrum, frames, memory)),
    );
    let mut detector = Detector::default();
    let cfar = graph.then(
        scored,
        apply(move |frames, give| {
            detect(&mut detector, &frames, |range| {
                give(Flow::Control {
                    range,
                    upto: i64::MIN,
                })
            });
            let upto = detector.upto();
            give(Flow::Control { range: 0..0, upto });
        }),
    );
    let sink = match end {
        End::Cut => graph.then(cfar, RangeDigest::default()),
        End::Sync => synced(&mut graph, cfar),
    };
    Query { graph, sink }
}

fn synced(graph: &mut Graph<Flow<Block>>, control: usize) -> usize {
    let sync = graph.add(CHANNELS as u16 + 1, Sync::default());
    let sink = graph.add(CHANNELS as u16, Selected::default());
    for channel in 0..CHANNELS {
        graph.feed(channel, (sync, channel));
        graph.connect((sync, channel), (sink, channel));
    }
    graph.connect((control, 0), (sync, CHANNELS));
    sink
}

/// PIPELINE over blocks.
pub fn pipeline() -> Query<Block> {
    let mut graph = Graph::new(SENSORS);
    let sink = graph.add(SENSORS as u16, BlockLeaks(Leaks::default()));
    for sensor in 0..SENSORS {
        let windows = graph.add(1, rewindow(LONG, HOP));
        graph.feed(sensor, (windows, 0));
        let mut scratch = Vec::new();
        let haar = graph.then(
            windows,
            mapped(move |frames, memory| coefficients(&mut scratch, frames, memory)),
        );
        let trim = graph.then(haar, mapped(peaks));
        graph.connect((trim, 0), (sink, sensor));
    }
    Query { graph, sink }
}

struct BlockLeaks(Leaks);

impl Node<Flow<Block>> for BlockLeaks {
    fn process(
        &mut self,
        port: usize,
        message: &mut Flow<Block>,
        _: &mut dyn Emit<Flow<Block>>,
    ) -> Then {
        if let Flow::Data(Block::Frames(frames)) = message {
            each_peak(frames, |start, peak| self.0.push(port, start, peak));
        }
        Then::Taken
    }

    fn result(&self) -> u64 {
        self.0.sum()
    }
}

struct CountWindows(u64);

impl Node<Flow<Block>> for CountWindows {
    fn process(
        &mut self,
        _: usize,
        message: &mut Flow<Block>,
        _: &mut dyn Emit<Flow<Block>>,
    ) -> Then {
        if let Flow::Data(Block::Frames(frames)) = message {
            self.0 += frames.count();
        }
        Then::Taken
    }

    fn result(&self) -> u64 {
        self.0
    }
}

/// STATFILTER.
pub fn stat_filter() -> Query<Block> {
    let mut graph = Graph::new(1);
    let windows = graph.add(1, rewindow(STAT, STAT));
    graph.feed(0, (windows, 0));
    let passing = |passes: fn(&[f32]) -> bool| {
        apply(move |frames, give| {
            keep(&frames, passes, |kept| {
                give(Flow::Data(Block::Frames(kept)))
            })
        })
    };
    let first = graph.then(windows, passing(|window| deviates(window, DEVIATION)));
    let second = graph.then(first, passing(|window| mean_below(window, MEAN)));
    let sink = graph.then(second, CountWindows(0));
    Query { graph, sink }
}

/// SILENCEFILTER, of one channel.
pub fn silence_filter() -> Query<Block> {
    let mut graph = Graph::new(1);
    let windows = graph.add(1, rewindow(STAT, STAT));
    graph.feed(0, (windows, 0));
    let control = graph.then(
        windows,
        apply(|frames, give| {
            loud(&frames, |range| {
                give(Flow::Control {
                    range,
                    upto: i64::MIN,
                })
            });
            let upto = frames.next_start();
            give(Flow::Control { range: 0..0, upto });
        }),
    );
    let sync = graph.add(2, Sync::of(1));
    let sink = graph.add(1, Selected::default());
    graph.feed(0, (sync, 0));
    graph.connect((control, 0), (sync, 1));
    graph.connect((sync, 0), (sink, 0));
    Query { graph, sink }
}
