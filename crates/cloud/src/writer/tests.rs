//! Random calls have equal results on the writer's medium and a disk, and published objects equal files.

use std::collections::BTreeMap;
use std::path::PathBuf;

use futures_util::{FutureExt, StreamExt};
use object_store::memory::InMemory;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt};
use proptest::prelude::*;

use super::*;

const ROOT: &str = "s3://bucket/a.iso";
const PREFIX: &str = "some/a.iso";

fn objects(client: &InMemory) -> BTreeMap<String, Vec<u8>> {
    let metas = client.list(None).map(|meta| meta.unwrap().location);
    let keys: Vec<Key> = metas.collect().now_or_never().unwrap();
    let get = |key: Key| {
        let got = client.get(&key).now_or_never().unwrap().unwrap();
        let bytes = got.bytes().now_or_never().unwrap().unwrap();
        let name = key.as_ref().strip_prefix("some/a.iso/").unwrap();
        (name.to_owned(), bytes.to_vec())
    };
    keys.into_iter().map(get).collect()
}

/// Except those outside a published store.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(root).unwrap().to_str().unwrap();
            if !is_unpublished(name) {
                found.insert(name.to_owned(), std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn remove_empty_folders(root: &Path) {
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            remove_empty_folders(&path);
            let _ = std::fs::remove_dir(path);
        }
    }
}

type Pair = (Arc<dyn MediaFile>, Arc<dyn MediaFile>);

#[derive(Debug, Clone)]
enum Call {
    Open(usize, u8),
    Write(usize, u64, u8, usize),
    SetLen(usize, u64),
    Close(usize),
    MakeFolder(usize),
    Rename(usize, usize),
    RemoveFile(usize),
    RemoveFolder(usize),
    Publish,
    Reopen,
}

const NAMES: [&str; 12] = [
    ".isochrony",
    ".isochrony/MANIFEST",
    ".isochrony/log.1",
    ".isochrony/tmp",
    ".isochrony/tmp/x",
    ".isochrony/tmp/x/0",
    "s",
    "s/data",
    "s/data/0",
    "s/data/1",
    "t",
    "t/data",
];

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let name = || 0..NAMES.len();
    prop::collection::vec(
        prop_oneof![
            6 => (name(), 0..4u8).prop_map(|(name, how)| Call::Open(name, how)),
            6 => (name(), 0..3000u64, any::<u8>(), 0..2000usize)
                .prop_map(|(name, at, byte, len)| Call::Write(name, at, byte, len)),
            2 => (name(), 0..3000u64).prop_map(|(name, len)| Call::SetLen(name, len)),
            2 => name().prop_map(Call::Close),
            4 => name().prop_map(Call::MakeFolder),
            4 => (name(), name()).prop_map(|(from, to)| Call::Rename(from, to)),
            2 => name().prop_map(Call::RemoveFile),
            1 => name().prop_map(Call::RemoveFolder),
            2 => Just(Call::Publish),
            1 => Just(Call::Reopen),
        ],
        1..60,
    )
}

fn access(how: u8) -> Access {
    match how {
        0 => Access::Read,
        1 => Access::Write,
        2 => Access::Create,
        _ => Access::CreateNew,
    }
}

/// Compares errors only by presence, since their kinds depend on the system.
fn same<T, U>(one: &io::Result<T>, other: &io::Result<U>, call: &Call) -> bool {
    assert_eq!(
        one.is_ok(),
        other.is_ok(),
        "{call:?}: {:?} and {:?}",
        one.as_ref().err(),
        other.as_ref().err()
    );
    one.is_ok()
}

