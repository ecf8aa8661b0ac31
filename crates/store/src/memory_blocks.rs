//! Scratch samples held in memory, as whole blocks.
//!
//! Held samples are not in the files: to change them there, write them first.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use isochrony_segment::{Buffer, SegmentError};

/// Disjoint blocks by the index of their first sample.
#[derive(Debug, Default)]
pub(crate) struct MemoryBlocks {
    blocks: Mutex<BTreeMap<i64, (i64, Buffer)>>,
}

type Blocks<'a> = MutexGuard<'a, BTreeMap<i64, (i64, Buffer)>>;

impl MemoryBlocks {
    fn lock(&self) -> Blocks<'_> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// None of the samples may be held yet.
    pub(crate) fn keep(&self, range: &Range<i64>, block: Buffer) {
        self.lock().insert(range.start, (range.end, block));
    }

    pub(crate) fn within(&self, range: &Range<i64>) -> Vec<(Range<i64>, Buffer)> {
        let blocks = self.lock();
        overlapping(&blocks, range)
            .into_iter()
            .filter_map(|start| {
                let (end, block) = blocks.get(&start)?;
                Some((start..*end, block.clone()))
            })
            .collect()
    }

    pub(crate) fn cut(&self, range: &Range<i64>) {
        let mut blocks = self.lock();
        for start in overlapping(&blocks, range) {
            let Some((end, block)) = blocks.remove(&start) else {
                continue;
            };
            let Some(size) = usize::try_from(end - start)
                .ok()
                .and_then(|samples| block.len().checked_div(samples))
            else {
                continue;
            };
            let slice = |part: Range<i64>| {
                let byte = |index: i64| usize::try_from(index - start).unwrap_or(0) * size;
                block.slice(byte(part.start)..byte(part.end))
            };
            for rest in [start..range.start.min(end), range.end.max(start)..end] {
                if rest.start < rest.end
                    && let Some(part) = slice(rest.clone())
                {
                    blocks.insert(rest.start, (rest.end, part));
                }
            }
        }
    }

    /// Samples' bytes, of which `read` reads those not held; `None` if none is held. Within one block nothing is
    /// copied.
    pub(crate) fn read<E: From<SegmentError>>(
        &self,
        range: &Range<i64>,
        read: impl Fn(Range<i64>) -> Result<Buffer, E>,
    ) -> Result<Option<Buffer>, E> {
        let blocks = self.within(range);
        let mut parts: Vec<Buffer> = Vec::with_capacity(2 * blocks.len() + 1);
        let mut at = range.start;
        for (own, block) in &blocks {
            if at < own.start {
                parts.push(read(at..own.start)?);
            }
            let size = block.len() / usize::try_from(own.end - own.start).unwrap_or(1).max(1);
            let part = own.start.max(range.start)..own.end.min(range.end);
            let byte = |index: i64| usize::try_from(index - own.start).unwrap_or(0) * size;
            parts.extend(block.slice(byte(part.start)..byte(part.end)));
            at = part.end;
        }
        if blocks.is_empty() {
            return Ok(None);
        }
        if at < range.end {
            parts.push(read(at..range.end)?);
        }
        Ok(Some(match <[Buffer; 1]>::try_from(parts) {
            Ok([whole]) => whole,
            Err(parts) => Buffer::concat(parts.iter().map(Buffer::bytes))?,
        }))
    }
}

fn overlapping(blocks: &BTreeMap<i64, (i64, Buffer)>, range: &Range<i64>) -> Vec<i64> {
    if range.is_empty() {
        return Vec::new();
    }
    let before = blocks.range(..=range.start).next_back();
    let first = before
        .filter(|(_, (end, _))| *end > range.start)
        .map(|(start, _)| *start);
    let behind = blocks.range(range.start.saturating_add(1)..range.end);
    first
        .into_iter()
        .chain(behind.map(|(start, _)| *start))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        #[test]
        fn reads_what_a_list_of_samples_does(
            steps in prop::collection::vec((0i64..60, 1i64..20, any::<bool>()), 1..30),
        ) {
            const END: i64 = 80;
            let blocks = MemoryBlocks::default();
            let mut model = vec![None; END as usize];
            let mut next = 0u16;
            for (start, len, keeps) in steps {
                let range = start..start + len;
                let own = start as usize..(start + len) as usize;
                if keeps && model[own.clone()].iter().all(Option::is_none) {
                    let samples: Vec<u16> = own.clone().map(|_| { next += 1; next }).collect();
                    blocks.keep(&range, Buffer::copy_of(&samples).unwrap());
                    for (at, value) in own.zip(samples) {
                        model[at] = Some(value);
                    }
                } else {
                    blocks.cut(&range);
                    model[own].fill(None);
                }
                for from in 0..END {
                    for until in [from + 1, (from + 7).min(END), END] {
                        let absent = |part: Range<i64>| {
                            let count = (part.end - part.start) as usize;
                            Buffer::copy_of(&vec![0xffffu16; count])
                        };
                        let found = blocks.read(&(from..until), absent).unwrap();
                        let expected = &model[from as usize..until as usize];
                        let any = expected.iter().any(Option::is_some);
                        prop_assert_eq!(found.is_some(), any);
                        if let Some(found) = found {
                            let expected: Vec<u16> = expected.iter().map(|one| one.unwrap_or(0xffff)).collect();
                            prop_assert_eq!(found.samples::<u16>().unwrap(), &expected[..]);
                        }
                    }
                }
                prop_assert_eq!(blocks.is_empty(), model.iter().all(Option::is_none));
            }
        }
    }
}
