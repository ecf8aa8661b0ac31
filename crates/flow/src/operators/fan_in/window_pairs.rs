//! Pairs windows of two inputs by index, in double precision.

use std::slice::from_ref;

use isochrony_expr::Expr;
use isochrony_segment::DType;

use super::aligned_items::AlignedItems;
use super::zip::one_grid;
use crate::operators::general::compiled::CompiledExpr;
use crate::operators::windows::kernels::real_windows;
use crate::{
    Alignment, Item, OpError, OpErrorKind, OperatorProperties, PlanError, Port, PortType, Workspace,
};

/// Bytes of tables per sample of a window.
const PAIR_BYTES: u64 = 192;

#[derive(Default)]
pub(crate) struct WindowPairs {
    aligned_items: AlignedItems,
    values: [CompiledExpr; 2],
    windows: [Vec<f64>; 2],
    workspace: Option<Workspace>,
}

pub(crate) struct PairInput {
    pub(crate) width: usize,
    /// In hertz.
    pub(crate) rate: f64,
    /// Empty if unknown.
    pub(crate) units: [&'static str; 2],
}

impl WindowPairs {
    /// Requires equal windows of real samples of one timebase.
    pub(crate) fn bind(
        &mut self,
        operator: &'static str,
        inputs: &[PortType],
    ) -> Result<PairInput, PlanError> {
        let first = real_windows(operator, &inputs[0])?;
        let second = real_windows(operator, &inputs[1])?;
        one_grid(operator, inputs)?;
        let doubles = Expr::input().astype(DType::F64);
        for (values, port) in self.values.iter_mut().zip(inputs) {
            values.bind(operator, Some(&doubles), from_ref(port))?;
        }
        self.aligned_items = AlignedItems::new(inputs.len());
        // Transforms of zero-padded windows: of both inputs and their product.
        self.workspace = Some(Workspace::check(
            operator,
            "window",
            first.width as u64,
            PAIR_BYTES,
        )?);
        self.windows = [vec![0.0; first.width], vec![0.0; first.width]];
        Ok(PairInput {
            width: first.width,
            rate: first.rate,
            units: [first.unit(), second.unit()],
        })
    }

    pub(crate) fn properties(&self, output: PortType) -> OperatorProperties {
        let mut properties = OperatorProperties::new([output])
            .align(Alignment::Window)
            .cost_ns(7.0)
            .data_dependent();
        properties.workspace = self.workspace;
        properties
    }

    /// Whether both items have arrived; then `item` is the first input's.
    pub(crate) fn is_complete(&mut self, port: Port, item: &mut Item) -> Result<bool, OpError> {
        self.aligned_items.is_complete(port, item)
    }

    /// Calls `function` with each pair's values, in order.
    pub(crate) fn each(
        &mut self,
        first: &Item,
        mut function: impl FnMut(&[f64], &[f64]),
    ) -> Result<(), OpError> {
        let wrong = |item: &Item| {
            OpError::from(OpErrorKind::WrongItem {
                expected: "frames",
                got: item.kind(),
            })
        };
        let Item::Frames(first) = first else {
            return Err(wrong(first));
        };
        let Some(Item::Frames(second)) = self.aligned_items.others().first() else {
            return Err(wrong(&Item::Taken));
        };
        let width = self.windows[0].len();
        for frames in [first, second] {
            if frames.width() != width {
                return Err(OpErrorKind::ShortWindow {
                    got: frames.width(),
                    width,
                }
                .into());
            }
        }
        if first.count() != second.count() {
            return Err(OpErrorKind::WrongItem {
                expected: "as many windows",
                got: "fewer",
            }
            .into());
        }
        for at in 0..first.count() {
            let both = [first, second].into_iter().zip(&mut self.values);
            for ((frames, values), window) in both.zip(&mut self.windows) {
                if let Some(one) = frames.sub(at..at + 1) {
                    values.run(&one, bytemuck::cast_slice_mut(window))?;
                }
            }
            function(&self.windows[0], &self.windows[1]);
        }
        Ok(())
    }
}
