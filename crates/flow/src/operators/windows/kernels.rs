//! Kernels of window operators.

use isochrony_dsp::Windows;
use isochrony_dsp::window::{TAPERS, Taper};

use super::row_processor::{RowKernel, WindowInput};
use crate::operators::wrong_input;
use crate::{PlanError, PortType};

pub(crate) struct RowFunction<F>(pub(crate) F);

impl<T, R, F: FnMut(&[T], &mut [R]) + Send> RowKernel<T, R> for RowFunction<F> {
    fn rows(&mut self, windows: Windows<'_, T>, results: &mut [R]) {
        let each = results.len() / windows.count().max(1);
        for (window, result) in windows.iter().zip(results.chunks_exact_mut(each.max(1))) {
            (self.0)(window, result);
        }
    }
}

/// Builds a kernel by `$make`, which may fail and sees the windows' precision as `$T`; the last argument computes a
/// row.
macro_rules! kernel {
    ($input:expr, $operator:literal, |$T:ident| $make:expr, |$kernel:ident, $window:ident, $row:ident| $run:expr) => {{
        let kernel_error = |error| $crate::operators::kernel_error($operator, error);
        if $input.single {
            type $T = f32;
            #[allow(unused_mut)] // Not every function changes its kernel.
            let mut $kernel = $make.map_err(kernel_error)?;
            $crate::operators::windows::row_processor::AnyRowKernel::Single(
                Box::new($crate::operators::windows::kernels::RowFunction(
                    move |$window: &[$T], $row: &mut [$T]| $run,
                )),
                Vec::new(),
            )
        } else {
            type $T = f64;
            #[allow(unused_mut)] // Not every function changes its kernel.
            let mut $kernel = $make.map_err(kernel_error)?;
            $crate::operators::windows::row_processor::AnyRowKernel::Double(
                Box::new($crate::operators::windows::kernels::RowFunction(
                    move |$window: &[$T], $row: &mut [$T]| $run,
                )),
                Vec::new(),
            )
        }
    }};
}
pub(crate) use kernel;

pub(crate) fn taper(operator: &'static str, text: &str) -> Result<Taper, PlanError> {
    text.parse().map_err(|_| PlanError::Parameter {
        operator,
        parameter: "taper",
        got: format!("{text:?}"),
        legal: TAPERS.into(),
    })
}

pub(crate) fn real_windows(
    operator: &'static str,
    port: &PortType,
) -> Result<WindowInput, PlanError> {
    let input = WindowInput::of(operator, port)?;
    if input.complex {
        let mend = "make real numbers of them first, as map(lambda s: abs(s)) does";
        return Err(wrong_input(operator, "windows of real samples", port, mend));
    }
    Ok(input)
}
