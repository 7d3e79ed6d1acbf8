//! The text of a tool call's arguments: is it whole yet, and what does it say.
//!
//! Kept apart because both questions decide whether a tool runs. Nothing is repaired that could change a meaning: what
//! is no JSON object stays text, and the call does not run.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer as _, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::surrogate;

/// Reads arguments: an object, or the raw text as a string when they are none. Nothing but white space is `{}`.
pub(crate) fn parse(raw: &str) -> Value {
    if raw.trim().is_empty() {
        return Value::Object(Map::new());
    }
    let text = surrogate::replace_halves(raw);
    let mut reader = serde_json::Deserializer::from_str(&text);
    let parsed = reader
        .deserialize_any(UniqueKeys)
        .and_then(|value| reader.end().map(|()| value));
    match parsed {
        Ok(Value::Object(object)) => Value::Object(object),
        Ok(_) | Err(_) => Value::String(raw.to_owned()),
    }
}

/// Builds a value and refuses a key given twice: which of the two was meant cannot be known, and a check that reads
/// the first must not differ from a tool that reads the second.
struct UniqueKeys;

impl<'de> DeserializeSeed<'de> for UniqueKeys {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for UniqueKeys {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(entry) = entries.next_element_seed(Self)? {
            list.push(entry);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(Self)?;
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!("key {key:?} stands twice")));
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// Follows arguments as they come and knows whether they are a closed object, without parsing them again for every
/// fragment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ObjectTracker {
    place: Place,
    depth: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Before,
    Between,
    String,
    Escape,
    Whole,
    NoObject,
}

impl ObjectTracker {
    /// Reads the next fragment.
    pub(crate) fn feed(&mut self, fragment: &str) {
        for byte in fragment.bytes() {
            self.place = self.after(byte);
        }
    }

    /// Returns whether everything read so far is one closed object.
    pub(crate) fn is_whole(&self) -> bool {
        self.place == Place::Whole
    }

    fn after(&mut self, byte: u8) -> Place {
        match (self.place, byte) {
            (Place::Before | Place::Whole, b' ' | b'\t' | b'\r' | b'\n') => self.place,
            (Place::Before, b'{') => {
                self.depth = 1;
                Place::Between
            }
            (Place::Before | Place::Whole | Place::NoObject, _) => Place::NoObject,
            (Place::Between, b'"') | (Place::Escape, _) => Place::String,
            (Place::Between, b'{' | b'[') => {
                self.depth = self.depth.saturating_add(1);
                Place::Between
            }
            (Place::Between, b'}' | b']') => {
                self.depth -= 1;
                if self.depth == 0 {
                    Place::Whole
                } else {
                    Place::Between
                }
            }
            (Place::Between, _) => Place::Between,
            (Place::String, b'\\') => Place::Escape,
            (Place::String, b'"') => Place::Between,
            (Place::String, _) => Place::String,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Fault LM10.
    #[test]
    fn lm10_only_objects_are_arguments() {
        let objects = [
            ("", json!({})),
            (" \n", json!({})),
            ("{}", json!({})),
            (
                " {\"a\": [1, -2, 0.5, true, null, \"x\"]} ",
                json!({"a": [1, -2, 0.5, true, null, "x"]}),
            ),
            (r#"{"a":"\ud83d\ude42"}"#, json!({"a": "🙂"})),
            (r#"{"a":"\ud83d"}"#, json!({"a": "\u{FFFD}"})),
            (
                r#"{"a":{"b":{}},"b":{"b":1}}"#,
                json!({"a": {"b": {}}, "b": {"b": 1}}),
            ),
        ];
        for (raw, expected) in objects {
            assert_eq!(parse(raw), expected, "{raw}");
        }
        let deep = "[".repeat(100_000);
        let texts = [
            "null",
            "[]",
            "7",
            "\"{}\"",
            r#""{\"a\":1}""#,
            "{\"a\":",
            "{\"a\":NaN}",
            "{'a':1}",
            "{}{}",
            "{} x",
            "{\"a\":1,\"a\":2}",
            "{\"x\":[{\"a\":1,\"a\":1}]}",
            "{\"a\":1e999}",
            &deep,
        ];
        for raw in texts {
            assert_eq!(parse(raw), Value::String(raw.to_owned()), "{raw:.40}");
        }
    }

    #[test]
    fn keys_keep_their_order_and_large_arguments_are_read() {
        let text = r#"{"z":1,"a":2,"m":3}"#;
        assert_eq!(parse(text).to_string(), text);
        let large = json!({"content": "x".repeat(10 << 20)}).to_string();
        assert!(parse(&large).is_object());
    }

    #[test]
    fn whole_objects_are_noticed_without_parsing() {
        let cases = [
            ("", false),
            ("  ", false),
            ("{", false),
            ("{}", true),
            (" {\"a\":\"}\"} \n", true),
            ("{\"a\":\"}", false),
            ("{\"a\":\"\\\"}", false),
            ("{\"a\":\"\\\\\"}", true),
            ("{\"a\":[{}]", false),
            ("{\"a\":[{}]}", true),
            ("{}{", false),
            ("null", false),
            ("\"{}\"", false),
        ];
        for (text, whole) in cases {
            let mut tracker = ObjectTracker::default();
            for (at, _) in text.char_indices() {
                tracker.feed(&text[at..=at]);
            }
            assert_eq!(tracker.is_whole(), whole, "{text}");
        }
    }
}
