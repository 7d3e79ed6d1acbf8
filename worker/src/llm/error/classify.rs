//! From a refusal, as an HTTP reply or inside a stream, to a typed error.
//!
//! One pure function for every dialect, since compatible servers mix them. The order of the questions matters: quota
//! before rate, rate before length, both before the status alone.

use serde_json::Value;

use super::{LlmError, Redaction, RetryAdvice, context_length};

/// Codes and types of a limit that waiting does not lift.
const QUOTA_CODES: [&str; 7] = [
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_error",
    "billing_not_active",
    "usage_not_included",
    "insufficient_balance",
    "payment_required",
];

/// Messages of the same.
const QUOTA_WORDS: [&str; 3] = [
    "insufficient balance",
    "credit balance is too low",
    "insufficient credits",
];

/// A reply that is no answer.
#[derive(Clone, Copy, Debug)]
pub struct ErrorReply<'a> {
    /// The HTTP status.
    pub status: u16,
    /// What its headers say about trying again.
    pub advice: RetryAdvice,
    /// The body, or its beginning.
    pub body: &'a str,
}

/// Returns the error that a reply stands for.
#[must_use]
pub fn classify(reply: &ErrorReply<'_>, redaction: &Redaction) -> LlmError {
    let facts = Facts::of_body(reply.body);
    let advice = reply.advice.or_from_text(reply.body);
    facts.into_error(reply.status, advice, redaction)
}

/// Returns the error that stands inside an answer of status 200.
pub(crate) fn classify_in_band(event: &Value, redaction: &Redaction) -> LlmError {
    let facts = Facts::of_json(event);
    let status = facts.implied_status();
    let advice = RetryAdvice::default().or_from_text(&facts.message);
    facts.into_error(status, advice, redaction)
}

/// What an error reply says, whatever its form.
struct Facts {
    code: String,
    kind: String,
    message: String,
    error: Value,
}

impl Facts {
    fn of_body(body: &str) -> Self {
        let trimmed = body.trim_start_matches('\u{FEFF}').trim();
        match serde_json::from_str::<Value>(trimmed) {
            Ok(json @ (Value::Object(_) | Value::Array(_))) => Self::of_json(&json),
            _ if trimmed.starts_with('<') => Self::of_text(&page_title(trimmed)),
            _ if trimmed.is_empty() => Self::of_text("no further words"),
            _ => Self::of_text(trimmed),
        }
    }

    fn of_text(message: &str) -> Self {
        Self {
            code: String::new(),
            kind: String::new(),
            message: message.to_owned(),
            error: Value::Null,
        }
    }

