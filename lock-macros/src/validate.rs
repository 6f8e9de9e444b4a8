//! Stage 3: checks the function, and the arguments against the function.

mod held;
mod placeholders;

use syn::{Error, PatType, ReturnType, Safety};

use self::held::{check_held, check_hold};
use self::placeholders::{check_foreign_placeholders, check_placeholders};
use crate::args::{Args, ResourceSource};
use crate::diagnostics::Diagnostics;
use crate::function::{
    Function, bindings, borrowed, can_be_extracted, ends_with, impl_trait, injected, is_boxed_future, may_read_body,
    returns_future,
};

/// axum implements `Handler` for functions with up to 16 parameters, and the macro adds one for the lock manager.
const MAX_EXTRACTORS: usize = 15;

/// Reports everything that is wrong, except what may only follow from an error already reported: after an error in the
/// arguments, only `async` is checked.
pub(crate) fn check(function: &Function, args: &Args, diagnostics: &mut Diagnostics) {
    let args_are_valid = diagnostics.is_empty();
    let is_async = check_async(function, diagnostics);
    if !args_are_valid || !is_async {
        return;
    }
    check_cfg(function, diagnostics);
    if args.manager.is_some() {
        check_function(function, args, diagnostics);
    } else {
        check_handler(function, args, diagnostics);
        check_body_timeout(function, args, diagnostics);
        check_hold(function, args, diagnostics);
        check_held(function, args, diagnostics);
    }
    for template in args.resource.as_ref().map(ResourceSource::templates).unwrap_or_default() {
        check_placeholders(function, template, args.manager.is_none(), diagnostics);
        check_foreign_placeholders(function, template, diagnostics);
    }
}

fn check_async(function: &Function, diagnostics: &mut Diagnostics) -> bool {
    let sig = &function.sig;
    if sig.asyncness.is_some() {
        return true;
    }
    diagnostics.push(match &sig.output {
        ReturnType::Type(_, ty) if is_boxed_future(ty) => Error::new(
            sig.ident.span(),
            "this function returns a boxed future, perhaps because `#[async_trait]` has already rewritten it; \
             `#[distributed_lock]` can only be applied to an `async fn`: apply it to an inherent method that this one \
             calls, or use native `async fn` in the trait",
        ),
        output @ ReturnType::Type(_, ty) if returns_future(output) => {
            let message = format!(
                "`#[distributed_lock]` can only be applied to an `async fn`: write `async fn {}(…) -> T` instead of \
                 `-> impl Future<Output = T>`",
                sig.ident
            );
            Error::new_spanned(ty, message)
        }
        _ => Error::new(sig.fn_token.span, "`#[distributed_lock]` can only be applied to an `async fn`: add `async`"),
    });
    false
}

fn check_function(function: &Function, args: &Args, diagnostics: &mut Diagnostics) {
    for (name, reason) in [
        (
            "on_disconnect",
            "the future of a guarded function may borrow from its caller, so it cannot be moved to a task",
        ),
        ("hold", "a guarded function holds its lock until it returns: it has no response and no session"),
        ("adopt", "a guarded function has no request that could carry a delegation: call `adopt` of the manager"),
        ("body_timeout", "a guarded function reads no request body"),
        ("state", "both name the lock manager: remove one of them"),
        ("busy_status", "a guarded function returns the `LockError` to its caller, not an HTTP response"),
        ("retry_after", "a guarded function returns the `LockError` to its caller, not an HTTP response"),
        ("on_error", "a guarded function returns the `LockError` to its caller; convert it in `From<LockError>`"),
    ] {
        if let Some(name) = args.name(name) {
            diagnostics.push(Error::new(name.span(), format!("`{name}` cannot be combined with `manager`: {reason}")));
        }
    }
    if matches!(function.sig.output, ReturnType::Default) {
        let message = "with `manager`, the function must return `Result<_, E>` with `E: From<LockError>`, because acquiring \
                       the lock can fail";
        diagnostics.push(Error::new(function.sig.ident.span(), message));
    }
}

fn check_handler(function: &Function, args: &Args, diagnostics: &mut Diagnostics) {
    if let Some(receiver) = function.receiver() {
        let message = "a method cannot be an axum handler: add the lock manager, for example `manager = self.locks`";
        diagnostics.push(Error::new_spanned(receiver, message));
    }
    if let Safety::Unsafe(token) = &function.sig.safety {
        diagnostics.push(Error::new(token.span, "a guarded handler cannot be `unsafe`"));
    }
    if let Some(again) = function.attrs.iter().find(|attr| ends_with(attr.path(), "distributed_lock")) {
        let message = "a handler can have only one `#[distributed_lock]`: move the work under the second lock to a function \
                       with `manager`";
        diagnostics.push(Error::new_spanned(again, message));
    }
    for param in function.params() {
        check_extractor(param, args, diagnostics);
    }
    let mut extractors = function.params().filter(|param| injected(&param.ty).is_none());
    if let Some(param) = extractors.nth(MAX_EXTRACTORS) {
        let message = format!(
            "a guarded handler can have at most {MAX_EXTRACTORS} extractors: axum allows 16, and the lock manager takes one"
        );
        diagnostics.push(Error::new_spanned(param, message));
    }
}

