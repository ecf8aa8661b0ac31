//! Lowers expressions: finds types, inserts conversions, and replaces operations without a loop.

mod arithmetic;
mod memory;
mod nodes;
mod powers;

use isochrony_segment::DType;

use crate::kernels::Value;
use crate::promote::{self, Operand, PromotionError};
use crate::{Binary, ExprError, Graph, Input, Op, Reduction, RowField, Scalar, Shape, Type};

use arithmetic::IntegerOverflow;
pub(crate) use nodes::{Action, Nodes, TypedNode};

#[derive(Debug)]
pub(crate) struct LoweredGraph {
    pub(crate) nodes: Nodes,
    pub(crate) root: usize,
}

#[derive(Debug, Clone, Copy)]
struct LoweredNode {
    place: usize,
    weak: bool,
}

pub(crate) fn lower(graph: &Graph, inputs: &[Input<'_>]) -> Result<LoweredGraph, ExprError> {
    let mut lowering = Lowering::new(graph);
    for (place, input) in inputs.iter().enumerate() {
        lowering.input(place, input);
    }
    lowering.lower()
}

pub(crate) fn lower_rows(graph: &Graph, fields: &[RowField]) -> Result<LoweredGraph, ExprError> {
    let mut lowering = Lowering::new(graph);
    lowering.fields = Some(fields);
    lowering.lower()
}

struct Lowering<'a> {
    graph: &'a Graph,
    nodes: Nodes,
    inputs: Vec<usize>,
    fields: Option<&'a [RowField]>,
    done: Vec<LoweredNode>,
}

impl<'a> Lowering<'a> {
    fn new(graph: &'a Graph) -> Self {
        Self {
            graph,
            nodes: Nodes::default(),
            inputs: Vec::new(),
            fields: None,
            done: Vec::with_capacity(graph.nodes().len()),
        }
    }

    fn input(&mut self, place: usize, input: &Input<'_>) {
        let mut source = self.nodes.input(place, input.dtype, input.shape);
        if let Some(calibration) = input.calibration.filter(|c| !c.is_identity()) {
            let (scale, offset) = (calibration.scale(), calibration.offset());
            let physical = if input.dtype.is_complex() {
                DType::C128
            } else {
                DType::F64
            };
            let calibrate = Action::Calibrate(scale.to_bits(), offset.to_bits());
            // Inputs are never constant, and the loop exists.
            let values = self.nodes.push(calibrate, &[source], physical);
            source = values.unwrap_or(source);
        }
        self.inputs.push(source);
    }

    fn lower(mut self) -> Result<LoweredGraph, ExprError> {
        for (at, node) in self.graph.nodes().iter().enumerate() {
            let args: Vec<LoweredNode> = node.args().iter().map(|&arg| self.done[arg]).collect();
            let done = self.node(at, node.op(), &args)?;
            self.done.push(done);
        }
        let root = self.done[self.graph.root()].place;
        if self.nodes[root].shape == Shape::Constant {
            let at = self.text(self.graph.root());
            return Err(ExprError::NoInput { at });
        }
        Ok(LoweredGraph {
            nodes: self.nodes,
            root,
        })
    }

    fn operand(&self, done: LoweredNode) -> Operand {
        Operand {
            dtype: self.nodes[done.place].dtype,
            weak: done.weak,
        }
    }

    fn type_of(&self, done: LoweredNode) -> Type {
        self.nodes.type_of(done.place)
    }

    fn text(&self, at: usize) -> String {
        self.graph.text_of(at)
    }

    fn refused(
        &self,
        at: usize,
        op: &'static str,
        args: &[LoweredNode],
        why: PromotionError,
    ) -> ExprError {
        let names = args.iter().map(|&arg| {
            let Operand { dtype, weak } = self.operand(arg);
            match (weak, dtype) {
                (true, DType::I64) => "a Python int",
                (true, DType::F64) => "a Python float",
                (true, DType::C128) => "a Python complex",
                _ => dtype.name(),
            }
        });
        let operands = names.collect::<Vec<_>>().join(" and ");
        let at = self.text(at);
        match why {
            PromotionError::Unsupported { mend } => ExprError::UnsupportedOperand {
                at,
                op,
                operands,
                mend,
            },
            PromotionError::Missing { numpy, mend } => ExprError::MissingDType {
                at,
                op,
                operands,
                numpy,
                mend,
            },
        }
    }

    fn no_loop(&self, at: usize, args: &[LoweredNode]) -> ExprError {
        let op = self.graph.nodes()[at].op().name();
        let mend = "convert with .astype(...) to a dtype that the operation takes";
        self.refused(at, op, args, PromotionError::Unsupported { mend })
    }

    /// A number without its own dtype must fit.
    fn cast(&mut self, at: usize, done: LoweredNode, dtype: DType) -> Result<usize, ExprError> {
        if done.weak
            && let Some(value) = self.weak_integer(done)
            && !fits(value, dtype)
        {
            return Err(ExprError::ConstantOutOfRange {
                at: self.text(at),
                value: Scalar::Int(value),
                dtype,
            });
        }
        let converted = self.nodes.cast(done.place, dtype);
        converted.ok_or_else(|| {
            let mend = "take .real(), .imag(), .abs() or .angle() of it";
            self.refused(at, "cast", &[done], PromotionError::Unsupported { mend })
        })
    }

    fn weak_integer(&self, done: LoweredNode) -> Option<i64> {
        let value = self.nodes.constant(done.place)?;
        let node = &self.nodes[done.place];
        (done.weak && node.dtype == DType::I64).then(|| value.get())
    }

