//! Writes the steps of a chain.
//!
//! A step's second operand is in memory, so one of two computed operands is saved first. Shared values are saved once.
//! A slot is free after its last use.

use std::collections::HashMap;

use isochrony_segment::DType;

use crate::kernels::{Chain, Code, Convert, MAX_BLOCKS, MAX_NUMBERS, MAX_SAVED, Place, Step};
use crate::lower::Action;
use crate::{Binary, Shape, Unary};

use super::fused_chain::{ChainNumber, FusedChain, ValueLocation, ValueLocations};
use super::plan::Planner;

const ONE: Place = Place::Number(0);

pub(super) struct Writer<'p, 'a> {
    planner: &'p Planner<'a>,
    homes: &'p ValueLocations,
    root: usize,
    dtype: DType,
    uses: HashMap<usize, usize>,
    saved: HashMap<usize, u8>,
    /// Conversions, kept for the whole tile.
    converted: HashMap<usize, u8>,
    free: Vec<u8>,
    converts: Vec<Convert>,
    steps: Vec<Step>,
    /// Maximum slots in use.
    tiles: usize,
    blocks: Vec<usize>,
    numbers: Vec<ChainNumber>,
}

impl<'p, 'a> Writer<'p, 'a> {
    pub(super) fn new(planner: &'p Planner<'a>, homes: &'p ValueLocations, root: usize) -> Self {
        let dtype = homes.kinds[&root];
        Self {
            planner,
            homes,
            root,
            dtype,
            uses: HashMap::new(),
            saved: HashMap::new(),
            converted: HashMap::new(),
            free: Vec::new(),
            converts: Vec::new(),
            steps: Vec::new(),
            tiles: 0,
            blocks: Vec::new(),
            numbers: vec![ChainNumber::Given(1.0)],
        }
    }

    /// None if limits are exceeded.
    pub(super) fn write(mut self) -> Option<FusedChain> {
        self.count(self.root);
        self.compute(self.root)?;
        let chain = Chain::new(
            self.dtype,
            self.converts,
            &self.steps,
            self.blocks
                .iter()
                .map(|&at| self.planner.node(at).dtype)
                .collect(),
            self.numbers.len(),
            self.tiles,
            self.planner.node(self.root).dtype == DType::Bool,
        )?;
        Some(FusedChain {
            chain,
            blocks: self.blocks,
            numbers: self.numbers,
        })
    }

    fn is_step(&self, place: usize) -> bool {
        place == self.root
            || matches!(
                self.homes.of.get(&place),
                Some(ValueLocation::Within(_) | ValueLocation::Anywhere)
            )
    }

    fn count(&mut self, place: usize) {
        for &arg in &self.planner.node(place).args {
            let uses = self.uses.entry(arg).or_default();
            *uses += 1;
            if *uses == 1 && self.is_step(arg) {
                self.count(arg);
            }
        }
    }

    fn push(&mut self, code: Code, x: Place) {
        self.steps.push(Step {
            code,
            x,
            other: ONE,
        });
    }

    fn number(&mut self, number: ChainNumber) -> Option<Place> {
        let at = self.numbers.iter().position(|&known| known == number);
        let at = at.unwrap_or_else(|| {
            self.numbers.push(number);
            self.numbers.len() - 1
        });
        (at < MAX_NUMBERS).then_some(Place::Number(at as u8))
    }

    fn block(&mut self, place: usize) -> Option<u8> {
        let at = self.blocks.iter().position(|&known| known == place);
        let at = at.unwrap_or_else(|| {
            self.blocks.push(place);
            self.blocks.len() - 1
        });
        (at < MAX_BLOCKS).then_some(at as u8)
    }

    fn new_tile(&mut self) -> Option<u8> {
        let at = self.free.pop().or_else(|| {
            self.tiles += 1;
            u8::try_from(self.tiles - 1).ok()
        })?;
        (usize::from(at) < MAX_SAVED - 1).then_some(at)
    }

    fn stored(&mut self, place: usize) -> Option<Place> {
        let from = self.planner.node(place).dtype;
        let block = self.block(place)?;
        if from == self.dtype {
            return Some(Place::Block(block));
        }
        if let Some(&saved) = self.converted.get(&place) {
            return Some(Place::Saved(saved));
        }
        // Conversions come before all steps.
        self.tiles += 1;
        let saved = u8::try_from(self.tiles - 1).ok()?;
        self.converts.push(Convert { from, block, saved });
        self.converted.insert(place, saved);
        Some(Place::Saved(saved))
    }

