//! Publication of commits to other programs, at once or later by a thread.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::compact;
use super::engine_state::EngineState;
use super::io::IoContext;
use super::slot::SlotInner;
use super::tables;
use crate::layout::table::TEXT_ARRAY;
use crate::layout::{self, zarr};
use crate::media::{Site, limits};
use crate::state::{CORRECTIONS, EVENTS, GAPS, Table};

/// Delay of publication, unless publishing takes longer than a tenth of it.
const PUBLISH_DELAY: Duration = Duration::from_millis(800);

impl EngineState {
    /// Writes a signal's `zarr.json` files, that of `data` last: a length is visible only with all that belongs to it.
    pub(crate) fn publish_slot(&self, slot: &mut SlotInner, sequence: u64) -> bool {
        let media = &*self.media;
        let tmp = layout::tmp_folder(&self.root);
        if slot.state(media).is_err() {
            return false;
        }
        let Some(state) = slot.committed_mut().cloned() else {
            return false;
        };
        let is_compact = slot.base.compact.is_some();
        let compact = is_compact.then(|| compact::described(&state));
        let group = zarr::signal_group(slot.id, &state.meta, compact);
        let mut done = slot.project(media, &tmp, "", &group);
        if !is_compact {
            let timebase = zarr::group(serde_json::Map::new());
            done &= slot.project(media, &tmp, "timebase", &timebase);
        }
        // The file remains after all events were removed.
        let has_events = !state.events.is_empty() || slot.has_file(EVENTS);
        if slot.projected.contains_key(TEXT_ARRAY) || !is_compact && has_events {
            done &= slot.project(media, &tmp, "events", &zarr::group(serde_json::Map::new()));
        }
        if slot.gaps_unpublished {
            // Gaps first: without them a reader would take gaps within the new length for samples.
            if slot
                .write_table(media, &tmp, &tables::gaps(&state), sequence)
                .is_err()
            {
                return false;
            }
            slot.gaps_unpublished = false;
        }
        for (name, _) in tables::arrays() {
            let has_gaps = !state.gaps.is_empty() || slot.has_file(GAPS);
            let is_array = !is_compact || (name == GAPS && has_gaps);
            if is_array && !slot.projected.contains_key(name) {
                done &= self.project_table(slot, name, true);
            }
        }
        // A power cut may have removed the description.
        for name in [EVENTS, TEXT_ARRAY] {
            if has_events && !is_compact && !slot.projected.contains_key(name) {
                done &= self.project_table(slot, name, false);
            }
        }
        let has_corrections = !state.corrections.is_empty() && !is_compact;
        if has_corrections && !slot.projected.contains_key(CORRECTIONS) {
            done &= self.project_table(slot, CORRECTIONS, false);
        }
        if slot.base.has_checksums(slot.crc_rows) {
            // Only checkpoints write checksums.
            let crc = zarr::crc_array(slot.crc_rows);
            done &= slot.project(media, &tmp, "crc", &crc);
        }
        if done && state.meta.codec.is_empty() {
            done &= slot.project(
                media,
                &tmp,
                "data",
                &zarr::data_array(&state.meta, state.end),
            );
        }
        done
    }

    /// A table without a file only if it is an array anyway.
    fn project_table(&self, slot: &mut SlotInner, name: &'static str, is_array: bool) -> bool {
        let media = &*self.media;
        let tmp = layout::tmp_folder(&self.root);
        let (chunk, row_bytes) = match name {
            TEXT_ARRAY => ("c/0", 1),
            _ => ("c/0/0", 8 * Table::columns_of(name).unwrap_or(1) as u64),
        };
        let path = slot.folder.join(name).join(chunk);
        let Ok(found) = media.read(&path, limits::TABLE).at("read", &path) else {
            return false;
        };
        let rows = match found.map(|bytes| tables::decode(name, &bytes)) {
            None if !is_array => return true,
            None => 0,
            Some(Ok(table)) => table.rows.len() as u64 / row_bytes,
            Some(Err(_)) => return false,
        };
        match tables::description(name, rows) {
            Some(json) => slot.project(media, &tmp, name, &json),
            None => false,
        }
    }

    /// Writes the store's metadata, keeping user attributes. An unreadable file may contain some, so it stays, and a
    /// repair reports the loss.
    pub(crate) fn publish_root(&self) {
        let path = self.root.join("zarr.json");
        let Ok(found) = self.media.read(&path, limits::METADATA) else {
            return;
        };
        let user = match &found {
            None => serde_json::Map::new(),
            Some(bytes) => match zarr::attributes_of(bytes) {
                Some(user) => user,
                None => return,
            },
        };
        let bytes = zarr::to_bytes(&zarr::store_group(&self.uuid.to_string(), user));
        if found.is_some_and(|found| found == bytes) {
            return;
        }
        let tmp = super::io::unique(&layout::tmp_folder(&self.root), "zarr");
        // Else a power cut would remove durable attributes.
        let site = Some(Site::ReplacementFile);
        let _ = super::io::replace_file(&*self.media, &tmp, &path, &bytes, site);
    }
}

/// Starts the publishing thread. It holds the store only while it works, so it keeps neither store nor process alive.
pub(crate) fn start(shared: &Arc<EngineState>) {
    let weak: Weak<EngineState> = Arc::downgrade(shared);
    let spawned = std::thread::Builder::new()
        .name("isochrony-publish".into())
        .spawn(move || {
            let mut pause = PUBLISH_DELAY;
            loop {
                let due = Instant::now() + pause;
                let shared = loop {
                    std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
                    let Some(shared) = weak.upgrade() else { return };
                    if shared.closed.load(Ordering::Acquire) {
                        return;
                    }
                    if Instant::now() >= due {
                        break shared;
                    }
                };
                let began = Instant::now();
                if shared.check("publish").is_ok() {
                    let mut core = shared.core();
                    if !shared.closed.load(Ordering::Acquire) {
                        shared.publish(&mut core);
                    }
                }
                pause = PUBLISH_DELAY.max(began.elapsed() * 10);
            }
        });
    // Without it, commits and checkpoints still publish.
    if let Ok(thread) = spawned {
        let _ = shared.publisher.set(thread.thread().clone());
    }
}
