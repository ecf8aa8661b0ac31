//! A run on its host: fetches inputs one by one, computes, reports.

use super::engine::{Engine, Event, Source};
use crate::{HostId, ObjectId, Policy};

impl Engine<'_> {
    pub(crate) fn next_input(&mut self, run: u32) {
        let state = self.run(run);
        let Some(input) = state.decision.inputs.get(state.at) else {
            return self.compute(run);
        };
        let (object, host) = (input.object, state.decision.host);
        if !self.caches() {
            return self.read_storage(run);
        }
        let there = self.host(host);
        if there.cache.get(&object).is_some() {
            self.report.inputs.local += 1;
            return self.read_local(run);
        }
        if let Some(waiting) = there.fetching.get_mut(&object) {
            waiting.push(run);
            return;
        }
        there.fetching.insert(object, Vec::new());
        let state = self.run(run);
        let sources = state.decision.inputs[state.at].sources.clone();
        let limit = self.cluster.max_transfers;
        let source = sources.into_iter().find(|&source| {
            let peer = self.host(source);
            let has = !peer.removed && peer.cache.get(&object).is_some();
            has && source != host && peer.link.len() < limit
        });
        match source {
            Some(source) => self.read_peer(run, source),
            None if self.cluster.passes_on && self.policy != Policy::FirstAvailable => {
                if let Some(waiting) = self.passed_on.get_mut(&object) {
                    waiting.push(run);
                } else {
                    self.passed_on.insert(object, Vec::new());
                    self.read_storage(run);
                }
            }
            None => self.read_storage(run),
        }
    }

    /// Others get the object from the host, if it has cache space and a free transfer.
    fn pass_on(&mut self, object: ObjectId, from: HostId) {
        for run in self.passed_on.remove(&object).unwrap_or_default() {
            let limit = self.cluster.max_transfers;
            let peer = self.host(from);
            if peer.cache.get(&object).is_some() && peer.link.len() < limit {
                self.read_peer(run, from);
            } else {
                self.read_storage(run);
            }
        }
    }

    fn compute(&mut self, run: u32) {
        let (host, processors) = (self.run(run).decision.host, self.cluster.processors);
        let there = self.host(host);
        if there.computing < processors {
            there.computing += 1;
            self.begin_computing(run);
        } else {
            there.ready.push_back(run);
        }
    }

    /// Under first-available, every access may go to storage.
    fn caches(&self) -> bool {
        self.policy != Policy::FirstAvailable || self.cluster.always_caches
    }

    fn read_storage(&mut self, run: u32) {
        self.report.inputs.storage += 1;
        self.report.bytes.storage += self.workload.stored_bytes;
        self.run(run).source = Source::Storage;
        self.after(self.cluster.storage_latency, Event::StorageAnswers(run));
    }

    fn read_peer(&mut self, run: u32, source: HostId) {
        let bytes = self.workload.cached_bytes;
        self.report.inputs.peer += 1;
        self.report.bytes.peer += bytes;
        let state = self.run(run);
        state.source = Source::Peer(source);
        let object = state.decision.inputs[state.at].object;
        let now = self.now;
        let peer = self.host(source);
        peer.cache.pin(&object).expect("the source has it");
        // Charges the short latency at the end of the transfer.
        peer.link.add(now, bytes, run);
        self.watch_link(source);
    }

    fn read_local(&mut self, run: u32) {
        let bytes = self.workload.cached_bytes;
        self.report.bytes.local += bytes;
        let now = self.now;
        let state = self.run(run);
        state.source = Source::Local;
        let (host, object) = (state.decision.host, state.decision.inputs[state.at].object);
        let there = self.host(host);
        if there.cache.touch(&object).is_ok() {
            there.cache.pin(&object).expect("it was touched");
            self.run(run).pinned.push(object);
        }
        self.host(host).disk.add(now, bytes, run);
        self.watch_disk(host);
    }

    pub(crate) fn peer_read(&mut self, run: u32) {
        let state = self.run(run);
        let object = state.decision.inputs[state.at].object;
        if let Source::Peer(source) = state.source {
            self.host(source)
                .cache
                .unpin(&object)
                .expect("pinned for the transfer");
        }
        self.after(2 * self.cluster.network_latency, Event::Fetched(run));
    }

    pub(crate) fn fetched(&mut self, run: u32) {
        if !self.caches() {
            self.run(run).at += 1;
            return self.next_input(run);
        }
        let (bytes, capacity) = (self.workload.cached_bytes, self.cluster.cache_bytes);
        let state = self.run(run);
        let (host, object) = (state.decision.host, state.decision.inputs[state.at].object);
        let there = self.host(host);
        let evicted = there.store(object, bytes, capacity);
        let waiting = there.fetching.remove(&object).unwrap_or_default();
        self.report.evicted += evicted.unwrap_or(0);
        if self.run(run).source == Source::Storage {
            self.pass_on(object, host);
        }
        self.read_local(run);
        // Each must fetch it separately.
        for other in waiting {
            self.next_input(other);
        }
    }

    pub(crate) fn local_read(&mut self, run: u32) {
        self.run(run).at += 1;
        self.next_input(run);
    }

    /// The message carries the cache changes since the last report.
    pub(crate) fn computed(&mut self, run: u32) {
        let state = self.run(run);
        let host = state.decision.host;
        let pinned = std::mem::take(&mut state.pinned);
        let there = self.host(host);
        there.computing -= 1;
        let next = there.ready.pop_front();
        for object in pinned {
            there.cache.unpin(&object).expect("pinned by this run");
        }
        let changes = std::mem::take(&mut there.changes);
        let number = there.next_delta;
        there.next_delta += 1;
        let state = self.run(run);
        state.changes = changes;
        state.delta = number;
        self.after(self.cluster.network_latency, Event::Reported(run));
        if let Some(next) = next {
            self.compute(next);
        }
    }
}