    /// Existing or free location of a value; the outer None if slots run out.
    fn known(&mut self, place: usize) -> Option<Option<Place>> {
        let node = self.planner.node(place);
        if node.shape != Shape::Sample {
            return self.number(ChainNumber::Node(place)).map(Some);
        }
        if let Some(&saved) = self.saved.get(&place) {
            return Some(Some(Place::Saved(saved)));
        }
        if !self.is_step(place) {
            return self.stored(place).map(Some);
        }
        let converts = node.action == Action::Cast && self.planner.converts(place);
        if converts && place != self.root {
            return self.stored(node.args[0]).map(Some);
        }
        Some(None)
    }

    fn used(&mut self, place: usize) {
        if let Some(uses) = self.uses.get_mut(&place) {
            *uses = uses.saturating_sub(1);
            if *uses == 0
                && let Some(tile) = self.saved.remove(&place)
            {
                self.free.push(tile);
            }
        }
    }

    fn placed(&mut self, place: usize) -> Option<Place> {
        if let Some(known) = self.known(place)? {
            return Some(known);
        }
        self.compute(place)?;
        self.save(place)
    }

    fn save(&mut self, place: usize) -> Option<Place> {
        if let Some(&saved) = self.saved.get(&place) {
            return Some(Place::Saved(saved));
        }
        let saved = Place::Saved(self.new_tile()?);
        if let Place::Saved(tile) = saved {
            self.saved.insert(place, tile);
        }
        self.push(Code::Save, saved);
        Some(saved)
    }

    fn compute(&mut self, place: usize) -> Option<()> {
        if let Some(known) = self.known(place)? {
            self.push(Code::Load, known);
            return Some(());
        }
        let node = self.planner.node(place);
        match node.action {
            Action::Binary(op) => self.binary(op, node.args[0], node.args[1])?,
            Action::Unary(op) => {
                self.compute(node.args[0])?;
                let code = match op {
                    Unary::Neg => Code::Negate,
                    Unary::Abs => Code::Abs,
                    Unary::Sqrt => Code::Sqrt,
                    Unary::Invert => Code::Invert,
                    _ => return None,
                };
                self.push(code, ONE);
                self.used(node.args[0]);
            }
            Action::Select => {
                let [condition, yes, no] = node.args[..] else {
                    return None;
                };
                let yes_at = self.placed(yes)?;
                let no_at = self.placed(no)?;
                self.compute(condition)?;
                self.steps.push(Step {
                    code: Code::Select,
                    x: yes_at,
                    other: no_at,
                });
                for arg in [condition, yes, no] {
                    self.used(arg);
                }
            }
            // A boolean becomes one where its mask is set.
            Action::Cast => {
                self.compute(node.args[0])?;
                self.push(Code::And, ONE);
                self.used(node.args[0]);
            }
            Action::Calibrate(scale, offset) => {
                let counts = self.stored(node.args[0])?;
                self.push(Code::Load, counts);
                let scale = self.number(ChainNumber::Given(f64::from_bits(scale)))?;
                self.push(Code::Mul, scale);
                let offset = self.number(ChainNumber::Given(f64::from_bits(offset)))?;
                self.push(Code::Add, offset);
            }
            _ => return None,
        }
        if self.uses.get(&place).is_some_and(|&uses| uses > 1) {
            self.save(place)?;
        }
        Some(())
    }

    fn binary(&mut self, op: Binary, a: usize, b: usize) -> Option<()> {
        let (code, reversed) = match op {
            Binary::Add => (Code::Add, Code::Add),
            Binary::Sub => (Code::Sub, Code::SubFrom),
            Binary::Mul => (Code::Mul, Code::Mul),
            Binary::Div => (Code::Div, Code::DivInto),
            Binary::Minimum => (Code::Smaller, Code::SmallerFrom),
            Binary::Maximum => (Code::Larger, Code::LargerFrom),
            Binary::Lt => (Code::Less, Code::Greater),
            Binary::Le => (Code::LessEqual, Code::GreaterEqual),
            Binary::Gt => (Code::Greater, Code::Less),
            Binary::Ge => (Code::GreaterEqual, Code::LessEqual),
            Binary::Eq => (Code::Equal, Code::Equal),
            Binary::Ne => (Code::NotEqual, Code::NotEqual),
            Binary::And => (Code::And, Code::And),
            Binary::Or => (Code::Or, Code::Or),
            Binary::Xor => (Code::Xor, Code::Xor),
            _ => return None,
        };
        let (left, right) = (self.known(a)?, self.known(b)?);
        match (left, right) {
            (Some(left), None) => {
                self.compute(b)?;
                self.push(reversed, left);
            }
            (_, Some(right)) => {
                self.compute(a)?;
                self.push(code, right);
            }
            (None, None) => {
                let right = self.placed(b)?;
                // Equal values need no selection.
                if a != b {
                    self.compute(a)?;
                }
                self.push(code, right);
            }
        }
        self.used(a);
        self.used(b);
        Some(())
    }
}
