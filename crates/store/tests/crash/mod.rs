//! A seeded workload on an engine, beside a model in memory that says what must be there.
#![allow(dead_code)] // Each test file uses its part.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use isochrony_segment::DType;
use isochrony_store::StoreError;
use isochrony_store::engine::{Engine, OpenMode, Reader};
use isochrony_store::layout;
use isochrony_store::media::sim::Dice;
use isochrony_store::media::{Access, Kind, Media};
use isochrony_store::meta::{ClockSettings, SignalMeta};
use isochrony_store::op::{EventRow, Op, RunReason, RunRow, SignalId};
use isochrony_time::Rate;

pub(crate) const CHUNK: i64 = 4096;
pub(crate) const SHARD: i64 = 4 * CHUNK;

/// A signal as the model knows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Content {
    pub(crate) id: u64,
    /// Samples; `None` is a gap.
    pub(crate) samples: Vec<Option<i16>>,
    /// Events by id: kind.
    pub(crate) events: BTreeMap<u64, String>,
}

/// A store as the model knows it: signals by name.
pub(crate) type Model = BTreeMap<String, Content>;

pub(crate) fn meta() -> SignalMeta {
    SignalMeta {
        dtype: DType::I16,
        rate: Rate::from_hz(2000).unwrap(),
        unit: "kPa".into(),
        calibration: None,
        chunk_samples: CHUNK as u64,
        shard_chunks: 4,
        codec: String::new(),
        clock: ClockSettings {
            alpha: 0.1,
            gap_slip_ns: None,
            max_gap_ns: 1,
            initial_rate: None,
        },
        attributes: "{}".into(),
    }
}

/// One workload: what it knows, and what it did.
pub(crate) struct Work {
    pub(crate) dice: Dice,
    /// With pending changes.
    pub(crate) model: Model,
    /// As last acknowledged.
    pub(crate) acknowledged: Model,
    /// Whether a commit began and was not acknowledged.
    pub(crate) in_doubt: bool,
    /// Commits acknowledged.
    pub(crate) commits: u64,
    /// Called when a commit begins.
    pub(crate) before_commit: Option<Box<dyn FnMut()>>,
    /// Operations queued so far, for those who debug a seed.
    pub(crate) steps: Vec<String>,
    next_value: i16,
    next_event: u64,
    next_name: u64,
}

