//! Reads a store's content through an engine or a reader, to compare it with the model.

use std::cell::Cell;

use isochrony_segment::{Buffer, DType};
use isochrony_store::SampleFormat;
use isochrony_store::state::{GapTable, SignalState};

use super::*;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Content {
    pub(crate) id: u64,
    pub(crate) samples: Vec<Option<i16>>,
    pub(crate) events: BTreeMap<u64, String>,
    pub(crate) corrections: BTreeMap<u32, Correction>,
}

/// A clock correction, as far as cases change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Correction {
    pub(crate) is_removed: bool,
    /// Index and civil time of each point.
    pub(crate) points: Vec<(i64, i64)>,
}

pub(crate) type Model = BTreeMap<String, Content>;

pub(crate) fn rebuild(engine: &Engine, model: &Model) -> Model {
    let mut rebuilt = model.clone();
    for (name, content) in &mut rebuilt {
        let id = engine.new_id();
        content.id = id.0;
        let (name, meta) = (name.clone(), Box::new(meta()));
        engine.queue(Op::Create { id, name, meta }).unwrap();
        let mut start = 0;
        for stretch in content.samples.chunk_by(|a, b| a.is_some() == b.is_some()) {
            let end = start + stretch.len() as i64;
            if stretch[0].is_some() {
                let bytes = bytes_of(stretch);
                engine.write_samples(id, start, &bytes).unwrap();
                engine.queue(Op::Valid { id, start, end }).unwrap();
            } else {
                engine.queue(Op::Gap { id, start, end }).unwrap();
            }
            engine.queue(Op::End { id, end }).unwrap();
            start = end;
        }
        for (row, correction) in &content.corrections {
            let correction = Box::new(correction_row(*row, correction));
            engine.queue(Op::Correction { id, correction }).unwrap();
        }
        for (event, kind) in &content.events {
            let event = EventRow {
                id: *event,
                start: 0,
                end: 1,
                kind: kind.clone(),
                fields: "{}".into(),
            };
            engine.queue(Op::Event { id, event }).unwrap();
        }
    }
    engine.commit(false).unwrap();
    rebuilt
}

/// Ids depend on the store's history.
pub(crate) fn without_ids(model: &Model) -> Model {
    let mut model = model.clone();
    model.values_mut().for_each(|content| content.id = 0);
    model
}

fn content(
    id: SignalId,
    state: &SignalState,
    read: impl Fn(i64, usize) -> Result<Buffer, StoreError>,
) -> Result<Content, String> {
    let read = |start, count| read(start, count).map(|buffer| buffer.bytes().to_vec());
    let events = state.events.iter();
    Ok(Content {
        id: id.0,
        samples: samples(&state.gaps, state.end, read)?,
        events: events.map(|event| (event.id, event.kind.clone())).collect(),
        corrections: state
            .corrections
            .iter()
            .map(|row| correction(row))
            .collect(),
    })
}

fn correction(row: &CorrectionRow) -> (u32, Correction) {
    let points = row.points.iter().map(|point| (point.from.0, point.civil.0));
    let correction = Correction {
        is_removed: row.is_removed,
        points: points.collect(),
    };
    (row.id, correction)
}

pub(crate) fn read_back(engine: &Engine) -> Result<Model, String> {
    let mut model = Model::new();
    let say = |error: StoreError| format!("reading back: {error}");
    for (id, name) in engine.catalogue() {
        let state = engine.state(id).map_err(say)?;
        if *state.name != *name {
            return Err(format!("{name} says it is {}", state.name));
        }
        let content = content(id, &state, |start, count| engine.read(id, start, count))?;
        model.insert(name, content);
    }
    Ok(model)
}

pub(crate) fn read_by_reader(reader: &Reader) -> Result<Model, String> {
    let mut model = Model::new();
    let say = |error: StoreError| format!("reading: {error}");
    for (id, name) in reader.catalogue() {
        let state = reader.state(id).map_err(say)?;
        let content = content(id, &state, |start, count| reader.read(id, start, count))?;
        model.insert(name, content);
    }
    Ok(model)
}

pub(crate) fn samples(
    gaps: &GapTable,
    end: i64,
    read: impl Fn(i64, usize) -> Result<Vec<u8>, StoreError>,
) -> Result<Vec<Option<i16>>, String> {
    let mut out = vec![None; end as usize];
    let mut at = 0;
    while at < end {
        let gap = gaps.first_within(at..end);
        let stop = gap
            .map_or(end, |gap| gap.start)
            .min((at / SHARD + 1) * SHARD);
        if stop > at {
            let bytes =
                read(at, (stop - at) as usize).map_err(|error| format!("{at}..{stop}: {error}"))?;
            for (slot, pair) in out[at as usize..]
                .iter_mut()
                .zip(bytes.chunks_exact(format().size()))
            {
                let value = i16::from_le_bytes([pair[0], pair[1]]);
                if *pair != *stored(value) {
                    return Err(format!("{at}..{stop}: a sample is {pair:?}"));
                }
                *slot = Some(value);
            }
        }
        at = match gap {
            Some(gap) if gap.start <= stop && gap.start == stop => gap.end(),
            _ => stop,
        };
    }
    Ok(out)
}

