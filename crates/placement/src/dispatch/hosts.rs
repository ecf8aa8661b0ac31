//! Host slots, and the round-robin order of free hosts.

use std::collections::BTreeSet;

use crate::{HostId, PlacementError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostQueue {
    /// No free slot, draining, or removed.
    Closed,
    /// Possibly has tasks for free slots.
    Ready,
    /// Has free slots; other hosts have more bytes of its tasks.
    SecondBest,
    /// Has free slots, and no task with local bytes.
    NoLocalTask,
}

#[derive(Debug, Clone)]
pub(crate) struct Slots {
    pub(crate) total: u32,
    pub(crate) busy: u32,
    pub(crate) draining: bool,
    queue: HostQueue,
    /// Round-robin position.
    turn: u64,
    /// Since when all slots have been free.
    pub(crate) idle_since: u64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct HostPool {
    hosts: Vec<Slots>,
    free: [BTreeSet<(u64, HostId)>; 3],
    next_turn: u64,
    /// All and busy slots of hosts that are not draining.
    total: u64,
    busy: u64,
}

fn position(queue: HostQueue) -> Option<usize> {
    match queue {
        HostQueue::Closed => None,
        HostQueue::Ready => Some(0),
        HostQueue::SecondBest => Some(1),
        HostQueue::NoLocalTask => Some(2),
    }
}

impl HostPool {
    pub(crate) fn add(&mut self, slots: u32, now: u64) {
        let host = HostId(self.hosts.len() as u32);
        self.hosts.push(Slots {
            total: slots,
            busy: 0,
            draining: false,
            queue: HostQueue::Closed,
            turn: 0,
            idle_since: now,
        });
        self.total += u64::from(slots);
        self.open(host);
    }

    pub(crate) fn get(&self, host: HostId) -> &Slots {
        &self.hosts[host.0 as usize]
    }

    pub(crate) fn open_hosts(&self) -> impl Iterator<Item = (HostId, &Slots)> {
        let hosts = self.hosts.iter().enumerate();
        hosts
            .filter(|(_, slots)| !slots.draining && slots.total > 0)
            .map(|(at, slots)| (HostId(at as u32), slots))
    }

    pub(crate) fn is_free(&self, host: HostId) -> bool {
        self.get(host).queue != HostQueue::Closed
    }

    pub(crate) fn turn(&self, host: HostId) -> u64 {
        self.get(host).turn
    }

    pub(crate) fn first(&self, queue: HostQueue) -> Option<(u64, HostId)> {
        self.free[position(queue)?].first().copied()
    }

    pub(crate) fn first_free(&self) -> Option<(u64, HostId)> {
        let firsts = self.free.iter().filter_map(|set| set.first());
        firsts.min().copied()
    }

    pub(crate) fn move_to(&mut self, host: HostId, queue: HostQueue) {
        let slots = &mut self.hosts[host.0 as usize];
        let entry = (slots.turn, host);
        let old = std::mem::replace(&mut slots.queue, queue);
        if old == queue {
            return;
        }
        if let Some(old) = position(old) {
            self.free[old].remove(&entry);
        }
        if let Some(new) = position(queue) {
            self.free[new].insert(entry);
        }
    }

    pub(crate) fn wake(&mut self, host: HostId) {
        if self.is_free(host) {
            self.move_to(host, HostQueue::Ready);
        }
    }

    fn open(&mut self, host: HostId) {
        self.move_to(host, HostQueue::Closed);
        let slots = &mut self.hosts[host.0 as usize];
        if slots.busy < slots.total && !slots.draining {
            slots.turn = self.next_turn;
            self.next_turn += 1;
            self.move_to(host, HostQueue::Ready);
        }
    }

    pub(crate) fn take_slot(&mut self, host: HostId) {
        self.hosts[host.0 as usize].busy += 1;
        self.busy += 1;
        self.open(host);
    }

    pub(crate) fn give_slot(&mut self, host: HostId, now: u64) {
        let slots = &mut self.hosts[host.0 as usize];
        slots.busy -= 1;
        if slots.busy == 0 {
            slots.idle_since = now;
        }
        if !slots.draining {
            self.busy -= 1;
        }
        if !self.is_free(host) {
            self.open(host);
        }
    }

    pub(crate) fn set_draining(&mut self, host: HostId, draining: bool) {
        let slots = &mut self.hosts[host.0 as usize];
        if std::mem::replace(&mut slots.draining, draining) == draining {
            return;
        }
        let (total, busy) = (u64::from(slots.total), u64::from(slots.busy));
        if draining {
            self.total -= total;
            self.busy -= busy;
        } else {
            self.total += total;
            self.busy += busy;
        }
        self.open(host);
    }

    /// Surplus busy slots finish their tasks.
    pub(crate) fn set_total(&mut self, host: HostId, total: u32) {
        let slots = &mut self.hosts[host.0 as usize];
        let before = std::mem::replace(&mut slots.total, total);
        if !slots.draining {
            self.total = self.total + u64::from(total) - u64::from(before);
        }
        if self.is_free(host) != (self.get(host).busy < total && !self.get(host).draining) {
            self.open(host);
        }
    }

    pub(crate) fn remove(&mut self, host: HostId) {
        self.set_draining(host, true);
        let slots = &mut self.hosts[host.0 as usize];
        (slots.total, slots.busy) = (0, 0);
    }

    pub(crate) fn is_below(&self, share: f64) -> bool {
        (self.busy as f64) < share * self.total as f64
    }

    pub(crate) fn check_slots(slots: u32) -> Result<(), PlacementError> {
        if slots == 0 {
            return Err(PlacementError::Parameter {
                parameter: "slots",
                got: "0".into(),
                allowed: "at least 1",
            });
        }
        Ok(())
    }
}
