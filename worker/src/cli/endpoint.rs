//! Which model answers: an endpoint, or a file of recorded answers.

use std::{path::PathBuf, sync::Arc};

use clap::Args;
use secrecy::SecretString;

use crate::llm::{
    CycleConfig, LlmCycle, LlmError, LlmProvider, OpenAiConfig, OpenAiProvider, RecordingProvider,
    ReplayProvider, TokenLimitField,
};

/// Where the original vendor's endpoint is.
const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";

/// What the model is told before everything else, unless `--system` says otherwise.
const DEFAULT_SYSTEM_PROMPT: &str = "You carry out tasks with the tools you are given. Look before you change \
    anything, and check what you did. Results too large to show come as a summary that begins with [blob:NAME]; read \
    the part you need with inspect. When the task is done, answer briefly.";

/// Which model answers, and how it is asked.
#[derive(Args, Debug)]
pub(super) struct EndpointArgs {
    /// The endpoint, up to but without /chat/completions
    #[arg(long, value_name = "URL", env = "OPENAI_BASE_URL", default_value = DEFAULT_BASE_URL)]
    base_url: String,

    /// The model's name at the endpoint; a resumed session goes on with the model it began with
    #[arg(long, value_name = "NAME", env = "OPENAI_MODEL", required_unless_present_any = ["replay", "resume"])]
    model: Option<String>,

    /// The environment variable that holds the key [default: OPENAI_API_KEY]
    #[arg(long, value_name = "VARIABLE")]
    key_env: Option<String>,

    /// A header sent with every request, as `NAME: VALUE`; may be repeated
    #[arg(long, value_name = "HEADER", value_parser = parse_header)]
    header: Vec<(String, SecretString)>,

    /// Instructions put before the conversation
    #[arg(long, value_name = "TEXT", default_value = DEFAULT_SYSTEM_PROMPT)]
    system: String,

    /// How many tokens an answer may have
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: Option<u32>,

    /// Take the model's answers from a file instead of asking a model; the tools are real
    #[arg(long, value_name = "FILE", conflicts_with = "record")]
    replay: Option<PathBuf>,

    /// Write the model's answers to a new file that --replay can play
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// Why an endpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum EndpointError {
    #[error(transparent)]
    Llm(#[from] LlmError),
    #[error("{variable} holds no key; set it, or name another variable with --key-env")]
    NoKey { variable: String },
}

impl EndpointArgs {
    /// Prepares the model. `recorded` is the one a resumed session began with.
    pub(super) fn cycle(&self, recorded: Option<&str>) -> Result<LlmCycle, EndpointError> {
        let config = CycleConfig {
            model: self.model_name(recorded).to_owned(),
            max_tokens: self.max_tokens,
            ..CycleConfig::default()
        };
        Ok(LlmCycle::new(self.provider()?, config).with_system_prompt(&self.system))
    }

    pub(super) fn model_name<'a>(&'a self, recorded: Option<&'a str>) -> &'a str {
        self.model.as_deref().or(recorded).unwrap_or("replay")
    }

    fn provider(&self) -> Result<Arc<dyn LlmProvider>, EndpointError> {
        if let Some(file) = &self.replay {
            return Ok(Arc::new(ReplayProvider::open(file)?));
        }
        let mut config = OpenAiConfig::new(&self.base_url);
        if self.base_url.starts_with(DEFAULT_BASE_URL) {
            // Its newer models take no other name; compatible servers mostly know only the older one.
            config.token_limit_field = TokenLimitField::MaxCompletionTokens;
        }
        if let Some(key) = self.key()? {
            config = config.with_api_key(key);
        }
        config.headers.clone_from(&self.header);
        let provider = OpenAiProvider::new(config)?;
        match &self.record {
            Some(file) => Ok(Arc::new(RecordingProvider::create(provider, file)?)),
            None => Ok(Arc::new(provider)),
        }
    }

    /// Reads the key. Going on without one is right for servers that want none, but not where a variable was named, or
    /// at the vendor's own endpoint.
    fn key(&self) -> Result<Option<String>, EndpointError> {
        let variable = self.key_env.as_deref().unwrap_or("OPENAI_API_KEY");
        let key = std::env::var(variable).ok().filter(|key| !key.is_empty());
        let is_needed = self.key_env.is_some() || self.base_url.starts_with(DEFAULT_BASE_URL);
        if key.is_none() && is_needed {
            return Err(EndpointError::NoKey {
                variable: variable.to_owned(),
            });
        }
        Ok(key)
    }
}

/// Reads `NAME: VALUE`. The value may be a key, so it does not appear in the error.
fn parse_header(text: &str) -> Result<(String, SecretString), String> {
    let (name, value) = text.split_once(':').ok_or("write it as NAME: VALUE")?;
    Ok((name.trim().to_owned(), SecretString::from(value.trim())))
}