impl Work {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            dice: Dice(seed),
            model: Model::new(),
            acknowledged: Model::new(),
            in_doubt: false,
            commits: 0,
            before_commit: None,
            steps: Vec::new(),
            next_value: 1,
            next_event: 0,
            next_name: 0,
        }
    }

    fn values(&mut self, count: i64) -> Vec<i16> {
        (0..count)
            .map(|_| {
                self.next_value = self.next_value.wrapping_add(1);
                self.next_value
            })
            .collect()
    }

    fn some_signal(&mut self) -> Option<String> {
        let names: Vec<&String> = self.model.keys().collect();
        if names.is_empty() {
            return None;
        }
        let at = self.dice.below(names.len() as u64) as usize;
        Some(names[at].clone())
    }

    /// One random change, or a commit.
    pub(crate) fn step(&mut self, engine: &Engine) -> Result<(), StoreError> {
        let roll = self.dice.below(100);
        let Some(name) = self.some_signal().filter(|_| roll > 3) else {
            return self.create(engine);
        };
        self.steps.push(format!("{roll} {name}"));
        match roll {
            4..35 => self.append(engine, &name),
            35..42 => self.gap(engine, &name),
            42..49 => self.fill(engine, &name),
            49..53 => self.invalidate(engine, &name),
            53..57 => self.replace_shard(engine, &name),
            57..59 => self.replace_data(engine, &name),
            59..62 => self.rename(engine, &name),
            62..64 => self.remove(engine, &name),
            64..70 => self.event(engine, &name),
            70..72 => self.roll_back(engine),
            72..75 => engine.checkpoint(),
            _ => self.commit(engine),
        }
    }

    pub(crate) fn commit(&mut self, engine: &Engine) -> Result<(), StoreError> {
        self.in_doubt = true;
        self.before_commit.iter_mut().for_each(|tell| tell());
        let publish = self.dice.chance(50);
        engine.commit(publish)?;
        self.acknowledged.clone_from(&self.model);
        self.in_doubt = false;
        self.commits += 1;
        self.steps.push("committed".into());
        Ok(())
    }

    fn roll_back(&mut self, engine: &Engine) -> Result<(), StoreError> {
        engine.rollback()?;
        self.model.clone_from(&self.acknowledged);
        Ok(())
    }

    fn create(&mut self, engine: &Engine) -> Result<(), StoreError> {
        if self.model.len() >= 4 {
            return Ok(());
        }
        self.next_name += 1;
        // Names come back after removals, so that folders of different signals meet.
        let name = match self.next_name % 4 {
            0 => "net/a".to_owned(),
            1 => "net/b".to_owned(),
            2 => "c".to_owned(),
            _ => "deep/er/d".to_owned(),
        };
        if self.model.contains_key(&name) {
            return Ok(());
        }
        let id = engine.new_id();
        let content = Content {
            id: id.0,
            ..Content::default()
        };
        let meta = Box::new(meta());
        engine.queue(Op::Create {
            id,
            name: name.clone(),
            meta,
        })?;
        self.model.insert(name, content);
        Ok(())
    }

    pub(crate) fn append(&mut self, engine: &Engine, name: &str) -> Result<(), StoreError> {
        let count = match self.dice.below(10) {
            0 => 33_000 + self.dice.below(9_000) as i64,
            1..4 => 1 + self.dice.below(3 * CHUNK as u64) as i64,
            _ => 1 + self.dice.below(200) as i64,
        };
        let start = self.model[name].samples.len() as i64;
        self.put(engine, name, start, count)
    }

    /// Writes new samples over the end or a gap.
    fn put(
        &mut self,
        engine: &Engine,
        name: &str,
        start: i64,
        count: i64,
    ) -> Result<(), StoreError> {
        let values = self.values(count);
        let content = self.model.get_mut(name).unwrap();
        let id = SignalId(content.id);
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        engine.write_samples(id, start, &bytes)?;
        let end = start + count;
        engine.queue(Op::Valid { id, start, end })?;
        if end > content.samples.len() as i64 {
            engine.queue(Op::End { id, end })?;
            let run = RunRow {
                id: 0,
                start: 0,
                end,
                reason: RunReason::First,
            };
            engine.queue(Op::Run { id, run })?;
            content.samples.resize(end as usize, None);
        }
        for (at, value) in values.into_iter().enumerate() {
            content.samples[start as usize + at] = Some(value);
        }
        Ok(())
    }

    fn gap(&mut self, engine: &Engine, name: &str) -> Result<(), StoreError> {
        let length = 1 + match self.dice.below(3) {
            0 => self.dice.below(4 * SHARD as u64),
            _ => self.dice.below(2 * CHUNK as u64),
        } as i64;
        let content = self.model.get_mut(name).unwrap();
        let id = SignalId(content.id);
        let start = content.samples.len() as i64;
        let end = start + length;
        engine.queue(Op::Gap { id, start, end })?;
        engine.queue(Op::End { id, end })?;
        content.samples.resize(end as usize, None);
        Ok(())
    }

    fn fill(&mut self, engine: &Engine, name: &str) -> Result<(), StoreError> {
        // What is free must be free in the committed state, too: pending samples cannot be written twice.
        let content = &self.model[name];
        let old = self.acknowledged.values().find(|old| old.id == content.id);
        let free = |at: usize| {
            content.samples[at].is_none()
                && old.is_none_or(|old| old.samples.get(at).copied().flatten().is_none())
        };
        let Some(first) = (0..content.samples.len()).find(|at| free(*at)) else {
            return Ok(());
        };
        let room = (first..content.samples.len())
            .take_while(|at| free(*at))
            .count() as u64;
        let from = first as u64 + self.dice.below(room);
        let most =
            (first as u64 + room - from).min(if self.dice.chance(15) { 40_000 } else { 300 });
        let count = 1 + self.dice.below(most) as i64;
        self.put(engine, name, from as i64, count)
    }

    fn invalidate(&mut self, engine: &Engine, name: &str) -> Result<(), StoreError> {
        let content = self.model.get_mut(name).unwrap();
        if content.samples.is_empty() {
            return Ok(());
        }
        let start = self.dice.below(content.samples.len() as u64) as usize;
        let most = (content.samples.len() - start).min(2 * CHUNK as usize);
        let end = start + 1 + self.dice.below(most as u64) as usize;
        let id = SignalId(content.id);
        engine.queue(Op::Gap {
            id,
            start: start as i64,
            end: end as i64,
        })?;
        content.samples[start..end].fill(None);
        Ok(())
    }

    /// Writes in place: a copy of a shard with other samples, published by rename.
    fn replace_shard(&mut self, engine: &Engine, name: &str) -> Result<(), StoreError> {
        let content = &self.model[name];
        let id = SignalId(content.id);
        let shards = (content.samples.len() as i64 / SHARD + 1) as u64;
        let shard = self.dice.below(shards);
        let media = engine.media().clone();
        let from = shard as i64 * SHARD;
        let to = (from + SHARD).min(content.samples.len() as i64);
        // Decided by the model alone, so that the same seed does the same on any medium.
        if from >= to
            || content.samples[from as usize..to as usize]
                .iter()
                .all(Option::is_none)
        {
            return Ok(());
        }
        let old = engine.data_shard_path(id, shard)?;
        let (tmp, path) = engine.new_tmp();
        let place = |source| StoreError::Io {
            action: "copy",
            path: path.clone(),
            source,
        };
        let bytes = media.read(&old).map_err(place)?.unwrap_or_default();
        let file = media.open(&path, Access::CreateNew).map_err(place)?;
        file.write_at(0, &bytes).map_err(place)?;
        let start = from + self.dice.below((to - from) as u64) as i64;
        let count = 1 + self.dice.below(((to - start) as u64).min(100)) as i64;
        let mut samples = self.model[name].samples.clone();
        for (at, value) in (start..).zip(self.values(count)) {
            if samples[at as usize].is_some() {
                let offset = 65_536 + 2 * (at - from) as u64;
                file.write_at(offset, &value.to_le_bytes()).map_err(place)?;
                samples[at as usize] = Some(value);
            }
        }
        engine.queue(Op::ReplaceShard { id, shard, tmp })?;
        self.model.get_mut(name).unwrap().samples = samples;
        Ok(())
    }

    /// Puts a copy of the whole array in its place, as sealing does.
    fn replace_data(&mut self, engine: &Engine, name: &str) -> Result<(), StoreError> {
        let id = SignalId(self.model[name].id);
        let media = engine.media().clone();
        let shards = (self.model[name].samples.len() as i64 / SHARD + 1) as u64;
        let (tmp, path) = engine.new_tmp();
        let place = |source| StoreError::Io {
            action: "copy",
            path: path.clone(),
            source,
        };
        media.make_folder(&path).map_err(place)?;
        media.make_folder(&path.join("c")).map_err(place)?;
        for shard in 0..shards {
            let old = engine.data_shard_path(id, shard)?;
            if let Some(bytes) = media.read(&old).map_err(place)? {
                let new = layout::shard_file(&path, shard);
                let file = media.open(&new, Access::CreateNew).map_err(place)?;
                file.write_at(0, &bytes).map_err(place)?;
            }
        }
        engine.queue(Op::ReplaceData {
            id,
            tmp,
            codec: String::new(),
        })
    }

    fn rename(&mut self, engine: &Engine, name: &str) -> Result<(), StoreError> {
        let other = self.some_signal().unwrap_or_default();
        let id = |model: &Model, name: &str| SignalId(model[name].id);
        if other != name && self.dice.chance(50) {
            let (a, b) = (id(&self.model, name), id(&self.model, &other));
            for (id, to) in [(a, "swap"), (b, name), (a, other.as_str())] {
                engine.queue(Op::Rename { id, to: to.into() })?;
            }
            let (x, y) = (self.model.remove(name), self.model.remove(&other));
            self.model
                .extend([(name.to_owned(), y.unwrap()), (other, x.unwrap())]);
            return Ok(());
        }
        let to = format!("moved/{}", self.dice.below(3));
        if self.model.contains_key(&to) {
            return Ok(());
        }
        let id = id(&self.model, name);
        engine.queue(Op::Rename { id, to: to.clone() })?;
        let content = self.model.remove(name).unwrap();
        self.model.insert(to, content);
        Ok(())
    }

    fn remove(&mut self, engine: &Engine, name: &str) -> Result<(), StoreError> {
        let id = SignalId(self.model[name].id);
        engine.queue(Op::Remove { id })?;
        self.model.remove(name);
        Ok(())
    }

    fn event(&mut self, engine: &Engine, name: &str) -> Result<(), StoreError> {
        let content = self.model.get_mut(name).unwrap();
        let id = SignalId(content.id);
        if self.dice.chance(30)
            && let Some((event, _)) = content.events.pop_first()
        {
            return engine.queue(Op::EventRemove { id, event });
        }
        self.next_event += 1;
        let event = EventRow {
            id: self.next_event,
            start: 0,
            end: 1,
            kind: format!("k{}", self.dice.below(1000)),
            fields: "{}".into(),
        };
        content.events.insert(event.id, event.kind.clone());
        engine.queue(Op::Event { id, event })
    }
}

