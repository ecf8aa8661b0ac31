//! Several processes with one cache, some of them killed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use isochrony_cache::{Cache, CacheError};

use crate::common::{
    PIECE, check_folder, disk_bytes, fetch, key, options, origin, read, store_all,
};

const QUOTA: u64 = 24 * PIECE;
const OBJECTS: u64 = 8;

fn spawn(role: &str, folder: &Path, seed: u64) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "processes::child", "--nocapture"])
        .env("CACHE_TEST_ROLE", role)
        .env("CACHE_TEST_FOLDER", folder)
        .env("CACHE_TEST_SEED", seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child")
}

fn wait_for(child: &mut Child, word: &str) {
    let mut lines = BufReader::new(child.stdout.as_mut().expect("its output")).lines();
    assert!(
        lines.any(|line| line.expect("a line").contains(word)),
        "{word} never came"
    );
}

fn say(word: &str) {
    println!("{word}");
    std::io::stdout().flush().expect("flushed");
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// By role; nothing as a test.
#[test]
fn child() {
    let (Ok(role), Ok(folder)) = (
        std::env::var("CACHE_TEST_ROLE"),
        std::env::var("CACHE_TEST_FOLDER"),
    ) else {
        return;
    };
    let seed = std::env::var("CACHE_TEST_SEED")
        .expect("a seed")
        .parse()
        .expect("a number");
    let folder = Path::new(&folder);
    let cache = Cache::open(folder, options(QUOTA)).expect("a cache");
    match role.as_str() {
        "work" => work(&cache, Random(seed)),
        "count" => count(&cache, folder),
        "pin" => {
            let object = cache.pin(&key(0), 4 * PIECE).expect("pinned");
            fetch(&object, 0, 0..PIECE).expect("fetched");
            say("ready");
            std::thread::sleep(Duration::from_secs(60));
        }
        "fetch" => {
            let object = cache.pin(&key(0), 4 * PIECE).expect("pinned");
            let _reservation = object.reserve(0..4 * PIECE).expect("reserved");
            say("ready");
            std::thread::sleep(Duration::from_secs(60));
        }
        other => panic!("no role {other}"),
    }
}

/// A wrong byte ends the process with an error.
fn work(cache: &Cache, mut random: Random) {
    say("ready");
    let mut pins = Vec::new();
    for _ in 0..100_000 {
        let number = random.below(OBJECTS);
        // Some objects grow.
        let bytes = 6 * PIECE + random.below(2) * 3000;
        let object = match cache.pin(&key(number), bytes) {
            Ok(object) => object,
            Err(CacheError::CacheFull { .. }) => {
                pins.clear();
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let start = random.below(6) * PIECE;
        let range = start..(start + 2 * PIECE).min(object.bytes());
        match fetch(&object, number, range.clone()) {
            Ok(()) => assert!(read(&object, number, range.clone()).is_some()),
            Err(CacheError::CacheFull { .. }) => pins.clear(),
            Err(error) => panic!("{error}"),
        }
        let map = object.map().expect("a mapping");
        if let Ok(bytes) = map.slice(range.clone()) {
            assert!(bytes == origin(number, range));
        }
        if random.below(100) == 0 {
            cache.clear().expect("cleared");
        }
        if random.below(4) == 0 {
            pins.push(object);
        }
        if pins.len() > 2 {
            pins.remove(0);
        }
    }
}

#[test]
fn killed_processes_leave_no_wrong_byte_no_orphan_and_no_excess() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("cache");
    let rounds: u64 = std::env::var("CACHE_TEST_ROUNDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(40);
    let mut random = Random(20_261_128);
    let mut most = 0;
    for round in 0..rounds {
        let mut children: Vec<_> = (0..2)
            .map(|n| spawn("work", &folder, round * 2 + n))
            .collect();
        children
            .iter_mut()
            .for_each(|child| wait_for(child, "ready"));
        for child in &mut children {
            std::thread::sleep(Duration::from_micros(random.below(30_000)));
            most = most.max(disk_bytes(&folder));
            assert!(
                child.try_wait().expect("its state").is_none(),
                "the child found an error"
            );
            child.kill().expect("killed");
            child.wait().expect("ended");
        }
        check_folder(&folder, QUOTA, 0..OBJECTS);
    }
    assert!(most <= QUOTA, "{most} of {QUOTA} bytes while running");
    assert!(most > QUOTA / 2, "the children did something");
}

/// Notes each fetch in a common file.
fn count(cache: &Cache, folder: &Path) {
    let log = folder.with_extension("log");
    let mut log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(log)
        .expect("a log");
    let object = cache.pin(&key(0), 20 * PIECE).expect("pinned");
    for piece in 0..20 {
        let range = piece * PIECE..(piece + 1) * PIECE;
        let fetched = object.fetch(range.clone(), Duration::from_secs(20), |reservation| {
            log.write_all(format!("{piece}\n").as_bytes())
                .expect("written");
            std::thread::sleep(Duration::from_millis(3));
            store_all(0, reservation)
        });
        fetched.expect("fetched");
        read(&object, 0, range).expect("present");
    }
}

#[test]
fn processes_that_want_the_same_pieces_fetch_each_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("cache");
    let children: Vec<_> = (0..3).map(|seed| spawn("count", &folder, seed)).collect();
    for mut child in children {
        assert!(child.wait().expect("ended").success());
    }
    let log = std::fs::read_to_string(folder.with_extension("log")).expect("a log");
    let mut fetched: Vec<u64> = log
        .lines()
        .map(|line| line.parse().expect("a number"))
        .collect();
    fetched.sort_unstable();
    assert_eq!(fetched, (0..20).collect::<Vec<_>>());
}

#[test]
fn a_pin_lasts_as_long_as_its_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("cache");
    let mut child = spawn("pin", &folder, 0);
    wait_for(&mut child, "ready");
    let cache = Cache::open(&folder, options(QUOTA)).expect("a cache");
    let cleared = cache.clear().expect("cleared");
    assert_eq!((cleared.removed_objects, cleared.kept_objects), (0, 1));
    assert_eq!(cache.info().expect("info").pinned_objects, 1);
    child.kill().expect("killed");
    child.wait().expect("ended");
    let cleared = cache.clear().expect("cleared");
    assert_eq!((cleared.removed_objects, cleared.kept_objects), (1, 0));
    assert_eq!(disk_bytes(&folder), 0);
}

#[test]
fn a_killed_process_s_fetch_is_taken_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("cache");
    let mut child = spawn("fetch", &folder, 0);
    wait_for(&mut child, "ready");
    let cache = Cache::open(&folder, options(QUOTA)).expect("a cache");
    let object = cache.pin(&key(0), 4 * PIECE).expect("pinned");
    let error = object.fetch(0..PIECE, Duration::from_millis(50), |_| {
        Ok::<_, CacheError>(())
    });
    assert_eq!(
        error.expect_err("the child is fetching").code(),
        "fetch_timeout"
    );
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        child.kill().expect("killed");
        child.wait().expect("ended");
    });
    let start = Instant::now();
    fetch(&object, 0, 0..4 * PIECE).expect("taken over");
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    killer.join().expect("joined");
    read(&object, 0, 0..4 * PIECE).expect("present");
    assert_eq!(cache.info().expect("info").handles, 1);
}
