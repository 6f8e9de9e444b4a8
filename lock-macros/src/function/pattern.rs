//! Finds the names that a pattern binds, and rewrites a pattern to match a reference.

use proc_macro2::{Ident, Span};
use syn::{FieldPat, Pat, PatWild, Token};

/// Every name that the pattern binds.
pub(crate) fn bindings(pat: &Pat) -> Vec<Ident> {
    let mut found = Vec::new();
    collect(pat, &mut found);
    found
}

fn collect(pat: &Pat, found: &mut Vec<Ident>) {
    match pat {
        Pat::Ident(pat) => {
            found.push(pat.ident.clone());
            if let Some((_, inner)) = &pat.subpat {
                collect(inner, found);
            }
        }
        Pat::Tuple(pat) => pat.elems.iter().for_each(|elem| collect(elem, found)),
        Pat::TupleStruct(pat) => pat.elems.iter().for_each(|elem| collect(elem, found)),
        Pat::Slice(pat) => pat.elems.iter().for_each(|elem| collect(elem, found)),
        Pat::Struct(pat) => pat.fields.iter().for_each(|field| collect(&field.pat, found)),
        Pat::Paren(pat) => collect(&pat.pat, found),
        Pat::Reference(pat) => collect(&pat.pat, found),
        Pat::Type(pat) => collect(&pat.pat, found),
        // Every alternative binds the same names.
        Pat::Or(pat) => pat.cases.iter().take(1).for_each(|case| collect(case, found)),
        // These bind no names or, as macros do, none that are visible here.
        _ => {}
    }
}

/// The pattern rewritten to match `&value`, so that it binds the wanted names by reference and nothing else. `None` if
/// the pattern binds none of them.
///
/// `mut`, `ref` and `&` are removed: the 2024 edition forbids them under a default binding mode, and without them every
/// edition binds a shared reference.
pub(crate) fn by_reference(pat: &Pat, wanted: &dyn Fn(&Ident) -> bool) -> Option<Pat> {
    let binds_any = bindings(pat).iter().any(wanted);
    binds_any.then(|| keep_wanted(pat.clone(), wanted))
}

fn keep_wanted(pat: Pat, wanted: &dyn Fn(&Ident) -> bool) -> Pat {
    let keep_wanted = |pat| self::keep_wanted(pat, wanted);
    match pat {
        Pat::Ident(mut pat) => {
            pat.by_ref = None;
            pat.mutability = None;
            let subpat = pat.subpat.take().map(|(at, inner)| (at, keep_wanted(*inner)));
            if !wanted(&pat.ident) {
                return subpat.map_or_else(|| wildcard(pat.ident.span()), |(_, inner)| inner);
            }
            pat.subpat = subpat.map(|(at, inner)| (at, Box::new(inner)));
            Pat::Ident(pat)
        }
        Pat::Tuple(mut pat) => {
            replace_each(pat.elems.iter_mut(), keep_wanted);
            Pat::Tuple(pat)
        }
        Pat::TupleStruct(mut pat) => {
            replace_each(pat.elems.iter_mut(), keep_wanted);
            Pat::TupleStruct(pat)
        }
        Pat::Slice(mut pat) => {
            replace_each(pat.elems.iter_mut(), keep_wanted);
            Pat::Slice(pat)
        }
        Pat::Struct(mut pat) => {
            replace_each(pat.fields.iter_mut().map(|field| &mut *field.pat), keep_wanted);
            pat.fields.iter_mut().for_each(expand_shorthand);
            Pat::Struct(pat)
        }
        Pat::Or(mut pat) => {
            replace_each(pat.cases.iter_mut(), keep_wanted);
            Pat::Or(pat)
        }
        Pat::Paren(mut pat) => {
            replace_each([&mut *pat.pat].into_iter(), keep_wanted);
            Pat::Paren(pat)
        }
        Pat::Type(pat) => keep_wanted(*pat.pat),
        Pat::Reference(pat) => keep_wanted(*pat.pat),
        other => other,
    }
}

/// Replaces each pattern in place. `Pat` has no `Default` for `mem::take`, so `_` takes its place meanwhile.
fn replace_each<'a>(pats: impl Iterator<Item = &'a mut Pat>, replace: impl Fn(Pat) -> Pat) {
    for pat in pats {
        *pat = replace(std::mem::replace(pat, wildcard(Span::mixed_site())));
    }
}

/// `Order { sku }` becomes `Order { sku: _ }` where the binding was replaced.
fn expand_shorthand(field: &mut FieldPat) {
    if field.colon_token.is_none() && !matches!(*field.pat, Pat::Ident(_)) {
        field.colon_token = Some(Token![:](Span::mixed_site()));
    }
}

fn wildcard(span: Span) -> Pat {
    Pat::Wild(PatWild { attrs: Vec::new(), underscore_token: Token![_](span) })
}

#[cfg(test)]
mod tests {
    use quote::{ToTokens as _, quote};
    use syn::parse::Parser as _;

    use super::*;

    fn parse(pat: &str) -> Pat {
        Pat::parse_single.parse_str(pat).unwrap()
    }

    #[test]
    fn finds_every_binding() {
        let names = |pat: &str| bindings(&parse(pat)).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(names("sku"), "sku");
        assert_eq!(names("_"), "");
        assert_eq!(names("mut sku"), "sku");
        assert_eq!(names("Path((a, mut b, _))"), "a b");
        assert_eq!(names("Json(Order { sku, quantity: n, .. })"), "sku n");
        assert_eq!(names("whole @ Path(ref inner)"), "whole inner");
        assert_eq!(names("[first, .., last]"), "first last");
        assert_eq!(names("State(&x)"), "x");
        assert_eq!(names("(A(x) | B(x))"), "x");
    }

    fn rewritten(pat: &str, wanted: &[&str]) -> Option<String> {
        let pat = by_reference(&parse(pat), &|name| wanted.iter().any(|wanted| name == wanted))?;
        Some(pat.to_token_stream().to_string())
    }

    #[test]
    fn keeps_only_the_wanted_bindings() {
        let check = |pat: &str, wanted: &[&str], expected: &str| {
            let expected: proc_macro2::TokenStream = expected.parse().unwrap();
            assert_eq!(rewritten(pat, wanted).unwrap(), quote!(#expected).to_string());
        };
        check("Path(mut sku)", &["sku"], "Path(sku)");
        check("Path((a, b))", &["b"], "Path((_, b))");
        check("Json(Order { sku, quantity, .. })", &["sku"], "Json(Order { sku, quantity: _, .. })");
        check("whole @ Path(ref inner)", &["inner"], "Path(inner)");
        check("whole @ Path(ref inner)", &["whole"], "whole @ Path(_)");
        check("State(&mut x)", &["x"], "State(x)");
        check("(A(x) | B(x))", &["x"], "(A(x) | B(x))");
    }

    #[test]
    fn a_pattern_without_wanted_bindings_is_omitted() {
        assert_eq!(rewritten("Path(sku)", &["other"]), None);
        assert_eq!(rewritten("_", &[]), None);
    }
}
