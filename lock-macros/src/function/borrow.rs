//! Finds in a parameter's type what a handler cannot take: something borrowed, or `impl Trait`.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::visit_mut::{self, VisitMut};
use syn::{
    GenericArgument, Lifetime, ParenthesizedGenericArguments, PathArguments, PathSegment, TraitBound, Type,
    TypeImplTrait, TypeReference,
};

/// Something borrowed in the type of a parameter.
pub(crate) enum Borrowed {
    /// `&T`
    Reference(TypeReference),
    /// `Cow<'a, T>`, also with an elided lifetime.
    Cow(PathSegment),
    /// Any other type with a lifetime.
    Lifetime(Lifetime),
}

impl Borrowed {
    /// The owned type to write instead, where it is known.
    pub(crate) fn owned(&self) -> Option<String> {
        let borrowed = match self {
            Self::Reference(reference) => &*reference.elem,
            Self::Cow(cow) => last_type(cow)?,
            Self::Lifetime(_) => return None,
        };
        match borrowed {
            Type::Path(path) => {
                let segment = path.path.segments.last().filter(|segment| segment.arguments.is_none())?;
                Some(if segment.ident == "str" { "String".to_owned() } else { segment.ident.to_string() })
            }
            Type::Slice(_) => Some("Bytes".to_owned()),
            _ => None,
        }
    }
}

/// What an error points at.
impl ToTokens for Borrowed {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::Reference(reference) => reference.to_tokens(tokens),
            Self::Cow(cow) => cow.to_tokens(tokens),
            Self::Lifetime(lifetime) => lifetime.to_tokens(tokens),
        }
    }
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
            self.borrowed.get_or_insert_with(|| Borrowed::Reference(reference.clone()));
        }
        visit_mut::visit_type_reference_mut(self, reference);
    }

    fn visit_path_segment_mut(&mut self, segment: &mut PathSegment) {
        if segment.ident == "Cow" && !lifetimes(segment).any(is_static) {
            self.borrowed.get_or_insert_with(|| Borrowed::Cow(segment.clone()));
        }
        visit_mut::visit_path_segment_mut(self, segment);
    }

    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if !is_static(lifetime) {
            self.borrowed.get_or_insert_with(|| Borrowed::Lifetime(lifetime.clone()));
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

fn lifetimes(segment: &PathSegment) -> impl Iterator<Item = &Lifetime> {
    arguments(segment).filter_map(|argument| match argument {
        GenericArgument::Lifetime(lifetime) => Some(lifetime),
        _ => None,
    })
}

fn last_type(segment: &PathSegment) -> Option<&Type> {
    let types = arguments(segment).filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    types.last()
}

fn arguments(segment: &PathSegment) -> impl Iterator<Item = &GenericArgument> {
    match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => Some(&arguments.args),
        _ => None,
    }
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    /// The owned type to write instead, or an empty string if it is not known.
    fn owned(ty: &Type) -> Option<String> {
        borrowed(ty).map(|borrowed| borrowed.owned().unwrap_or_default())
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
