//! What a directory of blobs must keep, and how it answers damage.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

use serde_json::json;
use tempfile::TempDir;

use super::*;

fn store() -> (TempDir, FsBlobStore) {
    let directory = tempfile::tempdir().unwrap();
    let store = FsBlobStore::open(directory.path().join("a/blobs")).unwrap();
    (directory, store)
}

async fn keep(store: &FsBlobStore, text: &str) -> BlobFacts {
    store
        .store(&Content::Text(text.to_owned()), StoreOptions::default())
        .await
        .unwrap()
}

#[tokio::test]
async fn what_is_stored_loads_again_by_id_and_name() {
    let (_directory, store) = store();
    let contents = [
        Content::Text("日本語\r\nno end".into()),
        Content::Text(String::new()),
        Content::Text("line\n".repeat(50_000)),
        Content::Structured(json!({"b": [1, 2.5, null], "a": "ü", "z": {"k": true}})),
        Content::Structured(json!([])),
    ];
    for content in contents {
        let options = StoreOptions {
            tool: Some("shell".into()),
        };
        let facts = store.store(&content, options).await.unwrap();
        // A second handle stands for another process, or the same one after a restart.
        let again = FsBlobStore::open(store.path()).unwrap();
        assert_eq!(again.load(facts.id).await.unwrap(), content);
        assert_eq!(
            again
                .resolve(&BlobHandle::Name(facts.name.clone()))
                .await
                .unwrap(),
            facts
        );
        assert_eq!(again.facts(facts.id).await.unwrap(), facts);
        assert!(again.exists(facts.id).await.unwrap());
        assert_eq!(facts.bytes, content.into_text().len() as u64);
    }
    assert_eq!(store.list().await.unwrap().len(), 5);
}

#[tokio::test]
async fn ranges_are_exact_across_pieces() {
    let (_directory, store) = store();
    let text: String = (0..40_000).map(|n| format!("{n} é\n")).collect();
    let facts = keep(&store, &text).await;
    let length = text.len() as u64;
    for range in [
        0..1,
        65_535..65_537,
        100_000..262_144,
        length - 3..length,
        5..5,
        length..length + 9,
        0..u64::MAX,
    ] {
        let begin = usize::try_from(range.start.min(length)).unwrap();
        let end = usize::try_from(range.end.min(length)).unwrap();
        let got = store.load_range(facts.id, range.clone()).await.unwrap();
        assert_eq!(got, text.as_bytes()[begin..end], "{range:?}");
    }
}

#[tokio::test]
async fn bl02_unknown_blobs_are_a_typed_error() {
    let (_directory, store) = store();
    let id: BlobId = "019aa5d2-7c00-7abc-8def-0123456789ab".parse().unwrap();
    assert!(matches!(
        store.load(id).await,
        Err(BlobError::Unknown { .. })
    ));
    assert!(matches!(
        store.find(&"k7qm".parse().unwrap()).await,
        Err(BlobError::Unknown { .. })
    ));
    assert!(!store.exists(id).await.unwrap());
}

#[tokio::test]
async fn bl03_strays_change_nothing() {
    let (_directory, store) = store();
    let facts = keep(&store, "the text").await;
    for stray in [
        format!("{}.json", facts.id),
        format!("{}.bak", facts.id),
        ".tmp-x".into(),
        "notes.meta.json".into(),
    ] {
        fs::write(store.path().join(stray), "{\"other\": 1}").unwrap();
    }
    assert_eq!(
        store.load(facts.id).await.unwrap(),
        Content::Text("the text".into())
    );
    assert_eq!(store.list().await.unwrap(), [facts]);
}

#[tokio::test]
async fn bl04_damage_is_reported_and_never_read() {
    let (_directory, store) = store();
    let text = "0123456789".repeat(20);
    let facts = keep(&store, &text).await;
    let other = keep(&store, "unharmed").await;
    let file = store.path().join(format!("{}.txt", facts.id));
    for length in 0..text.len() {
        fs::write(&file, &text[..length]).unwrap();
        assert!(
            matches!(store.load(facts.id).await, Err(BlobError::Corrupt { .. })),
            "cut at {length}"
        );
    }
    for place in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[place] ^= 1 << (place % 7);
        fs::write(&file, bytes).unwrap();
        let range = store
            .load_range(facts.id, place as u64..place as u64 + 1)
            .await;
        assert!(
            matches!(range, Err(BlobError::Corrupt { .. })),
            "flipped at {place}"
        );
    }
    fs::remove_file(&file).unwrap();
    assert!(matches!(
        store.load(facts.id).await,
        Err(BlobError::Corrupt { .. })
    ));
    assert_eq!(
        store.load(other.id).await.unwrap(),
        Content::Text("unharmed".into())
    );

    let record = store.path().join(facts_file(other.id));
    let whole = fs::read(&record).unwrap();
    for length in 0..whole.len() {
        fs::write(&record, &whole[..length]).unwrap();
        assert!(
            matches!(store.load(other.id).await, Err(BlobError::Corrupt { .. })),
            "record cut at {length}"
        );
    }
}

