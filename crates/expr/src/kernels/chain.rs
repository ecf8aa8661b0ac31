//! Chains of float operations, fused into few passes over a block.
//!
//! A chain is a list of [`Step`]s on an accumulator; the other operand is a block, a saved result, or a number expanded
//! to a tile. [`Walk`]s of one or two steps pass over a few thousand bytes in the L1 cache (`walk.rs`). Two steps share
//! loads and stores; more would multiply the compiled loops. A jump per operation measured as slow as a dozen vector
//! instructions.
//!
//! Booleans are masks within a chain and bytes outside. Intermediate results are rounded as if stored.

use isochrony_dsp::TILE_BYTES;
use isochrony_segment::{Bool8, DType};

use super::loops::{LoopFn, one, two};
use super::map::{Value, samples_mut};
use super::step::{Code, Place, Step};

pub(crate) const MAX_BLOCKS: usize = 8;

pub(crate) const MAX_NUMBERS: usize = 64;

pub(crate) const MAX_SAVED: usize = 32;

/// Tiles per walk, and per saved result.
pub(super) const TILES: usize = 16;

#[derive(Debug, Clone, Copy)]
pub(super) struct Walk {
    pub(super) run: LoopFn,
    pub(super) from: Place,
    pub(super) x: Place,
    pub(super) y: Place,
    pub(super) z: Place,
    /// None for the chain's result.
    pub(super) to: Option<u8>,
}

/// Conversion of a block before the steps; bools become masks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Convert {
    pub(crate) from: DType,
    pub(crate) block: u8,
    pub(crate) saved: u8,
}

#[derive(Debug, Clone)]
pub(crate) struct Chain {
    pub(crate) dtype: DType,
    pub(super) converts: Vec<Convert>,
    pub(super) walks: Vec<Walk>,
    /// Walks for NaN in one of the numbers in `compared`.
    pub(super) careful: Vec<Walk>,
    pub(super) compared: Vec<u8>,
    pub(super) blocks: Vec<DType>,
    pub(super) numbers: usize,
    pub(super) saved: usize,
    pub(super) is_test: bool,
}

impl Chain {
    /// The first step loads. `saved` is the number of saved results. None if limits are exceeded.
    pub(crate) fn new(
        dtype: DType,
        converts: Vec<Convert>,
        steps: &[Step],
        blocks: Vec<DType>,
        numbers: usize,
        saved: usize,
        is_test: bool,
    ) -> Option<Self> {
        // One more for intermediate results and masks.
        let between = u8::try_from(saved).ok()?;
        let fits = blocks.len() <= MAX_BLOCKS && numbers <= MAX_NUMBERS && saved < MAX_SAVED;
        let refined: Vec<Step> = steps.iter().map(refined).collect();
        let compared = steps
            .iter()
            .zip(&refined)
            .filter(|(step, refined)| step != refined);
        let compared = compared.filter_map(|(step, _)| match step.x {
            Place::Number(at) => Some(at),
            _ => None,
        });
        fits.then(|| Self {
            dtype,
            converts,
            walks: walks(dtype, &refined, between),
            careful: walks(dtype, steps, between),
            compared: compared.collect(),
            blocks,
            numbers,
            saved: saved + 1,
            is_test,
        })
    }

    pub(crate) fn number_bytes(&self) -> usize {
        self.numbers * TILE_BYTES
    }

    pub(crate) fn saved_bytes(&self) -> usize {
        self.saved * TILES * TILE_BYTES
    }

    pub(crate) fn fill(&self, number: usize, value: Value, dtype: DType, numbers: &mut [u8]) {
        let tile = &mut numbers[number * TILE_BYTES..][..TILE_BYTES];
        let mask = (dtype == DType::Bool).then(|| value.get::<Bool8>().get());
        match (self.dtype, mask) {
            (DType::F32, None) => samples_mut(tile).fill(value.get::<f32>()),
            (_, None) => samples_mut(tile).fill(value.get::<f64>()),
            (_, Some(mask)) => tile.fill(u8::from(mask).wrapping_neg()),
        }
    }
}

/// Minima and maxima with a number that is not NaN are cheaper.
fn refined(step: &Step) -> Step {
    let code = match (step.code, step.x) {
        (Code::Smaller, Place::Number(_)) => Code::SmallerNumber,
        (Code::Larger, Place::Number(_)) => Code::LargerNumber,
        (code, _) => code,
    };
    Step { code, ..*step }
}

/// Pairs steps if a loop exists and nothing else needs their intermediate result.
fn walks(dtype: DType, steps: &[Step], between: u8) -> Vec<Walk> {
    let mut walks = Vec::new();
    let mut from = Place::Number(0);
    let mut steps = steps.iter().peekable();
    while let Some(first) = steps.next() {
        let saves = |step: &&Step| step.code == Code::Save;
        if first.code == Code::Load {
            from = first.x;
            if !steps.peek().is_some_and(saves) {
                continue;
            }
        }
        let both = steps.peek().and_then(|second| two(dtype, first, second));
        let second = both.and_then(|_| steps.next());
        let to = match steps.next_if(saves) {
            Some(Step {
                x: Place::Saved(saved),
                ..
            }) => Some(*saved),
            _ => steps.peek().map(|_| between),
        };
        walks.push(Walk {
            run: both.unwrap_or_else(|| one(dtype, first)),
            from,
            x: first.x,
            y: second.unwrap_or(first).x,
            z: second.unwrap_or(first).other,
            to,
        });
        from = Place::Saved(to.unwrap_or(between));
    }
    walks
}
