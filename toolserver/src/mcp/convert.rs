//! Our types as rmcp's. The wire's names and defaults are decided here and nowhere else.

use std::sync::Arc;

use protocol::{BLOB_META_KEY, BlobKind, BlobRef};
use rmcp::model::{
    CallToolResult, ContentBlock, MetaObject, Resource, Tool as McpTool,
    ToolAnnotations as McpAnnotations,
};
use serde_json::Value;

use crate::{
    server::{ToolInfo, ToolReply},
    tool::ToolAnnotations,
};

/// Describes a tool as `tools/list` does.
pub(super) fn tool(info: ToolInfo) -> McpTool {
    let schema = match info.input_schema {
        Value::Object(schema) => schema,
        // The registry takes nothing but object schemas.
        _ => serde_json::Map::new(),
    };
    McpTool::new(info.name, info.description, Arc::new(schema))
        .with_annotations(annotations(info.annotations))
}

/// Says the hints that differ from the protocol's defaults, and those that clients look for by name.
fn annotations(hints: ToolAnnotations) -> McpAnnotations {
    let mut wire = McpAnnotations::new().read_only(hints.read_only);
    if !hints.read_only {
        wire = wire
            .destructive(hints.destructive)
            .idempotent(hints.idempotent);
    }
    wire.open_world(hints.open_world)
}

/// Makes the result of a call that went well: the text, then a link to the stored result; facts for programs in
/// `_meta`.
pub(super) fn result(reply: ToolReply) -> CallToolResult {
    let mut content = vec![ContentBlock::text(reply.text)];
    let Some(blob) = reply.blob else {
        return CallToolResult::success(content);
    };
    content.push(ContentBlock::resource_link(resource(&blob)));
    let mut meta = MetaObject::default();
    let facts = serde_json::to_value(&blob).expect("ids, names and numbers always serialise");
    meta.0.insert(BLOB_META_KEY.to_owned(), facts);
    let mut result = CallToolResult::success(content);
    result.meta = Some(meta);
    result
}

/// Describes a blob as an MCP resource.
pub(super) fn resource(blob: &BlobRef) -> Resource {
    Resource::new(blob.id.uri(), blob.name.as_str())
        .with_mime_type(mime_type(blob.kind))
        .with_size(blob.bytes)
}

pub(super) fn mime_type(kind: BlobKind) -> &'static str {
    if kind == BlobKind::Text {
        "text/plain"
    } else {
        "application/json"
    }
}
