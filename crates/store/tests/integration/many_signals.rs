//! Creating many signals at once costs a handful of syncs, not a dozen for each.

use std::path::Path;
use std::time::Instant;

use isochrony_segment::DType;
use isochrony_store::engine::{Engine, OpenMode};
use isochrony_store::media::sim::SimMedia;
use isochrony_store::meta::{ClockSettings, SignalMeta};
use isochrony_store::op::{Op, RunReason, RunRow};
use isochrony_store::{CreateOptions, Mode, Store};
use isochrony_time::{Fixed, Rate};

const SIGNALS: u64 = 156;

fn meta() -> SignalMeta {
    SignalMeta {
        format: DType::I16.into(),
        rate: Rate::from_hz(2000).unwrap(),
        unit: String::new(),
        calibration: None,
        chunk_samples: 4096,
        shard_chunks: 4,
        codec: String::new(),
        clock: ClockSettings {
            alpha: 0.95,
            gap_slip_ns: None,
            max_gap_ns: 1,
            initial_rate: None,
        },
        attributes: "{}".into(),
    }
}

/// Syncs of one commit that creates signals, and of closing.
fn syncs_of(signals: u64, samples: i64) -> [usize; 2] {
    // The medium can be synced as a whole with this seed.
    let media = SimMedia::new(1);
    let engine = Engine::open_on(Path::new("/a.iso"), OpenMode::CreateNew, media.media()).unwrap();
    let syncs = || {
        media
            .trace()
            .iter()
            .filter(|line| line.contains(" sync "))
            .count()
    };
    syncs();
    for number in 0..signals {
        let id = engine.new_id();
        let name = format!("net/stn_{}/loc/chn_{number}", number / 3);
        let meta = Box::new(meta());
        engine.queue(Op::Create { id, name, meta }).unwrap();
        engine
            .write_samples(id, 0, &vec![1; samples as usize * 2])
            .unwrap();
        let (start, end) = (0, samples);
        engine.queue(Op::Valid { id, start, end }).unwrap();
        engine.queue(Op::End { id, end }).unwrap();
        let run = RunRow {
            id: 0,
            start,
            end,
            reason: RunReason::First,
        };
        engine.queue(Op::Run { id, run }).unwrap();
    }
    engine.commit(true).unwrap();
    let commit = syncs();
    engine.close().unwrap();
    [commit, syncs()]
}

#[test]
fn many_new_signals_cost_a_handful_of_syncs() {
    for samples in [10, 40_000] {
        let [commit, close] = syncs_of(SIGNALS, samples);
        assert!(
            commit <= 4,
            "{commit} syncs to commit {samples} samples each"
        );
        assert!(close <= 8, "{close} syncs to close");
    }
}

#[test]
#[ignore = "measures; run with --release --nocapture"]
fn seconds_for_many_new_signals() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    let mut options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    options.start = Some(Fixed::from_int(1_267_401_600_000_000_000));
    let began = Instant::now();
    for number in 0..SIGNALS {
        let name = format!("net/stn_{}/loc/chn_{number}", number / 3);
        store
            .create(&name, &options)
            .unwrap()
            .append(&[1i16; 100])
            .unwrap();
    }
    println!("made: {:?}", began.elapsed());
    let began = Instant::now();
    store.commit(true).unwrap();
    println!("committed: {:?}", began.elapsed());
    let began = Instant::now();
    store.close().unwrap();
    println!("closed: {:?}", began.elapsed());
}
