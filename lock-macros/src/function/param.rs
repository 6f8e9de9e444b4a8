//! Classifies parameters: injected by the lock, or extracted.

use syn::{GenericArgument, PathArguments, PathSegment, Type};

use super::path::last_segment;

/// A parameter that the lock provides, in place of an extractor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Injected {
    pub(crate) value: InjectedValue,
    pub(crate) wrapper: Wrapper,
}

/// The type that wraps an injected value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrapper {
    None,
    /// `Extension<…>`
    Extension,
    /// `Option<…>`: always `Some`, since the handler runs under the lock.
    Option,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InjectedValue {
    Lease,
    FencingToken,
}

/// What the lock provides for a parameter of this type, or `None` if it is an ordinary extractor.
///
/// A macro sees names, not types: the last segment of the path decides.
pub(crate) fn injected(ty: &Type) -> Option<Injected> {
    let segment = last_segment(ty)?;
    if let Some(value) = injected_value(segment) {
        return Some(Injected { value, wrapper: Wrapper::None });
    }
    let wrapper = if segment.ident == "Extension" {
        Wrapper::Extension
    } else if segment.ident == "Option" {
        Wrapper::Option
    } else {
        return None;
    };
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    let [GenericArgument::Type(inner)] = arguments.args.iter().collect::<Vec<_>>()[..] else { return None };
    Some(Injected { value: injected_value(last_segment(inner)?)?, wrapper })
}

/// Whether a parameter of this type may read the request's body before the handler runs: any type but axum's own that
/// never do.
pub(crate) fn may_read_body(ty: &Type) -> bool {
    const NEVER: [&str; 8] = ["Body", "Extension", "HeaderMap", "Parts", "Path", "Query", "Request", "State"];
    !last_segment(ty).is_some_and(|segment| NEVER.iter().any(|never| segment.ident == never))
}

fn injected_value(segment: &PathSegment) -> Option<InjectedValue> {
    // The lock's types have no parameters: `Lease<T>` is another type of the same name.
    if !segment.arguments.is_none() {
        return None;
    }
    if segment.ident == "Lease" {
        Some(InjectedValue::Lease)
    } else if segment.ident == "FencingToken" {
        Some(InjectedValue::FencingToken)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn the_last_segment_decides() {
        let lease = Some(Injected { value: InjectedValue::Lease, wrapper: Wrapper::None });
        assert_eq!(injected(&parse_quote!(Lease)), lease);
        assert_eq!(injected(&parse_quote!(lock_axum::Lease)), lease);
        assert_eq!(injected(&parse_quote!((Lease))), lease);
        let token = Some(Injected { value: InjectedValue::FencingToken, wrapper: Wrapper::None });
        assert_eq!(injected(&parse_quote!(::lock_axum::FencingToken)), token);
    }

    #[test]
    fn extensions_and_options_are_unwrapped() {
        let lease = Some(Injected { value: InjectedValue::Lease, wrapper: Wrapper::Extension });
        assert_eq!(injected(&parse_quote!(Extension<Lease>)), lease);
        let token = Some(Injected { value: InjectedValue::FencingToken, wrapper: Wrapper::Extension });
        assert_eq!(injected(&parse_quote!(axum::Extension<lock_axum::FencingToken>)), token);
        let optional = Some(Injected { value: InjectedValue::Lease, wrapper: Wrapper::Option });
        assert_eq!(injected(&parse_quote!(Option<Lease>)), optional);
        assert_eq!(injected(&parse_quote!(Extension<Db>)), None);
        assert_eq!(injected(&parse_quote!(Extension)), None);
    }

    #[test]
    fn other_types_are_left_alone() {
        for ty in [parse_quote!(Json<Lease>), parse_quote!(Option<Db>), parse_quote!(&Lease), parse_quote!(Lease<Car>)]
        {
            assert_eq!(injected(&ty), None);
        }
    }

    #[test]
    fn what_never_reads_the_body_keeps_its_type() {
        for ty in [parse_quote!(Path<(String, u8)>), parse_quote!(axum::extract::State<Db>), parse_quote!(Request)] {
            assert!(!may_read_body(&ty));
        }
        for ty in
            [parse_quote!(Json<Order>), parse_quote!(String), parse_quote!(Option<Json<u8>>), parse_quote!([u8; 2])]
        {
            assert!(may_read_body(&ty));
        }
    }
}
