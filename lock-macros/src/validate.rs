//! What the arguments and the function must be to each other.

use proc_macro2::Ident;
use syn::ext::IdentExt as _;
use syn::{Error, GenericArgument, PatType, PathArguments, ReturnType, Safety, Type, TypeParamBound};

use crate::args::{Args, Key};
use crate::input::Function;
use crate::report::{Report, did_you_mean, list};
use crate::template::{Placeholder, Template};
use crate::{bindings, params};

/// axum implements `Handler` for up to 16 parameters, and one is taken by the lock manager.
const MAX_EXTRACTORS: usize = 15;

/// Checks all that can be checked. Where the arguments were not understood, what depends on them is left for the next
/// build: an error that follows from another one only hides it.
pub(crate) fn check(function: &Function, args: &Args, understood: bool, report: &mut Report) {
    let is_async = check_async(function, report);
    if !understood || !is_async {
        return;
    }
    if args.manager.is_some() {
        check_function(function, args, report);
    } else {
        check_handler(function, report);
    }
    if let Some(Key::Template(template)) = &args.key {
        check_placeholders(function, template, args.manager.is_none(), report);
    }
}

fn check_async(function: &Function, report: &mut Report) -> bool {
    let sig = &function.sig;
    if sig.asyncness.is_some() {
        return true;
    }
    report.push(match &sig.output {
        ReturnType::Type(_, ty) if is_boxed_future(ty) => Error::new(
            sig.ident.span(),
            "this returns a boxed future, as functions do that `#[async_trait]` has rewritten before: put \
             `#[distributed_lock]` where it sees an `async fn`, on an inherent method that this one calls or in a trait \
             with native `async fn`s",
        ),
        _ => Error::new(sig.fn_token.span, "`#[distributed_lock]` stands on an `async fn`: add `async`"),
    });
    false
}

/// Whether a function that is not `async` returns a future all the same.
pub(crate) fn returns_future(output: &ReturnType) -> bool {
    match output {
        ReturnType::Type(_, ty) => match &**ty {
            Type::ImplTrait(opaque) => opaque.bounds.iter().any(is_future),
            ty => is_boxed_future(ty),
        },
        ReturnType::Default => false,
    }
}

/// `Pin<Box<dyn Future…>>`.
fn is_boxed_future(ty: &Type) -> bool {
    let inside = |ty, name| {
        let segment = params::last_segment(ty).filter(|segment| segment.ident == name)?;
        let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
        arguments.args.iter().find_map(|arg| if let GenericArgument::Type(ty) = arg { Some(ty) } else { None })
    };
    let Some(Type::TraitObject(object)) = inside(ty, "Pin").and_then(|ty| inside(ty, "Box")) else { return false };
    object.bounds.iter().any(is_future)
}

fn is_future(bound: &TypeParamBound) -> bool {
    matches!(bound, TypeParamBound::Trait(bound) if ends_with(&bound.path, "Future"))
}

fn check_function(function: &Function, args: &Args, report: &mut Report) {
    for (name, reason) in [
        (
            "on_disconnect",
            "the future of a guarded function may borrow, so it can not be spawned to outlive its caller",
        ),
        ("busy_status", "a guarded function returns the error of the lock, it does not answer HTTP requests"),
        ("on_error", "a guarded function returns the error of the lock: convert it in `From<LockError>`"),
    ] {
        if let Some(name) = args.name(name) {
            report.push(Error::new(
                name.span(),
                format!("`{name}` is for handlers and can not stand with `manager`: {reason}"),
            ));
        }
    }
    if matches!(function.sig.output, ReturnType::Default) {
        let message = "with `manager` the function must return `Result<_, E>` with `E: From<LockError>`: it can fail to get \
                       the lock";
        report.push(Error::new(function.sig.ident.span(), message));
    }
}

fn check_handler(function: &Function, report: &mut Report) {
    if let Some(receiver) = function.receiver() {
        let message = "a method is no axum handler: name the lock manager, for example `manager = self.locks`";
        report.push(Error::new_spanned(receiver, message));
    }
    if let Safety::Unsafe(token) = &function.sig.safety {
        report.push(Error::new(token.span, "a handler can not be `unsafe`"));
    }
    if let Some(again) = function.attrs.iter().find(|attr| ends_with(attr.path(), "distributed_lock")) {
        let message =
            "a handler takes one lock: guard what needs the second one in a function of its own, with `manager`";
        report.push(Error::new_spanned(again, message));
    }
    for param in function.params() {
        if let Some(attr) = param.attrs.iter().find(|attr| attr.path().is_ident("cfg")) {
            report.push(Error::new_spanned(attr, "`#[cfg]` on a parameter: put it on the handler as a whole"));
        }
    }
    if let Some(param) = function.params().filter(|param| params::filled(&param.ty).is_none()).nth(MAX_EXTRACTORS) {
        let message =
            format!("a guarded handler has at most {MAX_EXTRACTORS} extractors: axum allows 16, one is the lock's");
        report.push(Error::new_spanned(param, message));
    }
}

/// Whether the last segment of a path is this.
pub(crate) fn ends_with(path: &syn::Path, name: &str) -> bool {
    path.segments.last().is_some_and(|segment| segment.ident == name)
}

