//! Generates the policy: how the lock is acquired and what happens when it is lost.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote_spanned};

use crate::args::{Args, ResourceSource};

/// An expression that sets what the attribute specifies; the rest is left to the manager.
pub(crate) fn expand(args: &Args) -> TokenStream {
    let site = Span::mixed_site();
    let krate = args.crate_path(site);
    let durations = [("ttl", args.ttl), ("wait", args.wait), ("max_hold", args.max_hold)];
    let mut options: Vec<_> =
        durations.into_iter().filter_map(|(name, value)| Some((name, some(&duration(value?))))).collect();
    options.extend(args.renew.map(|renew| ("renew", some(&renew.to_token_stream()))));
    let hold = args.hold.as_ref();
    options.extend(hold.map(|until| ("hold", quote_spanned!(site=> #krate::__private::HoldUntil::#until))));
    options.extend(args.adopt.map(|adopt| ("adopt", adopt.to_token_stream())));
    options.extend(kind(args).map(|kind| ("kind", quote_spanned!(site=> #krate::Kind::#kind))));
    options.extend(args.on_lost.as_ref().map(|on| ("on_lost", quote_spanned!(site=> #krate::OnLost::#on))));
    let on_disconnect = args.on_disconnect.as_ref();
    options.extend(on_disconnect.map(|on| ("on_disconnect", quote_spanned!(site=> #krate::OnDisconnect::#on))));
    options.extend(args.busy_status.map(|status| ("busy_status", status.to_token_stream())));
    options.extend(args.retry_after.map(|after| ("retry_after", duration(after))));
    let templates = args.resource.as_ref().map_or(&[][..], ResourceSource::templates);
    if !templates.is_empty() {
        let texts = templates.iter().map(|template| &template.text);
        options.push(("templates", quote_spanned!(site=> ::std::vec![#(::core::convert::Into::into(#texts)),*])));
    }

    if options.is_empty() {
        return quote_spanned!(site=> <#krate::__private::Policy as ::core::default::Default>::default());
    }
    // Assignments, because `..Policy::default()` in a struct expression is a clippy warning if it fills in no field.
    let assignments = options.into_iter().map(|(name, value)| {
        let name = Ident::new(name, site);
        quote_spanned!(site=> __policy.#name = #value;)
    });
    quote_spanned! {site=>
        {
            let mut __policy = <#krate::__private::Policy as ::core::default::Default>::default();
            #(#assignments)*
            __policy
        }
    }
}

/// The variant of `Kind`, if `mode` or `permits` is written.
fn kind(args: &Args) -> Option<TokenStream> {
    match (args.permits, &args.mode) {
        (Some(permits), _) => Some(quote_spanned!(Span::mixed_site()=> Permit { of: #permits })),
        (None, mode) => mode.as_ref().map(ToTokens::to_token_stream),
    }
}

fn some(value: &TokenStream) -> TokenStream {
    quote_spanned!(Span::mixed_site()=> ::core::option::Option::Some(#value))
}

fn duration(value: Duration) -> TokenStream {
    let (seconds, nanoseconds) = (value.as_secs(), value.subsec_nanos());
    quote_spanned!(Span::mixed_site()=> ::core::time::Duration::new(#seconds, #nanoseconds))
}
