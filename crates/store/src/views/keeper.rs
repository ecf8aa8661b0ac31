//! Keeps the views of a store's signals in step with their samples.
//!
//! The writer's side of the cache: it hears of every sample that is written and of every commit, and sees to it that
//! rows follow. It stands beside the engine, uses only what the engine offers everyone, and can fail without harm:
//! what it does not know is computed from samples.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::files::Files;
use super::record::{Record, add};
use super::{Builder, MOMENTS, Rows, RowsMut, Samples, Source, bucket, rows_stored};
use crate::StoreError;
use crate::backend::Backend;
use crate::media::Media;
use crate::op::{Op, SignalId};
use crate::state::SignalState;

/// Readers in other processes learn how far rows reach at most this much later.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);
/// Rows of so many bytes of samples are synced at a time.
const SYNC_EVERY: usize = 1 << 30;

/// Samples of a signal as an open store shows them.
pub(crate) struct StoredSamples<'a> {
    backend: &'a Backend,
    state: &'a SignalState,
    shard: i64,
}

impl<'a> StoredSamples<'a> {
    pub(crate) fn new(backend: &'a Backend, state: &'a SignalState) -> Result<Self, StoreError> {
        let shard = backend.shard_samples(state.id)?.max(1);
        Ok(Self { backend, state, shard })
    }
}

impl Samples for StoredSamples<'_> {
    fn visit(
        &self,
        range: Range<i64>,
        piece: &mut dyn FnMut(i64, &[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let (mut at, end) = (range.start.max(0), range.end.min(self.state.end));
        while at < end {
            let stop = match self.state.gaps.first_within(at..end) {
                Some(gap) if gap.start <= at => {
                    at = gap.end();
                    continue;
                }
                Some(gap) => gap.start,
                None => end,
            };
            let stop = stop.min((at / self.shard + 1).saturating_mul(self.shard));
            let buffer = self.backend.read(self.state.id, at, (stop - at) as usize)?;
            piece(at, buffer.bytes())?;
            at = stop;
        }
        Ok(())
    }

    fn missing(&self, range: Range<i64>) -> i64 {
        self.state.gaps.missing_within(range)
    }
}

/// Takes rows made from samples and compares them with those in store.
struct Compare<'a> {
    source: &'a Source<'a>,
    /// Level and number of the first row that differs.
    different: Option<(usize, u64)>,
}

impl Rows for Compare<'_> {
    fn read(&self, level: usize, first: u64, extrema: &mut [u8], moments: &mut [u8]) -> Result<(), StoreError> {
        self.source.rows.read(level, first, extrema, moments)
    }
}

impl RowsMut for Compare<'_> {
    fn write(&mut self, level: usize, first: u64, extrema: &[u8], moments: &[u8]) -> Result<(), StoreError> {
        let row = MOMENTS * size_of::<f64>();
        let stored = rows_stored(self.source.dtype, level, self.source.built);
        let rows = stored.saturating_sub(first).min((moments.len() / row) as u64) as usize;
        if rows == 0 || self.different.is_some() {
            return Ok(());
        }
        let width = extrema.len() / (moments.len() / row);
        let (extrema, moments) = (&extrema[..rows * width], &moments[..rows * row]);
        let (mut own_extrema, mut own_moments) = (vec![0; extrema.len()], vec![0; moments.len()]);
        self.source.rows.read(level, first, &mut own_extrema, &mut own_moments)?;
        let pairs = own_extrema.chunks(width).zip(own_moments.chunks(row));
        let expected = extrema.chunks(width).zip(moments.chunks(row));
        let different = pairs.zip(expected).position(|(own, expected)| own != expected);
        self.different = different.map(|at| (level, first + at as u64));
        Ok(())
    }
}

/// What is kept of one signal.
struct Entry {
    files: Files,
    /// As on disk.
    record: Record,
    /// Made when samples are first written or a view is asked for.
    builder: Option<Builder>,
    /// What changed below the builder's end and is not committed.
    touched: Vec<(i64, i64)>,
    /// Bytes of samples fed since the last sync.
    fed: usize,
    published: Instant,
    /// Rows could not be written: nothing is tried again before the next commit.
    failed: bool,
}

