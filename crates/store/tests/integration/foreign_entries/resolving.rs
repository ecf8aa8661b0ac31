//! All ways of resolving a path refuse the same entries.

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use isochrony_store::media::rooted_paths::{Resolver, RootedPaths};
use isochrony_store::media::{Access, Kind, Media, Refusal, RootedDisk, sim::SimMedia};

use super::make_pipe;

#[test]
fn both_ways_to_resolve_a_path_refuse_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
    fs::create_dir_all(root.join("folder/inner")).unwrap();
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("file"), b"secret").unwrap();
    fs::write(root.join("folder/file"), b"plain").unwrap();
    symlink(&outside, root.join("away")).unwrap();
    symlink("folder", root.join("near")).unwrap();
    symlink(outside.join("file"), root.join("folder/linked")).unwrap();
    symlink(outside.join("nothing"), root.join("dangling")).unwrap();
    make_pipe(&root.join("pipe"));
    let _listener = UnixListener::bind(root.join("socket")).unwrap();
    assert!(
        fs::symlink_metadata(root.join("socket"))
            .unwrap()
            .file_type()
            .is_socket()
    );
    let refused = [
        ("away", "a symbolic link", "away"),
        ("away/file", "a symbolic link", "away"),
        ("near/file", "a symbolic link", "near"),
        ("folder/linked", "a symbolic link", "folder/linked"),
        ("dangling", "a symbolic link", "dangling"),
        ("pipe", "a pipe", "pipe"),
        ("pipe/file", "a pipe", "pipe"),
        ("socket", "a socket", "socket"),
        ("folder", "a folder where a file should be", "folder"),
    ];
    for resolver in [Resolver::Kernel, Resolver::Walk] {
        let rooted_paths = RootedPaths::new(&root, resolver);
        let media = RootedDisk::new(&root, resolver);
        for (path, found, at) in refused {
            for access in [Access::Read, Access::Write, Access::Create] {
                let error = rooted_paths.open(&root.join(path), access).unwrap_err();
                let expected = Refusal::Kind {
                    path: root.join(at),
                    found,
                };
                assert_eq!(
                    Refusal::of(&error),
                    Some(&expected),
                    "{path} {resolver:?}: {error}"
                );
            }
        }
        for path in ["../outside/file", "folder/../../outside/file"] {
            let error = media.open(&root.join(path), Access::Read).unwrap_err();
            assert!(
                matches!(Refusal::of(&error), Some(Refusal::Outside { .. })),
                "{error}"
            );
        }
        let error = media.open(&outside.join("file"), Access::Read).unwrap_err();
        assert!(
            matches!(Refusal::of(&error), Some(Refusal::Outside { .. })),
            "{error}"
        );
        for path in ["away/new", "near/new"] {
            assert!(media.open(&root.join(path), Access::CreateNew).is_err());
            assert!(media.make_folder(&root.join(path)).is_err());
            assert!(
                media
                    .rename(&root.join("folder/file"), &root.join(path))
                    .is_err()
            );
            assert!(media.remove_file(&root.join("away/file")).is_err());
            assert!(media.list(&root.join("away")).is_err());
        }
        // A file instead of a folder within the path: nothing is there.
        assert_eq!(media.stat(&root.join("folder/file/x")).unwrap(), None);
        assert_eq!(media.stat(&root.join("none/x")).unwrap(), None);
        assert_eq!(
            media.stat(&root.join("folder/file")).unwrap(),
            Some(Kind::File(5))
        );
        assert_eq!(media.stat(&root).unwrap(), Some(Kind::Folder));
        let mut names = media.list(&root.join("folder")).unwrap();
        names.sort();
        assert_eq!(names, ["file", "inner", "linked"]);
        assert_eq!(
            media.read(&root.join("folder/file"), 5).unwrap().unwrap(),
            b"plain"
        );
        let long = media.read(&root.join("folder/file"), 4).unwrap_err();
        assert!(matches!(
            Refusal::of(&long),
            Some(Refusal::TooLong {
                len: 5,
                limit: 4,
                ..
            })
        ));
        assert_eq!(media.read(&root.join("folder/none"), 4).unwrap(), None);
        // In the right folder, with the usual permissions.
        let made = root.join("folder/made");
        media
            .open(&made, Access::CreateNew)
            .unwrap()
            .write_at(0, b"x")
            .unwrap();
        assert!(media.make_folder(&root.join("folder/sub")).unwrap());
        assert!(!media.make_folder(&root.join("folder/sub")).unwrap());
        media.rename(&made, &root.join("folder/sub/made")).unwrap();
        symlink(&outside, root.join("folder/sub/link")).unwrap();
        media.remove_all(&root.join("folder/sub")).unwrap();
        assert_eq!(media.stat(&root.join("folder/sub")).unwrap(), None);
        media.remove_all(&root.join("folder/sub")).unwrap();
        assert_eq!(fs::read(outside.join("file")).unwrap(), b"secret");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    }
}

#[test]
fn the_simulation_refuses_links_below_the_root_too() {
    let sim = SimMedia::new(1);
    let media = sim.media();
    for folder in ["/store", "/store/a", "/outside"] {
        media.make_folder(Path::new(folder)).unwrap();
    }
    let secret = Path::new("/outside/file");
    media
        .open(secret, Access::Create)
        .unwrap()
        .write_at(0, b"secret")
        .unwrap();
    sim.link(Path::new("/store/a/away"), Path::new("/outside"))
        .unwrap();
    sim.link(Path::new("/link"), Path::new("/store")).unwrap();
    assert!(
        media
            .stat(Path::new("/store/a/away/file"))
            .unwrap()
            .is_some()
    );
    for root in ["/store", "/link"] {
        let root = Path::new(root);
        let rooted = media.rooted(root);
        let error = rooted.stat(&root.join("a/away/file")).unwrap_err();
        let expected = Refusal::Kind {
            path: root.join("a/away"),
            found: "a symbolic link",
        };
        assert_eq!(Refusal::of(&error), Some(&expected));
        assert!(
            rooted
                .open(&root.join("a/away/new"), Access::Create)
                .is_err()
        );
        assert!(rooted.open(secret, Access::Read).is_err());
        assert_eq!(rooted.stat(&root.join("a")).unwrap(), Some(Kind::Folder));
    }
    let root = Path::new("/store");
    media.rooted(root).remove_all(&root.join("a")).unwrap();
    assert!(media.stat(secret).unwrap().is_some());
    assert_eq!(media.stat(&root.join("a")).unwrap(), None);
}
