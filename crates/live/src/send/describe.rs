//! When a sender says what its recording is.

use std::time::{Duration, Instant};

use super::{DATAGRAM, HEADER, LiveError, MAX_DESCRIPTION, Sender, SenderDescription, Wire};

/// Over UDP a receiver believes a description after three equal copies, and some may be lost: so many are sent each time,
/// before the first samples and then from time to time, for those who begin to listen later.
const COPIES: u32 = 5;
const EVERY: Duration = Duration::from_secs(10);

/// What is said, and when it was.
#[derive(Debug)]
pub(super) struct DescriptionSchedule {
    frame: Vec<u8>,
    times: u32,
    last: Instant,
}

impl Sender {
    /// Says what the recording is before its first samples, and again to those who missed it. Over UDP, where it has to
    /// fit a datagram, attributes may be left out.
    #[must_use]
    pub fn describing(mut self, description: &SenderDescription) -> Self {
        let most = match self.wire {
            Wire::Udp(_) => DATAGRAM - HEADER,
            _ => MAX_DESCRIPTION,
        };
        let mut frame = Vec::new();
        let header = &self.header;
        description.write(header.dtype, header.session, most, &mut frame);
        self.describing = Some(DescriptionSchedule {
            frame,
            times: 0,
            last: Instant::now(),
        });
        self
    }

    /// Says it if that is due before samples.
    pub(super) fn say_description(&mut self) -> Result<(), LiveError> {
        let datagrams = matches!(self.wire, Wire::Udp(_));
        match &self.describing {
            Some(one) if one.times == 0 => self.say_description_again(),
            Some(one) if datagrams && one.last.elapsed() >= EVERY => self.say_description_again(),
            _ => Ok(()),
        }
    }

    /// Says it, unless it was said where nothing is lost.
    pub(super) fn say_description_again(&mut self) -> Result<(), LiveError> {
        let datagrams = matches!(self.wire, Wire::Udp(_));
        let due = |one: &mut DescriptionSchedule| datagrams || one.times == 0;
        let Some(mut describing) = self.describing.take_if(due) else {
            return Ok(());
        };
        if !datagrams {
            // The first frame over a connection is of the dtype that is listened to, for receivers that do not know
            // descriptions.
            let mut empty = Vec::new();
            let mut header = self.header;
            (header.first, header.gap, header.step) = (0, 0, false);
            header.write(&[], &mut empty);
            self.write(&empty)?;
        }
        let copies = if datagrams { COPIES } else { 1 };
        let wrote = (0..copies).try_for_each(|_| self.write(&describing.frame));
        describing.times = describing.times.saturating_add(1);
        describing.last = Instant::now();
        self.describing = Some(describing);
        wrote
    }
}
