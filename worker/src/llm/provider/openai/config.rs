//! The settings of an endpoint, checked once before anything is sent.

use std::{fmt, time::Duration};

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use url::{Host, Url};

use crate::llm::{LlmError, Redaction};

/// Sent to a server on this machine when there is no key: some of them want the header, none wants the key.
const NO_KEY: HeaderValue = HeaderValue::from_static("Bearer unused");

/// Which field of the request limits the length of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenLimitField {
    /// `max_tokens`, which nearly all compatible servers know.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`, the only one that newer models of the original vendor take.
    MaxCompletionTokens,
}

impl TokenLimitField {
    /// Returns the field's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }
}

/// Where an endpoint is and how patient to be with it.
#[derive(Clone)]
pub struct OpenAiConfig {
    /// What stands before `/chat/completions`, for example `https://api.openai.com/v1`.
    pub base_url: String,
    /// The key, sent as `Authorization: Bearer …`. Without one, `Bearer unused` goes to a server on this machine and
    /// no such header to any other.
    pub api_key: Option<SecretString>,
    /// Further headers. Their values are taken for secrets.
    pub headers: Vec<(String, SecretString)>,
    /// Which field limits the length of the answer.
    pub token_limit_field: TokenLimitField,
    /// How long a connection may take.
    pub connect_timeout: Duration,
    /// How long the endpoint may be silent. Any byte counts as a sign of life.
    pub idle_timeout: Duration,
    /// How long a whole answer may take, however lively it is.
    pub answer_timeout: Duration,
    /// How large one event of a stream may be, or an answer that is not streamed.
    pub max_event_bytes: u64,
    /// How large an answer may be: text, reasoning and arguments together.
    pub max_answer_bytes: u64,
}

impl OpenAiConfig {
    /// Starts with an address and the usual limits.
    #[must_use]
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            api_key: None,
            headers: Vec::new(),
            token_limit_field: TokenLimitField::default(),
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(120),
            answer_timeout: Duration::from_secs(30 * 60),
            max_event_bytes: 16 << 20,
            max_answer_bytes: 64 << 20,
        }
    }

    /// Sets the key.
    #[must_use]
    pub fn with_api_key(mut self, key: impl Into<String>) -> Self {
        self.api_key = Some(SecretString::from(key.into()));
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers
            .push((name.into(), SecretString::from(value.into())));
        self
    }
}

impl fmt::Debug for OpenAiConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("OpenAiConfig")
            // A refused base URL may hold a password, and this type exists before the check.
            .field("base_url", &self.base_url.rsplit('@').next())
            .field("has_key", &self.api_key.is_some())
            .field("headers", &names)
            .field("token_limit_field", &self.token_limit_field)
            .field("connect_timeout", &self.connect_timeout)
            .field("idle_timeout", &self.idle_timeout)
            .field("answer_timeout", &self.answer_timeout)
            .finish_non_exhaustive()
    }
}

/// Settings that passed the check, and what follows from them.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) config: OpenAiConfig,
    pub(super) endpoint: Url,
    pub(super) headers: HeaderMap,
    pub(super) redaction: Redaction,
}