    fn push(
        &mut self,
        at: usize,
        action: Action,
        places: &[usize],
        dtype: DType,
        args: &[LoweredNode],
    ) -> Result<usize, ExprError> {
        let pushed = self.nodes.push(action, places, dtype);
        pushed.ok_or_else(|| self.no_loop(at, args))
    }

    fn node(&mut self, at: usize, op: Op, args: &[LoweredNode]) -> Result<LoweredNode, ExprError> {
        let weak = !args.is_empty() && args.iter().all(|arg| arg.weak);
        match op {
            Op::Input(_) | Op::Reduce(_) | Op::Memory(_) if self.fields.is_some() => {
                Err(ExprError::NotOfRows {
                    at: self.text(at),
                    op: op.name(),
                })
            }
            Op::Input(input) => match self.inputs.get(usize::from(input)) {
                Some(&place) => Ok(LoweredNode { place, weak: false }),
                None => Err(ExprError::InputCount {
                    at: self.graph.to_string(),
                    expected: usize::from(input) + 1,
                    got: self.inputs.len(),
                }),
            },
            Op::Field(name) => {
                let Some(fields) = self.fields else {
                    return Err(ExprError::FieldOfSamples { at: self.text(at) });
                };
                let Some(place) = fields.iter().position(|field| field.name == name.as_str())
                else {
                    let known: Vec<&str> = fields.iter().map(|f| f.name.as_str()).collect();
                    return Err(ExprError::UnknownField {
                        field: name.as_str().into(),
                        known: known.join(", "),
                    });
                };
                let dtype = fields[place].dtype.ok_or_else(|| ExprError::ListField {
                    field: name.as_str().into(),
                })?;
                let place = self.nodes.field(place, dtype);
                Ok(LoweredNode { place, weak: false })
            }
            Op::Constant(value, dtype) => self.constant(at, value, dtype),
            Op::Cast(dtype) => {
                let place = self.cast(at, args[0], dtype)?;
                Ok(LoweredNode { place, weak: false })
            }
            Op::Unary(op) => self.unary(at, op, args, weak, IntegerOverflow::Widen),
            Op::Binary(op) => self.binary(at, op, args, weak, IntegerOverflow::Widen),
            Op::Wrapping(op) => match op.plain() {
                Op::Unary(op) => self.unary(at, op, args, weak, IntegerOverflow::Wrap),
                Op::Binary(op) => self.binary(at, op, args, weak, IntegerOverflow::Wrap),
                _ => Err(self.no_loop(at, args)),
            },
            Op::Where => {
                let common = promote::promote(&[self.operand(args[1]), self.operand(args[2])]);
                let condition = self.cast(at, args[0], DType::Bool)?;
                let yes = self.cast(at, args[1], common.dtype)?;
                let no = self.cast(at, args[2], common.dtype)?;
                let places = [condition, yes, no];
                let place = self.push(at, Action::Select, &places, common.dtype, args)?;
                let weak = common.weak && self.nodes[place].shape == Shape::Constant;
                Ok(LoweredNode { place, weak })
            }
            Op::Clip => {
                let operands: Vec<Operand> = args.iter().map(|&arg| self.operand(arg)).collect();
                let dtype = promote::promote(&operands).dtype;
                let value = self.cast(at, args[0], dtype)?;
                let low = self.cast(at, args[1], dtype)?;
                let high = self.cast(at, args[2], dtype)?;
                let (least, most) = (Binary::Maximum, Binary::Minimum);
                let place = self.push(at, Action::Binary(least), &[value, low], dtype, args)?;
                let place = self.push(at, Action::Binary(most), &[place, high], dtype, args)?;
                Ok(LoweredNode { place, weak })
            }
            Op::Reduce(op) => self.reduce(at, op, args),
            Op::Memory(op) => self.memory(at, op, args),
        }
    }

    fn constant(
        &mut self,
        at: usize,
        scalar: Scalar,
        dtype: Option<DType>,
    ) -> Result<LoweredNode, ExprError> {
        let value = match scalar {
            Scalar::Bool(value) => Value::of(isochrony_segment::Bool8::from(value)),
            Scalar::Int(value) => Value::of(value),
            Scalar::Float(value) => Value::of(value),
            Scalar::Complex(value) => Value::of(value),
        };
        let own = scalar.default_dtype();
        let place = self.nodes.value(value, own);
        let weak = own != DType::Bool;
        match dtype {
            None => Ok(LoweredNode { place, weak }),
            Some(dtype) => {
                let place = self.cast(at, LoweredNode { place, weak }, dtype)?;
                Ok(LoweredNode { place, weak: false })
            }
        }
    }

    fn reduce(
        &mut self,
        at: usize,
        op: Reduction,
        args: &[LoweredNode],
    ) -> Result<LoweredNode, ExprError> {
        let Type { dtype, shape } = self.type_of(args[0]);
        if shape != Shape::Sample {
            return Err(ExprError::NeedsSamples {
                at: self.text(at),
                op: op.name(),
                got: shape,
            });
        }
        let result = promote::reduction(op, dtype);
        let result = result.map_err(|why| self.refused(at, op.name(), args, why))?;
        let place = self.push(at, Action::Reduce(op), &[args[0].place], result, args)?;
        Ok(LoweredNode { place, weak: false })
    }
}

fn fits(value: i64, dtype: DType) -> bool {
    match dtype {
        DType::I8 => i8::try_from(value).is_ok(),
        DType::I16 => i16::try_from(value).is_ok(),
        DType::I32 => i32::try_from(value).is_ok(),
        DType::U8 => u8::try_from(value).is_ok(),
        DType::U16 => u16::try_from(value).is_ok(),
        DType::U32 => u32::try_from(value).is_ok(),
        _ => true,
    }
}
