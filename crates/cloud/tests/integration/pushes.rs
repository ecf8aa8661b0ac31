//! Copies of stores to object storage equal their source, whatever happens meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::faulty::Faulty;
use isochrony_cloud::CloudMedia;
use isochrony_segment::DType;
use isochrony_store::media::{Media, remote};
use isochrony_store::{
    Codec, CopyOptions, CreateOptions, Mode, Pattern, Store, StoreError, VerifyOptions, copy_store,
};
use isochrony_time::Rate;
use proptest::prelude::*;

static SERVERS: Mutex<BTreeMap<String, Arc<Faulty>>> = Mutex::new(BTreeMap::new());

fn media(url: &str) -> io::Result<CloudMedia> {
    let servers = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
    let prefix = url.strip_prefix("s3://").unwrap();
    Ok(CloudMedia::on(
        servers[url].clone(),
        prefix,
        Path::new(url),
    )?)
}

fn server() -> (Arc<Faulty>, String) {
    remote::register(
        |url| Ok(Arc::new(media(url)?) as Arc<dyn Media>),
        |url| Ok(Arc::new(media(url)?.writer()?) as Arc<dyn Media>),
    );
    let mut servers = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
    let url = format!("s3://bucket/{}.iso", servers.len());
    let server = Arc::new(Faulty::default());
    servers.insert(url.clone(), server.clone());
    (server, url)
}

fn push(from: &Path, url: &str, options: &CopyOptions) -> Result<u64, StoreError> {
    let report = copy_store(from, url, options, &mut |_| ())?;
    match report.failed.first() {
        None => Ok(report.copied_bytes),
        Some((name, why)) => Err(StoreError::InvalidName {
            name: name.clone(),
            component: why.clone(),
            rule: "be copied",
        }),
    }
}

/// Samples, times, events and metadata by signal.
fn shown(path: impl AsRef<Path>) -> BTreeMap<String, String> {
    let store = Store::open(path, Mode::Read).unwrap();
    let show = |name: String| {
        let signal = store.signal(&name).unwrap();
        let mut sum = 0u64;
        let mut parts = Vec::new();
        for segment in signal.select(0..signal.end_index()).unwrap().segments() {
            let segment = segment.unwrap();
            parts.push(segment.range());
            for sample in segment.to_vec::<i16>().unwrap() {
                sum = sum.wrapping_mul(31).wrapping_add(sample as u64);
            }
        }
        let events: Vec<_> = signal.events().map(|event| format!("{event:?}")).collect();
        let (state, end) = (signal.state(), signal.end_index());
        let runs = state.runs.iter().collect::<Vec<_>>();
        let text = format!(
            "{end} {sum:x} {parts:?} {events:?} {:?} {runs:?}",
            state.meta
        );
        (name, text)
    };
    let mut all: BTreeMap<_, _> = store.names().unwrap().into_iter().map(show).collect();
    all.insert(
        String::new(),
        format!(
            "{:?} {}",
            store.attributes().unwrap(),
            store.uuid().unwrap()
        ),
    );
    all
}

fn is_sound(url: &str) {
    let options = VerifyOptions {
        deep: true,
        ..VerifyOptions::default()
    };
    let store = Store::open(url, Mode::Read).unwrap();
    assert_eq!(store.verify(&options).unwrap().findings, []);
}

fn names(server: &Faulty, url: &str) -> BTreeSet<String> {
    let begin = format!("{}/", url.strip_prefix("s3://").unwrap());
    let all = server.all().into_iter();
    all.filter_map(|(key, _)| Some(key.strip_prefix(&begin)?.to_owned()))
        .collect()
}

fn options() -> CreateOptions {
    CreateOptions::new(DType::I16, Rate::from_hz(1000).unwrap())
}

fn samples(count: i64, seed: i64) -> Vec<i16> {
    (0..count)
        .map(|at| ((at * 37 + seed * 11) % 1999) as i16 + 1)
        .collect()
}

struct Source {
    folder: tempfile::TempDir,
    store: Store,
}

