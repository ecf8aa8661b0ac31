//! Runs kernels that compute one row per window: spectra, energies, envelopes.
//!
//! A [`RowKernel`] computes rows from windows of numbers in one precision. [`RowProcessor`] checks the input; converts
//! samples to values in their unit, by tiles of windows that stay in the first-level cache; and gives rows the windows'
//! indices. Windows that already are such values are passed in place, as are all windows to a kernel of stored samples
//! ([`TypedStoredKernel`]).
//!
//! Precision is that of NumPy's transforms: single for float32 and complex64, else double. Complex numbers are pairs.

use std::marker::PhantomData;
use std::slice::from_ref;

use isochrony_dsp::Windows;
use isochrony_expr::Expr;
use isochrony_segment::{Calibration, DType, Sample, StreamId};

use crate::operators::general::compiled::CompiledExpr;
use crate::operators::wrong_input;
use crate::{
    Block, Frames, Item, Next, OpError, OpErrorKind, OperatorProperties, Out, PlanError, PortType,
    Workspace,
};

/// 16 KiB of doubles.
const TILE_VALUES: usize = 2048;

pub(crate) trait RowKernel<T, R = T>: Send {
    /// Fills one row per window, from that window alone.
    fn rows(&mut self, windows: Windows<'_, T>, results: &mut [R]);
}

pub(crate) trait StoredKernel: Send {
    /// As [`RowKernel::rows`]; fails unless samples have the kernel's type.
    fn rows(&mut self, frames: &Frames, results: &mut [f64]) -> Result<(), OpError>;
}

/// For real samples of one type; applies their calibration.
pub(crate) struct TypedStoredKernel<T, K>(K, PhantomData<fn(T)>);

impl<T: Sample, K: RowKernel<T, f64>> TypedStoredKernel<T, K> {
    pub(crate) fn new(kernel: K) -> Self {
        Self(kernel, PhantomData)
    }
}

impl<T: Sample, K: RowKernel<T, f64>> StoredKernel for TypedStoredKernel<T, K> {
    fn rows(&mut self, frames: &Frames, results: &mut [f64]) -> Result<(), OpError> {
        run_in_place(frames, 1, &mut self.0, results)
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowInput {
    port: PortType,
    pub(crate) width: usize,
    /// In hertz.
    pub(crate) rate: f64,
    pub(crate) complex: bool,
    /// Values are in single precision.
    pub(crate) single: bool,
    /// Tables as long as a window.
    pub(crate) workspace: Workspace,
}

/// Of a transform's tables per sample: factors, values, spectrum, twiddles.
const TRANSFORM_BYTES: u64 = 64;

/// Per sample: a value and its result.
const ROW_BYTES: u64 = 16;

impl WindowInput {
    /// Fails without windows, or without memory for a transform.
    pub(crate) fn of(operator: &'static str, port: &PortType) -> Result<Self, PlanError> {
        Self::with_tables(operator, port, TRANSFORM_BYTES)
    }

    /// As [`of`](Self::of), without tables.
    pub(crate) fn without_tables(
        operator: &'static str,
        port: &PortType,
    ) -> Result<Self, PlanError> {
        Self::with_tables(operator, port, ROW_BYTES)
    }

    fn with_tables(operator: &'static str, port: &PortType, each: u64) -> Result<Self, PlanError> {
        match *port {
            PortType::Frames {
                dtype,
                stream,
                window,
                width,
                ..
            } if width as u64 == window => Ok(Self {
                port: *port,
                width,
                rate: stream.get().rate.to_f64(),
                complex: matches!(dtype, DType::C64 | DType::C128),
                single: is_single(dtype, stream),
                workspace: Workspace::check(operator, "window", window, each)?,
            }),
            _ => Err(wrong_input(
                operator,
                "windows of samples",
                port,
                "put rewindow(...) before it",
            )),
        }
    }

    pub(crate) fn stored(&self) -> Option<(DType, &'static Calibration)> {
        Some((self.port.dtype()?, &self.port.stream()?.calibration))
    }

    /// Empty if unknown.
    pub(crate) fn unit(&self) -> &'static str {
        self.stored().map_or("", |(_, values)| values.unit())
    }
}

pub(crate) enum AnyRowKernel {
    Single(Box<dyn RowKernel<f32>>, Vec<f32>),
    Double(Box<dyn RowKernel<f64>>, Vec<f64>),
    /// Gives doubles from stored samples.
    Stored(Box<dyn StoredKernel>),
}

pub(crate) struct RowType {
    pub(crate) width: usize,
    pub(crate) complex: bool,
    /// Empty if unknown.
    pub(crate) unit: String,
}

pub(crate) fn is_single(dtype: DType, stream: StreamId) -> bool {
    matches!(dtype, DType::F32 | DType::C64) && stream.get().calibration.is_identity()
}

pub(crate) fn dtype_of(single: bool, complex: bool) -> DType {
    match (single, complex) {
        (true, false) => DType::F32,
        (true, true) => DType::C64,
        (false, false) => DType::F64,
        (false, true) => DType::C128,
    }
}

#[derive(Default)]
pub(crate) struct RowProcessor(Option<BoundState>);

struct BoundState {
    /// Converts samples; None: the kernel gets windows in place.
    values: Option<CompiledExpr>,
    kernel: AnyRowKernel,
    /// Samples per window, parts per sample.
    window: usize,
    parts: usize,
    /// Numbers per row; their type and stream.
    width: usize,
    dtype: DType,
    stream: StreamId,
}

impl RowProcessor {
    /// `values`: what the kernel sees; None: the windows' own values.
    pub(crate) fn bind(
        &mut self,
        operator: &'static str,
        input: &WindowInput,
        values: Option<&Expr>,
        kernel: AnyRowKernel,
        row: RowType,
    ) -> Result<OperatorProperties, PlanError> {
        let PortType::Frames {
            dtype: own,
            stream,
            window,
            hop,
            ..
        } = input.port
        else {
            return Err(wrong_input(
                operator,
                "windows of samples",
                &input.port,
                "put rewindow(...) before it",
            ));
        };
        let seen = dtype_of(input.single, input.complex);
        let plain = own == seen && stream.get().calibration.is_identity();
        let values = if matches!(kernel, AnyRowKernel::Stored(_)) || (values.is_none() && plain) {
            None
        } else {
            let expr = values.cloned().unwrap_or_else(Expr::input).astype(seen);
            let mut compiled = CompiledExpr::default();
            compiled.bind(operator, Some(&expr), from_ref(&input.port))?;
            Some(compiled)
        };
        let dtype = dtype_of(input.single, row.complex);
        let stream = stream
            .get()
            .clone()
            .with_calibration(Calibration::identity(row.unit))
            .intern();
        self.0 = Some(BoundState {
            values,
            kernel,
            window: input.width,
            parts: if input.complex { 2 } else { 1 },
            width: row.width,
            dtype,
            stream,
        });
        Ok(OperatorProperties::new([PortType::Frames {
            dtype,
            stream,
            window,
            hop,
            width: row.width,
        }])
        .workspace(input.workspace)
        .in_step())
    }

