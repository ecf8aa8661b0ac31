//! What every opening reads first: the log that MANIFEST names, and its base.

use std::path::Path;
use std::sync::Arc;

use super::compact::CompactTables;
use super::io::IoContext;
use super::log::ParsedLog;
use super::manifest::Manifest;
use super::parts::Base;
use super::rebuild;
use super::table_stamps::TableStamps;
use crate::error::StoreError;
use crate::layout;
use crate::media::{Kind, Media, limits};
use crate::op::{Op, SignalId};

const CHECK_PATH: &str = "check the path";
const CHECK_PATH_OR_CREATE: &str = "check the path, or open with mode \"a\" to create one";

pub(crate) fn not_a_store(media: &dyn Media, root: &Path) -> StoreError {
    let (reason, remedy) = match media.stat(root) {
        Ok(None) => ("nothing is there".into(), CHECK_PATH_OR_CREATE),
        Ok(Some(Kind::File(_))) => (
            "it is a file".into(),
            "give the store's folder, or import recordings into a new one with isochrony.import_files",
        ),
        Ok(Some(Kind::Folder)) => {
            let is_damaged = matches!(rebuild::damage(media, root), Ok(Some(_)));
            let names = media.list(root).unwrap_or_default();
            let can_create = !is_damaged && names.iter().all(|name| name == layout::ENGINE);
            let reason = match is_damaged {
                true => {
                    "its .isochrony/MANIFEST is missing, which `isochrony verify --repair` may repair"
                }
                false => "the folder has no .isochrony/MANIFEST",
            };
            let remedy = if can_create {
                CHECK_PATH_OR_CREATE
            } else {
                CHECK_PATH
            };
            (reason.into(), remedy)
        }
        Err(error) => (error.to_string(), CHECK_PATH),
    };
    StoreError::NotAStore {
        path: root.into(),
        reason,
        remedy,
    }
}

/// For actions on existing stores, without advice to create one.
pub(crate) fn of_existing(error: StoreError) -> StoreError {
    match error {
        StoreError::NotAStore {
            path,
            reason,
            remedy: CHECK_PATH_OR_CREATE,
        } => StoreError::NotAStore {
            path,
            reason,
            remedy: CHECK_PATH,
        },
        other => other,
    }
}

pub(crate) fn read_log(
    media: &dyn Media,
    root: &Path,
    manifest: &Manifest,
) -> Result<Vec<u8>, StoreError> {
    let path = layout::log_file(root, manifest.generation);
    media
        .read(&path, limits::LOG)
        .at("read", &path)?
        .ok_or(StoreError::DamagedFile {
            path,
            offset: 0,
            reason: "the redo log that MANIFEST names is missing",
        })
}

pub(crate) fn check_identity(
    opening: &ParsedLog,
    manifest: &Manifest,
    path: &Path,
) -> Result<(), StoreError> {
    let header = &opening.header;
    if header.uuid != *manifest.uuid.as_bytes() || header.generation != manifest.generation {
        return Err(StoreError::DamagedFile {
            path: path.into(),
            offset: 0,
            reason: "the log belongs to another store or generation",
        });
    }
    Ok(())
}

pub(crate) fn bases(base: &[Op]) -> Vec<(SignalId, Base)> {
    let mut out: Vec<(SignalId, Base)> = Vec::new();
    for op in base {
        if let Op::Create { id, name, meta } = op {
            let base = Base {
                tables: None,
                compact: None,
                ..Base::new(name, meta)
            };
            out.push((*id, base));
            continue;
        }
        // Other operations follow that of their signal.
        let last = out.last_mut().filter(|(last, _)| *last == op.signal());
        let Some((_, base)) = last else {
            continue;
        };
        match op {
            Op::End { end, .. } => base.end = (*end).max(0),
            Op::Crc { chunk, crc, .. } => base.read_tail(*chunk, *crc),
            Op::Data { data, .. } => base.data = Arc::new((**data).clone()),
            Op::WriteMark { shard, mark, .. } => {
                Arc::make_mut(&mut base.data).set_mark(*shard, *mark, true);
            }
            Op::Tables { tables, .. } => base.tables = Some(TableStamps::new(tables)),
            Op::SmallTables { tables, .. } => {
                base.compact = Some(CompactTables::new(tables.clone()))
            }
            _ => {}
        }
    }
    out
}
