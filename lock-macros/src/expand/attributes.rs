//! Assigns the attributes of a handler to one of the two functions that it becomes.

use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Path, Token};

use crate::function::ends_with;

/// Whether an attribute belongs to the outer function, the one that axum and the rest of the crate see. Lint levels
/// apply to the inner function from there, since it is nested. All other attributes, such as `instrument`, stay with
/// the user's parameters and body.
pub(crate) fn is_outer(attr: &Attribute) -> bool {
    if attr.path().is_ident("cfg_attr") {
        return conditional(attr).is_some_and(|metas| metas.iter().all(is_outer_meta));
    }
    is_outer_meta(&attr.meta)
}

/// The attributes in a `#[cfg_attr(predicate, …)]`.
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

/// Whether this is `#[utoipa::path(…)]`, or `#[path(…)]` if that was imported. The builtin `#[path = "…"]`, which is
/// for modules, takes no list.
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
    fn descriptions_of_the_handler_move_to_the_outer_function() {
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
    fn other_attributes_stay_with_the_body() {
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
