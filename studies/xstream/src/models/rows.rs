//! Windows of `<time, value>` tuples, passed by reference.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::common::{Cfar, Leaks, Null, RangeDigest};
use super::{Data, End, Flow, Join, Query};
use crate::data::{CHANNELS, HOP, LONG, SENSORS};
use crate::engine::{Emit, Graph, Node, Then};
use crate::kernels::{Cell, Spectrum, WINDOW, haar, trim_peak};

/// A time stamp and a value: 12 bytes for a 32-bit sample, 16 for one of 64 bits.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, packed(4))]
pub struct Row<T> {
    pub time: i64,
    pub value: T,
}

impl Cell for Row<f64> {
    fn get(self) -> f64 {
        self.value
    }

    fn set(&mut self, value: f64) {
        self.value = value;
    }
}

/// A piece of shared rows.
type Piece<T> = (Arc<Vec<Row<T>>>, Range<usize>);

/// Consecutive rows, in pieces.
#[derive(Clone)]
pub struct Rows<T> {
    start: i64,
    len: usize,
    pieces: SmallVec<[Piece<T>; 1]>,
}

impl<T: Copy> Rows<T> {
    pub fn new(start: i64, rows: Vec<Row<T>>) -> Self {
        let len = rows.len();
        Self {
            start,
            len,
            pieces: SmallVec::from_iter([(Arc::new(rows), 0..len)]),
        }
    }

    /// A source's samples with their time stamps.
    pub fn stamped(start: i64, samples: &[T]) -> Self {
        let rows = samples.iter().enumerate().map(|(k, &value)| Row {
            time: start + k as i64,
            value,
        });
        Self::new(start, rows.collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = Row<T>> + '_ {
        self.pieces
            .iter()
            .flat_map(|(rows, part)| rows[part.clone()].iter().copied())
    }

    fn end(&self) -> i64 {
        self.start + self.len as i64
    }

    fn append(&mut self, next: Self) {
        self.len += next.len;
        self.pieces.extend(next.pieces);
    }

    fn cut(&self, start: i64, end: i64) -> Self {
        let mut skip = (start - self.start) as usize;
        let mut left = (end - start) as usize;
        let mut pieces = SmallVec::new();
        for (rows, part) in &self.pieces {
            if left == 0 {
                break;
            }
            if skip >= part.len() {
                skip -= part.len();
                continue;
            }
            let take = left.min(part.len() - skip);
            pieces.push((rows.clone(), part.start + skip..part.start + skip + take));
            (skip, left) = (0, left - take);
        }
        Self {
            start,
            len: (end - start) as usize,
            pieces,
        }
    }
}

impl<T: Copy> Data for Rows<T> {
    fn extent(&self) -> (i64, i64, u64) {
        (self.start, self.end(), self.len as u64)
    }
}

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

/// The spectrum of a window, of a column copied from its rows, and its score.
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

/// Haar's wavelet over rows as they are, or over a column copied from them and back.
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
        // What the wavelet gave is one piece.
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
