//! A source of 16-bit samples in one file.
#![allow(unsafe_code)] // Views into a mapping.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use isochrony_segment::{Buffer, BufferKind, DType, Owner, SigSeg, Stream, StreamId};
use isochrony_time::{Rate, TimebaseId};
use memmap2::{MmapOptions, MmapRaw};

use crate::source::{FileRange, SampleSource, ShardFile, ShardLayout, Shards, SourceError};

const SIZE: i64 = 2;

#[derive(Debug)]
pub(crate) struct TestSource {
    path: PathBuf,
    end: i64,
    gaps: Vec<Range<i64>>,
    mapping: OnceLock<Arc<TestMapping>>,
}

#[derive(Debug)]
struct TestMapping(MmapRaw);

impl Owner for TestMapping {
    fn kind(&self) -> BufferKind {
        BufferKind::Mapped
    }
}

impl TestSource {
    pub(crate) fn shared(path: &Path, end: i64, gaps: Vec<Range<i64>>) -> Arc<dyn SampleSource> {
        Arc::new(Self {
            path: path.to_owned(),
            end,
            gaps,
            mapping: OnceLock::new(),
        })
    }

    fn mapping(&self) -> io::Result<Arc<TestMapping>> {
        if let Some(mapping) = self.mapping.get() {
            return Ok(mapping.clone());
        }
        let raw = MmapOptions::new().map_raw_read_only(&File::open(&self.path)?)?;
        Ok(self
            .mapping
            .get_or_init(|| Arc::new(TestMapping(raw)))
            .clone())
    }
}

impl SampleSource for TestSource {
    fn name(&self) -> &str {
        "test"
    }

    fn folder(&self) -> &Path {
        &self.path
    }

    fn dtype(&self) -> DType {
        DType::I16
    }

    fn stream(&self) -> StreamId {
        let rate = Rate::from_hz(100).expect("a rate");
        Stream::new("test", TimebaseId(1), rate).intern()
    }

    fn why_decoded(&self) -> Option<String> {
        None
    }

    fn end(&self) -> i64 {
        self.end
    }

    fn gap_within(&self, range: Range<i64>) -> Option<Range<i64>> {
        let mut gaps = self.gaps.iter();
        let found = gaps.find(|gap| gap.start < range.end && range.start < gap.end);
        found.cloned()
    }

    fn samples_within(&self, range: Range<i64>) -> i64 {
        let within = |gap: &Range<i64>| gap.end.min(range.end) - gap.start.max(range.start);
        let missing: i64 = self.gaps.iter().map(|gap| within(gap).max(0)).sum();
        range.end - range.start - missing
    }

    fn layout(&self) -> ShardLayout {
        ShardLayout {
            shard_bytes: 1 << 62,
            payload_start: 0,
        }
    }

    fn shards(&self) -> Box<dyn Shards> {
        Box::new(OneFile(self.path.clone()))
    }

    fn can_read(&self, range: &Range<i64>) -> bool {
        0 <= range.start && range.end <= self.end
    }

    fn read(&self, range: Range<i64>) -> Result<SigSeg, SourceError> {
        let mapping = self.mapping()?;
        let (from, to) = ((range.start * SIZE) as usize, (range.end * SIZE) as usize);
        assert!(from <= to && to <= mapping.0.len(), "{range:?}");
        // SAFETY: `from` lies within the mapping by the line above.
        let ptr = NonNull::new(unsafe { mapping.0.as_mut_ptr().add(from) }).expect("a mapping");
        let owner: Arc<dyn Owner> = mapping;
        // SAFETY: the mapping lives as long as its owner; nobody writes to or cuts the file.
        let buffer = unsafe { Buffer::from_owner(owner, ptr, to - from) };
        Ok(SigSeg::new(
            buffer,
            range.start,
            self.dtype(),
            self.stream(),
        )?)
    }

    fn keep_open(&self, _file: &Arc<File>) {}

    fn close(&self, _file: &Arc<File>) {}
}

#[derive(Debug)]
struct OneFile(PathBuf);

impl Shards for OneFile {
    fn open(&mut self, _span: &FileRange) -> Result<Option<Box<dyn ShardFile>>, SourceError> {
        let file = File::open(&self.0)?;
        let path = self.0.clone();
        Ok(Some(Box::new(OpenedFile { file, path })))
    }
}

#[derive(Debug)]
struct OpenedFile {
    file: File,
    path: PathBuf,
}

impl ShardFile for OpenedFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn os_file(&self) -> Option<&File> {
        Some(&self.file)
    }

    fn network(&self) -> Option<&'static str> {
        None
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn reopen(&self) -> io::Result<File> {
        File::open(&self.path)
    }
}
