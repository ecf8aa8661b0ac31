//! Reads and writes the table files of a signal's state.

use std::path::{Path, PathBuf};

use super::expected_tables::ExpectedTables;
use super::io::{IoContext, failed, fresh_file, unique};
use super::missing_table::MissingTable;
use super::slot::{Base, SlotInner};
use super::table_stamps::{TableStamps, stamp_of};
use crate::error::StoreError;
use crate::layout::table::{Geometry, ROWS, TEXT, TEXT_ARRAY, TableFile};
use crate::layout::zarr;
use crate::media::{Access, Media, Site, limits};
use crate::op::{SignalId, TableStamp};
use crate::state::{EVENTS, FIT, GAPS, POINTS, RUNS, SignalState, TABLES, Table};

pub(crate) struct LoadedTables {
    tables: Vec<Table>,
    /// Missing tables, unless the log has their rows.
    missing: Vec<MissingTable>,
    /// The signal's folder if missing: the signal would seem to have no gaps.
    gone: Option<PathBuf>,
    pub(crate) sequence: u64,
    pub(crate) stamps: TableStamps,
}

/// Does not check tables newer than the last known record.
pub(crate) fn read(
    media: &dyn Media,
    folder: &Path,
    id: SignalId,
    expected: &ExpectedTables<'_>,
) -> Result<LoadedTables, StoreError> {
    let (mut tables, mut missing) = (Vec::new(), Vec::new());
    let (mut sequence, mut stamps) = (0, TableStamps::default());
    let mut has_file = false;
    for name in TABLES {
        if let Some(compact) = expected.compact.filter(|_| name != GAPS) {
            tables.extend(compact.get(name).cloned());
            continue;
        }
        let columns = Table::columns_of(name).unwrap_or(1);
        let text = name == EVENTS;
        let (row_bytes, choices) = shape(columns, text);
        let path = folder.join(file_of(name));
        let mut bytes = media.read(&path, limits::TABLE).at("read", &path)?;
        if bytes.is_none()
            && let Some(lost) = MissingTable::find(media, folder, name, &path, expected.rows(name))?
        {
            // A writer may have created it meanwhile: files exist before anything refers to them.
            bytes = media.read(&path, limits::TABLE).at("read", &path)?;
            if bytes.is_none() {
                missing.push(lost);
            }
        }
        let Some(bytes) = bytes else {
            continue;
        };
        has_file = true;
        let file = TableFile::decode(&bytes, row_bytes, choices).map_err(|(offset, reason)| {
            StoreError::DamagedFile {
                path: path.clone(),
                offset,
                reason,
            }
        })?;
        let stamp = stamp_of(name, 8 * columns as u64, &file);
        if file.sequence <= expected.last || file.signal != id.0 {
            expected.check(id, name, &path, &file, &stamp)?;
        }
        sequence = sequence.max(file.sequence);
        stamps.set(name, Some(stamp));
        let (rows, text) = if text {
            (file.attachment, file.rows)
        } else {
            (file.rows, Vec::new())
        };
        tables.push(Table {
            name,
            columns,
            rows: numbers(&rows),
            text,
        });
    }
    let gone = !has_file && media.stat(folder).at("look at", folder)?.is_none();
    Ok(LoadedTables {
        tables,
        missing,
        gone: gone.then(|| folder.into()),
        sequence,
        stamps,
    })
}

impl LoadedTables {
    /// No gap may reach beyond `longest`: tables may be newer than the base until the log is replayed.
    pub(crate) fn state(
        &self,
        id: SignalId,
        base: &Base,
        longest: i64,
    ) -> Result<SignalState, StoreError> {
        if let Some(path) = &self.gone {
            return Err(StoreError::MissingFolder {
                signal: base.name.to_string(),
                path: path.clone(),
            });
        }
        let meta = (*base.meta).clone();
        let state = SignalState::from_tables(id, &base.name, meta, longest, &self.tables);
        let mut state = match (state, self.missing.first()) {
            // A missing table may make another impossible.
            (Err(StoreError::DamagedTable { .. }), Some(missing)) => {
                return Err(missing.error(&base.name));
            }
            (state, _) => state?,
        };
        state.end = base.end;
        state.data = base.data.clone();
        Ok(state)
    }

    pub(crate) fn watch(&mut self, state: &SignalState) {
        self.missing
            .iter_mut()
            .for_each(|missing| missing.watch(state));
    }

    /// Fails if rows of a missing table are not in the log. `untouched`: the log does not mention the signal.
    ///
    /// # Errors
    /// [`StoreError::MissingTable`].
    pub(crate) fn check(&self, signal: &str, untouched: bool) -> Result<(), StoreError> {
        match self
            .missing
            .iter()
            .find(|missing| missing.is_lost(untouched))
        {
            Some(missing) => Err(missing.error(signal)),
            None => Ok(()),
        }
    }
}

