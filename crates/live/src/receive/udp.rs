//! Datagrams.

use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
use std::net::UdpSocket;

use super::{Framing, LOOK, Reading};
use crate::counts::add;
use crate::frame::SHORTEST;

/// The largest datagram.
const LARGEST: usize = 65_535;

/// Reads until nobody listens any more.
pub(super) fn read(socket: &UdpSocket, to: &Reading) {
    // One byte more than is allowed, so that what is cut shows.
    let mut datagram = vec![0; LARGEST.min(to.max_frame) + 1];
    // Without a time-out the thread would end with the next datagram only.
    let _ = socket.set_read_timeout(Some(LOOK));
    while !to.queue.is_stopped() {
        let len = match socket.recv(&mut datagram) {
            Ok(len) => len,
            Err(error) => {
                if !matches!(error.kind(), WouldBlock | TimedOut | Interrupted) {
                    // It may last: look again, but not all the time.
                    std::thread::sleep(LOOK / 5);
                }
                continue;
            }
        };
        add(&to.counters.frames, 1);
        let least = match to.framing {
            Framing::Isochrony => SHORTEST,
            Framing::Counter { bytes, .. } => usize::from(bytes),
            Framing::Raw => to.dtype.size(),
        };
        let parts = matches!(to.framing, Framing::Raw) && len % to.dtype.size() != 0;
        if len < least || len == datagram.len() || parts {
            add(&to.counters.malformed_frames, 1);
        } else if !to.queue.offer(&datagram[..len], to.now(), false) {
            add(&to.counters.overrun_frames, 1);
        }
    }
}
