//! Gathers a plan's whole result.

use arrow_array::RecordBatch;
use isochrony_segment::{has_free_memory, prefer_large_pages};

use crate::operator;
use crate::plan::rows::Gatherer;
use crate::{
    Array, Contract, Inputs, Item, Next, OpError, OpErrorKind, Operator, OperatorProperties, Out,
    PlanError, PlanOutput, Port, PortType,
};

operator! {
    /// Gathers results in memory; part of `Plan.collect`.
    ///
    /// # Inputs
    /// Anything.
    ///
    /// # Returns
    /// Samples as one array, shape (n,); windows, shape (n, N); ranges, shape (n, 2); rows as one table. No edges, no
    /// delay.
    ///
    /// # Errors
    /// A short last window, as `tail="keep"` of `rewindow` leaves.
    pub struct Collect = "collect" (Inputs::Exactly(1)) {}
    state {
        gathered: Option<PlanOutput>,
        rows: Option<Gatherer>,
        /// Samples per row of the array.
        hop: u64,
    }
}

/// Most bytes reserved before data arrives.
const MAX_RESERVED_BYTES: usize = 1 << 30;

/// New memory is in large pages.
fn append(gathered: &mut Vec<u8>, more: &[u8]) -> Result<(), OpError> {
    if gathered.capacity() - gathered.len() < more.len() {
        // The vector doubles; memory is allocated only when written to.
        let room = has_free_memory(gathered.len().max(more.len()) as u64);
        if !room || gathered.try_reserve(more.len()).is_err() {
            return Err(OpErrorKind::ResultTooLarge {
                gathered: gathered.len() as u64,
                more: more.len() as u64,
            }
            .into());
        }
        prefer_large_pages(gathered.spare_capacity_mut());
    }
    gathered.extend_from_slice(more);
    Ok(())
}

impl Operator for Collect {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        if let Some(&PortType::Rows { fields, .. }) = inputs.first() {
            self.rows = Some(Gatherer::new(fields));
        }
        self.gathered = inputs.first().map(|port| match *port {
            PortType::Rows { fields, .. } => {
                PlanOutput::Rows(RecordBatch::new_empty(fields.schema().clone()))
            }
            PortType::Ranges { .. } => PlanOutput::Ranges(Vec::new()),
            PortType::Count => PlanOutput::Count(0),
            PortType::Samples { dtype, .. } => PlanOutput::Array(Array {
                dtype,
                shape: vec![0],
                bytes: Vec::new(),
                parts: Vec::new(),
            }),
            PortType::Frames { dtype, width, .. } => PlanOutput::Array(Array {
                dtype,
                shape: vec![0, width as u64],
                bytes: Vec::new(),
                parts: Vec::new(),
            }),
        });
        self.hop = match inputs.first() {
            Some(&PortType::Frames { hop, .. }) => hop,
            _ => 1,
        };
        Ok(OperatorProperties::new(inputs.iter().copied())
            .contract(Contract::Sequential)
            .cost_ns(0.0))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        if let (Some(gatherer), Item::Rows(rows)) = (&mut self.rows, &*item) {
            gatherer.push(rows)?;
            return Ok(Next::Consumed);
        }
        match (&mut self.gathered, &*item) {
            (Some(PlanOutput::Array(array)), Item::Samples(samples)) => {
                for buffer in samples.buffers() {
                    append(&mut array.bytes, buffer.bytes())?;
                }
                array.shape[0] += samples.len();
                match array.parts.last_mut() {
                    Some((start, len))
                        if start.saturating_add_unsigned(*len) == samples.start() =>
                    {
                        *len += samples.len()
                    }
                    _ => array.parts.push((samples.start(), samples.len())),
                }
            }
            (Some(PlanOutput::Array(array)), Item::Frames(frames)) => {
                let width = array.shape.get(1).map_or(0, |&width| width as usize);
                if frames.width() != width {
                    return Err(OpErrorKind::ShortWindow {
                        got: frames.width(),
                        width,
                    }
                    .into());
                }
                let size = frames.dtype().size();
                let bytes = frames.buffer().bytes();
                if frames.width() == frames.stride() {
                    append(&mut array.bytes, bytes)?;
                } else {
                    let mut rows = (0..frames.count() as usize).map(|k| k * frames.stride() * size);
                    rows.try_for_each(|at| {
                        append(&mut array.bytes, &bytes[at..at + frames.width() * size])
                    })?;
                }
                array.shape[0] += frames.count();
                let hop = frames.hop();
                match array.parts.last_mut() {
                    Some((start, count))
                        if start.saturating_add_unsigned(*count * hop) == frames.start() =>
                    {
                        *count += frames.count();
                    }
                    _ => array.parts.push((frames.start(), frames.count())),
                }
            }
            (Some(PlanOutput::Ranges(all)), Item::Ranges(ranges)) => {
                all.extend(ranges.ranges.iter().cloned())
            }
            (_, item) => {
                return Err(OpErrorKind::WrongItem {
                    expected: "its declared kind",
                    got: item.kind(),
                }
                .into());
            }
        }
        Ok(Next::Consumed)
    }

    fn expect(&mut self, samples: u64) {
        if let Some(rows) = &mut self.rows {
            rows.expect(samples);
        }
        if let Some(PlanOutput::Array(array)) = &mut self.gathered {
            let width = array.shape.get(1).copied().unwrap_or(1);
            let row = width.saturating_mul(array.dtype.size() as u64);
            let bytes = (samples / self.hop.max(1)).saturating_mul(row);
            // Reserved memory costs nothing until written to. If this fails, the array grows with the data.
            let bytes = usize::try_from(bytes)
                .unwrap_or(MAX_RESERVED_BYTES)
                .min(MAX_RESERVED_BYTES);
            let _ = array.bytes.try_reserve_exact(bytes);
            prefer_large_pages(array.bytes.spare_capacity_mut());
        }
    }

    fn finish(&mut self, _: Port, _: &mut Out<'_>) -> Result<(), OpError> {
        if let Some(gatherer) = self.rows.take() {
            self.gathered = Some(PlanOutput::Rows(gatherer.finish()?));
        }
        Ok(())
    }

    fn result(&mut self) -> Option<PlanOutput> {
        self.gathered.take()
    }
}
