//! Inputs of bytes.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use isochrony_system::page_cache::advise_sequential;

use crate::descriptor::{self, DescriptorKind};

/// An input of an execution.
pub struct Input<'a> {
    pub(crate) name: String,
    pub(crate) kind: InputKind<'a>,
}

pub(crate) enum InputKind<'a> {
    /// Processed in place.
    Memory(&'a [u8]),
    /// Several workers read different ranges at once.
    File {
        file: Arc<File>,
        start: u64,
        end: u64,
    },
    /// A pipe, socket or device, read in sequence.
    Descriptor(File),
    /// Read in sequence.
    Reader(Box<dyn Read + Send + 'a>),
}

impl<'a> Input<'a> {
    /// Memory, processed in place.
    #[must_use]
    pub fn bytes(bytes: &'a [u8]) -> Self {
        Self {
            name: "memory".to_owned(),
            kind: InputKind::Memory(bytes),
        }
    }

    /// A file.
    ///
    /// # Errors
    /// Of opening it.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(Self::file(file)?.named(path.display().to_string()))
    }

    /// An open file, pipe, socket or device, from its position on. Several workers read a regular file at once, up to
    /// its present size.
    ///
    /// # Errors
    /// Of reading its metadata.
    pub fn file(file: File) -> io::Result<Self> {
        let (kind, size) = descriptor::kind_and_size(&file)?;
        let (name, kind) = match kind {
            DescriptorKind::Regular => {
                let start = (&file).stream_position()?;
                advise_sequential(&file);
                let end = size.max(start);
                let file = Arc::new(file);
                ("file", InputKind::File { file, start, end })
            }
            DescriptorKind::Pipe => ("pipe", InputKind::Descriptor(file)),
            DescriptorKind::Socket => ("socket", InputKind::Descriptor(file)),
            DescriptorKind::Other => ("device", InputKind::Descriptor(file)),
        };
        let name = name.to_owned();
        Ok(Self { name, kind })
    }

    /// Any reader. An execution cannot be stopped while in `read`.
    #[must_use]
    pub fn reader(reader: impl Read + Send + 'a) -> Self {
        Self {
            name: "reader".to_owned(),
            kind: InputKind::Reader(Box::new(reader)),
        }
    }

    /// Sets the name in errors and reports.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    pub(crate) fn needs_reading(&self) -> bool {
        !matches!(self.kind, InputKind::Memory(_))
    }

    pub(crate) fn is_sequential(&self) -> bool {
        matches!(self.kind, InputKind::Descriptor(_) | InputKind::Reader(_))
    }

    pub(crate) fn size(&self) -> Option<u64> {
        match &self.kind {
            InputKind::Memory(bytes) => Some(bytes.len() as u64),
            InputKind::File { start, end, .. } => Some(end - start),
            _ => None,
        }
    }

    /// Sets a file's position after the bytes read, for its next reader.
    pub(crate) fn seek_to(&self, read: u64) {
        if let InputKind::File { file, start, .. } = &self.kind {
            // A file that is read at an offset can be sought.
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
