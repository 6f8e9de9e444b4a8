use super::manager::Inner;
use crate::engine::SlotsSeen;
use crate::kind::Kind;
use crate::node::LockKeys;
use crate::options::LockOptions;

impl Inner {
    /// Looks at the slots of a resource, if it has any.
    pub(super) async fn look(&self, keys: &LockKeys, options: &LockOptions) -> Option<SlotsSeen> {
        match options.kind {
            Kind::Write | Kind::Read => None,
            Kind::Permit { of } => Some(self.engine.look_at_slots(keys, of, options.ttl).await),
        }
    }

    /// One of these slots, at random: other callers see the same.
    pub(super) fn any_of(&self, slots: &[u32]) -> Option<u32> {
        let index = self.engine.random.number().checked_rem(slots.len() as u64)?;
        slots.get(usize::try_from(index).unwrap_or_default()).copied()
    }
}