/// Views of all signals of a store.
pub(crate) struct Keeper {
    media: Arc<dyn Media>,
    boot: String,
    entries: Mutex<HashMap<SignalId, Arc<Mutex<Entry>>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Entry {
    /// The builder, which has everything that `state` shows.
    fn builder(&mut self, backend: &Backend, state: &SignalState, boot: &str) -> Result<&mut Builder, StoreError> {
        if self.builder.is_none() {
            let samples = StoredSamples::new(backend, state)?;
            let (built, stale) = self.record.trusted(boot);
            let mut builder = Builder::open(state.meta.dtype, built, state.end, &mut self.files, &samples)?;
            for (start, end) in stale {
                builder.invalidate(*start..*end);
            }
            builder.refresh(&mut self.files, &samples)?;
            self.builder = Some(builder);
        }
        // Set above where it was not.
        self.builder.as_mut().ok_or(StoreError::NoSuchSignal { name: state.name.to_string(), hint: String::new() })
    }

    fn feed(&mut self, backend: &Backend, id: SignalId, index: i64, bytes: &[u8], boot: &str) -> Result<(), StoreError> {
        if self.builder.is_none() {
            self.builder(backend, &*backend.state(id)?, boot)?;
        }
        let Some(builder) = &mut self.builder else { return Ok(()) };
        if index < builder.next() {
            let samples = bytes.len() / self.files.dtype().size();
            add(&mut self.touched, (index, index + samples as i64));
        }
        self.fed += bytes.len();
        builder.feed(index, bytes, &mut self.files)
    }

    fn refresh(&mut self, backend: &Backend, state: &SignalState) -> Result<(), StoreError> {
        match &mut self.builder {
            Some(builder) if builder.is_stale() => {
                builder.refresh(&mut self.files, &StoredSamples::new(backend, state)?)
            }
            _ => Ok(()),
        }
    }

    /// Says durably which rows the coming commit makes wrong.
    fn before_commit(&mut self, boot: &str) -> Result<(), StoreError> {
        let built = self.builder.as_ref().map_or(0, Builder::built).max(self.record.built);
        let mut record = self.record.clone();
        if record.boot != boot {
            (record.built, record.pending) = (record.synced, record.stale.clone());
            record.boot = boot.to_owned();
        }
        for &(start, end) in self.touched.iter().filter(|range| range.0 < built) {
            record.add_stale((start, end));
        }
        if record.stale != self.record.stale || record.pending != self.record.pending {
            record.save(&self.files, true)?;
            self.record = record;
        }
        Ok(())
    }

    fn after_commit(&mut self, backend: &Backend, state: &SignalState, boot: &str, publish: bool) -> Result<(), StoreError> {
        if !self.touched.is_empty() {
            // Again, even where a view was asked for meanwhile: what takes a shard's place is seen only now.
            let touched = std::mem::take(&mut self.touched);
            let builder = self.builder(backend, state, boot)?;
            touched.iter().for_each(|(start, end)| builder.invalidate(*start..*end));
            self.refresh(backend, state)?;
        }
        if self.fed >= SYNC_EVERY {
            return self.sync(state.end, boot);
        }
        let due = publish && self.published.elapsed() >= PUBLISH_EVERY;
        if due || !self.record.pending.is_empty() {
            self.publish(state.end, boot)?;
        }
        Ok(())
    }

    /// Tells other processes how far rows reach.
    fn publish(&mut self, end: i64, boot: &str) -> Result<(), StoreError> {
        let Some(builder) = &self.builder else { return Ok(()) };
        let record = Record {
            built: builder.built().min(end),
            boot: boot.to_owned(),
            pending: Vec::new(),
            ..self.record.clone()
        };
        self.published = Instant::now();
        if record != self.record && (record.built > 0 || self.record.built > 0) {
            self.files.project(record.built)?;
            record.save(&self.files, false)?;
            self.record = record;
        }
        Ok(())
    }

    /// Makes all rows durable.
    fn sync(&mut self, end: i64, boot: &str) -> Result<(), StoreError> {
        let Some(builder) = &mut self.builder else { return Ok(()) };
        builder.flush(&mut self.files)?;
        self.fed = 0;
        let built = builder.built().min(end);
        let record = Record { built, synced: built, boot: boot.to_owned(), pending: Vec::new(), stale: Vec::new() };
        if record != self.record && (record.built > 0 || self.record.built > 0) {
            self.files.sync()?;
            self.files.project(built)?;
            record.save(&self.files, true)?;
            self.record = record;
        }
        self.published = Instant::now();
        Ok(())
    }
}

impl Keeper {
    pub(crate) fn new(media: Arc<dyn Media>) -> Self {
        Self { boot: media.boot_id(), media, entries: Mutex::default() }
    }