/// Only what an extractor reads is read before the lock is acquired.
fn check_body_timeout(function: &Function, args: &Args, diagnostics: &mut Diagnostics) {
    let last = function.params().filter(|param| injected(&param.ty).is_none()).last();
    if let Some(name) = args.name("body_timeout")
        && !last.is_some_and(|param| may_read_body(&param.ty))
    {
        let message = "`body_timeout` has no effect here: remove it, or take the body with an extractor as the last parameter, such as \
                       `Json` or `Bytes`";
        diagnostics.push(Error::new(name.span(), message));
    }
}

/// A parameter must be something that axum can extract, or that the lock provides.
fn check_extractor(param: &PatType, args: &Args, diagnostics: &mut Diagnostics) {
    if let Some(borrowed) = borrowed(&param.ty) {
        let remedy = match borrowed.owned {
            Some(owned) => format!("take `{owned}`"),
            None => "take an owned value".to_owned(),
        };
        let message = format!(
            "a handler cannot borrow its parameters, which axum makes for it: {remedy}, or add `manager = …` if this is \
             not a handler"
        );
        diagnostics.push(Error::new_spanned(borrowed.written, message));
    } else if let Some(opaque) = impl_trait(&param.ty) {
        let message = "a handler cannot have `impl Trait` parameters, because axum would have to guess the type: write \
                       the type, or a type parameter that the route names, as in `post(handler::<Stock>)`";
        diagnostics.push(Error::new_spanned(opaque, message));
    } else if !can_be_extracted(&param.ty) {
        let names = bindings(&param.pat);
        let manager = names.first().map_or("…".to_owned(), ToString::to_string);
        let wrapper = if args.name("state").is_some() { "State" } else { "Extension" };
        let message = format!(
            "axum cannot extract a `LockManager`: add `manager = {manager}` to the attribute if this is not a handler; a handler takes \
             `{wrapper}<LockManager>`, or nothing if it does not use it"
        );
        diagnostics.push(Error::new_spanned(&param.ty, message));
    }
}

/// The generated code names the parameters, and cannot know which of them exist.
fn check_cfg(function: &Function, diagnostics: &mut Diagnostics) {
    let attrs = function.params().flat_map(|param| &param.attrs);
    for attr in attrs.filter(|attr| attr.path().is_ident("cfg")) {
        let message = "a guarded function cannot have `#[cfg]` on a parameter: apply it to the whole function";
        diagnostics.push(Error::new_spanned(attr, message));
    }
}

#[cfg(test)]
mod tests {
    use proc_macro2::TokenStream;
    use quote::{ToTokens, quote};

    use super::*;

    fn messages(args: TokenStream, function: TokenStream) -> Vec<String> {
        let mut diagnostics = Diagnostics::default();
        let args = Args::parse(args, &mut diagnostics);
        check(&syn::parse2(function).unwrap(), &args, &mut diagnostics);
        diagnostics.into_result().err().into_iter().flatten().map(|error| error.to_string()).collect()
    }

    fn handler(resource: &str, inputs: impl ToTokens) -> Vec<String> {
        messages(quote!(resource = #resource), quote!(async fn handler(#inputs) {}))
    }

    #[test]
    fn a_placeholder_refers_to_a_binding() {
        assert!(handler("{a}:{b}:{c}:{type}", quote!(Path((a, mut b)): P, c: C, Json(r#type): J)).is_empty());
        assert_eq!(
            handler("{skuu}", quote!(Path(sku): P, State(db): S)),
            ["unknown placeholder `{skuu}`; did you mean `sku`? (the parameters bind `sku`, `db`)"]
        );
        assert_eq!(handler("{sku}", quote!(_: P)), ["unknown placeholder `{sku}`: the parameters bind no names"]);
        assert_eq!(handler("{a}:{b}", quote!()).len(), 2);
    }

    #[test]
    fn the_lease_cannot_be_part_of_its_resource() {
        let message = "`{lease}` cannot be part of `resource`: it has no value before the lock is acquired";
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
        assert_eq!(handler("{self.name}", quote!()), ["unknown placeholder `{self}`: the parameters bind no names"]);
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
    fn a_handler_takes_owned_values_of_a_known_type() {
        let errors = handler("a", quote!(_: &Lease, _: Path<&str>));
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert!(errors[0].contains("take `Lease`, or add `manager = …`"), "{errors:?}");
        assert!(errors[1].contains("take `String`"), "{errors:?}");
        let [message] = &handler("a", quote!(_: State<impl Stock>))[..] else { panic!("one message") };
        assert!(message.starts_with("a handler cannot have `impl Trait` parameters"), "{message}");
        let function = quote!(
            async fn f(a: &str, b: impl Stock) -> Result<(), E> {}
        );
        assert!(messages(quote!(resource = "{a}", manager = locks), function).is_empty());
    }

    #[test]
    fn a_handler_cannot_take_the_manager_itself() {
        let [message] = &handler("a", quote!(locks: LockManager, Extension(_): Extension<LockManager>))[..] else {
            panic!("one message")
        };
        assert!(message.contains("add `manager = locks` to the attribute"), "{message}");
    }

    #[test]
    fn a_handler_can_have_fifteen_extractors() {
        let inputs = |n: usize| std::iter::repeat_n(quote!(_: X), n);
        let (fit, many) = (inputs(15), inputs(16));
        assert!(handler("a", quote!(lease: Lease, #(#fit),*)).is_empty());
        assert_eq!(handler("a", quote!(#(#many),*)).len(), 1);
    }
}
