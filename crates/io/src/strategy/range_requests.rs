//! `range_requests`: reads ranges of objects on a server, several at a time, ahead of the scan.
//!
//! A request costs its latency whatever its length, so nearby pieces and the holes between them share one, and requests
//! overlap. By Little's law a link is busy while bandwidth times latency is in flight. Neither is known, so
//! [`INITIAL_DEPTH`] requests are doubled, up to [`MAX_DEPTH`], whenever that raises the throughput by more than a
//! tenth. On a slow link the number stays, so that the first samples do not share bandwidth with later ones.
//! [`READ_AHEAD_BYTES`](crate::scan::READ_AHEAD_BYTES) holds [`MAX_DEPTH`] requests.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{DataPath, IoStrategy, StartError, Strategy};
use crate::error::{ErrorContext, IoError};
use crate::scan::{
    Attempt, BufferPool, Fallback, MergePolicy, PieceFiller, PieceQueues, Prefetcher, QueueScan,
    ReadThreads, ScanSpec, SourceFiles, bytes_present,
};
use crate::source::FileRange;

const REQUEST_BYTES: u64 = 8 << 20;
/// On most links this costs less than a request's latency.
const MAX_HOLE_BYTES: u64 = 256 << 10;
const INITIAL_DEPTH: usize = 4;
const MAX_DEPTH: usize = 8;
/// Least speed-up that keeps more requests in flight.
const MIN_SPEEDUP: f64 = 1.1;

pub(crate) struct RangeRequestsStrategy;

impl IoStrategy for RangeRequestsStrategy {
    fn name(&self) -> &'static str {
        "range_requests"
    }

    fn piece_bytes(&self) -> u64 {
        REQUEST_BYTES
    }

    fn data_path(&self) -> DataPath {
        DataPath::DIRECT
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn reads_any_file(&self) -> bool {
        true
    }

    fn fallback(&self, mut files: SourceFiles, first: &Range<i64>) -> Option<Fallback> {
        let span = files.spans(first).next()?;
        let shard = files.shard(&span).ok()??;
        (!shard.is_remote()).then(|| Fallback {
            strategy: Strategy::Read,
            why: "its files lie on a disk of this machine".into(),
        })
    }

    fn start(&self, scan: ScanSpec) -> Result<Arc<dyn Prefetcher>, StartError> {
        let pieces = scan.pieces(scan.piece).take(MAX_DEPTH).count();
        let (source, piece) = (scan.source.clone(), scan.piece);
        let size = source.dtype().size() as u64;
        let merging = MergePolicy {
            hole: (MAX_HOLE_BYTES / size).cast_signed(),
            // The end of a range is joined to its last piece.
            most: piece.max((REQUEST_BYTES / size).cast_signed()),
        };
        let queues = PieceQueues::new(scan.source, piece, scan.readers, scan.tasks);
        let mut queues = queues.merging(merging);
        queues.set_depth(INITIAL_DEPTH);
        let controller = Arc::new(Mutex::new(DepthController::new(Instant::now())));
        let (files, opened) = (source.clone(), Arc::new(AtomicU64::new(0)));
        let filler = move || -> Box<dyn PieceFiller> {
            Box::new(RangeFiller {
                files: SourceFiles::new(&files),
                controller: controller.clone(),
                opened: opened.clone(),
                depth: None,
            })
        };
        let threads = pieces.clamp(1, MAX_DEPTH);
        let threads = ReadThreads::start(queues, threads, Box::new(filler))?;
        Ok(QueueScan::shared(source, threads))
    }
}

/// Adapts the number of requests in flight.
#[derive(Debug)]
struct DepthController {
    depth: usize,
    since: Instant,
    bytes: u64,
    requests: usize,
    before: f64,
    is_settled: bool,
}

impl DepthController {
    fn new(now: Instant) -> Self {
        Self {
            depth: INITIAL_DEPTH,
            since: now,
            bytes: 0,
            requests: 0,
            before: 0.0,
            is_settled: false,
        }
    }

    /// Counts a completed request; returns how many to have in flight.
    fn complete_request(&mut self, bytes: u64, now: Instant) -> usize {
        self.bytes += bytes;
        self.requests += 1;
        if self.is_settled || self.requests < self.depth {
            return self.depth;
        }
        let time = now.duration_since(self.since).max(Duration::from_micros(1));
        let rate = self.bytes as f64 / time.as_secs_f64();
        if rate <= self.before * MIN_SPEEDUP {
            self.depth /= 2;
            self.is_settled = true;
        } else if self.depth < MAX_DEPTH {
            self.depth *= 2;
        } else {
            self.is_settled = true;
        }
        (self.before, self.since) = (rate, now);
        (self.bytes, self.requests) = (0, 0);
        self.depth
    }
}

