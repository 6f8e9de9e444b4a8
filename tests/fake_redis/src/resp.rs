use std::borrow::Cow;
use std::io::{self, Write as _};

use super::double;

/// The words of a command.
pub(super) type Words = Vec<Vec<u8>>;

/// A reply of the server.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    Status(Cow<'static, str>),
    Text(Vec<u8>),
    /// Text for people: a verbatim string in RESP3.
    Report(String),
    Number(i64),
    /// A number with a fraction: text in RESP2.
    Double(f64),
    Nil,
    List(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
    /// Members of a sorted set with their scores: a list of pairs in RESP3.
    Scored(Vec<(f64, Vec<u8>)>),
    /// A message of a channel, or a confirmation of a subscription: a list in RESP2.
    Push(Vec<Reply>),
    /// Replies one after the other, to one command.
    Several(Vec<Reply>),
    /// An error, with its code.
    Error(String),
}

impl Reply {
    pub(super) fn text(text: impl AsRef<[u8]>) -> Self {
        Self::Text(text.as_ref().to_vec())
    }

    pub(super) fn error(error: impl Into<String>) -> Self {
        Self::Error(error.into())
    }

    pub(super) fn length(length: usize) -> Self {
        Self::Number(i64::try_from(length).unwrap_or(i64::MAX))
    }

    /// Appends the bytes of the reply, in version 2 or 3 of the protocol.
    pub(super) fn write(&self, protocol: u8, out: &mut Vec<u8>) {
        let resp3 = protocol == 3;
        let mut line = |mark: char, rest: &str| _ = write!(out, "{mark}{rest}\r\n");
        match self {
            Self::Status(status) => line('+', status),
            Self::Error(error) => line('-', error),
            Self::Number(number) => line(':', &number.to_string()),
            Self::Nil if resp3 => line('_', ""),
            Self::Nil => line('$', "-1"),
            Self::Text(text) => {
                line('$', &text.len().to_string());
                out.extend_from_slice(text);
                out.extend_from_slice(b"\r\n");
            }
            Self::Report(text) if resp3 => {
                line('=', &(text.len() + 4).to_string());
                out.extend_from_slice(format!("txt:{text}\r\n").as_bytes());
            }
            Self::Report(text) => Self::text(text).write(protocol, out),
            Self::Double(double) if resp3 => line(',', &double::print(*double)),
            Self::Double(double) => Self::text(double::print(*double)).write(protocol, out),
            Self::List(items) | Self::Push(items) => {
                let is_push = resp3 && matches!(self, Self::Push(_));
                line(if is_push { '>' } else { '*' }, &items.len().to_string());
                items.iter().for_each(|item| item.write(protocol, out));
            }
            Self::Several(replies) => replies.iter().for_each(|reply| reply.write(protocol, out)),
            Self::Scored(entries) => {
                line('*', &(entries.len() * if resp3 { 1 } else { 2 }).to_string());
                for (score, member) in entries {
                    if resp3 {
                        out.extend_from_slice(b"*2\r\n");
                    }
                    Self::text(member).write(protocol, out);
                    Self::Double(*score).write(protocol, out);
                }
            }
            Self::Map(pairs) => {
                if resp3 {
                    line('%', &pairs.len().to_string());
                } else {
                    line('*', &(pairs.len() * 2).to_string());
                }
                for (key, value) in pairs {
                    key.write(protocol, out);
                    value.write(protocol, out);
                }
            }
        }
    }
}

/// Removes the first command from the bytes. `None` while it is incomplete.
pub(super) fn take_command(bytes: &mut Vec<u8>) -> io::Result<Option<Words>> {
    let mut at = 0;
    let Some(count) = number(bytes, &mut at, b'*')? else { return Ok(None) };
    let mut words = Vec::with_capacity(count.min(64));
    for _ in 0..count {
        let Some(length) = number(bytes, &mut at, b'$')? else { return Ok(None) };
        let Some(word) = bytes.get(at..at + length) else { return Ok(None) };
        words.push(word.to_vec());
        at += length + 2;
    }
    if at > bytes.len() {
        return Ok(None);
    }
    bytes.drain(..at);
    Ok(Some(words))
}

/// The number in a line that begins with `mark`.
fn number(bytes: &[u8], at: &mut usize, mark: u8) -> io::Result<Option<usize>> {
    let rest = &bytes[(*at).min(bytes.len())..];
    let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    *at += end + 2;
    let digits = rest[..end].strip_prefix(&[mark]).and_then(|digits| std::str::from_utf8(digits).ok());
    let number = digits.and_then(|digits| digits.parse().ok());
    number.map(Some).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a command"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_taken_when_it_is_complete() {
        let whole = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
        for cut in 0..whole.len() {
            assert_eq!(take_command(&mut whole[..cut].to_vec()).unwrap(), None, "{cut} bytes");
        }
        let mut two = [&whole[..], &whole[..4]].concat();
        assert_eq!(take_command(&mut two).unwrap(), Some(vec![b"GET".to_vec(), b"k".to_vec()]));
        assert_eq!(two, b"*2\r\n");
        assert!(take_command(&mut b"GET k\r\n".to_vec()).is_err());
    }

    #[test]
    fn a_map_is_a_flat_list_in_the_older_protocol() {
        let map = Reply::Map(vec![(Reply::text("a"), Reply::Nil)]);
        let bytes = |protocol| {
            let mut out = Vec::new();
            map.write(protocol, &mut out);
            out
        };
        assert_eq!(bytes(2), b"*2\r\n$1\r\na\r\n$-1\r\n");
        assert_eq!(bytes(3), b"%1\r\n$1\r\na\r\n_\r\n");
    }

    #[test]
    fn scores_are_text_in_the_older_protocol_and_pairs_in_the_newer() {
        let scored = Reply::Scored(vec![(0.5, b"a".to_vec())]);
        let bytes = |protocol| {
            let mut out = Vec::new();
            scored.write(protocol, &mut out);
            out
        };
        assert_eq!(bytes(2), b"*2\r\n$1\r\na\r\n$3\r\n0.5\r\n");
        assert_eq!(bytes(3), b"*1\r\n*2\r\n$1\r\na\r\n,0.5\r\n");
    }
}
