//! Packets of several receivers: windows of bytes. Those at one index are copies of one packet.

mod combine;
mod correlation;

use std::collections::VecDeque;

use isochrony_segment::DType;
use smallvec::SmallVec;

pub use combine::CombinePackets;
pub use correlation::ErrorCorrelation;

use crate::operators::fan_in::zip::one_grid;
use crate::operators::wrong_input;
use crate::{Frames, Item, OpError, OpErrorKind, PlanError, Port, PortType};

const MAX_RECEIVERS: usize = 256;

/// Holds packets until every receiver's copy has arrived or can no longer arrive. Each input is complete up to the end
/// of its last item.
#[derive(Default)]
pub(crate) struct PacketCopies {
    receivers: Vec<Receiver>,
    bytes: usize,
    open: usize,
}

#[derive(Default)]
struct Receiver {
    blocks: VecDeque<Frames>,
    /// Consumed packets of the first block.
    done: u64,
    /// All that begins before it has arrived.
    upto: i64,
}

impl Receiver {
    #[inline]
    fn next(&self) -> Option<i64> {
        let first = self.blocks.front()?;
        Some(first.window_start(self.done))
    }

    fn packet(&self, bytes: usize) -> Option<&[u8]> {
        let values = self.blocks.front()?.values::<u8>()?;
        values.get(self.done as usize * bytes..)?.get(..bytes)
    }

    #[inline]
    fn advance(&mut self) {
        self.done += 1;
        if self
            .blocks
            .front()
            .is_some_and(|first| self.done >= first.count())
        {
            self.blocks.pop_front();
            self.done = 0;
        }
    }
}

impl PacketCopies {
    /// One receiver per input; returns the bytes of a packet. Inputs must be equal, non-overlapping windows of bytes of
    /// one timebase.
    pub(crate) fn bind(
        &mut self,
        operator: &'static str,
        inputs: &[PortType],
    ) -> Result<usize, PlanError> {
        let mut bytes = 0;
        for port in inputs {
            match *port {
                PortType::Frames {
                    dtype: DType::U8,
                    window,
                    hop,
                    width,
                    ..
                } if window == hop && width as u64 == window => bytes = width,
                _ => {
                    return Err(wrong_input(
                        operator,
                        "packets: windows of uint8 that do not overlap",
                        port,
                        "give each receiver's bytes as uint8 and cut them with rewindow(bytes of a packet)",
                    ));
                }
            }
        }
        one_grid(operator, inputs)?;
        if inputs.len() > MAX_RECEIVERS {
            return Err(PlanError::Inputs {
                operator,
                expected: format!("at most {MAX_RECEIVERS}"),
                got: inputs.len(),
            });
        }
        self.receivers.clear();
        self.receivers.resize_with(inputs.len(), || Receiver {
            upto: i64::MIN,
            ..Receiver::default()
        });
        self.bytes = bytes;
        self.open = inputs.len();
        Ok(bytes)
    }

    /// Returns the index before which all packets have arrived.
    pub(crate) fn add(&mut self, port: Port, item: &mut Item) -> Result<i64, OpError> {
        let Item::Frames(frames) = item.take() else {
            return Err(OpErrorKind::WrongItem {
                expected: "frames",
                got: "others",
            }
            .into());
        };
        let start = frames.start();
        if frames.width() != self.bytes {
            return Err(OpErrorKind::ShortWindow {
                got: frames.width(),
                width: self.bytes,
            }
            .into());
        }
        if frames.values::<u8>().is_none() {
            return Err(OpErrorKind::WrongItem {
                expected: "packets of bytes",
                got: "values of another dtype",
            }
            .into());
        }
        let receiver = &mut self.receivers[usize::from(port)];
        receiver.upto = frames.next_start();
        receiver.blocks.push_back(frames);
        let upto = self.receivers.iter().map(|receiver| receiver.upto);
        Ok(upto.min().unwrap_or(start).max(start))
    }

    /// Records that no packets before `upto` follow. Returns as [`add`](Self::add).
    pub(crate) fn raise(&mut self, port: Port, upto: i64) -> i64 {
        let receiver = &mut self.receivers[usize::from(port)];
        receiver.upto = receiver.upto.max(upto);
        let upto = self.receivers.iter().map(|receiver| receiver.upto);
        upto.min().unwrap_or(i64::MIN)
    }

    pub(crate) fn rewind(&mut self) {
        self.receivers
            .iter_mut()
            .for_each(|receiver| receiver.upto = i64::MIN);
    }

    /// Returns as [`add`](Self::add): the end only once all inputs ended, since queued items follow the end of their
    /// input.
    pub(crate) fn end(&mut self) -> i64 {
        self.open = self.open.saturating_sub(1);
        match self.open {
            0 => i64::MAX,
            _ => i64::MIN,
        }
    }

    pub(crate) fn next(&self) -> Option<i64> {
        self.receivers.iter().filter_map(Receiver::next).min()
    }

    /// Upper bound: summed over receivers.
    pub(crate) fn waiting_packets(&self) -> usize {
        let blocks = self.receivers.iter().flat_map(|receiver| &receiver.blocks);
        blocks.map(|block| block.count() as usize).sum()
    }

    pub(crate) fn held(&self) -> u64 {
        (self.waiting_packets() * self.bytes) as u64
    }

    /// Calls `each` with start and copies of every packet before `upto`, in order.
    pub(crate) fn for_each_before(
        &mut self,
        upto: i64,
        mut each: impl FnMut(i64, &[Option<&[u8]>]) -> Result<(), OpError>,
    ) -> Result<(), OpError> {
        while let Some(start) = self.next().filter(|start| *start < upto) {
            let bytes = self.bytes;
            let copies: SmallVec<[Option<&[u8]>; 16]> = self
                .receivers
                .iter()
                .map(|receiver| match receiver.next() {
                    Some(next) if next == start => receiver.packet(bytes),
                    _ => None,
                })
                .collect();
            let done = each(start, &copies);
            drop(copies);
            done?;
            for receiver in &mut self.receivers {
                if receiver.next() == Some(start) {
                    receiver.advance();
                }
            }
        }
        Ok(())
    }
}
