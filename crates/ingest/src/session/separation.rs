use super::sources::Part;
use super::{Block, Session};
use crate::IngestError;

impl Session {
    /// A source without times begins a run; a signal has civil time in all of its runs or in none.
    pub(super) fn separate(&mut self, source: u64, block: &Block<'_>) -> Result<(), IngestError> {
        let part = self
            .sources
            .get(&source)
            .and_then(|source| source.parts.get(block.signal));
        let stored = part.map(Part::end);
        let Some(target) = self.targets.get_mut(block.signal) else {
            return Ok(());
        };
        if target.fed_by == Some(source) {
            return Ok(());
        }
        let signal = target.signal()?;
        let end = signal.end_index();
        if end == 0 || stored == Some(end) {
            return Ok(());
        }
        let signal_is_timed = !signal.state().fit.is_empty();
        if block.stamp.is_none() && !signal_is_timed {
            return target.begin_run();
        }
        if block.stamp.is_some() != signal_is_timed && stored.is_none() {
            return Err(IngestError::MixedTime {
                signal: block.signal.into(),
                signal_is_timed,
            });
        }
        Ok(())
    }
}
