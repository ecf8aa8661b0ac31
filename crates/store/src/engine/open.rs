//! Opens a store for writing: creates, continues, or recovers it.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use uuid::Uuid;

use super::engine_state::{Core, EngineState, Names};
use super::io::{IoContext, replace_file, unique};
use super::log::{self, Header, Log, ParsedLog, Records, Unreadable};
use super::manifest::{Manifest, is_store};
use super::opening::{bases, check_identity, not_a_store, read_log};
use super::slot::{Slot, sync_if_there};
use super::{lock, lost_commits};
use crate::error::StoreError;
use crate::layout;
use crate::layout::zarr::{self, FORMAT};
use crate::media::{Kind, Media, MediaLock, Refusal, Site};
use crate::op::Op;

/// What [`Engine::open`](super::Engine::open) expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// A store.
    Existing,
    /// A store, or nothing: then creates one.
    CreateIfMissing,
    /// Nothing: creates a store.
    CreateNew,
    /// A store. Samples of missing files become gaps if they prevent recovery.
    GiveUpLost,
    /// As `CreateIfMissing`, with this uuid if new.
    Backup(Uuid),
}

pub(crate) fn open(
    root: &Path,
    mode: OpenMode,
    around: &Arc<dyn Media>,
) -> Result<Arc<EngineState>, StoreError> {
    let media = around.rooted(root);
    if is_store(&*media, root)? {
        if mode == OpenMode::CreateNew {
            return Err(StoreError::StoreExists { path: root.into() });
        }
    } else {
        if matches!(mode, OpenMode::Existing | OpenMode::GiveUpLost) {
            return Err(not_a_store(&*media, root));
        }
        create(&**around, &*media, root, mode)?;
    }
    refuse_network(&*media, root)?;
    let (lock, crashed) = lock::acquire(&*media, root)?;
    restore_folders(&*media, root)?;
    let manifest = Manifest::read(&*media, root)?.ok_or_else(|| not_a_store(&*media, root))?;
    let log = read_log(&*media, root, &manifest)?;
    let path = layout::log_file(root, manifest.generation);
    let unreadable = |error: Unreadable| error.error(&path);
    let opening = log::parse_opening(&log).map_err(unreadable)?;
    check_identity(&opening, &manifest, &path)?;
    let mut records = Records::new(&log, opening.records_at, opening.sequence);
    let mut ops = Vec::new();
    for record in &mut records {
        ops.extend(record.map_err(unreadable)?.1);
    }
    let damaged = lost_commits::lost_records(&records).map_err(unreadable)?;
    let sequence = records.sequence;
    let rebooted = opening.header.boot != media.boot_id();
    let dirty = crashed || !ops.is_empty() || damaged.is_some() || rebooted;
    // Files of an interrupted push are ahead of the log too.
    let give_up = mode == OpenMode::GiveUpLost || media.is_published();
    let told = lost_commits::LogContent {
        opening: &opening,
        ops: &ops,
        sequence,
        damaged: damaged.as_ref(),
    };
    let lost = match dirty {
        true => lost_commits::lost_commits(&*media, root, &path, &told)?,
        false => Vec::new(),
    };
    if let Some(first) = lost.first().filter(|_| !give_up) {
        return Err(first.error(&path));
    }
    let shared = assemble(root, media, &manifest, &opening, &ops, sequence, lock)?;
    if dirty {
        drop(log);
        shared.recover(&opening, ops, give_up, lost)?;
        shared.recovered.store(true, Ordering::Release);
    }
    let metadata = root.join("zarr.json");
    match shared.media.stat(&metadata) {
        // A foreign link or pipe, which `verify` reports and a repair moves away.
        Err(error) if Refusal::of(&error).is_some() => {}
        found => {
            if found.at("look at", &metadata)?.is_none() {
                shared.publish_root();
            }
        }
    }
    let shared = Arc::new(shared);
    if shared.media.has_background() {
        super::publish::start(&shared);
    }
    Ok(shared)
}

/// Restores usually empty folders, which many copy tools omit.
fn restore_folders(media: &dyn Media, root: &Path) -> Result<(), StoreError> {
    let mut made = false;
    for folder in [layout::tmp_folder(root), layout::staging_folder(root)] {
        if media.stat(&folder).at("look at", &folder)?.is_none() {
            made |= media.make_folder(&folder).at("create", &folder)?;
        }
    }
    if made {
        let folder = layout::engine_folder(root);
        let synced = media.sync_folder(&folder, Site::StoreFolder);
        synced.at("sync", &folder)?;
    }
    Ok(())
}

