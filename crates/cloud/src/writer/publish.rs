//! Publishes staged files, in an order that keeps readers consistent.
//!
//! Readers find a store's state by MANIFEST and its redo log. So samples, to which the previous state does not refer,
//! are uploaded first; then log records and all small files; MANIFEST last. Then unnamed objects are deleted. A push
//! that ends in between leaves the previous state, and objects that the next push replaces or deletes.
//!
//! Views are a cache with a record of its valid range, and follow MANIFEST: the record is deleted, then rows and record
//! are uploaded. Rows without a record are rebuilt.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use object_store::path::Path as Key;

use super::node::{Difference, Node};
use super::{Writer, WriterState, is_unpublished};
use crate::driver;
use crate::error::CloudError;
use crate::media::{ENGINE, is_log};
use crate::upload::{Content, upload};
use isochrony_store::RESERVED;

pub(super) const MARKER: &str = ".isochrony/BACKUP";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// Whether the copy may be opened.
    Marker,
    /// Identity of a new folder's owner.
    Identity,
    Samples,
    Small,
    Log,
    Manifest,
    View,
    ViewRecord,
}

impl Rank {
    const COUNT: usize = 8;

    /// Log records precede the tables that refer to them. A log of another generation follows the tables that it builds
    /// on, with its MANIFEST.
    const fn order(has_manifest: bool) -> [Self; Self::COUNT] {
        let (first, second) = match has_manifest {
            true => (Self::Small, Self::Log),
            false => (Self::Log, Self::Small),
        };
        [
            Self::Marker,
            Self::Identity,
            Self::Samples,
            first,
            second,
            Self::Manifest,
            Self::View,
            Self::ViewRecord,
        ]
    }

    /// `is_new`: the object does not exist yet.
    fn of(name: &str, is_new: bool) -> Self {
        match name.strip_prefix(ENGINE) {
            Some("MANIFEST") => Self::Manifest,
            Some("BACKUP") => Self::Marker,
            _ if is_log(name) => Self::Log,
            _ if name.ends_with("/views/zarr.json") => Self::ViewRecord,
            _ if name.contains("/views/") => Self::View,
            _ if is_new && is_signal_metadata(name) => Self::Identity,
            _ if is_shard(name) => Self::Samples,
            _ => Self::Small,
        }
    }
}

/// `data/c/7`, or `data/c.7.0` of a two-dimensional array.
fn is_shard(name: &str) -> bool {
    name.contains("/data/c/") || name.contains("/data/c.")
}

fn is_signal_metadata(name: &str) -> bool {
    let is_array = |part: &str| RESERVED.contains(&part);
    name.ends_with("/.signal") || name.ends_with("/zarr.json") && !name.split('/').any(is_array)
}

struct Change {
    name: String,
    node: Arc<Node>,
    difference: Difference,
}

impl Writer {
    /// `on_put` gets the uploaded bytes of shards.
    pub(super) fn publish(&self, on_put: &mut dyn FnMut(u64)) -> io::Result<()> {
        let mut state = self.lock();
        let mut ranks: [Vec<Change>; Rank::COUNT] = Default::default();
        for (name, node) in state.tree.files() {
            if is_unpublished(name) {
                continue;
            }
            let difference = node.difference(name);
            if difference == Difference::Nothing {
                if Arc::strong_count(node) == 1 {
                    node.release();
                }
                continue;
            }
            let is_new = !state.objects.contains(name);
            ranks[Rank::of(name, is_new) as usize].push(Change {
                name: name.clone(),
                node: node.clone(),
                difference,
            });
        }
        self.check_alone(&state)?;
        self.save_sources(&mut ranks)?;
        let records = self.stage_records(&state, &mut ranks)?;
        let has_manifest = !ranks[Rank::Manifest as usize].is_empty();
        for rank in Rank::order(has_manifest) {
            let changes = std::mem::take(&mut ranks[rank as usize]);
            match rank {
                Rank::Small | Rank::Log | Rank::Manifest if !changes.is_empty() => {
                    self.check_alone(&state)?;
                }
                Rank::View => self.delete(&mut state, records.iter().cloned().collect())?,
                _ => {}
            }
            match rank {
                Rank::Samples => self.put(&mut state, changes, on_put)?,
                _ => self.put(&mut state, changes, &mut |_| ())?,
            }
        }
        self.delete_gone(&mut state)
    }

