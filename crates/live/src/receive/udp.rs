//! Receives datagrams.

use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
use std::net::UdpSocket;

use super::context::{ReceiveContext, STOP_CHECK_INTERVAL};
use crate::address::FeedFraming;
use crate::feed_counts::add;
use crate::frame::HEADER_LEN_V1;

const MAX_DATAGRAM: usize = 65_535;

pub(super) fn receive_datagrams(socket: &UdpSocket, context: &ReceiveContext) {
    // One more byte reveals truncation.
    let mut datagram = vec![0; MAX_DATAGRAM.min(context.max_frame) + 1];
    // To notice the end of the run.
    let _ = socket.set_read_timeout(Some(STOP_CHECK_INTERVAL));
    while !context.queue.is_stopped() {
        let len = match socket.recv(&mut datagram) {
            Ok(len) => len,
            Err(error) => {
                if !matches!(error.kind(), WouldBlock | TimedOut | Interrupted) {
                    // The error may persist: retry slowly.
                    std::thread::sleep(STOP_CHECK_INTERVAL / 5);
                }
                continue;
            }
        };
        add(&context.counters.frames, 1);
        let least = match context.framing {
            FeedFraming::Isochrony => HEADER_LEN_V1,
            FeedFraming::Counter { bytes, .. } => usize::from(bytes),
            FeedFraming::Raw => context.dtype.size(),
        };
        let has_part_of_sample =
            matches!(context.framing, FeedFraming::Raw) && len % context.dtype.size() != 0;
        if len < least || len == datagram.len() || has_part_of_sample {
            add(&context.counters.malformed_frames, 1);
        } else if !context
            .queue
            .try_push(&datagram[..len], context.now(), false)
        {
            add(&context.counters.overrun_frames, 1);
        }
    }
}
