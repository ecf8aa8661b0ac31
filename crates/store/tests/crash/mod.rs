//! A seeded workload on an engine, next to a model of the expected content.
#![allow(dead_code)] // Each test file uses its part.

mod content;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use isochrony_store::StoreError;
use isochrony_store::engine::{Engine, OpenMode, Reader};
use isochrony_store::layout;
use isochrony_store::media::sim::Dice;
use isochrony_store::media::{Access, Kind, Media};
use isochrony_store::meta::{ClockSettings, SignalMeta};
use isochrony_store::op::{
    CorrectionPointRow, CorrectionRow, EventRow, Op, RunReason, RunRow, SignalId,
};
use isochrony_time::Rate;

#[allow(unused_imports)] // Each test file uses its part.
pub(crate) use content::*;

pub(crate) const CHUNK: i64 = 4096;
pub(crate) const SHARD: i64 = 4 * CHUNK;

pub(crate) fn meta() -> SignalMeta {
    SignalMeta {
        format: format(),
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

pub(crate) struct Work {
    pub(crate) dice: Dice,
    pub(crate) model: Model,
    pub(crate) acknowledged: Model,
    /// Begun and not acknowledged.
    pub(crate) in_doubt: bool,
    pub(crate) commits: u64,
    pub(crate) before_commit: Option<Box<dyn FnMut()>>,
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
            64..67 => self.event(engine, &name),
            67..70 => self.correct(engine, &name),
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
        // Names recur after removals: different signals use the same folder.
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
        let bytes: Vec<u8> = values.iter().flat_map(|x| stored(*x)).collect();
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
        let run = RunRow {
            id: 0,
            start: 0,
            end,
            reason: RunReason::First,
        };
        engine.queue(Op::Run { id, run })?;
        content.samples.resize(end as usize, None);
        Ok(())
    }

    fn fill(&mut self, engine: &Engine, name: &str) -> Result<(), StoreError> {
        // It must be free in the committed state too: pending samples cannot be written twice.
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

    /// Replaces it by a renamed copy with other samples.
    fn replace_shard(&mut self, engine: &Engine, name: &str) -> Result<(), StoreError> {
        let content = &self.model[name];
        let id = SignalId(content.id);
        let shards = (content.samples.len() as i64 / SHARD + 1) as u64;
        let shard = self.dice.below(shards);
        let media = engine.media().clone();
        let from = shard as i64 * SHARD;
        let to = (from + SHARD).min(content.samples.len() as i64);
        // Depends only on the model: a seed does the same on any medium.
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
        let bytes = media
            .read(&old, u64::MAX)
            .map_err(place)?
            .unwrap_or_default();
        let file = media.open(&path, Access::CreateNew).map_err(place)?;
        file.write_at(0, &bytes).map_err(place)?;
        let start = from + self.dice.below((to - from) as u64) as i64;
        let count = 1 + self.dice.below(((to - start) as u64).min(100)) as i64;
        let mut samples = self.model[name].samples.clone();
        for (at, value) in (start..).zip(self.values(count)) {
            if samples[at as usize].is_some() {
                let offset = 4096 + (format().size() as i64 * (at - from)) as u64;
                file.write_at(offset, &stored(value)).map_err(place)?;
                samples[at as usize] = Some(value);
            }
        }
        engine.queue(Op::ReplaceShard { id, shard, tmp })?;
        self.model.get_mut(name).unwrap().samples = samples;
        Ok(())
    }

    /// Replaces it by a copy, as sealing does.
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
        let shards_folder = layout::data_shards(&path, format());
        if shards_folder != path {
            media.make_folder(&shards_folder).map_err(place)?;
        }
        for shard in 0..shards {
            let old = engine.data_shard_path(id, shard)?;
            if let Some(bytes) = media.read(&old, u64::MAX).map_err(place)? {
                let new = layout::data_shard_file(&path, format(), shard);
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

    /// Corrects the clock, or removes a correction.
    fn correct(&mut self, engine: &Engine, name: &str) -> Result<(), StoreError> {
        let number = self.dice.below(1000) as i64;
        let removes = self.dice.chance(30);
        let content = self.model.get_mut(name).unwrap();
        let id = SignalId(content.id);
        let next = content.corrections.keys().last().map_or(0, |last| last + 1);
        let row = match removes {
            true => next.saturating_sub(1),
            false => next,
        };
        let correction = content.corrections.entry(row).or_insert(Correction {
            is_removed: false,
            points: vec![(0, number), (number + 1, 2 * number)],
        });
        correction.is_removed = removes;
        let correction = Box::new(correction_row(row, correction));
        engine.queue(Op::Correction { id, correction })
    }
}

pub(crate) fn correction_row(id: u32, correction: &Correction) -> CorrectionRow {
    let points = correction.points.iter();
    CorrectionRow {
        id,
        run: None,
        is_removed: correction.is_removed,
        method: 0,
        shape: 0,
        wander_ppt: 0,
        to: None,
        points: points
            .map(|&(index, civil)| CorrectionPointRow {
                from_time: false,
                from: (index, 0),
                civil: (civil, 0),
                uncertainty: None,
                to: (civil, 0),
                is_outlier: false,
            })
            .collect(),
    }
}

pub(crate) fn open(root: &Path, media: Arc<dyn Media>) -> Result<Engine, StoreError> {
    Engine::open_on(root, OpenMode::CreateIfMissing, media)
}
