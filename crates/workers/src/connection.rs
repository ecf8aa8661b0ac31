//! The parent's end of the protocol: functions loaded by a process, and its shared memory.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use crate::error::{ProcessError, RemoteException};
use crate::function::PortableFunction;
use crate::shared_memory::SharedMemory;
use crate::wire::{self, InterruptCheck, RESPONSE_WAIT, Request, Response};

pub(crate) struct Connection {
    socket: UnixStream,
    pid: u32,
    memory: Option<SharedMemory>,
    is_ready: bool,
    /// Set by the current call's request: it may have killed the process.
    was_asked: bool,
    /// Functions sent, by number, and exceptions of loading them.
    loaded: HashMap<u64, (Arc<PortableFunction>, Option<RemoteException>)>,
}

impl Connection {
    pub(crate) fn new(socket: UnixStream, pid: u32) -> io::Result<Self> {
        socket.set_read_timeout(Some(RESPONSE_WAIT))?;
        Ok(Self {
            socket,
            pid,
            memory: None,
            is_ready: false,
            was_asked: false,
            loaded: HashMap::new(),
        })
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }

    pub(crate) fn was_asked(&self) -> bool {
        self.was_asked
    }

    /// An idle process then exits.
    pub(crate) fn close(&self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }

    /// Loads once; returns the exception of the first attempt.
    pub(crate) fn load(
        &mut self,
        function: &Arc<PortableFunction>,
        check: InterruptCheck<'_>,
    ) -> Result<Option<RemoteException>, ProcessError> {
        self.was_asked = false;
        if !self.is_ready {
            self.receive(check)?;
            self.is_ready = true;
        }
        if let Some((_, raised)) = self.loaded.get(&function.number()) {
            return Ok(raised.clone());
        }
        self.forget_released()?;
        let payload = function.payload().map_err(ProcessError::NotPortable)?;
        let number = function.number().to_ne_bytes();
        let encoding = [function.encoding() as u8];
        self.send(Request::LoadFunction, &[&number, &encoding, &payload])?;
        self.was_asked = true;
        let raised = match self.receive(check)? {
            Response::Raised { exception, .. } => Some(RemoteException {
                while_loading: true,
                ..exception
            }),
            _ => None,
        };
        let loaded = (Arc::clone(function), raised.clone());
        self.loaded.insert(function.number(), loaded);
        Ok(raised)
    }

    fn forget_released(&mut self) -> Result<(), ProcessError> {
        let released = (self.loaded).extract_if(|_, (function, _)| function.is_released());
        let numbers: Vec<u8> = released
            .flat_map(|(number, _)| number.to_ne_bytes())
            .collect();
        if numbers.is_empty() {
            return Ok(());
        }
        self.send(Request::ForgetFunctions, &[&numbers])
    }

    pub(crate) fn ask(
        &mut self,
        request: Request,
        parts: &[&[u8]],
        check: InterruptCheck<'_>,
    ) -> Result<Response, ProcessError> {
        self.send(request, parts)?;
        self.was_asked = true;
        self.receive(check)
    }

    fn send(&mut self, request: Request, parts: &[&[u8]]) -> Result<(), ProcessError> {
        Ok(wire::send(&mut self.socket, request, parts)?)
    }

    fn receive(&mut self, check: InterruptCheck<'_>) -> Result<Response, ProcessError> {
        let mut response = wire::receive(&mut self.socket, check)?;
        match &mut response {
            Response::Raised { exception, .. } => exception.pid = self.pid,
            Response::RecordsDone { result, .. } => {
                if let Some(exception) = &mut result.failure {
                    exception.pid = self.pid;
                }
            }
            _ => {}
        }
        Ok(response)
    }

    pub(crate) fn reserve(&mut self, bytes: u64) -> Result<&SharedMemory, ProcessError> {
        if self.memory.is_none() {
            let memory = SharedMemory::create()?;
            self.send(Request::Memory, &[])?;
            memory.send(&self.socket)?;
            self.memory = Some(memory);
        }
        let Some(memory) = &mut self.memory else {
            return Err(ProcessError::Died);
        };
        // An empty file cannot be mapped.
        memory.reserve(bytes.max(1))?;
        Ok(memory)
    }

    pub(crate) fn read(&self, into: &mut [u8], at: u64) -> Result<(), ProcessError> {
        match &self.memory {
            Some(memory) => Ok(memory.read(into, at)?),
            None => Err(io::Error::from(io::ErrorKind::NotFound).into()),
        }
    }

    /// A function keeps a reference to the memory: the next call gets new memory.
    pub(crate) fn abandon_memory(&mut self) {
        self.memory = None;
    }
}
