//! Kill -9: a child process works on a store on a real disk, keeps a journal, and is killed at a random moment. No
//! acknowledged sample is lost, and a commit in progress is whole or absent. Only children killed after their first
//! commit count.
//!
//! The page cache stays, so this does not test syncs (`crash_power` does).

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::crash::{Model, Work, check_crcs, difference, read_back, rebuild, without_ids};
use isochrony_store::engine::{Engine, OpenMode};
use isochrony_store::media::sim::{Dice, SimMedia};
use isochrony_store::{VerifyOptions, verify};

/// Children killed after a commit; overridden by `ISOCHRONY_CRASH_LIVES`.
const LIVES: u64 = 200;
/// Gives up after so many times more kills.
const MAX_KILLS: u64 = 10;
const CHILD: &str = "ISOCHRONY_CRASH_CHILD";

/// A seeded workload, which the parent can repeat: the journal has one byte per commit begun (`b`) and done (`d`).
fn child(root: &Path, seed: u64) {
    let engine = Engine::open(root, OpenMode::CreateIfMissing).unwrap();
    let mut journal = File::options()
        .append(true)
        .create(true)
        .open(root.with_extension("journal"))
        .unwrap();
    let mut work = Work::new(seed);
    work.model = read_back(&engine).unwrap();
    work.acknowledged.clone_from(&work.model);
    let mut intents = journal.try_clone().unwrap();
    work.before_commit = Some(Box::new(move || intents.write_all(b"b").unwrap()));
    loop {
        let commits = work.commits;
        work.step(&engine).unwrap();
        if work.commits > commits {
            journal.write_all(b"d").unwrap();
        }
    }
}

/// Replays up to `begun` and `done` commits in memory.
fn replay(before: &Model, seed: u64, begun: u64, done: u64) -> (Model, Option<Model>) {
    let media = SimMedia::new(0);
    let engine = Engine::open_on(Path::new("/shadow"), OpenMode::CreateNew, media.media()).unwrap();
    let mut work = Work::new(seed);
    work.model = rebuild(&engine, before);
    work.acknowledged.clone_from(&work.model);
    while work.commits < done {
        work.step(&engine).unwrap();
    }
    let acknowledged = work.acknowledged.clone();
    let in_doubt = (begun > done).then(|| {
        while work.commits < begun {
            work.step(&engine).unwrap();
        }
        work.acknowledged.clone()
    });
    (acknowledged, in_doubt)
}

fn wait_to_kill(journal: &Path, dice: &mut Dice) {
    if dice.chance(20) {
        std::thread::sleep(Duration::from_micros(3_000 + dice.below(40_000)));
        return;
    }
    let patience = Instant::now() + Duration::from_secs(10);
    let has_committed = || std::fs::read(journal).is_ok_and(|told| told.contains(&b'd'));
    while !has_committed() && Instant::now() < patience {
        std::thread::sleep(Duration::from_micros(200));
    }
    std::thread::sleep(Duration::from_micros(dice.below(15_000)));
}

fn assert_sound(root: &Path, kill: u64, when: &str) {
    let deep = VerifyOptions {
        deep: true,
        ..VerifyOptions::default()
    };
    match verify(root, &deep) {
        Ok(report) => assert!(report.is_clean(), "{when} {kill}: {report:#?}"),
        Err(error) => assert_eq!(error.code(), "not_a_store", "{when} {kill}: {error}"),
    }
}

#[test]
fn no_kill_loses_a_committed_sample_or_splits_a_commit() {
    if let Ok(seed) = std::env::var(CHILD) {
        let root = std::env::var("ISOCHRONY_CRASH_ROOT").unwrap();
        child(Path::new(&root), seed.parse().unwrap());
        return;
    }
    let number = |name: &str, default| {
        let text = std::env::var(name).ok();
        text.map_or(default, |text| text.parse().unwrap())
    };
    let (wanted, seed) = (
        number("ISOCHRONY_CRASH_LIVES", LIVES),
        number("ISOCHRONY_CRASH_SEED", 0),
    );
    let first = seed << 32;
    let folder = tempfile::tempdir().unwrap();
    let mut dice = Dice(7 ^ seed);
    let mut before = Model::new();
    let mut root = folder.path().join("0.iso");
    let (mut kills, mut lives, mut commits, mut cut) = (0, 0, 0, 0);
    while lives < wanted {
        assert!(
            kills < MAX_KILLS * wanted,
            "only {lives} of {kills} children had committed anything"
        );
        let kill = kills;
        kills += 1;
        if kill % 10 == 0 {
            // Short histories: a new store after a few kills.
            root = folder.path().join(format!("{kill}.iso"));
            before = Model::new();
        }
        let journal = root.with_extension("journal");
        let _ = std::fs::remove_file(&journal);
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "crash_kill::no_kill_loses_a_committed_sample_or_splits_a_commit",
                "--nocapture",
            ])
            .env(CHILD, (first + kill).to_string())
            .env("ISOCHRONY_CRASH_ROOT", &root)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_to_kill(&journal, &mut dice);
        process.kill().unwrap();
        let status = process.wait().unwrap();
        let mut said = String::new();
        process
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        assert_eq!(
            status.signal(),
            Some(9),
            "kill {kill}: the child ended by itself: {said}"
        );

        let journal = std::fs::read(&journal).unwrap_or_default();
        let count = |what: u8| journal.iter().filter(|byte| **byte == what).count() as u64;
        let (begun, done) = (count(b'b'), count(b'd'));
        lives += u64::from(done > 0);
        cut += u64::from(begun > done);
        commits += done;
        let (acknowledged, in_doubt) = replay(&before, first + kill, begun, done);
        assert_sound(&root, kill, "killed");
        let engine = Engine::open(&root, OpenMode::CreateIfMissing).unwrap();
        let have = read_back(&engine).unwrap();
        let plain = without_ids(&have);
        if let Some(different) = difference(&plain, &without_ids(&acknowledged)) {
            let Some(whole) = in_doubt else {
                panic!("kill {kill} after {done} commits: {different}");
            };
            if let Some(also) = difference(&plain, &without_ids(&whole)) {
                panic!("kill {kill} after {done} commits: {different}; nor the one begun: {also}");
            }
        }
        check_crcs(&engine, &have).unwrap();
        engine.close().unwrap();
        assert_sound(&root, kill, "recovered");
        before = have;
    }
    println!(
        "{kills} kills, {lives} of children that had committed, {cut} within a commit; {commits} commits acknowledged"
    );
    assert!(cut > 0, "no kill fell within a commit");
}
