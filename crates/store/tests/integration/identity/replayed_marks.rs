//! Replays records over shards with write marks, for every sequence of a few commits of every kind.

use isochrony_store::{Mode, SignalWriter, Store, VerifyOptions, verify};

use super::copies::copy;
use super::{on_disk, options, read, samples};

/// So many samples are written in place instead of in the commit's record.
const MANY: usize = 40_000;
/// Alternating gaps of `MANY` and of ten, each followed by as many samples.
const GAPS: usize = 3;

type Change = fn(k: usize, writer: &SignalWriter, expected: &mut Vec<i16>);

fn append(count: usize, k: usize, writer: &SignalWriter, expected: &mut Vec<i16>) {
    let new = samples(3 + k as i16, count);
    writer.append(&new).unwrap();
    expected.extend(new);
}

fn fill(length: usize, k: usize, writer: &SignalWriter, expected: &mut [i16]) {
    let gaps = writer.signal().unwrap();
    let gap = gaps.gaps().iter().find(|gap| gap.length == length as i64);
    let start = gap.unwrap().start;
    let new = samples(3 + k as i16, length);
    writer.fill(start, &new).unwrap();
    expected[start as usize..][..length].copy_from_slice(&new);
}

const CHANGES: [Change; 5] = [
    |k, writer, expected| append(5, k, writer, expected),
    |k, writer, expected| append(MANY, k, writer, expected),
    |k, writer, expected| fill(10, k, writer, expected),
    |k, writer, expected| fill(MANY, k, writer, expected),
    |k, writer, expected| {
        let end = expected.len();
        let start = end - 3 * (k + 1);
        writer.mark_invalid(start as i64..end as i64).unwrap();
        expected[start..].fill(-1);
    },
];

#[test]
fn a_killed_writers_samples_are_recovered_whatever_commits_came_one_after_another() {
    let (folder, store) = on_disk();
    let deep = VerifyOptions {
        signals: None,
        deep: true,
    };
    let count = CHANGES.len();
    for sequence in 0..count.pow(GAPS as u32) {
        let name = format!("x{sequence}");
        let x = store.create(&name, &options(1)).unwrap();
        let mut expected = Vec::new();
        for _ in 0..GAPS {
            for length in [MANY, 10] {
                x.append_gap(length as i64).unwrap();
                expected.extend(std::iter::repeat_n(-1, length));
                append(length, 0, &x, &mut expected);
            }
        }
        store.commit(true).unwrap();
        store.checkpoint().unwrap();
        let mut rest = sequence;
        for k in 0..GAPS {
            CHANGES[rest % count](k, &x, &mut expected);
            rest /= count;
            store.commit(false).unwrap();
        }
        let killed = folder.path().join("killed.iso");
        copy(store.path(), &killed);
        assert_eq!(verify(&killed, &deep).unwrap().findings, [], "{sequence}");
        let recovered = Store::open(&killed, Mode::ReadWrite).unwrap();
        let have = read(&recovered.signal(&name).unwrap());
        assert!(have.unwrap() == expected, "sequence {sequence}");
        recovered.close().unwrap();
        assert_eq!(verify(&killed, &deep).unwrap().findings, [], "{sequence}");
        std::fs::remove_dir_all(&killed).unwrap();
        store.remove(&name).unwrap();
        store.commit(true).unwrap();
    }
}
