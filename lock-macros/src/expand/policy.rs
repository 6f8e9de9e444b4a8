//! The options of the lock.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};

use super::{at, krate, start};
use crate::args::Args;

/// An expression with those options that were written; the rest are the manager's.
pub(crate) fn expand(args: &Args) -> TokenStream {
    let site = Span::mixed_site();
    let krate = krate(args, site);
    let durations = [("ttl", args.ttl), ("wait", args.wait), ("max_hold", args.max_hold)];
    let mut options: Vec<_> =
        durations.into_iter().filter_map(|(name, value)| Some((name, some(&duration(value?))))).collect();
    options.extend(args.renew.map(|renew| ("renew", some(&renew.to_token_stream()))));
    options.extend(args.on_lost.as_ref().map(|on| ("on_lost", quote_spanned!(site=> #krate::OnLost::#on))));
    let on_disconnect = args.on_disconnect.as_ref();
    options.extend(on_disconnect.map(|on| ("on_disconnect", quote_spanned!(site=> #krate::OnDisconnect::#on))));
    options.extend(args.busy_status.map(|status| ("busy_status", status.to_token_stream())));
    options.extend(args.on_error.as_ref().map(|path| ("on_error", some(&on_error(path, &krate)))));

    if options.is_empty() {
        return quote_spanned!(site=> #krate::__private::Policy::new());
    }
    // Assignments, since a struct expression would have to know whether any field is left.
    let assignments = options.into_iter().map(|(name, value)| {
        let name = Ident::new(name, site);
        quote_spanned!(site=> __policy.#name = #value;)
    });
    quote_spanned! {site=>
        {
            let mut __policy = #krate::__private::Policy::new();
            #(#assignments)*
            __policy
        }
    }
}

fn some(value: &TokenStream) -> TokenStream {
    quote_spanned!(Span::mixed_site()=> ::core::option::Option::Some(#value))
}

/// A function that answers with what the user's function returns, located at its path: it is the one that may not fit.
fn on_error(path: &TokenStream, krate: &TokenStream) -> TokenStream {
    quote_spanned! {at(start(path))=>
        |__error: #krate::LockError| #krate::__private::into_response(#path(__error))
    }
}

fn duration(value: Duration) -> TokenStream {
    let (seconds, nanoseconds) = (value.as_secs(), value.subsec_nanos());
    quote_spanned!(Span::mixed_site()=> ::core::time::Duration::new(#seconds, #nanoseconds))
}