/// Puts a model into an empty store; gives it with the numbers that the signals have there.
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
                let bytes: Vec<u8> = stretch
                    .iter()
                    .flat_map(|x| x.unwrap().to_le_bytes())
                    .collect();
                engine.write_samples(id, start, &bytes).unwrap();
                engine.queue(Op::Valid { id, start, end }).unwrap();
            } else {
                engine.queue(Op::Gap { id, start, end }).unwrap();
            }
            engine.queue(Op::End { id, end }).unwrap();
            start = end;
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

/// The model without the signals' numbers, which depend on what else the store went through.
pub(crate) fn without_ids(model: &Model) -> Model {
    let mut model = model.clone();
    model.values_mut().for_each(|content| content.id = 0);
    model
}

/// What an opened store says.
pub(crate) fn read_back(engine: &Engine) -> Result<Model, String> {
    let mut model = Model::new();
    let say = |error: StoreError| format!("reading back: {error}");
    for (id, name) in engine.catalogue() {
        let state = engine.state(id).map_err(say)?;
        if *state.name != *name {
            return Err(format!("{name} says it is {}", state.name));
        }
        let samples = samples(&state.gaps, state.end, |start, count| {
            engine
                .read(id, start, count)
                .map(|buffer| buffer.bytes().to_vec())
        })?;
        let events = state
            .events
            .iter()
            .map(|event| (event.id, event.kind.clone()))
            .collect();
        let id = id.0;
        model.insert(
            name,
            Content {
                id,
                samples,
                events,
            },
        );
    }
    Ok(model)
}

