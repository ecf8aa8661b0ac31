//! Views of one signal.

use std::time::{Duration, Instant};

use isochrony_segment::Buffer;

use super::Builder;
use super::files::Files;
use super::record::{Identity, Record, add};
use super::stored::StoredSamples;
use crate::StoreError;
use crate::backend::Backend;
use crate::op::SignalId;
use crate::state::SignalState;

/// Delay until other processes' readers learn how far rows extend.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);
/// Bytes of samples whose rows are synced at once.
const SYNC_EVERY: usize = 1 << 30;

pub(super) struct ViewState {
    pub(super) files: Files,
    pub(super) record: Record,
    pub(super) builder: Option<Builder>,
    /// Uncommitted changes before the builder's end.
    pub(super) touched: Vec<(i64, i64)>,
    /// Ranges that pending operations remove or replace. [`Identity`] counts whole shards, so it may change even if no
    /// row does.
    pub(super) taken: Vec<(i64, i64)>,
    /// Bytes fed since the last sync.
    pub(super) fed: usize,
    pub(super) published: Instant,
    /// Do not retry before the next commit.
    pub(super) failed: bool,
    pub(super) active: bool,
}

impl ViewState {
    pub(super) fn builder(
        &mut self,
        backend: &Backend,
        state: &SignalState,
        boot: &str,
    ) -> Result<&mut Builder, StoreError> {
        if self.builder.is_none() {
            let samples = StoredSamples::decoded(backend, state)?;
            let (built, stale) = self.record.trusted(boot);
            if self.files.are_there()? {
                if self.record.boot != boot {
                    // Of the last commit: a pending gap may be rolled back, and its rows must not be lost.
                    let engine = backend.engine("build views")?;
                    let committed = engine.committed_state(state.id)?;
                    let samples =
                        StoredSamples::decoded(backend, committed.as_deref().unwrap_or(state))?;
                    self.files.remove_unsynced(built, stale, &samples)?;
                }
                self.files.remove_short_levels(built)?;
            }
            let mut builder = Builder::open(
                state.meta.format.dtype(),
                built,
                state.end,
                &mut self.files,
                &samples,
            )?;
            for (start, end) in stale {
                builder.invalidate(*start..*end);
            }
            builder.refresh(&mut self.files, &samples)?;
            self.builder = Some(builder);
        }
        self.builder.as_mut().ok_or(StoreError::NoSuchSignal {
            name: state.name.to_string(),
            hint: String::new(),
        })
    }

    pub(super) fn feed(
        &mut self,
        backend: &Backend,
        id: SignalId,
        index: i64,
        bytes: &[u8],
        boot: &str,
    ) -> Result<(), StoreError> {
        if self.builder.is_none() {
            self.builder(backend, &*backend.state(id)?, boot)?;
        }
        let Some(builder) = &mut self.builder else {
            return Ok(());
        };
        if index < builder.next() {
            let samples = bytes.len() / self.files.format().size();
            add(&mut self.touched, (index, index + samples as i64));
        }
        self.fed += bytes.len();
        let decoded = self.files.format().decoded_copy(bytes)?;
        let bytes = decoded.as_ref().map_or(bytes, Buffer::bytes);
        builder.feed(index, bytes, &mut self.files)
    }

    pub(super) fn refresh(
        &mut self,
        backend: &Backend,
        state: &SignalState,
    ) -> Result<(), StoreError> {
        match &mut self.builder {
            Some(builder) if builder.is_stale() => {
                builder.refresh(&mut self.files, &StoredSamples::decoded(backend, state)?)
            }
            _ => Ok(()),
        }
    }

    /// The builder may be newer than some changes.
    pub(super) fn renew(
        &mut self,
        backend: &Backend,
        state: &SignalState,
        boot: &str,
    ) -> Result<(), StoreError> {
        let touched = std::mem::take(&mut self.touched);
        let built = self.builder(backend, state, boot).map(|builder| {
            for (start, end) in &touched {
                builder.invalidate(*start..*end);
            }
        });
        self.touched = touched;
        built?;
        self.refresh(backend, state)
    }

    /// Records durably which rows the commit invalidates, and that it may change [`Identity`].
    pub(super) fn before_commit(&mut self) -> Result<(), StoreError> {
        let built = self
            .builder
            .as_ref()
            .map_or(0, Builder::built)
            .max(self.record.built);
        let mut record = self.record.clone();
        for &range in self.touched.iter().filter(|range| range.0 < built) {
            record.add_stale(range);
        }
        if self.record.built > 0 {
            // Even past all rows: a record with another identity is accepted only if it names ranges.
            for &range in &self.taken {
                record.add_stale(range);
            }
        }
        if record.stale != self.record.stale || record.pending != self.record.pending {
            record.save(&self.files, true)?;
            self.record = record;
        }
        Ok(())
    }

    pub(super) fn after_commit(
        &mut self,
        backend: &Backend,
        state: &SignalState,
        boot: &str,
        publish: bool,
    ) -> Result<(), StoreError> {
        let may_change_identity = self.record.built > 0 && !self.taken.is_empty();
        if !self.touched.is_empty() || may_change_identity {
            // A shard's replacement is visible only now.
            self.renew(backend, state, boot)?;
            self.touched.clear();
        }
        self.taken.clear();
        if self.fed >= SYNC_EVERY {
            return self.sync(state, boot);
        }
        let due = publish && self.published.elapsed() >= PUBLISH_EVERY;
        if due || !self.record.pending.is_empty() {
            self.publish(state, boot)?;
        }
        Ok(())
    }

    pub(super) fn is_behind(&self) -> bool {
        self.builder
            .as_ref()
            .is_some_and(|builder| builder.built() != self.record.built)
    }

    pub(super) fn publish(&mut self, state: &SignalState, boot: &str) -> Result<(), StoreError> {
        let Some(builder) = &self.builder else {
            return Ok(());
        };
        let built = builder.built().min(state.end);
        let record = Record {
            built,
            boot: boot.to_owned(),
            pending: Vec::new(),
            of: Some(Identity::new(state, built)),
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

    pub(super) fn sync(&mut self, state: &SignalState, boot: &str) -> Result<(), StoreError> {
        let Some(builder) = &mut self.builder else {
            return Ok(());
        };
        builder.flush(&mut self.files)?;
        self.fed = 0;
        let built = builder.built().min(state.end);
        let record = Record {
            built,
            synced: built,
            boot: boot.to_owned(),
            pending: Vec::new(),
            stale: Vec::new(),
            of: Some(Identity::new(state, built)),
        };
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
