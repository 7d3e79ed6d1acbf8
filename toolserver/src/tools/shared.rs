//! How tools work off the async threads, and tell a model what went wrong.

use std::error::Error;

use tokio_util::sync::CancellationToken;

use crate::{
    output::{Content, ToolOutput},
    scope::{FileBytes, ScopeError, ScopedFs},
    tool::{ToolError, ToolExecutionContext},
};

/// The largest file that is read whole.
pub(super) const FILE_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Runs blocking work on a thread for it. The work gets the call's token; dropping the call cancels it too.
pub(super) async fn blocking<T: Send + 'static>(
    context: &ToolExecutionContext,
    work: impl FnOnce(&CancellationToken) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let token = context.cancellation().child_token();
    let _cancel_when_dropped = token.clone().drop_guard();
    let task = tokio::task::spawn_blocking(move || work(&token));
    match task.await {
        Ok(result) => result,
        Err(failed) => match failed.try_into_panic() {
            // The server catches it where it catches every tool's panic.
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(ToolError::Cancelled),
        },
    }
}

/// Ends a loop whose call was cancelled.
pub(super) fn check(token: &CancellationToken) -> Result<(), ToolError> {
    if token.is_cancelled() {
        Err(ToolError::Cancelled)
    } else {
        Ok(())
    }
}

/// Makes a tool's error of an error and all its causes.
pub(super) fn failed(error: &(dyn Error + 'static)) -> ToolError {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    let texts: Vec<String> = causes.map(ToString::to_string).collect();
    ToolError::ExecutionFailed(texts.join(": "))
}

pub(super) fn invalid(message: impl Into<String>) -> ToolError {
    ToolError::InvalidArgument(message.into())
}

/// Makes an output whose place the server decides by its size.
pub(super) fn text(text: String) -> ToolOutput {
    ToolOutput::Auto(Content::Text(text))
}

/// Reads a whole file, telling which names are near if there is none.
pub(super) fn read_whole(scope: &ScopedFs, path: &str) -> Result<FileBytes, ToolError> {
    scope
        .read(path, FILE_MAX_BYTES)
        .map_err(|error| file_error(scope, path, &error))
}

/// Makes a tool's error of a failure to open or read a file.
pub(super) fn file_error(scope: &ScopedFs, path: &str, error: &ScopeError) -> ToolError {
    match error {
        ScopeError::NotFound { .. } => super::hint::missing(scope, path),
        ScopeError::TooLarge { size, .. } => ToolError::ExecutionFailed(format!(
            "{path:?} has {size} bytes, too many to be read at once (the limit is {FILE_MAX_BYTES}); read a part of it \
             with offset and limit"
        )),
        error => failed(error),
    }
}

/// Returns why bytes are no text, or the text.
pub(super) fn as_text(path: &str, bytes: Vec<u8>) -> Result<String, ToolError> {
    let total = bytes.len() as u64;
    if bytes.contains(&0) {
        return Err(binary(path, &bytes, total));
    }
    String::from_utf8(bytes).map_err(|error| binary(path, error.as_bytes(), total))
}

/// Makes the error for a file that is no text; `bytes` are some of its beginning.
pub(super) fn binary(path: &str, bytes: &[u8], total: u64) -> ToolError {
    let kind = match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "binary (it looks like UTF-16 text)",
        _ if bytes.contains(&0) => "binary (it contains NUL)",
        _ => "binary (it is not valid UTF-8)",
    };
    ToolError::ExecutionFailed(format!(
        "{path:?} is {kind}, {total} bytes; it cannot be shown as text, use shell to convert or inspect it"
    ))
}

/// Writes a number with what it counts.
pub(super) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Returns the path of the first root, for arguments that may be left out.
pub(super) fn here() -> String {
    ".".to_owned()
}
