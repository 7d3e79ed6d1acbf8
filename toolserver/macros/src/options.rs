//! The options in the parentheses of `#[tool(…)]`.

use syn::{
    Ident, LitStr, Token,
    parse::{Parse, ParseStream},
};

/// What `#[tool(…)]` says.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) name: Option<LitStr>,
    pub(crate) read_only: bool,
    pub(crate) non_destructive: bool,
    pub(crate) idempotent: bool,
    pub(crate) closed_world: bool,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut options = Self::default();
        while !input.is_empty() {
            let word: Ident = input.parse()?;
            match word.to_string().as_str() {
                "name" => {
                    input.parse::<Token![=]>()?;
                    options.name = Some(checked_name(input.parse()?)?);
                }
                "read_only" => options.read_only = true,
                "non_destructive" => options.non_destructive = true,
                "idempotent" => options.idempotent = true,
                "closed_world" => options.closed_world = true,
                other => {
                    let known =
                        "name = \"…\", read_only, non_destructive, idempotent, closed_world";
                    return Err(syn::Error::new(
                        word.span(),
                        format!("unknown option `{other}`; known are {known}"),
                    ));
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

/// Checks a tool name by the narrowest rule among model vendors.
fn checked_name(name: LitStr) -> syn::Result<LitStr> {
    let text = name.value();
    let fits = (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if fits {
        Ok(name)
    } else {
        Err(syn::Error::new(
            name.span(),
            "a tool name has 1 to 64 of the characters A-Z a-z 0-9 _ -",
        ))
    }
}
