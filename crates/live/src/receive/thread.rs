//! A feed's receiver thread, or the driver in its place.

use std::net::TcpListener;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use isochrony_flow::Cause;

use super::context::ReceiveContext;
use super::driver::{Driver, Pusher};
use super::packet_queue::PacketQueue;
use super::{connections, stream, udp};

#[derive(Debug)]
pub(crate) enum FeedInput {
    Udp(std::net::UdpSocket),
    Tcp(TcpListener),
    Stdin,
    Driven(Arc<dyn Driver>),
    /// From a saved plan, and bound when first read.
    Unbound(OnceLock<Box<FeedInput>>),
}

/// Dropping it stops it, except for standard input.
#[derive(Debug)]
pub(crate) struct ReceiverThread {
    queue: Arc<PacketQueue>,
    thread: Option<JoinHandle<()>>,
    driver: Option<Arc<dyn Driver>>,
}

impl ReceiverThread {
    pub(crate) fn spawn(feed: &FeedInput, context: ReceiveContext) -> Result<Self, Cause> {
        let queue = context.queue.clone();
        let (thread, joins) = match feed {
            FeedInput::Udp(socket) => {
                let socket = socket.try_clone()?;
                (
                    isochrony_runtime::start_helper("receive", move || {
                        udp::receive_datagrams(&socket, &context)
                    })?,
                    true,
                )
            }
            FeedInput::Tcp(listener) => {
                let listener = listener.try_clone()?;
                (
                    isochrony_runtime::start_helper("receive", move || {
                        connections::serve(&listener, &context)
                    })?,
                    true,
                )
            }
            FeedInput::Stdin => (
                isochrony_runtime::start_helper("receive", move || stream::read_stdin(&context))?,
                false,
            ),
            FeedInput::Driven(driver) => {
                driver.begin(Pusher { context })?;
                return Ok(Self {
                    queue,
                    thread: None,
                    driver: Some(driver.clone()),
                });
            }
            FeedInput::Unbound(bound) => {
                let feed = bound.get().ok_or("nothing is bound yet")?;
                return Self::spawn(feed, context);
            }
        };
        Ok(Self {
            queue,
            thread: joins.then_some(thread),
            driver: None,
        })
    }
}

impl Drop for ReceiverThread {
    fn drop(&mut self) {
        self.queue.stop();
        if let Some(driver) = self.driver.take() {
            driver.stop();
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
