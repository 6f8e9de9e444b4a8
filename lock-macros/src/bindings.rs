//! The names that a pattern binds, and the same pattern matched against a reference.

use proc_macro2::{Ident, Span};
use syn::{FieldPat, Pat, PatWild, Token};

/// Every name that the pattern binds.
pub(crate) fn names(pat: &Pat) -> Vec<Ident> {
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
        // Every case binds the same names.
        Pat::Or(pat) => pat.cases.iter().take(1).for_each(|case| collect(case, found)),
        // These bind nothing, or nothing that can be known here.
        _ => {}
    }
}

/// The pattern as it matches `&value`, binding references to the wanted names and nothing else.
///
/// `mut`, `ref` and `&` are dropped: under a default binding mode edition 2024 forbids them, and each edition then binds a
/// shared reference. The result binds nothing, and can be left out, if it is `None`.
pub(crate) fn by_reference(pat: &Pat, wanted: &dyn Fn(&Ident) -> bool) -> Option<Pat> {
    if !names(pat).iter().any(wanted) {
        return None;
    }
    Some(strip(pat.clone(), wanted))
}

fn strip(pat: Pat, wanted: &dyn Fn(&Ident) -> bool) -> Pat {
    let strip = |pat| self::strip(pat, wanted);
    match pat {
        Pat::Ident(mut pat) => {
            pat.by_ref = None;
            pat.mutability = None;
            let subpat = pat.subpat.take().map(|(at, inner)| (at, strip(*inner)));
            if !wanted(&pat.ident) {
                return subpat.map_or_else(|| wild(pat.ident.span()), |(_, inner)| inner);
            }
            pat.subpat = subpat.map(|(at, inner)| (at, Box::new(inner)));
            Pat::Ident(pat)
        }
        Pat::Tuple(mut pat) => {
            each(pat.elems.iter_mut(), strip);
            Pat::Tuple(pat)
        }
        Pat::TupleStruct(mut pat) => {
            each(pat.elems.iter_mut(), strip);
            Pat::TupleStruct(pat)
        }
        Pat::Slice(mut pat) => {
            each(pat.elems.iter_mut(), strip);
            Pat::Slice(pat)
        }
        Pat::Struct(mut pat) => {
            each(pat.fields.iter_mut().map(|field| &mut *field.pat), strip);
            pat.fields.iter_mut().for_each(spell_out);
            Pat::Struct(pat)
        }
        Pat::Or(mut pat) => {
            each(pat.cases.iter_mut(), strip);
            Pat::Or(pat)
        }
        Pat::Paren(mut pat) => {
            each([&mut *pat.pat].into_iter(), strip);
            Pat::Paren(pat)
        }
        Pat::Type(pat) => strip(*pat.pat),
        Pat::Reference(pat) => strip(*pat.pat),
        other => other,
    }
}

fn each<'a>(pats: impl Iterator<Item = &'a mut Pat>, strip: impl Fn(Pat) -> Pat) {
    for pat in pats {
        *pat = strip(std::mem::replace(pat, wild(Span::mixed_site())));
    }
}

/// `Order { sku }` becomes `Order { sku: _ }` where the name was replaced.
fn spell_out(field: &mut FieldPat) {
    if field.colon_token.is_none() && !matches!(*field.pat, Pat::Ident(_)) {
        field.colon_token = Some(Token![:](Span::mixed_site()));
    }
}

fn wild(span: Span) -> Pat {
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
        let names = |pat: &str| names(&parse(pat)).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
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

    fn stripped(pat: &str, wanted: &[&str]) -> Option<String> {
        let pat = by_reference(&parse(pat), &|name| wanted.iter().any(|wanted| name == wanted))?;
        Some(pat.to_token_stream().to_string())
    }

    #[test]
    fn keeps_what_is_wanted() {
        let check = |pat: &str, wanted: &[&str], expected: &str| {
            let expected: proc_macro2::TokenStream = expected.parse().unwrap();
            assert_eq!(stripped(pat, wanted).unwrap(), quote!(#expected).to_string());
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
    fn leaves_out_what_binds_nothing_wanted() {
        assert_eq!(stripped("Path(sku)", &["other"]), None);
        assert_eq!(stripped("_", &[]), None);
    }
}
