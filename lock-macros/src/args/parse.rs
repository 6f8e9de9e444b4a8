//! Parses the argument list: `name = value`, separated by commas.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::quote_spanned;
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _, discouraged::Speculative as _};
use syn::{Error, Expr, Token, token};

use super::duration;
use super::manager::{MADE_FOR_EACH_CALL, made_for_each_call};
use super::resource::ResourceSource;
use super::value::{self, Choice};
use crate::diagnostics::{Diagnostics, did_you_mean, list};
use crate::limits::{BODY_TIMEOUT, MAX_HOLD, PERMITS, RETRY_AFTER, TTL, WAIT};

/// The name of each argument, with an example of its value for diagnostics. Only `state` has no value.
const KNOWN: [(&str, &str); 19] = [
    ("resource", "\"stock:{sku}\""),
    ("key", "format!(\"stock:{sku}\")"),
    ("ttl", "\"10s\""),
    ("wait", "\"2s\""),
    ("max_hold", "\"1m\""),
    ("renew", "true"),
    ("hold", "\"body\""),
    ("adopt", "true"),
    ("mode", "\"read\""),
    ("permits", "3"),
    ("on_lost", "\"cancel\""),
    ("on_disconnect", "\"finish\""),
    ("busy_status", "409"),
    ("retry_after", "\"1s\""),
    ("body_timeout", "\"30s\""),
    ("on_error", "path::to::function"),
    ("manager", "self.locks"),
    ("state", ""),
    ("crate", "::lock_axum"),
];

const HOLD: [Choice; 2] = [("body", "BodyEnd"), ("session", SESSION_END)];
/// The variant of `HoldUntil` that takes a parameter.
const SESSION_END: &str = "SessionEnd";

const MODE: [Choice; 2] = [("read", "Read"), ("write", "Write")];
const ON_LOST: [Choice; 2] = [("cancel", "Cancel"), ("continue", "Continue")];
const ON_DISCONNECT: [Choice; 2] = [("finish", "Finish"), ("cancel", "Cancel")];
const BUSY_STATUS: [u16; 4] = [409, 423, 429, 503];

/// The arguments of the attribute. `None` leaves the choice to the lock manager.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) resource: Option<ResourceSource>,
    pub(crate) permits: Option<u32>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) wait: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) renew: Option<bool>,
    /// The variant of `HoldUntil`.
    pub(crate) hold: Option<Ident>,
    /// Whether a request's delegation is adopted.
    pub(crate) adopt: Option<bool>,
    /// The variant of `Kind`.
    pub(crate) mode: Option<Ident>,
    /// The variant of `OnLost`.
    pub(crate) on_lost: Option<Ident>,
    /// The variant of `OnDisconnect`.
    pub(crate) on_disconnect: Option<Ident>,
    pub(crate) busy_status: Option<u16>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body_timeout: Option<Duration>,
    pub(crate) on_error: Option<TokenStream>,
    pub(crate) manager: Option<Expr>,
    /// The argument `crate`.
    krate: Option<TokenStream>,
    /// The names as they were written, for errors that point at them.
    names: Vec<Ident>,
    /// Whether `manager` occurs at all, also where it could not be parsed.
    pub(crate) mentions_manager: bool,
}

