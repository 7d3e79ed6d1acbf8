//! Checking the arguments of a call before the tool sees them.
//!
//! The answer to wrong arguments is read by a model, so it names the place, what was found and what is accepted. A
//! schema is never allowed to fetch another one.

use jsonschema::{Draft, Validator};
use serde_json::Value;

use crate::tool::ToolError;

/// How many mistakes one answer lists.
const MISTAKES_SHOWN: usize = 3;

/// Longest text of one mistake. Some repeat the whole value.
const MISTAKE_MAX_BYTES: usize = 300;

/// The compiled schema of a tool's arguments.
pub(super) struct ArgumentSchema {
    validator: Validator,
    names: Vec<String>,
    required: Vec<String>,
}

impl ArgumentSchema {
    pub(super) fn compile(schema: &Value) -> Result<Self, String> {
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err("its type must be \"object\"".to_owned());
        }
        let required = schema.get("required").and_then(Value::as_array);
        let required = required
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .build(schema)
            .map_err(|error| error.to_string())?;
        Ok(Self {
            validator,
            names: argument_names(schema),
            required,
        })
    }

    /// Checks the text of a call's arguments. Nothing at all stands for no arguments.
    pub(super) fn check<'a>(&self, input_json: &'a str) -> Result<&'a str, ToolError> {
        let input_json = if input_json.trim().is_empty() {
            "{}"
        } else {
            input_json
        };
        let mut arguments: Value = serde_json::from_str(input_json).map_err(|error| {
            ToolError::InvalidArgument(format!("the arguments are no JSON: {error}"))
        })?;
        self.leave_out_nulls(&mut arguments);
        let mistakes: Vec<String> = self
            .validator
            .iter_errors(&arguments)
            .take(MISTAKES_SHOWN)
            .map(|error| {
                let place = error.instance_path().to_string();
                let text = error.to_string();
                let text = crate::output::fit_start(&text, MISTAKE_MAX_BYTES);
                if place.is_empty() {
                    text.into_owned()
                } else {
                    format!("{place}: {text}")
                }
            })
            .collect();
        if mistakes.is_empty() {
            return Ok(input_json);
        }
        let accepted = if self.names.is_empty() {
            "this tool takes no arguments".to_owned()
        } else {
            format!("accepted arguments: {}", self.names.join(", "))
        };
        Err(ToolError::InvalidArgument(format!(
            "{}; {accepted}",
            mistakes.join("; ")
        )))
    }

    /// Models often send `null` for an argument they mean to leave out.
    fn leave_out_nulls(&self, arguments: &mut Value) {
        if let Some(arguments) = arguments.as_object_mut() {
            arguments.retain(|name, value| {
                !value.is_null() || self.required.contains(name) || !self.names.contains(name)
            });
        }
    }
}

/// Returns the names of the arguments a schema describes.
fn argument_names(schema: &Value) -> Vec<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties
        .map(|properties| properties.keys().cloned().collect())
        .unwrap_or_default()
}
