//! Recognizes functions that return a future without being `async`.

use syn::{GenericArgument, PathArguments, ReturnType, Type, TypeParamBound};

use super::path::{ends_with, last_segment};

/// Whether a function with this return type returns a future: `impl Future` or a boxed one.
pub(crate) fn returns_future(output: &ReturnType) -> bool {
    match output {
        ReturnType::Type(_, ty) => match &**ty {
            Type::ImplTrait(opaque) => opaque.bounds.iter().any(is_future),
            ty => is_boxed_future(ty),
        },
        ReturnType::Default => false,
    }
}

/// Whether a type is `Pin<Box<dyn Future…>>`, which is what `#[async_trait]` makes of an `async fn`.
pub(crate) fn is_boxed_future(ty: &Type) -> bool {
    let argument_of = |ty, name| {
        let segment = last_segment(ty).filter(|segment| segment.ident == name)?;
        let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
        arguments.args.iter().find_map(|arg| if let GenericArgument::Type(ty) = arg { Some(ty) } else { None })
    };
    let pointee = argument_of(ty, "Pin").and_then(|ty| argument_of(ty, "Box"));
    let Some(Type::TraitObject(object)) = pointee else { return false };
    object.bounds.iter().any(is_future)
}

fn is_future(bound: &TypeParamBound) -> bool {
    matches!(bound, TypeParamBound::Trait(bound) if ends_with(&bound.path, "Future"))
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn boxed_futures_are_recognized() {
        let boxed = |ty| is_boxed_future(&ty);
        assert!(boxed(parse_quote!(::core::pin::Pin<Box<dyn ::core::future::Future<Output = u8> + Send + 'a>>)));
        assert!(!boxed(parse_quote!(Pin<Box<dyn Stream>>)));
        assert!(!boxed(parse_quote!(Pin<Box<T>>)));
        assert!(!boxed(parse_quote!(Box<dyn Future>)));
    }
}
