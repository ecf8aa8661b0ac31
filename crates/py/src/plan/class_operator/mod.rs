//! Operators that are Python classes: the whole contract of an operator for Python code.
//!
//! What the class promises and how its methods are called is in `isochrony.operators`, whose `Running` is one instance at
//! work in one run. This side brings it blocks of all inputs ([`blocks`]), tells it of breaks and of the end
//! ([`instance`]), and gives on what it emits: arrays, each for an output and from an index on ([`emitted`]).

mod blocks;
mod declaration;
mod emitted;
mod held;
mod instance;
mod running;

pub(super) use declaration::ClassOperator;
