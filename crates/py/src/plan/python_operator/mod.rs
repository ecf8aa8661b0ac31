//! `isochrony.py` as a map or a filter, and `Plan.each`: operators that call a Python function.

mod call;
mod declaration;
mod factory;
mod returned;

pub(super) use declaration::{FunctionRole, OnWorkers, PythonOperator};
