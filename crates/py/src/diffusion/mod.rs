//! Data diffusion for `isochrony/cluster`: the cache of a host, and the dispatcher that knows what caches hold.

mod cache;
mod dispatcher;
mod shards;

pub(crate) use cache::{NativeCache, NativeCachedObject, NativeReservation, open_cache};
pub(crate) use dispatcher::NativeDispatcher;
pub(crate) use shards::NativeShardCache;