proptest! {
    #[test]
    fn calls_equal_those_on_a_disk(calls in calls(), spill_bytes in prop_oneof![Just(0u64), Just(4000), Just(1 << 30)]) {
        let folder = tempfile::tempdir().unwrap();
        let disk_root = folder.path().join("a.iso");
        std::fs::create_dir(&disk_root).unwrap();
        let disk = isochrony_store::media::disk().rooted(&disk_root);
        let client = Arc::new(InMemory::new());
        let media = CloudMedia::on(client.clone(), PREFIX, Path::new(ROOT)).unwrap();
        let mut writer = media.writer_that_stages(spill_bytes).unwrap();
        writer.make_folder(Path::new(ROOT)).unwrap();
        let mut handles: BTreeMap<usize, Pair> = BTreeMap::new();
        let ours = |name: usize| PathBuf::from(ROOT).join(NAMES[name]);
        let theirs = |name: usize| disk_root.join(NAMES[name]);
        for call in calls {
            match call {
                Call::Open(name, how) => {
                    let (one, other) = (writer.open(&ours(name), access(how)), disk.open(&theirs(name), access(how)));
                    if same(&one, &other, &call) {
                        handles.insert(name, (one.unwrap(), other.unwrap()));
                    }
                }
                Call::Write(name, at, byte, len) => {
                    // A disk refuses writes through a read-only handle; the engine makes no such call.
                    let open = (writer.open(&ours(name), Access::Write), disk.open(&theirs(name), Access::Write));
                    if same(&open.0, &open.1, &call) {
                        open.0.unwrap().write_at(at, &vec![byte; len]).unwrap();
                        open.1.unwrap().write_at(at, &vec![byte; len]).unwrap();
                    }
                }
                Call::SetLen(name, len) => {
                    let open = (writer.open(&ours(name), Access::Write), disk.open(&theirs(name), Access::Write));
                    if same(&open.0, &open.1, &call) {
                        open.0.unwrap().set_len(len).unwrap();
                        open.1.unwrap().set_len(len).unwrap();
                    }
                }
                Call::Close(name) => _ = handles.remove(&name),
                Call::MakeFolder(name) => {
                    let (one, other) = (writer.make_folder(&ours(name)), disk.make_folder(&theirs(name)));
                    if same(&one, &other, &call) {
                        prop_assert_eq!(one.unwrap(), other.unwrap());
                    }
                }
                // A disk refuses a folder below itself, and keeps one renamed to itself.
                Call::Rename(from, to) if from == to || NAMES[to].starts_with(NAMES[from]) => {}
                Call::Rename(from, to) => {
                    let one = writer.rename(&ours(from), &ours(to));
                    let other = disk.rename(&theirs(from), &theirs(to));
                    same(&one, &other, &call);
                }
                Call::RemoveFile(name) => {
                    let (one, other) = (writer.remove_file(&ours(name)), disk.remove_file(&theirs(name)));
                    same(&one, &other, &call);
                }
                Call::RemoveFolder(name) => {
                    let (one, other) = (writer.remove_folder(&ours(name)), disk.remove_folder(&theirs(name)));
                    same(&one, &other, &call);
                }
                Call::Publish => {
                    writer.publish(&mut |_| ()).unwrap();
                    let published = objects(&client);
                    let published = published.into_iter().filter(|(name, _)| !is_unpublished(name));
                    prop_assert_eq!(published.collect::<BTreeMap<_, _>>(), files(&disk_root));
                }
                Call::Reopen => {
                    handles.clear();
                    writer.publish(&mut |_| ()).unwrap();
                    // Unpublished files vanish with the writer.
                    disk.remove_all(&disk_root.join(".isochrony/tmp")).unwrap();
                    writer.remove_all(&PathBuf::from(ROOT).join(".isochrony/tmp")).unwrap();
                    writer.publish(&mut |_| ()).unwrap();
                    prop_assert_eq!(objects(&client), files(&disk_root));
                    // Object stores have no empty folders.
                    remove_empty_folders(&disk_root);
                    writer = CloudMedia::on(client.clone(), PREFIX, Path::new(ROOT)).unwrap().writer_that_stages(spill_bytes).unwrap();
                    writer.make_folder(Path::new(ROOT)).unwrap();
                }
            }
            for (name, (one, other)) in &handles {
                let (len, expected) = (one.len().unwrap(), other.len().unwrap());
                prop_assert_eq!(len, expected, "{}", NAMES[*name]);
                let (mut have, mut want) = (vec![0; len as usize], vec![0; len as usize]);
                one.read_at(0, &mut have).unwrap();
                other.read_at(0, &mut want).unwrap();
                prop_assert!(have == want, "{}", NAMES[*name]);
            }
            for (name, text) in NAMES.iter().enumerate() {
                prop_assert_eq!(writer.stat(&ours(name)).unwrap(), disk.stat(&theirs(name)).unwrap(), "{}", text);
                if let Ok(mut expected) = disk.list(&theirs(name)) {
                    expected.sort();
                    prop_assert_eq!(writer.list(&ours(name)).unwrap(), expected);
                }
            }
        }
    }
}

