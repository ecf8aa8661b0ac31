//! Copies the files of sealed arrays.

use std::path::Path;

use serde_json::Value;

use crate::engine::io::{IoContext, replace_file};
use crate::error::StoreError;
use crate::interrupt;
use crate::layout::shard::{HEADER_LEN, HeaderBlock, ShardHeader};
use crate::layout::{data_shard_number, data_shards, zarr};
use crate::media::{Access, Kind, Media, Site, limits};
use crate::op::SignalId;
use crate::sample_format::SampleFormat;
use crate::version::FileVersion;

const BLOCK: usize = 4 << 20;

pub(super) fn copy_folder(
    (theirs, from): (&dyn Media, &Path),
    (media, to): (&dyn Media, &Path),
) -> Result<(), StoreError> {
    media.make_folder(to).at("create", to)?;
    for name in theirs.list(from).at("list", from)? {
        let (from, to) = (from.join(&name), to.join(&name));
        match theirs.stat(&from).at("look at", &from)? {
            Some(Kind::Folder) => copy_folder((theirs, &from), (media, &to))?,
            Some(Kind::File(_)) => copy_file((theirs, &from), (media, &to))?,
            None => {}
        }
    }
    media
        .sync_folder(to, Site::ReplacementFolder)
        .at("sync", to)
}

pub(super) fn set_version(
    media: &dyn Media,
    folder: &Path,
    (id, format): (SignalId, SampleFormat),
    tmp: &str,
) -> Result<(), StoreError> {
    let path = folder.join("zarr.json");
    let bytes = media.read(&path, limits::METADATA).at("read", &path)?;
    let json: Option<Value> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let Some(mut json) = json.filter(Value::is_object) else {
        return Err(StoreError::DamagedFile {
            path,
            offset: 0,
            reason: "it is no JSON",
        });
    };
    let version = FileVersion::of_replacement(tmp);
    set_shard_versions(media, folder, format, version)?;
    json["attributes"]["isochrony"] = zarr::data_identity(id, version);
    let named = folder.join("zarr.json.__tmp");
    let site = Some(Site::ReplacementFile);
    replace_file(media, &named, &path, &zarr::to_bytes(&json), site)?;
    media
        .sync_folder(folder, Site::ReplacementFolder)
        .at("sync", folder)
}

/// Shards of earlier versions have no header.
fn set_shard_versions(
    media: &dyn Media,
    array: &Path,
    format: SampleFormat,
    version: FileVersion,
) -> Result<(), StoreError> {
    let folder = &data_shards(array, format);
    if media.stat(folder).at("look at", folder)?.is_none() {
        return Ok(());
    }
    for name in media.list(folder).at("list", folder)? {
        if data_shard_number(format, &name).is_none() {
            continue;
        }
        let path = folder.join(name);
        let file = media.open(&path, Access::Write).at("open", &path)?;
        let mut bytes = [0; HEADER_LEN as usize];
        let count = file.read_at(0, &mut bytes).at("read", &path)?;
        if let HeaderBlock::Header(header) = HeaderBlock::decode(&bytes[..count]) {
            let header = ShardHeader { version, ..header };
            file.write_at(0, &header.encode()).at("write", &path)?;
            file.sync(Site::ReplacementFile).at("sync", &path)?;
        }
    }
    Ok(())
}

fn copy_file(
    (theirs, from): (&dyn Media, &Path),
    (media, to): (&dyn Media, &Path),
) -> Result<(), StoreError> {
    let source = theirs.open(from, Access::Read).at("open", from)?;
    let target = media.open(to, Access::CreateNew).at("create", to)?;
    let mut block = vec![0; BLOCK];
    let mut at = 0;
    loop {
        interrupt::check("back up")?;
        let count = source.read_at(at, &mut block).at("read", from)?;
        if count == 0 {
            break;
        }
        target.write_at(at, &block[..count]).at("write", to)?;
        at += count as u64;
    }
    target.sync(Site::ReplacementFile).at("sync", to)
}
