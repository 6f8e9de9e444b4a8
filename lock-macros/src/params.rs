//! What the lock has to do with one parameter of a handler: fill it, put the lease into it, or leave it alone.

use syn::{GenericArgument, PathArguments, PathSegment, Type};

/// A value of the lock that a parameter asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fill {
    pub(crate) value: Value,
    pub(crate) wrapper: Wrapper,
}

/// What a value of the lock stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrapper {
    None,
    /// `Extension<…>`
    Extension,
    /// `Option<…>`: `Some`, since there is a lock.
    Option,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Lease,
    FencingToken,
}

/// What the lock puts into a parameter of this type, if it is one of the lock's own.
///
/// A macro sees names, not types: the last segment of the path decides.
pub(crate) fn filled(ty: &Type) -> Option<Fill> {
    let segment = last_segment(ty)?;
    if let Some(value) = value(segment) {
        return Some(Fill { value, wrapper: Wrapper::None });
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
    Some(Fill { value: value(last_segment(inner)?)?, wrapper })
}

/// Whether a value of this type passes a request on, so that the lease must travel in its extensions.
pub(crate) fn carries(ty: &Type) -> bool {
    last_segment(ty).is_some_and(|segment| segment.ident == "Request" || segment.ident == "Parts")
}

fn value(segment: &PathSegment) -> Option<Value> {
    // `Lease<T>` is somebody else's type.
    if !segment.arguments.is_none() {
        return None;
    }
    if segment.ident == "Lease" {
        Some(Value::Lease)
    } else if segment.ident == "FencingToken" {
        Some(Value::FencingToken)
    } else {
        None
    }
}

/// The last segment of a type's path, also inside parentheses and the invisible groups of `macro_rules!`.
pub(crate) fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
        Type::Group(group) => last_segment(&group.elem),
        Type::Paren(paren) => last_segment(&paren.elem),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn the_last_segment_decides() {
        let lease = Some(Fill { value: Value::Lease, wrapper: Wrapper::None });
        assert_eq!(filled(&parse_quote!(Lease)), lease);
        assert_eq!(filled(&parse_quote!(lock_axum::Lease)), lease);
        assert_eq!(filled(&parse_quote!((Lease))), lease);
        let token = Some(Fill { value: Value::FencingToken, wrapper: Wrapper::None });
        assert_eq!(filled(&parse_quote!(::lock_axum::FencingToken)), token);
    }

    #[test]
    fn extensions_and_options_are_looked_into() {
        let lease = Some(Fill { value: Value::Lease, wrapper: Wrapper::Extension });
        assert_eq!(filled(&parse_quote!(Extension<Lease>)), lease);
        let token = Some(Fill { value: Value::FencingToken, wrapper: Wrapper::Extension });
        assert_eq!(filled(&parse_quote!(axum::Extension<lock_axum::FencingToken>)), token);
        let perhaps = Some(Fill { value: Value::Lease, wrapper: Wrapper::Option });
        assert_eq!(filled(&parse_quote!(Option<Lease>)), perhaps);
        assert_eq!(filled(&parse_quote!(Extension<Db>)), None);
        assert_eq!(filled(&parse_quote!(Extension)), None);
    }

    #[test]
    fn other_types_are_left_alone() {
        for ty in [parse_quote!(Json<Lease>), parse_quote!(Option<Db>), parse_quote!(&Lease), parse_quote!(Lease<Car>)]
        {
            assert_eq!(filled(&ty), None);
        }
    }

    #[test]
    fn a_request_carries_the_lease() {
        assert!(carries(&parse_quote!(axum::extract::Request)));
        assert!(carries(&parse_quote!(http::Request<Body>)));
        assert!(carries(&parse_quote!(Parts)));
        assert!(!carries(&parse_quote!(RawRequest)));
        assert!(!carries(&parse_quote!(Json<Request>)));
    }
}
