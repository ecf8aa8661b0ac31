//! Folders with links in them.

use std::io::Read;
use std::os::unix::fs::symlink;

use super::*;

fn tree() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("inner")).unwrap();
    std::fs::write(root.path().join("inner/file"), b"plain").unwrap();
    symlink("inner", root.path().join("link")).unwrap();
    symlink("inner/file", root.path().join("file-link")).unwrap();
    root
}

#[test]
fn entries_are_reached_by_name_and_links_are_not_followed() {
    let root = tree();
    let folder = Folder::open(root.path()).unwrap();
    let inner = folder.open_entry("inner".as_ref(), OpenPurpose::Traversal);
    let inner = inner.unwrap().into_folder();
    let file = inner
        .open_entry("file".as_ref(), OpenPurpose::Reading)
        .unwrap();
    let mut text = String::new();
    file.into_file().read_to_string(&mut text).unwrap();
    assert_eq!(text, "plain");
    for (name, purpose) in [
        ("link", OpenPurpose::Traversal),
        ("file-link", OpenPurpose::Reading),
    ] {
        let error = folder.open_entry(name.as_ref(), purpose).unwrap_err();
        assert!(is_wrong_kind(&error), "{name}: {error}");
        assert_eq!(folder.entry(name.as_ref()).unwrap().kind, EntryKind::Link);
    }
    let missing = folder.open_entry("none".as_ref(), OpenPurpose::Reading);
    let error = missing.unwrap_err();
    assert!(!is_wrong_kind(&error), "{error}");
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_path_in_one_call_follows_no_link_either() {
    let root = tree();
    let folder = Folder::open(root.path()).unwrap();
    // Some systems cannot.
    let file = folder.open_below("inner/file".as_ref(), OpenPurpose::Reading);
    if file.unwrap().is_none() {
        return;
    }
    for path in ["link/file", "file-link", "../other"] {
        (folder.open_below(path.as_ref(), OpenPurpose::Reading)).unwrap_err();
    }
}

#[test]
fn changes_of_names_reach_only_the_entry() {
    let root = tree();
    let folder = Folder::open(root.path()).unwrap();
    folder.make_folder("new".as_ref()).unwrap();
    let error = folder.make_folder("new".as_ref()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    let new = folder.open_entry("new".as_ref(), OpenPurpose::Traversal);
    let new = new.unwrap().into_folder();
    folder
        .rename("link".as_ref(), &new, "moved".as_ref())
        .unwrap();
    assert_eq!(new.entry("moved".as_ref()).unwrap().kind, EntryKind::Link);
    assert!(new.remove_unless_folder("moved".as_ref()).unwrap());
    assert!(new.remove_unless_folder("moved".as_ref()).unwrap());
    assert!(!folder.remove_unless_folder("new".as_ref()).unwrap());
    folder.remove_folder("new".as_ref()).unwrap();
    folder.remove_folder("inner".as_ref()).unwrap_err();
    let listed = || {
        EntryHandle::at(root.path(), OpenPurpose::Listing)
            .unwrap()
            .into_folder()
    };
    let mut names = listed().into_names().unwrap();
    names.sort();
    assert_eq!(names, ["file-link", "inner"]);
    listed().sync().unwrap();
}

#[test]
fn a_file_is_created_once_and_described() {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::open(root.path()).unwrap();
    let create = |purpose| folder.open_entry("new".as_ref(), purpose);
    create(OpenPurpose::Writing).unwrap_err();
    let file = create(OpenPurpose::ExclusiveCreation).unwrap().into_file();
    create(OpenPurpose::ExclusiveCreation).unwrap_err();
    create(OpenPurpose::Creation).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[7; 5000], 0).unwrap();
    std::fs::hard_link(root.path().join("new"), root.path().join("other")).unwrap();
    let found = EntryInfo::of(&file).unwrap();
    assert_eq!(
        (found.kind, found.len, found.names),
        (EntryKind::File, 5000, 2)
    );
    let other = folder.entry("other".as_ref()).unwrap();
    assert_eq!(
        (other.kind, other.len, other.names),
        (EntryKind::File, 5000, 2)
    );
    let at_path = EntryInfo::at(root.path()).unwrap();
    assert_eq!(
        (at_path.kind, at_path.device),
        (EntryKind::Folder, found.device)
    );
}
