//! Stores rows in files: two flat sharded arrays per level.
//!
//! ```text
//! views/zarr.json                   the record: how far rows reach (see `record`)
//! views/<bucket>/extrema/c/<s>/0    least and greatest value of each bucket
//! views/<bucket>/moments/c/<s>/0    count, mean and M2
//! ```
//! A shard's header identifies its signal and rows; one in the wrong place is refused. Shards of earlier versions have
//! no header.
//!
//! Rows are durable only after [`Files::sync`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use isochrony_segment::DType;
use uuid::Uuid;

use super::{EXTREMA, LEVELS, MOMENTS, Rows, RowsMut, bucket, extreme_dtype, rows_stored};
use crate::StoreError;
use crate::engine::io::IoContext;
use crate::layout::flat::{FileRange, Flat};
use crate::layout::zarr;
use crate::media::{Access, Kind, Media, Site, limits};
use crate::op::SignalId;
use crate::sample_format::SampleFormat;

pub(crate) const FOLDER: &str = "views";

const CHUNK_ROWS: u64 = 1024;
/// Half a million rows, at most some 20 MB.
const SHARD_CHUNKS: u64 = 512;
pub(super) const SHARD_ROWS: u64 = CHUNK_ROWS * SHARD_CHUNKS;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Array {
    Extrema,
    Moments,
}

