//! Where bytes come from.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use crate::descriptor::{self, Kind as System};

/// An input of a run.
pub struct Input<'a> {
    pub(crate) name: String,
    pub(crate) kind: Kind<'a>,
}

pub(crate) enum Kind<'a> {
    /// Workers look at it where it lies.
    Lent(&'a [u8]),
    /// Read at places of their own by several workers at once.
    File {
        file: Arc<File>,
        start: u64,
        end: u64,
    },
    /// Something of the system that has only a next byte.
    Descriptor(File),
    /// Anything else that has only a next byte.
    Reader(Box<dyn Read + Send + 'a>),
}

impl<'a> Input<'a> {
    /// Memory, which is lent to the workers and not copied.
    #[must_use]
    pub fn bytes(bytes: &'a [u8]) -> Self {
        Self {
            name: "memory".to_owned(),
            kind: Kind::Lent(bytes),
        }
    }

    /// A file by its path.
    ///
    /// # Errors
    /// What the system says when it is opened.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(Self::file(file)?.named(path.display().to_string()))
    }

    /// An open file, pipe, socket or device, from where it stands. A regular file is read up to the size that it has now,
    /// by several workers at once.
    ///
    /// # Errors
    /// What the system says when it is asked what this is.
    pub fn file(file: File) -> io::Result<Self> {
        let (kind, size) = descriptor::kind(&file)?;
        let (name, kind) = match kind {
            System::Regular => {
                let start = (&file).stream_position()?;
                descriptor::sequential(&file);
                let end = size.max(start);
                let file = Arc::new(file);
                ("file", Kind::File { file, start, end })
            }
            System::Pipe => ("pipe", Kind::Descriptor(file)),
            System::Socket => ("socket", Kind::Descriptor(file)),
            System::Other => ("device", Kind::Descriptor(file)),
        };
        let name = name.to_owned();
        Ok(Self { name, kind })
    }

    /// Anything that can be read. While it waits for bytes, the run cannot be stopped.
    #[must_use]
    pub fn reader(reader: impl Read + Send + 'a) -> Self {
        Self {
            name: "reader".to_owned(),
            kind: Kind::Reader(Box::new(reader)),
        }
    }

    /// What errors and reports call it.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Whether reading takes time: of the system, or of somebody who writes.
    pub(crate) fn waits(&self) -> bool {
        !matches!(self.kind, Kind::Lent(_))
    }

    /// Whether it has only a next byte.
    pub(crate) fn streams(&self) -> bool {
        matches!(self.kind, Kind::Descriptor(_) | Kind::Reader(_))
    }

    /// How many bytes it has, if that can be known.
    pub(crate) fn size(&self) -> Option<u64> {
        match &self.kind {
            Kind::Lent(bytes) => Some(bytes.len() as u64),
            Kind::File { start, end, .. } => Some(end - start),
            _ => None,
        }
    }

    /// Leaves an open file where reading it by somebody else would go on.
    pub(crate) fn leave_at(&self, read: u64) {
        if let Kind::File { file, start, .. } = &self.kind {
            // A file that can be read at places can be sought; if not, nobody can go on there.
            let _ = (&**file).seek(SeekFrom::Start(start + read));
        }
    }
}

impl fmt::Debug for Input<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