    /// Reads `{"error": {…}}`, `{"error": "…"}`, `[{"error": …}]` and errors that stand at the top.
    fn of_json(json: &Value) -> Self {
        let json = json.get(0).unwrap_or(json);
        let error = json
            .get("error")
            .filter(|error| !error.is_null())
            .unwrap_or(json);
        let word = |name: &str| match error.get(name).or_else(|| json.get(name)) {
            Some(Value::String(word)) => word.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        let message = match error {
            Value::String(text) => text.clone(),
            _ => ["message", "detail"]
                .map(word)
                .into_iter()
                .find(|text| !text.is_empty())
                .unwrap_or_default(),
        };
        Self {
            code: word("code"),
            kind: match error.get("type") {
                Some(Value::String(kind)) => kind.clone(),
                _ => word("status"),
            },
            message: if message.is_empty() {
                error.to_string()
            } else {
                message
            },
            error: error.clone(),
        }
    }

    /// The HTTP status that an error inside an answer would have had.
    fn implied_status(&self) -> u16 {
        if let Ok(status @ 400..=599) = self.code.parse() {
            return status;
        }
        if self.is_quota() {
            return 402;
        }
        let word = format!("{} {}", self.kind, self.code).to_lowercase();
        let table = [
            ("overloaded", 529),
            ("rate_limit", 429),
            ("resource_exhausted", 429),
            ("authentication", 401),
            ("permission", 403),
            ("not_found", 404),
            ("invalid_request", 400),
            ("invalid_argument", 400),
            ("badrequest", 400),
            ("timeout", 408),
        ];
        let known = table.iter().find(|(part, _)| word.contains(part));
        // An endpoint that began to answer had accepted the request, so an unknown failure is the endpoint's own.
        known.map_or(500, |(_, status)| *status)
    }

    fn into_error(self, status: u16, advice: RetryAdvice, redaction: &Redaction) -> LlmError {
        let message = redaction.excerpt(&self.message);
        let is_rate = status == 429
            || self.kind.starts_with("rate_limit")
            || self.code == "rate_limit_exceeded";
        if status == 402 || (status < 500 && self.is_quota()) {
            LlmError::QuotaExhausted { message }
        } else if status == 401 || status == 403 {
            LlmError::Authentication { status, message }
        } else if is_rate {
            LlmError::RateLimit { message, advice }
        } else if matches!(status, 503 | 529) || self.kind == "overloaded_error" {
            LlmError::Overloaded { message, advice }
        } else if status == 413 || context_length::is_meant(&self.code, &self.kind, &self.message) {
            let (actual, limit) = context_length::numbers(&self.error, &self.message);
            LlmError::ContextLength {
                actual,
                limit,
                message,
            }
        } else if (400..500).contains(&status) && status != 408 && status != 409 {
            LlmError::InvalidRequest {
                status: Some(status),
                message,
                advice,
            }
        } else {
            LlmError::Request {
                status,
                body: message,
                advice,
            }
        }
    }

    fn is_quota(&self) -> bool {
        let message = self.message.to_lowercase();
        let named = [&self.code, &self.kind].into_iter().any(|word| {
            QUOTA_CODES.contains(&word.as_str()) || word.ends_with("_spend_limit_exceeded")
        });
        named || QUOTA_WORDS.iter().any(|words| message.contains(words))
    }
}

/// The title of an HTML page is all of it that says anything.
fn page_title(page: &str) -> String {
    let lower = page.to_ascii_lowercase();
    let title = lower.find("<title>").and_then(|start| {
        let start = start + "<title>".len();
        let end = lower[start..].find("</title>")?;
        Some(page[start..start + end].trim())
    });
    title.map_or_else(
        || "an HTML page".to_owned(),
        |title| format!("an HTML page titled {title:?}"),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn name(error: &LlmError) -> &'static str {
        match error {
            LlmError::Authentication { .. } => "authentication",
            LlmError::RateLimit { .. } => "rate",
            LlmError::QuotaExhausted { .. } => "quota",
            LlmError::Overloaded { .. } => "overloaded",
            LlmError::Request { .. } => "request",
            LlmError::InvalidRequest { .. } => "invalid",
            LlmError::ContextLength { .. } => "context",
            _ => "other",
        }
    }

    fn of(status: u16, body: &str) -> LlmError {
        let reply = ErrorReply {
            status,
            advice: RetryAdvice::default(),
            body,
        };
        classify(&reply, &Redaction::default())
    }

    /// Faults LM02, LM03 and LM04.
    #[test]
    fn lm02_lm03_lm04_replies_are_sorted() {
        let cases = [
            (401, "", "authentication", false),
            (
                403,
                r#"{"error":{"message":"no"}}"#,
                "authentication",
                false,
            ),
            (402, "", "quota", false),
            (
                429,
                r#"{"error":{"message":"slow down","code":"rate_limit_exceeded"}}"#,
                "rate",
                true,
            ),
            (
                429,
                r#"{"error":{"message":"x","type":"insufficient_quota","code":"insufficient_quota"}}"#,
                "quota",
                false,
            ),
            (
                429,
                r#"{"error":{"message":"x","code":"org_spend_limit_exceeded"}}"#,
                "quota",
                false,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}"#,
                "quota",
                false,
            ),
            (
                429,
                "Too many tokens, please wait before trying again.",
                "rate",
                true,
            ),
            (408, "", "request", true),
            (409, "", "request", true),
            (500, "oops", "request", true),
            (
                502,
                "<html><head><title>502 Bad Gateway</title></head></html>",
                "request",
                true,
            ),
            (503, "", "overloaded", true),
            (504, "", "request", true),
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                "overloaded",
                true,
            ),
            (
                400,
                r#"{"error":{"message":"messages.3: tool_call_id missing","type":"invalid_request_error"}}"#,
                "invalid",
                false,
            ),
            (404, r#"{"error":"model 'x' not found"}"#, "invalid", false),
            (405, "", "invalid", false),
            (
                422,
                r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#,
                "invalid",
                false,
            ),
            (451, "", "invalid", false),
            (
                413,
                "<html>Request Entity Too Large</html>",
                "context",
                false,
            ),
            (
                400,
                r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#,
                "context",
                false,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":70,"n_ctx":64}}"#,
                "context",
                false,
            ),
            (
                400,
                r#"[{"error":{"code":400,"message":"The input token count (9000) exceeds the maximum number of tokens allowed (8000).","status":"INVALID_ARGUMENT"}}]"#,
                "context",
                false,
            ),
            (
                400,
                r#"{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","code":400}"#,
                "context",
                false,
            ),
        ];
        for (status, body, expected, retryable) in cases {
            let error = of(status, body);
            assert_eq!(name(&error), expected, "{status} {body}");
            assert_eq!(error.is_retryable(), retryable, "{status} {body}");
        }
    }