impl Array {
    pub(crate) const BOTH: [Self; 2] = [Self::Extrema, Self::Moments];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Extrema => "extrema",
            Self::Moments => "moments",
        }
    }

    const fn dtype(self, signal: DType) -> DType {
        match self {
            Self::Extrema => extreme_dtype(signal),
            Self::Moments => DType::F64,
        }
    }

    const fn columns(self) -> u64 {
        match self {
            Self::Extrema => EXTREMA as u64,
            Self::Moments => MOMENTS as u64,
        }
    }

    pub(crate) const fn row_bytes(self, signal: DType) -> u64 {
        self.columns() * self.dtype(signal).size() as u64
    }

    pub(crate) fn flat(self, signal: DType) -> Flat {
        Flat::new(self.row_bytes(signal) * CHUNK_ROWS, SHARD_CHUNKS)
    }

    /// Relative to the folder of views.
    pub(crate) fn folder(self, signal: DType, level: usize) -> PathBuf {
        Path::new(&bucket(signal, level).to_string()).join(self.name())
    }

    fn metadata(self, signal: DType, rows: u64) -> serde_json::Value {
        let dtype = self.dtype(signal);
        let shape = [rows, self.columns()];
        let chunk = [CHUNK_ROWS, self.columns()];
        let field = match self {
            Self::Extrema => "extremum",
            Self::Moments => "moment",
        };
        zarr::view_array(dtype, field, shape, chunk, SHARD_CHUNKS)
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ViewOwner {
    pub(crate) store: Uuid,
    pub(crate) signal: SignalId,
}

#[derive(Debug)]
pub(crate) struct Files {
    pub(super) media: Arc<dyn Media>,
    pub(super) owner: ViewOwner,
    /// Changes when the signal moves.
    pub(super) folder: PathBuf,
    pub(super) format: SampleFormat,
    pub(super) dtype: DType,
    pub(super) unsynced: BTreeSet<PathBuf>,
    /// Folders with new entries since the last sync, relative to `folder`.
    pub(super) new_folders: BTreeSet<PathBuf>,
}

impl Files {
    /// The folder `signal` must exist before rows are written.
    pub(crate) fn new(
        media: Arc<dyn Media>,
        owner: ViewOwner,
        signal: &Path,
        format: SampleFormat,
    ) -> Self {
        Self {
            media,
            owner,
            folder: signal.join(FOLDER),
            format,
            dtype: format.dtype(),
            unsynced: BTreeSet::new(),
            new_folders: BTreeSet::new(),
        }
    }

    pub(crate) fn moved(&mut self, signal: &Path) {
        self.folder = signal.join(FOLDER);
    }

    pub(crate) fn format(&self) -> SampleFormat {
        self.format
    }

    pub(crate) fn media(&self) -> &dyn Media {
        &*self.media
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn shard(&self, array: Array, level: usize, shard: u64) -> PathBuf {
        array
            .folder(self.dtype, level)
            .join("c")
            .join(shard.to_string())
            .join("0")
    }

    fn pieces(
        &self,
        array: Array,
        first: u64,
        bytes: u64,
        mut each: impl FnMut(&Flat, FileRange, Range<usize>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let flat = array.flat(self.dtype);
        let mut at = 0;
        for span in flat.spans(first * array.row_bytes(self.dtype), bytes) {
            let end = at + span.len as usize;
            each(&flat, span, at..end)?;
            at = end;
        }
        Ok(())
    }

    fn read_array(
        &self,
        array: Array,
        level: usize,
        first: u64,
        out: &mut [u8],
    ) -> Result<(), StoreError> {
        self.pieces(array, first, out.len() as u64, |_, span, within| {
            let path = self.folder.join(self.shard(array, level, span.shard));
            let out = &mut out[within];
            let filled = match self.media.open(&path, Access::Read) {
                Ok(file) => {
                    self.check(&*file, &path, array, level, span.shard)?;
                    file.read_at(span.offset, out).at("read", &path)?
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
                Err(error) => return Err(error).at("read", &path),
            };
            out[filled..].fill(0);
            Ok(())
        })
    }

    fn write_array(
        &mut self,
        array: Array,
        level: usize,
        first: u64,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        let (mut shards, mut made) = (Vec::new(), Vec::new());
        self.pieces(array, first, bytes.len() as u64, |flat, span, within| {
            let name = self.shard(array, level, span.shard);
            let path = self.folder.join(&name);
            let file = match self.media.open(&path, Access::Write) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    let parent = path.parent().unwrap_or(&self.folder);
                    let signal = self.folder.parent().unwrap_or(&self.folder);
                    made.extend(
                        self.media
                            .make_folders(signal, parent)
                            .at("create", parent)?,
                    );
                    made.push(path.clone());
                    self.media.open(&path, Access::Create)
                }
                other => other,
            }
            .at("open", &path)?;
            let length = file.len().at("open", &path)?;
            if length < flat.payload_start {
                let header = self.header(array, level, span.shard);
                file.write_at(0, &flat.head(&header)).at("write", &path)?;
            } else {
                self.check(&*file, &path, array, level, span.shard)?;
            }
            // Zarr readers expect whole chunks.
            let needed = flat.file_len(span.offset + span.len - flat.payload_start);
            if length < needed {
                file.set_len(needed).at("extend", &path)?;
            }
            file.write_at(span.offset, &bytes[within])
                .at("write", &path)?;
            shards.push(name);
            Ok(())
        })?;
        self.unsynced.extend(shards);
        let parents = made
            .iter()
            .filter_map(|path| path.parent()?.strip_prefix(&self.folder).ok());
        self.new_folders.extend(parents.map(Path::to_path_buf));
        Ok(())
    }

    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        for name in &self.unsynced {
            let path = self.folder.join(name);
            let file = self.media.open(&path, Access::Write).at("open", &path)?;
            file.sync(Site::View).at("sync", &path)?;
        }
        for name in &self.new_folders {
            let path = self.folder.join(name);
            self.media
                .sync_folder(&path, Site::View)
                .at("sync", &path)?;
        }
        self.unsynced.clear();
        self.new_folders.clear();
        Ok(())
    }

    /// `zarr.json` of stored levels, by folder relative to that of views.
    pub(crate) fn descriptions(&self, built: i64) -> Vec<(PathBuf, serde_json::Value)> {
        let mut all = Vec::new();
        for level in 0..LEVELS {
            let rows = rows_stored(self.dtype, level, built);
            if rows == 0 {
                break;
            }
            let group = PathBuf::from(bucket(self.dtype, level).to_string());
            all.push((group, zarr::group(serde_json::Map::new())));
            all.extend(Array::BOTH.map(|array| {
                let folder = array.folder(self.dtype, level);
                (folder, array.metadata(self.dtype, rows))
            }));
        }
        all
    }

    pub(crate) fn project(&self, built: i64) -> Result<(), StoreError> {
        for level in 0..LEVELS {
            let rows = rows_stored(self.dtype, level, built);
            if rows == 0 {
                break;
            }
            let group = self.folder.join(bucket(self.dtype, level).to_string());
            if self.media.stat(&group).at("look up", &group)?.is_none() {
                // Rows entirely in a gap have no files.
                let signal = self.folder.parent().unwrap_or(&self.folder);
                self.media
                    .make_folders(signal, &group)
                    .at("create", &group)?;
            }
            self.replace(
                &group.join("zarr.json"),
                &zarr::to_bytes(&zarr::group(serde_json::Map::new())),
            )?;
            for array in Array::BOTH {
                let folder = self.folder.join(array.folder(self.dtype, level));
                self.media
                    .make_folders(&group, &folder)
                    .at("create", &folder)?;
                let metadata = zarr::to_bytes(&array.metadata(self.dtype, rows));
                self.replace(&folder.join("zarr.json"), &metadata)?;
            }
        }
        Ok(())
    }

    pub(crate) fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        if self
            .media
            .read(path, limits::METADATA)
            .at("read", path)?
            .as_deref()
            == Some(bytes)
        {
            return Ok(());
        }
        let tmp = path.with_extension("json.__tmp");
        crate::engine::io::replace_file(self.media(), &tmp, path, bytes, None)
    }

    pub(super) fn shards(&self, array: Array, level: usize) -> Result<Vec<u64>, StoreError> {
        let folder = self.folder.join(array.folder(self.dtype, level)).join("c");
        let names = match self.media.list(&folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            names => names.at("list", &folder)?,
        };
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    pub(crate) fn remove(&mut self) -> Result<(), StoreError> {
        self.unsynced.clear();
        self.new_folders.clear();
        self.media
            .remove_all(&self.folder)
            .at("remove", &self.folder)
    }
}

impl Rows for Files {
    fn read(
        &self,
        level: usize,
        first: u64,
        extrema: &mut [u8],
        moments: &mut [u8],
    ) -> Result<(), StoreError> {
        self.read_array(Array::Extrema, level, first, extrema)?;
        self.read_array(Array::Moments, level, first, moments)
    }

    fn present(&self, level: usize, rows: Range<u64>) -> Result<Vec<Range<u64>>, StoreError> {
        let length = SHARD_ROWS;
        let shards = rows.start / length..rows.end.div_ceil(length);
        // By shard: rows in the longer of its two files.
        let mut found = BTreeMap::<u64, u64>::new();
        for array in Array::BOTH {
            for shard in self.shards(array, level)? {
                if !shards.contains(&shard) {
                    continue;
                }
                let path = self.folder.join(self.shard(array, level, shard));
                if let Some(Kind::File(bytes)) = self.media.stat(&path).at("look at", &path)? {
                    let bytes = bytes.saturating_sub(array.flat(self.dtype).payload_start);
                    let used = bytes.div_ceil(array.row_bytes(self.dtype)).min(length);
                    let most = found.entry(shard).or_default();
                    *most = used.max(*most);
                }
            }
        }
        let stretches = found.into_iter().map(|(shard, used)| {
            let first = shard * length;
            first.max(rows.start)..(first + used).min(rows.end)
        });
        Ok(stretches.filter(|stretch| !stretch.is_empty()).collect())
    }
}

impl RowsMut for Files {
    fn write(
        &mut self,
        level: usize,
        first: u64,
        extrema: &[u8],
        moments: &[u8],
    ) -> Result<(), StoreError> {
        self.write_array(Array::Extrema, level, first, extrema)?;
        self.write_array(Array::Moments, level, first, moments)
    }
}
