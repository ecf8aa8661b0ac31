//! Each sample a tuple: every operator collects its own windows.

use std::collections::VecDeque;

use super::common::{Cfar, Leaks, Null, RangeDigest};
use super::tuples::Row;
use super::{Data, End, Flow, Join, Query};
use crate::data::{CHANNELS, HOP, LONG, SENSORS};
use crate::engine::{Emit, Graph, Node, Then};
use crate::kernels::{Spectrum, WINDOW, haar, trim_peak};

impl<T: Copy> Data for Row<T> {
    fn extent(&self) -> (i64, i64, u64) {
        (self.time, self.time + 1, 1)
    }
}

struct Score {
    spectrum: Spectrum,
    window: [f32; WINDOW],
    filled: usize,
}

impl Node<Flow<Row<f32>>> for Score {
    fn process(
        &mut self,
        _: usize,
        message: &mut Flow<Row<f32>>,
        _: &mut dyn Emit<Flow<Row<f32>>>,
    ) -> Then {
        let Flow::Data(row) = *message else {
            return Then::Taken;
        };
        self.window[self.filled] = row.value;
        self.filled += 1;
        if self.filled < WINDOW {
            return Then::Taken;
        }
        self.filled = 0;
        let (start, score) = (
            row.time + 1 - WINDOW as i64,
            self.spectrum.score(&self.window),
        );
        *message = Flow::Score { start, score };
        Then::Tail
    }
}

#[derive(Default)]
struct Rewindow {
    window: VecDeque<Row<f64>>,
}

impl Node<Flow<Row<f64>>> for Rewindow {
    fn process(
        &mut self,
        _: usize,
        message: &mut Flow<Row<f64>>,
        out: &mut dyn Emit<Flow<Row<f64>>>,
    ) -> Then {
        let Flow::Data(row) = *message else {
            return Then::Taken;
        };
        self.window.push_back(row);
        if self.window.len() == LONG {
            for &row in &self.window {
                out.emit(0, &mut Flow::Data(row));
            }
            self.window.drain(..HOP);
        }
        Then::Taken
    }
}

/// Haar's wavelet of a window, sample by sample.
struct Haar {
    window: Vec<Row<f64>>,
    scratch: Vec<f64>,
}

impl Node<Flow<Row<f64>>> for Haar {
    fn process(
        &mut self,
        _: usize,
        message: &mut Flow<Row<f64>>,
        out: &mut dyn Emit<Flow<Row<f64>>>,
    ) -> Then {
        let Flow::Data(row) = *message else {
            return Then::Taken;
        };
        self.window.push(row);
        if self.window.len() == LONG {
            haar(&mut self.window, &mut self.scratch);
            for &row in &self.window {
                out.emit(0, &mut Flow::Data(row));
            }
            self.window.clear();
        }
        Then::Taken
    }
}

struct Trim {
    window: Vec<Row<f64>>,
}

impl Node<Flow<Row<f64>>> for Trim {
    fn process(
        &mut self,
        _: usize,
        message: &mut Flow<Row<f64>>,
        _: &mut dyn Emit<Flow<Row<f64>>>,
    ) -> Then {
        let Flow::Data(row) = *message else {
            return Then::Taken;
        };
        self.window.push(row);
        if self.window.len() < LONG {
            return Then::Taken;
        }
        let (start, peak) = (self.window[0].time, trim_peak(&self.window));
        self.window.clear();
        *message = Flow::Peak { start, peak };
        Then::Tail
    }
}

/// DETECTAUDIO, sample by sample.
pub fn detect_audio(end: End) -> Query<Row<f32>> {
    let mut graph = Graph::new(CHANNELS);
    let score = Score {
        spectrum: Spectrum::default(),
        window: [0.0; WINDOW],
        filled: 0,
    };
    let scores = graph.add(1, score);
    graph.feed(0, (scores, 0));
    let cfar = graph.then(scores, Cfar::default());
    let sink = match end {
        End::Cut => {
            let null = graph.add(CHANNELS as u16, Null);
            (0..CHANNELS).for_each(|channel| graph.feed(channel, (null, channel)));
            graph.then(cfar, RangeDigest::default())
        }
        End::Sync => {
            let join = graph.add(CHANNELS as u16 + 1, Join::default());
            (0..CHANNELS).for_each(|channel| graph.feed(channel, (join, channel)));
            graph.connect((cfar, 0), (join, CHANNELS));
            graph.then(join, super::join::JoinedDigest::default())
        }
    };
    Query { graph, sink }
}

/// PIPELINE, sample by sample.
pub fn pipeline() -> Query<Row<f64>> {
    let mut graph = Graph::new(SENSORS);
    let leaks = graph.add(SENSORS as u16, Leaks::default());
    for sensor in 0..SENSORS {
        let windows = graph.add(1, Rewindow::default());
        graph.feed(sensor, (windows, 0));
        let haar = Haar {
            window: Vec::new(),
            scratch: vec![0.0; LONG],
        };
        let haar = graph.then(windows, haar);
        let trim = graph.then(haar, Trim { window: Vec::new() });
        graph.connect((trim, 0), (leaks, sensor));
    }
    Query { graph, sink: leaks }
}
