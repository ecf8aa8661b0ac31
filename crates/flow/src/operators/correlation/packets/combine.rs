//! Combines receivers' copies of a packet.

use std::ops::Range;

use isochrony_dsp::packets::{Combiner, Recovery};
use isochrony_segment::{Buffer, DType, SigSeg, StreamId};
use serde_json::Value;

use super::PacketCopies;
use crate::operator;
use crate::operators::kernel_error;
use crate::operators::windows::features::numbers;
use crate::{
    Alignment, Break, Contract, InputBounds, Inputs, Item, Next, OpError, Operator,
    OperatorProperties, Out, PlanError, Port, PortType, json,
};

/// Any equal rate gives all receivers the same weight. The description of `error_rates` states this one.
const DEFAULT_ERROR_RATE: f64 = 0.01;

operator! {
    /// Recovers transmitted packets from the copies that several receivers got, of which some have bit errors.
    ///
    /// # Inputs
    /// Windows of uint8 that do not overlap, shape (n, bytes): packets that end with the CRC-32 of their other bytes,
    /// little-endian. Windows at the same index are copies of one packet; a receiver that missed it has a gap.
    ///
    /// `others`: the packets of the other receivers, of the same length and timebase. Without any, only intact packets
    /// are output.
    ///
    /// # Returns
    /// Samples of uint8, shape (n,): the bytes of every packet that is intact or could be corrected, at its index; a
    /// gap where a packet is lost. No edges, no delay.
    ///
    /// # Conventions
    /// An intact copy is taken as it is. Otherwise each bit on which copies differ is decided by vote: within a cluster
    /// with weights ln((1 - p) / p), where p is a receiver's error rate, and each cluster has one vote as strong as
    /// that of its best receiver, because receivers of a cluster err together (`error_correlation` shows which do). If
    /// the result does not agree with the CRC, the bits with the closest votes are tried both ways, and the likeliest
    /// combination that agrees is taken. A wrong packet passes once in 2^(32 - search) such searches.
    ///
    /// # Errors
    /// Windows that are not uint8, overlap, differ, or are shorter than 5 bytes; lists without a number for each
    /// receiver.
    ///
    /// # Source
    /// D. Chase, "A class of algorithms for decoding block codes with channel measurement information" (1972).
    ///
    /// # Example
    /// ```python
    /// >>> import zlib, numpy as np, isochrony as iso
    /// >>> text = b"all quiet"
    /// >>> sent = np.frombuffer(text + zlib.crc32(text).to_bytes(4, "little"), "u1")
    /// >>> heard = [sent ^ (np.arange(13) == k) for k in (3, 3, 8)]
    /// >>> first, *others = (iso.scan(copy.astype("u1"), rate=100).rewindow(13) for copy in heard)
    /// >>> bytes(first.combine_packets(*others, clusters=[0, 0, 1]).collect()[:9])
    /// b'all quiet'
    /// ```
    pub struct CombinePackets = "combine_packets" (Inputs::AtLeast(1)) {
        /// Cluster number of each receiver, this plan's first. Left out: each receiver is its own cluster.
        clusters: Value = "integers" { unit: Of("clusters"), range: (0.0, 2147483647.0), default: || json!([]) },
        /// Bit error rate of each receiver, below 0.5; values under 1e-9 are treated as 1e-9. Default: 0.01 for each.
        error_rates: Value = "numbers" { at_least: 0.0, below: 0.5, default: || json!([]) },
        /// Maximum number of uncertain bits that are tried both ways.
        search: u32 = "integer" { unit: Of("bits"), range: (0.0, 20.0), default: || json!(10) },
    }
    state {
        bound: Option<BoundState>,
    }
}

struct BoundState {
    copies: PacketCopies,
    combiner: Combiner,
    bytes: usize,
    stream: StreamId,
    emitted_until: i64,
}