fn assemble(
    root: &Path,
    media: Arc<dyn Media>,
    manifest: &Manifest,
    opening: &ParsedLog,
    ops: &[Op],
    sequence: u64,
    lock: Box<dyn MediaLock>,
) -> Result<EngineState, StoreError> {
    let path = layout::log_file(root, manifest.generation);
    let core = Core {
        log: Log::resume(&*media, &path, opening.records_at as u64)?,
        generation: manifest.generation,
        sequence,
        structural: Vec::new(),
        record: Vec::new(),
        dirty: BTreeSet::new(),
        unpublished: BTreeSet::new(),
        trash: Vec::new(),
        folders: BTreeSet::new(),
        emptied: BTreeSet::new(),
        lock,
        reserve: None,
    };
    let mut names = Names::default();
    let mut slots = HashMap::new();
    for (id, base) in bases(&opening.base) {
        names.insert(id, &base.name);
        let folder = layout::signal_folder(root, &base.name);
        slots.insert(id, Arc::new(Slot::new(id, folder, base)));
    }
    let mut next_id = opening.header.next_signal;
    for op in ops {
        match op {
            Op::Create { id, name, .. } => {
                names.insert(*id, name);
                next_id = next_id.max(id.0 + 1);
            }
            Op::Rename { id, to } => names.insert(*id, to),
            Op::Remove { id } => {
                names.remove(*id);
                slots.remove(id);
            }
            _ => {}
        }
    }
    let volume = media.volume(root).at("open", root)?;
    Ok(EngineState::new(
        root,
        media,
        volume,
        manifest.uuid,
        core,
        names,
        slots,
        next_id,
    ))
}

fn refuse_network(media: &dyn Media, path: &Path) -> Result<(), StoreError> {
    match media.network(path).at("look at", path)? {
        Some(kind) => Err(StoreError::NetworkFileSystem {
            path: path.into(),
            kind,
        }),
        None => Ok(()),
    }
}

/// Creates a store, or continues an interrupted creation; it exists once its MANIFEST is renamed into place. `around`:
/// the medium of the folders above.
fn create(
    around: &dyn Media,
    media: &dyn Media,
    root: &Path,
    mode: OpenMode,
) -> Result<(), StoreError> {
    match media.stat(root).at("look at", root)? {
        None => {}
        Some(Kind::Folder) => {
            let names = media.list(root).at("list", root)?;
            if names.iter().any(|name| name != layout::ENGINE) {
                return Err(match mode {
                    OpenMode::CreateNew => StoreError::StoreExists { path: root.into() },
                    _ => StoreError::NotAStore {
                        path: root.into(),
                        reason: "the folder holds other files".into(),
                        remedy: "give a missing or empty folder",
                    },
                });
            }
        }
        Some(Kind::File(_)) => return Err(not_a_store(media, root)),
    }
    let above = existing_above(around, root)?;
    refuse_inside_store(around, root)?;
    refuse_network(around, &above)?;
    let engine = layout::engine_folder(root);
    around.make_folders(&above, root).at("create", root)?;
    media.make_folders(root, &engine).at("create", root)?;
    let (lock, _) = lock::acquire(media, root)?;
    if is_store(media, root)? {
        return Ok(());
    }
    for folder in [layout::tmp_folder(root), layout::staging_folder(root)] {
        media.make_folder(&folder).at("create", &folder)?;
    }
    let uuid = match mode {
        OpenMode::Backup(uuid) => uuid,
        _ => Uuid::new_v4(),
    };
    let header = Header {
        uuid: *uuid.as_bytes(),
        generation: 1,
        boot: media.boot_id(),
        next_signal: 1,
    };
    let opening = log::opening_bytes(&header, 0, [].iter()).unwrap_or_default();
    let made = Log::create(media, &layout::log_file(root, 1), &opening);
    made.map_err(log::AppendError::into_error)?;
    media
        .sync_folder(&engine, Site::NewLogFolder)
        .at("sync", &engine)?;
    // Up to the folder that existed before, and at least the store's name.
    let last = if above.starts_with(root) {
        root.parent()
    } else {
        Some(above.as_path())
    };
    for folder in engine.ancestors().skip(1) {
        sync_if_there(around, folder, Site::StoreFolder)?;
        if Some(folder) == last {
            break;
        }
    }
    let manifest = Manifest {
        format: FORMAT,
        uuid,
        generation: 1,
    };
    manifest.write(media, root)?;
    media
        .sync_folder(&engine, Site::ManifestFolder)
        .at("sync", &engine)?;
    // Best effort: opening writes it if missing. Before the lock file says that all is done.
    let group = zarr::store_group(&uuid.to_string(), serde_json::Map::new());
    let tmp = unique(&layout::tmp_folder(root), "zarr");
    let _ = replace_file(
        media,
        &tmp,
        &root.join("zarr.json"),
        &zarr::to_bytes(&group),
        // An empty file after a power cut would look like lost attributes.
        Some(Site::ReplacementFile),
    );
    let cleared = lock.write("");
    lock.release();
    cleared.at("write", &layout::lock_file(root))
}

/// Except in a store's `.isochrony`, which holds temporary stores.
fn refuse_inside_store(media: &dyn Media, root: &Path) -> Result<(), StoreError> {
    let mut at = root;
    while let Some(above) = at.parent() {
        if at.file_name().is_some_and(|name| name == layout::ENGINE) {
            return Ok(());
        }
        if is_store(media, above).unwrap_or(false) {
            return Err(StoreError::StoreInsideStore {
                path: root.into(),
                other: above.into(),
            });
        }
        at = above;
    }
    Ok(())
}

fn existing_above(media: &dyn Media, path: &Path) -> Result<PathBuf, StoreError> {
    let start = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    for above in start.ancestors() {
        let above = if above.as_os_str().is_empty() {
            Path::new(".")
        } else {
            above
        };
        if media.stat(above).at("look at", above)?.is_some() {
            return Ok(above.to_path_buf());
        }
    }
    Ok(PathBuf::from("."))
}
