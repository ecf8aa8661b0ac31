//! Connections: one is listened to at a time, and those that wait lose nothing.
//!
//! A sender that lost its connection connects again at once, when much of what it sent before is still to be read. So
//! whoever connects is kept, and read only as far as its first whole frame: TCP holds the rest back at the sender. It is
//! listened to when the connection before it has closed and everything that came over it was read, or when that one
//! completed no frame for [`STALL_TIMEOUT`] while another has one. A peer that sends a byte now and then, or nothing, therefore
//! delays others by five seconds once, and none at all if it never completed a frame. Whoever has a frame is refused only
//! when [`MAX_CONNECTIONS`] wait already: whether the one before it still sends, or is only read slowly, cannot be told from here.

use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::context::{POLL_INTERVAL, ReceiveContext};
use super::stream::{READ_BYTES, StreamBuffer, StreamFront, StreamState};
use crate::address::FeedFraming;
use crate::feed_counts::add;

/// How long a connection may complete no frame before another takes its place.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections at once.
const MAX_CONNECTIONS: usize = 64;

/// A peer that connected.
struct Connection {
    stream: TcpStream,
    buffer: StreamBuffer,
    /// When it last completed a frame that was handed over; else when it connected.
    last_frame: Instant,
    /// It has a whole frame and waits.
    has_frame: bool,
    /// Samples were handed over.
    has_delivered: bool,
    /// Nothing follows what was read.
    closed: bool,
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        // It is polled; where it cannot be made not to wait, reading waits no longer than this.
        let _ = stream.set_nonblocking(true);
        let _ = stream.set_read_timeout(Some(POLL_INTERVAL));
        Self {
            stream,
            buffer: StreamBuffer::new(),
            last_frame: Instant::now(),
            has_frame: false,
            has_delivered: false,
            closed: false,
        }
    }

    /// Reads what is there, once.
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

/// Serves connections until a sender ends the feed or nobody listens any more.
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
    /// In the order in which they connected.
    connections: Vec<Connection>,
    /// The one that is listened context.
    current: Option<usize>,
    read_buffer: Vec<u8>,
}

impl ConnectionServer<'_> {
    /// Waits for something to happen, and does what is to be done about it.
    fn poll_once(&mut self) -> StreamState {
        let readable = self.wait();
        for at in readable {
            let connection = &mut self.connections[at];
            connection.read(&mut self.read_buffer);
            if self.current == Some(at) {
                let on = self.queue_frames(at);
                if on == StreamState::Ended {
                    return on;
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

    /// The connections that can be read; waits a moment for the first, or for somebody who connects.
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
        let mut files: Vec<PollFd<'_>> = files
            .into_iter()
            .map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN))
            .collect();
        let moment = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(POLL_INTERVAL.subsec_nanos()),
        };
        if poll(&mut files, Some(&moment)).is_err() {
            // A signal, or a passing shortage.
            std::thread::sleep(POLL_INTERVAL / 5);
            return Vec::new();
        }
        let ready = files.iter().skip(1).map(|file| !file.revents().is_empty());
        asked
            .iter()
            .zip(ready)
            .filter(|(_, ready)| *ready)
            .map(|(&at, _)| at)
            .collect()
    }

    /// Hands on what came over the current connection.
    fn queue_frames(&mut self, at: usize) -> StreamState {
        let connection = &mut self.connections[at];
        let (on, frames) = connection.buffer.queue_complete(self.context);
        if frames > 0 {
            // Behind it: it may have waited for room.
            connection.last_frame = Instant::now();
            connection.has_delivered = true;
        }
        if on == StreamState::Stopped {
            connection.closed = true;
            return StreamState::Reading;
        }
        on
    }

    /// Whether a connection that waits has a frame now.
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

    /// Takes everybody who connects.
    fn accept(&mut self) {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => {
                    if !(is_transient(&error) || error.kind() == io::ErrorKind::ConnectionAborted) {
                        // As where the process has no descriptor left: the listener stays readable, so that nothing else
                        // would wait.
                        std::thread::sleep(POLL_INTERVAL / 5);
                    }
                    return;
                }
            };
            if self.connections.len() == MAX_CONNECTIONS {
                // Whoever waits longest without a frame makes room.
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

    /// Lets connections go that have ended; says whether the end of one is the feed's.
    fn remove_closed(&mut self) -> bool {
        let mut ended = false;
        let mut at = 0;
        while at < self.connections.len() {
            let one = &self.connections[at];
            let listened = self.current == Some(at);
            if one.closed && (listened || !one.has_frame) {
                // Samples alone do not say whether more will come; whoever hangs up has ended.
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

    /// Listens to another connection where the current one has ended or is silent.
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
            // It goes on where it was when it has a whole frame again and its turn comes.
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

/// Whether the end of a connection ends the feed.
fn closing_ends_feed(connection: &Connection, context: &ReceiveContext) -> bool {
    context.framing == FeedFraming::Raw && connection.has_delivered
}