/// What a reader says.
pub(crate) fn read_by_reader(reader: &Reader) -> Result<Model, String> {
    let mut model = Model::new();
    let say = |error: StoreError| format!("reading: {error}");
    for (id, name) in reader.catalogue() {
        let state = reader.state(id).map_err(say)?;
        let samples = samples(&state.gaps, state.end, |start, count| {
            reader
                .read(id, start, count)
                .map(|buffer| buffer.bytes().to_vec())
        })?;
        let events = state
            .events
            .iter()
            .map(|event| (event.id, event.kind.clone()))
            .collect();
        model.insert(
            name,
            Content {
                id: id.0,
                samples,
                events,
            },
        );
    }
    Ok(model)
}

fn samples(
    gaps: &isochrony_store::state::GapTable,
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
            for (slot, pair) in out[at as usize..].iter_mut().zip(bytes.chunks_exact(2)) {
                *slot = Some(i16::from_le_bytes([pair[0], pair[1]]));
            }
        }
        at = match gap {
            Some(gap) if gap.start <= stop && gap.start == stop => gap.end(),
            _ => stop,
        };
    }
    Ok(out)
}

/// Every full chunk with samples has the checksum of its bytes, gaps taken as zero; the rest has that or none.
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

fn check_signal_crcs(
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

fn bytes_of(samples: &[Option<i16>]) -> Vec<u8> {
    let bytes = samples.iter().map(|x| x.unwrap_or(0).to_le_bytes());
    bytes.flatten().collect()
}

/// Where two models differ, in few words.
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
        if a.events != b.events {
            return Some(format!(
                "{name} has events {:?}, not {:?}",
                a.events, b.events
            ));
        }
    }
    None
}

/// Copies a file of the medium; for tests that look at bytes.
pub(crate) fn bytes_at(media: &Arc<dyn Media>, path: &Path) -> Vec<u8> {
    media.read(path).unwrap().unwrap_or_default()
}

/// All files below a folder.
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

pub(crate) fn open(root: &Path, media: Arc<dyn Media>) -> Result<Engine, StoreError> {
    Engine::open_on(root, OpenMode::CreateIfMissing, media)
}
