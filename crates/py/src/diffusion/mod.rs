//! Data diffusion for `isochrony/cluster`: cache, dispatcher, objects.

mod cache;
mod dispatcher;
mod objects;
mod shards;

pub(crate) use cache::{NativeCache, NativeCachedObject, NativeReservation, open_cache};
pub(crate) use dispatcher::NativeDispatcher;
pub(crate) use objects::{NativeCloudReader, put_cloud_file, stat_cloud_file, url_schemes};
pub(crate) use shards::NativeShardCache;
