//! Data diffusion for `isochrony/cluster`: the cache of a host, and the dispatcher that knows what caches hold.

mod cache;
mod dispatcher;

pub(crate) use cache::{NativeCache, NativeCachedObject, NativeReservation, open_cache};
pub(crate) use dispatcher::NativeDispatcher;
