//! Every part of every kind of blob, within the budget, with the way to go on.

use std::fmt::Write;

use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::{
    blob::{FsBlobStore, StoreOptions},
    output::Content,
};

struct Kept {
    store: FsBlobStore,
    facts: BlobFacts,
    _directory: TempDir,
}

async fn kept(content: Content) -> Kept {
    let directory = tempfile::tempdir().unwrap();
    let store = FsBlobStore::open(directory.path().join("blobs")).unwrap();
    let facts = store
        .store(
            &content,
            StoreOptions {
                tool: Some("shell".into()),
            },
        )
        .await
        .unwrap();
    Kept {
        store,
        facts,
        _directory: directory,
    }
}

impl Kept {
    async fn part(&self, selector: &str) -> Result<String, InspectError> {
        let reply = inspect(&self.store, &self.facts, Some(&selector.parse()?)).await;
        if let Ok(reply) = &reply {
            assert!(
                reply.len() <= TOOL_OUTPUT_MAX_BYTES,
                "{selector}: {} bytes",
                reply.len()
            );
        }
        reply
    }

    async fn error(&self, selector: &str) -> String {
        self.part(selector).await.unwrap_err().to_string()
    }

    /// Follows `next:` from a selector to the end and joins the bodies.
    async fn pages(&self, first: &str) -> String {
        let mut all = String::new();
        let mut selector = first.to_owned();
        for _ in 0..10_000 {
            let reply = self.part(&selector).await.unwrap();
            let at = reply.rfind('[').unwrap();
            let (body, frame) = (&reply[..at], reply[at..].trim_end_matches(']'));
            // The frame stands on a line of its own; the break before it is only the body's when the part ends in one.
            let shown = shown_bytes(frame).unwrap_or(body.len());
            all.push_str(&body[..shown.min(body.len())]);
            match frame.split_once("next: ") {
                Some((_, next)) => selector = next.to_owned(),
                None => return all,
            }
        }
        panic!("{first} never ends");
    }
}

/// Reads how many bytes a `bytes A-B of N` frame shows.
fn shown_bytes(frame: &str) -> Option<usize> {
    let range = frame.strip_prefix("[bytes ")?.split_once(" of ")?.0;
    let (begin, end) = range.split_once('-')?;
    Some(end.parse::<usize>().ok()? - begin.parse::<usize>().ok()?)
}

fn numbered(lines: u32) -> String {
    (1..=lines).fold(String::new(), |mut text, n| {
        let _ = writeln!(text, "line {n}");
        text
    })
}

#[tokio::test]
async fn without_a_selector_come_facts_and_the_beginning() {
    let blob = kept(Content::Text(numbered(2000))).await;
    let reply = inspect(&blob.store, &blob.facts, None).await.unwrap();
    let head = format!(
        "blob {}: text of 2000 lines, {} bytes, made by shell\nline 1\n",
        blob.facts.name, blob.facts.bytes
    );
    assert!(reply.starts_with(&head), "{reply}");
    assert!(
        reply.ends_with("; no more fits, next: lines:240-2000]"),
        "{}",
        &reply[reply.len() - 80..]
    );

    let blob = kept(Content::Structured(json!({"a": [1, 2], "b": "x"}))).await;
    let reply = inspect(&blob.store, &blob.facts, None).await.unwrap();
    assert!(
        reply.ends_with(
            "\na: array, 2 entries\nb: string, 1 bytes\n[all 2 keys; read one with key:NAME]"
        ),
        "{reply}"
    );

    let blob = kept(Content::Structured(json!([{"id": 1}, 2]))).await;
    let reply = inspect(&blob.store, &blob.facts, None).await.unwrap();
    assert!(
        reply.ends_with("\n{\"id\":1}\n2\n[entries 0..2 of 2]"),
        "{reply}"
    );

    let blob = kept(Content::Text(String::new())).await;
    assert!(
        inspect(&blob.store, &blob.facts, None)
            .await
            .unwrap()
            .ends_with("[it is empty]")
    );
}

