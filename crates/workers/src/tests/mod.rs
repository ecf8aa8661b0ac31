//! Tests against a fake process: a thread that speaks the protocol.

mod connection;
mod messages;
mod pool;
mod records;
mod wire;

use std::fs::File;
use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::connection::Connection;
use crate::{Encoding, HostFunction, PortableFunction, SerializedFunction};

const PID: u32 = 4321;

/// As in `workers/process.py`.
struct FakeProcess {
    socket: UnixStream,
    memory: Option<File>,
}

impl FakeProcess {
    fn start<T: Send + 'static>(
        act: impl FnOnce(&mut Self) -> T + Send + 'static,
    ) -> (Connection, JoinHandle<T>) {
        let (ours, socket) = UnixStream::pair().unwrap();
        let mut process = Self {
            socket,
            memory: None,
        };
        let thread = std::thread::spawn(move || act(&mut process));
        (Connection::new(ours, PID).unwrap(), thread)
    }

    fn send(&mut self, kind: u32, body: &[u8]) {
        self.socket.write_all(&kind.to_ne_bytes()).unwrap();
        let len = body.len() as u64;
        self.socket.write_all(&len.to_ne_bytes()).unwrap();
        self.socket.write_all(body).unwrap();
    }

    /// With a descriptor of memory beside it.
    fn receive(&mut self) -> (u32, Vec<u8>) {
        let mut header = [0; 12];
        self.socket.read_exact(&mut header).unwrap();
        let kind = u32::from_ne_bytes(header[..4].try_into().unwrap());
        let len = u64::from_ne_bytes(header[4..].try_into().unwrap());
        let mut body = vec![0; len as usize];
        self.socket.read_exact(&mut body).unwrap();
        if kind == 1 {
            self.memory = Some(self.take_descriptor());
        }
        (kind, body)
    }

    fn take_descriptor(&mut self) -> File {
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut byte)];
        let received = recvmsg(&self.socket, &mut into, &mut ancillary, RecvFlags::empty());
        assert_eq!(received.unwrap().bytes, 1);
        let rights = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
            _ => None,
        });
        File::from(rights.unwrap())
    }

    fn load(&mut self) -> (u32, Vec<u8>) {
        self.send(1, &[]);
        let request = self.receive();
        self.send(2, &[]);
        request
    }

    fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let memory = self.memory.as_ref().unwrap();
        memory.read_exact_at(&mut bytes, at).unwrap();
        bytes
    }

    fn write(&self, bytes: &[u8], at: u64) {
        self.memory
            .as_ref()
            .unwrap()
            .write_all_at(bytes, at)
            .unwrap();
    }
}

fn raised(keeps_memory: bool, [traceback, class, message]: [&str; 3], pickled: &[u8]) -> Vec<u8> {
    let mut body = vec![u8::from(keeps_memory)];
    for text in [traceback, class, message] {
        body.extend((text.len() as u64).to_ne_bytes());
    }
    for text in [traceback, class, message] {
        body.extend(text.as_bytes());
    }
    body.extend(pickled);
    body
}

struct TestFunction {
    id: usize,
    payload: Result<&'static str, &'static str>,
}

impl HostFunction for TestFunction {
    fn id(&self) -> usize {
        self.id
    }

    fn serialize(&self, max_payload: Option<usize>) -> Result<SerializedFunction, String> {
        let payload = self.payload?.as_bytes().to_vec();
        Ok(SerializedFunction {
            encoding: Encoding::Value,
            payload: Some(payload).filter(|bytes| max_payload.is_none_or(|max| bytes.len() <= max)),
            description: "travels by value".into(),
        })
    }
}

fn host_function(payload: &'static str) -> Arc<dyn HostFunction> {
    Arc::new(TestFunction {
        id: payload.as_ptr().addr(),
        payload: Ok(payload),
    })
}

fn function(payload: &'static str) -> Arc<PortableFunction> {
    let function = PortableFunction::new(host_function(payload), None).unwrap();
    function.acquire();
    Arc::new(function)
}
