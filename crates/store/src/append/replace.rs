//! Replaces committed samples by changed copies of their shards.

use crate::engine::Engine;
use crate::engine::io::IoContext;
use crate::error::StoreError;
use crate::layout::flat::Flat;
use crate::op::Op;
use crate::state::SignalState;

pub(crate) fn replace_shards(
    engine: &Engine,
    state: &SignalState,
    index: i64,
    bytes: &[u8],
) -> Result<Vec<Op>, StoreError> {
    if !state.meta.codec.is_empty() {
        return Err(StoreError::Sealed {
            signal: (*state.name).into(),
            codec: state.meta.codec.clone(),
        });
    }
    let start = index.unsigned_abs() * state.meta.format.size() as u64;
    let media = &**engine.media();
    let mut rest = bytes;
    let mut ops = Vec::new();
    for span in Flat::data(&state.meta).spans(start, bytes.len() as u64) {
        let (part, after) = rest.split_at(usize::try_from(span.len).unwrap_or(rest.len()));
        rest = after;
        let old = engine.data_shard_path(state.id, span.shard)?;
        let (tmp, path) = engine.new_tmp();
        let copied = media.copy(&old, &path).at("copy", &old);
        let written = copied.and_then(|file| file.write_at(span.offset, part).at("write", &path));
        if let Err(error) = written {
            let _ = media.remove_file(&path);
            engine.discard_replacements(ops.iter().filter_map(Op::replacement));
            return Err(error);
        }
        ops.push(Op::ReplaceShard {
            id: state.id,
            shard: span.shard,
            tmp,
        });
    }
    Ok(ops)
}