impl Source {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
        Self { folder, store }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("a.iso")
    }

    fn append(&self, name: &str, count: i64, seed: i64) {
        let writer = match self.store.writer(name) {
            Ok(writer) => writer,
            Err(_) => self.store.create(name, &options()).unwrap(),
        };
        writer.append(&samples(count, seed)).unwrap();
    }

    fn filled() -> Self {
        let source = Self::new();
        for (name, count) in [("n/long", 300_000), ("n/short", 500), ("m/sealed", 90_000)] {
            source.append(name, count, 1);
            let writer = source.store.writer(name).unwrap();
            writer.append_gap(1000).unwrap();
            source.append(name, count / 10, 2);
            writer
                .add_event("note", 5..9, &serde_json::Map::new())
                .unwrap();
        }
        source.store.commit(true).unwrap();
        source.store.seal("m/sealed", Codec::default()).unwrap();
        source
    }
}

#[derive(Debug, Clone)]
enum Step {
    Append(usize, i64),
    Gap(usize, i64),
    Overwrite(usize, i64),
    Invalid(usize, i64),
    Event(usize),
    Seal(usize),
    Unseal(usize),
    Swap(usize, usize),
    Remove(usize),
    Push,
}

const SIGNALS: [&str; 4] = ["a", "b/c", "b/d", "e"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let signal = || 0..SIGNALS.len();
    let step = prop_oneof![
        6 => (signal(), 1..70_000i64).prop_map(|(signal, count)| Step::Append(signal, count)),
        2 => (signal(), 1..9_000i64).prop_map(|(signal, count)| Step::Gap(signal, count)),
        2 => (signal(), 0..70_000i64).prop_map(|(signal, at)| Step::Overwrite(signal, at)),
        1 => (signal(), 0..70_000i64).prop_map(|(signal, at)| Step::Invalid(signal, at)),
        1 => signal().prop_map(Step::Event),
        1 => signal().prop_map(Step::Seal),
        1 => signal().prop_map(Step::Unseal),
        1 => (signal(), signal()).prop_map(|(one, other)| Step::Swap(one, other)),
        1 => signal().prop_map(Step::Remove),
        4 => Just(Step::Push),
    ];
    prop::collection::vec(step, 1..25)
}

fn carry_out(source: &Source, step: &Step, number: i64) {
    let store = &source.store;
    let writer = |signal: &usize| store.writer(SIGNALS[*signal]);
    match step {
        Step::Append(signal, count) => {
            let _ = store.create(SIGNALS[*signal], &options());
            if let Ok(writer) = writer(signal) {
                let _ = writer.append(&samples(*count, number));
            }
        }
        Step::Gap(signal, count) => _ = writer(signal).map(|writer| writer.append_gap(*count)),
        Step::Overwrite(signal, at) => {
            _ = writer(signal).map(|writer| writer.write_bytes(*at, &[number as u8; 400]));
        }
        Step::Invalid(signal, at) => {
            _ = writer(signal).map(|writer| writer.mark_invalid(*at..*at + 50));
        }
        Step::Event(signal) => {
            let fields = serde_json::Map::new();
            _ = writer(signal).map(|writer| writer.add_event("note", 0..1, &fields));
        }
        Step::Seal(signal) => _ = store.seal(SIGNALS[*signal], Codec::default()),
        Step::Unseal(signal) => _ = store.unseal(SIGNALS[*signal]),
        Step::Swap(one, other) => {
            let (one, other) = (SIGNALS[*one], SIGNALS[*other]);
            let _ = store.rename(one, "between");
            let _ = store.rename(other, one);
            let _ = store.rename("between", other);
        }
        Step::Remove(signal) => _ = store.remove(SIGNALS[*signal]),
        Step::Push => {}
    }
    store.commit(number % 2 == 0).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// After any changes between pushes, the copy has no objects beyond those of a store on disk.
    #[test]
    fn a_copy_equals_its_source(steps in steps(), commit_bytes in prop_oneof![Just(20_000u64), Just(1 << 28)]) {
        let (server, url) = server();
        let source = Source::new();
        let options = CopyOptions { commit_bytes, ..CopyOptions::default() };
        let disk = source.folder.path().join("b.iso");
        for (number, step) in steps.iter().chain([&Step::Push]).enumerate() {
            carry_out(&source, step, number as i64);
            if matches!(step, Step::Push) {
                push(&source.path(), &url, &options).unwrap();
                prop_assert_eq!(shown(&url), shown(source.path()));
                is_sound(&url);
                copy_store(&url, &disk, &CopyOptions::default(), &mut |_| ()).unwrap();
                prop_assert_eq!(shown(&disk), shown(source.path()));
                let extra: Vec<String> = names(&server, &url)
                    .into_iter()
                    .filter(|name| !disk.join(name).exists() && !name.starts_with(".isochrony/log."))
                    // A gap table stays when all gaps were filled; identity files have two places.
                    .filter(|name| !name.contains("/gaps/") && !name.ends_with(".signal"))
                    .collect();
                prop_assert_eq!(extra, Vec::<String>::new());
            }
        }
    }
}

