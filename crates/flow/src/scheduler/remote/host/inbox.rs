//! Client end of a link: a host's messages, in order, until the plan reads them.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::message::MessageError;
use super::super::results::CauseCodec;
use super::message::{HostBatch, HostCodec};
use crate::{OpErrorKind, PortType, RunError, SourceEvent};

/// Why a link failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// Unreadable message.
    #[error("a message of {host} cannot be read: {why}; report this as a bug of Isochrony")]
    Message {
        /// Host.
        host: String,
        /// What is wrong.
        why: String,
    },
    /// Missing message.
    #[error(
        "message {number} of {host} follows message {last}: what lies between is lost; report this as a bug of Isochrony"
    )]
    Missing {
        /// Host.
        host: String,
        /// Its number.
        number: u64,
        /// Number of the previous message.
        last: u64,
    },
}

#[derive(Default)]
struct ArrivedMessages {
    batches: VecDeque<HostBatch>,
    arrived: u64,
    read: u64,
    bytes: u64,
    /// Of the sources on the host, by the last message.
    positions: Vec<Option<(i64, u32)>>,
    failure: Option<RunError>,
    ended: bool,
    closed: bool,
    waker: Option<Waker>,
}

/// Messages from a host.
pub struct HostInbox {
    host: String,
    codec: HostCodec,
    operators: Vec<&'static str>,
    /// Numbers among the nodes of the plan's form.
    sources: Vec<usize>,
    window: u64,
    messages: Mutex<ArrivedMessages>,
    changed: Condvar,
}

impl HostInbox {
    pub(super) fn new(
        host: String,
        port: PortType,
        operators: Vec<&'static str>,
        sources: Vec<usize>,
        window: u64,
    ) -> Self {
        Self {
            host,
            codec: HostCodec::of(port),
            operators,
            sources,
            window,
            messages: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ArrivedMessages> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Maximum bytes of unread messages.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Number of the last message received: a new connection continues after it.
    #[must_use]
    pub fn arrived(&self) -> u64 {
        self.lock().arrived
    }

    /// Bytes received.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    /// Accepts a message; ignores a repeated one.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn push(
        &self,
        number: u64,
        message: &[u8],
        causes: &dyn CauseCodec,
    ) -> Result<(), HostError> {
        let last = self.lock().arrived;
        if number <= last {
            return Ok(());
        }
        let host = || self.host.clone();
        if number != last + 1 {
            let host = host();
            return Err(HostError::Missing { host, number, last });
        }
        let unreadable = |why: MessageError| HostError::Message {
            host: host(),
            why: why.to_string(),
        };
        let batch = self
            .codec
            .decode(message, &self.host, causes, &self.operators);
        let batch = batch.map_err(unreadable)?;
        let mut messages = self.lock();
        messages.arrived = number;
        messages.bytes += message.len() as u64;
        if !batch.sources.is_empty() {
            messages.positions = batch.sources.iter().map(|one| one.position).collect();
        }
        messages.ended |= batch.failure.is_some();
        messages.ended |= matches!(batch.events.last(), Some(SourceEvent::End));
        messages.batches.push_back(batch);
        let waker = messages.waker.clone();
        drop(messages);
        waker.iter().for_each(Waker::wake_by_ref);
        Ok(())
    }

    /// Ends the link with an error.
    pub fn fail(&self, why: crate::Cause) {
        let mut messages = self.lock();
        messages.failure.get_or_insert(RunError::Operator {
            operator: "on",
            node: 0,
            range: None,
            time: None,
            error: OpErrorKind::Failed(why).into(),
        });
        let waker = messages.waker.clone();
        drop(messages);
        self.changed.notify_all();
        waker.iter().for_each(Waker::wake_by_ref);
    }

    /// Waits for a number of read messages above `after`.
    #[must_use]
    pub fn read_after(&self, after: u64, wait: Duration) -> Option<u64> {
        let until = Instant::now() + wait;
        let mut messages = self.lock();
        loop {
            if messages.read > after {
                return Some(messages.read);
            }
            let left = until.saturating_duration_since(Instant::now());
            if messages.closed || left.is_zero() {
                return None;
            }
            let waited = self.changed.wait_timeout(messages, left);
            messages = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether nothing more is wanted or follows.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let messages = self.lock();
        messages.closed || messages.ended || messages.failure.is_some()
    }

    /// The plan for a new process, whose feeds continue as new runs where the lost host's ended; None if a source
    /// cannot: a stored signal would be read anew.
    #[must_use]
    pub fn resumed(&self, form: &Value) -> Option<Value> {
        let positions = self.lock().positions.clone();
        let mut form = form.clone();
        for (nth, &node) in self.sources.iter().enumerate() {
            let scan = form.pointer_mut(&format!("/nodes/{node}/of"))?;
            let scan = scan.as_object_mut()?;
            if !scan.contains_key("listen") {
                return None;
            }
            // A host lost before its first message starts anew.
            if let Some(position) = positions.get(nth) {
                let (index, run) = (*position)?;
                scan.insert("resume".into(), json!([index, run]));
            }
        }
        Some(form)
    }

    pub(super) fn set_waker(&self, waker: &Waker) {
        self.lock().waker = Some(waker.clone());
    }

    /// The link's own error follows all received messages.
    pub(super) fn take(&self) -> Result<Option<HostBatch>, RunError> {
        let mut messages = self.lock();
        let Some(batch) = messages.batches.pop_front() else {
            return messages.failure.take().map_or(Ok(None), Err);
        };
        messages.read += 1;
        drop(messages);
        self.changed.notify_all();
        Ok(Some(batch))
    }

    pub(super) fn close(&self) {
        let mut messages = self.lock();
        messages.closed = true;
        messages.batches.clear();
        drop(messages);
        self.changed.notify_all();
    }
}

pub(super) struct InboxReader(pub(super) Arc<HostInbox>);

impl Drop for InboxReader {
    fn drop(&mut self) {
        self.0.close();
    }
}
