//! A time remembers its signal's run, which means nothing for another signal.

use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, Signal, Store};
use isochrony_time::{Fixed, Prefer, Rate, Round, RunId, Stamp};

const START: i64 = 1_267_401_600_000_000_000;
const SECOND: i64 = 1_000_000_000;

/// 20 s at 100 Hz, a step back by `back` seconds, 20 s more.
fn stepped(store: &Store, name: &str, back: i64) -> Signal {
    let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    let writer = store.create(name, &options).unwrap();
    for second in (0..20).chain(20 - back..40 - back) {
        let civil = Fixed::from_int(START + second * SECOND);
        let stamp = Stamp::new(civil, Fixed::from_int(1000));
        writer.append_at(&[second as i16; 100], &stamp).unwrap();
    }
    let signal = writer.signal().unwrap();
    assert_eq!(signal.runs().unwrap().len(), 2);
    signal
}

#[test]
fn the_run_of_another_signal_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| Store::open(folder.path().join(name), Mode::Create).unwrap();
    let (here, there) = (open("here.iso"), open("there.iso"));
    let signal = stepped(&here, "a", 10);
    // In the same store, and of the same id in another.
    for other in [stepped(&here, "b", 10), stepped(&there, "a", 10)] {
        assert_ne!(other.timebase(), signal.timebase());
        for (index, run) in [(1500, 0), (2500, 1)] {
            let foreign = other.time_of(index).unwrap();
            let lookup = |prefer| signal.index_of(&foreign, Round::Nearest, prefer);
            let ambiguous = lookup(None).unwrap_err();
            assert!(ambiguous.to_string().contains("prefer"), "{ambiguous}");
            assert_eq!(foreign.run, other.time_of(index).unwrap().run);
            let first = lookup(Some(Prefer::First)).unwrap();
            let last = lookup(Some(Prefer::Last)).unwrap();
            // 15 s after the start, in either run of the other signal.
            assert_eq!((first.index, last.index), (1500, 2500), "run {run}");
            let second = signal.runs().unwrap()[1].id;
            let chosen = lookup(Some(Prefer::Run(second))).unwrap();
            assert_eq!((chosen.index, chosen.run), (2500, second));
        }
    }
}

#[test]
fn the_run_of_a_time_takes_precedence_over_a_preference() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    let signal = stepped(&store, "a", 10);
    let prefers = [
        None,
        Some(Prefer::First),
        Some(Prefer::Last),
        Some(Prefer::Run(RunId(0))),
    ];
    for index in [0, 999, 1000, 1500, 1999, 2000, 2500, 3999] {
        let time = signal.time_of(index).unwrap();
        for prefer in prefers {
            let back = signal.index_of(&time, Round::Nearest, prefer).unwrap();
            assert_eq!(back.index, index, "{prefer:?}");
        }
    }
    store.commit(true).unwrap();
    let time = signal.time_of(2500).unwrap();
    store.close().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Read).unwrap();
    let again = store.signal("a").unwrap();
    assert_eq!(
        again.index_of(&time, Round::Nearest, None).unwrap().index,
        2500
    );
}