    /// Fault LM09.
    #[test]
    fn lm09_errors_inside_an_answer_are_sorted() {
        let cases = [
            (
                json!({"error": {"type": "overloaded_error", "message": "Overloaded"}}),
                "overloaded",
                true,
            ),
            (
                json!({"error": {"code": 502, "message": "upstream"}}),
                "request",
                true,
            ),
            (
                json!({"error": {"code": "429", "message": "x"}}),
                "rate",
                true,
            ),
            (
                json!({"error": {"type": "server_error", "message": "x"}}),
                "request",
                true,
            ),
            (json!({"error": "something"}), "request", true),
            (
                json!({"error": {"type": "invalid_request_error", "message": "bad"}}),
                "invalid",
                false,
            ),
            (
                json!({"error": {"code": "insufficient_quota", "message": "x"}}),
                "quota",
                false,
            ),
            (
                json!({"error": {"code": "context_length_exceeded", "message": "x"}}),
                "context",
                false,
            ),
            (
                json!({"object": "error", "message": "x", "type": "BadRequestError", "code": 400}),
                "invalid",
                false,
            ),
        ];
        for (event, expected, retryable) in cases {
            let error = classify_in_band(&event, &Redaction::default());
            assert_eq!(
                (name(&error), error.is_retryable()),
                (expected, retryable),
                "{event}"
            );
        }
    }

    #[test]
    fn messages_say_what_the_server_said() {
        assert_eq!(
            of(502, "<HTML><title>502 Bad Gateway</title>").to_string(),
            "the request failed (502): an HTML page titled \"502 Bad Gateway\""
        );
        assert_eq!(
            of(404, r#"{"error":"no model"}"#).to_string(),
            "the request is invalid (404): no model"
        );
        let LlmError::ContextLength { actual, limit, .. } = of(
            400,
            r#"{"error":{"message":"prompt is too long: 210 tokens > 200 maximum","type":"invalid_request_error"}}"#,
        ) else {
            panic!("not recognised");
        };
        assert_eq!((actual, limit), (Some(210), Some(200)));
        let LlmError::RateLimit { advice, .. } =
            of(429, r#"{"error":{"message":"Please try again in 2s."}}"#)
        else {
            panic!("not recognised");
        };
        assert_eq!(advice.after, Some(std::time::Duration::from_secs(2)));
        assert!(of(500, &"x".repeat(1 << 20)).to_string().len() < 1100);
    }

    /// Fault LM03.
    #[test]
    fn lm03_an_echoed_key_is_masked() {
        let redaction = Redaction::of(["sk-abc/def".to_owned().into()]);
        let reply = ErrorReply {
            status: 401,
            advice: RetryAdvice::default(),
            body: r#"{"error":{"message":"Incorrect key: sk-abc\/def"}}"#,
        };
        let error = classify(&reply, &redaction);
        assert!(!format!("{error} {error:?}").contains("abc"), "{error:?}");
    }
}
