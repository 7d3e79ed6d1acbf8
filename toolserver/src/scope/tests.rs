//! The scope against links, races, special files and what models write; both ways of resolving are held to the same.

#![expect(
    clippy::disallowed_methods,
    reason = "tests build the world around the scope by other means than the scope"
)]

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::Read,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use rustix::fs::{CWD, FileType, Mode, RenameFlags};
use tempfile::TempDir;

use super::{resolve::Engine, *};

const CANARY: &str = "CANARY-outside";
const REPLACE: WriteOptions = WriteOptions {
    mode: WriteMode::CreateOrReplace,
    parents: Parents::Create,
};

/// A root `allowed` with a few files, and a neighbour `allowed_evil` with a canary.
struct World {
    base: TempDir,
}

impl World {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        let world = Self { base };
        fs::create_dir_all(world.at("allowed/sub")).unwrap();
        fs::create_dir_all(world.at("allowed_evil/canary")).unwrap();
        fs::write(world.at("allowed/a.txt"), "hello").unwrap();
        fs::write(world.at("allowed/sub/b.txt"), "below").unwrap();
        fs::write(world.at("allowed_evil/s.txt"), CANARY).unwrap();
        world
    }

    fn at(&self, path: &str) -> PathBuf {
        self.base.path().join(path)
    }

    fn text(&self, path: &str) -> String {
        self.at(path).to_str().unwrap().to_owned()
    }

    fn root(&self) -> Vec<(PathBuf, Access)> {
        vec![(self.at("allowed"), Access::ReadWrite)]
    }

    /// The scope, once with the kernel resolving and once without.
    fn scopes(&self) -> [ScopedFs; 2] {
        let kernel = ScopedFs::new(self.root()).unwrap();
        let mut walk = ScopedFs::new(self.root()).unwrap();
        walk.resolver.engine = Engine::Walk;
        [kernel, walk]
    }

    /// Nothing outside was changed or created.
    fn assert_outside_untouched(&self) {
        assert_eq!(
            fs::read_to_string(self.at("allowed_evil/s.txt")).unwrap(),
            CANARY
        );
        let mut names: Vec<_> = fs::read_dir(self.at("allowed_evil"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["canary", "s.txt"]);
        assert_eq!(
            fs::read_dir(self.at("allowed_evil/canary"))
                .unwrap()
                .count(),
            0
        );
    }
}

fn read(scope: &ScopedFs, path: &str) -> Result<String, ScopeError> {
    let bytes = scope.read(path, 1 << 20)?.bytes;
    Ok(String::from_utf8(bytes).unwrap())
}

#[test]
fn fs01_fs02_neighbours_and_parents_are_outside() {
    let world = World::new();
    let base = world.text("");
    for scope in world.scopes() {
        for path in [
            format!("{base}allowed_evil/s.txt"),
            format!("{base}allowed/../allowed_evil/s.txt"),
            "a/../../allowed_evil/s.txt".into(),
            "sub/../../allowed_evil/s.txt".into(),
            format!("/{base}/allowed/./../allowed_evil/s.txt"),
            "/etc/passwd".into(),
            "/".into(),
            "..".into(),
        ] {
            let error = read(&scope, &path).unwrap_err();
            let refused = matches!(error, ScopeError::OutOfScope { .. }) || path.starts_with("a/");
            assert!(refused, "{path}: {error:?}");
            assert!(!error.to_string().contains(CANARY));
            assert!(scope.write_atomic(&path, b"x", REPLACE).is_err(), "{path}");
            assert!(scope.directory(&path).is_err(), "{path}");
        }
    }
    world.assert_outside_untouched();
}

