//! Typed nodes: explicit conversions, folded constants, deduplicated.

use std::collections::HashMap;

use isochrony_dsp::Isa;
use isochrony_segment::DType;
use smallvec::SmallVec;

use crate::kernels::{self, Source, Value};
use crate::{Binary, Memory, Reduction, Shape, Type, Unary};

/// A typed operation. Operands have its loop's dtype.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// An input: samples, or window values.
    Input(usize),
    Field(usize),
    Constant(Value),
    Cast,
    /// Counts to physical values: bits of scale and offset.
    Calibrate(u64, u64),
    Unary(Unary),
    Binary(Binary),
    Select,
    Reduce(Reduction),
    Memory(Memory),
}

pub(crate) type Operands = SmallVec<[usize; 3]>;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TypedNode {
    pub(crate) action: Action,
    pub(crate) args: Operands,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
}

#[derive(Debug, Default)]
pub(crate) struct Nodes {
    nodes: Vec<TypedNode>,
    places: HashMap<TypedNode, usize>,
}

impl std::ops::Index<usize> for Nodes {
    type Output = TypedNode;

    fn index(&self, place: usize) -> &TypedNode {
        &self.nodes[place]
    }
}

impl Nodes {
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn type_of(&self, place: usize) -> Type {
        let node = &self.nodes[place];
        Type {
            dtype: node.dtype,
            shape: node.shape,
        }
    }

    pub(crate) fn constant(&self, place: usize) -> Option<Value> {
        match self.nodes[place].action {
            Action::Constant(value) => Some(value),
            _ => None,
        }
    }

    fn intern(&mut self, node: TypedNode) -> usize {
        if let Some(&place) = self.places.get(&node) {
            return place;
        }
        let place = self.nodes.len();
        self.places.insert(node.clone(), place);
        self.nodes.push(node);
        place
    }

    pub(crate) fn input(&mut self, place: usize, dtype: DType, shape: Shape) -> usize {
        self.intern(TypedNode {
            action: Action::Input(place),
            args: Operands::new(),
            dtype,
            shape,
        })
    }

    pub(crate) fn field(&mut self, place: usize, dtype: DType) -> usize {
        self.intern(TypedNode {
            action: Action::Field(place),
            args: Operands::new(),
            dtype,
            shape: Shape::Sample,
        })
    }

    pub(crate) fn value(&mut self, value: Value, dtype: DType) -> usize {
        self.intern(TypedNode {
            action: Action::Constant(value),
            args: Operands::new(),
            dtype,
            shape: Shape::Constant,
        })
    }

    /// Adds an operation; the loop for samples folds it if all operands are constants. None without a loop.
    pub(crate) fn push(&mut self, action: Action, args: &[usize], dtype: DType) -> Option<usize> {
        let shapes = args.iter().map(|&arg| self.nodes[arg].shape);
        let shape = match action {
            Action::Reduce(_) => Shape::Window,
            _ => shapes.max().unwrap_or(Shape::Constant),
        };
        if shape == Shape::Constant {
            let value = self.fold(action, args, dtype)?;
            return Some(self.value(value, dtype));
        }
        self.has_loop(action, args)?;
        Some(self.intern(TypedNode {
            action,
            args: args.into(),
            dtype,
            shape,
        }))
    }

    pub(crate) fn cast(&mut self, place: usize, dtype: DType) -> Option<usize> {
        if self.nodes[place].dtype == dtype {
            return Some(place);
        }
        let args = [place];
        if let Some(value) = self.constant(place) {
            let run = kernels::cast(self.nodes[place].dtype, dtype)?;
            let mut out = Value::default();
            let (from, to) = (self.nodes[place].dtype.size(), dtype.size());
            run(Isa::BASELINE, &value.0[..from], &mut out.0[..to]);
            return Some(self.value(out, dtype));
        }
        kernels::cast(self.nodes[place].dtype, dtype)?;
        let shape = self.nodes[place].shape;
        Some(self.intern(TypedNode {
            action: Action::Cast,
            args: args[..].into(),
            dtype,
            shape,
        }))
    }

    fn has_loop(&self, action: Action, args: &[usize]) -> Option<()> {
        let dtype = args.first().map(|&arg| self.nodes[arg].dtype)?;
        match action {
            Action::Unary(op) => kernels::unary(op, dtype).map(|_| ()),
            Action::Binary(op) => kernels::binary(op, dtype).map(|_| ()),
            _ => Some(()),
        }
    }

    fn fold(&self, action: Action, args: &[usize], result: DType) -> Option<Value> {
        let mut values = [Value::default(); 3];
        for (value, &arg) in values.iter_mut().zip(args) {
            *value = self.constant(arg)?;
        }
        let dtype = args.first().map(|&arg| self.nodes[arg].dtype)?;
        let mut out = Value::default();
        let bytes = &mut out.0[..result.size()];
        let [a, b, c] = values;
        match action {
            Action::Unary(op) => {
                let run = kernels::unary(op, dtype)?;
                run(Isa::BASELINE, &a.0[..dtype.size()], bytes);
            }
            Action::Binary(op) => {
                let (run, swapped) = kernels::binary(op, dtype)?;
                let (a, b) = if swapped { (b, a) } else { (a, b) };
                run(Isa::BASELINE, Source::Value(a), Source::Value(b), bytes);
            }
            Action::Select => {
                let [a, b, c] = [a, b, c].map(Source::Value);
                kernels::select(result)(Isa::BASELINE, a, b, c, bytes);
            }
            _ => return None,
        }
        Some(out)
    }
}
