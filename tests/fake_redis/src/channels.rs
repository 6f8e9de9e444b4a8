use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::Notify;

use super::commands::{Session, State};
use super::resp::Reply;

/// The connections that have subscribed to channels, or track keys, in the order in which they first did.
#[derive(Clone, Debug, Default)]
pub(super) struct Channels(Vec<Subscriber>);

/// A connection with a channel, or one that tracks.
#[derive(Clone, Debug)]
struct Subscriber {
    session: u64,
    channels: BTreeSet<Vec<u8>>,
    /// Whether it is told when all keys are deleted.
    tracks: bool,
    /// The messages that are not written to the connection so far.
    messages: Vec<Reply>,
    /// Notified when there is a message.
    called: Arc<Notify>,
}

impl Channels {
    /// Sends a message of this kind to those who have subscribed to a channel. Returns how many they are: also those that are cut off, until
    /// their connections have ended for the server.
    pub(super) fn publish(&mut self, kind: &str, channel: &[u8], message: &[u8]) -> usize {
        let message = Reply::Push(vec![Reply::text(kind), Reply::text(channel), Reply::text(message)]);
        let listening = self.0.iter_mut().filter(|subscriber| subscriber.channels.contains(channel));
        let sent = listening.map(|subscriber| {
            subscriber.messages.push(message.clone());
            subscriber.called.notify_one();
        });
        sent.count()
    }

    /// Tells those who track that all keys are deleted. Returns the message for the session that deleted them: it follows its reply.
    pub(super) fn tell_loss(&mut self, by: Option<u64>) -> Option<Reply> {
        let message = Reply::Push(vec![Reply::text("invalidate"), Reply::Nil]);
        let mut own = None;
        for subscriber in self.0.iter_mut().filter(|subscriber| subscriber.tracks) {
            if Some(subscriber.session) == by {
                own = Some(message.clone());
            } else {
                subscriber.messages.push(message.clone());
                subscriber.called.notify_one();
            }
        }
        own
    }

    /// Ends all subscriptions, which are to channels of a slot that is elsewhere now, and says so.
    pub(super) fn end_sharded(&mut self) {
        for subscriber in self.0.iter_mut().filter(|subscriber| !subscriber.channels.is_empty()) {
            let ended = std::mem::take(&mut subscriber.channels);
            let said = ended.iter().map(|channel| confirmation("sunsubscribe", Reply::text(channel), 0));
            subscriber.messages.extend(said);
            subscriber.called.notify_one();
        }
    }

    /// Lets a session be told when all keys are deleted.
    pub(super) fn track(&mut self, session: &Session) {
        self.entry(session).tracks = true;
    }

    /// Takes the messages for a session.
    pub(super) fn take_messages(&mut self, session: u64) -> Vec<Reply> {
        let subscriber = self.0.iter_mut().find(|subscriber| subscriber.session == session);
        subscriber.map(|subscriber| std::mem::take(&mut subscriber.messages)).unwrap_or_default()
    }

    /// Ends the subscriptions of a session, with its connection.
    pub(super) fn disconnect(&mut self, session: u64) {
        self.0.retain(|subscriber| subscriber.session != session);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn of(&self, session: u64) -> Option<&Subscriber> {
        self.0.iter().find(|subscriber| subscriber.session == session)
    }

    /// To how many channels a session has subscribed.
    fn count(&self, session: u64) -> usize {
        self.of(session).map_or(0, |subscriber| subscriber.channels.len())
    }

    fn subscribe(&mut self, session: &Session, channel: &[u8]) {
        self.entry(session).channels.insert(channel.to_vec());
    }

    fn entry(&mut self, Session { id, called, .. }: &Session) -> &mut Subscriber {
        let present = self.0.iter().position(|subscriber| subscriber.session == *id);
        let at = present.unwrap_or_else(|| {
            let (channels, called) = (BTreeSet::new(), Arc::clone(called));
            self.0.push(Subscriber { session: *id, channels, tracks: false, messages: Vec::new(), called });
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    fn unsubscribe(&mut self, session: u64, channel: &[u8]) {
        for subscriber in self.0.iter_mut().filter(|subscriber| subscriber.session == session) {
            subscriber.channels.remove(channel);
        }
    }
}

impl State {
    /// A command on the subscriptions of the session, or one that is another on a connection with subscriptions: in the older
    /// protocol, such a connection only executes these and `PING`. `None` for any other.
    pub(super) fn on_channels(&mut self, session: &Session, name: &str, arguments: &[Vec<u8>]) -> Option<Reply> {
        let channels = &mut self.database.channels;
        let only_listens = session.protocol == 2 && channels.count(session.id) > 0;
        match (name, arguments) {
            ("SUBSCRIBE" | "SSUBSCRIBE", wanted @ [_, ..]) => {
                let replies = wanted.iter().map(|channel| {
                    channels.subscribe(session, channel);
                    confirmation(&name.to_lowercase(), Reply::text(channel), channels.count(session.id))
                });
                Some(Reply::Several(replies.collect()))
            }
            ("UNSUBSCRIBE" | "SUNSUBSCRIBE", named) => {
                let subscribed = channels.of(session.id).map(|subscriber| subscriber.channels.clone());
                let all: Vec<_> = subscribed.into_iter().flatten().collect();
                let replies = if named.is_empty() { &all } else { named }.iter().map(|channel| {
                    channels.unsubscribe(session.id, channel);
                    confirmation(&name.to_lowercase(), Reply::text(channel), channels.count(session.id))
                });
                let replies: Vec<_> = replies.collect();
                let nothing = || vec![confirmation("unsubscribe", Reply::Nil, 0)];
                Some(Reply::Several(if replies.is_empty() { nothing() } else { replies }))
            }
            ("PING", [] | [_]) if only_listens => {
                let text = arguments.first().map(Vec::as_slice).unwrap_or_default();
                Some(Reply::List(vec![Reply::text("pong"), Reply::text(text)]))
            }
            ("SUBSCRIBE" | "SSUBSCRIBE" | "PING", _) => None,
            _ if only_listens => Some(Reply::error(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this \
                 context",
                name.to_lowercase()
            ))),
            _ => None,
        }
    }
}

fn confirmation(what: &str, channel: Reply, count: usize) -> Reply {
    Reply::Push(vec![Reply::text(what), channel, Reply::length(count)])
}
