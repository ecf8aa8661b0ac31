//! State of operations over windows.

use isochrony_segment::{Bool8, DType, Sample, dispatch};

use crate::Memory;
use crate::kernels::{Order, Source, Value, samples, samples_mut};

/// Advances a state over windows in order.
pub(crate) fn advance(
    memory: Memory,
    state: &mut Option<Value>,
    dtype: DType,
    operands: [Source<'_>; 3],
    out: &mut [u8],
) {
    match memory {
        Memory::Ewm => match dtype {
            DType::F32 => ewm::<f32>(state, operands, out, f64::from, |mean| mean as f32),
            _ => ewm::<f64>(state, operands, out, |x| x, |mean| mean),
        },
        Memory::Hysteresis => dispatch!(dtype, T => hysteresis::<T>(state, operands, out)),
        Memory::Previous => dispatch!(dtype, T => previous::<T>(state, operands, out)),
        Memory::Counter => counter(state, operands, out),
    }
}

fn at<T: Sample>(source: &Source<'_>, window: usize) -> T {
    match source {
        Source::Block(block) => samples(block)[window],
        Source::Value(value) => value.get(),
    }
}

fn ewm<T: Sample>(
    state: &mut Option<Value>,
    [x, alpha, _]: [Source<'_>; 3],
    out: &mut [u8],
    wide: impl Fn(T) -> f64,
    narrow: impl Fn(f64) -> T,
) {
    let mut mean: Option<f64> = state.map(|value| value.get());
    for (window, out) in samples_mut::<T>(out).iter_mut().enumerate() {
        let value = wide(at(&x, window));
        let alpha: f64 = at(&alpha, window);
        if !value.is_nan() {
            // Infinities can make the mean NaN: it restarts.
            mean = Some(match mean {
                Some(mean) if !mean.is_nan() => mean + alpha * (value - mean),
                _ => value,
            });
        }
        *out = narrow(mean.unwrap_or(f64::NAN));
    }
    *state = mean.map(Value::of);
}

fn hysteresis<T: Order>(
    state: &mut Option<Value>,
    [x, low, high]: [Source<'_>; 3],
    out: &mut [u8],
) {
    let mut on = state.is_some_and(|value| value.get::<Bool8>().get());
    for (window, out) in samples_mut::<Bool8>(out).iter_mut().enumerate() {
        let value: T = at(&x, window);
        let (low, high): (T, T) = (at(&low, window), at(&high, window));
        on = if on {
            !value.less(low)
        } else {
            high.less(value)
        };
        *out = on.into();
    }
    *state = Some(Value::of(Bool8::from(on)));
}

fn previous<T: Sample>(state: &mut Option<Value>, [x, first, _]: [Source<'_>; 3], out: &mut [u8]) {
    for (window, out) in samples_mut::<T>(out).iter_mut().enumerate() {
        *out = state.map_or_else(|| at(&first, window), |value| value.get());
        *state = Some(Value::of(at::<T>(&x, window)));
    }
}

fn counter(state: &mut Option<Value>, [x, ..]: [Source<'_>; 3], out: &mut [u8]) {
    let mut count: i64 = state.map_or(0, |value| value.get());
    for (window, out) in samples_mut::<i64>(out).iter_mut().enumerate() {
        count += i64::from(at::<Bool8>(&x, window).get());
        *out = count;
    }
    *state = Some(Value::of(count));
}
