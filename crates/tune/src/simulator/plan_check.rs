//! Checks of a [`SimulatedPlan`].

use super::link::MAX_SOURCES;
use super::{SimulatedLink, SimulatedPlan, SimulatedSource};
use crate::TuneError;

pub(super) type SourceSet = Vec<bool>;

impl SimulatedPlan {
    /// Checks values, paths, and that stages cannot deadlock.
    ///
    /// # Errors
    /// [`TuneError::Parameter`]; [`TuneError::UnknownServer`] for an unknown stage; [`TuneError::NoSources`].
    pub fn check(&self) -> Result<(), TuneError> {
        self.check_links()?;
        self.check_stages()?;
        self.check_changes()?;
        self.check_paths()?;
        self.check_joins()
    }

    fn check_stages(&self) -> Result<(), TuneError> {
        for (number, stage) in self.stages.iter().enumerate() {
            let place = |field: &str| format!("stages[{number}].{field}");
            stage.service.check(&place("service"))?;
            if let Some(SimulatedSource::Arrivals { interval, .. }) = &stage.source {
                let place = place("source.interval");
                interval.check(&place)?;
                if interval.mean() <= 0.0 {
                    return Err(TuneError::parameter(place, interval.mean(), "above 0"));
                }
            }
            for (field, value) in [
                ("max_replicas", stage.max_replicas),
                ("burst_items", stage.burst_items),
            ] {
                if value == 0 {
                    return Err(TuneError::parameter(place(field), value, "at least 1"));
                }
            }
            let bytes = stage.memory_bytes;
            if !(bytes.is_finite() && bytes >= 0.0) {
                let allowed = "finite and at least 0";
                return Err(TuneError::parameter(place("memory_bytes"), bytes, allowed));
            }
            let inputs = self.links.iter().filter(|link| link.to == number).count();
            let is_last = number + 1 == self.stages.len();
            if stage.max_replicas > 1 && (inputs != 1 || stage.source.is_some() || is_last) {
                return Err(TuneError::parameter(
                    place("max_replicas"),
                    stage.max_replicas,
                    "1 for the last stage, for one with a source, and for one without exactly one link in",
                ));
            }
        }
        Ok(())
    }

    fn check_links(&self) -> Result<(), TuneError> {
        let stages = self.stages.len();
        for (number, link) in self.links.iter().enumerate() {
            let place = |field: &str| format!("links[{number}].{field}");
            for (field, index) in [("from", link.from), ("to", link.to)] {
                if index >= stages {
                    return Err(TuneError::UnknownServer {
                        place: place(field),
                        index,
                        servers: stages,
                    });
                }
            }
            if link.to <= link.from {
                let allowed = format!(
                    "above from={}: number stages in the order of the flow",
                    link.from
                );
                return Err(TuneError::parameter(place("to"), link.to, allowed));
            }
            if !(link.gain.is_finite() && link.gain > 0.0) {
                let allowed = "finite and above 0";
                return Err(TuneError::parameter(place("gain"), link.gain, allowed));
            }
            if link.item_bytes == 0 {
                return Err(TuneError::parameter(place("item_bytes"), 0, "at least 1"));
            }
        }
        Ok(())
    }

    fn check_changes(&self) -> Result<(), TuneError> {
        let mut last = 0.0;
        for (number, change) in self.changes.iter().enumerate() {
            let place = |field: &str| format!("changes[{number}].{field}");
            if change.stage >= self.stages.len() {
                return Err(TuneError::UnknownServer {
                    place: place("stage"),
                    index: change.stage,
                    servers: self.stages.len(),
                });
            }
            if !(change.at_s.is_finite() && change.at_s >= last) {
                let allowed =
                    format!("finite and at least {last}, the time of the change before it");
                return Err(TuneError::parameter(place("at_s"), change.at_s, allowed));
            }
            if !(change.factor.is_finite() && change.factor > 0.0) {
                let allowed = "finite and above 0";
                return Err(TuneError::parameter(
                    place("factor"),
                    change.factor,
                    allowed,
                ));
            }
            last = change.at_s;
        }
        Ok(())
    }

