//! More signals than the process may have files open.
#![cfg(target_os = "linux")]

use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, SignalReader, Store, Strategy, VerifyOptions};
use isochrony_time::Rate;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const SIGNALS: usize = 300;
const SEALED: usize = 150;
const SAMPLES: i64 = 50;
/// Limit of the process, with the test harness.
const DESCRIPTORS: u64 = 128;

fn samples(signal: usize) -> Vec<i16> {
    (0..SAMPLES)
        .map(|x| (x as usize * 31 + signal) as i16)
        .collect()
}

fn open_now() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_store_of_more_signals_than_files_may_be_open_is_written_read_scanned_and_verified() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = Some(DESCRIPTORS);
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iso");
    let store = Store::open(&path, Mode::Create).unwrap();
    let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    let name = |signal: usize| format!("stn_{signal:04}");
    for signal in 0..SIGNALS {
        let writer = store.create(&name(signal), &options).unwrap();
        writer.append(&samples(signal)).unwrap();
    }
    store.commit(true).unwrap();
    // Sealed signals have open files of their own.
    let sealed = |signal: usize| format!("sealed_{signal:04}");
    for signal in 0..SEALED {
        let writer = store.create(&sealed(signal), &options).unwrap();
        writer.append(&samples(signal)).unwrap();
        store
            .seal(&sealed(signal), "zstd:1".parse().unwrap())
            .unwrap();
    }
    // Again: the first files were closed.
    for signal in 0..SIGNALS {
        let writer = store.writer(&name(signal)).unwrap();
        writer.append(&samples(signal + 7)).unwrap();
    }
    store.commit(true).unwrap();
    let reader = Store::open(&path, Mode::Read).unwrap();
    // As of an array of stations: mappings stay, files need not.
    let mut kept = Vec::new();
    for signal in 0..SIGNALS {
        let found = reader.signal(&name(signal)).unwrap();
        kept.push(found.select(0..2 * SAMPLES).unwrap().as_segment().unwrap());
    }
    for (signal, segment) in kept.iter().enumerate() {
        let expected = [samples(signal), samples(signal + 7)].concat();
        assert_eq!(segment.to_vec::<i16>().unwrap(), expected);
    }
    for signal in 0..SEALED {
        let found = reader.signal(&sealed(signal)).unwrap();
        let segment = found.select(0..SAMPLES).unwrap().as_segment().unwrap();
        assert_eq!(segment.to_vec::<i16>().unwrap(), samples(signal));
    }
    assert!(
        open_now() < DESCRIPTORS as usize / 2,
        "{} files are open",
        open_now()
    );
    let grown = store.writer(&name(0)).unwrap();
    grown.append(&samples(99)).unwrap();
    store.commit(true).unwrap();
    reader.refresh().unwrap();
    let found = reader.signal(&name(0)).unwrap();
    let tail = found.select(2 * SAMPLES..3 * SAMPLES).unwrap();
    assert_eq!(
        tail.as_segment().unwrap().to_vec::<i16>().unwrap(),
        samples(99)
    );
    for strategy in [Strategy::Mmap, Strategy::Read, Strategy::Readahead] {
        for signal in 0..SIGNALS {
            let found = reader.signal(&name(signal)).unwrap();
            let parts = found.select(0..SAMPLES).unwrap().parts().to_vec();
            let mut scan = SignalReader::new(&found, &parts, SAMPLES, strategy).unwrap();
            let read = scan.read(0..SAMPLES).unwrap().to_vec::<i16>().unwrap();
            assert_eq!(read, samples(signal), "{strategy}");
        }
    }
    drop((reader, kept));
    store.close().unwrap();
    let deep = VerifyOptions {
        deep: true,
        ..VerifyOptions::default()
    };
    let report = isochrony_store::verify(&path, &deep).unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings.first());
    assert_eq!(report.signals, SIGNALS + SEALED);
}
