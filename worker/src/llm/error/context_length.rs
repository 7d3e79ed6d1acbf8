//! Tells "the conversation is too long" from all other refusals, in the words of the servers there are.
//!
//! There is no common code for it, and it is the one refusal a worker can heal, by shortening the conversation. So the
//! words are listed here, each as some server says them.

use serde_json::Value;

/// Codes and types that mean it.
const CODES: [&str; 6] = [
    "context_length_exceeded",
    "exceed_context_size_error",
    "request_too_large",
    "model_context_window_exceeded",
    "context_window_exceeded",
    "string_above_max_length",
];

/// Parts of messages that mean it, in lower case.
const WORDS: [&str; 15] = [
    "exceeds the context window",
    "maximum context length",
    "prompt is too long",
    "exceeds the maximum number of tokens",
    "maximum prompt length is",
    "reduce the length of the messages",
    "longer than the model's context length",
    "maximum context length exceeded",
    "exceeds the available context size",
    "greater than the context length",
    "exceeded model token limit",
    "prompt token count",
    "context window exceeds",
    "input is too long for requested model",
    "exceeds model's maximum context",
];

/// Words of rate limits that speak of tokens too.
const RATE_WORDS: [&str; 3] = ["please wait", "rate limit", "per minute"];

/// Returns whether a refusal means that the conversation is too long.
pub(super) fn is_meant(code: &str, kind: &str, message: &str) -> bool {
    let message = message.to_lowercase();
    if RATE_WORDS.iter().any(|words| message.contains(words)) {
        return false;
    }
    CODES.contains(&code)
        || CODES.contains(&kind)
        || WORDS.iter().any(|words| message.contains(words))
        || (message.contains("too large for model with") && message.contains("context length"))
}

/// Finds how many tokens there were and how many fit: `(actual, limit)`.
pub(super) fn numbers(error: &Value, message: &str) -> (Option<u64>, Option<u64>) {
    let field = |name: &str| error.get(name).and_then(Value::as_u64);
    if let (Some(actual), Some(limit)) = (field("n_prompt_tokens"), field("n_ctx")) {
        return (Some(actual), Some(limit));
    }
    let lower = message.to_lowercase();
    let named = [
        "context length is ",
        "prompt length is ",
        "limit of ",
        "maximum of ",
        "with ",
    ];
    let named = named.iter().find_map(|words| {
        let at = lower.find(words)? + words.len();
        lower[at..]
            .starts_with(|c: char| c.is_ascii_digit())
            .then(|| all_numbers(&lower[at..]).first().copied())?
    });
    let all = all_numbers(&lower);
    let limit = named.or_else(|| all.iter().take(2).min().copied());
    let actual =
        limit.and_then(|limit| all.iter().filter(|number| **number > limit).max().copied());
    (actual, limit)
}

/// All numbers of a text that can be token counts, thousands separated by commas or not.
fn all_numbers(text: &str) -> Vec<u64> {
    let groups = text.split(|c: char| !c.is_ascii_digit() && c != ',');
    let digits = groups.map(|group| group.replace(',', ""));
    // Smaller numbers are indexes and versions.
    digits
        .filter_map(|digits| digits.parse().ok())
        .filter(|number| *number >= 128)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Fault LM04.
    #[test]
    fn lm04_numbers_are_found_in_each_wording() {
        let cases = [
            (
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens (8900 in the messages, 101 in the functions).",
                Some(9001),
                Some(8192),
            ),
            (
                "This model's maximum context length is 8192 tokens.",
                None,
                Some(8192),
            ),
            (
                "prompt is too long: 210,000 tokens > 200,000 maximum",
                Some(210_000),
                Some(200_000),
            ),
            (
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                Some(1_200_000),
                Some(1_048_576),
            ),
            (
                "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
                Some(5000),
                Some(4096),
            ),
            (
                "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
                Some(40_000),
                Some(32_768),
            ),
            (
                "Please reduce the length of the messages or completion.",
                None,
                None,
            ),
        ];
        for (message, actual, limit) in cases {
            assert!(is_meant("", "", message), "{message}");
            assert_eq!(numbers(&Value::Null, message), (actual, limit), "{message}");
        }
        let error = json!({"n_prompt_tokens": 70, "n_ctx": 64});
        assert_eq!(numbers(&error, "x"), (Some(70), Some(64)));
    }

    #[test]
    fn rate_limits_that_speak_of_tokens_are_not_meant() {
        for message in [
            "Too many tokens, please wait before trying again.",
            "Rate limit: maximum context length",
        ] {
            assert!(!is_meant("", "", message), "{message}");
        }
        assert!(!is_meant("", "", "messages.3: tool_call_id missing"));
        assert!(is_meant("context_length_exceeded", "", ""));
        assert!(is_meant("", "exceed_context_size_error", ""));
    }
}