impl Args {
    /// Parses as many arguments as possible, and reports the others.
    pub(crate) fn parse(tokens: TokenStream, diagnostics: &mut Diagnostics) -> Self {
        let mentions_manager =
            tokens.clone().into_iter().any(|token| matches!(token, TokenTree::Ident(name) if name == "manager"));
        let parser = |input: ParseStream<'_>| {
            let mut args = Self { mentions_manager, ..Self::default() };
            while !input.is_empty() {
                match argument(input) {
                    Ok((name, value)) => args.set(name, value.as_ref(), diagnostics),
                    Err(error) => {
                        diagnostics.push(error);
                        skip_to_comma(input);
                    }
                }
                if !input.is_empty() && diagnostics.handle(input.parse::<Token![,]>()).is_none() {
                    skip_to_comma(input);
                    let _: Option<Token![,]> = input.parse()?;
                }
            }
            args.check_resource(diagnostics);
            args.check_permits(diagnostics);
            Ok(args)
        };
        parser.parse2(tokens).unwrap_or_else(|error| {
            diagnostics.push(error);
            Self { mentions_manager, ..Self::default() }
        })
    }

    /// The name of an argument as it was written, if it was.
    pub(crate) fn name(&self, name: &str) -> Option<&Ident> {
        self.names.iter().find(|written| *written == name)
    }

    /// Whether the lock may be taken along into a session.
    pub(crate) fn holds_session(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold == SESSION_END)
    }

    /// The path of the crate that the generated code calls. A path that begins with it is reported at `span`, except that
    /// the crate itself, if it does not exist, is always reported at the attribute: rustc drops the same error at the
    /// same place.
    pub(crate) fn crate_path(&self, span: Span) -> TokenStream {
        let site = Span::mixed_site().located_at(span);
        let name = Ident::new("lock_axum", Span::mixed_site());
        self.krate.clone().unwrap_or_else(|| quote_spanned!(site=> ::#name))
    }

    fn set(&mut self, name: Ident, value: Option<&Expr>, diagnostics: &mut Diagnostics) {
        if self.name(&name.to_string()).is_some() {
            diagnostics.push(Error::new(name.span(), format!("duplicate argument `{name}`")));
            return;
        }
        if let Some(value) = value {
            self.set_value(&name.to_string(), value, diagnostics);
        }
        self.names.push(name);
    }

    fn set_value(&mut self, text: &str, value: &Expr, diagnostics: &mut Diagnostics) {
        match text {
            "resource" => self.resource = diagnostics.handle(ResourceSource::parse(value)),
            "key" => self.resource = Some(ResourceSource::Expr(value.clone())),
            "permits" => self.permits = diagnostics.handle(value::number_in(text, value, PERMITS)),
            "ttl" => self.ttl = diagnostics.handle(duration::parse(text, value, &TTL)),
            "wait" => self.wait = diagnostics.handle(duration::parse(text, value, &WAIT)),
            "max_hold" => self.max_hold = diagnostics.handle(duration::parse(text, value, &MAX_HOLD)),
            "renew" => self.renew = diagnostics.handle(value::boolean(text, value)),
            "hold" => self.hold = diagnostics.handle(value::choice(text, value, &HOLD)),
            "adopt" => self.adopt = diagnostics.handle(value::boolean(text, value)),
            "mode" => self.mode = diagnostics.handle(value::choice(text, value, &MODE)),
            "on_lost" => self.on_lost = diagnostics.handle(value::choice(text, value, &ON_LOST)),
            "on_disconnect" => self.on_disconnect = diagnostics.handle(value::choice(text, value, &ON_DISCONNECT)),
            "busy_status" => self.busy_status = diagnostics.handle(value::number(text, value, &BUSY_STATUS)),
            "retry_after" => {
                self.retry_after = diagnostics.handle(duration::parse_seconds(text, value, &RETRY_AFTER));
            }
            "body_timeout" => {
                self.body_timeout = diagnostics.handle(duration::parse(text, value, &BODY_TIMEOUT));
            }
            "on_error" => self.on_error = diagnostics.handle(value::path(text, value, "crate::errors::busy")),
            "manager" => match made_for_each_call(value) {
                Some(maker) => diagnostics.push(Error::new_spanned(maker, MADE_FOR_EACH_CALL)),
                None => self.manager = Some(value.clone()),
            },
            "crate" => self.krate = diagnostics.handle(value::path(text, value, "::my_service::lock_axum")),
            // `argument` returns known names only.
            _ => {}
        }
    }

    fn check_resource(&self, diagnostics: &mut Diagnostics) {
        match (self.name("resource"), self.name("key")) {
            // After another error nothing is reported: the argument with the error may have been meant as the resource.
            (None, None) if diagnostics.is_empty() => {
                let message = "missing `resource` or `key`: add `resource = \"stock:{sku}\"` or `key = …`";
                diagnostics.push(Error::new(Span::call_site(), message));
            }
            (Some(_), Some(key)) => {
                let message = "`resource` and `key` both define the resource: remove one of them";
                diagnostics.push(Error::new(key.span(), message));
            }
            _ => {}
        }
    }

    /// A permit is of one resource, and held alone.
    fn check_permits(&self, diagnostics: &mut Diagnostics) {
        if let (Some(_), Some(mode)) = (self.name("permits"), self.name("mode")) {
            let message = "`mode` cannot be combined with `permits`: each permit has one holder; remove one of the two";
            diagnostics.push(Error::new(mode.span(), message));
        }
        if let Some(permits) = self.name("permits")
            && self.resource.as_ref().is_some_and(ResourceSource::is_set)
        {
            let message = "`permits` cannot be combined with a list of resources: a set has locks only, because it is not known \
                           which slot a permit will have; write one `resource`, or remove `permits`";
            diagnostics.push(Error::new(permits.span(), message));
        }
    }
}

/// Parses one `name = value`, or `state`.
fn argument(input: ParseStream<'_>) -> syn::Result<(Ident, Option<Expr>)> {
    let names = || KNOWN.iter().map(|(name, _)| *name);
    if input.peek(syn::LitStr) {
        return Err(input.error("expected a named argument: write `resource = \"…\"`"));
    }
    if !input.peek(Ident::peek_any) {
        return Err(input.error(format!("expected the name of an argument: one of {}", list(names()))));
    }
    let name = Ident::parse_any(input)?;
    let Some((_, example)) = KNOWN.iter().find(|(known, _)| name == known) else {
        let hint = did_you_mean(&name.to_string(), names());
        let message = format!("unknown argument `{name}`{hint} (expected one of {})", list(names()));
        return Err(Error::new(name.span(), message));
    };
    if name == "state" {
        let is_bare = input.is_empty() || input.peek(Token![,]);
        let message = "`state` takes no value: write `state` alone; the router's state gives the manager by `FromRef`";
        return if is_bare { Ok((name, None)) } else { Err(Error::new(name.span(), message)) };
    }
    let missing_value = || Error::new(name.span(), format!("missing value of `{name}`: write `{name} = {example}`"));
    if !input.peek(Token![=]) || input.peek(Token![==]) || input.peek2(token::Comma) {
        return Err(missing_value());
    }
    input.parse::<Token![=]>()?;
    if input.is_empty() {
        return Err(missing_value());
    }
    // Parsed on a fork: how many tokens an expression consumes before it fails is unknown, and the search for the next
    // comma has to begin where the expression does.
    let fork = input.fork();
    let value = fork.parse()?;
    input.advance_to(&fork);
    Ok((name, Some(value)))
}

fn skip_to_comma(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) {
        if input.parse::<TokenTree>().is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