struct RangeFiller {
    files: SourceFiles,
    controller: Arc<Mutex<DepthController>>,
    /// The last shard opened in advance.
    opened: Arc<AtomicU64>,
    depth: Option<usize>,
}

impl RangeFiller {
    /// Takes several sequential requests, during which other threads use the link.
    fn open_next(&mut self, shard: u64) {
        let (source, next) = (self.files.source(), shard + 1);
        let (layout, size) = (source.layout(), source.dtype().size() as u64);
        let first = (next * layout.shard_bytes / size).cast_signed();
        if !source.opens_ahead()
            || self.opened.fetch_max(next, Ordering::Relaxed) >= next
            || first >= source.end()
        {
            return;
        }
        let _ = self.files.shard(&FileRange {
            shard: next,
            offset: layout.payload_start,
            len: size,
        });
    }
}

impl PieceFiller for RangeFiller {
    fn fill(
        &mut self,
        request: &Range<i64>,
        buffers: &Mutex<BufferPool>,
    ) -> Result<Attempt, IoError> {
        let size = self.files.source().dtype().size() as u64;
        let bytes = (request.end - request.start).cast_unsigned() * size;
        let len = usize::try_from(bytes).map_err(|_| IoError::TooLarge {
            what: "one request of a scan",
            bytes: u128::from(bytes),
            limit: usize::MAX as u128,
        })?;
        let pool = || buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = pool().take(len)?;
        let Some(memory) = buffer.get_mut() else {
            return Ok(Attempt::FallBack("its buffer is in use".into()));
        };
        let (mut at, mut index) = (0, request.start);
        let mut last = None;
        for span in self.files.spans(request) {
            let own = index..index + (span.len / size).cast_signed();
            index = own.end;
            let room = &mut memory[at..at + span.len as usize];
            at += room.len();
            let has_samples = |range: Range<i64>| self.files.source().samples_within(range) > 0;
            // A shard-sized gap has no file.
            if !has_samples(own.clone()) {
                continue;
            }
            let Some(shard) = self.files.shard(&span)? else {
                return Ok(Attempt::FallBack("another program wrote its shards".into()));
            };
            let have = match shard.read_once(span.offset, room) {
                Ok(have) => have,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
                    return Err(IoError::Interrupted);
                }
                Err(error) => return Err(error).with_path("read", shard.path()),
            };
            last = Some(span.shard);
            let there = own.start + (have as u64 / size).cast_signed();
            if have < room.len() && self.files.source().samples_within(there..own.end) > 0 {
                return Err(IoError::MissingSamples {
                    path: shard.path().to_owned(),
                    have: bytes_present(shard.len(), span.offset + have as u64),
                    need: span.offset + span.len,
                });
            }
        }
        let samples = buffer.slice(0..len);
        pool().release(buffer);
        let mut controller = self
            .controller
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.depth = Some(controller.complete_request(bytes, Instant::now()));
        drop(controller);
        if let Some(shard) = last {
            self.open_next(shard);
        }
        Ok(samples.map_or_else(
            || Attempt::FallBack("its buffer is too short".into()),
            Attempt::Read,
        ))
    }

    fn depth(&mut self) -> Option<usize> {
        self.depth.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrives(depth: usize, bandwidth: f64, latency: f64) -> f64 {
        let in_flight = depth as f64 * REQUEST_BYTES as f64;
        bandwidth.min(in_flight / (latency + REQUEST_BYTES as f64 / bandwidth))
    }

    fn settles(bandwidth: f64, latency: f64) -> usize {
        let mut now = Instant::now();
        let mut controller = DepthController::new(now);
        for _ in 0..100 {
            let rate = arrives(controller.depth, bandwidth, latency);
            now += Duration::from_secs_f64(REQUEST_BYTES as f64 / rate);
            controller.complete_request(REQUEST_BYTES, now);
        }
        controller.depth
    }

    #[test]
    fn more_requests_are_in_flight_only_while_throughput_grows() {
        assert_eq!(settles(200e6, 0.030), INITIAL_DEPTH);
        assert_eq!(settles(5e9, 0.200), MAX_DEPTH);
        assert_eq!(settles(1e6, 0.030), INITIAL_DEPTH);
    }
}
