//! [`LostTrials`]: threads and replicas with which a plan was slower in a trial.
//!
//! They outlast a change of the load. Where another program makes throughput vary, a prediction would otherwise undo at
//! once what a trial found, again and again.

use crate::Configuration;

const MAX_REMEMBERED: usize = 16;

/// The newest ones.
#[derive(Default)]
pub(super) struct LostTrials(Vec<(usize, Vec<usize>)>);

impl LostTrials {
    /// `slower` lost against `faster`.
    pub(super) fn add(&mut self, slower: &Configuration, faster: &Configuration) {
        let (slower, faster) = (size_of(slower), size_of(faster));
        self.0.retain(|one| *one != slower && *one != faster);
        if slower == faster {
            return;
        }
        if self.0.len() == MAX_REMEMBERED {
            self.0.remove(0);
        }
        self.0.push(slower);
    }

    pub(super) fn contains(&self, configuration: &Configuration) -> bool {
        self.0.contains(&size_of(configuration))
    }
}

fn size_of(configuration: &Configuration) -> (usize, Vec<usize>) {
    (configuration.workers, configuration.replicas.clone())
}
