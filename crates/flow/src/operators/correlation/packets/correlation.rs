//! Correlation of the receivers' bit errors.

use isochrony_dsp::packets::ErrorCounts;
use isochrony_segment::{Calibration, DType, StreamId};

use super::PacketCopies;
use crate::operator;
use crate::{
    Alignment, Break, Contract, Frames, InputBounds, Inputs, Item, Next, OpError, Operator,
    OperatorProperties, Out, PlanError, Port, PortType, json,
};

operator! {
    /// Measures how strongly the bit errors of several receivers are correlated.
    ///
    /// # Inputs
    /// Windows of uint8 that do not overlap, shape (n, bytes): packets that end with the CRC-32 of their other bytes,
    /// little-endian. Windows at the same index are copies of one packet.
    ///
    /// `others`: the packets of the other receivers, of the same length and timebase.
    ///
    /// # Returns
    /// Rows of r * r numbers for r receivers, shape (n, r * r), float64: one row for every so many packets, counted
    /// from index 0, the last one of those that remain. `rows.reshape(-1, r, r)[k, i, j]` is the phi coefficient of the
    /// bit errors of receivers i and j, -1 to 1, over the packets that both have; on the diagonal it is the share of
    /// wrong bits. No edges.
    ///
    /// # Conventions
    /// Errors are known where one receiver's copy agrees with its CRC; other packets are not counted. NaN where there
    /// is no such packet, or one of both receivers has no errors.
    ///
    /// # Errors
    /// Fewer than two inputs; windows that are not uint8, overlap, differ, or are shorter than 5 bytes.
    ///
    /// # Example
    /// ```python
    /// >>> import zlib, numpy as np, isochrony as iso
    /// >>> text = b"all quiet"
    /// >>> sent = np.frombuffer(text + zlib.crc32(text).to_bytes(4, "little"), "u1")
    /// >>> heard = [sent, sent ^ (np.arange(13) == 3), sent ^ 3 * (np.arange(13) == 3)]
    /// >>> first, *others = (iso.scan(copy.astype("u1"), rate=100).rewindow(13) for copy in heard)
    /// >>> first.error_correlation(*others).collect().reshape(3, 3).round(2)
    /// array([[0.  ,  nan,  nan],
    ///        [ nan, 0.01, 0.7 ],
    ///        [ nan, 0.7 , 0.02]])
    /// ```
    pub struct ErrorCorrelation = "error_correlation" (Inputs::AtLeast(2)) {
        /// Packets per row.
        every: u64 = "integer" { unit: Of("packets"), range: (1.0, 1e9), default: || json!(1000) },
    }
    state {
        bound: Option<BoundState>,
    }
}

struct BoundState {
    copies: PacketCopies,
    counts: ErrorCounts,
    stream: StreamId,
    /// Samples of a row, and start of the current one.
    window: i64,
    row_start: Option<i64>,
    matrix: Vec<f64>,
}

impl BoundState {
    fn count(&mut self, upto: i64, out: &mut Out<'_>) -> Result<(), OpError> {
        let mut copies = std::mem::take(&mut self.copies);
        let counted = copies.for_each_before(upto, |start, copies| {
            let row = start.div_euclid(self.window) * self.window;
            if self.row_start.is_some_and(|row_start| row_start != row) {
                self.emit_row(out)?;
            }
            self.row_start = Some(row);
            self.counts.add(copies);
            Ok(())
        });
        self.copies = copies;
        counted?;
        out.holds(self.copies.held())
    }

    fn emit_row(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        let Some(row_start) = self.row_start.take() else {
            return Ok(());
        };
        self.counts.matrix(&mut self.matrix);
        self.counts.clear();
        let mut block = out.alloc(DType::F64, self.matrix.len())?;
        block.samples_mut::<f64>().copy_from_slice(&self.matrix);
        let (width, window) = (self.matrix.len(), self.window.unsigned_abs());
        let row = Frames::one_row(
            row_start,
            window,
            out.seal(block),
            DType::F64,
            width,
            self.stream,
        );
        match row {
            Some(row) => out.emit(0, &mut row.into()),
            None => Ok(()),
        }
    }
}

impl Operator for ErrorCorrelation {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let mut copies = PacketCopies::default();
        let bytes = copies.bind("error_correlation", inputs)?;
        let receivers = inputs.len();
        let window = self.every.saturating_mul(bytes as u64);
        let Some((stream, window)) = inputs[0].stream().zip(i64::try_from(window).ok()) else {
            return Err(PlanError::Parameter {
                operator: "error_correlation",
                parameter: "every",
                got: self.every.to_string(),
                legal: format!(
                    "at most {} packets of {bytes} bytes",
                    i64::MAX as u64 / bytes as u64
                ),
            });
        };
        let stream = stream.clone().with_calibration(Calibration::identity(""));
        let stream = stream.intern();
        let width = receivers * receivers;
        let output = PortType::Frames {
            dtype: DType::F64,
            stream,
            window: window.unsigned_abs(),
            hop: window.unsigned_abs(),
            width,
        };
        self.bound = Some(BoundState {
            copies,
            counts: ErrorCounts::new(receivers),
            stream,
            window,
            row_start: None,
            matrix: vec![0.0; width],
        });
        let properties = OperatorProperties::new([output]).contract(Contract::Sequential);
        Ok(properties.align(Alignment::Resampled).data_dependent())
    }

    fn process(&mut self, port: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let Some(bound) = &mut self.bound else {
            return Ok(Next::Done);
        };
        let upto = bound.copies.add(port, item)?;
        bound.count(upto, out)?;
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
        bound.count(upto, out)
    }

    fn on_break(&mut self, _: Port, why: &Break, out: &mut Out<'_>) -> Result<(), OpError> {
        let (Some(bound), Break::Rewind) = (&mut self.bound, why) else {
            return Ok(());
        };
        bound.count(i64::MAX, out)?;
        bound.copies.rewind();
        Ok(())
    }

    fn finish(&mut self, _: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        let Some(bound) = &mut self.bound else {
            return Ok(());
        };
        let upto = bound.copies.end();
        bound.count(upto, out)?;
        match upto {
            i64::MAX => bound.emit_row(out),
            _ => Ok(()),
        }
    }

    fn progress(&mut self, _: Port, _: i64) -> i64 {
        let bound = self.bound.as_ref();
        bound.and_then(|bound| bound.row_start).unwrap_or(i64::MIN)
    }
}
