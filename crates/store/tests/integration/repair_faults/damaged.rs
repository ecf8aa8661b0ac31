//! A store with several kinds of damage on the simulated medium, and its expected content.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use isochrony_segment::DType;
use isochrony_store::media::sim::SimMedia;
use isochrony_store::media::{Access, Site};
use isochrony_store::{CreateOptions, Mode, SignalWriter, Store, VerifyOptions};
use isochrony_time::{Rate, civil};

pub(crate) const ROOT: &str = "/disk/store.iso";

const SHARD: i64 = 32_768 * 128;
/// Bytes before a shard's samples.
const HEAD: u64 = 4096;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum DamagedStore {
    Closed,
    /// Killed, with a damaged last record: a commit with appends is lost.
    Killed,
    /// Likewise, and the commit removed samples.
    KilledAfterGap,
}

fn ramp(count: i64) -> Vec<i16> {
    (0..count)
        .map(|number| (number % 9973) as i16 + 1)
        .collect()
}

fn create(store: &Store, name: &str, count: i64) {
    let mut options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    options.start = Some(civil::parse("2020-01-01T00:00:00Z").unwrap());
    let writer = store.create(name, &options).unwrap();
    writer.append(&ramp(count)).unwrap();
    let fields = serde_json::Map::new();
    writer.add_event("noted", 5..6, &fields).unwrap();
}

pub(crate) fn damaged(damage: DamagedStore) -> SimMedia {
    let media = SimMedia::new(7);
    let root = Path::new(ROOT);
    media.media().make_folder(Path::new("/disk")).unwrap();
    let store = Store::open_on(root, Mode::Create, media.media()).unwrap();
    for name in ["cut", "notes", "flip", "group/meta", "lost", "table"] {
        // Long enough to have tables in files.
        create(
            &store,
            name,
            if name == "notes" { 600_000 } else { 100_000 },
        );
    }
    for name in ["shard", "table"] {
        if name == "shard" {
            create(&store, name, 5000);
        }
        let writer = store.writer(name).unwrap();
        writer
            .append_gap(2 * SHARD - 2_000 - writer.signal().unwrap().end_index())
            .unwrap();
        writer.append(&ramp(5000)).unwrap();
    }
    store.commit(true).unwrap();
    store.close().unwrap();
    drop(store);
    let media = match damage {
        DamagedStore::Closed => media,
        DamagedStore::Killed => lose_a_commit(&media, |lost| _ = lost.append(&ramp(70)).unwrap()),
        DamagedStore::KilledAfterGap => {
            lose_a_commit(&media, |lost| lost.mark_invalid(100..200).unwrap())
        }
    };
    let disk = media.media();
    disk.remove_file(&at("shard/data/c/1")).unwrap();
    disk.remove_file(&at("group/meta/data/zarr.json")).unwrap();
    disk.remove_file(&at("group/zarr.json")).unwrap();
    disk.remove_file(&at("table/gaps/c/0/0")).unwrap();
    disk.remove_file(&at("notes/events/table/c/0/0")).unwrap();
    let cut = disk.open(&at("cut/data/c/0"), Access::Write).unwrap();
    cut.set_len(HEAD + 2 * 40_000).unwrap();
    flip(&media, &at("flip/data/c/0"), HEAD + 70_000);
    media.settle();
    media
}

fn at(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

fn flip(media: &SimMedia, path: &Path, offset: u64) {
    let file = media.media().open(path, Access::Write).unwrap();
    let mut byte = [0];
    file.read_at(offset, &mut byte).unwrap();
    file.write_at(offset, &[byte[0] ^ 1]).unwrap();
    file.sync(Site::BulkShard).unwrap();
}

/// A bit of the last record flips; it changed the signal `lost`.
fn lose_a_commit(media: &SimMedia, change: impl FnOnce(&SignalWriter)) -> SimMedia {
    let store = Store::open_on(Path::new(ROOT), Mode::ReadWrite, media.media()).unwrap();
    store.writer("shard").unwrap().append(&ramp(5)).unwrap();
    store.commit(true).unwrap();
    change(&store.writer("lost").unwrap());
    store.commit(true).unwrap();
    let media = media.kill();
    drop(store);
    let engine = at(".isochrony");
    let names = media.media().list(&engine).unwrap();
    let log = names.iter().find(|name| name.starts_with("log.")).unwrap();
    let log = engine.join(log);
    let bytes = media.media().read(&log, u64::MAX).unwrap().unwrap();
    // After the last record the length is 0.
    let length = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let mut at = (20 + length(12)).next_multiple_of(8);
    while length(at) != 0 {
        at = (at + 16 + length(at)).next_multiple_of(8);
    }
    flip(&media, &log, at as u64 - 9);
    media
}

/// Content, and what is still wrong with it.
#[derive(Debug, PartialEq)]
pub(crate) struct StoreContents {
    findings: Vec<(&'static str, PathBuf, String)>,
    signals: BTreeMap<String, SignalContents>,
}

#[derive(PartialEq)]
struct SignalContents {
    end: i64,
    gaps: Vec<(i64, i64)>,
    samples: Vec<i16>,
    events: Vec<(i64, i64, String, String)>,
    error: Option<&'static str>,
}

impl std::fmt::Debug for SignalContents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            end,
            gaps,
            events,
            error,
            ..
        } = self;
        let sum = crc32c::crc32c(
            &self
                .samples
                .iter()
                .flat_map(|x| x.to_le_bytes())
                .collect::<Vec<_>>(),
        );
        write!(f, "{end} {gaps:?} {events:?} {error:?} {sum:08x}")
    }
}

pub(crate) fn store_contents(media: &SimMedia) -> StoreContents {
    let store = Store::open_on(Path::new(ROOT), Mode::Read, media.media()).unwrap();
    let options = VerifyOptions {
        signals: None,
        deep: true,
    };
    let report = store.verify(&options).unwrap();
    let findings = report.findings.into_iter();
    let findings = findings.map(|one| (one.code, one.path, format!("{:?}", one.range)));
    let signals = store.names().unwrap().into_iter().map(|name| {
        let content = content(&store, &name);
        (name, content)
    });
    StoreContents {
        findings: findings.collect(),
        signals: signals.collect(),
    }
}

fn content(store: &Store, name: &str) -> SignalContents {
    let signal = match store.signal(name) {
        Ok(signal) => signal,
        Err(error) => {
            return SignalContents {
                end: 0,
                gaps: Vec::new(),
                samples: Vec::new(),
                events: Vec::new(),
                error: Some(error.code()),
            };
        }
    };
    let end = signal.end_index();
    let segments = signal.select(0..end).unwrap();
    let samples = segments
        .segments()
        .map(|part| part.unwrap().to_vec::<i16>().unwrap());
    let samples = samples.collect::<Vec<_>>().concat();
    let events = signal.events();
    SignalContents {
        end,
        gaps: signal
            .gaps()
            .iter()
            .map(|gap| (gap.start, gap.end()))
            .collect(),
        samples,
        events: events
            .map(|event| {
                (
                    event.start,
                    event.end,
                    event.kind.clone(),
                    event.fields.clone(),
                )
            })
            .collect(),
        error: None,
    }
}
