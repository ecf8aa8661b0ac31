//! Hand-written loops, and their timing against programs.
#![allow(dead_code)] // not every benchmark needs all

pub(crate) mod real;
pub(crate) mod whole;

use std::hint::black_box;
use std::marker::PhantomData;
use std::time::Instant;

use isochrony_dsp::{Kernel, Level};
use isochrony_expr::{Expr, Frames, Isa, Program};
use isochrony_segment::Sample;

pub(crate) const WINDOW: usize = 4096;
pub(crate) const LANES: usize = 32;

/// `run` must be `#[inline(always)]`.
pub(crate) trait ByHand<T, O> {
    fn run(samples: &[T], out: &mut [O]);
}

struct HandKernel<'a, H, T, O>(&'a [T], &'a mut [O], PhantomData<H>);

impl<H: ByHand<T, O>, T, O> Kernel for HandKernel<'_, H, T, O> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        H::run(self.0, self.1);
    }
}

#[inline(always)]
pub(crate) fn tree(mut lanes: [f64; LANES]) -> f64 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

#[inline(always)]
pub(crate) fn choose<T>(which: bool, yes: T, no: T) -> T {
    if which { yes } else { no }
}

#[inline(always)]
pub(crate) fn less<T: PartialOrd>(a: T, b: T) -> T {
    if a < b { a } else { b }
}

#[inline(always)]
pub(crate) fn more<T: PartialOrd>(a: T, b: T) -> T {
    if b < a { a } else { b }
}

/// Reproducible 16-bit noise.
pub(crate) fn noise(i: usize) -> i16 {
    (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as i16
}

pub(crate) struct Case {
    pub(crate) samples: usize,
    pub(crate) rounds: usize,
    /// Substring of the names of cases.
    pub(crate) filter: String,
    /// Median ratios on the best instruction set.
    pub(crate) ratios: Vec<f64>,
}

impl Case {
    /// Large with `--bench`, small for test runs.
    pub(crate) fn of_arguments() -> Self {
        let measured = std::env::args().any(|argument| argument == "--bench");
        Self {
            samples: if measured { 1 << 16 } else { 1 << 14 },
            rounds: if measured { 101 } else { 1 },
            filter: std::env::args()
                .skip(1)
                .find(|argument| !argument.starts_with("--"))
                .unwrap_or_default(),
            ratios: Vec::new(),
        }
    }
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

pub(crate) fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * part) as usize]
}

pub(crate) fn against_hand<H: ByHand<T, O>, T: Sample, O: Sample>(
    case: &mut Case,
    expr: &Expr,
    make: impl Fn(usize) -> T,
) {
    let name = format!("expr/{expr}/{}", T::DTYPE);
    if !name.contains(&case.filter) {
        return;
    }
    let samples: Vec<T> = (0..case.samples).map(make).collect();
    let program = Program::compile(expr, T::DTYPE).unwrap();
    let frames = Frames::new(&samples, WINDOW, WINDOW).unwrap();
    let mut out = vec![O::default(); program.results(&frames)];
    let mut expected = out.clone();
    let mut state = program.state();
    for isa in Isa::available() {
        let mut scratch = program.scratch_on(isa);
        let (mut ours, mut theirs, mut ratios) = (vec![], vec![], vec![]);
        for _ in 0..case.rounds {
            let by_hand = seconds(|| {
                isa.run(HandKernel::<H, T, O>(
                    black_box(&samples),
                    &mut expected,
                    PhantomData,
                ));
            });
            let time = seconds(|| {
                program
                    .run(&mut scratch, &mut state, black_box(&frames), &mut out)
                    .unwrap();
            });
            ours.push(samples.len() as f64 / time / 1e9);
            theirs.push(samples.len() as f64 / by_hand / 1e9);
            ratios.push(by_hand / time);
        }
        assert!(out == expected, "{expr}");
        if isa == Isa::best() {
            case.ratios.push(quantile(&mut ratios, 0.5));
        }
        println!(
            "{name}/{}: {:.2} Gsamples/s; by hand {:.2}; ratio {:.2} ({:.2}..{:.2})",
            isa.name(),
            quantile(&mut ours, 0.5),
            quantile(&mut theirs, 0.5),
            quantile(&mut ratios, 0.5),
            quantile(&mut ratios, 0.1),
            quantile(&mut ratios, 0.9),
        );
    }
}