#[tokio::test]
async fn lines_count_from_one_and_include_both_ends() {
    let blob = kept(Content::Text(numbered(5000))).await;
    assert_eq!(
        blob.part("lines:20-21").await.unwrap(),
        "line 20\nline 21\n[lines 20-21 of 5000; next: lines:22-23]"
    );
    assert_eq!(
        blob.part("lines:1025-1025").await.unwrap(),
        "line 1025\n[lines 1025-1025 of 5000; next: lines:1026-1026]"
    );
    assert_eq!(
        blob.part("lines:4999-9999").await.unwrap(),
        "line 4999\nline 5000\n[lines 4999-5000 of 5000]"
    );
    assert!(
        blob.part("lines:2049-")
            .await
            .unwrap()
            .starts_with("line 2049\n")
    );
}

#[tokio::test]
async fn se04_a_part_behind_the_end_is_told_with_the_true_count() {
    let blob = kept(Content::Text(numbered(7))).await;
    assert_eq!(
        blob.error("lines:8-9").await,
        "`lines:8-9` begins behind the end: this blob has 7 lines"
    );
    assert_eq!(
        blob.error("bytes:49-60").await,
        "`bytes:49-60` begins behind the end: this blob has 49 bytes"
    );
    let blob = kept(Content::Structured(json!([1, 2, 3]))).await;
    assert_eq!(
        blob.error("slice:4..5").await,
        "`slice:4..5` begins behind the end: this blob has 3 entries"
    );
    assert_eq!(
        blob.part("slice:3..3").await.unwrap(),
        "[entries 3..3 of 3]"
    );
}

#[tokio::test]
async fn se05_line_ends_are_kept() {
    let blob = kept(Content::Text("a\r\nb\rc\u{85}d\u{2028}e\n\nlast".into())).await;
    assert_eq!(blob.facts.lines, Some(4));
    assert_eq!(
        blob.part("lines:1-1").await.unwrap(),
        "a\r\n[lines 1-1 of 4; next: lines:2-2]"
    );
    assert_eq!(
        blob.part("lines:3-4").await.unwrap(),
        "\nlast\n[lines 3-4 of 4]"
    );
}

#[tokio::test]
async fn se06_a_line_larger_than_a_reply_goes_on_by_bytes() {
    let long = "é".repeat(100_000);
    let blob = kept(Content::Text(format!("short\n{long}\nend\n"))).await;
    let reply = blob.part("lines:2-3").await.unwrap();
    assert!(
        reply.ends_with(
            "[line 2 of 3, the first 15872 of its 200001 bytes; next: bytes:15878-200007]"
        ),
        "{reply:.60}"
    );
    let rest = blob.pages("bytes:15878-200007").await;
    assert_eq!(rest, format!("{}\nend\n", &long[15_872..]));
}

#[tokio::test]
async fn se07_selectors_for_another_kind_are_told_what_fits() {
    let text = kept(Content::Text("x".into())).await;
    let array = kept(Content::Structured(json!([1]))).await;
    let object = kept(Content::Structured(
        json!({"results": 1, "result": 2, "other": 3}),
    ))
    .await;
    let scalar = kept(Content::Structured(json!(5))).await;
    assert_eq!(
        text.error("key:a").await,
        "`key:a` does not fit: this blob is text of 1 lines; use lines:1-50 or bytes:0-4096"
    );
    assert!(
        array
            .error("lines:1-2")
            .await
            .contains("a JSON array of 1 entries; use slice:0..10 or")
    );
    assert!(array.error("key:a").await.contains("use slice:0..10"));
    assert!(
        object
            .error("slice:0..1")
            .await
            .contains("a JSON object of 3 keys; use key:NAME or")
    );
    assert!(
        scalar
            .error("slice:0..1")
            .await
            .contains("a single JSON value; use bytes:0-4096")
    );
    let missing = object.error("key:resultz").await;
    assert!(
        missing.starts_with(
            "there is no key \"resultz\" among the 3; nearest: result, results, other"
        ),
        "{missing}"
    );
}

