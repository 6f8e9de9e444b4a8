//! Which of the two functions of a handler an attribute belongs to.

use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Path, Token};

use crate::validate::ends_with;

/// Those that describe the handler as axum and the rest of the crate see it. Lint levels reach the inner function from
/// there, since it stands inside. All others, such as `instrument`, stay with the user's parameters and body.
pub(crate) fn is_outer(attr: &Attribute) -> bool {
    if attr.path().is_ident("cfg_attr") {
        return conditional(attr).is_some_and(|metas| metas.iter().all(is_outer_meta));
    }
    is_outer_meta(&attr.meta)
}

/// The attributes that a `#[cfg_attr(predicate, …)]` stands for.
fn conditional(attr: &Attribute) -> Option<Vec<Meta>> {
    let metas = attr.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
    Some(metas.into_iter().skip(1).collect())
}

fn is_outer_meta(meta: &Meta) -> bool {
    const OUTER: [&str; 10] =
        ["doc", "cfg", "allow", "warn", "deny", "forbid", "expect", "deprecated", "must_use", "debug_handler"];
    let path = meta.path();
    let builtin = path.get_ident().is_some_and(|ident| OUTER.iter().any(|outer| ident == outer));
    builtin || ends_with(path, "debug_handler") || is_utoipa_path(path, meta)
}

/// `#[utoipa::path(…)]`, or `#[path(…)]` when it was imported; the builtin `#[path = "…"]` stands on modules only.
fn is_utoipa_path(path: &Path, meta: &Meta) -> bool {
    ends_with(path, "path")
        && matches!(meta, Meta::List(_))
        && (path.segments.len() == 1
            || path.segments.iter().rev().nth(1).is_some_and(|segment| segment.ident == "utoipa"))
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn what_describes_the_handler_goes_out() {
        let outer: [Attribute; 10] = [
            parse_quote!(#[doc = " Docs."]),
            parse_quote!(#[cfg_attr(all(docsrs, feature = "x"), doc = "More.", must_use)]),
            parse_quote!(#[allow(unused)]),
            parse_quote!(#[expect(dead_code, reason = "…")]),
            parse_quote!(#[deprecated]),
            parse_quote!(#[debug_handler]),
            parse_quote!(#[axum::debug_handler(state = App)]),
            parse_quote!(#[utoipa::path(get, path = "/")]),
            parse_quote!(#[::utoipa::path(get, path = "/")]),
            parse_quote!(#[path(get, path = "/")]),
        ];
        assert!(outer.iter().all(is_outer));
    }

    #[test]
    fn the_rest_stays_with_the_body() {
        let inner: [Attribute; 5] = [
            parse_quote!(#[instrument(skip(db))]),
            parse_quote!(#[cfg_attr(feature = "otel", tracing::instrument(skip(db)))]),
            parse_quote!(#[tracing::instrument]),
            parse_quote!(#[inline]),
            parse_quote!(#[other::path(get)]),
        ];
        assert!(!inner.iter().any(is_outer));
    }
}
