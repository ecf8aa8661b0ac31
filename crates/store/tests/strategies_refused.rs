//! Reads by strategies whose system calls the kernel refuses to one thread.
#![cfg(all(target_os = "linux", target_endian = "little"))]
#![allow(unsafe_code)] // A filter of system calls has no safe crate.

#[path = "../../system/tests/uring/mod.rs"]
mod uring;

use isochrony_segment::DType;
use isochrony_store::{
    CreateOptions, Mode, Readers, Reading, Signal, SignalReader, Store, Strategy,
};
use isochrony_time::Rate;

/// The call fails with EPERM in this thread, as in containers. False if the kernel has no filters.
fn refuse(call: libc::c_long) -> bool {
    let step = |code: u32, jt, jf, k: u32| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    let mut program = [
        // The input starts with the number of the call.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(equal, 0, 1, call as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the kernel copies the program, which outlives the calls; both change only what this thread may call.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                std::ptr::from_ref(&filter),
            ) == 0
    }
}

fn sample(index: i64) -> i16 {
    (index.wrapping_mul(2_654_435_761) >> 13) as i16
}

fn made(folder: &std::path::Path) -> Signal {
    let store = Store::open(folder.join("a.iso"), Mode::Create).unwrap();
    let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    let writer = store.create("p", &options).unwrap();
    writer
        .append(&(0..100_000).map(sample).collect::<Vec<_>>())
        .unwrap();
    store.commit(true).unwrap();
    writer.signal().unwrap()
}

fn read(signal: &Signal, strategy: Strategy) -> Reading {
    let parts = signal.select(0..100_000).unwrap().parts().to_vec();
    let mut reader = SignalReader::new(signal, &parts, 10_000, strategy).unwrap();
    read_by(&mut reader, 0..100_000);
    reader.reading().clone()
}

fn read_by(reader: &mut SignalReader, range: std::ops::Range<i64>) {
    for start in range.step_by(10_000) {
        let segment = reader.read(start..start + 10_000).unwrap();
        let found = segment.to_vec::<i16>().unwrap();
        assert!(found.into_iter().eq((start..start + 10_000).map(sample)));
    }
}

/// False if the kernel has no filters.
fn without(call: libc::c_long, act: impl FnOnce() + Send + 'static) -> bool {
    let run = move || match refuse(call) {
        true => {
            act();
            true
        }
        false => {
            eprintln!("this kernel filters no calls: not tested");
            false
        }
    };
    std::thread::spawn(run).join().unwrap()
}

fn replaced(signal: &Signal) {
    let parts = signal.select(0..100_000).unwrap().parts().to_vec();
    for (asked, instead) in [
        (Strategy::IoUring, Strategy::Read),
        (Strategy::IoUringDirect, Strategy::Direct),
    ] {
        let reading = read(signal, asked);
        assert_eq!(reading, signal.foresee_reading(&parts, asked));
        let said = reading.to_string();
        // The file system may refuse direct reads too.
        if reading.used == Some(Strategy::Read) && asked.bypasses_page_cache() {
            assert!(said.contains("O_DIRECT"), "{said}");
            continue;
        }
        assert_eq!(reading.used, Some(instead));
        assert!(said.contains("io_uring is not available"), "{said}");
        assert!(said.contains("not permitted"), "{said}");
        assert!(said.contains("kernel.io_uring_disabled"), "{said}");
    }
    assert_eq!(read(signal, Strategy::Mmap).why, None);
}

fn rings() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let names = open.filter_map(|one| std::fs::read_link(one.ok()?.path()).ok());
    names
        .filter(|name| name.to_string_lossy().contains("io_uring"))
        .count()
}

#[test]
fn without_an_io_uring_its_strategies_are_replaced_and_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let signal = made(folder.path());
    without(libc::SYS_io_uring_setup, move || replaced(&signal));
}

#[test]
fn an_io_uring_that_takes_no_requests_is_replaced_beforehand_and_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let signal = made(folder.path());
    if let Some(why) = uring::refused() {
        eprintln!("no io_uring to refuse requests of: not tested: {why}");
        return;
    }
    without(libc::SYS_io_uring_enter, move || {
        let before = rings();
        for _ in 0..20 {
            replaced(&signal);
        }
        // Other tests of this process may have one or two at a time.
        assert!(rings() < before + 20, "{} rings are left", rings());
    });
}

#[test]
fn an_io_uring_that_takes_no_requests_any_more_is_replaced_on_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let signal = made(folder.path());
    if let Some(why) = uring::refused() {
        eprintln!("no io_uring to refuse requests of: not tested: {why}");
        return;
    }
    // More than are read ahead.
    let parts = signal.select(0..100_000).unwrap().parts().to_vec();
    for strategy in [Strategy::IoUring, Strategy::IoUringDirect] {
        let mut reader = SignalReader::new(&signal, &parts, 10_000, strategy).unwrap();
        without(libc::SYS_io_uring_enter, move || {
            read_by(&mut reader, 0..100_000);
            let reading = reader.reading();
            assert_eq!(reading.used, Some(Strategy::Read));
            assert!(reading.why.is_some(), "{reading}");
        });
    }
}

#[test]
fn a_refusal_to_one_reader_applies_to_later_ones() {
    let folder = tempfile::tempdir().unwrap();
    let signal = made(folder.path());
    if let Some(why) = uring::refused() {
        eprintln!("no io_uring to refuse requests of: not tested: {why}");
        return;
    }
    let select = |range| signal.select(range).unwrap().parts().to_vec();
    let tasks = [select(0..50_000), select(50_000..100_000)];
    for strategy in [Strategy::IoUring, Strategy::IoUringDirect] {
        let coming = Box::new(tasks.clone().into_iter());
        let all = select(0..100_000);
        let readers = Readers::new(&signal, &all, 10_000, strategy, 2, coming).unwrap();
        let mut one = readers.begin(0, &tasks[0]);
        let mut other = readers.begin(1, &tasks[1]);
        read_by(&mut other, 50_000..60_000);
        let refused = without(libc::SYS_io_uring_enter, move || {
            read_by(&mut one, 0..50_000);
        });
        read_by(&mut other, 60_000..100_000);
        let other = other.reading().used;
        let mut again = readers.begin(0, &tasks[0]);
        read_by(&mut again, 0..50_000);
        let used = again.reading().used;
        // If direct reads are impossible, both strategies knew before.
        let expected = match refused || other == Some(Strategy::Read) {
            true => Strategy::Read,
            false => strategy,
        };
        assert_eq!(used, Some(expected));
    }
}
