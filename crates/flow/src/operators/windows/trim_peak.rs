//! Finds peaks of windows, one after another.

use std::slice::from_ref;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array};
use arrow_schema::{DataType, Field};
use isochrony_dsp::Windows;
use isochrony_dsp::features::{Extreme, Peak, trim_peaks};
use isochrony_expr::Expr;
use isochrony_segment::DType;

use crate::operator;
use crate::operators::general::compiled::CompiledExpr;
use crate::operators::rows::{RowBuilder, flush_rows};
use crate::operators::wrong_input;
use crate::{
    Contract, Frames, Inputs, Item, Next, OpError, OpErrorKind, Operator, OperatorProperties, Out,
    PlanError, Port, PortType, json,
};

/// 16 KiB of doubles.
const TILE_VALUES: usize = 2048;

operator! {
    /// Finds the peaks of every window: its extreme value, then that of the rest after it, and so on.
    ///
    /// # Inputs
    /// Windows of real values, shape (n, N), or rows computed from windows.
    ///
    /// # Returns
    /// Rows: `start`, `end` (int64), `time` where the signal knows civil time, then `peak` (float64, in the values'
    /// unit) and `at` (int64, the index of its sample), `peak_2`, `at_2` and so on; unknown (null) where nothing is
    /// left or nothing but NaN. No edges, no delay.
    ///
    /// # Conventions
    /// Of equal values the first is the peak; NaN never is. A row of fewer values than the window has samples is spread
    /// over it evenly, and `at` is the first sample that a value covers.
    ///
    /// # Errors
    /// Input that is not windows of real values.
    ///
    /// # Source
    /// `trimpeak` of L. Girod et al., "XStream: a signal-oriented data stream management system" (2008), figure 3.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> echo = iso.scan(np.array([0, 7, 6, 0, 4, 1]), rate=100).rewindow(6)
    /// >>> echo.trim_peak(count=2, skip=2).collect()
    ///  start  end  peak  at  peak_2  at_2
    ///      0    6     7   1       4     4
    /// [1 rows]
    /// ```
    pub struct TrimPeak = "trim_peak" (Inputs::Exactly(1)) {
        /// Which value is the peak: the largest, the smallest, or the one furthest from zero.
        extreme: String = "text" { choices: &Extreme::NAMES, default: || json!("max"), positional: true },
        /// Number of peaks.
        count: u64 = "integer" { unit: Of("peaks"), range: (1.0, 64.0), default: || json!(1) },
        /// Number of values from a peak to where the rest begins.
        skip: u64 = "integer" { unit: Of("values"), at_least: 1.0, default: || json!(1) },
    }
    state {
        bound: Option<BoundState>,
    }
}

struct BoundState {
    rows: RowBuilder,
    /// None: samples are doubles in their unit.
    values: Option<CompiledExpr>,
    tile: Vec<f64>,
    extreme: Extreme,
    skip: usize,
    peaks: Vec<Option<Peak<f64>>>,
    columns: Vec<Column>,
}

/// Values and indices of the n-th peak.
#[derive(Default)]
struct Column {
    values: Vec<Option<f64>>,
    places: Vec<Option<i64>>,
}

impl BoundState {
    fn add(&mut self, frames: &Frames) -> Result<(), OpError> {
        self.rows.add(frames);
        let (width, count) = (frames.width(), frames.count());
        if self.values.is_none() {
            let values = frames.values::<f64>().ok_or(OpErrorKind::WrongItem {
                expected: "aligned doubles",
                got: "others",
            })?;
            for (window, row) in (0..).zip(Windows::new(values, width, frames.stride()).iter()) {
                self.trim(frames, window, row);
            }
            return Ok(());
        }
        let most = (TILE_VALUES / width).max(1) as u64;
        let mut tile = std::mem::take(&mut self.tile);
        let mut from = 0;
        while from < count {
            let to = count.min(from + most);
            let Some(some) = frames.sub(from..to) else {
                break;
            };
            let needed = (to - from) as usize * width;
            if tile.len() < needed {
                tile.resize(needed, 0.0);
            }
            if let Some(values) = &mut self.values {
                values.run(&some, bytemuck::cast_slice_mut(&mut tile[..needed]))?;
            }
            for (window, row) in (from..to).zip(tile[..needed].chunks_exact(width)) {
                self.trim(frames, window, row);
            }
            from = to;
        }
        self.tile = tile;
        Ok(())
    }