/// Full chunks with samples must have the checksum of their bytes, gaps as zero; others that or none.
pub(crate) fn check_crcs(engine: &Engine, model: &Model) -> Result<(), String> {
    for (name, content) in model {
        let crc_of = |chunk| engine.chunk_crc(SignalId(content.id), chunk);
        check_signal_crcs(name, &content.samples, crc_of)?;
        let tail = engine.tail_crc(SignalId(content.id));
        if let Some((end, found)) = tail.map_err(|error| error.to_string())? {
            let first = (end - 1) / CHUNK * CHUNK;
            let summed = content.samples.get(first as usize..end as usize);
            let summed = summed.ok_or_else(|| format!("a checksum of {name} reaches to {end}"))?;
            if found != crc32c::crc32c(&bytes_of(summed)) {
                return Err(format!("checksum of {name}[{first}..{end}] is {found}"));
            }
        }
    }
    Ok(())
}

pub(crate) fn check_signal_crcs(
    name: &str,
    samples: &[Option<i16>],
    crc_of: impl Fn(u64) -> Result<Option<u32>, StoreError>,
) -> Result<(), String> {
    for (chunk, values) in samples.chunks_exact(CHUNK as usize).enumerate() {
        if values.iter().all(Option::is_none) {
            continue;
        }
        let found = crc_of(chunk as u64).map_err(|error| error.to_string())?;
        if found != Some(crc32c::crc32c(&bytes_of(values))) {
            return Err(format!("checksum of {name} chunk {chunk} is {found:?}"));
        }
    }
    Ok(())
}

pub(crate) fn bytes_of(samples: &[Option<i16>]) -> Vec<u8> {
    let zeros = || vec![0; format().size()];
    let bytes = samples.iter().map(|x| x.map_or_else(zeros, stored));
    bytes.flatten().collect()
}

thread_local! {
    static FORMAT: Cell<SampleFormat> = const { Cell::new(SampleFormat::Plain(DType::I16)) };
}

pub(crate) fn format() -> SampleFormat {
    FORMAT.get()
}

pub(crate) fn use_format(format: SampleFormat) {
    FORMAT.set(format);
}

/// The parts of a pair differ.
pub(crate) fn stored(value: i16) -> Vec<u8> {
    let pair = [value.to_le_bytes(), (!value).to_le_bytes()];
    pair.as_flattened()[..format().size()].to_vec()
}

pub(crate) fn difference(have: &Model, want: &Model) -> Option<String> {
    if !have.keys().eq(want.keys()) {
        return Some(format!(
            "signals {:?}, not {:?}",
            have.keys().collect::<Vec<_>>(),
            want.keys().collect::<Vec<_>>()
        ));
    }
    for ((name, a), b) in have.iter().zip(want.values()) {
        if a.id != b.id {
            return Some(format!("{name} is signal {}, not {}", a.id, b.id));
        }
        if a.samples.len() != b.samples.len() {
            return Some(format!(
                "{name} has {} samples, not {}",
                a.samples.len(),
                b.samples.len()
            ));
        }
        if let Some(at) = (0..a.samples.len()).find(|at| a.samples[*at] != b.samples[*at]) {
            return Some(format!(
                "{name}[{at}] is {:?}, not {:?}",
                a.samples[at], b.samples[at]
            ));
        }
        if a.corrections != b.corrections {
            return Some(format!(
                "{name} has corrections {:?}, not {:?}",
                a.corrections, b.corrections
            ));
        }
        if a.events != b.events {
            return Some(format!(
                "{name} has events {:?}, not {:?}",
                a.events, b.events
            ));
        }
    }
    None
}

pub(crate) fn bytes_at(media: &Arc<dyn Media>, path: &Path) -> Vec<u8> {
    media.read(path, u64::MAX).unwrap().unwrap_or_default()
}

pub(crate) fn files_below(media: &Arc<dyn Media>, folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for name in media.list(folder).unwrap() {
        let path = folder.join(name);
        match media.stat(&path).unwrap() {
            Some(Kind::Folder) => out.extend(files_below(media, &path)),
            Some(Kind::File(_)) => out.push(path),
            None => {}
        }
    }
    out
}
