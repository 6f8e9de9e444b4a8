//! A part of the ledger: the parts of transactions, and those that raise a fence. Must be right: no fence is ever lowered, or raised from
//! another value than the one that was seen.

use zookeeper_client::CreateMode;

/// A part of a transaction.
#[derive(Clone, Copy)]
pub(super) enum Part<'a> {
    /// The znode exists, with this version if one is given.
    Check(&'a str, Option<i32>),
    /// The znode does not exist, and is created. An ephemeral one ends with the session.
    Create(&'a str, &'a [u8], CreateMode),
    /// The znode exists, with this version if one is given, and gets this value.
    Set(&'a str, &'a [u8], Option<i32>),
    /// The znode exists, with this version if one is given, and is deleted.
    Delete(&'a str, Option<i32>),
}

/// A fence, as it was seen: its value, and the version of its znode; `None` for one that was not there.
///
/// The version could count the tokens, in one round trip always. But it has 32 bits, which a busy lock uses up in a month; and hints,
/// floors and evictions set a fence to any number.
#[derive(Clone, Copy, Default)]
pub(super) struct Fence {
    pub(super) value: u64,
    pub(super) version: Option<i32>,
}

impl Fence {
    /// The last parts of a transaction that gives the fence another value, if it is still as it was seen.
    ///
    /// After 2³² changes, a version comes round, through -1. As the version that is expected, this stands for any: so the fence is set
    /// once more in the same transaction, and nobody ever sees it with this version.
    pub(super) fn raise<'a>(self, path: &'a str, value: &'a str) -> Vec<Part<'a>> {
        let value = value.as_bytes();
        match self.version {
            Some(-2) => vec![Part::Set(path, value, Some(-2)), Part::Set(path, value, None)],
            Some(version) => vec![Part::Set(path, value, Some(version))],
            None => vec![Part::Create(path, value, CreateMode::Persistent)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_never_left_with_the_version_that_stands_for_any() {
        for before in [0, 1, i32::MAX, i32::MIN, -3, -2] {
            let mut version = before;
            for part in (Fence { value: 1, version: Some(before) }).raise("/fences/1", "2") {
                let Part::Set("/fences/1", b"2", expected) = part else { panic!("it exists") };
                assert!(expected.is_none_or(|expected| expected == version && expected != -1));
                version = version.wrapping_add(1);
            }
            assert!(version != -1 && version != before, "{before}");
        }
        let created = Fence::default().raise("/fences/1", "1");
        assert!(matches!(created[..], [Part::Create("/fences/1", b"1", CreateMode::Persistent)]));
    }
}
