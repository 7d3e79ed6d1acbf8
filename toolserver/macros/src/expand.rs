//! Writes the tool for a method: an argument struct, and a second method that wraps both.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{
    Attribute, Expr, ExprLit, FnArg, Ident, ImplItemFn, Lit, LitStr, Meta, Pat, PatType,
    ReturnType, Type, spanned::Spanned,
};

use crate::options::Options;

/// Expands `#[tool]` on `method`.
pub(crate) fn expand(options: &Options, mut method: ImplItemFn) -> syn::Result<TokenStream> {
    check_signature(&method)?;
    let description = doc_text(&method.attrs).ok_or_else(|| {
        let message =
            "a tool needs a doc comment: it is what the model reads to know when to call it";
        syn::Error::new(method.sig.ident.span(), message)
    })?;
    let returns = Returns::of(&method.sig.output)?;
    let arguments = take_arguments(&mut method)?;

    let method_name = &method.sig.ident;
    let visibility = &method.vis;
    let tool_method = format_ident!("{method_name}_tool");
    let tool_name = options
        .name
        .clone()
        .unwrap_or_else(|| LitStr::new(&method_name.to_string(), method_name.span()));
    let Options {
        read_only,
        non_destructive,
        idempotent,
        closed_world,
        ..
    } = options;
    let (args_struct, args_type) = arguments.declaration();
    let call_arguments = arguments.call();
    let convert = returns.conversion();
    let doc = format!("Returns [`Self::{method_name}`] as a tool.");

    Ok(quote! {
        #method

        #[doc = #doc]
        #[must_use]
        #visibility fn #tool_method(&self) -> ::toolserver::MethodTool<Self> {
            #args_struct
            ::toolserver::MethodTool::new(
                ::core::clone::Clone::clone(self),
                ::toolserver::MethodSpec {
                    name: #tool_name,
                    description: #description,
                    schema: ::toolserver::__macro::schema::<#args_type>,
                    annotations: ::toolserver::ToolAnnotations {
                        read_only: #read_only,
                        destructive: !(#read_only || #non_destructive),
                        idempotent: #read_only || #idempotent,
                        open_world: !#closed_world,
                    },
                },
                |this, input, context| ::std::boxed::Box::pin(async move {
                    let arguments: #args_type = ::toolserver::__macro::arguments(&input)?;
                    let _ = &context;
                    let result = this.#method_name(#call_arguments).await;
                    #convert
                }),
            )
        }
    })
}

fn check_signature(method: &ImplItemFn) -> syn::Result<()> {
    let signature = &method.sig;
    if signature.asyncness.is_none() {
        return Err(syn::Error::new(
            signature.fn_token.span,
            "a tool is an `async fn`, so that it can be cancelled",
        ));
    }
    if !signature.generics.params.is_empty() {
        return Err(syn::Error::new(
            signature.generics.span(),
            "a tool cannot be generic: its schema must be known",
        ));
    }
    match signature.inputs.first() {
        Some(FnArg::Receiver(receiver))
            if receiver.reference.is_some() && receiver.mutability.is_none() =>
        {
            Ok(())
        }
        _ => Err(syn::Error::new(
            signature.ident.span(),
            "a tool takes `&self`: calls run at the same time",
        )),
    }
}

/// What the method takes besides `&self`.
struct Arguments {
    kind: ArgumentKind,
    /// In the order of the signature: the name of an argument, or `None` for the context.
    order: Vec<Option<Ident>>,
}

enum ArgumentKind {
    Named(Vec<Named>),
    Whole(Box<Type>),
}

struct Named {
    name: Ident,
    kind: Type,
    description: Option<LitStr>,
}

/// Reads the arguments and removes the attributes that only this macro understands.
fn take_arguments(method: &mut ImplItemFn) -> syn::Result<Arguments> {
    let mut named = Vec::new();
    let mut whole = None;
    let mut order = Vec::new();
    for argument in method.sig.inputs.iter_mut().skip(1) {
        let FnArg::Typed(argument) = argument else {
            continue;
        };
        let span = argument.span();
        let name = argument_name(argument)?;
        let marks = take_marks(&mut argument.attrs)?;
        let kind = (*argument.ty).clone();
        if last_segment_is(&kind, "ToolExecutionContext") {
            order.push(None);
            continue;
        }
        if let Type::Reference(reference) = &kind {
            let message =
                "arguments are read from JSON and must be owned: use String instead of &str";
            return Err(syn::Error::new(reference.span(), message));
        }
        order.push(Some(name.clone()));
        if marks.whole {
            whole = Some((Box::new(kind), span));
        } else {
            named.push(Named {
                name,
                kind,
                description: marks.description,
            });
        }
    }
    match whole {
        None => Ok(Arguments {
            kind: ArgumentKind::Named(named),
            order,
        }),
        Some((kind, _)) if named.is_empty() => Ok(Arguments {
            kind: ArgumentKind::Whole(kind),
            order,
        }),
        Some((_, span)) => Err(syn::Error::new(
            span,
            "`#[arguments]` takes all arguments: there can be no others",
        )),
    }
}

