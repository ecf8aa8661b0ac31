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

pub(crate) fn not_a_store(media: &dyn Media, root: &Path) -> StoreError {
    let reason = match media.stat(root) {
        Ok(None) => "nothing is there".into(),
        Ok(Some(Kind::File(_))) => "it is a file".into(),
        Ok(Some(Kind::Folder)) => match rebuild::damage(media, root) {
            Ok(Some(_)) => {
                "its .isochrony/MANIFEST is missing, which `isochrony verify --repair` may repair"
                    .into()
            }
            _ => "the folder has no .isochrony/MANIFEST".into(),
        },
        Err(error) => error.to_string(),
    };
    StoreError::NotAStore {
        path: root.into(),
        reason,
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