#[test]
fn existing_objects_are_not_uploaded_again() {
    let (server, url) = server();
    let source = Source::filled();
    let all = push(&source.path(), &url, &CopyOptions::default()).unwrap();
    assert!(all > 800_000, "{all}");
    assert_eq!(shown(&url), shown(source.path()));
    let before = server.changes();
    assert_eq!(
        push(&source.path(), &url, &CopyOptions::default()).unwrap(),
        0
    );
    let after = server.changes();
    let marker = |change: &String| change.ends_with("BACKUP");
    let samples = |change: &String| change.contains("/data/c/");
    assert!(after[before.len()..].iter().any(marker));
    assert!(
        !after[before.len()..].iter().any(samples),
        "{:?}",
        &after[before.len()..]
    );
}

#[test]
fn progress_counts_uploaded_bytes() {
    let (server, url) = server();
    let source = Source::new();
    for name in ["a", "b", "c", "d"] {
        source.append(name, 300_000, 1);
    }
    source.store.commit(true).unwrap();
    let mut seen = Vec::new();
    let options = CopyOptions {
        commit_bytes: 500_000,
        ..CopyOptions::default()
    };
    let report = copy_store(source.path(), &url, &options, &mut |progress| {
        let there = server.all().into_iter();
        let shards = there.filter(|(name, _)| name.contains("/data/c/"));
        let put: u64 = shards.map(|(_, bytes)| bytes.len() as u64).sum();
        assert!(progress.done() <= put, "{} of {put}", progress.done());
        assert_eq!(progress.total(), Some(2_400_000));
        seen.push(progress.done());
    });
    assert_eq!(report.unwrap().copied_bytes, 2_400_000);
    assert!(seen.is_sorted());
    assert_eq!(seen.last(), Some(&2_400_000));
    let on_the_way = seen.iter().filter(|&&done| 0 < done && done < 2_400_000);
    assert!(on_the_way.count() > 2, "{seen:?}");
}

/// Signals without samples have objects, too.
#[test]
fn a_commit_puts_a_thousand_signals_at_most() {
    let (server, url) = server();
    let source = Source::new();
    for number in 0..2100 {
        let options = CreateOptions::new(DType::I16, Rate::from_hz(10).unwrap());
        source
            .store
            .create(&format!("n/{number}"), &options)
            .unwrap();
    }
    source.store.commit(true).unwrap();
    push(&source.path(), &url, &CopyOptions::default()).unwrap();
    let (mut of_commit, mut commits) = (0, Vec::new());
    for change in server.changes() {
        of_commit += usize::from(change.starts_with("put ") && change.ends_with("/data/.signal"));
        if change.starts_with("put ") && change.contains("/.isochrony/log.") && of_commit > 0 {
            commits.push(std::mem::take(&mut of_commit));
        }
    }
    assert_eq!(commits, [1000, 1000, 100]);
    assert_eq!(
        Store::open(&url, Mode::Read)
            .unwrap()
            .names()
            .unwrap()
            .len(),
        2100
    );
}

