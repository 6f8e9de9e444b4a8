use std::slice;

use syn::{Error, Expr, Ident};

use super::template::{Placeholder, Template};
use crate::diagnostics::Diagnostics;
use crate::limits::MAX_SET_LEN;

/// Where the resource comes from, or the resources of a set.
pub(crate) enum ResourceSource {
    /// `resource = "…"`
    Template(Template),
    /// `resource = ["…", "…"]`
    Set(Vec<Template>),
    /// `key = …`
    Expr(Expr),
}

impl ResourceSource {
    /// The value of `resource`.
    pub(super) fn parse(value: &Expr) -> syn::Result<Self> {
        match value {
            Expr::Group(group) => Self::parse(&group.expr),
            Expr::Array(array) => {
                let mut diagnostics = Diagnostics::default();
                let count = array.elems.len();
                if !(1..=MAX_SET_LEN).contains(&count) {
                    let message = format!("`resource` must list between 1 and {MAX_SET_LEN} resources, got {count}");
                    diagnostics.push(Error::new_spanned(array, message));
                }
                let templates =
                    array.elems.iter().filter_map(|elem| diagnostics.handle(Template::parse_in_list(elem))).collect();
                diagnostics.into_result()?;
                Ok(Self::Set(templates))
            }
            value if is_other_list(value) => {
                let message = "write a list of resources as `resource = [\"…\", \"…\"]`, an array of string literals, without `vec!` or `&`";
                Err(Error::new_spanned(value, message))
            }
            value => Template::parse(value).map(Self::Template),
        }
    }

    pub(crate) fn templates(&self) -> &[Template] {
        match self {
            Self::Template(template) => slice::from_ref(template),
            Self::Set(templates) => templates,
            Self::Expr(_) => &[],
        }
    }

    pub(crate) fn placeholders(&self) -> impl Iterator<Item = &Placeholder> {
        self.templates().iter().flat_map(Template::placeholders)
    }

    /// Whether the resource may need this binding. An expression may hide names in macros such as `format!`, so it may need all.
    pub(crate) fn may_need(&self, name: &Ident) -> bool {
        matches!(self, Self::Expr(_)) || self.placeholders().any(|placeholder| placeholder.refers_to(name))
    }

    pub(crate) fn is_set(&self) -> bool {
        matches!(self, Self::Set(_))
    }
}

/// Whether this looks like several resources, but is not an array: `vec![…]` or `&[…]`.
fn is_other_list(value: &Expr) -> bool {
    match value {
        Expr::Macro(value) => value.mac.path.segments.last().is_some_and(|segment| segment.ident == "vec"),
        Expr::Reference(value) => matches!(&*value.expr, Expr::Array(_)) || is_other_list(&value.expr),
        Expr::Group(value) => is_other_list(&value.expr),
        Expr::Paren(value) => matches!(&*value.expr, Expr::Array(_)) || is_other_list(&value.expr),
        _ => false,
    }
}
