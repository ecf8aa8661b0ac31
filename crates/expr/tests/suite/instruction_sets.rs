//! Every operation gives the same bits on every instruction set and for any chunking.

use isochrony_expr::{Binary, Expr, Frames, Isa, Op, Program, Unary};
use isochrony_segment::{DType, Sample, dispatch};
use proptest::prelude::*;

fn samples<T: Sample>(raw: &[u64]) -> Vec<T> {
    let edges = [
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1.0,
        -1.0,
        709.9,
        -745.2,
        1e6,
        1e300,
        5e-324,
    ];
    let one = |raw: u64| -> T {
        let part = |raw: u64| match raw % 8 {
            0 => edges[(raw >> 8) as usize % edges.len()],
            1 => f64::from_bits(raw),
            2 => f64::from((raw >> 8) as i8),
            3 | 4 => f64::from((raw >> 16) as i32) / 65536.0,
            _ => f64::from((raw >> 16) as i32) / 1e9,
        };
        let mut bytes = [0u8; 16];
        match T::DTYPE {
            DType::F32 => bytes[..4].copy_from_slice(&(part(raw) as f32).to_ne_bytes()),
            DType::F64 => bytes[..8].copy_from_slice(&part(raw).to_ne_bytes()),
            DType::C64 => {
                bytes[..4].copy_from_slice(&(part(raw) as f32).to_ne_bytes());
                bytes[4..8].copy_from_slice(&(part(raw.rotate_left(21)) as f32).to_ne_bytes());
            }
            DType::C128 => {
                bytes[..8].copy_from_slice(&part(raw).to_ne_bytes());
                bytes[8..].copy_from_slice(&part(raw.rotate_left(21)).to_ne_bytes());
            }
            _ => bytes[..8].copy_from_slice(&(raw >> (raw % 60)).to_ne_bytes()),
        }
        bytemuck::pod_read_unaligned(&bytes[..size_of::<T>()])
    };
    raw.iter().map(|&raw| one(raw)).collect()
}

/// Bits of each component, with one NaN for all: which one results from two depends on the CPU.
fn bits<T: Sample>(program: &Program, isa: Isa, pieces: &[&[T]]) -> Vec<u64> {
    let (mut scratch, mut state) = (program.scratch_on(isa), program.state());
    let dtype = program.output().dtype;
    let mut all = Vec::new();
    for piece in pieces {
        let frames = Frames::stretch(piece);
        let len = program.results(&frames) * dtype.size();
        let mut out = vec![0u128; len.div_ceil(16)];
        let out = &mut bytemuck::cast_slice_mut::<u128, u8>(&mut out)[..len];
        program
            .run_bytes(&mut scratch, &mut state, &frames, out)
            .unwrap();
        let out: &[u8] = out;
        match dtype {
            DType::F32 | DType::C64 => all.extend(out.as_chunks::<4>().0.iter().map(|&part| {
                let part = f32::from_ne_bytes(part);
                u64::from(if part.is_nan() { f32::NAN } else { part }.to_bits())
            })),
            DType::F64 | DType::C128 => all.extend(out.as_chunks::<8>().0.iter().map(|&part| {
                let part = f64::from_ne_bytes(part);
                if part.is_nan() { f64::NAN } else { part }.to_bits()
            })),
            _ => all.extend(out.iter().map(|&byte| u64::from(byte))),
        }
    }
    all
}

fn expressions() -> Vec<Expr> {
    let s = Expr::input();
    let other = || &s * &s - 3;
    let mut all: Vec<Expr> = Unary::ALL
        .iter()
        .map(|&op| Expr::apply(Op::Unary(op), [s.clone()]).unwrap())
        .collect();
    for &op in Binary::ALL {
        let op = Op::Binary(op);
        let numbers: [Expr; 5] = [3.into(), 1.5.into(), (-0.75).into(), 1e17.into(), 0.into()];
        for number in numbers {
            all.push(Expr::apply(op, [s.clone(), number.clone()]).unwrap());
            all.push(Expr::apply(op, [number, s.clone()]).unwrap());
        }
        all.push(Expr::apply(op, [s.clone(), other()]).unwrap());
        all.push(Expr::apply(op, [other(), s.clone()]).unwrap());
    }
    all
}

fn check<T: Sample>(raw: &[u64], cut: usize) -> Result<usize, TestCaseError> {
    let samples: Vec<T> = samples(raw);
    let (head, tail) = samples.split_at(cut.min(samples.len()));
    let mut checked = 0;
    for expr in expressions() {
        // Other tests cover unsupported operations.
        let Ok(program) = Program::compile(&expr, T::DTYPE) else {
            continue;
        };
        let whole = bits(&program, Isa::BASELINE, &[&samples]);
        for isa in Isa::available() {
            prop_assert!(
                whole == bits(&program, isa, &[&samples]),
                "{expr} of {} on {}",
                T::DTYPE,
                isa.name()
            );
            prop_assert!(
                whole == bits(&program, isa, &[head, tail]),
                "{expr} of {} on {}, cut at {cut}",
                T::DTYPE,
                isa.name()
            );
        }
        checked += 1;
    }
    Ok(checked)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn operations_have_the_same_bits_on_every_instruction_set_for_any_chunking(
        raw in prop_oneof![
            4 => prop::collection::vec(any::<u64>(), 1..80),
            1 => prop::collection::vec(any::<u64>(), 2000..2200),
        ],
        cut in 0usize..2200,
        dtype in 0usize..11,
    ) {
        let checked = dispatch!(DType::ALL[dtype], T => check::<T>(&raw, cut))?;
        prop_assert!(checked > 20, "{}", checked);
    }
}

/// Those that the CPU lacks are not tested.
#[test]
fn names_the_instruction_sets_that_were_compared() {
    let names: Vec<&str> = Isa::available().iter().map(|isa| isa.name()).collect();
    println!("compared: {}", names.join(", "));
    assert_eq!(names[0], "baseline");
}

/// The result of a walk overwrites an operand of its second operation.
#[test]
fn selections_may_overwrite_their_operands() {
    let s = Expr::input();
    let same = s.ge(7).select(s.select(&s, &s), &s);
    let expr = same.all().select(&same, 7);
    let program = Program::compile(&expr, DType::F32).unwrap();
    for count in [1, 64, 200] {
        let samples = vec![f32::INFINITY; count];
        let frames = Frames::new(&samples, count, 1).unwrap();
        for isa in Isa::available() {
            let (mut scratch, mut state) = (program.scratch_on(isa), program.state());
            let mut out = vec![0f32; count];
            let bytes = bytemuck::cast_slice_mut(&mut out);
            program
                .run_bytes(&mut scratch, &mut state, &frames, bytes)
                .unwrap();
            assert_eq!(out, samples, "{}", isa.name());
        }
    }
}
