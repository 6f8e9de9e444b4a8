use std::fmt;

/// A mutant of the rules of delegation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelegationMutant {
    /// The code of a credential is not checked: any holder of the key proves it.
    CodeUnchecked,
    /// A majority of the nodes that replied proves that the lock is held.
    MajorityOfReplies,
    /// A lock that was delegated is handed over to a local caller.
    HandedOver,
    /// The key is deleted although the adopter may be at work.
    ReleasedUnderAdopter,
}

/// The bounds of the model.
#[derive(Clone, Debug)]
pub struct DelegationSetting {
    /// The mutant to explore instead of the protocol.
    pub mutant: Option<DelegationMutant>,
    /// How long keys live, in ticks.
    pub ttl: u8,
    /// The last tick.
    pub last_tick: u8,
    /// How many times the holder renews.
    pub renewals: u8,
    /// How many times the adopter looks at the nodes.
    pub looks: u8,
}

impl DelegationSetting {
    /// The adopter looks again, or its request is replayed when the rival has the lock.
    pub const LOOKING_AGAIN: Self = Self { mutant: None, ttl: 2, last_tick: 4, renewals: 0, looks: 2 };

    /// The same setting for a mutant.
    #[must_use]
    pub const fn with_mutant(self, mutant: DelegationMutant) -> Self {
        Self { mutant: Some(mutant), ..self }
    }

    /// The same while the holder renews its lock.
    #[must_use]
    pub fn long() -> Vec<Self> {
        vec![Self { renewals: 1, ..Self::LOOKING_AGAIN }]
    }
}

impl fmt::Display for DelegationSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ttl, last_tick, renewals, looks, .. } = self;
        write!(f, "delegation: keys live {ttl} of {last_tick} ticks, {renewals} renewals, {looks} looks")
    }
}