#[derive(Debug)]
pub(crate) struct StagedTable {
    pub(crate) tmp: PathBuf,
    path: PathBuf,
    array: &'static str,
    json: serde_json::Value,
}

/// Stamp of a table, `None` without a file.
pub(crate) type NamedStamp = (&'static str, Option<TableStamp>);

impl SlotInner {
    /// The table is durable once its folder is synced.
    pub(crate) fn write_table(
        &mut self,
        media: &dyn Media,
        tmp: &Path,
        table: &Table,
        sequence: u64,
    ) -> Result<(), StoreError> {
        let mut staged = Vec::new();
        self.stage_table(media, tmp, table, sequence, &mut staged)?;
        for staged in staged {
            let file = media
                .open(&staged.tmp, Access::Write)
                .at("open", &staged.tmp)?;
            file.sync(Site::Table).at("sync", &staged.tmp)?;
            self.put_in_place(media, tmp, &staged)?;
        }
        Ok(())
    }

    /// Writes a table to `tmp`, to be synced and renamed into place. Gives the new stamp; `None` if it is empty and has
    /// no file.
    pub(crate) fn stage_table(
        &mut self,
        media: &dyn Media,
        tmp: &Path,
        table: &Table,
        sequence: u64,
        staged: &mut Vec<StagedTable>,
    ) -> Result<NamedStamp, StoreError> {
        let row_bytes = 8 * table.columns as u64;
        let mut file = TableFile {
            signal: self.id.0,
            sequence,
            rows: bytes_of(&table.rows),
            attachment: Vec::new(),
        };
        if table.name == EVENTS {
            let text = TableFile {
                rows: table.text.clone(),
                attachment: file.rows,
                ..file
            };
            let array = self.stage_array(media, tmp, TEXT_ARRAY, 1, &text)?;
            let stamp = (array.is_some()).then(|| stamp_of(EVENTS, row_bytes, &text));
            staged.extend(array);
            file = TableFile {
                rows: text.attachment,
                attachment: Vec::new(),
                ..text
            };
            staged.extend(self.stage_array(media, tmp, table.name, table.columns, &file)?);
            return Ok((EVENTS, stamp));
        }
        let array = self.stage_array(media, tmp, table.name, table.columns, &file)?;
        let stamp = (array.is_some()).then(|| stamp_of(table.name, row_bytes, &file));
        staged.extend(array);
        Ok((table.name, stamp))
    }

    fn stage_array(
        &mut self,
        media: &dyn Media,
        tmp: &Path,
        array: &'static str,
        columns: usize,
        table: &TableFile,
    ) -> Result<Option<StagedTable>, StoreError> {
        let is_text = array == TEXT_ARRAY;
        let (row_bytes, choices) = shape(columns, is_text);
        let path = self.folder.join(match array {
            EVENTS => format!("{EVENTS}/c/0/0"),
            TEXT_ARRAY => file_of(EVENTS),
            name => file_of(name),
        });
        let is_empty = table.rows.is_empty() && table.attachment.is_empty();
        if is_empty && media.stat(&path).at("look at", &path)?.is_none() {
            return Ok(None);
        }
        let rows = table.rows.len() as u64 / row_bytes;
        let geometry =
            Geometry::for_rows(row_bytes, rows, choices).ok_or(StoreError::TooLarge {
                what: "a signal's table",
                bytes: table.rows.len() as u128,
                limit: choices.last().map_or(0, |&(rows, chunks)| {
                    u128::from(rows) * u128::from(chunks) * u128::from(row_bytes)
                }),
            })?;
        let encoded = table.encode(geometry);
        let parent = path.parent().unwrap_or(&path).to_path_buf();
        if let Ok(inside) = parent.strip_prefix(&self.folder) {
            let inside = inside.to_path_buf();
            self.subfolder(media, &inside)?;
            self.dirty.folders.insert(inside);
        }
        let tmp = unique(tmp, "table");
        let file = fresh_file(media, &tmp)?;
        let write = || {
            file.write_at(0, &encoded.head)?;
            file.write_at(encoded.payload_start, &table.rows)?;
            file.set_len(encoded.len)?;
            file.write_at(encoded.attachment_at, &table.attachment)
        };
        if let Err(error) = write() {
            let _ = media.remove_file(&tmp);
            return Err(failed(error, "write", &tmp));
        }
        let json = if is_text {
            zarr::text_array(rows, geometry)
        } else {
            zarr::table_array(array, columns as u64, rows, geometry)
        };
        Ok(Some(StagedTable {
            tmp,
            path,
            array,
            json,
        }))
    }

    /// The table is durable once both folders are synced.
    pub(crate) fn put_in_place(
        &mut self,
        media: &dyn Media,
        tmp: &Path,
        staged: &StagedTable,
    ) -> Result<(), StoreError> {
        media
            .rename(&staged.tmp, &staged.path)
            .at("replace", &staged.path)?;
        self.project(media, tmp, staged.array, &staged.json);
        Ok(())
    }

    /// Stamps table files that an earlier version's log does not mention.
    pub(crate) fn note_tables(&mut self, media: &dyn Media) {
        let expected = ExpectedTables::exactly(&self.base);
        let raw = read(media, &self.folder, self.id, &expected);
        self.base.tables = raw.ok().and_then(|raw| {
            let state = raw.state(self.id, &self.base, self.base.end).ok()?;
            raw.check(&state.name, true).ok()?;
            Some(raw.stamps)
        });
    }

    /// Replaces a `zarr.json` if it differs. Not durable, errors ignored: the next publication or recovery repeats it.
    pub(crate) fn project(
        &mut self,
        media: &dyn Media,
        tmp: &Path,
        array: &str,
        json: &serde_json::Value,
    ) -> bool {
        let bytes = zarr::to_bytes(json);
        let crc = crc32c::crc32c(&bytes);
        if self.projected.get(array) == Some(&crc) {
            return true;
        }
        let folder = if array.is_empty() {
            self.folder.clone()
        } else {
            self.folder.join(array)
        };
        let tmp = unique(tmp, "zarr");
        let path = folder.join("zarr.json");
        let done = self.subfolder(media, Path::new(array)).is_ok()
            && super::io::replace_file(media, &tmp, &path, &bytes, None).is_ok();
        if done {
            self.projected.insert(array.to_owned(), crc);
        } else {
            self.projected.remove(array);
        }
        done
    }
}

fn file_of(name: &str) -> String {
    match name {
        EVENTS => format!("{TEXT_ARRAY}/c/0"),
        name => format!("{name}/c/0/0"),
    }
}

fn shape(columns: usize, text: bool) -> (u64, &'static [(u64, u64)]) {
    if text {
        (1, &TEXT)
    } else {
        (8 * columns as u64, &ROWS)
    }
}

fn bytes_of(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn numbers(bytes: &[u8]) -> Vec<i64> {
    bytes
        .chunks_exact(8)
        .map(|x| x.try_into().map(i64::from_le_bytes).unwrap_or_default())
        .collect()
}

pub(crate) fn folders() -> impl Iterator<Item = PathBuf> {
    let tables = TABLES.map(|name| format!("{name}/c/0"));
    let arrays = [
        "data/c".to_owned(),
        "crc/c".to_owned(),
        format!("{TEXT_ARRAY}/c"),
    ];
    tables.into_iter().chain(arrays).flat_map(|path| {
        let all: Vec<PathBuf> = Path::new(&path)
            .ancestors()
            .map(Path::to_path_buf)
            .collect();
        all
    })
}

/// Path in the signal's folder and columns, for other programs.
pub(crate) fn arrays() -> impl Iterator<Item = (&'static str, usize)> {
    [GAPS, RUNS, POINTS, FIT]
        .into_iter()
        .map(|name| (name, Table::columns_of(name).unwrap_or(1)))
}

/// Array and path in the signal's folder, for verification.
#[must_use]
pub fn table_files() -> [(&'static str, String); TABLES.len()] {
    TABLES.map(|name| (name, file_of(name)))
}

/// `name`: the table's folder.
pub(crate) fn decode(name: &str, bytes: &[u8]) -> Result<TableFile, (u64, &'static str)> {
    let columns = Table::columns_of(name).unwrap_or(1);
    let (row_bytes, choices) = shape(columns, name == TEXT_ARRAY);
    TableFile::decode(bytes, row_bytes, choices)
}

/// The `zarr.json` of a table of `rows`, or [`TEXT_ARRAY`] of so many bytes. `None` if impossible.
pub(crate) fn description(name: &'static str, rows: u64) -> Option<serde_json::Value> {
    if name == TEXT_ARRAY {
        return Some(zarr::text_array(rows, Geometry::for_rows(1, rows, &TEXT)?));
    }
    let columns = Table::columns_of(name)? as u64;
    let geometry = Geometry::for_rows(8 * columns, rows, &ROWS)?;
    Some(zarr::table_array(name, columns, rows, geometry))
}

/// Building all tables is expensive for a long signal.
pub(crate) fn gaps(state: &SignalState) -> Table {
    Table {
        name: GAPS,
        columns: 2,
        rows: state.gaps.rows(),
        text: Vec::new(),
    }
}
