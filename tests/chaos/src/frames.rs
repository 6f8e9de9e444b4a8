//! Tells the wake-ups apart in what a Redis server sends over a connection that carries requests, too: in RESP3, they are messages that
//! nobody asked for.

/// What a server has sent so far.
#[derive(Default)]
pub(super) struct Frames {
    /// How many values are still to come of the present answer or message, itself included. Between two of them, none.
    values: u64,
    /// How many bytes are still to come of the present string, with the end of its line.
    string: usize,
    /// The present line, if no string is to come.
    line: Vec<u8>,
    /// The present message, as far as it has arrived. Of an answer, nothing is kept.
    message: Option<Vec<u8>>,
}

/// A part of what a server sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A whole wake-up.
    Wakeup(Vec<u8>),
    /// Any part of anything else.
    Other(Vec<u8>),
}

/// How a message on a channel begins, and one on a channel of a cluster.
const MESSAGES: [&[u8]; 2] = [b">3\r\n$7\r\nmessage\r\n", b">3\r\n$8\r\nsmessage\r\n"];

impl Frames {
    /// Takes what arrived. A wake-up that is not complete comes with the rest of it.
    pub(super) fn split(&mut self, sent: &[u8]) -> Vec<Part> {
        let (mut parts, mut other) = (Vec::new(), Vec::new());
        for byte in sent {
            if self.values == 0 {
                (self.values, self.message) = (1, (*byte == b'>').then(Vec::new));
            }
            self.take(*byte);
            match &mut self.message {
                Some(message) => message.push(*byte),
                None => other.push(*byte),
            }
            let Some(message) = self.message.take_if(|_| self.values == 0) else { continue };
            if MESSAGES.iter().any(|beginning| message.starts_with(beginning)) {
                parts.extend((!other.is_empty()).then(|| Part::Other(std::mem::take(&mut other))));
                parts.push(Part::Wakeup(message));
            } else {
                other.extend(message);
            }
        }
        parts.extend((!other.is_empty()).then_some(Part::Other(other)));
        parts
    }

    fn take(&mut self, byte: u8) {
        if self.string > 0 {
            self.string -= 1;
            self.values -= u64::from(self.string == 0);
            return;
        }
        self.line.push(byte);
        if byte != b'\n' {
            return;
        }
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
        let number: Option<u64> = line.get(1..).and_then(|number| number.trim_end().parse().ok());
        match (line.as_bytes()[0], number) {
            (b'$' | b'=' | b'!', Some(length)) => self.string = usize::try_from(length).unwrap_or_default() + 2,
            (b'*' | b'~' | b'>', Some(values)) => self.values = self.values - 1 + values,
            (b'%', Some(pairs)) => self.values = self.values - 1 + 2 * pairs,
            // What it is about follows.
            (b'|', Some(pairs)) => self.values += 2 * pairs,
            _ => self.values -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wakeups_are_told_apart_however_they_arrive() {
        for name in ["$7\r\nmessage", "$8\r\nsmessage"] {
            tell_apart(&format!(">3\r\n{name}\r\n$4\r\nlock\r\n$8\r\n0 lock:a\r\n"));
        }
    }

    fn tell_apart(wakeup: &str) {
        let others = [
            "+OK\r\n",
            ">3\r\n$9\r\nsubscribe\r\n$4\r\nlock\r\n:1\r\n",
            "*2\r\n$-1\r\n%1\r\n+a\r\n*0\r\n",
            ">2\r\n+invalidate\r\n_\r\n",
            "$9\r\n>3\r\n$7\r\nm\r\n",
        ];
        let all: String = others.iter().flat_map(|other| [wakeup, other]).collect();
        for at_once in [1, 2, 7, all.len()] {
            let mut frames = Frames::default();
            let parts: Vec<Part> = all.as_bytes().chunks(at_once).flat_map(|sent| frames.split(sent)).collect();
            let found = parts.iter().filter(|part| **part == Part::Wakeup(wakeup.into())).count();
            let rest = parts.iter().flat_map(|part| match part {
                Part::Other(bytes) => bytes.clone(),
                Part::Wakeup(_) => Vec::new(),
            });
            assert_eq!((found, rest.collect::<Vec<_>>()), (others.len(), others.concat().into_bytes()), "{at_once}");
        }
    }
}
