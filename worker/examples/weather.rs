//! A worker with one tool of its own, in one process.
//!
//! ```text
//! cargo run --example weather                                   against a script
//! cargo run --example weather -- http://127.0.0.1:8080/v1 NAME  against a model
//! ```

#![expect(
    clippy::print_stdout,
    reason = "an example talks to the person who runs it"
)]

use std::{error::Error, sync::Arc};

use toolserver::{ToolServer, tool};
use worker::{
    Worker,
    llm::{CycleConfig, LlmCycle, LlmProvider, OpenAiConfig, OpenAiProvider, ReplayProvider},
    tools::{LocalHost, ToolSet},
};

#[derive(Clone)]
struct Weather;

impl Weather {
    /// Tells the weather of a city.
    #[tool(read_only)]
    async fn weather(
        &self,
        #[description = "The city's name"] city: String,
    ) -> Result<String, std::fmt::Error> {
        Ok(format!("{city}: rain"))
    }
}

/// What a model might say.
const SCRIPT: &str = r#"{"replay":1}
{"message":{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"weather","input":{"city":"Kyoto"}}]},"stop_reason":"tool_use"}
{"message":{"role":"assistant","content":[{"type":"text","text":"Yes: it rains in Kyoto."}]},"stop_reason":"stop"}
"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (provider, model): (Arc<dyn LlmProvider>, String) =
        match (arguments.next(), arguments.next()) {
            (Some(url), Some(model)) => (
                Arc::new(OpenAiProvider::new(OpenAiConfig::new(url))?),
                model,
            ),
            _ => (
                Arc::new(SCRIPT.parse::<ReplayProvider>()?),
                "script".to_owned(),
            ),
        };

    let server = ToolServer::new();
    server.register(Weather.weather_tool())?;
    let mut tools = ToolSet::default();
    tools.add(Arc::new(LocalHost::new(server))).await?;

    let config = CycleConfig {
        model,
        ..CycleConfig::default()
    };
    let mut worker = Worker::new(LlmCycle::new(provider, config)).with_tools(tools);
    worker.on_text_complete(|text: &str| println!("{text}"));
    let report = worker.run("Do I need an umbrella in Kyoto?").await?;
    assert!(report.stop.is_answer(), "{:?}", report.stop);
    Ok(())
}
