//! A sketch of a node for etcd.
//!
//! etcd is one node of weight one. Its transactions compare and then write, in one step on all its members, so every
//! operation is one transaction. `E` is a key with the epoch, `L` the lock key, whose value is the owner.
//!
//! | operation | transaction |
//! |---|---|
//! | Acquire | if `value(E) == epoch` and `create_revision(L) == 0`: `put(L, owner, lease)`; else `get(E)`, `get(L)`, which says which of the two it was, and whose `L` is |
//! | Extend | if `value(E) == epoch` and `value(L) == owner`: `put(L, owner, lease)` with a new lease. Not a keep-alive alone: that succeeds for a lease whose key is gone |
//! | Release | if `value(L) == owner`: `delete(L)` |
//! | a record | if `mod_revision(R) == the one that was read`: `put(R, ...)`, `put(E, ...)` |
//!
//! - **Tokens** need no counter: `base + 16 × revision`, with the revision of the transaction that put `L`. The room between two
//!   revisions is for the tokens that a holder hands over. The base is kept in the record; the floor raises it.
//! - **Run id**: the id of the cluster, which a restored snapshot does not have. The revisions of such a cluster begin lower, and the floor
//!   makes up for that.
//! - **Time**: a lease has whole seconds, so `ttl` is rounded up. Grant leases ahead, not in the path of a vote. etcd syncs before it
//!   acknowledges: `node_timeout` is 2 s.
//! - **Reads** have to be linearizable, which is the default, not serializable.
//! - **Wake-ups**: a watch on the deletion of `L`.
