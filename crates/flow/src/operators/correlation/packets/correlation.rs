//! How much receivers err together.

use isochrony_dsp::packets::ErrorCounts;
use isochrony_segment::{Calibration, DType, StreamId};

use super::Copies;
use crate::operator;
use crate::{
    Alignment, Contract, Frames, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out,
    PlanError, Port, PortType, json,
};

operator! {
    /// How much the bit errors of receivers are correlated: a square of numbers for every so many packets.
    ///
    /// Inputs are windows of uint8, each a packet that ends with the CRC-32 of its other bytes, little-endian; what begins at
    /// one index are copies of one packet, and a receiver that did not hear it has a gap. Where one copy agrees with its check,
    /// the errors of the others are known; other packets are not counted. Rows have a number for each pair of receivers, row
    /// by row: on the diagonal the share of the receiver's bits that are wrong, elsewhere the phi coefficient of two receivers'
    /// errors over the packets that both have, from -1 to 1; NaN where there are no such packets, or no errors. A row is
    /// of the packets from one multiple of `every` packets' bytes to the next, counted from index 0.
    pub struct ErrorCorrelation = "error_correlation" (Inputs::AtLeast(2)) {
        /// Packets of a row.
        every: u64 = "integer" { unit: "packets", range: (1.0, 1e9), default: || json!(1000) },
    }
    state {
        ready: Option<Ready>,
    }
}

struct Ready {
    copies: Copies,
    counts: ErrorCounts,
    stream: StreamId,
    /// Samples of a row, and where the one begins that is being counted.
    window: i64,
    begun: Option<i64>,
    matrix: Vec<f64>,
}

impl Ready {
    /// Counts the packets that begin before an index.
    fn count(&mut self, upto: i64, out: &mut Out<'_>) -> Result<(), OpError> {
        let mut copies = std::mem::take(&mut self.copies);
        let counted = copies.each_before(upto, |start, copies| {
            let row = start.div_euclid(self.window) * self.window;
            if self.begun.is_some_and(|begun| begun != row) {
                self.give(out)?;
            }
            self.begun = Some(row);
            self.counts.add(copies);
            Ok(())
        });
        self.copies = copies;
        counted?;
        out.holds(self.copies.held())
    }

    /// Gives what was counted.
    fn give(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        let Some(begun) = self.begun.take() else {
            return Ok(());
        };
        self.counts.matrix(&mut self.matrix);
        self.counts.clear();
        let mut made = out.alloc(DType::F64, self.matrix.len())?;
        made.samples_mut::<f64>().copy_from_slice(&self.matrix);
        let (width, window) = (self.matrix.len(), self.window.unsigned_abs());
        let row = Frames::one_row(
            begun,
            window,
            out.seal(made),
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
        let mut copies = Copies::default();
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
        self.ready = Some(Ready {
            copies,
            counts: ErrorCounts::new(receivers),
            stream,
            window,
            begun: None,
            matrix: vec![0.0; width],
        });
        let bound = OperatorProperties::new([output]).contract(Contract::Sequential);
        Ok(bound.align(Alignment::Resampled).data_dependent())
    }

    fn process(&mut self, port: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let Some(ready) = &mut self.ready else {
            return Ok(Next::Done);
        };
        let upto = ready.copies.add(port, item)?;
        ready.count(upto, out)?;
        Ok(Next::Consumed)
    }

    fn finish(&mut self, _: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        let Some(ready) = &mut self.ready else {
            return Ok(());
        };
        let upto = ready.copies.end();
        ready.count(upto, out)?;
        match upto {
            i64::MAX => ready.give(out),
            _ => Ok(()),
        }
    }

    fn progress(&mut self, _: Port, _: i64) -> i64 {
        let ready = self.ready.as_ref();
        ready.and_then(|ready| ready.begun).unwrap_or(i64::MIN)
    }
}