    fn load(&self, backend: &Backend, state: &SignalState) -> Result<Entry, StoreError> {
        let files = Files::new(Arc::clone(&self.media), &backend.signal_path(state.id)?, state.meta.dtype);
        let record = Record::load(&files)?;
        Ok(Entry {
            files,
            record,
            builder: None,
            touched: Vec::new(),
            fed: 0,
            published: Instant::now(),
            failed: false,
        })
    }

    fn entry(&self, backend: &Backend, id: SignalId) -> Result<Arc<Mutex<Entry>>, StoreError> {
        if let Some(entry) = lock(&self.entries).get(&id) {
            return Ok(Arc::clone(entry));
        }
        let entry = Arc::new(Mutex::new(self.load(backend, &*backend.state(id)?)?));
        Ok(Arc::clone(lock(&self.entries).entry(id).or_insert(entry)))
    }

    fn all(&self) -> Vec<(SignalId, Arc<Mutex<Entry>>)> {
        lock(&self.entries).iter().map(|(id, entry)| (*id, Arc::clone(entry))).collect()
    }

    /// Samples were written, which operations that count them are to follow. Views that cannot be kept must not keep
    /// samples from being stored, so whatever fails here is made up for later.
    /// Gives the index after the last sample.
    pub(crate) fn feed(&self, backend: &Backend, id: SignalId, index: i64, bytes: &[u8]) -> i64 {
        let Ok(entry) = self.entry(backend, id) else {
            // Without a folder there is no record either that could claim to know these samples.
            let size = backend.state(id).map_or(1, |state| state.meta.dtype.size());
            return index + (bytes.len() / size) as i64;
        };
        let entry = &mut *lock(&entry);
        let end = index + (bytes.len() / entry.files.dtype().size()) as i64;
        if entry.failed || entry.feed(backend, id, index, bytes, &self.boot).is_err() {
            add(&mut entry.touched, (index, end));
            entry.failed = true;
            entry.builder = None;
        }
        end
    }

    /// An operation is about to be queued: takes note if it changes samples that have rows.
    pub(crate) fn observe(&self, backend: &Backend, op: &Op) -> Result<(), StoreError> {
        let (id, range) = match op {
            Op::Gap { id, start, end } => (*id, *start..*end),
            Op::ReplaceShard { id, shard, .. } => {
                let length = backend.shard_samples(*id)?;
                let start = i64::try_from(*shard).unwrap_or(i64::MAX).saturating_mul(length);
                (*id, start..start.saturating_add(length))
            }
            _ => return Ok(()),
        };
        let entry = self.entry(backend, id)?;
        let entry = &mut *lock(&entry);
        let known = entry.builder.as_ref().map_or(0, Builder::next).max(entry.record.built);
        if range.start < known {
            if let Some(builder) = &mut entry.builder {
                builder.invalidate(range.clone());
            }
            add(&mut entry.touched, (range.start, range.end));
        }
        Ok(())
    }

    /// A commit is about to be made.
    ///
    /// # Errors
    /// It could not be said which rows will be wrong; the commit must not be made then.
    pub(crate) fn before_commit(&self) -> Result<(), StoreError> {
        for (_, entry) in self.all() {
            let entry = &mut *lock(&entry);
            if !entry.touched.is_empty() {
                entry.before_commit(&self.boot)?;
            }
        }
        Ok(())
    }

    /// A commit was made.
    pub(crate) fn after_commit(&self, backend: &Backend, publish: bool) {
        for (id, entry) in self.all() {
            let guard = &mut *lock(&entry);
            let Ok(state) = backend.state(id) else {
                lock(&self.entries).remove(&id);
                continue;
            };
            if let Ok(path) = backend.signal_path(id) {
                guard.files.moved(&path);
            }
            guard.failed = false;
            if guard.after_commit(backend, &state, &self.boot, publish).is_err() {
                guard.builder = None;
                guard.failed = true;
            }
        }
    }