impl BoundState {
    fn emit_before(&mut self, upto: i64, out: &mut Out<'_>) -> Result<(), OpError> {
        let bytes = self.bytes;
        let capacity = self.copies.waiting_packets();
        if capacity > 0 && self.copies.next().is_some_and(|next| next < upto) {
            let mut block = out.alloc(DType::U8, capacity * bytes)?;
            let packets = block.samples_mut::<u8>();
            // Start index and bytes of each contiguous range of packets.
            let mut ranges: Vec<(i64, Range<usize>)> = Vec::new();
            let mut used = 0;
            let combiner = &mut self.combiner;
            self.copies.for_each_before(upto, |start, copies| {
                let packet = &mut packets[used..used + bytes];
                if combiner.combine(copies, packet) == Recovery::Lost {
                    return Ok(());
                }
                match ranges.last_mut() {
                    Some((first, range)) if *first + range.len() as i64 == start => {
                        range.end += bytes;
                    }
                    _ => ranges.push((start, used..used + bytes)),
                }
                used += bytes;
                Ok(())
            })?;
            self.emit(&out.seal(block), ranges, out)?;
        }
        self.emitted_until = self.emitted_until.max(upto);
        out.holds(self.copies.held())
    }

    fn emit(
        &self,
        packets: &Buffer,
        ranges: Vec<(i64, Range<usize>)>,
        out: &mut Out<'_>,
    ) -> Result<(), OpError> {
        for (start, range) in ranges {
            if let Some(bytes) = packets.slice(range) {
                let segment = SigSeg::new(bytes, start, DType::U8, self.stream)?;
                out.emit(0, &mut segment.into())?;
            }
        }
        Ok(())
    }
}

impl CombinePackets {
    fn clusters(&self, receivers: usize) -> Result<Vec<u32>, PlanError> {
        let clusters_given = numbers(&self.clusters);
        if clusters_given.is_empty() {
            return Ok((0..).take(receivers).collect());
        }
        let whole = |number: &f64| {
            (*number >= 0.0 && *number < 2_f64.powi(31) && number.fract() == 0.0)
                .then_some(*number as u32)
        };
        let clusters: Option<Vec<u32>> = clusters_given.iter().map(whole).collect();
        clusters
            .filter(|clusters| clusters.len() == receivers)
            .ok_or_else(|| PlanError::Parameter {
                operator: "combine_packets",
                parameter: "clusters",
                got: self.clusters.to_string(),
                legal: format!(
                    "a list of {receivers} whole numbers from 0 on, one for each receiver"
                ),
            })
    }
}

impl Operator for CombinePackets {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let mut copies = PacketCopies::default();
        let bytes = copies.bind("combine_packets", inputs)?;
        let clusters = self.clusters(inputs.len())?;
        let mut rates = numbers(&self.error_rates);
        if rates.is_empty() {
            rates = vec![DEFAULT_ERROR_RATE; inputs.len()];
        }
        let combiner = Combiner::new(bytes, &clusters, &rates, self.search)
            .map_err(|error| kernel_error("combine_packets", error))?;
        let Some(stream) = inputs[0].stream_id() else {
            return Ok(OperatorProperties::new([]));
        };
        self.bound = Some(BoundState {
            copies,
            combiner,
            bytes,
            stream,
            emitted_until: i64::MIN,
        });
        let properties = OperatorProperties::new([PortType::Samples {
            dtype: DType::U8,
            stream,
        }]);
        let properties = properties.contract(Contract::Sequential).data_dependent();
        // One receiver needs no alignment; the output has its own contiguous ranges.
        Ok(match inputs.len() {
            1 => properties,
            _ => properties.align(Alignment::Resampled),
        })
    }

    fn process(&mut self, port: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let Some(bound) = &mut self.bound else {
            return Ok(Next::Done);
        };
        let upto = bound.copies.add(port, item)?;
        bound.emit_before(upto, out)?;
        Ok(Next::Consumed)
    }

    fn raise_bounds(
        &mut self,
        port: Port,
        bounds: InputBounds,
        out: &mut Out<'_>,
    ) -> Result<(), OpError> {
        let Some(bound) = &mut self.bound else {
            return Ok(());
        };
        let upto = bound.copies.raise(port, bounds.input);
        bound.emit_before(upto, out)
    }

    fn on_break(&mut self, _: Port, why: &Break, out: &mut Out<'_>) -> Result<(), OpError> {
        let (Some(bound), Break::Rewind) = (&mut self.bound, why) else {
            return Ok(());
        };
        bound.emit_before(i64::MAX, out)?;
        bound.copies.rewind();
        bound.emitted_until = i64::MIN;
        Ok(())
    }

    fn finish(&mut self, _: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        let Some(bound) = &mut self.bound else {
            return Ok(());
        };
        let upto = bound.copies.end();
        bound.emit_before(upto, out)
    }

    fn progress(&mut self, _: Port, _: i64) -> i64 {
        self.bound
            .as_ref()
            .map_or(i64::MIN, |bound| bound.emitted_until)
    }
}
