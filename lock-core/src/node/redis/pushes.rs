//! What a server sends over a connection without having been asked (RESP3): wake-ups, and that it lost its data.
//!
//! redis-rs hands each message to the push sender of the connection, before it resolves any reply that the server sent later. So what
//! is noted here is seen by the reader of such a reply.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, OnceLock, Weak};

use redis::{AsyncConnectionConfig, PushInfo, PushKind, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::connect::settings;
use crate::mutex::Mutex;
use crate::node::{NodeError, Refusal, Wakeup};

/// How many wake-ups may wait to be passed on. What comes beyond is lost: a timer covers for it.
const CAPACITY: usize = 1024;

/// What arrived over one connection. Clones are about the same one.
#[derive(Clone)]
pub(super) struct Pushes {
    inbox: Arc<Inbox>,
    /// Alive while there is a connection that was made with the configuration: then messages arrive.
    arrive: Weak<()>,
}

struct Inbox {
    gone: CancellationToken,
    /// Why no reply counts any more.
    distrusted: OnceLock<&'static str>,
    /// Who listens, by channel: one, as a manager is one waiter.
    listeners: Mutex<BTreeMap<String, mpsc::Sender<Wakeup>>>,
}

impl Pushes {
    /// What will arrive over the one connection that is made with this configuration. `gone` is cancelled when the connection is lost,
    /// or the server lost its data.
    pub(super) fn new(gone: CancellationToken) -> (Self, AsyncConnectionConfig) {
        let inbox = Arc::new(Inbox { gone, distrusted: OnceLock::new(), listeners: Mutex::default() });
        let (sender, arriving) = (Arc::clone(&inbox), Arc::new(()));
        let pushes = Self { inbox, arrive: Arc::downgrade(&arriving) };
        let sender = move |push| {
            _ = &arriving;
            sender.receive(push);
            Ok::<(), Infallible>(())
        };
        (pushes, settings().set_push_sender(sender))
    }

    /// Cancelled when the connection must not be used any more.
    pub(super) fn gone(&self) -> &CancellationToken {
        &self.inbox.gone
    }

    /// Why no messages arrive, unless they do.
    pub(super) fn must_arrive(&self) -> Result<(), NodeError> {
        if self.arrive.strong_count() > 0 {
            return Ok(());
        }
        if self.gone().is_cancelled() {
            return Err(NodeError::Unreachable { reason: "connection lost".into() });
        }
        let reason = "no messages arrive over the connection: the server or a proxy in front of it does not speak RESP3, or the \
                      factory of the connection did not use the AsyncConnectionConfig that it was given";
        Err(Refusal::Unusable { reason: reason.into() }.into())
    }

    /// An error if the server said that it lost its data, or replies may not be those to the requests. To be called when a reply was
    /// read: the server may have replied with other data.
    pub(super) fn check(&self) -> Result<(), NodeError> {
        match self.inbox.distrusted.get() {
            Some(reason) => Err(NodeError::ConnectionLost { reason: (*reason).into() }),
            None => Ok(()),
        }
    }

    /// An answer that was read, unless the server lost its data before it gave it.
    pub(super) fn checked<T>(&self, answer: Result<T, NodeError>) -> Result<T, NodeError> {
        let answer = answer?;
        self.check().map(|()| answer)
    }

    /// The wake-ups that arrive on a channel from now on.
    pub(super) fn wakeups(&self, channel: &str) -> Result<mpsc::Receiver<Wakeup>, NodeError> {
        self.must_arrive()?;
        let (sender, receiver) = mpsc::channel(CAPACITY);
        let mut listeners = self.inbox.listeners.lock();
        listeners.retain(|_, listener| !listener.is_closed());
        listeners.insert(channel.to_owned(), sender);
        Ok(receiver)
    }
}

impl Inbox {
    fn receive(&self, PushInfo { kind, data }: PushInfo) {
        match kind {
            PushKind::Disconnection => self.gone.cancel(),
            // Of all keys at once. A connection that tracks is told that before any later reply.
            PushKind::Invalidate if matches!(data[..], [Value::Nil]) => {
                self.distrust("the server lost its data, and is inspected again");
            }
            // Nobody asks for it, and redis-rs takes it for a reply: each one after it goes to the wrong request.
            PushKind::SUnsubscribe => self.distrust("the slot moved to another server, which is looked for"),
            PushKind::Message | PushKind::SMessage => {
                if let Some((channel, wakeup)) = parse(data)
                    && let Some(listener) = self.listeners.lock().get(&channel)
                {
                    _ = listener.try_send(wakeup);
                }
            }
            _ => {}
        }
    }

    /// No reply counts any more, from now on: this is called before any later one is resolved.
    fn distrust(&self, reason: &'static str) {
        _ = self.distrusted.set(reason);
        self.gone.cancel();
    }
}

/// A channel and a message on it, as `waiting.lua` and `waiting_slots.lua` write it.
fn parse(data: Vec<Value>) -> Option<(String, Wakeup)> {
    let (channel, message): (String, String) = redis::from_redis_value(Value::Array(data)).ok()?;
    Some((channel, Wakeup::parse(&message)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn inbox() -> (Pushes, Arc<Inbox>) {
        let (pushes, _) = Pushes::new(CancellationToken::new());
        let inbox = Arc::clone(&pushes.inbox);
        (pushes, inbox)
    }

    #[test]
    fn a_server_that_lost_its_data_is_given_up_and_one_that_lost_a_key_is_not() {
        let (pushes, inbox) = inbox();
        inbox.receive(PushInfo { kind: PushKind::Invalidate, data: vec![Value::Array(vec![text("key")])] });
        assert!(pushes.check().is_ok() && !pushes.gone().is_cancelled());
        inbox.receive(PushInfo { kind: PushKind::Invalidate, data: vec![Value::Nil] });
        let error = pushes.check().unwrap_err();
        assert!(pushes.gone().is_cancelled() && error.may_have_executed(), "{error}");
    }

    #[test]
    fn no_reply_counts_behind_one_that_nobody_asked_for() {
        let (pushes, inbox) = inbox();
        inbox.receive(PushInfo { kind: PushKind::SSubscribe, data: vec![text("c"), Value::Int(1)] });
        assert!(pushes.check().is_ok());
        inbox.receive(PushInfo { kind: PushKind::SUnsubscribe, data: vec![text("c"), Value::Int(0)] });
        assert!(pushes.check().unwrap_err().may_have_executed() && pushes.gone().is_cancelled());
    }

    #[test]
    fn replies_before_the_loss_of_a_connection_count() {
        let (pushes, inbox) = inbox();
        inbox.receive(PushInfo { kind: PushKind::Disconnection, data: Vec::new() });
        assert!(pushes.gone().is_cancelled() && pushes.check().is_ok());
    }

    #[test]
    fn messages_arrive_while_the_connection_lives() {
        let (pushes, config) = Pushes::new(CancellationToken::new());
        assert!(pushes.must_arrive().is_ok() && pushes.wakeups("c").is_ok());
        drop(config);
        assert!(matches!(pushes.wakeups("c"), Err(NodeError::Refused(_))), "a factory that did not use it");
        pushes.gone().cancel();
        assert!(matches!(pushes.wakeups("c"), Err(NodeError::Unreachable { .. })));
    }

    #[test]
    fn a_message_is_read_whole_or_not_at_all() {
        let message = |message: &str| parse(vec![text("lock:{node}:wakeups:1f"), text(message)]);
        let read = |lock_key: &str, before, free: &[u32]| {
            let (lock_key, free) = (lock_key.to_owned(), free.iter().copied().collect());
            Some(("lock:{node}:wakeups:1f".to_owned(), Wakeup { lock_key, before, free }))
        };
        assert_eq!(message("2 lock:a b"), read("lock:a b", 2, &[]));
        assert_eq!(message("0,1,3 lock:a{1}"), read("lock:a{1}", 0, &[1, 3]));
        for other in ["", "2", "x lock:a", "-1 lock:a", "0, lock:a{1}", ",1 lock:a{1}"] {
            assert_eq!(message(other), None, "{other}");
        }
    }
}
