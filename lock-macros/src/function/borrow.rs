//! Finds in a parameter's type what a handler cannot take: something borrowed, or `impl Trait`.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::visit_mut::{self, VisitMut};
use syn::{
    GenericArgument, Lifetime, ParenthesizedGenericArguments, PathArguments, PathSegment, TraitBound, Type,
    TypeImplTrait, TypeReference,
};

/// Something borrowed in the type of a parameter.
pub(crate) struct Borrowed {
    /// What an error points at: `&T`, `Cow<'a, T>`, also with an elided lifetime, or the lifetime of any other type.
    pub(crate) written: TokenStream,
    /// The owned type to write instead, where it is known.
    pub(crate) owned: Option<String>,
}

/// The first part of the type that is borrowed for less than `'static`.
pub(crate) fn borrowed(ty: &Type) -> Option<Borrowed> {
    let mut finder = Finder::default();
    finder.visit_type_mut(&mut ty.clone());
    finder.borrowed
}

/// The first `impl Trait` in the type.
pub(crate) fn impl_trait(ty: &Type) -> Option<TypeImplTrait> {
    let mut finder = Finder::default();
    finder.visit_type_mut(&mut ty.clone());
    finder.impl_trait
}

/// Keeps what it finds first. It changes nothing: syn's visitor for shared references is not otherwise needed.
#[derive(Default)]
struct Finder {
    borrowed: Option<Borrowed>,
    impl_trait: Option<TypeImplTrait>,
}

impl Finder {
    fn found(&mut self, written: &impl ToTokens, owned: Option<String>) {
        self.borrowed.get_or_insert_with(|| Borrowed { written: written.to_token_stream(), owned });
    }
}

impl VisitMut for Finder {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        match ty {
            // Its lifetimes are those of its arguments.
            Type::FnPtr(_) => {}
            Type::ImplTrait(found) => drop(self.impl_trait.get_or_insert_with(|| found.clone())),
            _ => visit_mut::visit_type_mut(self, ty),
        }
    }

    fn visit_type_reference_mut(&mut self, reference: &mut TypeReference) {
        if reference.lifetime.as_ref().is_none_or(|lifetime| !is_static(lifetime)) {
            self.found(reference, owned(&reference.elem));
        }
        visit_mut::visit_type_reference_mut(self, reference);
    }

    fn visit_path_segment_mut(&mut self, segment: &mut PathSegment) {
        let arguments = match &segment.arguments {
            PathArguments::AngleBracketed(arguments) => arguments.args.iter().collect(),
            _ => Vec::new(),
        };
        let is_static =
            |argument: &&GenericArgument| matches!(argument, GenericArgument::Lifetime(it) if is_static(it));
        if segment.ident == "Cow" && !arguments.iter().any(is_static) {
            let owned =
                arguments.last().and_then(|last| if let GenericArgument::Type(ty) = last { owned(ty) } else { None });
            self.found(segment, owned);
        }
        visit_mut::visit_path_segment_mut(self, segment);
    }

    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if !is_static(lifetime) {
            self.found(lifetime, None);
        }
    }

    /// `Fn(&str)` borrows nothing.
    fn visit_parenthesized_generic_arguments_mut(&mut self, _: &mut ParenthesizedGenericArguments) {}

    /// Nor does `for<'a> Visitor<'a>`.
    fn visit_trait_bound_mut(&mut self, bound: &mut TraitBound) {
        if bound.lifetimes.is_none() {
            visit_mut::visit_trait_bound_mut(self, bound);
        }
    }
}

fn is_static(lifetime: &Lifetime) -> bool {
    lifetime.ident == "static"
}

/// The owned type of a borrowed one.
fn owned(borrowed: &Type) -> Option<String> {
    match borrowed {
        Type::Path(path) => {
            let segment = path.path.segments.last().filter(|segment| segment.arguments.is_none())?;
            Some(if segment.ident == "str" { "String".to_owned() } else { segment.ident.to_string() })
        }
        Type::Slice(_) => Some("Bytes".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    /// The owned type to write instead, or an empty string if it is not known.
    fn owned(ty: &Type) -> Option<String> {
        borrowed(ty).map(|borrowed| borrowed.owned.unwrap_or_default())
    }

    #[test]
    fn what_is_borrowed_is_found_at_any_depth() {
        assert_eq!(owned(&parse_quote!(&Lease)).as_deref(), Some("Lease"));
        assert_eq!(owned(&parse_quote!(&mut lock_axum::Lease)).as_deref(), Some("Lease"));
        assert_eq!(owned(&parse_quote!(Path<(u8, &'a str)>)).as_deref(), Some("String"));
        assert_eq!(owned(&parse_quote!(&[u8])).as_deref(), Some("Bytes"));
        assert_eq!(owned(&parse_quote!(&Path<u8>)).as_deref(), Some(""));
        assert_eq!(owned(&parse_quote!(std::borrow::Cow<'a, str>)).as_deref(), Some("String"));
        assert_eq!(owned(&parse_quote!(Json<Cow<Order>>)).as_deref(), Some("Order"));
        assert_eq!(owned(&parse_quote!(Json<Order<'_>>)).as_deref(), Some(""));
    }

    #[test]
    fn what_lives_long_enough_is_not_borrowed() {
        let types: [Type; 6] = [
            parse_quote!(State<&'static str>),
            parse_quote!(State<Cow<'static, str>>),
            parse_quote!(State<fn(&str) -> Lease<'_>>),
            parse_quote!(State<Arc<dyn Fn(&str) -> Cow<str> + Send + 'static>>),
            parse_quote!(State<Arc<dyn for<'a> Visitor<'a>>>),
            parse_quote!([(Path<u8>, !); 2]),
        ];
        for ty in types {
            assert!(borrowed(&ty).is_none());
        }
    }

    #[test]
    fn impl_trait_is_found_at_any_depth() {
        assert!(impl_trait(&parse_quote!(impl Stock)).is_some());
        assert!(impl_trait(&parse_quote!(State<impl Stock + Clone>)).is_some());
        assert!(impl_trait(&parse_quote!(State<Arc<dyn Stock>>)).is_none());
    }
}
