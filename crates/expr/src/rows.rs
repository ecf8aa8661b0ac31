//! Expressions of row fields: `(r.mean > 3) & (r["std"] < 2)`.
//!
//! A [`RowProgram`] takes columns of a table, with the types and loops of [`Program`](crate::Program). Blocks of 1,024
//! rows pass through registers.

use isochrony_dsp::Isa;
use isochrony_segment::DType;
use smallvec::SmallVec;

use crate::kernels::{self, BinaryFn, SelectFn, Source, UnaryFn, Value};
use crate::lower::{Action, lower_rows};
use crate::program::{Lines, bytes, bytes_mut, lines};
use crate::{Expr, ExprError};

const BLOCK: usize = 1024;

/// A field of the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowField {
    /// Name.
    pub name: String,
    /// Dtype; None if expressions cannot take it, such as a list.
    pub dtype: Option<DType>,
}

#[derive(Clone, Copy)]
enum Operand {
    Column(usize),
    Register(usize),
    Constant(Value),
}

#[derive(Clone, Copy)]
enum Loop {
    Unary(UnaryFn),
    Binary(BinaryFn),
    Select(SelectFn),
}

#[derive(Clone)]
struct Step {
    run: Loop,
    args: SmallVec<[(Operand, DType); 3]>,
    out: usize,
    dtype: DType,
}

/// An expression compiled for rows with given fields, with its scratch memory.
///
/// ```
/// use isochrony_expr::{Expr, RowField, RowProgram};
/// use isochrony_segment::DType;
///
/// let loud = Expr::field("mean").gt(3) & Expr::field("n").lt(2);
/// assert_eq!(loud.to_string(), "(r.mean > 3) & (r.n < 2)");
/// let fields = [("n", DType::I64), ("mean", DType::F64)]
///     .map(|(name, dtype)| RowField { name: name.into(), dtype: Some(dtype) });
/// let mut program = RowProgram::compile(&loud, &fields)?;
/// assert_eq!((program.output(), program.columns()), (DType::Bool, &[1, 0][..]));
/// let (mean, n) = ([4.0f64, 2.0], [1i64, 1]);
/// let mut out = [0u8; 2];
/// program.run(&[bytemuck::cast_slice(&mean), bytemuck::cast_slice(&n)], 2, &mut out)?;
/// assert_eq!(out, [1, 0]);
/// # Ok::<(), isochrony_expr::ExprError>(())
/// ```
#[derive(Clone)]
pub struct RowProgram {
    text: String,
    /// Indices of the fields that it reads.
    columns: Vec<usize>,
    dtypes: Vec<DType>,
    steps: Vec<Step>,
    root: Operand,
    output: DType,
    registers: Vec<Lines>,
}

impl std::fmt::Debug for RowProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RowProgram({}: {})", self.text, self.output)
    }
}

impl RowProgram {
    /// Compiles an expression for rows with these fields.
    ///
    /// # Errors
    /// [`ExprError::UnknownField`], [`ExprError::ListField`], [`ExprError::NotOfRows`], [`ExprError::NoInput`], and
    /// those of types as [`Program::compile`](crate::Program::compile).
    pub fn compile(expr: &Expr, fields: &[RowField]) -> Result<Self, ExprError> {
        let graph = expr.graph();
        let lowered = lower_rows(&graph, fields)?;
        let nodes = &lowered.nodes;
        let mut last = vec![0; nodes.len()];
        let mut wanted = vec![false; nodes.len()];
        wanted[lowered.root] = true;
        last[lowered.root] = usize::MAX;
        for at in (0..nodes.len()).rev().filter(|&at| at <= lowered.root) {
            if wanted[at] {
                for &arg in &nodes[at].args {
                    wanted[arg] = true;
                    last[arg] = last[arg].max(at);
                }
            }
        }
        let mut program = Self {
            text: expr.to_string(),
            columns: Vec::new(),
            dtypes: Vec::new(),
            steps: Vec::new(),
            root: Operand::Column(0),
            output: nodes[lowered.root].dtype,
            registers: Vec::new(),
        };
        let mut places: Vec<Operand> = Vec::with_capacity(nodes.len());
        let mut free = Vec::new();
        for at in 0..nodes.len() {
            let node = &nodes[at];
            if !wanted[at] {
                places.push(Operand::Column(0));
                continue;
            }
            let place = match node.action {
                Action::Field(field) => {
                    program.columns.push(field);
                    program.dtypes.push(node.dtype);
                    Operand::Column(program.columns.len() - 1)
                }
                Action::Constant(value) => Operand::Constant(value),
                action => {
                    let mut args: SmallVec<[(Operand, DType); 3]> = node
                        .args
                        .iter()
                        .map(|&arg| (places[arg], nodes[arg].dtype))
                        .collect();
                    let from = nodes[node.args[0]].dtype;
                    let refused = || ExprError::NotOfRows {
                        at: program.text.clone(),
                        op: "this operation",
                    };
                    let run = match action {
                        Action::Cast => {
                            Loop::Unary(kernels::cast(from, node.dtype).ok_or_else(refused)?)
                        }
                        Action::Unary(op) => {
                            Loop::Unary(kernels::unary(op, from).ok_or_else(refused)?)
                        }
                        Action::Binary(op) => {
                            let (run, swapped) = kernels::binary(op, from).ok_or_else(refused)?;
                            if swapped {
                                args.swap(0, 1);
                            }
                            Loop::Binary(run)
                        }
                        Action::Select => Loop::Select(kernels::select(node.dtype)),
                        _ => return Err(refused()),
                    };
                    // Allocated before registers last read here are freed: no loop writes where it reads.
                    let out = free.pop().unwrap_or_else(|| {
                        program.registers.push(lines(16 * BLOCK));
                        program.registers.len() - 1
                    });
                    let mut done: SmallVec<[usize; 3]> = node.args.iter().copied().collect();
                    done.sort_unstable();
                    done.dedup();
                    for arg in done.into_iter().filter(|&arg| last[arg] == at) {
                        if let Operand::Register(register) = places[arg] {
                            free.push(register);
                        }
                    }
                    program.steps.push(Step {
                        run,
                        args,
                        out,
                        dtype: node.dtype,
                    });
                    Operand::Register(out)
                }
            };
            places.push(place);
        }
        program.root = places[lowered.root];
        Ok(program)
    }