#[test]
fn names_outside_the_store_are_refused_and_its_parents_exist() {
    let client = Arc::new(InMemory::new());
    let media = CloudMedia::on(client, PREFIX, Path::new(ROOT)).unwrap();
    let writer = media.writer().unwrap();
    assert_eq!(
        writer.stat(Path::new("s3://bucket")).unwrap(),
        Some(Kind::Folder)
    );
    assert_eq!(writer.stat(Path::new(ROOT)).unwrap(), None);
    for path in ["s3://bucket/b.iso/x", "s3://bucket/a.iso/../x"] {
        let error = writer.stat(Path::new(path)).unwrap_err();
        assert!(Refusal::of(&error).is_some(), "{error}");
    }
}

#[test]
fn staged_files_are_removed_with_the_writer() {
    let client = Arc::new(InMemory::new());
    let media = CloudMedia::on(client.clone(), PREFIX, Path::new(ROOT)).unwrap();
    let writer = media.writer().unwrap();
    writer.make_folder(Path::new(ROOT)).unwrap();
    let path = PathBuf::from(ROOT).join("x");
    let file = writer.open(&path, Access::Create).unwrap();
    file.write_at(0, &[7; 20 << 20]).unwrap();
    assert_eq!(writer.0.staging.bytes(), 20 << 20);
    writer.publish(&mut |_| ()).unwrap();
    assert_eq!(objects(&client)["x"], vec![7; 20 << 20], "in parts");
    drop(file);
    writer.publish(&mut |_| ()).unwrap();
    assert_eq!(writer.0.staging.bytes(), 0);
    let folder = writer.0.staging.folder().to_owned();
    assert!(folder.is_dir());
    drop(writer);
    assert!(!folder.exists());
}

#[test]
fn shards_are_put_early_where_many_are_staged() {
    const SHARD: usize = 2 << 20;
    let client = Arc::new(InMemory::new());
    let media = CloudMedia::on(client.clone(), PREFIX, Path::new(ROOT)).unwrap();
    let writer = media.writer_that_stages(2 * SHARD as u64).unwrap();
    let root = PathBuf::from(ROOT);
    for folder in ["", "s", "s/data", "s/data/c"] {
        writer.make_folder(&root.join(folder)).unwrap();
    }
    let mut files = Vec::new();
    for number in 0..10u8 {
        let path = root.join(format!("s/data/c/{number}"));
        let file = writer.open(&path, Access::Create).unwrap();
        file.write_at(0, &vec![number; SHARD]).unwrap();
        files.push(file);
        assert!(writer.0.staging.bytes() <= 4 * SHARD as u64, "{number}");
    }
    assert!(objects(&client).len() >= 6);
    for (number, file) in files.iter().enumerate() {
        let mut read = vec![0; SHARD];
        file.read_at(0, &mut read).unwrap();
        assert_eq!(read, vec![number as u8; SHARD]);
        file.write_at(SHARD as u64, b"more").unwrap();
    }
    writer.publish(&mut |_| ()).unwrap();
    let published = objects(&client);
    for number in 0..10u8 {
        let mut expected = vec![number; SHARD];
        expected.extend(b"more");
        assert!(
            published[&format!("s/data/c/{number}")] == expected,
            "{number}"
        );
    }
}