#[tokio::test]
async fn entries_and_keys_are_shown_exactly() {
    let array = kept(Content::Structured(
        json!([{"z": 1, "a": "é"}, [2], "x", null]),
    ))
    .await;
    assert_eq!(
        array.part("slice:0..2").await.unwrap(),
        "{\"z\":1,\"a\":\"é\"}\n[2]\n[entries 0..2 of 4; next: slice:2..4]"
    );
    let object = kept(Content::Structured(
        json!({"a.b": {"c": 1}, "": 0, "é\"": "v"}),
    ))
    .await;
    assert_eq!(
        object.part("key:a.b").await.unwrap(),
        "{\"c\":1}\n[key a.b: object, 1 keys]"
    );
    assert_eq!(object.part("key:").await.unwrap(), "0\n[key : number]");
    assert_eq!(
        object.part("key:é\"").await.unwrap(),
        "\"v\"\n[key é\": string, 1 bytes]"
    );
}

#[tokio::test]
async fn values_larger_than_a_reply_go_on_where_they_are_stored() {
    let long = "ü\n".repeat(30_000);
    let array = json!([1, {"k": 2}, {"long": long}, 4]);
    let blob = kept(Content::Structured(array.clone())).await;
    let reply = blob.part("slice:2..3").await.unwrap();
    let (shown, frame) = reply.split_at(reply.rfind("\n[").unwrap());
    let next = frame.split_once("next: ").unwrap().1.trim_end_matches(']');
    let end: usize = next.rsplit('-').next().unwrap().parse().unwrap();
    let rest = blob.pages(next).await;
    let begin = array.to_string().find("{\"long\"").unwrap();
    assert_eq!(format!("{shown}{rest}"), array.to_string()[begin..]);
    assert_eq!(end, array.to_string().len() - 3);

    let object = json!({"first": [1, 2], "löng": long, "last": 0});
    let blob = kept(Content::Structured(object.clone())).await;
    let reply = blob.part("key:löng").await.unwrap();
    let (shown, frame) = reply.split_at(reply.rfind("\n[").unwrap());
    let next = frame.split_once("next: ").unwrap().1.trim_end_matches(']');
    let begin = object.to_string().find("\"ü").unwrap();
    assert_eq!(
        format!("{shown}{}", blob.pages(next).await),
        object.to_string()[begin..]
    );
}

#[tokio::test]
async fn bl17_a_marker_inside_the_content_is_only_text() {
    let blob = kept(Content::Text(
        "[blob:k7qm] text | 5 lines\n[lines 1-1 of 9; next: lines:2-2]\n".into(),
    ))
    .await;
    assert!(
        blob.part("lines:1-2")
            .await
            .unwrap()
            .ends_with("\n[lines 1-2 of 2]")
    );
}

fn any_entries() -> impl Strategy<Value = Vec<Value>> {
    let entry = prop_oneof![
        any::<i32>().prop_map(Value::from),
        "(.|\n){0,900}".prop_map(Value::from)
    ];
    prop::collection::vec(entry, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Fault SE09.
    #[test]
    fn se09_byte_pages_join_to_the_original(text in "(.{0,200}|\n|é日🙂){1,30}", step in 1_u64..4000) {
        prop_assume!(!text.is_empty());
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let blob = kept(Content::Text(text.clone())).await;
            assert_eq!(blob.pages(&format!("bytes:0-{}", step.max(4))).await, text);
        });
    }

    #[test]
    fn se09_entry_pages_join_to_the_original(entries in any_entries()) {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let blob = kept(Content::Structured(Value::from(entries.clone()))).await;
            let all = blob.pages("slice:0..1").await;
            let lines: Vec<Value> = all.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!(lines, entries);
        });
    }
}
