//! The model: one cell per index.

use std::collections::BTreeSet;
use std::ops::Range;

use isochrony_store::Overlap;

pub(crate) const GRID: i64 = 1_000_000;
/// Samples since 1970.
pub(crate) const T0: i64 = 1_267_401_600_000;

#[derive(Debug, Clone, Copy)]
struct Cell {
    value: Option<i16>,
    /// Samples since 1970.
    time: i64,
}

#[derive(Debug, Clone)]
struct PlainRun {
    range: Range<i64>,
    late: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Plain {
    pub(crate) name: String,
    pub(crate) sealed: bool,
    cells: Vec<Cell>,
    runs: Vec<PlainRun>,
    pub(crate) live_next: i64,
    /// Time after the late run at the end, if any.
    late_next: i64,
    /// The live run has no stamp.
    stated: bool,
}

impl Plain {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            sealed: false,
            cells: Vec::new(),
            runs: vec![PlainRun {
                range: 0..0,
                late: false,
            }],
            live_next: T0,
            late_next: 0,
            stated: true,
        }
    }

    pub(crate) fn end(&self) -> i64 {
        self.cells.len() as i64
    }

    fn tail_is_late(&self) -> bool {
        self.runs.last().is_some_and(|run| run.late)
    }

    fn begin_run(&mut self, late: bool) {
        let end = self.end();
        self.runs.push(PlainRun {
            range: end..end,
            late,
        });
    }

    fn push(&mut self, values: impl Iterator<Item = Option<i16>>, mut time: i64) -> i64 {
        for value in values {
            self.cells.push(Cell { value, time });
            time += 1;
        }
        let end = self.end();
        if let Some(run) = self.runs.last_mut() {
            run.range.end = end;
        }
        time
    }

    fn push_live(&mut self, samples: &[i16], time: i64) {
        self.live_next = self.push(samples.iter().copied().map(Some), time);
        self.stated = false;
    }

    pub(crate) fn append(&mut self, samples: &[i16]) {
        if samples.is_empty() {
            return;
        }
        if self.tail_is_late() {
            self.begin_run(false);
        }
        self.push_live(samples, self.live_next);
    }

    pub(crate) fn append_at(&mut self, samples: &[i16], time: i64) {
        if samples.is_empty() {
            return;
        }
        let delta = time - self.live_next;
        if delta < 0 && self.stated && !self.tail_is_late() {
            // The first stamp corrects the stated start, and moves the gap before it.
            if let Some(run) = self.runs.last() {
                let cells = &mut self.cells[run.range.start as usize..];
                cells.iter_mut().for_each(|cell| cell.time += delta);
            }
        }
        if self.tail_is_late() || (delta < 0 && !self.stated) {
            self.begin_run(false);
        } else if delta > 0 {
            self.push((0..delta).map(|_| None), self.live_next);
        }
        self.push_live(samples, time);
    }

    pub(crate) fn gap(&mut self, length: i64) {
        if self.tail_is_late() {
            self.begin_run(false);
            self.stated = true;
        }
        self.live_next = self.push((0..length).map(|_| None), self.live_next);
    }

    pub(crate) fn backfill(&mut self, samples: &[i16], time: i64) -> i64 {
        let n = samples.len() as i64;
        let live = self.runs.iter().rposition(|run| !run.late);
        for id in 0..self.runs.len() {
            for gap in holes(&self.cells, &self.runs[id].range) {
                let first = self.cells[gap.start as usize].time;
                let after = self.cells[gap.end as usize - 1].time + 1;
                if first <= time && time + n <= after {
                    let index = gap.start + (time - first);
                    self.write(index, samples);
                    self.stated &= live != Some(id);
                    return index;
                }
            }
        }
        let index = self.end();
        if time >= self.live_next {
            self.append_at(samples, time);
            return self.end() - n;
        }
        if !(self.tail_is_late() && self.late_next == time) {
            self.begin_run(true);
        }
        self.late_next = self.push(samples.iter().copied().map(Some), time);
        index
    }

    pub(crate) fn mark(&mut self, range: Range<i64>) {
        for cell in &mut self.cells[range.start as usize..range.end as usize] {
            cell.value = None;
        }
    }

    pub(crate) fn write(&mut self, start: i64, samples: &[i16]) {
        for (cell, &value) in self.cells[start as usize..].iter_mut().zip(samples) {
            cell.value = Some(value);
        }
    }

    pub(crate) fn valid_until(&self, start: i64, end: i64) -> i64 {
        let part = &self.cells[start as usize..end.min(self.end()) as usize];
        start + part.iter().take_while(|cell| cell.value.is_some()).count() as i64
    }

    pub(crate) fn sample_count(&self) -> i64 {
        self.cells
            .iter()
            .filter(|cell| cell.value.is_some())
            .count() as i64
    }

    pub(crate) fn gaps(&self) -> Vec<Range<i64>> {
        holes(&self.cells, &(0..self.end()))
    }

    pub(crate) fn run_ranges(&self) -> Vec<Range<i64>> {
        self.runs.iter().map(|run| run.range.clone()).collect()
    }

    pub(crate) fn filled(&self, fill: i16) -> Vec<i16> {
        self.cells
            .iter()
            .map(|cell| cell.value.unwrap_or(fill))
            .collect()
    }

    pub(crate) fn stretches(&self) -> Vec<Range<i64>> {
        let mut out = Vec::new();
        for run in &self.runs {
            let mut at = run.range.start;
            let end = run.range.end;
            for gap in holes(&self.cells, &run.range)
                .into_iter()
                .chain(std::iter::once(end..end))
            {
                if at < gap.start {
                    out.push(at..gap.start);
                }
                at = gap.end;
            }
        }
        out
    }

    pub(crate) fn contiguous(&self, range: &Range<i64>) -> bool {
        range.is_empty()
            || self
                .stretches()
                .iter()
                .any(|s| s.start <= range.start && range.end <= s.end)
    }

    pub(crate) fn sample_times(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        let cells = self.cells.iter().enumerate();
        cells
            .filter(|(_, cell)| cell.value.is_some())
            .map(|(index, cell)| (index as i64, cell.time))
    }

    pub(crate) fn time_bounds(&self) -> (i64, i64) {
        let times = || self.sample_times().map(|(_, time)| time);
        (times().min().unwrap_or(T0), times().max().unwrap_or(T0))
    }

    pub(crate) fn by_time(&self, span: &Range<i64>, overlap: Overlap) -> Vec<i16> {
        let samples = |run: &PlainRun| -> Vec<(i64, i16)> {
            self.cells[run.range.start as usize..run.range.end as usize]
                .iter()
                .filter_map(|cell| Some((cell.time, cell.value?)))
                .collect()
        };
        if overlap == Overlap::All {
            let mut runs: Vec<(i64, usize, Vec<i16>)> = Vec::new();
            for (id, run) in self.runs.iter().enumerate() {
                // By its first index in the span, valid or not.
                let cells = &self.cells[run.range.start as usize..run.range.end as usize];
                let first = cells.iter().find(|cell| span.contains(&cell.time));
                let inside = samples(run)
                    .into_iter()
                    .filter(|(time, _)| span.contains(time));
                if let Some(first) = first {
                    runs.push((first.time, id, inside.map(|(_, value)| value).collect()));
                }
            }
            runs.sort_by_key(|(time, id, _)| (*time, *id));
            return runs.into_iter().flat_map(|(_, _, values)| values).collect();
        }
        let mut preferred: Vec<&PlainRun> = self.runs.iter().collect();
        if overlap == Overlap::Last {
            preferred.reverse();
        }
        let mut taken = BTreeSet::new();
        let mut out: Vec<(i64, i16)> = Vec::new();
        for run in preferred {
            let of_run = samples(run);
            out.extend(
                of_run
                    .iter()
                    .filter(|(time, _)| span.contains(time) && !taken.contains(time)),
            );
            taken.extend(of_run.iter().map(|(time, _)| *time));
        }
        out.sort_by_key(|(time, _)| *time);
        out.into_iter().map(|(_, value)| value).collect()
    }
}

/// Maximal ranges of cells without values.
fn holes(cells: &[Cell], range: &Range<i64>) -> Vec<Range<i64>> {
    let mut out: Vec<Range<i64>> = Vec::new();
    for index in range.clone() {
        if cells[index as usize].value.is_none() {
            match out.last_mut() {
                Some(last) if last.end == index => last.end += 1,
                _ => out.push(index..index + 1),
            }
        }
    }
    out
}
