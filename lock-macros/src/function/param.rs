//! Classifies parameters: injected by the lock, or extracted.

use syn::{GenericArgument, Pat, PatType, PathArguments, PathSegment, Type};

use super::path::last_segment;

/// A parameter that the lock provides, instead of an extractor.
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
    /// The leases of a set.
    Leases,
    FencingToken,
    Hold,
}

/// What the lock provides for a parameter of this type, or `None` if it is an ordinary extractor.
///
/// A macro sees names, not types: the last segment of the path decides.
pub(crate) fn injected(ty: &Type) -> Option<Injected> {
    let segment = last_segment(ty)?;
    if let Some(value) = injected_value(segment) {
        return Some(Injected { value, wrapper: Wrapper::None });
    }
    let wrapper = match segment.ident.to_string().as_str() {
        "Extension" => Wrapper::Extension,
        "Option" => Wrapper::Option,
        _ => return None,
    };
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    let [GenericArgument::Type(inner)] = arguments.args.iter().collect::<Vec<_>>()[..] else { return None };
    Some(Injected { value: injected_value(last_segment(inner)?)?, wrapper })
}

/// Whether a parameter of this type takes the lock along into a session.
pub(crate) fn is_hold(ty: &Type) -> bool {
    injected(ty).is_some_and(|injected| injected.value == InjectedValue::Hold)
}

/// Whether a parameter is written as handlers write their extractors: destructured, or of one of axum's types.
pub(crate) fn is_extractor(param: &PatType) -> bool {
    const EXTRACTORS: [&str; 6] = ["Extension", "Form", "Json", "Path", "Query", "State"];
    let is_named = |segment: &PathSegment| EXTRACTORS.iter().any(|extractor| segment.ident == extractor);
    let is_type = |segment: &PathSegment| is_named(segment) && !segment.arguments.is_none();
    destructures(&param.pat) || last_segment(&param.ty).is_some_and(is_type)
}

/// Whether a pattern is `Path(sku)`, also as `path @ Path(sku)`.
fn destructures(pat: &Pat) -> bool {
    match pat {
        Pat::TupleStruct(_) => true,
        Pat::Paren(pat) => destructures(&pat.pat),
        Pat::Ident(pat) => pat.subpat.as_ref().is_some_and(|(_, pat)| destructures(pat)),
        _ => false,
    }
}

/// Whether axum can extract a parameter of this type: it cannot borrow, and the lock manager is not an extractor.
pub(crate) fn can_be_extracted(ty: &Type) -> bool {
    match ty {
        Type::Reference(_) => false,
        Type::Group(group) => can_be_extracted(&group.elem),
        Type::Paren(paren) => can_be_extracted(&paren.elem),
        ty => last_segment(ty).is_none_or(|segment| segment.ident != "LockManager"),
    }
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
    match segment.ident.to_string().as_str() {
        "Lease" => Some(InjectedValue::Lease),
        "Leases" => Some(InjectedValue::Leases),
        "FencingToken" => Some(InjectedValue::FencingToken),
        "Hold" => Some(InjectedValue::Hold),
        _ => None,
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
        assert!(is_hold(&parse_quote!(lock_axum::Hold)) && !is_hold(&parse_quote!(Lease)));
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

    #[test]
    fn extractors_are_destructured_or_of_axums_types() {
        let param = |param: syn::FnArg| if let syn::FnArg::Typed(param) = param { is_extractor(&param) } else { false };
        assert!(param(parse_quote!(KnownSku(sku): KnownSku)));
        assert!(param(parse_quote!(whole @ (Path(sku)): Alias)));
        assert!(param(parse_quote!(app: axum::extract::State<App>)));
        for ordinary in [
            parse_quote!(sku: String),
            parse_quote!((a, b): (u8, u8)),
            parse_quote!(Order { sku, .. }: Order),
            parse_quote!(state: State),
            parse_quote!(path: &Path),
        ] {
            assert!(!param(ordinary));
        }
    }

    #[test]
    fn what_borrows_cannot_be_extracted() {
        for ty in [parse_quote!(App), parse_quote!([u8; 2]), parse_quote!(Option<Lease>)] {
            assert!(can_be_extracted(&ty));
        }
        for ty in [parse_quote!(&str), parse_quote!((&str)), parse_quote!(lock_axum::LockManager)] {
            assert!(!can_be_extracted(&ty));
        }
    }
}
