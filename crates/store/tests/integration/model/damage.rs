//! Damages files of one signal: verification names them, repair keeps the rest.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use isochrony_store::{Finding, Mode, Report, Store, VerifyOptions, verify};
use proptest::prelude::*;

use super::plain::Plain;
use super::steps::Pair;

const CHUNK: i64 = 32_768;
/// Bytes before a shard's first sample.
const HEAD: u64 = 4096;
const DEEP: VerifyOptions = VerifyOptions {
    signals: None,
    deep: true,
};

/// Damages the first shard; positions in thousandths.
#[derive(Debug, Clone)]
pub(crate) enum Damage {
    RemoveShard,
    /// Keeps a part.
    CutShard(i64),
    /// Of any sample.
    FlipBit(i64),
    RemoveMetadata,
    /// Overwrites MANIFEST.
    Manifest,
}

pub(crate) fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        Just(Damage::RemoveShard),
        (0i64..1000).prop_map(Damage::CutShard),
        (0i64..1000).prop_map(Damage::FlipBit),
        Just(Damage::RemoveMetadata),
        Just(Damage::Manifest),
    ]
}

fn only(report: &Report) -> &Finding {
    let [finding] = report.findings.as_slice() else {
        panic!("{report:#?}")
    };
    finding
}

fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 16], at).unwrap();
}

impl Pair {
    pub(crate) fn harm(&mut self, damage: &Damage) {
        self.commit(true);
        self.store.take().unwrap().close().unwrap();
        let sound = verify(&self.path, &DEEP).unwrap();
        assert!(sound.is_clean(), "{sound:#?}");
        assert_eq!(sound.unchecked, 0);

        let mut plain = self.plains.pop().unwrap();
        let folder = self.path.join(&plain.name);
        let shard = folder.join("data/c/0");
        match damage {
            Damage::RemoveShard if plain.sample_count() > 0 => {
                fs::remove_file(&shard).unwrap();
                self.names_and_repairs("missing_shard", &shard);
                plain.mark(0..plain.end());
            }
            Damage::CutShard(part) if plain.sample_count() > 0 && !plain.sealed => {
                let last = plain.stretches().last().map_or(0, |stretch| stretch.end);
                // A multiple of ten, like all gaps: later fills keep the grid.
                let kept = last * part / 10_000 * 10;
                let file = OpenOptions::new().write(true).open(&shard).unwrap();
                file.set_len(HEAD + 2 * kept.cast_unsigned()).unwrap();
                self.names_and_repairs("truncated_shard", &shard);
                plain.mark(kept..plain.end());
            }
            Damage::FlipBit(part) if !plain.sealed => {
                let at = plain.end() * part / 1000;
                if plain.valid_until(at, at + 1) > at && at < plain.end() {
                    self.names_a_flipped_bit(&plain, &shard, at);
                }
            }
            Damage::RemoveMetadata => {
                let path = folder.join("zarr.json");
                fs::remove_file(&path).unwrap();
                self.names_and_repairs("missing_metadata", &path);
            }
            Damage::Manifest => {
                let path = self.path.join(".isochrony/MANIFEST");
                fs::write(&path, "nonsense\n").unwrap();
                self.names_and_repairs("damaged_manifest", &path);
            }
            _ => {}
        }
        self.plains.push(plain);
        self.committed = self.plains.clone();
        self.store = Some(Store::open(&self.path, Mode::ReadWrite).unwrap());
    }

    /// Verification names file and kind of damage; a repair leaves none.
    fn names_and_repairs(&self, code: &str, file: &Path) {
        let report = verify(&self.path, &DEEP).unwrap();
        let finding = only(&report);
        assert_eq!((finding.code, &finding.path), (code, &PathBuf::from(file)));
        assert!(finding.repairable, "{finding:?}");
        let (_, after) = isochrony_store::repair(&self.path, &DEEP).unwrap();
        assert!(after.is_clean(), "{after:#?}");
        let again = verify(&self.path, &DEEP).unwrap();
        assert!(again.is_clean(), "{again:#?}");
    }

    fn names_a_flipped_bit(&self, plain: &Plain, shard: &Path, at: i64) {
        let offset = HEAD + 2 * at.cast_unsigned();
        flip(shard, offset);
        let (before, after) = isochrony_store::repair(&self.path, &DEEP).unwrap();
        for report in [before, after] {
            let finding = only(&report);
            assert_eq!(
                (finding.code, finding.path.as_path()),
                ("flipped_bits", shard)
            );
            assert_eq!(finding.signal.as_deref(), Some(&*plain.name));
            let range = finding.range.clone().unwrap();
            assert!(range.contains(&at) && range.end - range.start <= CHUNK);
        }
        flip(shard, offset);
        let again = verify(&self.path, &DEEP).unwrap();
        assert!(again.is_clean(), "{again:#?}");
    }
}
