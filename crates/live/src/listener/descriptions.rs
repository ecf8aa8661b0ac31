//! Descriptions that senders announce during one execution of a listener.
//!
//! Over UDP anybody can send. A description is trusted after several identical copies arrived. It applies once frames
//! of its session have passed screening.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use isochrony_flow::OuterGaps;
use isochrony_segment::Calibration;

use crate::frame::SenderDescription;

/// Bounds the memory that unauthenticated senders can occupy.
const MAX_DESCRIPTIONS: usize = 8;

#[derive(Debug, Default)]
pub(super) struct SessionDescriptions(Mutex<DescriptionState>);

#[derive(Debug, Default)]
struct DescriptionState {
    received: VecDeque<ReceivedDescription>,
    /// Session of the latest frames that passed screening.
    current_session: Option<u32>,
    /// Whether an earlier session in this execution had no trusted description, so that none can describe the whole
    /// recording.
    had_undescribed_session: bool,
    gaps: OuterGaps,
}

#[derive(Debug)]
struct ReceivedDescription {
    session: u32,
    description: SenderDescription,
    copies: u32,
    is_trusted: bool,
}

impl DescriptionState {
    fn trusted(&self, session: u32) -> Option<&SenderDescription> {
        let mut received = self.received.iter();
        let found = received.find(|one| one.session == session && one.is_trusted);
        found.map(|one| &one.description)
    }
}

impl SessionDescriptions {
    fn lock(&self) -> MutexGuard<'_, DescriptionState> {
        // Each change is atomic, so a poisoned state is valid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn reset(&self) {
        *self.lock() = DescriptionState::default();
    }

    /// Trusted after `copies_needed` copies. False if it contradicts a trusted one.
    pub(super) fn add(
        &self,
        session: u32,
        description: SenderDescription,
        copies_needed: u32,
    ) -> bool {
        let mut state = self.lock();
        if let Some(trusted) = state.trusted(session) {
            return *trusted == description;
        }
        let mut received = state.received.iter_mut();
        if let Some(one) =
            received.find(|one| one.session == session && one.description == description)
        {
            one.copies += 1;
            one.is_trusted = one.copies >= copies_needed;
            return true;
        }
        if state.received.len() == MAX_DESCRIPTIONS {
            let current = state.current_session;
            let must_stay =
                |one: &ReceivedDescription| one.is_trusted && Some(one.session) == current;
            let oldest = state.received.iter().position(|one| !must_stay(one));
            state.received.remove(oldest.unwrap_or(0));
        }
        state.received.push_back(ReceivedDescription {
            session,
            description,
            copies: 1,
            is_trusted: copies_needed <= 1,
        });
        true
    }

    pub(super) fn set_current_session(&self, session: u32) {
        let mut state = self.lock();
        let Some(before) = state.current_session.replace(session) else {
            return;
        };
        // A later description does not apply to earlier samples.
        let was_described = state.trusted(before).is_some();
        state.had_undescribed_session |= before != session && !was_described;
    }

    fn read_current<T>(&self, read: impl FnOnce(&SenderDescription) -> T) -> Option<T> {
        let state = self.lock();
        state
            .current_session
            .and_then(|session| state.trusted(session))
            .map(read)
    }

    pub(super) fn knows_all_times(&self) -> bool {
        self.read_current(|description| description.knows_all_times)
            .unwrap_or(false)
    }

    /// The sender's description. If the listener states another unit, samples are values in that unit: scale 1,
    /// offset 0.
    pub(super) fn get(&self, unit: &str) -> Option<isochrony_flow::SignalDescription> {
        if self.lock().had_undescribed_session {
            return None;
        }
        self.read_current(|description| {
            let uses_sender_unit = unit.is_empty() || unit == description.calibration.unit();
            isochrony_flow::SignalDescription {
                calibration: match uses_sender_unit {
                    true => description.calibration.clone(),
                    false => Calibration::identity(unit),
                },
                attributes: description.attributes.clone(),
            }
        })
    }

    pub(super) fn unit(&self) -> Option<String> {
        self.read_current(|description| description.calibration.unit().to_owned())
    }

    pub(super) fn gaps(&self) -> OuterGaps {
        self.lock().gaps.clone()
    }

    pub(super) fn set_gaps(&self, change: impl FnOnce(&mut OuterGaps)) {
        change(&mut self.lock().gaps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isochrony_time::Rate;

    fn description(unit: &str) -> SenderDescription {
        SenderDescription {
            rate: Rate::from_hz(5).unwrap(),
            calibration: Calibration::new(2.0, 1.0, unit).unwrap(),
            knows_all_times: true,
            attributes: serde_json::Map::new(),
        }
    }

    #[test]
    fn the_first_description_of_the_current_session_is_trusted() {
        let described = SessionDescriptions::default();
        assert!(described.add(1, description("Pa"), 1));
        assert_eq!(described.get(""), None);
        described.set_current_session(1);
        assert!(!described.add(1, description("V"), 1));
        assert!(described.add(1, description("Pa"), 1));
        for session in 2..99 {
            assert!(described.add(session, description("V"), 1));
        }
        assert_eq!(described.unit().as_deref(), Some("Pa"));
        assert_eq!(described.lock().received.len(), MAX_DESCRIPTIONS);
        described.set_current_session(97);
        assert_eq!(described.unit().as_deref(), Some("V"));
        described.set_current_session(1000);
        assert_eq!(
            (described.unit(), described.knows_all_times()),
            (None, false)
        );
        described.reset();
        described.set_current_session(97);
        assert_eq!(described.unit(), None);
    }

    #[test]
    fn one_datagram_is_not_trusted() {
        let described = SessionDescriptions::default();
        described.set_current_session(1);
        assert!(described.add(1, description("V"), 3));
        for copy in 0..3 {
            assert_eq!(described.unit(), None, "{copy}");
            assert!(described.add(1, description("Pa"), 3));
        }
        assert_eq!(described.unit().as_deref(), Some("Pa"));
        assert!(!described.add(1, description("V"), 3));
        for session in 2..99 {
            assert!(described.add(session, description("V"), 3));
        }
        assert_eq!(described.unit().as_deref(), Some("Pa"));
    }

    #[test]
    fn a_later_session_does_not_describe_samples_of_an_earlier_one() {
        let described = SessionDescriptions::default();
        described.set_current_session(1);
        described.add(2, description("V"), 1);
        described.set_current_session(2);
        assert_eq!(described.get(""), None);
    }

    #[test]
    fn a_stated_unit_takes_precedence() {
        let described = SessionDescriptions::default();
        described.add(1, description("Pa"), 1);
        described.set_current_session(1);
        let calibration = |unit| described.get(unit).unwrap().calibration;
        assert_eq!(calibration(""), description("Pa").calibration);
        assert_eq!(calibration("Pa"), description("Pa").calibration);
        assert_eq!(calibration("V"), Calibration::identity("V"));
    }
}
