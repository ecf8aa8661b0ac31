//! TCP: many connections are kept, one is read at a time, and waiting ones lose nothing.
//!
//! A sender that lost its connection reconnects while its earlier data is unread. So a new connection is read only up
//! to its first whole frame. It becomes current when the previous one is closed and read to the end, or completes no
//! frame for [`STALL_TIMEOUT`]. Connections are refused only when [`MAX_CONNECTIONS`] have a frame, since a slow sender
//! looks like a slow plan.
//!
//! ```text
//!  accepted ─first frame─▶ waiting ─current one closed or stalled─▶ current ─closed─▶ removed
//!     ▲ │                                                              │
//!     │ └─ too many: the oldest without a frame is removed             │
//!     └───────────────────────── stalled ──────────────────────────────┘
//! ```

use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use isochrony_system::descriptor::poll_readable;

use super::context::{ReceiveContext, STOP_CHECK_INTERVAL};
use super::stream::{READ_BYTES, StreamBuffer, StreamFront, StreamState};
use crate::address::FeedFraming;
use crate::feed_counts::add;

/// Time without a complete frame after which the current connection yields to another.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_CONNECTIONS: usize = 64;

struct Connection {
    stream: TcpStream,
    buffer: StreamBuffer,
    /// Time of its last queued frame, or of the connection.
    last_frame: Instant,
    /// Waits to become current.
    has_frame: bool,
    has_delivered: bool,
    closed: bool,
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        // In case it cannot be made non-blocking.
        let _ = stream.set_nonblocking(true);
        let _ = stream.set_read_timeout(Some(STOP_CHECK_INTERVAL));
        Self {
            stream,
            buffer: StreamBuffer::new(),
            last_frame: Instant::now(),
            has_frame: false,
            has_delivered: false,
            closed: false,
        }
    }

    fn read(&mut self, read_buffer: &mut [u8]) {
        match self.stream.read(read_buffer) {
            Ok(0) => self.closed = true,
            Ok(len) => self.buffer.push(&read_buffer[..len]),
            Err(error) if is_transient(&error) => {}
            Err(_) => self.closed = true,
        }
    }
}

fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// Serves connections until a sender ends the feed or the run ends.
pub(super) fn serve(listener: &TcpListener, context: &ReceiveContext) {
    let _ = listener.set_nonblocking(true);
    let mut server = ConnectionServer {
        listener,
        context,
        connections: Vec::new(),
        current: None,
        read_buffer: vec![0; READ_BYTES],
    };
    while !context.queue.is_stopped() && server.poll_once() == StreamState::Reading {}
    for connection in server.connections {
        if connection.has_frame && !context.queue.is_stopped() {
            add(&context.counters.foreign, 1);
        } else {
            connection.buffer.finish(context);
        }
    }
    context.queue.end();
}

struct ConnectionServer<'a> {
    listener: &'a TcpListener,
    context: &'a ReceiveContext,
    connections: Vec<Connection>,
    current: Option<usize>,
    read_buffer: Vec<u8>,
}