#[test]
fn fs03_paths_that_stay_inside_work() {
    let world = World::new();
    symlink(world.at("allowed"), world.at("link_to_root")).unwrap();
    for root in ["allowed", "allowed/", "allowed/.", "link_to_root"] {
        let root = world.at(root);
        for engine in [Engine::Kernel, Engine::Walk] {
            let mut scope = ScopedFs::new([(root.clone(), Access::ReadWrite)]).unwrap();
            scope.resolver.engine = engine;
            for path in [
                "a.txt".into(),
                "./a.txt".into(),
                "sub/../a.txt".into(),
                "../allowed/a.txt".into(),
                root.join("a.txt").to_str().unwrap().to_owned(),
                world.text("allowed/a.txt"),
                world.text("allowed/../allowed//a.txt"),
                world.text("elsewhere/../allowed/a.txt"),
            ] {
                assert_eq!(read(&scope, &path).unwrap(), "hello", "{path} {engine:?}");
            }
            assert!(matches!(
                read(&scope, "a.txt/"),
                Err(ScopeError::NotADirectory { .. })
            ));
            assert!(matches!(
                read(&scope, "a.txt/x"),
                Err(ScopeError::NotADirectory { .. })
            ));
            assert!(matches!(
                read(&scope, "sub"),
                Err(ScopeError::IsDirectory { .. })
            ));
            assert!(matches!(
                read(&scope, "none"),
                Err(ScopeError::NotFound { .. })
            ));
        }
    }
}

#[test]
fn fs04_fs05_links_out_are_refused_and_links_inside_work() {
    let world = World::new();
    let links = [
        ("out", world.text("allowed_evil/s.txt")),
        ("out_relative", "../allowed_evil/s.txt".into()),
        ("zero", "/dev/zero".into()),
        ("magic", "/proc/self/root/etc/passwd".into()),
        ("directory", world.text("allowed_evil")),
        ("chain1", "chain2".into()),
        ("chain2", "chain3".into()),
        ("chain3", "../allowed_evil".into()),
    ];
    for (name, target) in links {
        symlink(target, world.at("allowed").join(name)).unwrap();
    }
    symlink("sub/b.txt", world.at("allowed/in")).unwrap();
    symlink(world.at("allowed/sub"), world.at("allowed/in_absolute")).unwrap();
    symlink("../../allowed/a.txt", world.at("allowed/sub/over_the_top")).unwrap();
    for scope in world.scopes() {
        for path in [
            "out",
            "out_relative",
            "zero",
            "magic",
            "directory/s.txt",
            "chain1/s.txt",
        ] {
            let error = read(&scope, path).unwrap_err();
            assert!(
                matches!(error, ScopeError::OutOfScope { .. }),
                "{path}: {error:?}"
            );
            let text = error.to_string();
            assert!(!text.contains("evil") && !text.contains("passwd"), "{text}");
        }
        assert_eq!(read(&scope, "in").unwrap(), "below");
        assert_eq!(read(&scope, "in_absolute/b.txt").unwrap(), "below");
        assert_eq!(read(&scope, "sub/over_the_top").unwrap(), "hello");
        let directory = scope.directory(".").unwrap();
        let target = scope.link_target(&directory, ".", OsStr::new("out"));
        assert_eq!(target, LinkTarget::Refused);
        let target = scope.link_target(&directory, ".", OsStr::new("in"));
        assert!(matches!(target, LinkTarget::Inside { metadata, .. } if metadata.size == 5));
    }
}

#[test]
fn fs06_loops_end() {
    let world = World::new();
    symlink("loop", world.at("allowed/loop")).unwrap();
    for depth in 0..45 {
        let target = if depth == 44 {
            "a.txt".into()
        } else {
            format!("deep{}", depth + 1)
        };
        symlink(target, world.at("allowed").join(format!("deep{depth}"))).unwrap();
    }
    for scope in world.scopes() {
        let start = Instant::now();
        assert!(matches!(
            read(&scope, "loop"),
            Err(ScopeError::InvalidPath { .. })
        ));
        assert!(matches!(
            read(&scope, "deep0"),
            Err(ScopeError::InvalidPath { .. })
        ));
        assert_eq!(read(&scope, "deep20").unwrap(), "hello");
        assert!(start.elapsed() < Duration::from_millis(50));
    }
}

