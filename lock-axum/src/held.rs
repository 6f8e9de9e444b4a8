use http::Extensions;
use lock_core::{Lease, Leases, LockError, Scope};

/// The view of a held lock, or of a set of locks.
pub trait Held: Clone + Send + Sync + 'static {
    /// Returns an error if it is held no longer.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`].
    fn check(&self) -> Result<(), LockError>;

    /// Resolves when it is lost.
    fn lost(self) -> impl Future<Output = ()> + Send + 'static;

    /// Its scope, inside the present one.
    fn scope(&self) -> Scope;

    /// Puts it where the extractors of a request find it.
    fn insert_into(&self, request: &mut Extensions);

    /// Puts it where outer middleware, such as an access log, finds it in a response.
    fn note_in(&self, response: &mut Extensions);
}

impl Held for Lease {
    fn check(&self) -> Result<(), LockError> {
        self.check()
    }

    fn lost(self) -> impl Future<Output = ()> + Send + 'static {
        Lease::lost(&self)
    }

    fn scope(&self) -> Scope {
        self.as_scope()
    }

    fn insert_into(&self, request: &mut Extensions) {
        request.insert(self.token());
        request.insert(self.clone());
    }

    fn note_in(&self, response: &mut Extensions) {
        response.insert(self.token());
    }
}

impl Held for Leases {
    fn check(&self) -> Result<(), LockError> {
        self.check()
    }

    fn lost(self) -> impl Future<Output = ()> + Send + 'static {
        Leases::lost(&self)
    }

    fn scope(&self) -> Scope {
        self.as_scope()
    }

    fn insert_into(&self, request: &mut Extensions) {
        request.insert(self.clone());
    }

    fn note_in(&self, response: &mut Extensions) {
        response.insert(self.clone());
    }
}
