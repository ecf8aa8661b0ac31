//! Values at the borders of files, which show a knocked or reset sensor.

use isochrony_segment::{DType, Sample, dispatch};
use isochrony_store::SampleFormat;

/// First and last value in counts; magnitudes if complex.
pub(crate) fn edges(format: SampleFormat, bytes: &[u8]) -> Option<(f64, f64)> {
    let size = format.size();
    let first = bytes.get(..size)?;
    let last = bytes.get(bytes.len().checked_sub(size)?..)?;
    let value = |stored| {
        let decoded = format.decoded_copy(stored).ok()?;
        Some(value(
            format.dtype(),
            decoded.as_ref().map_or(stored, |it| it.bytes()),
        ))
    };
    Some((value(first)?, value(last)?))
}

fn value(dtype: DType, bytes: &[u8]) -> f64 {
    let component = |bytes: &[u8]| match dtype {
        DType::C64 => f64::from(bytemuck::pod_read_unaligned::<f32>(bytes)),
        _ => bytemuck::pod_read_unaligned::<f64>(bytes),
    };
    match dtype {
        DType::C64 | DType::C128 => {
            let (re, im) = bytes.split_at(bytes.len() / 2);
            component(re).hypot(component(im))
        }
        _ => {
            let mut out = 0.0;
            dispatch!(dtype, T => {
                let physical = bytemuck::pod_read_unaligned::<T>(bytes).to_physical();
                if let Some(real) = bytemuck::bytes_of(&physical).first_chunk() {
                    out = f64::from_ne_bytes(*real);
                }
            });
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_last_value_are_found_for_every_type() {
        assert_eq!(
            edges(DType::I16.into(), bytemuck::cast_slice(&[-3_i16, 4, 5])),
            Some((-3.0, 5.0))
        );
        assert_eq!(edges(DType::Bool.into(), &[2, 0]), Some((1.0, 0.0)));
        assert_eq!(
            edges(DType::F32.into(), bytemuck::cast_slice(&[0.5_f32])),
            Some((0.5, 0.5))
        );
        assert_eq!(
            edges(DType::I64.into(), bytemuck::cast_slice(&[-1_i64, 1])),
            Some((-1.0, 1.0))
        );
        assert_eq!(
            edges(DType::C64.into(), bytemuck::cast_slice(&[3.0_f32, 4.0])),
            Some((5.0, 5.0))
        );
        assert_eq!(
            edges(
                DType::C128.into(),
                bytemuck::cast_slice(&[0.0_f64, 2.0, 1.0, 0.0])
            ),
            Some((2.0, 1.0))
        );
        assert_eq!(edges(DType::F64.into(), &[]), None);
        assert_eq!(
            edges(
                SampleFormat::ComplexInt16,
                bytemuck::cast_slice(&[3_i16, -4, 0, 2])
            ),
            Some((5.0, 2.0))
        );
    }
}
