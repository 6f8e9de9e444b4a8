//! Stage 3: checks the function, and the arguments against the function.

use syn::ext::IdentExt as _;
use syn::{Error, GenericParam, Member, PatType, ReturnType, Safety, Type};

use crate::args::{Args, Foreign, Placeholder, ResourceSource, Template, of_the_layer};
use crate::diagnostics::{Diagnostics, did_you_mean, list};
use crate::function::{
    Function, InjectedValue, bindings, borrowed, can_be_extracted, ends_with, impl_trait, injected, is_boxed_future,
    is_hold, may_read_body, returns_future,
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

/// A session needs somebody to take the lock along, and an end.
fn check_hold(function: &Function, args: &Args, diagnostics: &mut Diagnostics) {
    // A `&Hold` has been reported already: it is meant to take the lock along, too.
    let mut holds = function.params().filter(|param| is_hold(referent(&param.ty)));
    let first = holds.next();
    let Some(hold) = args.name("hold").filter(|_| args.holds_session()) else {
        if let Some(param) = first.filter(|param| is_hold(&param.ty)) {
            let message = "a parameter `Hold` needs `hold = \"session\"` and `max_hold`: add both to the attribute, or remove the \
                           parameter";
            diagnostics.push(Error::new_spanned(&param.ty, message));
        }
        return;
    };
    if let Some(adopt) = args.name("adopt").filter(|_| args.adopt == Some(true)) {
        let message = "`adopt` cannot be combined with `hold = \"session\"`: the answer tells the holder that the work under its \
                       lock is done";
        diagnostics.push(Error::new(adopt.span(), message));
    }
    if first.is_none() {
        let message = "`hold = \"session\"` needs a parameter `Hold` that takes the lock along: add `hold: Hold`, and run the \
                       session in it, as in `ws.on_upgrade(move |socket| hold.run(async |lease| …))`";
        diagnostics.push(Error::new(hold.span(), message));
    }
    if args.max_hold.is_none() {
        let message = "`hold = \"session\"` needs `max_hold`: add how long a session may last, for example `max_hold = \"1h\"`; \
                       the manager's `max_hold`, 60 s by default, is for requests and would cut sessions";
        diagnostics.push(Error::new(hold.span(), message));
    }
    if let Some(second) = holds.next() {
        let message = "a handler can have only one parameter `Hold`: remove this one";
        diagnostics.push(Error::new_spanned(&second.ty, message));
    }
}

/// The type behind references.
fn referent(ty: &Type) -> &Type {
    match ty {
        Type::Reference(reference) => referent(&reference.elem),
        ty => ty,
    }
}

/// One resource has a `Lease`, and several have `Leases`.
fn check_held(function: &Function, args: &Args, diagnostics: &mut Diagnostics) {
    let is_set = args.resource.as_ref().is_some_and(ResourceSource::is_set);
    for param in function.params() {
        let message = match injected(&param.ty).map(|injected| injected.value) {
            Some(InjectedValue::Lease | InjectedValue::FencingToken) if is_set => {
                "several resources have a lease and a token each: take `leases: Leases`, where `leases[0]` is the lease on the \
                 first resource, and `leases[0].token()` its token"
            }
            Some(InjectedValue::Leases) if !is_set => {
                "one resource has one lease: take `lease: Lease`, or list several resources, as in \
                 `resource = [\"stock:{sku}\", \"user:{id}\"]`"
            }
            _ => continue,
        };
        diagnostics.push(Error::new_spanned(&param.ty, message));
    }
    if let Some(adopt) = args.name("adopt").filter(|_| is_set && args.adopt == Some(true)) {
        let message = "`adopt` cannot be combined with several resources: a delegation is of one lock";
        diagnostics.push(Error::new(adopt.span(), message));
    }
    if let Some(hold) = args.name("hold").filter(|_| is_set && args.holds_session()) {
        let message = "`hold = \"session\"` cannot be combined with several resources: lock one for the session";
        diagnostics.push(Error::new(hold.span(), message));
    }
}

/// A parameter must be something that axum can extract, or that the lock provides.
fn check_extractor(param: &PatType, args: &Args, diagnostics: &mut Diagnostics) {
    if let Some(borrowed) = borrowed(&param.ty) {
        let remedy = match borrowed.owned() {
            Some(owned) => format!("take `{owned}`"),
            None => "take an owned value".to_owned(),
        };
        let message = format!(
            "a handler cannot borrow its parameters, which axum makes for it: {remedy}, or add `manager = …` if this is \
             not a handler"
        );
        diagnostics.push(Error::new_spanned(borrowed, message));
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

/// What to say of a placeholder that names something else than a parameter, but nothing that is misspelt.
fn other_than_a_binding(function: &Function, placeholder: &Placeholder, is_handler: bool) -> Option<String> {
    let name = &placeholder.binding;
    if let ("header" | "query", [Member::Named(field)]) = (&**name, &placeholder.fields[..])
        && is_handler
    {
        return Some(of_the_layer(&format!("{name}.{field}"), name, &field.unraw().to_string()));
    }
    let is_generic = function.sig.generics.params.iter().any(|param| match param {
        GenericParam::Const(param) => param.ident == *name,
        GenericParam::Type(_) | GenericParam::Lifetime(_) => false,
    });
    let is_constant = name.chars().any(char::is_alphabetic) && !name.chars().any(char::is_lowercase);
    (is_generic || is_constant).then(|| {
        format!("`{{{name}}}` names no parameter: for a constant, write `key = format!(\"…{{{name}}}\")`, which encodes nothing")
    })
}

/// A parameter's name in another syntax than that of placeholders would be text, and all of its values one resource.
fn check_foreign_placeholders(function: &Function, template: &Template, diagnostics: &mut Diagnostics) {
    let names: Vec<_> = function.params().flat_map(|param| bindings(&param.pat)).collect();
    for Foreign { written, name } in template.foreign_placeholders() {
        if names.iter().any(|binding| binding.unraw() == name) {
            let message = format!(
                "write `{{{name}}}` instead of `{written}`: placeholders are names in braces, without `$`, `:` or `*`"
            );
            diagnostics.push(Error::new(template.span, message));
        }
    }
}

fn check_placeholders(function: &Function, template: &Template, is_handler: bool, diagnostics: &mut Diagnostics) {
    let names = |param: &PatType| bindings(&param.pat);
    // In a handler, the lock provides these parameters: they have no value before it is acquired.
    let (from_lock, usable): (Vec<_>, Vec<_>) =
        function.params().partition(|param| is_handler && injected(&param.ty).is_some());
    let binds = |params: &[&PatType], placeholder: &Placeholder| {
        params.iter().flat_map(|param| names(param)).any(|name| placeholder.refers_to(&name))
    };
    for placeholder in template.placeholders() {
        let name = &placeholder.binding;
        let is_self = name == "self" && function.receiver().is_some();
        if is_self || binds(&usable, placeholder) {
            continue;
        }
        if binds(&from_lock, placeholder) {
            let message =
                format!("`{{{name}}}` cannot be part of `resource`: it has no value before the lock is acquired");
            diagnostics.push(Error::new(template.span, message));
            continue;
        }
        let mut known: Vec<_> =
            usable.iter().flat_map(|param| names(param)).map(|name| name.unraw().to_string()).collect();
        if function.receiver().is_some() {
            known.insert(0, "self".to_owned());
        }
        let known = || known.iter().map(String::as_str);
        let message = if let Some(message) = other_than_a_binding(function, placeholder, is_handler) {
            message
        } else if known().next().is_none() {
            format!("unknown placeholder `{{{name}}}`: the parameters bind no names")
        } else {
            let hint = did_you_mean(name, known());
            format!("unknown placeholder `{{{name}}}`{hint} (the parameters bind {})", list(known()))
        };
        diagnostics.push(Error::new(template.span, message));
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
