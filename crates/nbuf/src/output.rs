//! Outputs of bytes.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

use isochrony_system::descriptor::{reopen_nonblocking, send_nonblocking};

use crate::descriptor::{self, DescriptorKind};

/// An output of an execution.
pub struct Output<'a> {
    pub(crate) name: String,
    kind: OutputKind<'a>,
}

enum OutputKind<'a> {
    Writer(Box<dyn Write + Send + 'a>),
    File(File),
    /// Non-blocking.
    Pipe(File),
    Socket(File),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    Written,
    /// While nobody read the bytes.
    Stopped,
}

impl<'a> Output<'a> {
    /// Creates or overwrites a file.
    ///
    /// # Errors
    /// Of opening it.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        Ok(Self::file(File::create(path)?)?.named(path.display().to_string()))
    }

    /// An open file, pipe, socket or device, from its position on.
    ///
    /// # Errors
    /// Of reading its metadata.
    pub fn file(file: File) -> io::Result<Self> {
        let (name, kind) = match descriptor::kind_and_size(&file)?.0 {
            DescriptorKind::Pipe => ("pipe", OutputKind::Pipe(reopen_nonblocking(file))),
            DescriptorKind::Socket => ("socket", OutputKind::Socket(file)),
            DescriptorKind::Regular | DescriptorKind::Other => ("file", OutputKind::File(file)),
        };
        let name = name.to_owned();
        Ok(Self { name, kind })
    }

    /// Any writer. An execution cannot be stopped while in `write`.
    #[must_use]
    pub fn writer(writer: impl Write + Send + 'a) -> Self {
        Self {
            name: "writer".to_owned(),
            kind: OutputKind::Writer(Box::new(writer)),
        }
    }

    /// Sets the name in errors and reports.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Calls `on_written` with the length of each part.
    pub(crate) fn write_all(
        &mut self,
        mut bytes: &[u8],
        on_written: &dyn Fn(usize),
        is_stopped: &dyn Fn() -> bool,
    ) -> io::Result<WriteOutcome> {
        while !bytes.is_empty() {
            let written = match &mut self.kind {
                OutputKind::Writer(writer) => writer.write(bytes),
                OutputKind::File(file) => file.write(bytes),
                OutputKind::Pipe(pipe) => pipe.write(bytes),
                OutputKind::Socket(socket) => send_nonblocking(socket, bytes),
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) if count > bytes.len() => {
                    let message = format!(
                        "it reports {count} bytes written, but it was given {}",
                        bytes.len()
                    );
                    return Err(io::Error::new(io::ErrorKind::InvalidData, message));
                }
                Ok(count) => {
                    on_written(count);
                    bytes = &bytes[count..];
                }
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                    if is_stopped() {
                        return Ok(WriteOutcome::Stopped);
                    }
                    self.wait_until_writable(why)?;
                }
                Err(why) => return Err(why),
            }
        }
        Ok(WriteOutcome::Written)
    }

    /// Waits at most one poll interval. Returns the error of a writer that would block: there is nothing to poll.
    fn wait_until_writable(&self, why: io::Error) -> io::Result<()> {
        match &self.kind {
            OutputKind::File(file) | OutputKind::Pipe(file) | OutputKind::Socket(file) => {
                descriptor::poll_writable(file.as_fd()).map(drop)
            }
            OutputKind::Writer(_) => Err(why),
        }
    }

    /// Files are not buffered here.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match &mut self.kind {
            OutputKind::Writer(writer) => writer.flush(),
            OutputKind::File(_) | OutputKind::Pipe(_) | OutputKind::Socket(_) => Ok(()),
        }
    }
}

impl fmt::Debug for Output<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