fn check_placeholders(function: &Function, template: &Template, handler: bool, report: &mut Report) {
    let names = |param: &PatType| bindings::names(&param.pat);
    let (filled, visible): (Vec<_>, Vec<_>) =
        function.params().partition(|param| handler && params::filled(&param.ty).is_some());
    let bound = |params: &[&PatType], placeholder: &Placeholder| {
        params.iter().flat_map(|param| names(param)).any(|name| is_named(&name, &placeholder.binding))
    };
    for placeholder in template.placeholders() {
        let name = &placeholder.binding;
        let is_self = name == "self" && function.receiver().is_some();
        if is_self || bound(&visible, placeholder) {
            continue;
        }
        if bound(&filled, placeholder) {
            let message = format!("`{{{name}}}` is filled by the lock, which is taken only when its resource is known");
            report.push(Error::new(template.span, message));
            continue;
        }
        let mut known: Vec<_> =
            visible.iter().flat_map(|param| names(param)).map(|name| name.unraw().to_string()).collect();
        if function.receiver().is_some() {
            known.insert(0, "self".to_owned());
        }
        let known = || known.iter().map(String::as_str);
        let message = if known().next().is_none() {
            format!("unknown placeholder `{{{name}}}`: the arguments bind no name")
        } else {
            let hint = did_you_mean(name, known());
            format!("unknown placeholder `{{{name}}}`{hint} (the arguments bind {})", list(known()))
        };
        report.push(Error::new(template.span, message));
    }
}

/// Whether a placeholder means this binding: `{type}` is `r#type`.
pub(crate) fn is_named(binding: &Ident, placeholder: &str) -> bool {
    binding.unraw() == placeholder
}

#[cfg(test)]
mod tests {
    use proc_macro2::TokenStream;
    use quote::{ToTokens, quote};
    use syn::parse_quote;

    use super::*;

    fn messages(args: TokenStream, function: TokenStream) -> Vec<String> {
        let mut report = Report::default();
        let args = Args::parse(args, &mut report);
        let understood = report.is_empty();
        check(&syn::parse2(function).unwrap(), &args, understood, &mut report);
        report.into_result().err().into_iter().flatten().map(|error| error.to_string()).collect()
    }

    fn handler(resource: &str, inputs: impl ToTokens) -> Vec<String> {
        messages(quote!(resource = #resource), quote!(async fn handler(#inputs) {}))
    }

    #[test]
    fn a_placeholder_names_a_binding() {
        assert!(handler("{a}:{b}:{c}:{type}", quote!(Path((a, mut b)): P, c: C, Json(r#type): J)).is_empty());
        assert_eq!(
            handler("{skuu}", quote!(Path(sku): P, State(db): S)),
            ["unknown placeholder `{skuu}`; did you mean `sku`? (the arguments bind `sku`, `db`)"]
        );
        assert_eq!(handler("{sku}", quote!(_: P)), ["unknown placeholder `{sku}`: the arguments bind no name"]);
        assert_eq!(handler("{a}{b}", quote!()).len(), 2);
    }

    #[test]
    fn the_lease_can_not_name_the_lock() {
        let message = "`{lease}` is filled by the lock, which is taken only when its resource is known";
        assert_eq!(handler("{lease}", quote!(lease: Lease)), [message]);
        assert_eq!(handler("{lease}", quote!(Extension(lease): Extension<FencingToken>)), [message]);
        let ordinary = quote!(
            async fn f(lease: Lease) -> Result<(), E> {}
        );
        assert!(messages(quote!(resource = "{lease}", manager = locks), ordinary).is_empty());
    }

    #[test]
    fn self_is_known_in_methods() {
        let method = quote!(
            async fn f(&self) -> Result<(), E> {}
        );
        assert!(messages(quote!(resource = "{self.name}", manager = self.locks), method).is_empty());
        assert_eq!(handler("{self.name}", quote!()), ["unknown placeholder `{self}`: the arguments bind no name"]);
    }

    #[test]
    fn one_cause_is_one_error() {
        let errors = messages(
            quote!(resource = "{sku", ttll = "1s"),
            quote!(
                async fn f(&self) {}
            ),
        );
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert_eq!(
            messages(
                quote!(resource = "{sku}"),
                quote!(
                    fn f(&self) {}
                )
            )
            .len(),
            1
        );
    }

    #[test]
    fn boxed_futures_are_recognised() {
        let boxed = |ty| is_boxed_future(&ty);
        assert!(boxed(parse_quote!(::core::pin::Pin<Box<dyn ::core::future::Future<Output = u8> + Send + 'a>>)));
        assert!(!boxed(parse_quote!(Pin<Box<dyn Stream>>)));
        assert!(!boxed(parse_quote!(Pin<Box<T>>)));
        assert!(!boxed(parse_quote!(Box<dyn Future>)));
    }

    #[test]
    fn axum_has_room_for_fifteen() {
        let inputs = |n: usize| std::iter::repeat_n(quote!(_: X), n);
        let (fit, many) = (inputs(15), inputs(16));
        assert!(handler("a", quote!(lease: Lease, #(#fit),*)).is_empty());
        assert_eq!(handler("a", quote!(#(#many),*)).len(), 1);
    }
}
