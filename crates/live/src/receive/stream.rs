//! Connections and standard input: frames, or samples, one behind the other.

use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::{Framing, LOOK, Reading};
use crate::counts::add;
use crate::frame::{HEADER, Header};

/// How long a connection may be silent before another takes its place.
const SILENT: Duration = Duration::from_secs(5);
/// Bytes that are read at once.
const PIECE: usize = 64 << 10;

/// Bytes of a stream that are no whole frame yet.
struct Parts<'a> {
    to: &'a Reading,
    bytes: Vec<u8>,
    fresh: bool,
}

/// How a stream goes on.
#[derive(PartialEq, Eq)]
enum On {
    Reading,
    /// The sender said that nothing follows.
    Ended,
    /// What came is no frame, nobody listens, or another takes its place.
    Stop,
}

impl<'a> Parts<'a> {
    fn new(to: &'a Reading) -> Self {
        Self {
            to,
            bytes: Vec::new(),
            fresh: true,
        }
    }

    /// Queues what is whole.
    fn push(&mut self, more: &[u8]) -> On {
        self.bytes.extend_from_slice(more);
        let mut from = 0;
        let mut on = On::Reading;
        while on == On::Reading {
            let rest = &self.bytes[from..];
            let (len, ends) = match self.to.framing {
                Framing::Isochrony if rest.len() < HEADER => break,
                Framing::Isochrony => match Header::read(rest) {
                    Ok(header) if header.frame_len() <= self.to.max_frame => {
                        (header.frame_len(), header.end)
                    }
                    _ => {
                        add(&self.to.counters.frames, 1);
                        from = self.bytes.len();
                        add(&self.to.counters.malformed_frames, 1);
                        on = On::Stop;
                        break;
                    }
                },
                _ => {
                    let size = self.to.dtype.size();
                    let most = self.to.max_frame / size * size;
                    (most.min(rest.len() / size * size), false)
                }
            };
            if len == 0 || rest.len() < len {
                break;
            }
            add(&self.to.counters.frames, 1);
            let fresh = std::mem::take(&mut self.fresh);
            if !self.to.queue.put(&rest[..len], self.to.now(), fresh) {
                on = On::Stop;
            } else if ends {
                on = On::Ended;
            }
            from += len;
        }
        self.bytes.drain(..from);
        on
    }
}

impl Drop for Parts<'_> {
    /// Half a frame, or half a sample: nothing that follows belongs to it, however the connection came to its end.
    fn drop(&mut self) {
        if !self.bytes.is_empty() && !self.to.queue.is_stopped() {
            add(&self.to.counters.malformed_frames, 1);
        }
    }
}

/// Serves one connection at a time until the sender ends the feed or nobody listens any more.
pub(super) fn accept(listener: &TcpListener, to: &Reading) {
    let _ = listener.set_nonblocking(true);
    let mut next = None;
    while !to.queue.is_stopped() {
        let connection = next
            .take()
            .or_else(|| listener.accept().ok().map(|(stream, _)| stream));
        let Some(connection) = connection else {
            std::thread::sleep(LOOK / 5);
            continue;
        };
        match serve(connection, listener, to, &mut next) {
            On::Ended => break,
            // Samples alone do not say whether more will come; whoever hangs up has ended.
            On::Reading if to.framing == Framing::Raw => break,
            _ => {}
        }
    }
    to.queue.end();
}

/// Reads a connection until it closes; `next` is one that takes its place.
fn serve(
    mut stream: TcpStream,
    listener: &TcpListener,
    to: &Reading,
    next: &mut Option<TcpStream>,
) -> On {
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_read_timeout(Some(LOOK));
    let mut parts = Parts::new(to);
    let mut piece = vec![0; PIECE];
    let mut heard = Instant::now();
    while !to.queue.is_stopped() {
        match stream.read(&mut piece) {
            Ok(0) => {
                // Whoever says nothing at all has not ended anything.
                return if parts.fresh { On::Stop } else { On::Reading };
            }
            Ok(len) => {
                match parts.push(&piece[..len]) {
                    On::Reading => {}
                    other => return other,
                }
                // Behind it: it may have waited for room.
                heard = Instant::now();
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock
                        | io::ErrorKind::TimedOut
                        | io::ErrorKind::Interrupted
                ) => {}
            Err(_) => return On::Reading,
        }
        // Somebody else who knocks is let in only if this one is silent.
        if let Ok((other, _)) = listener.accept() {
            if heard.elapsed() > SILENT {
                *next = Some(other);
                return On::Stop;
            }
            add(&to.counters.foreign, 1);
        }
    }
    On::Stop
}

/// Reads standard input to its end.
pub(super) fn read_stdin(to: &Reading) {
    let mut parts = Parts::new(to);
    let mut piece = vec![0; PIECE];
    let mut input = io::stdin().lock();
    loop {
        match input.read(&mut piece) {
            Ok(len) if len > 0 => {
                if parts.push(&piece[..len]) != On::Reading {
                    break;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => break,
        }
    }
    // What is left of it is counted before the run is told.
    drop(parts);
    to.queue.end();
}
