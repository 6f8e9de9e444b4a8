use std::collections::VecDeque;

use serde::Serialize;

/// How many entries of a sort are kept.
const KEPT: usize = 40;

/// What happened last.
///
/// Grants are many, and would push out everything else, so they have a list of their own.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    next: u64,
    grants: VecDeque<Entry>,
    others: VecDeque<Entry>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Entry {
    /// Counts all entries.
    number: u64,
    /// Since the service started.
    at_ms: u64,
    kind: Kind,
    text: String,
    /// How often it happened in a row.
    times: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Granted,
    HandedOver,
    Renewed,
    Lost,
    Refused,
    Unavailable,
    Frozen,
    Killed,
    Control,
}

impl Feed {
    /// Adds an entry, or counts it if it is the same as the last one.
    pub(crate) fn add(&mut self, at_ms: u64, kind: Kind, text: String) {
        let list = match kind {
            Kind::Granted | Kind::HandedOver => &mut self.grants,
            _ => &mut self.others,
        };
        let number = self.next;
        self.next += 1;
        match list.back_mut() {
            Some(last) if last.kind == kind && last.text == text => {
                last.times += 1;
                last.number = number;
                last.at_ms = at_ms;
            }
            _ => list.push_back(Entry { number, at_ms, kind, text, times: 1 }),
        }
        if list.len() > KEPT {
            list.pop_front();
        }
    }

    /// The newest entries first.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let mut entries: Vec<_> = self.grants.iter().chain(&self.others).cloned().collect();
        entries.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.number));
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_do_not_push_out_what_is_rare() {
        let mut feed = Feed::default();
        feed.add(0, Kind::Lost, "token 1".to_owned());
        for token in 2..1_000 {
            feed.add(token, Kind::Granted, format!("token {token}"));
        }
        let entries = feed.entries();
        assert_eq!(entries.len(), KEPT + 1);
        assert_eq!(entries[0].text, "token 999");
        assert_eq!(entries[KEPT].kind, Kind::Lost);
    }

    #[test]
    fn the_same_again_is_counted() {
        let mut feed = Feed::default();
        for at_ms in 0..500 {
            feed.add(at_ms, Kind::Unavailable, "no quorum".to_owned());
        }
        let entries = feed.entries();
        assert_eq!((entries.len(), entries[0].times, entries[0].at_ms), (1, 500, 499));
    }
}
