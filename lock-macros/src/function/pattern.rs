//! Finds the names that a pattern binds, and rewrites a pattern to match a reference.

use proc_macro2::{Ident, Span};
use syn::visit_mut::{self, VisitMut};
use syn::{FieldPat, Pat, PatIdent, PatOr, PatReference, PatType, PatWild, Token};

/// Every name that the pattern binds.
pub(crate) fn bindings(pat: &Pat) -> Vec<Ident> {
    let mut bindings = Bindings(Vec::new());
    bindings.visit_pat_mut(&mut pat.clone());
    bindings.0
}

/// The names that were found. It changes nothing: syn's visitor for shared references is not otherwise needed.
struct Bindings(Vec<Ident>);

impl VisitMut for Bindings {
    fn visit_pat_ident_mut(&mut self, pat: &mut PatIdent) {
        self.0.push(pat.ident.clone());
        visit_mut::visit_pat_ident_mut(self, pat);
    }

    /// Every alternative binds the same names.
    fn visit_pat_or_mut(&mut self, pat: &mut PatOr) {
        pat.cases.iter_mut().take(1).for_each(|case| self.visit_pat_mut(case));
    }
}

/// The pattern rewritten to match `&value`, so that it binds the wanted names by reference and nothing else. `None` if
/// the pattern binds none of them.
///
/// `mut`, `ref` and `&` are removed: the 2024 edition forbids them under a default binding mode, and without them every
/// edition binds a shared reference.
pub(crate) fn by_reference(pat: &Pat, wanted: &dyn Fn(&Ident) -> bool) -> Option<Pat> {
    let binds_any = bindings(pat).iter().any(wanted);
    binds_any.then(|| {
        let mut pat = pat.clone();
        KeepWanted(wanted).visit_pat_mut(&mut pat);
        pat
    })
}

struct KeepWanted<'a>(&'a dyn Fn(&Ident) -> bool);

impl VisitMut for KeepWanted<'_> {
    fn visit_pat_mut(&mut self, pat: &mut Pat) {
        visit_mut::visit_pat_mut(self, pat);
        match pat {
            Pat::Ident(name) => {
                (name.by_ref, name.mutability) = (None, None);
                if !(self.0)(&name.ident) {
                    *pat = name.subpat.take().map_or_else(|| wildcard(name.ident.span()), |(_, inner)| *inner);
                }
            }
            Pat::Type(PatType { pat: inner, .. }) | Pat::Reference(PatReference { pat: inner, .. }) => {
                *pat = (**inner).clone();
            }
            _ => {}
        }
    }

    /// `Order { sku }` becomes `Order { sku: _ }` where the binding was replaced.
    fn visit_field_pat_mut(&mut self, field: &mut FieldPat) {
        visit_mut::visit_field_pat_mut(self, field);
        if field.colon_token.is_none() && !matches!(*field.pat, Pat::Ident(_)) {
            field.colon_token = Some(Token![:](Span::mixed_site()));
        }
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
