//! The `#[tool]` attribute, re-exported by the `toolserver` crate, which documents it.

use proc_macro::TokenStream;
use syn::parse_macro_input;

mod expand;
mod options;

/// Makes a tool out of an async method of a `Clone` type.
///
/// For a method `get_user` it adds a method `get_user_tool`, which returns a `toolserver::MethodTool` holding a clone
/// of `self`; that is what a server registers.
///
/// - The doc comment becomes the description the model reads.
/// - Every argument becomes a property of the schema; `#[description = "…"]` on it becomes the property's description,
///   and an `Option` is not required. Unknown properties are refused.
/// - One argument marked `#[arguments]` instead takes all of them as one type with `Deserialize` and `JsonSchema`.
/// - An argument of type `ToolExecutionContext` gets the context of the call and is not part of the schema.
/// - The method returns `Result<T, E>`: `T` is anything serialisable (a string is shown as text, everything else as
///   JSON) or a `ToolOutput`; `E` is anything that displays, or a `ToolError`.
///
/// Options: `#[tool(name = "…")]` for another name than the method's; `read_only`, `non_destructive`, `idempotent` and
/// `closed_world` for the annotations.
///
/// ```
/// use toolserver::{Tool, ToolExecutionContext, tool};
///
/// #[derive(Clone)]
/// struct Greeter;
///
/// impl Greeter {
///     /// Greets somebody by name.
///     #[tool(read_only)]
///     async fn greet(&self, #[description = "Who is greeted"] name: String) -> Result<String, std::fmt::Error> {
///         Ok(format!("Hello {name}"))
///     }
/// }
///
/// let tool = Greeter.greet_tool();
/// assert_eq!(tool.description(), "Greets somebody by name.");
/// assert_eq!(tool.input_schema()["properties"]["name"]["description"], "Who is greeted");
/// ```
///
/// A method that is not async, or returns no `Result`, is refused:
///
/// ```compile_fail
/// #[derive(Clone)]
/// struct Greeter;
///
/// impl Greeter {
///     /// Greets.
///     #[toolserver::tool]
///     fn greet(&self) -> Result<String, std::fmt::Error> {
///         Ok("Hello".into())
///     }
/// }
/// ```
///
/// So is a type that cannot be cloned:
///
/// ```compile_fail
/// struct Greeter;
///
/// impl Greeter {
///     /// Greets.
///     #[toolserver::tool]
///     async fn greet(&self) -> Result<String, std::fmt::Error> {
///         Ok("Hello".into())
///     }
/// }
/// ```
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    let options = parse_macro_input!(options as options::Options);
    let method = parse_macro_input!(item as syn::ImplItemFn);
    expand::expand(&options, method)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