    fn trim(&mut self, frames: &Frames, window: u64, row: &[f64]) {
        trim_peaks(row, self.extreme, self.skip, &mut self.peaks);
        let start = frames.window_start(window);
        // Windows fit in memory: no overflow.
        let covers =
            |at: usize| (at as u128 * u128::from(frames.window()) / row.len() as u128) as u64;
        for (peak, column) in self.peaks.iter().zip(&mut self.columns) {
            column.values.push(peak.map(|peak| peak.value));
            let place = peak.map(|peak| start.saturating_add_unsigned(covers(peak.at)));
            column.places.push(place);
        }
    }
}

impl Operator for TrimPeak {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let port = &inputs[0];
        let real = matches!(port, PortType::Frames { dtype, .. } if !dtype.is_complex());
        if !real {
            let mend = "put rewindow(...) before it, and make real numbers of complex ones";
            return Err(wrong_input(
                "trim_peak",
                "windows of real values",
                port,
                mend,
            ));
        }
        let own = port
            .stream()
            .is_some_and(|stream| stream.calibration.is_identity());
        let values = if own && port.dtype() == Some(DType::F64) {
            None
        } else {
            let mut compiled = CompiledExpr::default();
            let doubles = Expr::input().astype(DType::F64);
            compiled.bind("trim_peak", Some(&doubles), from_ref(port))?;
            Some(compiled)
        };
        let unit = port.stream().map_or("", |stream| stream.calibration.unit());
        let count = self.count as usize;
        let fields = (1..=count).flat_map(|nth| {
            let suffix = if nth == 1 {
                String::new()
            } else {
                format!("_{nth}")
            };
            let peak = Field::new(format!("peak{suffix}"), DataType::Float64, true);
            let peak = match unit {
                "" => peak,
                unit => peak.with_metadata([("unit", unit)]),
            };
            [
                peak,
                Field::new(format!("at{suffix}"), DataType::Int64, true),
            ]
        });
        let (rows, output) = RowBuilder::bind("trim_peak", port, fields)?;
        self.bound = Some(BoundState {
            rows,
            values,
            tile: Vec::new(),
            extreme: Extreme::named(&self.extreme).unwrap_or(Extreme::Max),
            skip: usize::try_from(self.skip).unwrap_or(usize::MAX),
            peaks: vec![None; count],
            columns: (0..count).map(|_| Column::default()).collect(),
        });
        Ok(OperatorProperties::new([output]).contract(Contract::Stateless))
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let (Item::Frames(frames), Some(bound)) = (&*item, &mut self.bound) else {
            return Err(OpErrorKind::WrongItem {
                expected: "frames",
                got: item.kind(),
            }
            .into());
        };
        bound.add(frames)?;
        if bound.rows.is_full() {
            self.flush(out)?;
        }
        Ok(Next::Consumed)
    }

    flush_rows!();
}

impl TrimPeak {
    fn flush(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        let Some(BoundState { rows, columns, .. }) = &mut self.bound else {
            return Ok(());
        };
        let arrays = columns.iter_mut().flat_map(|column| {
            let values: ArrayRef = Arc::new(Float64Array::from_iter(column.values.drain(..)));
            let places: ArrayRef = Arc::new(Int64Array::from_iter(column.places.drain(..)));
            [Ok(values), Ok(places)]
        });
        rows.emit(arrays, out)
    }
}