#[test]
fn manifest_is_uploaded_last_before_deletions() {
    let (server, url) = server();
    let source = Source::filled();
    push(&source.path(), &url, &CopyOptions::default()).unwrap();
    let first = server.changes().len();
    source.append("n/long", 200_000, 3);
    source.store.commit(true).unwrap();
    push(&source.path(), &url, &CopyOptions::default()).unwrap();
    let changes = server.changes().split_off(first);
    let puts = |part: &str| {
        let put = |(at, change): (usize, &String)| {
            (change.starts_with("put") && change.contains(part)).then_some(at)
        };
        let puts: Vec<usize> = changes.iter().enumerate().filter_map(put).collect();
        assert!(!puts.is_empty(), "{part}: {changes:?}");
        puts
    };
    let (samples, manifests, markers) =
        (puts("n/long/data/c/"), puts("/MANIFEST"), puts("/BACKUP"));
    let (logs, tables) = (puts("/log."), puts("n/long/crc/"));
    let manifest = manifests[manifests.len() - 1];
    assert!(samples.iter().all(|put| *put < logs[0]), "{changes:?}");
    assert!(
        logs.iter().chain(&tables).all(|put| *put < manifest),
        "{changes:?}"
    );
    assert_eq!(
        markers.last(),
        Some(&(changes.len() - 1)),
        "that it is complete is said last"
    );
    let deleted = changes
        .iter()
        .position(|change| change.starts_with("delete"));
    assert!(deleted.unwrap() > manifests[0], "{changes:?}");
}

/// Ends a push at every change of objects: readers see a pushed state or an error about an incomplete push.
#[test]
fn a_push_interrupted_anywhere_is_completed_by_the_next() {
    for commit_bytes in [1 << 28, 150_000] {
        let options = CopyOptions {
            commit_bytes,
            ..CopyOptions::default()
        };
        let mut at = 0;
        loop {
            let (server, url) = server();
            let source = Source::filled();
            push(&source.path(), &url, &CopyOptions::default()).unwrap();
            let before = shown(&url);
            source.append("n/long", 200_000, 3);
            source.store.rename("n/short", "n/other").unwrap();
            source.append("n/new", 70_000, 4);
            source.store.unseal("m/sealed").unwrap();
            source.store.commit(true).unwrap();
            server.refuse_after(at);
            let pushed = push(&source.path(), &url, &options);
            server.refuse_after(u64::MAX);
            let is_done = pushed.is_ok();
            match Store::open(&url, Mode::Read) {
                Ok(_) => {
                    let now = shown(&url);
                    assert!(
                        now == before || now == shown(source.path()),
                        "{at}: {:?}",
                        now.keys()
                    );
                }
                Err(error) => assert_eq!(error.code(), "unfinished_backup", "{at}: {error}"),
            }
            server.refuse_after(at / 2);
            let _ = push(&source.path(), &url, &options);
            server.refuse_after(u64::MAX);
            push(&source.path(), &url, &options).unwrap();
            assert_eq!(shown(&url), shown(source.path()), "{at}");
            is_sound(&url);
            let strange = |name: &String| name.contains("/tmp/") || name.contains("/staging/");
            assert!(!names(&server, &url).iter().any(strange));
            if is_done {
                assert!(at > 20, "{at}");
                break;
            }
            at += 3;
        }
    }
}

