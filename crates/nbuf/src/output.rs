//! Where bytes go.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

use socket2::SockRef;

use crate::descriptor::{self, Kind as System};

/// An output of a run.
pub struct Output<'a> {
    pub(crate) name: String,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Writer(Box<dyn Write + Send + 'a>),
    File(File),
    /// Made not to wait.
    Pipe(File),
    Socket(File),
}

/// What came of writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrote {
    All,
    /// The run was stopped while nobody took the bytes.
    Stopped,
}

impl<'a> Output<'a> {
    /// A new file, or one whose content is replaced.
    ///
    /// # Errors
    /// What the system says when it is opened.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        Ok(Self::file(File::create(path)?)?.named(path.display().to_string()))
    }

    /// An open file, pipe, socket or device, from where it stands.
    ///
    /// # Errors
    /// What the system says when it is asked what this is.
    pub fn file(file: File) -> io::Result<Self> {
        let (name, kind) = match descriptor::kind(&file)?.0 {
            System::Pipe => ("pipe", Kind::Pipe(descriptor::impatient(file))),
            System::Socket => ("socket", Kind::Socket(file)),
            System::Regular | System::Other => ("file", Kind::File(file)),
        };
        let name = name.to_owned();
        Ok(Self { name, kind })
    }

    /// Anything that can be written. While it takes bytes, the run cannot be stopped.
    #[must_use]
    pub fn writer(writer: impl Write + Send + 'a) -> Self {
        Self {
            name: "writer".to_owned(),
            kind: Kind::Writer(Box::new(writer)),
        }
    }

    /// What errors and reports call it.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Writes all bytes, and tells `wrote` of each part of them.
    pub(crate) fn write_all(
        &mut self,
        mut bytes: &[u8],
        wrote: &dyn Fn(usize),
        stopped: &dyn Fn() -> bool,
    ) -> io::Result<Wrote> {
        while !bytes.is_empty() {
            let once = match &mut self.kind {
                Kind::Writer(writer) => writer.write(bytes),
                Kind::File(file) => file.write(bytes),
                Kind::Pipe(pipe) => pipe.write(bytes),
                Kind::Socket(socket) => {
                    let now = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
                    SockRef::from(&*socket).send_with_flags(bytes, now)
                }
            };
            match once {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) if count > bytes.len() => {
                    let message = format!(
                        "it says that it wrote {count} bytes where it was given {}",
                        bytes.len()
                    );
                    return Err(io::Error::new(io::ErrorKind::InvalidData, message));
                }
                Ok(count) => {
                    wrote(count);
                    bytes = &bytes[count..];
                }
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                    if stopped() {
                        return Ok(Wrote::Stopped);
                    }
                    self.wait(why)?;
                }
                Err(why) => return Err(why),
            }
        }
        Ok(Wrote::All)
    }

    /// Waits a moment for room.
    fn wait(&self, why: io::Error) -> io::Result<()> {
        match &self.kind {
            // Ours to wait for: the system's.
            Kind::File(file) | Kind::Pipe(file) | Kind::Socket(file) => {
                descriptor::writable(file.as_fd()).map(drop)
            }
            Kind::Writer(_) => Err(why),
        }
    }

    /// Hands on what a writer keeps back.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match &mut self.kind {
            Kind::Writer(writer) => writer.flush(),
            Kind::File(_) | Kind::Pipe(_) | Kind::Socket(_) => Ok(()),
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