    /// Dtype of the result.
    #[must_use]
    pub fn output(&self) -> DType {
        self.output
    }

    /// Indices of the fields that it reads, in [`run`](Self::run)'s order.
    #[must_use]
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Computes `rows` values from the [`columns`](Self::columns).
    ///
    /// # Errors
    /// [`ExprError::ColumnLength`], [`ExprError::OutputLength`], [`ExprError::Misaligned`].
    pub fn run(&mut self, columns: &[&[u8]], rows: usize, out: &mut [u8]) -> Result<(), ExprError> {
        self.check(columns, rows, out)?;
        let isa = Isa::best();
        for from in (0..rows).step_by(BLOCK) {
            let count = BLOCK.min(rows - from);
            let part = |column: usize, dtype: DType| {
                &columns[column][from * dtype.size()..(from + count) * dtype.size()]
            };
            for step in &self.steps {
                // Taken to read the others; never an argument of its own step.
                let mut register = std::mem::take(&mut self.registers[step.out]);
                let registers = &self.registers;
                let arg = |at: usize| {
                    let (operand, dtype) = step.args[at];
                    match operand {
                        Operand::Column(column) => Source::Block(part(column, dtype)),
                        Operand::Register(at) => {
                            Source::Block(&bytes(&registers[at])[..count * dtype.size()])
                        }
                        Operand::Constant(value) => Source::Value(value),
                    }
                };
                let target = &mut bytes_mut(&mut register)[..count * step.dtype.size()];
                match step.run {
                    Loop::Unary(run) => match arg(0) {
                        Source::Block(block) => run(isa, block, target),
                        // Folded at compile time.
                        Source::Value(_) => {}
                    },
                    Loop::Binary(run) => run(isa, arg(0), arg(1), target),
                    Loop::Select(run) => run(isa, arg(0), arg(1), arg(2), target),
                }
                self.registers[step.out] = register;
            }
            let size = self.output.size();
            let target = &mut out[from * size..(from + count) * size];
            match self.root {
                Operand::Column(column) => target.copy_from_slice(part(column, self.output)),
                Operand::Register(at) => {
                    target.copy_from_slice(&bytes(&self.registers[at])[..count * size]);
                }
                Operand::Constant(_) => {}
            }
        }
        Ok(())
    }

    fn check(&self, columns: &[&[u8]], rows: usize, out: &[u8]) -> Result<(), ExprError> {
        for (at, &dtype) in self.dtypes.iter().enumerate() {
            let expected = rows.saturating_mul(dtype.size());
            let got = columns.get(at).map_or(0, |column| column.len());
            if got != expected {
                return Err(ExprError::ColumnLength {
                    column: at,
                    expected,
                    got,
                });
            }
            if rows > 0 && !columns[at].as_ptr().addr().is_multiple_of(dtype.align()) {
                return Err(ExprError::Misaligned {
                    what: "column",
                    dtype,
                });
            }
        }
        let expected = rows.saturating_mul(self.output.size());
        if out.len() != expected {
            return Err(ExprError::OutputLength {
                expected,
                got: out.len(),
            });
        }
        Ok(())
    }
}