fn argument_name(argument: &PatType) -> syn::Result<Ident> {
    match &*argument.pat {
        Pat::Ident(pattern) => Ok(pattern.ident.clone()),
        other => Err(syn::Error::new(
            other.span(),
            "an argument needs a name: it becomes a property of the schema",
        )),
    }
}

#[derive(Default)]
struct Marks {
    description: Option<LitStr>,
    whole: bool,
}

fn take_marks(attributes: &mut Vec<Attribute>) -> syn::Result<Marks> {
    let mut marks = Marks::default();
    let mut kept = Vec::new();
    for attribute in attributes.drain(..) {
        if attribute.path().is_ident("arguments") {
            marks.whole = true;
        } else if attribute.path().is_ident("description") {
            let text = string_value(&attribute.meta);
            let message = "write #[description = \"what the argument means\"]";
            marks.description =
                Some(text.ok_or_else(|| syn::Error::new(attribute.span(), message))?);
        } else {
            kept.push(attribute);
        }
    }
    *attributes = kept;
    Ok(marks)
}

impl Arguments {
    /// Returns the struct the arguments are read into, where one is written, and its type.
    fn declaration(&self) -> (TokenStream, TokenStream) {
        match &self.kind {
            ArgumentKind::Whole(kind) => (TokenStream::new(), quote!(#kind)),
            ArgumentKind::Named(named) => {
                let fields = named.iter().map(
                    |Named {
                         name,
                         kind,
                         description,
                     }| {
                        let description = description.iter();
                        quote!(#(#[schemars(description = #description)])* #name: #kind)
                    },
                );
                let declaration = quote! {
                    #[derive(::toolserver::__macro::serde::Deserialize, ::toolserver::__macro::schemars::JsonSchema)]
                    #[serde(crate = "::toolserver::__macro::serde", deny_unknown_fields)]
                    #[schemars(crate = "::toolserver::__macro::schemars")]
                    struct Arguments { #(#fields,)* }
                };
                (declaration, quote!(Arguments))
            }
        }
    }

    /// Returns the arguments as they are passed to the method.
    fn call(&self) -> TokenStream {
        let whole = matches!(self.kind, ArgumentKind::Whole(_));
        let values = self.order.iter().map(|argument| match argument {
            None => quote!(::core::clone::Clone::clone(&context)),
            Some(_) if whole => quote!(arguments),
            Some(name) => quote!(arguments.#name),
        });
        quote!(#(#values),*)
    }
}

/// What the method returns.
struct Returns {
    output_is_tool_output: bool,
    error_is_tool_error: bool,
}

impl Returns {
    fn of(output: &ReturnType) -> syn::Result<Self> {
        let message = "a tool returns `Result<T, E>`: T serialisable, E displayable";
        let ReturnType::Type(_, kind) = output else {
            return Err(syn::Error::new(output.span(), message));
        };
        let refused = || syn::Error::new(kind.span(), message);
        let Type::Path(path) = &**kind else {
            return Err(refused());
        };
        let segment = path
            .path
            .segments
            .last()
            .filter(|segment| segment.ident == "Result")
            .ok_or_else(refused)?;
        let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments else {
            return Err(refused());
        };
        let types: Vec<&Type> = arguments
            .args
            .iter()
            .filter_map(|argument| match argument {
                syn::GenericArgument::Type(kind) => Some(kind),
                _ => None,
            })
            .collect();
        match types[..] {
            [output, error] => Ok(Self {
                output_is_tool_output: last_segment_is(output, "ToolOutput"),
                error_is_tool_error: last_segment_is(error, "ToolError"),
            }),
            _ => Err(refused()),
        }
    }

    fn conversion(&self) -> TokenStream {
        let result = if self.error_is_tool_error {
            quote!(result)
        } else {
            quote!(result.map_err(|error| ::toolserver::__macro::failed(&error)))
        };
        if self.output_is_tool_output {
            result
        } else {
            quote!(::toolserver::__macro::output(&#result?))
        }
    }
}

fn last_segment_is(kind: &Type, name: &str) -> bool {
    matches!(kind, Type::Path(path) if path.path.segments.last().is_some_and(|segment| segment.ident == name))
}

fn string_value(meta: &Meta) -> Option<LitStr> {
    match meta {
        Meta::NameValue(pair) => match &pair.value {
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Joins the doc comment, without the space that follows `///`.
fn doc_text(attributes: &[Attribute]) -> Option<String> {
    let lines = attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("doc"));
    let lines =
        lines.filter_map(|attribute| string_value(&attribute.meta).map(|line| line.value()));
    let text = lines
        .map(|line| {
            line.strip_prefix(' ')
                .unwrap_or(&line)
                .trim_end()
                .to_owned()
        })
        .collect::<Vec<_>>();
    let text = text.join("\n").trim().to_owned();
    if text.is_empty() { None } else { Some(text) }
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    fn refusal(method: ImplItemFn) -> String {
        expand(&Options::default(), method).unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_a_tool_is_told_why() {
        let cases: Vec<(ImplItemFn, &str)> = vec![
            (
                parse_quote!(
                    #[doc = "d"]
                    fn f(&self) -> Result<u8, E> {}
                ),
                "a tool is an `async fn`",
            ),
            (
                parse_quote!(
                    #[doc = "d"]
                    async fn f(&self) -> u8 {}
                ),
                "a tool returns `Result<T, E>`",
            ),
            (
                parse_quote!(
                    #[doc = "d"]
                    async fn f(&self) {}
                ),
                "a tool returns `Result<T, E>`",
            ),
            (
                parse_quote!(
                    #[doc = "d"]
                    async fn f(&self) -> io::Result<u8> {}
                ),
                "a tool returns `Result<T, E>`",
            ),
            (
                parse_quote!(
                    #[doc = "d"]
                    async fn f() -> Result<u8, E> {}
                ),
                "a tool takes `&self`",
            ),
            (
                parse_quote!(
                    #[doc = "d"]
                    async fn f(&mut self) -> Result<u8, E> {}
                ),
                "a tool takes `&self`",
            ),
            (
                parse_quote!(
                    #[doc = "d"]
                    async fn f(self) -> Result<u8, E> {}
                ),
                "a tool takes `&self`",
            ),
            (
                parse_quote!(
                    #[doc = "d"]
                    async fn f<T>(&self, t: T) -> Result<u8, E> {}
                ),
                "cannot be generic",
            ),
            (
                parse_quote!(
                    async fn f(&self) -> Result<u8, E> {}
                ),
                "needs a doc comment",
            ),
            (
                parse_quote!(
                    #[doc = "d"]
                    async fn f(&self, a: &str) -> Result<u8, E> {}
                ),
                "use String instead of &str",
            ),
            (
                parse_quote!(
                    #[doc = "d"]
                    async fn f(&self, (a, b): (u8, u8)) -> Result<u8, E> {}
                ),
                "needs a name",
            ),
            (
                parse_quote!(
                    #[doc = "d"]
                    async fn f(&self, #[description(5)] a: u8) -> Result<u8, E> {}
                ),
                "write #[description = \"what the argument means\"]",
            ),
            (
                parse_quote!(
                    #[doc = "d"]
                    async fn f(&self, #[arguments] a: A, b: u8) -> Result<u8, E> {}
                ),
                "`#[arguments]` takes all arguments",
            ),
        ];
        for (method, message) in cases {
            let shown = quote!(#method).to_string();
            let refusal = refusal(method);
            assert!(refusal.contains(message), "{shown}: {refusal}");
        }
    }

    #[test]
    fn unknown_options_are_refused() {
        for (options, message) in [
            (quote!(name = "a b"), "a tool name has 1 to 64"),
            (quote!(name = ""), "a tool name has 1 to 64"),
            (quote!(readonly), "unknown option `readonly`"),
        ] {
            let error = syn::parse2::<Options>(options).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn doc_comments_keep_their_lines() {
        let method: ImplItemFn = parse_quote! {
            /// ユーザー情報を取得する
            ///
            /// 指定されたIDのユーザーをDBから検索します。
            async fn f(&self) -> Result<u8, E> {}
        };
        let text = doc_text(&method.attrs).unwrap();
        assert_eq!(
            text,
            "ユーザー情報を取得する\n\n指定されたIDのユーザーをDBから検索します。"
        );
    }
}
