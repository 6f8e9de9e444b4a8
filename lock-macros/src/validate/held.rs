//! Who holds the lock, and for how long: parameters that the lock provides, and sessions.

use syn::{Error, Type};

use crate::args::{Args, ResourceSource};
use crate::diagnostics::Diagnostics;
use crate::function::{Function, InjectedValue, injected, is_hold};

/// A session needs somebody to take the lock along, and an end.
pub(super) fn check_hold(function: &Function, args: &Args, diagnostics: &mut Diagnostics) {
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
pub(super) fn check_held(function: &Function, args: &Args, diagnostics: &mut Diagnostics) {
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
