//! Validates what operations of a log state: names, geometries, small tables, write marks and replacement files.

use std::path::{Component, Path};

use crate::engine::compact::CompactTables;
use crate::names::check_name;
use crate::op::Op;

/// A foreign log must not lead out of the store or cause excessive allocation.
pub(super) fn check_ops(ops: &[Op]) -> Result<(), &'static str> {
    for op in ops {
        if let Op::Create { name, .. } | Op::Rename { to: name, .. } = op
            && check_name(name).is_err()
        {
            return Err("a record gives a signal a name that no signal can have");
        }
        if let Op::Create { meta, .. } | Op::Meta { meta, .. } = op
            && !meta.is_plausible()
        {
            return Err("a record gives a signal an impossible chunk or shard size");
        }
        let is_plain = |name: &str| {
            let mut components = Path::new(name).components();
            let first = components.next();
            matches!(first, Some(Component::Normal(_))) && components.next().is_none()
        };
        if let Op::SmallTables { tables, .. } = op
            && !CompactTables::are_plausible(tables)
        {
            return Err("a record's small tables are unknown, repeated, or have incomplete rows");
        }
        if let Op::WriteMark { shard, mark, .. } = op
            && (mark.0 == 0 || i64::try_from(*shard).is_err())
        {
            return Err("a record states a write mark that no shard can have");
        }
        if op.replacement().is_some_and(|name| !is_plain(name)) {
            return Err("a record names a replacement file that is not a plain file name");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use isochrony_segment::DType;

    use super::super::{Header, Records, begin, finish, opening_bytes, parse_opening, push};
    use super::*;
    use crate::engine::tests::meta;
    use crate::layout::mark::WriteMark;
    use crate::op::SignalId;

    fn create(name: &str, chunk_samples: u64, shard_chunks: u64) -> Op {
        Op::Create {
            id: SignalId(1),
            name: name.into(),
            meta: Box::new(meta(DType::I16, chunk_samples, shard_chunks)),
        }
    }

    fn rename(to: &str) -> Op {
        let (id, to) = (SignalId(1), to.into());
        Op::Rename { id, to }
    }

    fn replace(tmp: &str) -> Op {
        let (id, shard, tmp) = (SignalId(1), 0, tmp.into());
        Op::ReplaceShard { id, shard, tmp }
    }

    fn mark(shard: u64, mark: u128) -> Op {
        Op::WriteMark {
            id: SignalId(1),
            shard,
            mark: WriteMark(mark),
            synced: true,
        }
    }

    /// Whether a log with this operation can be read: in its base and in a record.
    fn is_read(op: &Op) -> [bool; 2] {
        let header = Header {
            uuid: [7; 16],
            generation: 1,
            boot: "boot".into(),
            next_signal: 2,
        };
        let base = opening_bytes(&header, 0, [op].into_iter()).unwrap();
        let mut record = Vec::new();
        begin(&mut record, 1);
        push(&mut record, op);
        finish(&mut record, 1).unwrap();
        let mut records = Records::new(&record, 0, 0);
        let read = records.next().unwrap();
        [parse_opening(&base).is_ok(), read.is_ok()]
    }

    #[test]
    fn a_log_that_leads_out_of_the_store_or_needs_absurd_memory_is_damage() {
        for op in [
            create("stn_10/pressure", 4096, 256),
            rename("a/b"),
            replace("new-0123"),
            mark(3, 1 << 64),
        ] {
            assert_eq!(is_read(&op), [true, true], "{op:?}");
        }
        for op in [
            create("../x", 4096, 256),
            create("/etc/x", 4096, 256),
            create("", 4096, 256),
            create("a/\u{1b}[31m", 4096, 256),
            create(".isochrony/log.1", 4096, 256),
            create("a", 0, 256),
            create("a", 4096, 0),
            create("a", 1 << 40, 1),
            create("a", 4096, 1 << 30),
            create("a", u64::MAX, u64::MAX),
            rename("../x"),
            rename("a/../../x"),
            rename("/x"),
            replace("../x"),
            replace("/x"),
            replace("a/b"),
            replace("."),
            replace(""),
            mark(3, 0),
            mark(u64::MAX, 1 << 64),
        ] {
            assert_eq!(is_read(&op), [false, false], "{op:?}");
        }
    }
}