#[test]
fn only_selected_signals_are_uploaded() {
    let (server, url) = server();
    let source = Source::filled();
    let only = |pattern: &str| CopyOptions {
        signals: vec![Pattern::new(pattern).unwrap()],
        ..CopyOptions::default()
    };
    push(&source.path(), &url, &only("n/*")).unwrap();
    let keys = |shown: BTreeMap<String, String>| shown.into_keys().collect::<Vec<_>>();
    assert_eq!(keys(shown(&url)), ["", "n/long", "n/short"]);
    assert!(
        !names(&server, &url)
            .iter()
            .any(|name| name.starts_with("m/"))
    );
    // Others keep their earlier state, even if the source removed them.
    source.append("n/long", 10, 1);
    source.store.remove("n/short").unwrap();
    source.store.commit(true).unwrap();
    let before = shown(&url);
    push(&source.path(), &url, &only("m/sealed")).unwrap();
    let after = shown(&url);
    assert_eq!(keys(after.clone()), ["", "m/sealed", "n/long", "n/short"]);
    assert_eq!(after["n/long"], before["n/long"]);
    push(&source.path(), &url, &CopyOptions::default()).unwrap();
    assert_eq!(shown(&url), shown(source.path()));
    let error = push(&source.path(), &url, &only("q*")).unwrap_err();
    assert_eq!(error.code(), "no_matching_signals");
    let message = error.to_string();
    assert!(message.contains("none of the 2 signals"), "{message}");
}

#[test]
fn a_second_push_that_began_meanwhile_ends_the_first() {
    let (server, url) = server();
    let source = Source::filled();
    let mut calls = 0;
    let error = copy_store(source.path(), &url, &CopyOptions::default(), &mut |_| {
        calls += 1;
        if calls == 2 {
            push(&source.path(), &url, &CopyOptions::default()).unwrap();
        }
    })
    .unwrap_err();
    assert_eq!(error.code(), "other_push");
    assert_eq!(shown(&url), shown(source.path()), "the second one is whole");
    is_sound(&url);
    drop(server);
}

#[test]
fn a_target_that_is_no_copy_is_unchanged() {
    let (server, url) = server();
    let (source, other) = (Source::filled(), Source::filled());
    push(&source.path(), &url, &CopyOptions::default()).unwrap();
    let before = server.changes().len();
    let error = push(&other.path(), &url, &CopyOptions::default()).unwrap_err();
    assert_eq!(error.code(), "not_a_backup");
    assert!(error.to_string().contains("of another store"), "{error}");
    let (strange, url) = self::server();
    strange.put(
        &format!("{}/notes.txt", url.strip_prefix("s3://").unwrap()),
        b"mine".to_vec(),
    );
    let error = push(&other.path(), &url, &CopyOptions::default()).unwrap_err();
    assert!(error.to_string().contains("holds other files"), "{error}");
    assert_eq!(server.changes().len(), before);
    assert_eq!(strange.changes().len(), 0);
}

#[test]
fn an_interrupted_push_of_appends_leaves_the_copy_readable() {
    let mut at = 0;
    loop {
        let (server, url) = server();
        let source = Source::filled();
        // Long enough for its tables to be files.
        for round in 0..400 {
            source.append("n/long", 100, round);
            source
                .store
                .writer("n/long")
                .unwrap()
                .append_gap(7)
                .unwrap();
        }
        source.store.commit(true).unwrap();
        push(&source.path(), &url, &CopyOptions::default()).unwrap();
        let before = shown(&url);
        for round in 0..50 {
            source.append("n/long", 3000, round);
            source.append("n/short", 20, round);
            source
                .store
                .writer("n/long")
                .unwrap()
                .append_gap(9)
                .unwrap();
            source.store.commit(round % 9 == 0).unwrap();
        }
        server.refuse_after(at);
        let is_done = push(&source.path(), &url, &CopyOptions::default()).is_ok();
        server.refuse_after(u64::MAX);
        let now = shown(&url);
        assert!(now == before || now == shown(source.path()), "{at}");
        push(&source.path(), &url, &CopyOptions::default()).unwrap();
        assert_eq!(shown(&url), shown(source.path()), "{at}");
        is_sound(&url);
        if is_done {
            assert!(at > 8, "{at}");
            break;
        }
        at += 1;
    }
}

