//! [`GroupAggregates`]: what is aggregated of each group, in parts that several threads may update at the same time.
//!
//! ```text
//!  rows ---> one thread finds the group of each row ---> part 0: groups 0, 3, 6 ...   replica 0
//!                                                        part 1: groups 1, 4, 7 ...   replica 1
//!                                                        part 2: groups 2, 5, 8 ...   replica 2
//! ```
//!
//! A group's values are added by one thread at a time, in the order of its rows. The call waits for all of them, so
//! nothing shows in results: neither how many parts there are, nor which thread computes which.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;

use crate::engine::{DividedWork, PartExecutor};
use crate::operators::rows::{Aggregate, AggregateInput, ColumnValues};

pub(super) type SharedExecutor = Option<Arc<dyn PartExecutor>>;

pub(super) struct GroupAggregates {
    /// By aggregate: its column; None if it counts rows.
    columns: Vec<Option<usize>>,
    parts: Arc<[Mutex<GroupPart>]>,
    value_ns: f64,
    result_ns: f64,
    /// None of the groups has a value.
    is_empty: bool,
}

/// Group `g` of all is group `g / parts` of part `g % parts`.
struct GroupPart {
    aggregates: Vec<Aggregate>,
    /// Rows, and their groups here.
    pairs: Vec<(usize, usize)>,
    groups: usize,
    /// Groups whose results are wanted, and these.
    finished: Vec<usize>,
    results: Vec<ColumnValues>,
}

fn lock(part: &Mutex<GroupPart>) -> MutexGuard<'_, GroupPart> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GroupPart {
    fn new(aggregates: Vec<Aggregate>) -> Self {
        Self {
            aggregates,
            pairs: Vec::new(),
            groups: 0,
            finished: Vec::new(),
            results: Vec::new(),
        }
    }

    fn add(&mut self, inputs: &[Option<Arc<AggregateInput>>]) {
        for (aggregate, input) in self.aggregates.iter_mut().zip(inputs) {
            aggregate.add(input.as_deref(), self.pairs.iter().copied(), self.groups);
        }
        self.pairs.clear();
    }

    fn finish(&mut self) {
        let finished = &self.finished;
        let aggregates = self.aggregates.iter_mut();
        self.results = aggregates.map(|one| one.finish_groups(finished)).collect();
        self.finished.clear();
    }
}

struct AdditionWork {
    parts: Arc<[Mutex<GroupPart>]>,
    inputs: Vec<Option<Arc<AggregateInput>>>,
}

impl DividedWork for AdditionWork {
    fn compute(&self, part: usize) {
        lock(&self.parts[part]).add(&self.inputs);
    }
}

struct ResultWork {
    parts: Arc<[Mutex<GroupPart>]>,
}

impl DividedWork for ResultWork {
    fn compute(&self, part: usize) {
        lock(&self.parts[part]).finish();
    }
}

/// In several threads if it takes long.
fn compute(work: impl DividedWork + 'static, parts: usize, ns: f64, helpers: &SharedExecutor) {
    match helpers {
        Some(helpers) if parts > 1 && ns >= helpers.least_ns() => {
            helpers.compute(Arc::new(work), parts);
        }
        _ => (0..parts).for_each(|part| work.compute(part)),
    }
}

impl GroupAggregates {
    pub(super) fn new(aggregates: Vec<(Option<usize>, Aggregate)>) -> Self {
        let (columns, aggregates): (Vec<_>, Vec<_>) = aggregates.into_iter().unzip();
        let value_ns = aggregates.iter().map(Aggregate::value_ns).sum();
        let result_ns = aggregates.iter().map(Aggregate::result_ns).sum();
        Self {
            columns,
            parts: [Mutex::new(GroupPart::new(aggregates))].into(),
            value_ns,
            result_ns,
            is_empty: true,
        }
    }

    /// Expected time of adding a row to a group.
    pub(super) fn value_ns(&self) -> f64 {
        self.value_ns
    }