impl Checked {
    pub(super) fn new(config: OpenAiConfig) -> Result<Self, LlmError> {
        let endpoint = endpoint(&config.base_url)?;
        let mut headers = HeaderMap::new();
        for (name, value) in &config.headers {
            let parsed = HeaderName::try_from(name.as_str())
                .map_err(|_| wrong(format!("{name:?} is no header name")))?;
            let value = secret_value(value, "").ok_or_else(|| {
                wrong(format!(
                    "the value of header {name} has characters that no header may have"
                ))
            })?;
            headers.append(parsed, value);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = &config.api_key {
            let value = secret_value(key, "Bearer ").ok_or_else(|| {
                wrong("the API key is empty or has characters that no key has, for example a line end or a space".to_owned())
            })?;
            headers.insert(AUTHORIZATION, value);
        } else if is_this_machine(&endpoint) && !headers.contains_key(AUTHORIZATION) {
            headers.insert(AUTHORIZATION, NO_KEY);
        }
        let secrets = config
            .headers
            .iter()
            .map(|(_, value)| value.clone())
            .chain(config.api_key.clone());
        Ok(Self {
            redaction: Redaction::of(secrets),
            config,
            endpoint,
            headers,
        })
    }
}

fn wrong(message: String) -> LlmError {
    LlmError::Config { message }
}

fn endpoint(base_url: &str) -> Result<Url, LlmError> {
    // The address itself is not repeated in messages: a key in the wrong place is the likeliest mistake.
    let mut url = Url::parse(base_url.trim())
        .map_err(|error| wrong(format!("the base URL cannot be read: {error}")))?;
    let problem = if !matches!(url.scheme(), "http" | "https") {
        Some("must begin with http:// or https://")
    } else if url.query().is_some() || url.fragment().is_some() {
        Some("must have no query (?…) and no fragment (#…)")
    } else if !url.username().is_empty() || url.password().is_some() {
        Some("must have no user name and no password; set the API key instead")
    } else {
        None
    };
    if let Some(problem) = problem {
        return Err(wrong(format!("the base URL {problem}")));
    }
    let path = format!("{}/chat/completions", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Ok(url)
}

fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Makes a header value that no log shows. `None` for what a header or a key cannot hold.
fn secret_value(secret: &SecretString, prefix: &str) -> Option<HeaderValue> {
    let text = secret.expose_secret();
    let is_key = !prefix.is_empty();
    let fits = text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() || (byte == b' ' && !is_key));
    if !fits || (is_key && text.is_empty()) {
        return None;
    }
    let mut value = HeaderValue::try_from(format!("{prefix}{text}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(config: OpenAiConfig) -> Checked {
        Checked::new(config).unwrap()
    }

    /// Fault LM22.
    #[test]
    fn lm22_base_urls_are_checked() {
        for base in ["http://h/v1", "http://h/v1/", " http://h/v1// "] {
            assert_eq!(
                endpoint(base).unwrap().as_str(),
                "http://h/v1/chat/completions",
                "{base:?}"
            );
        }
        assert_eq!(
            endpoint("https://h:8/").unwrap().as_str(),
            "https://h:8/chat/completions"
        );
        let wrong = [
            "",
            "h/v1",
            "ftp://h",
            "http://h/v1?key=sk-secret",
            "http://h/#sk-secret",
            "http://u:sk-secret@h/",
            "file:///x",
        ];
        for base in wrong {
            let error = endpoint(base).unwrap_err();
            assert!(matches!(&error, LlmError::Config { .. }), "{base}");
            assert!(!error.to_string().contains("sk-secret"), "{error}");
            assert!(
                !format!("{:?}", OpenAiConfig::new("http://u:sk-secret@h/")).contains("sk-secret")
            );
        }
    }

    /// Fault LM22.
    #[test]
    fn lm22_keys_are_checked_and_never_shown() {
        for key in ["", "sk-a\nb", "sk-a b", "sk-ü", "sk-a\0", "sk-a\u{200b}"] {
            let error = Checked::new(OpenAiConfig::new("http://h").with_api_key(key)).unwrap_err();
            assert!(!error.to_string().contains("sk-"), "{error}");
        }
        let config = OpenAiConfig::new("https://h")
            .with_api_key("sk-secret")
            .with_header("x-extra", "sk-other");
        let checked = checked(config);
        assert_eq!(checked.headers[AUTHORIZATION], "Bearer sk-secret");
        assert_eq!(checked.headers["x-extra"], "sk-other");
        let shown = format!("{checked:?}");
        assert!(!shown.contains("sk-"), "{shown}");
    }

    #[test]
    fn without_a_key_only_this_machine_gets_a_header() {
        for local in [
            "http://127.0.0.1:1/v1",
            "http://localhost:1",
            "http://[::1]:1",
        ] {
            assert_eq!(
                checked(OpenAiConfig::new(local)).headers[AUTHORIZATION],
                "Bearer unused"
            );
        }
        let far = checked(OpenAiConfig::new("http://example.com"));
        assert!(!far.headers.contains_key(AUTHORIZATION));
        assert!(
            !checked(OpenAiConfig::new("http://127.0.0.1.example.com"))
                .headers
                .contains_key(AUTHORIZATION)
        );
    }

    #[test]
    fn wrong_headers_are_named() {
        let error =
            Checked::new(OpenAiConfig::new("http://h").with_header("a b", "x")).unwrap_err();
        assert!(error.to_string().contains("a b"));
        let error =
            Checked::new(OpenAiConfig::new("http://h").with_header("a", "x\r\ny: z")).unwrap_err();
        assert!(!error.to_string().contains("y: z"));
    }
}