    /// Replaces windows by rows; fails for shorter windows, such as a kept tail.
    pub(crate) fn process(&mut self, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let (Item::Frames(frames), Some(bound)) = (&*item, &mut self.0) else {
            return Err(OpErrorKind::WrongItem {
                expected: "frames",
                got: item.kind(),
            }
            .into());
        };
        if frames.width() != bound.window {
            return Err(OpErrorKind::ShortWindow {
                got: frames.width(),
                width: bound.window,
            }
            .into());
        }
        let mut block = out.alloc(bound.dtype, bound.width * frames.count() as usize)?;
        let done = bound.fill(frames, &mut block);
        let buffer = out.seal(block);
        done?;
        if let Some(rows) = frames.with_rows(buffer, bound.dtype, bound.width, bound.stream) {
            *item = rows.into();
        }
        Ok(Next::Forward)
    }
}

impl BoundState {
    fn fill(&mut self, frames: &Frames, block: &mut Block) -> Result<(), OpError> {
        let (window, parts) = (self.window, self.parts);
        match &mut self.kernel {
            AnyRowKernel::Single(kernel, tile) => run_tiled(
                frames,
                self.values.as_mut(),
                (window, parts),
                kernel.as_mut(),
                tile,
                bytemuck::cast_slice_mut(block.bytes_mut()),
            ),
            AnyRowKernel::Double(kernel, tile) => run_tiled(
                frames,
                self.values.as_mut(),
                (window, parts),
                kernel.as_mut(),
                tile,
                bytemuck::cast_slice_mut(block.bytes_mut()),
            ),
            AnyRowKernel::Stored(kernel) => {
                kernel.rows(frames, bytemuck::cast_slice_mut(block.bytes_mut()))
            }
        }
    }
}

fn run_in_place<T: bytemuck::Pod, R>(
    frames: &Frames,
    parts: usize,
    kernel: &mut (impl RowKernel<T, R> + ?Sized),
    results: &mut [R],
) -> Result<(), OpError> {
    let values = bytemuck::try_cast_slice(frames.buffer().bytes());
    let values = values.map_err(|_| OpErrorKind::WrongItem {
        expected: "aligned samples",
        got: "samples that are not",
    })?;
    let (width, stride) = (parts * frames.width(), parts * frames.stride());
    kernel.rows(Windows::new(values, width, stride), results);
    Ok(())
}

/// Works by tiles if windows must be converted.
fn run_tiled<T: bytemuck::Pod + Default>(
    frames: &Frames,
    values: Option<&mut CompiledExpr>,
    (window, parts): (usize, usize),
    kernel: &mut dyn RowKernel<T>,
    tile: &mut Vec<T>,
    results: &mut [T],
) -> Result<(), OpError> {
    let count = frames.count() as usize;
    let Some(values) = values else {
        return run_in_place(frames, parts, kernel, results);
    };
    let each = results.len() / count.max(1);
    let most = (TILE_VALUES / window).max(1);
    // Grows once, to at most a tile.
    let room = most.min(count) * parts * window;
    if tile.len() < room {
        tile.resize(room, T::default());
    }
    let mut from = 0;
    while from < count {
        let to = count.min(from + most);
        let Some(some) = frames.sub(from as u64..to as u64) else {
            break;
        };
        let tile = &mut tile[..(to - from) * parts * window];
        values.run(&some, bytemuck::cast_slice_mut(tile))?;
        let windows = Windows::new(tile, parts * window, parts * window);
        kernel.rows(windows, &mut results[from * each..to * each]);
        from = to;
    }
    Ok(())
}
