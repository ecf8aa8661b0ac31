//! Operators on any kind of item.

pub(crate) mod between;
pub(crate) mod collect;
pub(crate) mod compiled;
pub(crate) mod count;
pub(crate) mod each;
pub(crate) mod filter;
pub(crate) mod limit;
pub(crate) mod map;
pub(crate) mod on;
pub(crate) mod passthrough;
pub(crate) mod user_code;

register! {
    between: Between;
    collect: Collect;
    count: Count;
    filter: Filter;
    limit: Limit;
    map: Map;
    on: On;
    passthrough: Passthrough;
}
