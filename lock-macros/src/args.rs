//! The arguments of the attribute: `name = value`, separated by commas.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _, discouraged::Speculative as _};
use syn::{Error, Expr, Token, token};

use crate::report::{Report, did_you_mean, list};
use crate::template::Template;
use crate::{duration, value};

/// Every argument, with an example of its value.
const KNOWN: [(&str, &str); 12] = [
    ("resource", "\"stock:{sku}\""),
    ("key", "format!(\"stock:{sku}\")"),
    ("ttl", "\"10s\""),
    ("wait", "\"2s\""),
    ("max_hold", "\"1m\""),
    ("renew", "true"),
    ("on_lost", "\"cancel\""),
    ("on_disconnect", "\"finish\""),
    ("busy_status", "409"),
    ("on_error", "path::to::function"),
    ("manager", "self.locks"),
    ("crate", "::lock_axum"),
];

/// What was written in the parentheses of the attribute.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) key: Option<Key>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) wait: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) renew: Option<bool>,
    /// The variant of `OnLost`.
    pub(crate) on_lost: Option<Ident>,
    /// The variant of `OnDisconnect`.
    pub(crate) on_disconnect: Option<Ident>,
    pub(crate) busy_status: Option<u16>,
    pub(crate) on_error: Option<TokenStream>,
    pub(crate) manager: Option<Expr>,
    pub(crate) krate: Option<TokenStream>,
    /// The names as they were written, for errors that point at them.
    names: Vec<Ident>,
}

/// Where the name of the resource comes from.
pub(crate) enum Key {
    Template(Template),
    Expr(Expr),
}

impl Args {
    /// Reads as much as can be read, and reports the rest.
    pub(crate) fn parse(tokens: TokenStream, report: &mut Report) -> Self {
        let parser = |input: ParseStream<'_>| {
            let mut args = Self::default();
            while !input.is_empty() {
                match argument(input) {
                    Ok((name, value)) => args.set(name, &value, report),
                    Err(error) => {
                        report.push(error);
                        skip_to_comma(input);
                    }
                }
                if !input.is_empty() && report.take(input.parse::<Token![,]>()).is_none() {
                    skip_to_comma(input);
                    let _: Option<Token![,]> = input.parse()?;
                }
            }
            args.check_key(report);
            Ok(args)
        };
        parser.parse2(tokens).unwrap_or_else(|error| {
            report.push(error);
            Self::default()
        })
    }

    /// The name of an argument that was written.
    pub(crate) fn name(&self, name: &str) -> Option<&Ident> {
        self.names.iter().find(|written| *written == name)
    }

    fn set(&mut self, name: Ident, value: &Expr, report: &mut Report) {
        if self.name(&name.to_string()).is_some() {
            report.push(Error::new(name.span(), format!("`{name}` is given twice")));
            return;
        }
        let text = name.to_string();
        let text = text.as_str();
        match text {
            "resource" => self.key = report.take(Template::parse(value)).map(Key::Template),
            "key" => self.key = Some(Key::Expr(value.clone())),
            "ttl" => self.ttl = report.take(duration::parse(text, value, &duration::TTL)),
            "wait" => self.wait = report.take(duration::parse(text, value, &duration::WAIT)),
            "max_hold" => self.max_hold = report.take(duration::parse(text, value, &duration::MAX_HOLD)),
            "renew" => self.renew = report.take(value::boolean(text, value)),
            "on_lost" => {
                let choices = [("cancel", "Cancel"), ("continue", "Continue")];
                self.on_lost = report.take(value::choice(text, value, &choices));
            }
            "on_disconnect" => {
                let choices = [("finish", "Finish"), ("cancel", "Cancel")];
                self.on_disconnect = report.take(value::choice(text, value, &choices));
            }
            "busy_status" => self.busy_status = report.take(value::number(text, value, &[409, 423, 429, 503])),
            "on_error" => self.on_error = report.take(value::path(text, value, "crate::errors::busy")),
            "manager" => self.manager = Some(value.clone()),
            "crate" => self.krate = report.take(value::path(text, value, "::my_service::lock_axum")),
            // `argument` lets only known names pass.
            _ => return,
        }
        self.names.push(name);
    }

    fn check_key(&self, report: &mut Report) {
        match (self.name("resource"), self.name("key")) {
            // The argument that was not understood may have been meant for it.
            (None, None) if report.is_empty() => {
                let message = "what to lock is missing: add `resource = \"stock:{sku}\"` or `key = …`";
                report.push(Error::new(Span::call_site(), message));
            }
            (Some(_), Some(key)) => {
                let message = "`resource` and `key` both name the resource: keep one of them";
                report.push(Error::new(key.span(), message));
            }
            _ => {}
        }
    }
}