#[tokio::test]
async fn bl06_other_kinds_of_file_are_refused_at_once() {
    let (_directory, store) = store();
    let facts = keep(&store, "the text").await;
    let file = store.path().join(format!("{}.txt", facts.id));
    fs::remove_file(&file).unwrap();
    rustix::fs::mknodat(CWD, &file, FileType::Fifo, Mode::RUSR, 0).unwrap();
    assert!(matches!(
        store.load(facts.id).await,
        Err(BlobError::Read { .. })
    ));
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(matches!(
        store.load(facts.id).await,
        Err(BlobError::Read { .. })
    ));
    fs::remove_dir(&file).unwrap();
    fs::write(store.path().join("elsewhere"), "the text").unwrap();
    symlink("elsewhere", &file).unwrap();
    assert!(matches!(
        store.load(facts.id).await,
        Err(BlobError::Read { .. })
    ));
}

#[tokio::test]
async fn bl11_parallel_writers_never_share_an_id_or_name() {
    let (_directory, store) = store();
    let writers = (0..8).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut stored = Vec::new();
            for n in 0..16 {
                let text = format!("{writer}/{n}");
                stored.push((keep(&store, &text).await, text));
            }
            stored
        })
    });
    let mut ids = std::collections::HashSet::new();
    let mut names = std::collections::HashSet::new();
    for writer in writers.collect::<Vec<_>>() {
        for (facts, text) in writer.await.unwrap() {
            assert_eq!(store.load(facts.id).await.unwrap(), Content::Text(text));
            assert!(ids.insert(facts.id) && names.insert(facts.name));
        }
    }
    let temporary = fs::read_dir(store.path()).unwrap().filter(|entry| {
        entry
            .as_ref()
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with(".tmp-")
    });
    assert_eq!((ids.len(), temporary.count()), (128, 0));
}

#[tokio::test]
async fn bl10_a_store_that_cannot_be_written_says_so() {
    let (_directory, store) = store();
    fs::remove_dir_all(store.path()).unwrap();
    let content = Content::Text("x".into());
    assert!(matches!(
        store.store(&content, StoreOptions::default()).await,
        Err(BlobError::Write { .. })
    ));
}

#[tokio::test]
async fn bl19_files_are_private() {
    let (_directory, store) = store();
    let facts = keep(&store, "secret").await;
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(store.path().to_owned()), 0o700);
    assert_eq!(mode(store.path().parent().unwrap().to_owned()), 0o700);
    assert_eq!(mode(store.path().join(format!("{}.txt", facts.id))), 0o600);
    assert_eq!(mode(store.path().join(facts_file(facts.id))), 0o600);
}

#[test]
fn a_directory_that_was_there_keeps_its_mode_but_must_not_be_open_to_writers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("project");
    fs::create_dir(&path).unwrap();
    let set = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    set(0o755);
    FsBlobStore::open(&path).unwrap();
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o755
    );
    set(0o777);
    let error = FsBlobStore::open(&path).unwrap_err();
    assert!(
        crate::error_chain(&error).ends_with("other users may write to it"),
        "{error}"
    );
}

#[test]
fn a_path_that_leads_nowhere_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let dangling = directory.path().join("dangling");
    symlink("/nowhere/at/all", &dangling).unwrap();
    for path in [
        dangling.join("sub"),
        dangling.join("a/b/c"),
        PathBuf::from("/proc/nope/x"),
    ] {
        assert!(
            matches!(FsBlobStore::open(&path), Err(BlobError::Open { .. })),
            "{}",
            path.display()
        );
    }
}

#[test]
fn a_file_is_no_store() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let error = FsBlobStore::open(&file).unwrap_err().to_string();
    assert!(error.contains("cannot be used as a blob store"), "{error}");
}
