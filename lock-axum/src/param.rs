//! What the macro cannot tell from the name of a parameter's type, and rustc tells from the type.
//!
//! The generated code calls a function that two impls have, and rustc chooses: an inherent function, if the type of the
//! parameter is [`Known`], takes precedence over a trait's, which all types have. The result is the parameter's kind.
//! Another function, called with it, reports a parameter that must not be there.

use std::marker::PhantomData;
use std::sync::Arc;

use axum::Extension;
use http::request::Parts;
use http::{Extensions, Request};
use lock_core::{FencingToken, Lease, Leases, LockPending};

use crate::held::Held;
use crate::hold::Hold;

/// An extracted parameter of a handler that is about to run.
pub struct Param<'a, T>(pub &'a mut T);

/// The type of a parameter.
pub struct ParamType<T>(PhantomData<T>);

/// The kind of `Lease`, `Leases`, `FencingToken` and `Hold`, which only the lock can provide.
#[derive(Default)]
pub struct Bare;

/// The kind of `Option<Lease>`, `Extension<Lease>` and so on.
#[derive(Default)]
pub struct Wrapped;

/// The kind of all other types.
#[derive(Default)]
pub struct Ordinary;

/// A type that has to do with the lock.
pub trait Known {
    /// [`Bare`], [`Wrapped`] or [`Ordinary`].
    type Kind: Default;

    /// Where a service finds the lease to which the handler forwards the parameter.
    fn extensions(&mut self) -> Option<&mut Extensions> {
        None
    }
}

/// A type that only the lock can provide.
pub trait FromLock: Known {}

impl FromLock for Lease {}
impl FromLock for Leases {}
impl FromLock for FencingToken {}
impl FromLock for Hold {}
impl<T: FromLock> FromLock for Extension<T> {}
impl<T: FromLock> FromLock for Option<T> {}
impl<T: FromLock> FromLock for Arc<T> {}

impl Known for Lease {
    type Kind = Bare;
}

impl Known for Leases {
    type Kind = Bare;
}

impl Known for FencingToken {
    type Kind = Bare;
}

impl Known for Hold {
    type Kind = Bare;
}

impl<T: FromLock> Known for Extension<T> {
    type Kind = Wrapped;
}

impl<T: FromLock> Known for Option<T> {
    type Kind = Wrapped;
}

/// Not an extractor itself, but in an `Extension` it is one.
impl<T: FromLock> Known for Arc<T> {
    type Kind = T::Kind;
}

impl<T: FromLock, E> Known for Result<T, E> {
    type Kind = Wrapped;
}

impl<B> Known for Request<B> {
    type Kind = Ordinary;

    fn extensions(&mut self) -> Option<&mut Extensions> {
        Some(self.extensions_mut())
    }
}

impl Known for Parts {
    type Kind = Ordinary;

    fn extensions(&mut self) -> Option<&mut Extensions> {
        Some(&mut self.extensions)
    }
}

impl<T: Known> Param<'_, T> {
    /// Inserts what is held into the extensions of a request, where the lock is pending no more.
    pub fn receive(self, held: &impl Held) -> T::Kind {
        if let Some(extensions) = self.0.extensions() {
            extensions.remove::<LockPending>();
            held.insert_into(extensions);
        }
        T::Kind::default()
    }
}

/// A parameter that has no use for the lease.
pub trait AnyParam {
    /// Does nothing.
    fn receive(self, held: &impl Held) -> Ordinary;
}

impl<T> AnyParam for Param<'_, T> {
    fn receive(self, _: &impl Held) -> Ordinary {
        Ordinary
    }
}

impl<T: Known> ParamType<T> {
    /// The kind of a known type.
    pub fn kind() -> T::Kind {
        T::Kind::default()
    }
}

/// Any type.
pub trait AnyType {
    /// The kind of all types that are not known.
    fn kind() -> Ordinary;
}

impl<T> AnyType for ParamType<T> {
    fn kind() -> Ordinary {
        Ordinary
    }
}

/// The kind of a parameter that a handler may have axum extract.
#[diagnostic::on_unimplemented(
    message = "the lock does not recognize this parameter as a `Lease`, `FencingToken` or `Hold`: write its type as `Lease`, \
               `FencingToken`, `Hold`, or one of them in `Option<…>` or `Extension<…>`",
    label = "would be extracted before the lock is acquired"
)]
pub trait Extracted {}

#[diagnostic::do_not_recommend]
impl Extracted for Ordinary {}

/// Reports a lease under a name that the macro does not recognize.
pub fn check_extracted(_: impl Extracted) {}

/// The kind of a parameter that a router may fill when it uses a function with `manager` as a handler.
#[diagnostic::on_unimplemented(
    message = "with `manager`, the lock does not fill this parameter: remove it and call `Lease::current()` in the body",
    label = "would be extracted before the lock is acquired"
)]
pub trait FilledByRouter {}

#[diagnostic::do_not_recommend]
impl FilledByRouter for Ordinary {}

/// Reports a lease that no lock fills.
pub fn check_filled_by_router(_: impl FilledByRouter) {}

/// The kind of a parameter that callers may fill when a router could use the function, too. A router that fills in a bare
/// `Lease` answers with an error, but not one that fills in `Option<Lease>`.
#[diagnostic::on_unimplemented(
    message = "with `manager`, the lock does not fill this parameter: remove it and call `Lease::current()` in the body",
    label = "would be `None` if a router called this function"
)]
pub trait FilledByCaller {}

#[diagnostic::do_not_recommend]
impl FilledByCaller for Ordinary {}
#[diagnostic::do_not_recommend]
impl FilledByCaller for Bare {}

/// Reports a wrapped lease that no lock fills.
pub fn check_filled_by_caller(_: impl FilledByCaller) {}
