//! Which of the two functions of a handler an attribute belongs to.

use syn::{Attribute, Meta, Path};

use crate::validate::ends_with;

/// Those that describe the handler as axum and the rest of the crate see it. Lint levels reach the inner function from
/// there, since it stands inside. All others, such as `instrument`, stay with the user's parameters and body.
pub(crate) fn is_outer(attr: &Attribute) -> bool {
    const OUTER: [&str; 11] = [
        "doc",
        "cfg",
        "cfg_attr",
        "allow",
        "warn",
        "deny",
        "forbid",
        "expect",
        "deprecated",
        "must_use",
        "debug_handler",
    ];
    let path = attr.path();
    let builtin = path.get_ident().is_some_and(|ident| OUTER.iter().any(|outer| ident == outer));
    builtin || ends_with(path, "debug_handler") || is_utoipa_path(path, &attr.meta)
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
        let outer: [Attribute; 9] = [
            parse_quote!(#[doc = " Docs."]),
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
        let inner: [Attribute; 4] = [
            parse_quote!(#[instrument(skip(db))]),
            parse_quote!(#[tracing::instrument]),
            parse_quote!(#[inline]),
            parse_quote!(#[other::path(get)]),
        ];
        assert!(!inner.iter().any(is_outer));
    }
}
