//! Keys of cached shards, and how much of a flat shard can be cached.

use isochrony_cache::ObjectKey;
use uuid::Uuid;

use crate::layout::flat::Flat;
use crate::op::SignalId;
use crate::state::SignalState;
use crate::version::FileVersion;

pub(crate) fn sealed_key(store: Uuid, id: SignalId, shard: u64, version: FileVersion) -> ObjectKey {
    ObjectKey::Shard {
        store: store.into_bytes(),
        signal: id.0,
        shard,
        content_version: version.sealed_content(),
    }
}

pub(crate) fn flat_key(store: Uuid, state: &SignalState, shard: u64) -> ObjectKey {
    ObjectKey::Shard {
        store: store.into_bytes(),
        signal: state.id.0,
        shard,
        content_version: state.data.content_version(shard),
    }
}

pub(crate) fn first_sample(state: &SignalState, flat: Flat, shard: u64) -> i64 {
    let length = flat.shard_bytes() / state.meta.format.size() as u64;
    shard.saturating_mul(length).cast_signed()
}

pub(crate) fn full_bytes(state: &SignalState, shard: u64) -> u64 {
    let flat = Flat::data(&state.meta);
    full_chunks(state, flat, shard) * flat.chunk_bytes
}

pub(crate) fn full_chunks(state: &SignalState, flat: Flat, shard: u64) -> u64 {
    let within = (state.end - first_sample(state, flat, shard)).max(0);
    let chunks = within.cast_unsigned() / state.meta.chunk_samples.max(1);
    chunks.min(flat.chunks)
}
