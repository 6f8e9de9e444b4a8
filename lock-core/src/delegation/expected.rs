use std::sync::Arc;

use super::credential::Claims;
use super::error::AdoptError;
use crate::kind::Kind;

/// What the work is on that a delegation has to be of, as far as it is known before. Not public API.
#[derive(Clone, Debug, Default)]
pub struct Expected<'a> {
    /// The resource. Of a permit, without its slot, or the name of that slot.
    pub resource: Option<&'a str>,
    /// What the lock has to allow.
    pub kind: Option<Kind>,
    /// What metrics and traces show instead of the resource.
    pub template: Option<Arc<str>>,
}

impl Expected<'_> {
    /// Whether a delegation of this resource, and this slot of it, will do.
    pub(crate) fn check(&self, claims: &Claims, resource: &str, slot: Option<u32>) -> Result<(), AdoptError> {
        let has_slot = self.kind.is_none_or(|kind| kind.allows_slot(slot));
        let is_meant = |ours: &str| has_slot && (ours == resource || ours == claims.resource);
        if let Some(ours) = self.resource.filter(|ours| !is_meant(ours)) {
            return Err(AdoptError::OtherResource { theirs: claims.resource.clone(), ours: ours.to_owned() });
        }
        match (claims.kind, self.kind) {
            (Kind::Read, Some(Kind::Write)) => Err(AdoptError::NotToWrite { resource: claims.resource.clone() }),
            _ => Ok(()),
        }
    }
}
