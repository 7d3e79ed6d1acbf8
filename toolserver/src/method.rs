//! The tool that `#[tool]` makes of a method, and what the macro's output calls.

use std::{fmt, future::Future, pin::Pin, time::Duration};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    output::{Content, OutputLimits, ToolOutput},
    tool::{Tool, ToolAnnotations, ToolError, ToolExecutionContext},
};

/// Everything about a method tool that does not depend on its state.
#[derive(Clone, Copy, Debug)]
pub struct MethodSpec {
    /// The tool's name.
    pub name: &'static str,
    /// What the model reads about it.
    pub description: &'static str,
    /// Makes the schema of its arguments.
    pub schema: fn() -> Value,
    /// What it may change.
    pub annotations: ToolAnnotations,
}

/// The future of one call.
pub type MethodFuture = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>;

/// A method of `S` as a tool. It holds the state and gives every call a clone of it.
pub struct MethodTool<S> {
    state: S,
    spec: MethodSpec,
    run: fn(S, String, ToolExecutionContext) -> MethodFuture,
    inline_max_bytes: Option<usize>,
    deadline: Option<Duration>,
}

impl<S> MethodTool<S> {
    /// Wraps state and method. `#[tool]` writes this call.
    #[must_use]
    pub fn new(
        state: S,
        spec: MethodSpec,
        run: fn(S, String, ToolExecutionContext) -> MethodFuture,
    ) -> Self {
        Self {
            state,
            spec,
            run,
            inline_max_bytes: None,
            deadline: None,
        }
    }

    /// Keeps results up to this size inline, whatever the server's limit: for tools that return just what was asked.
    #[must_use]
    pub fn with_inline_max_bytes(mut self, bytes: usize) -> Self {
        self.inline_max_bytes = Some(bytes);
        self
    }

    /// Gives calls this deadline instead of the server's.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }
}

impl<S> fmt::Debug for MethodTool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MethodTool")
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl<S: Clone + Send + Sync> Tool for MethodTool<S> {
    fn name(&self) -> &str {
        self.spec.name
    }

    fn description(&self) -> &str {
        self.spec.description
    }

    fn input_schema(&self) -> Value {
        (self.spec.schema)()
    }

    async fn execute(
        &self,
        input_json: &str,
        context: ToolExecutionContext,
    ) -> Result<ToolOutput, ToolError> {
        (self.run)(self.state.clone(), input_json.to_owned(), context).await
    }

    fn annotations(&self) -> ToolAnnotations {
        self.spec.annotations
    }

    fn output_limits(&self, server: OutputLimits) -> OutputLimits {
        let inline_max_bytes = self.inline_max_bytes.unwrap_or(server.inline_max_bytes);
        OutputLimits {
            inline_max_bytes,
            ..server
        }
    }

    fn deadline(&self, server: Duration) -> Duration {
        self.deadline.unwrap_or(server)
    }
}

/// Returns the schema of `T` as the model is sent it: without title and dialect, which only cost tokens, and with a
/// single type for each argument, which is all that some vendors take. An optional argument may still be sent as
/// `null`: the check of a call's arguments takes that for leaving it out.
pub(crate) fn schema<T: JsonSchema>() -> Value {
    let mut schema = schemars::schema_for!(T).to_value();
    if let Some(object) = schema.as_object_mut() {
        object.shift_remove("$schema");
        object.shift_remove("title");
        object
            .entry("properties")
            .or_insert_with(|| Value::Object(serde_json::Map::new()));
        let properties = object.get_mut("properties").and_then(Value::as_object_mut);
        for property in properties
            .into_iter()
            .flat_map(|properties| properties.values_mut())
        {
            drop_null_type(property);
        }
    }
    schema
}

/// Makes `"type": "string"` of `"type": ["string", "null"]`.
fn drop_null_type(property: &mut Value) {
    let Some(kinds) = property.get_mut("type") else {
        return;
    };
    if let Some([kind, null]) = kinds.as_array().map(Vec::as_slice)
        && null == "null"
    {
        *kinds = kind.clone();
    }
}

/// Reads the arguments of a call.
pub(crate) fn arguments<T: DeserializeOwned>(input_json: &str) -> Result<T, ToolError> {
    serde_json::from_str(input_json).map_err(|error| ToolError::InvalidArgument(error.to_string()))
}

/// What the output of `#[tool]` refers to. Not an interface for people.
#[doc(hidden)]
pub mod __macro {
    pub use schemars;
    pub use serde;

    use super::{Content, DeserializeOwned, JsonSchema, Serialize, ToolError, ToolOutput, Value};

    /// Makes the schema of a tool's arguments.
    #[must_use]
    pub fn schema<T: JsonSchema>() -> Value {
        super::schema::<T>()
    }

    /// Reads a tool's arguments.
    ///
    /// # Errors
    /// [`ToolError::InvalidArgument`] when they do not fit the type.
    pub fn arguments<T: DeserializeOwned>(input_json: &str) -> Result<T, ToolError> {
        super::arguments(input_json)
    }

    /// Makes a tool's output of a serialisable value.
    ///
    /// # Errors
    /// [`ToolError::ExecutionFailed`] when it cannot be serialised as JSON.
    pub fn output<T: Serialize>(value: &T) -> Result<ToolOutput, ToolError> {
        let value = serde_json::to_value(value).map_err(|error| failed(&error))?;
        Ok(ToolOutput::Auto(Content::from_json(value)))
    }

    /// Makes a tool's error of anything that displays.
    #[must_use]
    pub fn failed<E: std::fmt::Display + ?Sized>(error: &E) -> ToolError {
        ToolError::ExecutionFailed(error.to_string())
    }
}
