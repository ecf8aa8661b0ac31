//! The threads that read sockets and standard input, one a feed, and the queue between them and the run; and feeds whose
//! samples threads of others make.
//!
//! A thread does nothing but read, stamp and queue, so that what the kernel cannot hold is here. The queue is bounded in
//! bytes. What can wait (TCP, standard input) waits for room; a datagram that finds none is dropped and counted.

mod address;
mod connections;
mod driven;
mod queue;
mod stream;
mod udp;

use std::net::TcpListener;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use isochrony_flow::Cause;
use isochrony_segment::DType;

pub use address::{Address, Framing};
pub use driven::{At, Driver, Pusher};
pub(crate) use queue::{Packet, Queue, When};

use crate::counts::Counters;

/// Two clocks that are read within this time of one another are read at once.
const APART: Duration = Duration::from_millis(1);
/// How often a thread that waits looks whether it is to stop, and how long it sleeps then.
const LOOK: Duration = Duration::from_millis(50);

/// A socket that is bound, standard input, or what pushes by itself.
#[derive(Debug)]
pub(crate) enum Feed {
    Udp(std::net::UdpSocket),
    Tcp(TcpListener),
    Stdin,
    Driven(Arc<dyn Driver>),
    /// Of a saved plan: bound when a run first reads it, since reading a plan that anybody wrote opens no sockets.
    Unbound(OnceLock<Box<Feed>>),
}

/// What a thread needs to know.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub(crate) queue: Arc<Queue>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) framing: Framing,
    pub(crate) dtype: DType,
    pub(crate) rate_hz: f64,
    pub(crate) max_frame: usize,
    pub(crate) begun: Instant,
}

impl Reading {
    /// Since the beginning, by a clock that is never set; and the civil time, ns since 1970.
    fn now(&self) -> When {
        let mut came = self.begun.elapsed();
        let mut civil = SystemTime::now().duration_since(UNIX_EPOCH);
        // Preempted between the two, they would look like a clock that was set.
        for _ in 0..3 {
            let after = self.begun.elapsed();
            if after - came < APART {
                break;
            }
            came = after;
            civil = SystemTime::now().duration_since(UNIX_EPOCH);
        }
        let civil = civil.map_or(0, |since| {
            i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
        });
        When {
            came,
            civil,
            taken: None,
        }
    }
}

/// A thread that reads; dropping it stops it. One that waits for standard input cannot be stopped and ends with the
/// process, or with the input.
#[derive(Debug)]
pub(crate) struct Receiver {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
    driver: Option<Arc<dyn Driver>>,
}

impl Receiver {
    pub(crate) fn spawn(feed: &Feed, reading: Reading) -> Result<Self, Cause> {
        let queue = reading.queue.clone();
        let named = std::thread::Builder::new().name("isochrony-receive".into());
        let (thread, joins) = match feed {
            Feed::Udp(socket) => {
                let socket = socket.try_clone()?;
                (named.spawn(move || udp::read(&socket, &reading))?, true)
            }
            Feed::Tcp(listener) => {
                let listener = listener.try_clone()?;
                (
                    named.spawn(move || connections::serve(&listener, &reading))?,
                    true,
                )
            }
            Feed::Stdin => (named.spawn(move || stream::read_stdin(&reading))?, false),
            Feed::Driven(driver) => {
                driver.begin(Pusher { to: reading })?;
                return Ok(Self {
                    queue,
                    thread: None,
                    driver: Some(driver.clone()),
                });
            }
            Feed::Unbound(bound) => {
                let feed = bound.get().ok_or("nothing is bound yet")?;
                return Self::spawn(feed, reading);
            }
        };
        Ok(Self {
            queue,
            thread: joins.then_some(thread),
            driver: None,
        })
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.queue.stop();
        if let Some(driver) = self.driver.take() {
            driver.stop();
        }
        if let Some(thread) = self.thread.take() {
            // It panics nowhere; if it did, there is nothing to mend here.
            let _ = thread.join();
        }
    }
}
