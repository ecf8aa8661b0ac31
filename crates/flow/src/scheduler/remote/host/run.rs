//! A plan on the host of its sources.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use isochrony_runtime::{Interrupt, start_helper};

use super::super::runner::RunnerContext;
use super::message::failed;
use super::placement::scans;
use super::send_buffer::SendBuffer;
use super::sender::HostSender;
use crate::engine::RunOptions;
use crate::plan::graph::Graph;
use crate::{Cause, Plan, RunError, SharedFactory};

/// Bytes of messages kept for the client.
const MAX_BUFFER_BYTES: u64 = 64 << 20;
/// Their share of the run's memory.
const BUFFER_SHARE: u64 = 4;

/// A plan running in a thread, whose results a client reads. Ends on drop.
pub struct HostRun {
    buffer: Arc<SendBuffer>,
    interrupt: Interrupt,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl HostRun {
    /// Starts the thread. `first`: number of the first message.
    ///
    /// # Errors
    /// The plan's output is no signal; the system refuses a thread.
    pub fn new(
        plan: &Plan,
        first: u64,
        options: RunOptions<'static>,
        context: RunnerContext,
    ) -> Result<Self, Cause> {
        let buffer = MAX_BUFFER_BYTES.min(options.memory / BUFFER_SHARE);
        let buffer = Arc::new(SendBuffer::new(first, buffer));
        let interrupt = Interrupt::default();
        let graph = Graph::new(plan);
        let sources = scans(&graph, graph.outputs[0].0);
        let sources = sources.into_iter().map(|(_, recording)| recording);
        let link_bytes = options.stages.link_bytes;
        let sender = HostSender::new(
            plan.port(),
            &buffer,
            sources.collect(),
            &interrupt,
            link_bytes,
        );
        let plan = plan.apply_factory(SharedFactory::new(sender), &[])?;
        let (sent, interrupted) = (Arc::clone(&buffer), interrupt.clone());
        let work = move || {
            let options = RunOptions {
                interrupt: Some(&interrupted),
                shared: context.shared.as_ref(),
                ..options
            };
            // Nobody waits for the error of a stopped run.
            if let Err(error) = plan.run_with(&options)
                && !matches!(error, RunError::Interrupted { .. })
                && let Ok(message) = failed(&error, &*context.causes)
            {
                sent.push(message, || interrupted.is_requested());
            }
            sent.end();
        };
        Ok(Self {
            buffer,
            interrupt,
            thread: Mutex::new(Some(start_helper("host", work)?)),
        })
    }

    /// Messages for the client.
    #[must_use]
    pub fn buffer(&self) -> &Arc<SendBuffer> {
        &self.buffer
    }

    /// Stops and joins the thread.
    pub fn stop(&self) {
        self.interrupt.request();
        self.buffer.close();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // Its panics are errors of operators.
            let _ = thread.join();
        }
    }
}

impl Drop for HostRun {
    fn drop(&mut self) {
        self.stop();
    }
}