    /// As many parts as threads, if no group has a value yet.
    fn divide(&mut self, helpers: &SharedExecutor) {
        let threads = helpers.as_ref().map_or(1, |helpers| helpers.threads());
        if std::mem::take(&mut self.is_empty) && threads != self.parts.len() {
            let empty = |_| {
                let first = lock(&self.parts[0]);
                let aggregates = first.aggregates.iter().map(Aggregate::empty);
                Mutex::new(GroupPart::new(aggregates.collect()))
            };
            self.parts = (0..threads).map(empty).collect();
        }
    }

    /// Of columns that several aggregates take, one.
    fn inputs(&self, batch: &RecordBatch) -> Vec<Option<Arc<AggregateInput>>> {
        let first = lock(&self.parts[0]);
        let mut inputs: Vec<Option<Arc<AggregateInput>>> = Vec::with_capacity(self.columns.len());
        for (nth, (column, aggregate)) in self.columns.iter().zip(&first.aggregates).enumerate() {
            let earlier = self.columns[..nth].iter().position(|other| other == column);
            let input = match (column, earlier) {
                (None, _) => None,
                (Some(_), Some(earlier)) => inputs[earlier].clone(),
                (&Some(at), None) => {
                    let values = AggregateInput::new(batch.column(at).as_ref(), aggregate.dtype());
                    Some(Arc::new(values))
                }
            };
            inputs.push(input);
        }
        inputs
    }

    /// `pairs`: rows and the groups that get their values; `groups`: number so far.
    pub(super) fn add(
        &mut self,
        batch: &RecordBatch,
        pairs: &[(usize, usize)],
        groups: usize,
        helpers: &SharedExecutor,
    ) {
        self.divide(helpers);
        let count = self.parts.len();
        let mut parts: Vec<_> = self.parts.iter().map(lock).collect();
        for (nth, part) in parts.iter_mut().enumerate() {
            part.groups = groups.saturating_sub(nth).div_ceil(count);
        }
        match &mut parts[..] {
            [all] => all.pairs.extend_from_slice(pairs),
            parts => {
                for &(row, group) in pairs {
                    parts[group % count].pairs.push((row, group / count));
                }
            }
        }
        drop(parts);
        let addition = AdditionWork {
            parts: Arc::clone(&self.parts),
            inputs: self.inputs(batch),
        };
        let ns = self.value_ns * pairs.len() as f64;
        compute(addition, count, ns, helpers);
    }

    /// Results of these groups, by aggregate; they become empty.
    pub(super) fn finish(
        &mut self,
        groups: &[usize],
        helpers: &SharedExecutor,
    ) -> Vec<ColumnValues> {
        let count = self.parts.len();
        let mut parts: Vec<_> = self.parts.iter().map(lock).collect();
        for &group in groups {
            parts[group % count].finished.push(group / count);
        }
        drop(parts);
        let finish = ResultWork {
            parts: Arc::clone(&self.parts),
        };
        let ns = self.result_ns * groups.len() as f64;
        compute(finish, count, ns, helpers);
        let results = |part| std::mem::take(&mut lock(part).results);
        let mut by_part: Vec<Vec<ColumnValues>> = self.parts.iter().map(results).collect();
        if count == 1 {
            return by_part.pop().unwrap_or_default();
        }
        let aggregates = 0..self.columns.len();
        aggregates
            .map(|nth| in_order(groups, &by_part, nth))
            .collect()
    }

    /// Bytes of all states.
    pub(super) fn bytes(&self) -> usize {
        let bytes = |part| {
            lock(part)
                .aggregates
                .iter()
                .map(Aggregate::bytes)
                .sum::<usize>()
        };
        self.parts.iter().map(bytes).sum()
    }

    /// In tasks, whose parts are those of the recording.
    pub(super) fn undivided<T>(&mut self, change: impl FnOnce(&mut [Aggregate]) -> T) -> T {
        self.is_empty = false;
        change(&mut lock(&self.parts[0]).aggregates)
    }
}

/// Results of an aggregate. Each part has its groups in this order.
fn in_order(groups: &[usize], by_part: &[Vec<ColumnValues>], nth: usize) -> ColumnValues {
    let mut taken = vec![0; by_part.len()];
    let mut all = by_part[0][nth].empty();
    for &group in groups {
        let part = group % by_part.len();
        all.push(by_part[part][nth].get(taken[part]));
        taken[part] += 1;
    }
    all
}
