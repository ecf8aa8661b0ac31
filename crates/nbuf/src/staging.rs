//! Output waiting in memory for its turn, within a limit.

/// Staged output of one worker.
#[derive(Default)]
pub(crate) struct StagingBuffers {
    pub(crate) outputs: Vec<StagedOutput>,
    /// Bytes for all of them.
    memory: usize,
}

#[derive(Default)]
pub(crate) struct StagedOutput {
    /// The block is written before `bytes`.
    pub(crate) forwards_block: bool,
    pub(crate) bytes: Vec<u8>,
    /// `forwards_block` and the length of `bytes` when the current record began.
    pub(crate) record_start: (bool, usize),
}

impl StagedOutput {
    pub(crate) fn clear(&mut self) {
        self.forwards_block = false;
        self.bytes.clear();
        self.record_start = (false, 0);
    }
}

impl StagingBuffers {
    pub(crate) fn new(outputs: usize, memory: usize) -> Self {
        Self {
            outputs: (0..outputs).map(|_| StagedOutput::default()).collect(),
            memory,
        }
    }

    /// Maximum staged bytes. A little less than the memory if outputs share it; else memory would move back and forth
    /// between them.
    pub(crate) fn limit(&self) -> usize {
        if self.outputs.len() > 1 {
            self.memory - self.memory / 64
        } else {
            self.memory
        }
    }

    /// False if the system has no memory.
    pub(crate) fn reserve(&mut self, output: usize, more: usize) -> bool {
        let bytes = &self.outputs[output].bytes;
        let needed = bytes.len() + more;
        if needed <= bytes.capacity() {
            return true;
        }
        let free = self.memory - (self.allocated() - bytes.capacity()).min(self.memory);
        let wanted = if needed <= free {
            needed.max(bytes.capacity().saturating_mul(2)).min(free)
        } else {
            // The other outputs hold more than they use: divide what is unused equally.
            let used: usize = self.outputs.iter().map(|one| one.bytes.len()).sum();
            let each = self.memory.saturating_sub(used + more) / self.outputs.len();
            for (_, other) in (0..).zip(&mut self.outputs).filter(|(at, _)| *at != output) {
                other.bytes.shrink_to(other.bytes.len() + each);
            }
            needed + each
        };
        let bytes = &mut self.outputs[output].bytes;
        bytes.try_reserve_exact(wanted - bytes.len()).is_ok()
    }

    pub(crate) fn allocated(&self) -> usize {
        self.outputs.iter().map(|one| one.bytes.capacity()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocates_no_more_than_its_memory() {
        const MEMORY: usize = 64_000;
        for outputs in [1, 2, 7] {
            let mut staging = StagingBuffers::new(outputs, MEMORY);
            for turn in 0..3 * outputs {
                let mut used = 0;
                let (mut at, mut grown) = (turn, 0);
                while used + 10 <= staging.limit() {
                    let output = at % outputs;
                    let before = staging.outputs[output].bytes.capacity();
                    assert!(staging.reserve(output, 10));
                    let bytes = &mut staging.outputs[output].bytes;
                    grown += usize::from(bytes.capacity() != before);
                    bytes.extend_from_slice(&[7; 10]);
                    assert!(
                        staging.allocated() <= MEMORY,
                        "{} bytes",
                        staging.allocated()
                    );
                    used += 10;
                    at += usize::from(turn >= 2 * outputs);
                }
                assert!(grown < 40 * outputs, "{grown} times for {outputs} outputs");
                for one in &mut staging.outputs {
                    one.bytes.clear();
                }
            }
        }
    }
}
