//! Calibration at a tiny size: structure and invariants, no speeds.

use isochrony_segment::DType;
use isochrony_store::machine::{
    CacheState, CalibrationOptions, Machine, Profile, calibrate, choose, estimate,
};
use isochrony_store::{CreateOptions, Mode, Store, Strategy};
use isochrony_time::Rate;

fn wanted(folder: &std::path::Path) -> CalibrationOptions {
    CalibrationOptions {
        folder: folder.into(),
        bytes: 4 << 20,
        repeats: 2,
    }
}

#[test]
fn a_calibration_measures_every_strategy_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut told = Vec::new();
    let profile = calibrate(&wanted(folder.path()), |done, of| told.push((done, of))).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    // Each strategy twice from disk and twice from the page cache.
    let scans = 4 * Strategy::local().count() as u32;
    assert_eq!(told.first(), Some(&(0, scans)));
    assert_eq!(told.last(), Some(&(scans, scans)));
    assert!(profile.machine.is_like(&Machine::here()));
    assert!(profile.timer_resolution > 0.0 && profile.system_call.median > 0.0);
    let volume = &profile.volumes[0];
    for strategy in Strategy::local() {
        // Direct reads and io_uring may be unavailable.
        if !strategy.bypasses_page_cache() && !strategy.uses_io_uring() {
            let time = volume
                .predict(strategy, CacheState::Cached, 1e9, DType::I16)
                .unwrap();
            assert!(0.0 < time.low && time.low <= time.median && time.median <= time.high);
            let mapped = volume
                .predict(strategy, CacheState::Mapped, 1e9, DType::I16)
                .unwrap();
            assert!(mapped.median <= time.median, "{strategy}");
        }
        let cold = volume.predict(strategy, CacheState::Cold, 1e9, DType::I16);
        let path = volume.paths.get(strategy.name());
        assert_eq!(cold.is_some(), path.is_some_and(|path| path.cold.is_some()));
    }
    let remote = |one: &Strategy| one.is_remote();
    let remote: Vec<Strategy> = Strategy::ALL.into_iter().filter(remote).collect();
    assert!(!remote.is_empty());
    for strategy in remote {
        assert!(
            !volume.paths.contains_key(strategy.name()),
            "no disk is another machine's"
        );
    }
    let path = folder.path().join("deep").join("profile.json");
    profile.save(&path).unwrap();
    assert_eq!(Profile::load(&path).unwrap(), Some(profile.clone()));
    assert_eq!(
        std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
        1
    );
    assert!(profile.volume(&volume.disk).is_some());
}

#[test]
fn a_calibration_that_makes_no_sense_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let good = wanted(folder.path());
    let code = |wanted: CalibrationOptions| calibrate(&wanted, |_, _| {}).unwrap_err().code();
    assert_eq!(
        code(CalibrationOptions {
            bytes: 1000,
            ..good.clone()
        }),
        "refused_calibration"
    );
    assert_eq!(
        code(CalibrationOptions {
            repeats: 0,
            ..good.clone()
        }),
        "refused_calibration"
    );
    let room = rustix::fs::statvfs(folder.path()).unwrap();
    if room.f_bavail * room.f_frsize < 2 << 40 {
        assert_eq!(
            code(CalibrationOptions {
                bytes: 1 << 40,
                ..good.clone()
            }),
            "disk_full"
        );
    }
    let nowhere = folder.path().join("nowhere");
    assert_eq!(
        code(CalibrationOptions {
            folder: nowhere,
            ..good
        }),
        "io"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_calibration_can_be_stopped_and_cleans_up() {
    let folder = tempfile::tempdir().unwrap();
    let interrupt = isochrony_runtime::Interrupt::default();
    let stopped = isochrony_store::interrupt::stoppable(&interrupt, || {
        calibrate(&wanted(folder.path()), |done, _| {
            if done == 3 {
                interrupt.request();
            }
        })
    });
    assert_eq!(stopped.unwrap_err().code(), "interrupted");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn rejects_an_invalid_profile_naming_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.json");
    assert_eq!(Profile::load(&path).unwrap(), None);
    for text in ["", "{}", "[1]", "{\"format\": 3}"] {
        std::fs::write(&path, text).unwrap();
        let error = Profile::load(&path).unwrap_err();
        assert_eq!(error.code(), "bad_profile");
        assert!(error.to_string().contains("profile.json"), "{error}");
    }
}

#[test]
fn sealed_signals_have_no_prediction() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    let writer = store.create("p", &options).unwrap();
    writer.append(&vec![1i16; 100_000]).unwrap();
    store.commit(true).unwrap();
    store
        .seal("p", isochrony_store::Codec::Zstd { level: 1 })
        .unwrap();
    let signal = store.signal("p").unwrap();
    let parts = signal.select(0..100_000).unwrap().parts().to_vec();
    let estimate = estimate(&signal, &parts);
    assert_eq!(estimate.best, None);
    assert!(estimate.to_string().contains("sealed"), "{estimate}");
    assert_eq!(estimate.amount.bytes, 200_000.0);
    assert_eq!(choose(&signal, &parts), Strategy::Mmap);
}
