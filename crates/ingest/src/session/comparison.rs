//! Compares a changed source with what is stored of it, and takes only the rest.
//!
//! Samples come in the same order as before, so they are compared one by one with those stored from the source's first
//! index on. Those that agree in value, and in time if stamped, are not stored again.

use isochrony_time::{Fixed, Stamp};

use super::sources::Part;
use super::target::Target;
use super::{Block, Session};
use crate::IngestError;

#[derive(Debug, Clone, Copy)]
pub(super) struct SourceComparison {
    index: i64,
    left: i64,
    same: i64,
}

impl Session {
    /// Leading samples of a block that are stored from the same source.
    pub(super) fn count_stored(
        &mut self,
        source: u64,
        block: &Block<'_>,
    ) -> Result<usize, IngestError> {
        let key = (source, block.signal.to_owned());
        let mut compared = match self.comparisons.get(&key) {
            Some(compared) => *compared,
            None => self.begin_comparison(block)?,
        };
        let mut same = 0;
        if compared.left > 0
            && let Some(target) = self.targets.get(block.signal)
        {
            let size = block.spec.format.size();
            let samples = block.bytes.len() / size;
            let most = usize::try_from(compared.left).map_or(samples, |left| left.min(samples));
            let index;
            (same, index) =
                target.same_from(compared.index, &block.bytes[..most * size], block.stamp)?;
            compared.left -= same as i64;
            compared.same += same as i64;
            if same < most {
                if block.stamp.is_none() && compared.same > 0 {
                    return Err(IngestError::Rewritten {
                        signal: block.signal.into(),
                        samples: compared.same,
                    });
                }
                compared.left = 0;
            }
            if same > 0
                && let Some(source) = self.sources.get_mut(&source)
            {
                let part = source.parts.entry(block.signal.into());
                part.or_insert_with(|| Part::at(compared.index))
                    .count(same as i64, index);
            }
            compared.index = index;
        }
        self.comparisons.insert(key, compared);
        Ok(same)
    }

    pub(super) fn is_compared(&self, source: u64, signal: &str) -> bool {
        let compared = self.comparisons.get(&(source, signal.to_owned()));
        compared.is_some_and(|compared| compared.left == 0)
    }

    fn begin_comparison(&mut self, block: &Block<'_>) -> Result<SourceComparison, IngestError> {
        let known = self.known.as_ref();
        let mut compared = SourceComparison {
            index: 0,
            left: 0,
            same: 0,
        };
        if known.is_some_and(|known| known.get(block.source).is_some()) {
            let known = self.take_known(block.signal)?;
            if let Some(before) = known.get(block.source) {
                compared.index = before.index;
                compared.left = before.samples;
            }
            self.keep_known(block.signal, known);
        }
        Ok(compared)
    }
}

impl Target {
    /// How many samples equal those stored from `index` on, and the index after them; none if `stamp` differs.
    fn same_from(
        &self,
        index: i64,
        bytes: &[u8],
        stamp: Option<Stamp>,
    ) -> Result<(usize, i64), IngestError> {
        let signal = self.signal()?;
        let size = self.format().size();
        let (mut rest, mut at, mut first) = (bytes, index, true);
        let end = signal.end_index();
        if index < 0 || index >= end {
            return Ok((0, index));
        }
        'stored: for segment in signal.select(index..end)?.segments() {
            let segment = segment?;
            if std::mem::take(&mut first) && !self.is_taken_at(segment.start(), stamp)? {
                break;
            }
            at = segment.start();
            for buffer in segment.buffers() {
                let stored = buffer.bytes();
                let common = stored.len().min(rest.len());
                let same = stored[..common]
                    .chunks_exact(size)
                    .zip(rest.chunks_exact(size))
                    .take_while(|(stored, given)| stored == given)
                    .count();
                at += same as i64;
                rest = &rest[same * size..];
                if rest.is_empty() || same * size < common {
                    break 'stored;
                }
            }
        }
        Ok(((bytes.len() - rest.len()) / size, at))
    }

    /// Within half a sample and the stamp's resolution.
    fn is_taken_at(&self, index: i64, stamp: Option<Stamp>) -> Result<bool, IngestError> {
        let Some(stamp) = stamp else {
            return Ok(true);
        };
        let Ok(time) = self.signal()?.time_of(index) else {
            return Ok(false);
        };
        let slack = self.duration(1)?.floor_i64().unwrap_or(i64::MAX) / 2;
        let slack = Fixed::from_int(slack);
        let from = stamp.civil.checked_sub(slack);
        let to = stamp.civil.checked_add(stamp.resolution);
        let to = to.and_then(|to| to.checked_add(slack));
        let Some((from, to)) = from.zip(to) else {
            return Ok(false);
        };
        Ok((from..=to).contains(&time.value))
    }
}
