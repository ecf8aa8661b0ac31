//! Windows as signal segments, one an item.

use isochrony::SigSeg;
use isochrony::segment::Sample;

use super::common::{Cfar, Leaks, Null, RangeDigest};
use super::{End, Flow, Query, Selected, Sync};
use crate::data::{CHANNELS, HOP, LONG, SENSORS};
use crate::engine::{Emit, Graph, Node, Then};
use crate::kernels::{Spectrum, WINDOW, haar, trim_peak};
use crate::memory::Pool;

/// Windows of samples, not copied.
struct Rewindow {
    window: i64,
    hop: i64,
    carry: Option<SigSeg>,
}

impl Node<Flow<SigSeg>> for Rewindow {
    fn process(
        &mut self,
        _: usize,
        message: &mut Flow<SigSeg>,
        out: &mut dyn Emit<Flow<SigSeg>>,
    ) -> Then {
        let Flow::Data(segment) = std::mem::replace(message, Flow::Nothing) else {
            return Then::Taken;
        };
        let mut all = match self.carry.take() {
            Some(mut carry) => {
                carry.append(segment).expect("adjacent");
                carry
            }
            None => segment,
        };
        let mut at = all.start();
        while at + self.window <= all.end() {
            let window = all.subseg(at..at + self.window).expect("within");
            out.emit(0, &mut Flow::Data(window));
            at += self.hop;
        }
        if at > all.start() && at < all.end() {
            all = all.subseg(at..all.end()).expect("within");
        }
        self.carry = (at < all.end()).then_some(all);
        Then::Taken
    }
}

#[derive(Default)]
struct Score(Spectrum);

impl Node<Flow<SigSeg>> for Score {
    fn process(
        &mut self,
        _: usize,
        message: &mut Flow<SigSeg>,
        _: &mut dyn Emit<Flow<SigSeg>>,
    ) -> Then {
        let Flow::Data(segment) = &*message else {
            return Then::Taken;
        };
        let mut window = [0f32; WINDOW];
        segment.copy_to(&mut window).expect("a window");
        let (start, score) = (segment.start(), self.0.score(&window));
        *message = Flow::Score { start, score };
        Then::Tail
    }
}

#[derive(Default)]
struct Haar {
    pool: Pool,
    scratch: Vec<f64>,
}

impl Node<Flow<SigSeg>> for Haar {
    fn process(
        &mut self,
        _: usize,
        message: &mut Flow<SigSeg>,
        _: &mut dyn Emit<Flow<SigSeg>>,
    ) -> Then {
        let Flow::Data(segment) = message else {
            return Then::Taken;
        };
        let scratch = &mut self.scratch;
        let buffer = self.pool.block(LONG * f64::DTYPE.size(), |memory| {
            let column: &mut [f64] = bytemuck::cast_slice_mut(memory);
            segment.copy_to(column).expect("a window");
            haar(column, scratch);
        });
        *segment = SigSeg::new(buffer, segment.start(), f64::DTYPE, segment.stream_id())
            .expect("whole values");
        Then::Tail
    }
}

struct Trim;

impl Node<Flow<SigSeg>> for Trim {
    fn process(
        &mut self,
        _: usize,
        message: &mut Flow<SigSeg>,
        _: &mut dyn Emit<Flow<SigSeg>>,
    ) -> Then {
        let Flow::Data(segment) = &*message else {
            return Then::Taken;
        };
        let values = segment.as_contiguous::<f64>().expect("one block");
        let (start, peak) = (segment.start(), trim_peak(values));
        *message = Flow::Peak { start, peak };
        Then::Tail
    }
}

/// DETECTAUDIO over segments.
pub fn detect_audio(end: End) -> Query<SigSeg> {
    let mut graph = Graph::new(CHANNELS);
    let (window, hop) = (WINDOW as i64, WINDOW as i64);
    let windows = graph.add(
        1,
        Rewindow {
            window,
            hop,
            carry: None,
        },
    );
    graph.feed(0, (windows, 0));
    let scores = graph.then(windows, Score::default());
    let cfar = graph.then(scores, Cfar::default());
    let sink = match end {
        End::Cut => {
            let null = graph.add(CHANNELS as u16, Null);
            (0..CHANNELS).for_each(|channel| graph.feed(channel, (null, channel)));
            graph.then(cfar, RangeDigest::default())
        }
        End::Sync => {
            let sync = graph.add(CHANNELS as u16 + 1, Sync::default());
            let sink = graph.add(CHANNELS as u16, Selected::default());
            for channel in 0..CHANNELS {
                graph.feed(channel, (sync, channel));
                graph.connect((sync, channel), (sink, channel));
            }
            graph.connect((cfar, 0), (sync, CHANNELS));
            sink
        }
    };
    Query { graph, sink }
}

/// PIPELINE over segments.
pub fn pipeline() -> Query<SigSeg> {
    let mut graph = Graph::new(SENSORS);
    let leaks = graph.add(SENSORS as u16, Leaks::default());
    for sensor in 0..SENSORS {
        let (window, hop) = (LONG as i64, HOP as i64);
        let windows = graph.add(
            1,
            Rewindow {
                window,
                hop,
                carry: None,
            },
        );
        graph.feed(sensor, (windows, 0));
        let haar = Haar {
            scratch: vec![0.0; LONG],
            ..Haar::default()
        };
        let haar = graph.then(windows, haar);
        let trim = graph.then(haar, Trim);
        graph.connect((trim, 0), (leaks, sensor));
    }
    Query { graph, sink: leaks }
}
