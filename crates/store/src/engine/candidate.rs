//! Candidate locations of a shard file, checked by identity.
//!
//! A file that is being moved is at one of a few paths, where other files may be: files are opened, then identified.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::identity;
use super::io::{IoContext, failed};
use crate::error::StoreError;
use crate::layout::flat::{Flat, IndexKind};
use crate::layout::mark::{MarkSlots, WriteMark};
use crate::layout::shard::{HeaderBlock, ShardHeader};
use crate::media::{Access, Media, MediaFile};
use crate::op::SignalId;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArrayFolder {
    pub(crate) path: PathBuf,
    /// The signal's folder, if another signal may take its place.
    pub(crate) shared_place: Option<PathBuf>,
}

impl ArrayFolder {
    /// Nobody else renames this folder.
    pub(crate) fn own(path: PathBuf) -> Self {
        Self {
            path,
            shared_place: None,
        }
    }

    /// Another process may rename it.
    pub(crate) fn of_signal(folder: PathBuf) -> Self {
        Self {
            path: folder.join("data"),
            shared_place: Some(folder),
        }
    }

    pub(crate) fn belongs_to(&self, media: &dyn Media, id: SignalId) -> bool {
        let Some(folder) = &self.shared_place else {
            return true;
        };
        identity::is_of(media, folder, id)
    }

    /// Opens a file; `None` if missing or another signal's. `header` reads its identity; without one, the folder must
    /// be the signal's before and after opening.
    ///
    /// # Errors
    /// [`StoreError::WrongShard`] for another shard or version; I/O errors.
    pub(crate) fn open(
        &self,
        media: &dyn Media,
        path: &Path,
        wanted: &ShardHeader,
        header: impl Fn(&dyn MediaFile) -> std::io::Result<HeaderBlock>,
    ) -> Result<Option<Arc<dyn MediaFile>>, StoreError> {
        let open = || match media.open(path, Access::Read) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error, "open", path)),
        };
        let Some(file) = open()? else {
            return Ok(None);
        };
        match header(&*file).at("read", path)? {
            HeaderBlock::Header(found) if found == *wanted => Ok(Some(file)),
            HeaderBlock::Header(found) => Err(wrong(path, &found, wanted)),
            HeaderBlock::Damaged if self.belongs_to(media, SignalId(wanted.signal)) => {
                Err(StoreError::DamagedFile {
                    path: path.into(),
                    offset: 0,
                    reason: "the shard's header is damaged",
                })
            }
            HeaderBlock::None if self.shared_place.is_none() => Ok(Some(file)),
            HeaderBlock::None if self.belongs_to(media, SignalId(wanted.signal)) => {
                let file = open()?;
                let still = self.belongs_to(media, SignalId(wanted.signal));
                Ok(file.filter(|_| still))
            }
            HeaderBlock::None | HeaderBlock::Damaged => Ok(None),
        }
    }
}

pub(crate) fn wrong(path: &Path, got: &ShardHeader, expected: &ShardHeader) -> StoreError {
    StoreError::WrongShard {
        path: path.into(),
        got: got.to_string(),
        expected: expected.to_string(),
    }
}

pub(crate) fn wrong_mark(path: &Path, got: &MarkSlots, expected: WriteMark) -> StoreError {
    StoreError::WrongShard {
        path: path.into(),
        got: format!("an older version, which has {got}"),
        expected: format!("the one with write mark {:032x}", expected.0),
    }
}

#[derive(Debug)]
pub(crate) struct FlatHead {
    pub(crate) index: IndexKind,
    pub(crate) header: HeaderBlock,
    pub(crate) marks: MarkSlots,
}

impl FlatHead {
    pub(crate) fn read(file: &dyn MediaFile, flat: &Flat) -> std::io::Result<Self> {
        let mut head = vec![0; flat.marked_head_len() as usize];
        let count = file.read_at(0, &mut head)?;
        let head = &head[..count];
        let index = flat.index_kind(head);
        let header = match (HeaderBlock::decode(head), index) {
            (HeaderBlock::Header(found), _) => HeaderBlock::Header(found),
            (_, IndexKind::Foreign) => HeaderBlock::None,
            (_, IndexKind::Flat | IndexKind::Damaged) => flat.header(head),
        };
        Ok(Self {
            index,
            header,
            marks: flat.marks(head),
        })
    }
}
