//! Connections: one is listened to at a time, and those that wait lose nothing.
//!
//! A sender that lost its connection connects again at once, when much of what it sent before is still to be read. So
//! whoever connects is kept, and read only as far as its first whole frame: TCP holds the rest back at the sender. It is
//! listened to when the connection before it has closed and everything that came over it was read, or when that one
//! completed no frame for [`SILENT`] while another has one. A peer that sends a byte now and then, or nothing, therefore
//! delays others by five seconds once, and none at all if it never completed a frame. Whoever has a frame is refused only
//! when [`MOST`] wait already: whether the one before it still sends, or is only read slowly, cannot be told from here.

use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::stream::{PIECE, Parts, StreamStart, StreamState};
use super::{Framing, LOOK, Reading};
use crate::counts::add;

/// How long a connection may complete no frame before another takes its place.
const SILENT: Duration = Duration::from_secs(5);
/// Connections at once.
const MOST: usize = 64;

/// A peer that connected.
struct Connection {
    stream: TcpStream,
    parts: Parts,
    /// When it last completed a frame that was handed over; else when it connected.
    heard: Instant,
    /// It has a whole frame and waits.
    ready: bool,
    /// Samples were handed over.
    spoke: bool,
    /// Nothing follows what was read.
    closed: bool,
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        // It is polled; where it cannot be made not to wait, reading waits no longer than this.
        let _ = stream.set_nonblocking(true);
        let _ = stream.set_read_timeout(Some(LOOK));
        Self {
            stream,
            parts: Parts::new(),
            heard: Instant::now(),
            ready: false,
            spoke: false,
            closed: false,
        }
    }

    /// Reads what is there, once.
    fn read(&mut self, piece: &mut [u8]) {
        match self.stream.read(piece) {
            Ok(0) => self.closed = true,
            Ok(len) => self.parts.push(&piece[..len]),
            Err(error) if is_passing(&error) => {}
            Err(_) => self.closed = true,
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// Serves connections until a sender ends the feed or nobody listens any more.
pub(super) fn serve(listener: &TcpListener, to: &Reading) {
    let _ = listener.set_nonblocking(true);
    let mut server = Server {
        listener,
        to,
        all: Vec::new(),
        current: None,
        piece: vec![0; PIECE],
    };
    while !to.queue.is_stopped() && server.turn() == StreamState::Reading {}
    for connection in server.all {
        if connection.ready && !to.queue.is_stopped() {
            add(&to.counters.foreign, 1);
        } else {
            connection.parts.finish(to);
        }
    }
    to.queue.end();
}

struct Server<'a> {
    listener: &'a TcpListener,
    to: &'a Reading,
    /// In the order in which they connected.
    all: Vec<Connection>,
    /// The one that is listened to.
    current: Option<usize>,
    piece: Vec<u8>,
}

impl Server<'_> {
    /// Waits for something to happen, and does what is to be done about it.
    fn turn(&mut self) -> StreamState {
        let readable = self.wait();
        for at in readable {
            let connection = &mut self.all[at];
            connection.read(&mut self.piece);
            if self.current == Some(at) {
                let on = self.hand_over(at);
                if on == StreamState::Ended {
                    return on;
                }
            } else {
                self.look_at_front(at);
            }
        }
        self.accept();
        let ended = self.let_go();
        if self.choose() == StreamState::Ended || ended && self.current.is_none() {
            return StreamState::Ended;
        }
        StreamState::Reading
    }

    /// The connections that can be read; waits a moment for the first, or for somebody who connects.
    fn wait(&self) -> Vec<usize> {
        let reads =
            |at: usize, one: &Connection| !one.closed && (self.current == Some(at) || !one.ready);
        let all = self.all.iter().enumerate();
        let asked: Vec<usize> = all
            .filter(|(at, one)| reads(*at, one))
            .map(|(at, _)| at)
            .collect();
        let mut files: Vec<BorrowedFd<'_>> = vec![self.listener.as_fd()];
        files.extend(asked.iter().map(|&at| self.all[at].stream.as_fd()));
        let mut files: Vec<PollFd<'_>> = files
            .into_iter()
            .map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN))
            .collect();
        let moment = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(LOOK.subsec_nanos()),
        };
        if poll(&mut files, Some(&moment)).is_err() {
            // A signal, or a passing shortage.
            std::thread::sleep(LOOK / 5);
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
    fn hand_over(&mut self, at: usize) -> StreamState {
        let connection = &mut self.all[at];
        let (on, frames) = connection.parts.hand_over(self.to);
        if frames > 0 {
            // Behind it: it may have waited for room.
            connection.heard = Instant::now();
            connection.spoke = true;
        }
        if on == StreamState::Stop {
            connection.closed = true;
            return StreamState::Reading;
        }
        on
    }

    /// Whether a connection that waits has a frame now.
    fn look_at_front(&mut self, at: usize) {
        let connection = &mut self.all[at];
        match connection.parts.checked_front(self.to) {
            StreamStart::Part => {}
            StreamStart::Whole(..) => connection.ready = true,
            StreamStart::Malformed => {
                add(&self.to.counters.frames, 1);
                add(&self.to.counters.malformed_frames, 1);
                connection.parts = Parts::new();
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
                    if !(is_passing(&error) || error.kind() == io::ErrorKind::ConnectionAborted) {
                        // As where the process has no descriptor left: the listener stays readable, so that nothing else
                        // would wait.
                        std::thread::sleep(LOOK / 5);
                    }
                    return;
                }
            };
            if self.all.len() == MOST {
                // Whoever waits longest without a frame makes room.
                let idle = (0..MOST).find(|&at| self.current != Some(at) && !self.all[at].ready);
                add(&self.to.counters.foreign, 1);
                match idle {
                    Some(at) => self.remove(at),
                    None => continue,
                }
            }
            self.all.push(Connection::new(stream));
        }
    }

    /// Lets connections go that have ended; says whether the end of one is the feed's.
    fn let_go(&mut self) -> bool {
        let mut ended = false;
        let mut at = 0;
        while at < self.all.len() {
            let one = &self.all[at];
            let listened = self.current == Some(at);
            if one.closed && (listened || !one.ready) {
                // Samples alone do not say whether more will come; whoever hangs up has ended.
                ended |= listened && one_ends(one, self.to);
                self.remove(at);
            } else {
                at += 1;
            }
        }
        ended
    }

    fn remove(&mut self, at: usize) {
        let connection = self.all.remove(at);
        connection.parts.finish(self.to);
        self.current = match self.current {
            Some(current) if current == at => None,
            Some(current) if current > at => Some(current - 1),
            other => other,
        };
    }

    /// Listens to another connection where the current one has ended or is silent.
    fn choose(&mut self) -> StreamState {
        if self
            .current
            .is_some_and(|at| self.all[at].heard.elapsed() <= SILENT)
        {
            return StreamState::Reading;
        }
        let next = (0..self.all.len())
            .filter(|&at| self.current != Some(at))
            .find(|&at| self.all[at].ready);
        let Some(next) = next else {
            return StreamState::Reading;
        };
        if let Some(before) = self.current.replace(next) {
            // It goes on where it was when it has a whole frame again and its turn comes.
            let before = &mut self.all[before];
            before.ready = false;
        }
        let connection = &mut self.all[next];
        connection.ready = false;
        connection.heard = Instant::now();
        connection.parts.begin();
        self.hand_over(next)
    }
}

/// Whether the end of a connection ends the feed.
fn one_ends(connection: &Connection, to: &Reading) -> bool {
    to.framing == Framing::Raw && connection.spoke
}