    /// Items enter every stage and reach the last; something takes time.
    fn check_paths(&self) -> Result<(), TuneError> {
        match self.source_stages().count() {
            0 => return Err(TuneError::NoSources),
            1..=MAX_SOURCES => {}
            count => {
                let allowed = format!("1 to {MAX_SOURCES}");
                return Err(TuneError::parameter("stages with a source", count, allowed));
            }
        }
        for (number, stage) in self.stages.iter().enumerate() {
            let has_input = self.links.iter().any(|link| link.to == number);
            let has_output = self.links.iter().any(|link| link.from == number);
            let problem = match number + 1 == self.stages.len() {
                _ if stage.source.is_none() && !has_input => {
                    "a stage with a source or a link in: give it one, or remove it"
                }
                false if !has_output => {
                    "a stage with a link out, since it is not the last: add one, for example to the last stage"
                }
                _ => continue,
            };
            return Err(TuneError::parameter(
                format!("stages[{number}]"),
                &stage.name,
                problem,
            ));
        }
        let sets = self.source_sets();
        let takes_time = |source: usize| {
            let mut stages = self.stages.iter().zip(&sets);
            stages.any(|(stage, set)| set[source] && stage.service.mean() > 0.0)
        };
        for (number, stage) in self.stages.iter().enumerate() {
            if stage.source == Some(SimulatedSource::Endless) && !takes_time(number) {
                return Err(TuneError::parameter(
                    format!("stages[{number}].source"),
                    "endless",
                    "finite or arrivals where no stage that its items reach takes time",
                ));
            }
        }
        Ok(())
    }

    /// Rejects deadlocks: a stage that waits for one source while it has items of another can hold that one up. A cycle
    /// of waits needs sources joined by two paths of such stages: a forest has none.
    fn check_joins(&self) -> Result<(), TuneError> {
        let sources = self.source_sets();
        // Sources that meet in a stage share a tree.
        let mut tree: Vec<usize> = (0..self.stages.len()).collect();
        for stage in (0..self.stages.len()).filter(|&stage| self.waits_in_step(&sources, stage)) {
            let own = self.stages[stage].source.as_ref();
            let mut met: Vec<usize> = own.map(|_| tree[stage]).into_iter().collect();
            for link in self.inputs(stage) {
                let mut of_link: Vec<usize> = (0..self.stages.len())
                    .filter(|&source| sources[link.from][source])
                    .map(|source| tree[source])
                    .collect();
                of_link.sort_unstable();
                of_link.dedup();
                if let Some(&again) = of_link.iter().find(|root| met.contains(*root)) {
                    return Err(TuneError::parameter(
                        format!("stages[{stage}]"),
                        format!(
                            "a second place where items of the source in stage {again} meet others"
                        ),
                        "the only one for these sources, or stages could wait for each other without end: let the \
                         sources meet in one stage",
                    ));
                }
                met.extend(of_link);
            }
            if let Some(&root) = met.first() {
                for tree in tree.iter_mut().filter(|tree| met.contains(tree)) {
                    *tree = root;
                }
            }
        }
        Ok(())
    }

    pub(super) fn source_stages(&self) -> impl Iterator<Item = usize> {
        let stages = self.stages.iter().enumerate();
        let with = stages.filter(|(_, stage)| stage.source.is_some());
        with.map(|(number, _)| number)
    }

    pub(super) fn inputs(&self, stage: usize) -> impl Iterator<Item = &SimulatedLink> {
        self.links.iter().filter(move |link| link.to == stage)
    }

    pub(super) fn source_sets(&self) -> Vec<SourceSet> {
        let mut sets = vec![vec![false; self.stages.len()]; self.stages.len()];
        for (stage, of_stage) in self.stages.iter().enumerate() {
            sets[stage][stage] |= of_stage.source.is_some();
            let own = sets[stage].clone();
            for link in self.links.iter().filter(|link| link.from == stage) {
                for (to, from) in sets[link.to].iter_mut().zip(&own) {
                    *to |= from;
                }
            }
        }
        sets
    }

    /// The inputs have no common source.
    pub(super) fn waits_in_step(&self, sources: &[SourceSet], stage: usize) -> bool {
        let mut seen: SourceSet = vec![false; self.stages.len()];
        seen[stage] = self.stages[stage].source.is_some();
        let mut inputs = usize::from(seen[stage]);
        for link in self.inputs(stage) {
            inputs += 1;
            for (seen, &own) in seen.iter_mut().zip(&sources[link.from]) {
                if *seen && own {
                    return false;
                }
                *seen |= own;
            }
        }
        inputs > 1
    }
}