fn argument(input: ParseStream<'_>) -> syn::Result<(Ident, Expr)> {
    let names = || KNOWN.iter().map(|(name, _)| *name);
    if input.peek(syn::LitStr) {
        return Err(input.error("arguments have names: write `resource = \"…\"`"));
    }
    if !input.peek(Ident::peek_any) {
        return Err(input.error(format!("expected the name of an argument, one of {}", list(names()))));
    }
    let name = Ident::parse_any(input)?;
    let Some((_, example)) = KNOWN.iter().find(|(known, _)| name == known) else {
        let hint = did_you_mean(&name.to_string(), names());
        let message = format!("unknown argument `{name}`{hint} (known are {})", list(names()));
        return Err(Error::new(name.span(), message));
    };
    if !input.peek(Token![=]) || input.peek(Token![==]) || input.peek2(token::Comma) {
        return Err(Error::new(name.span(), format!("`{name}` needs a value: `{name} = {example}`")));
    }
    input.parse::<Token![=]>()?;
    if input.is_empty() {
        return Err(Error::new(name.span(), format!("`{name}` needs a value: `{name} = {example}`")));
    }
    // A fork, since what an expression consumed before it failed is unknown: the next comma is to be found from its start.
    let fork = input.fork();
    let value = fork.parse()?;
    input.advance_to(&fork);
    Ok((name, value))
}

fn skip_to_comma(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) {
        if input.parse::<TokenTree>().is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    fn messages(tokens: TokenStream) -> Vec<String> {
        let mut report = Report::default();
        Args::parse(tokens, &mut report);
        report.into_result().err().into_iter().flatten().map(|error| error.to_string()).collect()
    }

    #[test]
    fn every_argument_is_read() {
        let mut report = Report::default();
        let args = Args::parse(
            quote! {
                resource = "stock:{sku}", ttl = "10s", wait = "2s", max_hold = "1m", renew = false, on_lost = "continue",
                on_disconnect = "cancel", busy_status = 423, on_error = errors::busy::<A, B>, manager = self.locks(1, 2),
                crate = ::shop::lock_axum,
            },
            &mut report,
        );
        report.into_result().unwrap();
        assert!(matches!(args.key, Some(Key::Template(_))));
        assert_eq!(args.ttl, Some(Duration::from_secs(10)));
        assert_eq!(args.wait, Some(Duration::from_secs(2)));
        assert_eq!(args.max_hold, Some(Duration::from_secs(60)));
        assert_eq!(args.renew, Some(false));
        assert_eq!(args.on_lost.unwrap(), "Continue");
        assert_eq!(args.on_disconnect.unwrap(), "Cancel");
        assert_eq!(args.busy_status, Some(423));
        assert!(args.on_error.is_some() && args.manager.is_some() && args.krate.is_some());
        assert_eq!(args.names.len(), KNOWN.len() - 1, "all but `key`");
    }

    #[test]
    fn what_is_not_written_is_left_to_the_manager() {
        let mut report = Report::default();
        let args = Args::parse(quote!(key = format!("{a},{b}", a = 1)), &mut report);
        report.into_result().unwrap();
        assert!(matches!(args.key, Some(Key::Expr(_))));
        assert!(args.ttl.is_none() && args.renew.is_none() && args.on_lost.is_none() && args.manager.is_none());
    }

    #[test]
    fn an_unknown_name_is_reported_with_the_known_ones() {
        let [message] = &messages(quote!(resource = "a", tll = "10s"))[..] else { panic!("one message") };
        assert!(message.starts_with("unknown argument `tll`; did you mean `ttl`? (known are `resource`, `key`, "));
        let [message] = &messages(quote!(resource = "a", colour("red")))[..] else { panic!("one message") };
        assert!(message.starts_with("unknown argument `colour` (known are "), "{message}");
    }

    #[test]
    fn a_doubled_name_is_reported() {
        assert_eq!(messages(quote!(resource = "a", ttl = "1s", ttl = "1s")), ["`ttl` is given twice"]);
        assert_eq!(messages(quote!(resource = "a", resource = "{}")), ["`resource` is given twice"]);
    }

    #[test]
    fn the_resource_is_named_once() {
        let missing = "what to lock is missing: add `resource = \"stock:{sku}\"` or `key = …`";
        assert_eq!(messages(quote!()), [missing]);
        assert_eq!(messages(quote!(ttl = "1s")), [missing]);
        let both = "`resource` and `key` both name the resource: keep one of them";
        assert_eq!(messages(quote!(resource = "a", key = b)), [both]);
        assert_eq!(messages(quote!(key = b, resource = "a")), [both]);
    }

    #[test]
    fn a_value_is_needed() {
        let message = "`ttl` needs a value: `ttl = \"10s\"`";
        for tokens in [quote!(ttl), quote!(ttl,), quote!(ttl =), quote!(ttl = ,), quote!(ttl("10s")), quote!(ttl == 1)]
        {
            assert_eq!(messages(quote!(resource = "a", #tokens)), [message], "{tokens}");
        }
        let names = "arguments have names: write `resource = \"…\"`";
        assert_eq!(messages(quote!("stock:{sku}", resource = "a")), [names]);
    }

    #[test]
    fn one_error_does_not_hide_the_next() {
        assert_eq!(
            messages(quote!(tll = "10s", 5, ttl = "1x", renew = 1, wait = , resource = "{", busy_status)).len(),
            7
        );
        assert_eq!(
            messages(quote!(resource = "a" ttl = "1s", renew = 1)),
            ["expected `,`", "`renew` must be `true` or `false`"]
        );
    }
}
