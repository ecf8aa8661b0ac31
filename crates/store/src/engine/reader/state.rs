//! Loads a signal's state from tables, which a writer may move and replace meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Reader;
use super::view::{View, WRITER_TIMEOUT};
use crate::consistency;
use crate::engine::expected_tables::ExpectedTables;
use crate::engine::io::IoContext;
use crate::engine::{identity, tables};
use crate::error::StoreError;
use crate::layout;
use crate::op::SignalId;
use crate::state::SignalState;

impl Reader {
    /// State of a signal at the last refresh, loaded on first use. If its tables are newer by now, first refreshes the
    /// store.
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`], [`StoreError::NeedsRecovery`], or damage of the tables.
    pub fn state(&self, id: SignalId) -> Result<Arc<SignalState>, StoreError> {
        self.state_in(&mut self.lock(), id)
    }

    pub(super) fn state_in(
        &self,
        view: &mut View,
        id: SignalId,
    ) -> Result<Arc<SignalState>, StoreError> {
        let began = Instant::now();
        // No active writer: what is missing will not appear.
        let mut idle = false;
        loop {
            let place = self.folder(view, id)?;
            if let Some(state) = &view.known(id)?.state {
                return Ok(state.clone());
            }
            let folder = self.folder_now(view, id)?;
            if let Some(folder) = &folder {
                match self.load_state(view, id, folder) {
                    Ok(Some(state)) => return Ok(state),
                    Ok(None) => {}
                    // Damage, unless the folder was moved away and back during the read.
                    Err(error) => {
                        let is_late = self.stale || began.elapsed() > WRITER_TIMEOUT;
                        if is_late || !self.refresh_view(view)? {
                            return Err(error);
                        }
                        continue;
                    }
                }
            }
            if self.stale || idle || began.elapsed() > WRITER_TIMEOUT {
                identity::read(&*self.media, &place).at("read", &place)?;
                if folder.is_none()
                    && let Some(path) = identity::damaged(&*self.media, &place, id)
                {
                    return Err(StoreError::DamagedFile {
                        path,
                        offset: 0,
                        reason: "it does not state the signal of its folder; `isochrony verify --repair` writes it again",
                    });
                }
                return Err(match folder {
                    None => StoreError::MissingFolder {
                        signal: view.known(id)?.base.name.to_string(),
                        path: place,
                    },
                    Some(path) => StoreError::DamagedFile {
                        path,
                        offset: 0,
                        reason: "the signal's tables are newer than the log",
                    },
                });
            }
            // Without permission to lock this is unknown: wait.
            idle = self.media.is_remote()
                || matches!(self.media.lock(&layout::lock_file(&self.root)), Ok(Some(_)));
            if !self.refresh_view(view)? && !idle {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// `None` if the folder has moved, or its tables are newer than the last record read.
    fn load_state(
        &self,
        view: &mut View,
        id: SignalId,
        folder: &Path,
    ) -> Result<Option<Arc<SignalState>>, StoreError> {
        let (sequence, base_sequence) = (view.sequence, view.base_sequence);
        let known = view.known(id)?;
        let expected = ExpectedTables::since(&known.base, base_sequence, sequence);
        let raw = tables::read(&*self.media, folder, id, &expected);
        // Tables of a moved folder look empty.
        if !self.is_of(folder, id) {
            return Ok(None);
        }
        let mut raw = raw?;
        if raw.sequence > sequence {
            return match self.stale {
                true => Err(StoreError::NeedsRecovery {
                    path: self.root.clone(),
                }),
                false => Ok(None),
            };
        }
        let mut state = raw.state(id, &known.base, known.longest())?;
        let untouched = known.ops.is_empty();
        for op in &known.ops {
            state.apply(op);
            raw.watch(&state);
        }
        raw.check(&state.name, untouched)?;
        consistency::check(&state)?;
        known.ops = Vec::new();
        let state = Arc::new(state);
        known.state = Some(state.clone());
        Ok(Some(state))
    }
}