    /// View records whose rows differ: deleted first, uploaded last.
    fn stage_records(
        &self,
        state: &WriterState,
        ranks: &mut [Vec<Change>],
    ) -> io::Result<BTreeSet<String>> {
        let rows = ranks[Rank::View as usize].iter();
        let record = |change: &Change| {
            let (signal, _) = change.name.split_once("/views/")?;
            Some(format!("{signal}/views/zarr.json"))
        };
        let mut records: BTreeSet<String> = rows.filter_map(record).collect();
        records.retain(|name| state.objects.contains(name));
        let to_put = &mut ranks[Rank::ViewRecord as usize];
        for name in &records {
            let Some(node) = state.tree.file(name) else {
                continue;
            };
            if !to_put.iter().any(|change| change.name == *name) {
                node.stage(&self.remote, &self.staging)?;
                to_put.push(Change {
                    name: name.clone(),
                    node: node.clone(),
                    difference: node.difference(name),
                });
            }
        }
        Ok(records)
    }

    /// Fetches objects that are both copied and replaced, as when two signals swap names.
    fn save_sources(&self, ranks: &mut [Vec<Change>]) -> io::Result<()> {
        let names = ranks.iter().flatten().map(|change| change.name.clone());
        let names: BTreeSet<String> = names.collect();
        for change in ranks.iter_mut().flatten() {
            if let Difference::Copy(object) = &change.difference
                && names.contains(object)
            {
                change.node.stage(&self.remote, &self.staging)?;
                change.difference = change.node.difference(&change.name);
            }
        }
        Ok(())
    }

    /// Uploads early what readers do not see: files below `tmp/`, and shards beyond the previous state.
    pub(super) fn spill(&self) -> io::Result<()> {
        let mut state = self.lock();
        for node in state.tree.files().values() {
            node.release();
        }
        let is_early = |name: &str| is_unpublished(name) || is_shard(name);
        let early = state.tree.files().iter().filter(|(name, _)| is_early(name));
        let early = early.map(|(name, node)| Change {
            name: name.clone(),
            node: node.clone(),
            difference: node.difference(name),
        });
        let early: Vec<Change> = early
            .filter(|change| matches!(change.difference, Difference::Put(..)))
            .collect();
        if early.is_empty() {
            return Ok(());
        }
        self.check_alone(&state)?;
        let nodes: Vec<Arc<Node>> = early.iter().map(|change| change.node.clone()).collect();
        self.put(&mut state, early, &mut |_| ())?;
        // Also open ones: further writes fetch them again.
        nodes.iter().for_each(|node| node.release());
        Ok(())
    }

    fn put(
        &self,
        state: &mut WriterState,
        changes: Vec<Change>,
        on_put: &mut dyn FnMut(u64),
    ) -> io::Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let place = &self.remote.session()?.location;
        let mut objects = Vec::new();
        for change in &changes {
            let content = match &change.difference {
                Difference::Put(path, len) => Content::File(path.clone(), *len),
                Difference::Copy(object) => Content::Object(place.key(object)?),
                // Versions are returned in the order of the changes.
                Difference::Nothing => return Err(io::ErrorKind::InvalidInput.into()),
            };
            objects.push((place.key(&change.name)?, content));
        }
        let bytes = Arc::new(AtomicU64::new(0));
        let upload = upload(place.requests.clone(), objects, bytes.clone());
        let mut report = || match bytes.swap(0, Ordering::Relaxed) {
            0 => {}
            more => on_put(more),
        };
        let versions = driver::wait_and_report(upload, &mut report)?;
        report();
        for (Change { name, node, .. }, version) in changes.into_iter().zip(versions) {
            if name == MARKER {
                state.marker = Some(version.clone());
            }
            // This clone and the tree's.
            let is_open = Arc::strong_count(&node) > 2;
            node.set_published(&name, version, is_open);
            state.objects.insert(name);
        }
        Ok(())
    }

    fn delete_gone(&self, state: &mut WriterState) -> io::Result<()> {
        let used = state.tree.files().values().filter_map(|node| node.object());
        let used: BTreeSet<String> = used.collect();
        let gone = state.objects.difference(&used).cloned();
        // Last, so that the next push finds the rest of an interrupted one.
        let (last, first): (Vec<String>, _) = gone.partition(|name| is_signal_metadata(name));
        if !first.is_empty() || !last.is_empty() {
            self.check_alone(state)?;
        }
        self.delete(state, first)?;
        self.delete(state, last)
    }

    fn delete(&self, state: &mut WriterState, names: Vec<String>) -> io::Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let place = &self.remote.session()?.location;
        let keys = names.iter().map(|name| place.key(name));
        let keys = keys.collect::<Result<Vec<Key>, CloudError>>()?;
        let requests = place.requests.clone();
        driver::wait(async move { requests.delete(keys).await })?;
        for name in names {
            state.objects.remove(&name);
        }
        Ok(())
    }

    /// Fails if another push has written its marker.
    fn check_alone(&self, state: &WriterState) -> io::Result<()> {
        let Some(own) = &state.marker else {
            return Ok(());
        };
        match self.remote.session()?.head(MARKER)? {
            Some(now) if now.fits(own) => Ok(()),
            _ => Err(CloudError::OtherPush.into()),
        }
    }
}
