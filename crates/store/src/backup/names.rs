//! Prepares a copy for new samples.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::difference::{Difference, Part};
use super::rounds::Backup;
use super::signal_error::CopyError;
use crate::append::change::Change;
use crate::engine::identity;
use crate::engine::io::IoContext;
use crate::error::StoreError;
use crate::layout;
use crate::media::{Kind, Media, limits};
use crate::op::{Op, SignalId};
use crate::verify::metadata::is_signal;

const TEMPORARY_PREFIX: &str = "backup-";

impl Backup<'_, '_> {
    pub(super) fn remove(&self, difference: &Difference) -> Result<(), CopyError> {
        let engine = self.target.shared().backend.engine("back up")?;
        for (id, name) in &difference.removed {
            let removed = engine.queue(Op::Remove { id: *id });
            removed.map_err(|error| self.failed(*id, name, error))?;
        }
        Ok(())
    }

    /// Gives renamed signals unique temporary names.
    pub(super) fn rename_aside(&self, difference: &Difference) -> Result<(), CopyError> {
        let engine = self.target.shared().backend.engine("back up")?;
        for (id, name) in &difference.renamed {
            let id = *id;
            let to = format!(
                "{TEMPORARY_PREFIX}{}-{}",
                id.0,
                uuid::Uuid::new_v4().simple()
            );
            let renamed = engine.queue(Op::Rename { id, to });
            renamed.map_err(|error| self.failed(id, name, error))?;
        }
        Ok(())
    }

    pub(super) fn failed(&self, id: SignalId, name: &str, error: StoreError) -> CopyError {
        CopyError::of_signal(self.source.path(), id, name, error)
    }

    /// Publishes a state that uses nothing that the next one replaces: an interrupted push may leave objects of either.
    /// Replacements are verified before, so a damaged source removes nothing.
    pub(super) fn retire_replaced(&mut self, difference: &Difference) -> Result<(), CopyError> {
        for signal in &difference.signals {
            if signal.replaces_array() || signal.changed {
                let checked = self.checked_sums(signal);
                checked.map_err(|error| self.failed(signal.id, &signal.state.name, error))?;
            }
        }
        self.queue_retirements(difference)?;
        self.target.commit(true)?;
        self.publish()?;
        Ok(())
    }

    fn queue_retirements(&self, difference: &Difference) -> Result<(), CopyError> {
        let shared = self.target.shared();
        let engine = shared.backend.engine("back up")?;
        self.remove(difference)?;
        self.rename_aside(difference)?;
        for signal in &difference.signals {
            let id = signal.id;
            if signal.replaces_array() {
                engine.queue(Op::Remove { id })?;
            } else if signal.changed {
                let have = engine.state(id)?.end;
                let mut change = Change::new(id);
                for part in &signal.parts {
                    if let Part::Samples(range) = part
                        && range.start < have
                    {
                        let (start, end) = (range.start, range.end.min(have));
                        change.ops.push(Op::Gap { id, start, end });
                    }
                }
                change.apply(shared, engine)?;
            }
        }
        Ok(())
    }

    /// Removes folders of unknown signals, left by an interrupted push. The identity is put first and deleted last, so
    /// a folder without one is foreign.
    pub(super) fn remove_leftovers(&self) -> Result<(), StoreError> {
        let backend = &self.target.shared().backend;
        let media = &*backend.media();
        let mut known = HashSet::new();
        for (id, _) in backend.catalogue()? {
            known.insert(backend.signal_path(id)?);
        }
        let mut folders = vec![self.target.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for name in media.list(&folder).at("list", &folder)? {
                let path = folder.join(&name);
                let is_folder = matches!(media.stat(&path), Ok(Some(Kind::Folder)));
                if name == layout::ENGINE || known.contains(&path) || !is_folder {
                    continue;
                }
                let holds_signal = || {
                    known
                        .iter()
                        .any(|signal: &PathBuf| signal.starts_with(&path))
                };
                if is_signal_folder(media, &path)? && !holds_signal() {
                    media.remove_all(&path).at("remove", &path)?;
                } else {
                    folders.push(path);
                }
            }
        }
        Ok(())
    }
}

/// Metadata and identity are deleted last.
fn is_signal_folder(media: &dyn Media, folder: &Path) -> Result<bool, StoreError> {
    if identity::read(media, folder).at("read", folder)?.is_some() {
        return Ok(true);
    }
    let path = folder.join("zarr.json");
    let bytes = media.read(&path, limits::METADATA).at("read", &path)?;
    Ok(bytes.is_some_and(|bytes| is_signal(&bytes)))
}
