//! Windows of `<time, value>` tuples, passed by reference.

use super::common::{Cfar, Leaks, Null, RangeDigest};
use super::tuples::Rows;
use super::{End, Flow, Join, Query};
use crate::data::{CHANNELS, HOP, LONG, SENSORS};
use crate::engine::{Emit, Graph, Node, Then};
use crate::kernels::{Spectrum, WINDOW, haar, trim_peak};

/// Windows of rows, not copied.
struct Rewindow<T> {
    window: i64,
    hop: i64,
    carry: Option<Rows<T>>,
}

impl<T: Copy> Node<Flow<Rows<T>>> for Rewindow<T> {
    fn process(
        &mut self,
        _: usize,
        message: &mut Flow<Rows<T>>,
        out: &mut dyn Emit<Flow<Rows<T>>>,
    ) -> Then {
        let Flow::Data(rows) = std::mem::replace(message, Flow::Nothing) else {
            return Then::Taken;
        };
        let mut all = match self.carry.take() {
            Some(mut carry) => {
                carry.append(rows);
                carry
            }
            None => rows,
        };
        let mut at = all.start;
        while at + self.window <= all.end() {
            out.emit(0, &mut Flow::Data(all.cut(at, at + self.window)));
            at += self.hop;
        }
        if at > all.start && at < all.end() {
            all = all.cut(at, all.end());
        }
        self.carry = (at < all.end()).then_some(all);
        Then::Taken
    }
}

/// The spectrum and score of a window's column, copied from its rows.
#[derive(Default)]
struct Score(Spectrum);

impl Node<Flow<Rows<f32>>> for Score {
    fn process(
        &mut self,
        _: usize,
        message: &mut Flow<Rows<f32>>,
        _: &mut dyn Emit<Flow<Rows<f32>>>,
    ) -> Then {
        let Flow::Data(rows) = &*message else {
            return Then::Taken;
        };
        let mut window = [0f32; WINDOW];
        for (place, row) in window.iter_mut().zip(rows.iter()) {
            *place = row.value;
        }
        let (start, score) = (rows.start, self.0.score(&window));
        *message = Flow::Score { start, score };
        Then::Tail
    }
}

/// Haar's wavelet over rows, or over a column copied from them and back.
struct Haar {
    columns: bool,
    column: Vec<f64>,
    scratch: Vec<f64>,
}

impl Node<Flow<Rows<f64>>> for Haar {
    fn process(
        &mut self,
        _: usize,
        message: &mut Flow<Rows<f64>>,
        _: &mut dyn Emit<Flow<Rows<f64>>>,
    ) -> Then {
        let Flow::Data(rows) = message else {
            return Then::Taken;
        };
        let mut own = Vec::with_capacity(rows.len);
        for (rows, part) in &rows.pieces {
            own.extend_from_slice(&rows[part.clone()]);
        }
        if self.columns {
            self.column.clear();
            self.column.extend(own.iter().map(|row| row.value));
            haar(&mut self.column, &mut self.scratch);
            for (row, &value) in own.iter_mut().zip(&self.column) {
                row.value = value;
            }
        } else {
            haar(&mut own, &mut self.scratch);
        }
        *rows = Rows::new(rows.start, own);
        Then::Tail
    }
}

struct Trim;

impl Node<Flow<Rows<f64>>> for Trim {
    fn process(
        &mut self,
        _: usize,
        message: &mut Flow<Rows<f64>>,
        _: &mut dyn Emit<Flow<Rows<f64>>>,
    ) -> Then {
        let Flow::Data(rows) = &*message else {
            return Then::Taken;
        };
        let Some((values, _)) = rows.pieces.first() else {
            return Then::Taken;
        };
        let (start, peak) = (rows.start, trim_peak(values));
        *message = Flow::Peak { start, peak };
        Then::Tail
    }
}

/// DETECTAUDIO over rows.
pub fn detect_audio(end: End) -> Query<Rows<f32>> {
    let mut graph = Graph::new(CHANNELS);
    let (window, hop) = (WINDOW as i64, WINDOW as i64);
    let carry = None;
    let windows = graph.add(1, Rewindow { window, hop, carry });
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
            let join = graph.add(CHANNELS as u16 + 1, Join::default());
            (0..CHANNELS).for_each(|channel| graph.feed(channel, (join, channel)));
            graph.connect((cfar, 0), (join, CHANNELS));
            graph.then(join, super::join::JoinedDigest::default())
        }
    };
    Query { graph, sink }
}

/// PIPELINE over rows, striding or with columns.
pub fn pipeline(columns: bool) -> Query<Rows<f64>> {
    let mut graph = Graph::new(SENSORS);
    let leaks = graph.add(SENSORS as u16, Leaks::default());
    for sensor in 0..SENSORS {
        let (window, hop, carry) = (LONG as i64, HOP as i64, None);
        let windows = graph.add(1, Rewindow { window, hop, carry });
        graph.feed(sensor, (windows, 0));
        let haar = Haar {
            columns,
            column: Vec::new(),
            scratch: vec![0.0; LONG],
        };
        let haar = graph.then(windows, haar);
        let trim = graph.then(haar, Trim);
        graph.connect((trim, 0), (leaks, sensor));
    }
    Query { graph, sink: leaks }
}