impl ConnectionServer<'_> {
    fn poll_once(&mut self) -> StreamState {
        let readable = self.wait();
        for at in readable {
            let connection = &mut self.connections[at];
            connection.read(&mut self.read_buffer);
            if self.current == Some(at) {
                let state = self.queue_frames(at);
                if state == StreamState::Ended {
                    return state;
                }
            } else {
                self.check_first_frame(at);
            }
        }
        self.accept();
        let ended = self.remove_closed();
        if self.select_current() == StreamState::Ended || ended && self.current.is_none() {
            return StreamState::Ended;
        }
        StreamState::Reading
    }

    /// Waits up to [`STOP_CHECK_INTERVAL`] for connections with input.
    fn wait(&self) -> Vec<usize> {
        let reads = |at: usize, one: &Connection| {
            !one.closed && (self.current == Some(at) || !one.has_frame)
        };
        let all = self.connections.iter().enumerate();
        let asked: Vec<usize> = all
            .filter(|(at, one)| reads(*at, one))
            .map(|(at, _)| at)
            .collect();
        let mut files: Vec<BorrowedFd<'_>> = vec![self.listener.as_fd()];
        files.extend(asked.iter().map(|&at| self.connections[at].stream.as_fd()));
        let Ok(ready) = poll_readable(&files, STOP_CHECK_INTERVAL) else {
            std::thread::sleep(STOP_CHECK_INTERVAL / 5);
            return Vec::new();
        };
        asked
            .iter()
            .zip(ready.into_iter().skip(1))
            .filter(|(_, ready)| *ready)
            .map(|(&at, _)| at)
            .collect()
    }

    fn queue_frames(&mut self, at: usize) -> StreamState {
        let connection = &mut self.connections[at];
        let (state, frames) = connection.buffer.queue_complete(self.context);
        if frames > 0 {
            // The push may have waited for room.
            connection.last_frame = Instant::now();
            connection.has_delivered = true;
        }
        if state == StreamState::Stopped {
            connection.closed = true;
            return StreamState::Reading;
        }
        state
    }

    fn check_first_frame(&mut self, at: usize) {
        let connection = &mut self.connections[at];
        match connection.buffer.verified_front(self.context) {
            StreamFront::Incomplete => {}
            StreamFront::Complete(..) => connection.has_frame = true,
            StreamFront::Malformed => {
                add(&self.context.counters.frames, 1);
                add(&self.context.counters.malformed_frames, 1);
                connection.buffer = StreamBuffer::new();
                connection.closed = true;
            }
        }
    }

    fn accept(&mut self) {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => {
                    if !(is_transient(&error) || error.kind() == io::ErrorKind::ConnectionAborted) {
                        // Such as out of descriptors, when poll would not wait.
                        std::thread::sleep(STOP_CHECK_INTERVAL / 5);
                    }
                    return;
                }
            };
            if self.connections.len() == MAX_CONNECTIONS {
                let idle = (0..MAX_CONNECTIONS)
                    .find(|&at| self.current != Some(at) && !self.connections[at].has_frame);
                add(&self.context.counters.foreign, 1);
                match idle {
                    Some(at) => self.remove(at),
                    None => continue,
                }
            }
            self.connections.push(Connection::new(stream));
        }
    }

    fn remove_closed(&mut self) -> bool {
        let mut ended = false;
        let mut at = 0;
        while at < self.connections.len() {
            let one = &self.connections[at];
            let listened = self.current == Some(at);
            if one.closed && (listened || !one.has_frame) {
                // Only closing ends bare samples.
                ended |= listened && closing_ends_feed(one, self.context);
                self.remove(at);
            } else {
                at += 1;
            }
        }
        ended
    }

    fn remove(&mut self, at: usize) {
        let connection = self.connections.remove(at);
        connection.buffer.finish(self.context);
        self.current = match self.current {
            Some(current) if current == at => None,
            Some(current) if current > at => Some(current - 1),
            other => other,
        };
    }

    fn select_current(&mut self) -> StreamState {
        if self
            .current
            .is_some_and(|at| self.connections[at].last_frame.elapsed() <= STALL_TIMEOUT)
        {
            return StreamState::Reading;
        }
        let next = (0..self.connections.len())
            .filter(|&at| self.current != Some(at))
            .find(|&at| self.connections[at].has_frame);
        let Some(next) = next else {
            return StreamState::Reading;
        };
        if let Some(before) = self.current.replace(next) {
            // It needs a whole frame to be selected again.
            let before = &mut self.connections[before];
            before.has_frame = false;
        }
        let connection = &mut self.connections[next];
        connection.has_frame = false;
        connection.last_frame = Instant::now();
        connection.buffer.mark_first();
        self.queue_frames(next)
    }
}

fn closing_ends_feed(connection: &Connection, context: &ReceiveContext) -> bool {
    context.framing == FeedFraming::Raw && connection.has_delivered
}