#[test]
fn damage_of_the_source_does_not_affect_the_copy() {
    use std::os::unix::fs::FileExt;

    let (_server, url) = server();
    let source = Source::filled();
    push(&source.path(), &url, &CopyOptions::default()).unwrap();
    let before = shown(&url);
    source.store.close().unwrap();
    for (shard, at) in [
        ("n/long/data/c/0", 4096 + 2 * 329_000),
        ("n/long/data/c/0", 4096 + 100_000),
    ] {
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(source.path().join(shard));
        file.unwrap().write_all_at(&[0xAA; 8], at).unwrap();
    }
    let report = copy_store(source.path(), &url, &CopyOptions::default(), &mut |_| ()).unwrap();
    assert_eq!(report.failed.len(), 1, "{report:?}");
    assert_eq!(report.failed[0].0, "n/long");
    assert_eq!(shown(&url), before);
    is_sound(&url);
}

#[test]
fn an_interrupted_push_is_finished_with_the_same_selection_or_with_none() {
    let (server, url) = server();
    let source = Source::filled();
    server.refuse_after(6);
    assert!(push(&source.path(), &url, &CopyOptions::default()).is_err());
    server.refuse_after(u64::MAX);
    let only = |pattern: &str| CopyOptions {
        signals: vec![Pattern::new(pattern).unwrap()],
        ..CopyOptions::default()
    };
    let error = push(&source.path(), &url, &only("n/*")).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("finish it with the same selection or with none"),
        "{error}"
    );
    push(&source.path(), &url, &CopyOptions::default()).unwrap();
    let (server, url) = self::server();
    server.refuse_after(6);
    assert!(push(&source.path(), &url, &only("n/*")).is_err());
    server.refuse_after(u64::MAX);
    assert!(push(&source.path(), &url, &only("m/*")).is_err());
    push(&source.path(), &url, &only("n/*")).unwrap();
    push(&source.path(), &url, &only("m/*")).unwrap();
    assert_eq!(shown(&url), shown(source.path()));
}

#[test]
fn foreign_objects_stay_and_stores_are_not_nested() {
    let (server, url) = server();
    let source = Source::filled();
    push(&source.path(), &url, &CopyOptions::default()).unwrap();
    let root = url.strip_prefix("s3://").unwrap();
    for name in ["notes.txt", "stn/readme/a", "n/other/zarr.txt"] {
        server.put(&format!("{root}/{name}"), b"mine".to_vec());
    }
    source.append("n/long", 10, 1);
    source.store.commit(true).unwrap();
    push(&source.path(), &url, &CopyOptions::default()).unwrap();
    let left = names(&server, &url);
    for name in ["notes.txt", "stn/readme/a", "n/other/zarr.txt"] {
        assert!(left.contains(name), "{name}");
    }
    let inner = format!("{url}/inner.iso");
    let outer = "s3://bucket".to_owned();
    let mut servers = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
    servers.insert(inner.clone(), server.clone());
    servers.insert(outer.clone(), server.clone());
    drop(servers);
    for (place, says) in [(inner, "around it"), (outer, "below it")] {
        let error = push(&source.path(), &place, &CopyOptions::default()).unwrap_err();
        assert_eq!(error.code(), "nested_store");
        assert!(error.to_string().contains(says), "{error}");
    }
    assert_eq!(names(&server, &url), left);
}

#[test]
fn a_sealed_signal_of_which_samples_became_invalid_is_replaced() {
    let (server, url) = server();
    let source = Source::new();
    source.append("a", 59_506, 0);
    source.store.writer("a").unwrap().append_gap(6030).unwrap();
    source.store.commit(true).unwrap();
    source.store.seal("a", Codec::default()).unwrap();
    let options = CopyOptions {
        commit_bytes: 20_000,
        ..CopyOptions::default()
    };
    push(&source.path(), &url, &options).unwrap();
    let first = server.changes().len();
    source
        .store
        .writer("a")
        .unwrap()
        .mark_invalid(0..50)
        .unwrap();
    source.store.commit(true).unwrap();
    let report = copy_store(source.path(), &url, &options, &mut |_| ()).unwrap();
    assert_eq!(
        shown(&url),
        shown(source.path()),
        "{report:?} {:#?}",
        &server.changes()[first..]
    );
}