    /// Pending changes were forgotten.
    pub(crate) fn after_rollback(&self) {
        // Rows of samples that are gone lie behind the end and do not count; the record names nothing beyond what was
        // committed. Starting from it again is the simplest way to be right.
        for (_, entry) in self.all() {
            let entry = &mut *lock(&entry);
            let touched = std::mem::take(&mut entry.touched);
            if entry.builder.take().is_some() {
                for range in touched {
                    entry.record.add_stale(range);
                }
            }
        }
    }

    /// Makes all rows durable, so that the next opening need not build any.
    pub(crate) fn sync(&self, backend: &Backend) -> Result<(), StoreError> {
        for (id, entry) in self.all() {
            let entry = &mut *lock(&entry);
            let Ok(state) = backend.state(id) else { continue };
            if entry.builder.is_some() || !entry.record.pending.is_empty() {
                entry.builder(backend, &state, &self.boot)?;
                entry.refresh(backend, &state)?;
                entry.sync(state.end, &self.boot)?;
            }
        }
        Ok(())
    }

    /// Throws the rows of a signal away and builds them anew.
    pub(crate) fn rebuild(&self, backend: &Backend, id: SignalId) -> Result<(), StoreError> {
        let entry = self.entry(backend, id)?;
        let entry = &mut *lock(&entry);
        let state = backend.state(id)?;
        entry.builder = None;
        entry.files.remove()?;
        entry.record = Record::default();
        entry.builder(backend, &state, &self.boot)?;
        entry.sync(state.end, &self.boot)
    }

    /// Looks for rows that do not say what the samples say; reads all samples if `deep`.
    pub(crate) fn examine(&self, backend: &Backend, id: SignalId, deep: bool) -> Result<Option<String>, StoreError> {
        self.with_source(backend, id, |source, state| {
            let files = Files::new(Arc::clone(&self.media), &backend.signal_path(id)?, source.dtype);
            let record = Record::load(&files)?;
            if record.built > state.end {
                let (built, end) = (record.built, state.end);
                return Ok(Some(format!("rows are said to reach to sample {built}, but the signal ends at {end}")));
            }
            let empty = |range: Range<i64>| state.gaps.missing_within(range.clone()) == range.end - range.start;
            if let Some(path) = files.missing(source.built, empty)? {
                return Ok(Some(format!("{} is missing or too short", path.display())));
            }
            if !deep || source.built == 0 {
                return Ok(None);
            }
            let mut compare = Compare { source, different: None };
            let mut builder = Builder::open(source.dtype, 0, source.built, &mut compare, source.samples)?;
            builder.flush(&mut compare)?;
            Ok(compare.different.map(|(level, row)| {
                let bucket = bucket(source.dtype, level);
                let start = row as i64 * bucket;
                format!("the rows of samples {start}..{} at bucket {bucket} differ from the samples", start + bucket)
            }))
        })
    }

    /// Calls `read` with rows and samples of a signal, both as the open store shows them now.
    pub(crate) fn with_source<R>(
        &self,
        backend: &Backend,
        id: SignalId,
        read: impl FnOnce(&Source<'_>, &SignalState) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        let state = backend.state(id)?;
        let samples = StoredSamples::new(backend, &state)?;
        let dtype = state.meta.dtype;
        if !backend.is_writable() {
            let files = Files::new(Arc::clone(&self.media), &backend.signal_path(id)?, dtype);
            let built = Record::load(&files)?.sound(&self.boot).min(state.end);
            return read(&Source { dtype, built, rows: &files, samples: &samples }, &state);
        }
        let entry = self.entry(backend, id)?;
        let entry = &mut *lock(&entry);
        if !entry.touched.is_empty() {
            // Rows are about to show what is not committed and may never be.
            entry.before_commit(&self.boot)?;
            entry.builder(backend, &state, &self.boot)?;
            entry.refresh(backend, &state)?;
        }
        let built = match &entry.builder {
            Some(builder) => builder.built(),
            None => entry.record.sound(&self.boot),
        };
        let built = built.min(state.end);
        read(&Source { dtype, built, rows: &entry.files, samples: &samples }, &state)
    }
}
