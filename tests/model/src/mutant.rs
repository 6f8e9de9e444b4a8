/// A mutant of the protocol: one rule is broken, and a property must be violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The token is the largest that was granted, without a confirmation.
    LargestGrant,
    /// A node confirms any owner, whichever holds the key.
    ConfirmWithoutOwnerCheck,
    /// A node confirms a token that equals its fence, whichever owner holds the key: it has assigned that token to somebody.
    ConfirmOfEqualFence,
    /// All attempts use one owner id.
    SharedOwnerId,
    /// A node that lost its data votes at once.
    NoQuarantine,
    /// A node that lost its data votes at once, and takes over no fence.
    NoQuarantineNoFloor,
    /// A node that lost its data is quarantined, but takes over no fence.
    NoFloor,
    /// Requests that were sent before a node lost its data are still executed by the others.
    FloorWithoutInstall,
    /// An extend puts the key back where it is missing, and the renewal counts it.
    CountsReplacedKeys,
    /// A release deletes the key of any owner.
    ReleaseWithoutOwnerCheck,
    /// An extend extends the key of any owner.
    ExtendWithoutOwnerCheck,
    /// Keys never expire.
    KeysNeverExpire,
    /// A node counts a block of tokens as one token.
    BlockCountsAsOne,
    /// Another lock that shares the fence sets it, even to a smaller value.
    SharedFenceSetBack,
    /// A node grants the lock to an owner that was evicted.
    AcquiresDespiteTombstone,
    /// A node puts back the key of an owner that was evicted.
    ReplacesDespiteTombstone,
    /// An eviction deletes the key of any owner.
    EvictsWithoutOwnerCheck,
    /// A node on which a successor has the key counts as one that evicted.
    EvictsBesideSuccessor,
    /// An eviction does not raise the fence.
    EvictsWithoutFence,
    /// The token of an eviction is above the first token of the holder's block, and nodes take it whatever their fence is.
    EvictsAboveFirstOfBlock,
    /// A reader has an entry, but sets no marker.
    ReaderWithoutMarker,
    /// The first reader that leaves deletes the marker.
    FirstLeaverDeletesMarker,
    /// A node grants to a reader beside a writer.
    ReaderBesideWriter,
    /// A reader that joins does not prolong the marker.
    MarkerNotProlonged,
    /// The first reader gets the fence as it stands.
    FirstReaderKeepsFence,
    /// A reader is put back instead of a writer.
    ReplaceOverWriter,
    /// A node extends the entry of a reader that has expired, as long as others keep the marker.
    ExpiredReaderCounts,
    /// A reader that joins sets the marker's time to its own, even to a shorter one.
    MarkerShrunkByJoin,
    /// A node confirms to a reader whose marker is gone, but whose entry is still there.
    ConfirmWithoutMarker,
    /// A node confirms to a reader although its fence is higher.
    RelaxedConfirm,
    /// A node downgrades the key of any writer.
    DowngradeForAnyOwner,
    /// A node deletes the key of a writer that downgrades, and sets the marker in a second step.
    DowngradeWithGap,
    /// A node grants to a reader that was evicted, and puts it back.
    ReadsDespiteTombstone,
    /// A node grants a lock to anybody as soon as its holder was evicted.
    EvictsWithoutGap,
    /// An eviction of readers deletes the marker although others read that were not seen.
    EvictsUnseenReaders,
}
