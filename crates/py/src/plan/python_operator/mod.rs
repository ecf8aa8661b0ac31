//! Operators that call a Python function: `isochrony.py` as a map or a filter, and `Plan.each`.

mod call;
mod declaration;
mod factory;
mod function_result;

pub(super) use declaration::{FunctionRole, PythonOperator, parse_place};