#[test]
fn fs07_fs08_a_swapping_neighbour_never_gets_us_out() {
    let world = World::new();
    fs::write(world.at("allowed/sub/s.txt"), "inside").unwrap();
    symlink(world.at("allowed_evil"), world.at("allowed/swap")).unwrap();
    let stop = AtomicBool::new(false);
    let outcomes = std::thread::scope(|threads| {
        threads.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let (one, two) = (world.at("allowed/sub"), world.at("allowed/swap"));
                rustix::fs::renameat_with(CWD, one, CWD, two, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let workers = world
            .scopes()
            .map(|scope| threads.spawn(move || hammer(&scope)));
        let outcomes = workers.map(|worker| worker.join());
        stop.store(true, Ordering::Relaxed);
        outcomes.map(|outcome| outcome.unwrap())
    });
    for (good, refused) in outcomes {
        assert!(
            good > 0 && refused > 0,
            "the race was not a race: {good} {refused}"
        );
    }
    world.assert_outside_untouched();
}

/// Reads, lists and writes through a name that is a directory inside or a link outside, changing all the time.
fn hammer(scope: &ScopedFs) -> (u32, u32) {
    let (mut good, mut refused) = (0, 0);
    for round in 0..3000 {
        match read(scope, "sub/s.txt") {
            Ok(text) => {
                assert_eq!(text, "inside");
                good += 1;
            }
            Err(_) => refused += 1,
        }
        if let Ok(directory) = scope.directory("sub") {
            for entry in directory.entries().unwrap() {
                assert_ne!(entry.unwrap().name, "canary", "listed the outside");
            }
        }
        let top = scope.directory(".").unwrap();
        if let Ok(directory) = top.open_directory(OsStr::new("sub")) {
            assert!(directory.open_directory(OsStr::new("canary")).is_err());
        }
        if round % 100 == 0 {
            let _either_way = scope.write_atomic("sub/made/new.txt", b"x", REPLACE);
            let _either_way = scope.write_atomic("sub/new.txt", b"x", REPLACE);
        }
        scope
            .write_atomic(
                "sub/canary/x",
                b"",
                WriteOptions {
                    mode: WriteMode::CreateNew,
                    parents: Parents::MustExist,
                },
            )
            .ok();
    }
    (good, refused)
}

#[test]
fn fs09_fs10_writing_through_links_out_creates_nothing() {
    let world = World::new();
    symlink("../allowed_evil/new", world.at("allowed/dangling")).unwrap();
    symlink("../allowed_evil", world.at("allowed/link_dir")).unwrap();
    symlink("../allowed_evil/missing", world.at("allowed/missing_dir")).unwrap();
    for scope in world.scopes() {
        for path in [
            "dangling",
            "link_dir/a/b/new",
            "link_dir/s.txt",
            "missing_dir/x",
        ] {
            assert!(scope.write_atomic(path, b"x", REPLACE).is_err(), "{path}");
        }
    }
    world.assert_outside_untouched();
}

#[test]
fn fs09_links_inside_are_written_through() {
    let world = World::new();
    symlink("sub/b.txt", world.at("allowed/in")).unwrap();
    symlink("sub/new.txt", world.at("allowed/dangling_in")).unwrap();
    for scope in world.scopes() {
        let written = scope.write_atomic("in", b"changed", REPLACE).unwrap();
        assert!(matches!(written, Written::Replaced { .. }));
        scope.write_atomic("dangling_in", b"new", REPLACE).unwrap();
        assert!(
            fs::symlink_metadata(world.at("allowed/in"))
                .unwrap()
                .is_symlink()
        );
        assert_eq!(read(&scope, "sub/b.txt").unwrap(), "changed");
        assert_eq!(read(&scope, "sub/new.txt").unwrap(), "new");
        assert_eq!(
            scope.key("in").unwrap(),
            scope.key("./sub/../sub/b.txt").unwrap()
        );
    }
}

#[test]
fn fs11_a_directory_moved_out_is_not_written() {
    let world = World::new();
    let [scope, _] = world.scopes();
    let inside = rustix::fs::open(
        world.at("allowed/sub"),
        rustix::fs::OFlags::PATH,
        Mode::empty(),
    );
    fs::rename(world.at("allowed/sub"), world.at("moved")).unwrap();
    assert_eq!(
        scope.resolver.roots.governing(inside.unwrap()).unwrap(),
        None
    );
}

#[test]
fn fs12_other_names_of_a_file_keep_the_old_content() {
    let world = World::new();
    fs::hard_link(world.at("allowed_evil/s.txt"), world.at("allowed/hard")).unwrap();
    let [scope, _] = world.scopes();
    scope.write_atomic("hard", b"mine", REPLACE).unwrap();
    assert_eq!(read(&scope, "hard").unwrap(), "mine");
    world.assert_outside_untouched();
}

#[test]
fn fs13_the_special_files_of_a_root_as_wide_as_everything_are_refused() {
    let root = || [(PathBuf::from("/"), Access::ReadWrite)];
    let mut walk = ScopedFs::new(root()).unwrap();
    walk.resolver.engine = Engine::Walk;
    for scope in [ScopedFs::new(root()).unwrap(), walk] {
        for path in [
            "/proc/self/environ",
            "/proc/self/fd/0",
            "/proc/self/fd",
            "/proc/1/status",
            "/dev/stdin",
            "/dev/fd/0",
            "/dev/tcp/127.0.0.1/80",
            "/dev/zero",
            "/sys/kernel/notes",
        ] {
            let error = scope.read(path, 1 << 20).unwrap_err();
            let refused = matches!(
                error,
                ScopeError::NotRegularFile { .. }
                    | ScopeError::InvalidPath { .. }
                    | ScopeError::NotFound { .. }
                    | ScopeError::NotADirectory { .. }
            );
            assert!(refused, "{path}: {error:?}");
        }
        assert!(matches!(
            scope.directory("/proc"),
            Err(ScopeError::NotRegularFile { .. })
        ));
        let top = scope.directory("/").unwrap();
        assert!(top.open_directory(OsStr::new("proc")).is_err());
    }
    let proc = [(PathBuf::from("/proc"), Access::ReadOnly)];
    assert!(matches!(
        ScopedFs::new(proc),
        Err(ScopeError::NotRegularFile { .. })
    ));
}

#[test]
fn fs14_fs15_pipes_sockets_and_devices_are_refused_at_once() {
    let world = World::new();
    let special = |name: &str, kind, device| {
        rustix::fs::mknodat(
            CWD,
            world.at("allowed").join(name),
            kind,
            Mode::from_raw_mode(0o644),
            device,
        )
    };
    special("fifo", FileType::Fifo, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(world.at("allowed/socket")).unwrap();
    let mut names = vec!["fifo", "socket"];
    if special(
        "device",
        FileType::CharacterDevice,
        rustix::fs::makedev(1, 5),
    )
    .is_ok()
    {
        names.push("device");
    }
    for scope in world.scopes() {
        let start = Instant::now();
        for name in names.iter().cycle().take(100) {
            let error = read(&scope, name).unwrap_err();
            let refused = match &error {
                ScopeError::NotRegularFile { .. } => true,
                // Mounted without devices.
                ScopeError::Io { .. } => *name == "device",
                _ => false,
            };
            assert!(refused, "{name}: {error:?}");
            let error = scope.write_atomic(name, b"x", REPLACE).unwrap_err();
            assert!(
                matches!(error, ScopeError::NotRegularFile { .. }),
                "{name}: {error:?}"
            );
        }
        assert!(start.elapsed() < Duration::from_secs(1));
        let metadata = scope.metadata("fifo").unwrap();
        assert_eq!(metadata.kind, EntryKind::Other);
    }
}

#[test]
fn fs16_huge_files_are_refused_whole_and_read_in_part() {
    let world = World::new();
    let file = File::create(world.at("allowed/sparse")).unwrap();
    file.set_len(5 << 30).unwrap();
    let [scope, _] = world.scopes();
    let error = scope.read("sparse", 64 << 20).unwrap_err();
    assert!(matches!(error, ScopeError::TooLarge { size, .. } if size == 5 << 30));
    let prefix = scope.read_prefix("sparse", 16 << 10).unwrap();
    assert_eq!((prefix.bytes.len(), prefix.total), (16 << 10, 5 << 30));
    let prefix = scope.read_prefix("a.txt", 2).unwrap();
    assert_eq!((prefix.bytes.as_slice(), prefix.total), (&b"he"[..], 5));
    let prefix = scope.read_prefix("a.txt", 5).unwrap();
    assert_eq!(prefix.total, 5);
}

#[test]
fn fs17_a_file_deleted_while_open_is_still_read() {
    let world = World::new();
    let [scope, _] = world.scopes();
    let file = scope.open_file("a.txt").unwrap();
    fs::remove_file(world.at("allowed/a.txt")).unwrap();
    let mut text = String::new();
    file.into_file().read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello");
}

#[test]
fn fs19_fs20_any_name_can_be_listed_and_read_by_its_escape() {
    let world = World::new();
    for name in [
        &b"\xff.txt"[..],
        b"a\nb",
        b"C:\\",
        b"%2e%2e",
        b"~",
        b"x. ",
        b"\\xFF",
    ] {
        fs::write(
            world.at("allowed/sub").join(OsStr::from_bytes(name)),
            "named",
        )
        .unwrap();
    }
    for scope in world.scopes() {
        let directory = scope.directory("sub").unwrap();
        for entry in directory.entries().unwrap() {
            let entry = entry.unwrap();
            let shown = escape_name(&entry.name);
            assert!(!shown.contains('\n'));
            read(&scope, &format!("sub/{shown}")).unwrap();
            directory.open_file(&entry.name).unwrap();
        }
        assert!(matches!(
            read(&scope, "a\0b"),
            Err(ScopeError::InvalidPath { .. })
        ));
        for name in ["..", ".", "", "a/b"] {
            assert!(directory.open_file(OsStr::new(name)).is_err(), "{name}");
            assert!(
                directory.open_directory(OsStr::new(name)).is_err(),
                "{name}"
            );
        }
    }
}

#[test]
fn fs21_long_paths_end_at_once() {
    let world = World::new();
    let [kernel, walk] = world.scopes();
    let long = "n".repeat(255);
    kernel.write_atomic(&long, b"x", REPLACE).unwrap();
    assert_eq!(read(&walk, &long).unwrap(), "x");
    for scope in [kernel, walk] {
        let start = Instant::now();
        assert!(matches!(
            read(&scope, &"n".repeat(256)),
            Err(ScopeError::InvalidPath { .. })
        ));
        assert_eq!(
            read(&scope, &format!("{}a.txt", "./".repeat(2045))).unwrap(),
            "hello"
        );
        assert!(matches!(
            read(&scope, &format!("{}a.txt", "./".repeat(2046))),
            Err(ScopeError::InvalidPath { .. })
        ));
        assert!(read(&scope, &"d/".repeat(2000)).is_err());
        assert!(start.elapsed() < Duration::from_millis(50));
    }
}

#[test]
fn fs24_a_stale_stamp_is_a_conflict() {
    let world = World::new();
    let [scope, _] = world.scopes();
    let stamp = scope.open_file("a.txt").unwrap().stamp();
    let options = WriteOptions {
        mode: WriteMode::IfUnchanged(stamp),
        parents: Parents::MustExist,
    };
    fs::write(world.at("allowed/a.txt"), "by somebody else").unwrap();
    let error = scope.write_atomic("a.txt", b"mine", options).unwrap_err();
    assert!(matches!(error, ScopeError::Changed { .. }));
    assert_eq!(read(&scope, "a.txt").unwrap(), "by somebody else");
    let new = WriteOptions {
        mode: WriteMode::CreateNew,
        ..options
    };
    assert!(matches!(
        scope.write_atomic("a.txt", b"", new),
        Err(ScopeError::Exists { .. })
    ));
    assert_eq!(
        scope.write_atomic("new.txt", b"", new).unwrap(),
        Written::Created
    );
}

#[test]
fn fs25_a_replaced_file_keeps_its_mode_and_attributes_and_leaves_nothing_beside_it() {
    let world = World::new();
    let [scope, _] = world.scopes();
    let path = world.at("allowed/a.txt");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
    let attributes =
        rustix::fs::setxattr(&path, "user.mark", b"kept", rustix::fs::XattrFlags::empty()).is_ok();
    let old = fs::metadata(&path).unwrap().ino();
    scope.write_atomic("a.txt", b"new", REPLACE).unwrap();
    let metadata = fs::metadata(&path).unwrap();
    assert_ne!(metadata.ino(), old);
    assert_eq!(metadata.mode() & 0o7777, 0o751);
    if attributes {
        let mut value = [0; 16];
        let length = rustix::fs::getxattr(&path, "user.mark", &mut value[..]).unwrap();
        assert_eq!(&value[..length], b"kept");
    }
    scope.write_atomic("x/y/z.txt", b"deep", REPLACE).unwrap();
    let mode = fs::metadata(world.at("allowed/x/y/z.txt")).unwrap().mode();
    assert_eq!(mode & 0o7133, 0, "{mode:o}");
    assert!(scope.write_atomic("sub", b"x", REPLACE).is_err());
    assert!(scope.write_atomic("x/y/z.txt/w", b"x", REPLACE).is_err());
    assert_eq!(leftovers(&world.at("allowed")), 0);
}

fn leftovers(directory: &Path) -> usize {
    fs::read_dir(directory)
        .unwrap()
        .filter(|entry| {
            entry
                .as_ref()
                .unwrap()
                .file_name()
                .as_bytes()
                .ends_with(b".tmp")
        })
        .count()
}

#[test]
fn fs27_a_root_that_is_replaced_or_deleted_is_never_the_new_one() {
    let world = World::new();
    for scope in world.scopes() {
        let world = World::new();
        drop(scope);
        let [kernel, walk] = world.scopes();
        fs::rename(world.at("allowed"), world.at("renamed")).unwrap();
        symlink(world.at("allowed_evil"), world.at("allowed")).unwrap();
        for scope in [&kernel, &walk] {
            assert_eq!(read(scope, "a.txt").unwrap(), "hello");
            assert!(read(scope, &world.text("allowed/s.txt")).is_err());
        }
        kernel.write_atomic("a.txt", b"hello", REPLACE).unwrap();
        world.assert_outside_untouched();
        fs::remove_dir_all(world.at("renamed")).unwrap();
        for scope in [&kernel, &walk] {
            assert!(matches!(
                read(scope, "a.txt"),
                Err(ScopeError::NotFound { .. })
            ));
            assert!(scope.write_atomic("new.txt", b"x", REPLACE).is_err());
        }
    }
}

#[test]
fn fs28_the_deepest_root_decides() {
    let world = World::new();
    symlink("sub/b.txt", world.at("allowed/link")).unwrap();
    fs::create_dir(world.at("allowed/sub/inner")).unwrap();
    let roots = [
        (world.at("allowed"), Access::ReadWrite),
        (world.at("allowed/sub"), Access::ReadOnly),
        (world.at("allowed/sub/inner"), Access::ReadWrite),
        (world.at("allowed/sub/inner/."), Access::ReadWrite),
    ];
    let scope = ScopedFs::new(roots).unwrap();
    for path in [
        "sub/b.txt",
        "link",
        "sub/new/x",
        "inner/../sub/b.txt",
        &world.text("allowed/sub/b.txt"),
    ] {
        let error = scope.write_atomic(path, b"x", REPLACE).unwrap_err();
        let kept = matches!(
            error,
            ScopeError::ReadOnly { .. } | ScopeError::NotFound { .. }
        );
        assert!(kept, "{path}: {error:?}");
    }
    assert_eq!(read(&scope, "link").unwrap(), "below");
    scope.write_atomic("a.txt", b"x", REPLACE).unwrap();
    scope.write_atomic("sub/inner/new", b"x", REPLACE).unwrap();
    assert!(!world.at("allowed/sub/new").exists());
    assert_eq!(scope.roots().to_string().lines().count(), 3);
    assert!(scope.roots().to_string().contains("sub (read-only)"));
}

#[test]
fn a_path_may_cross_from_one_root_into_another() {
    let world = World::new();
    fs::create_dir(world.at("second")).unwrap();
    fs::write(world.at("second/c.txt"), "second").unwrap();
    symlink("../second/c.txt", world.at("allowed/across")).unwrap();
    let mut roots = world.root();
    roots.push((world.at("second"), Access::ReadWrite));
    let scope = ScopedFs::new(roots).unwrap();
    for path in ["across", "../second/c.txt", &world.text("second/c.txt")] {
        assert_eq!(read(&scope, path).unwrap(), "second", "{path}");
    }
    assert!(ScopedFs::new([]).is_err());
    assert!(ScopedFs::new([(world.at("allowed/a.txt"), Access::ReadOnly)]).is_err());
}
