use std::sync::Arc;

use super::LockNode;

/// Forwards methods of [`LockNode`] to a node inside: `forward_to_node!(self => self.node; name inspect submit);`. A wrapper writes
/// out only what it changes.
#[doc(hidden)]
#[macro_export]
macro_rules! forward_to_node {
    ($this:ident => $node:expr; $($method:ident)*) => { $($crate::forward_to_node!(@$method $this $node);)* };
    (fn $this:ident $node:expr; $method:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?) => {
        fn $method(&$this $(, $arg: $type)*) $(-> $result)? { $node.$method($($arg),*) }
    };
    // For methods whose future may fail.
    (try $this:ident $node:expr; $method:ident($($arg:ident: $type:ty),*) -> $ok:ty) => {
        fn $method(&$this $(, $arg: $type)*) -> $crate::node::NodeFuture<Result<$ok, $crate::NodeError>> {
            $node.$method($($arg),*)
        }
    };
    (@name $($to:tt)*) => { $crate::forward_to_node!(fn $($to)*; name() -> &str); };
    (@inspect $($to:tt)*) => {
        $crate::forward_to_node!(try $($to)*;
            inspect(keyspace: &std::sync::Arc<$crate::node::Keyspace>) -> $crate::node::Inspection);
    };
    (@write_record $($to:tt)*) => {
        $crate::forward_to_node!(try $($to)*;
            write_record(keyspace: &std::sync::Arc<$crate::node::Keyspace>, write: $crate::node::RecordWrite)
            -> Option<$crate::node::NodeRecord>);
    };
    (@read_fences $($to:tt)*) => {
        $crate::forward_to_node!(try $($to)*;
            read_fences(keyspace: &std::sync::Arc<$crate::node::Keyspace>) -> Option<$crate::node::FenceReading>);
    };
    (@submit $($to:tt)*) => {
        $crate::forward_to_node!(fn $($to)*; submit(request: $crate::node::Request, reply_to: $crate::node::ReplySender));
    };
    (@submit_all $($to:tt)*) => {
        $crate::forward_to_node!(fn $($to)*; submit_all(requests: Vec<($crate::node::Request, $crate::node::ReplySender)>));
    };
    (@look $($to:tt)*) => {
        $crate::forward_to_node!(try $($to)*; look(look: $crate::node::Look) -> Vec<$crate::node::LockState>);
    };
    (@evict $($to:tt)*) => { $crate::forward_to_node!(try $($to)*; evict(evict: $crate::node::Evict) -> $crate::node::Eviction); };
    (@wakeups $($to:tt)*) => {
        $crate::forward_to_node!(try $($to)*;
            wakeups(keyspace: &std::sync::Arc<$crate::node::Keyspace>, waiter: $crate::node::WaiterId)
            -> $crate::node::Wakeups);
    };
    (@disconnected $($to:tt)*) => { $crate::forward_to_node!(fn $($to)*; disconnected() -> $crate::node::NodeFuture<()>); };
    (@last_words $($to:tt)*) => { $crate::forward_to_node!(fn $($to)*; last_words() -> Option<String>); };
    (@node_timeout $($to:tt)*) => {
        $crate::forward_to_node!(fn $($to)*; node_timeout(ttl: std::time::Duration) -> std::time::Duration);
    };
    (@is_alone $($to:tt)*) => { $crate::forward_to_node!(fn $($to)*; is_alone() -> bool); };
    (@set_max_ttl $($to:tt)*) => { $crate::forward_to_node!(fn $($to)*; set_max_ttl(max_ttl: std::time::Duration)); };
    (@shard $($to:tt)*) => {
        $crate::forward_to_node!(fn $($to)*; shard(shard: u32) -> Option<std::sync::Arc<dyn $crate::LockNode>>);
    };
    (@disconnect $($to:tt)*) => { $crate::forward_to_node!(fn $($to)*; disconnect()); };
}

macro_rules! delegate {
    ($pointer:ident) => {
        impl<T: LockNode + ?Sized> LockNode for $pointer<T> {
            forward_to_node!(self => (**self);
                name inspect write_record read_fences submit submit_all look evict wakeups disconnected last_words
                disconnect shard node_timeout is_alone set_max_ttl);
        }
    };
}

delegate!(Arc);
delegate!(Box);
