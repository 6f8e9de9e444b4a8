//! A part of the ledger: transactions, and those parts of them that raise a fence. Must be right: no fence is ever lowered, or raised from
//! another value than the one that was seen.

use futures_util::future::BoxFuture;
use zookeeper_client::{CreateMode, Error, MultiWriteError, MultiWriteResult, Stat};

use super::classify::node_error;
use super::paths::Paths;
use super::session::Session;
use crate::node::NodeError;
use crate::random::Epoch;

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

/// Why a transaction changed nothing; or, for an error that may have come after it was carried out, why that is not known.
#[derive(Debug)]
pub(super) enum Failed {
    /// The znode of the epoch is gone, or has another version: see [`Session::commit_in`].
    Epoch(Error),
    /// This part, by its number, did not hold.
    Part(usize, Error),
    Whole(Error),
}

impl From<Failed> for NodeError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Epoch(Error::NoNode) => Self::Unadmitted,
            Failed::Epoch(error) | Failed::Part(_, error) | Failed::Whole(error) => node_error(&error),
        }
    }
}

/// What became of the znodes that a transaction set, in order.
pub(super) type Committed = Result<Vec<Stat>, Failed>;

impl Session {
    /// Sends a transaction. It has its place in the order of the session when this returns.
    pub(super) fn commit(&self, parts: &[Part<'_>]) -> BoxFuture<'_, Committed> {
        let mut writer = self.client.new_multi_writer();
        let added: Result<(), Error> = parts.iter().try_for_each(|part| match *part {
            Part::Check(path, version) => writer.add_check_version(path, version.unwrap_or(-1)),
            Part::Create(path, value, mode) => writer.add_create(path, value, &mode.with_acls(self.acls)),
            Part::Set(path, value, version) => writer.add_set_data(path, value, version),
            Part::Delete(path, version) => writer.add_delete(path, version),
        });
        if let Err(error) = added {
            return Box::pin(async move { Err(Failed::Whole(error)) });
        }
        let committed = writer.commit();
        Box::pin(async move {
            let results = committed.await.map_err(|error| match error {
                MultiWriteError::OperationFailed { index, source } => Failed::Part(index, source),
                MultiWriteError::RequestFailed { source } => Failed::Whole(source),
            })?;
            Ok(results
                .into_iter()
                .filter_map(|result| if let MultiWriteResult::SetData { stat } = result { Some(stat) } else { None })
                .collect())
        })
    }

    /// Sends a transaction that holds only in this epoch: its first part checks that, and with a `version` also that the floor is still
    /// the same. The numbers of the other parts begin behind it.
    pub(super) fn commit_in(
        &self,
        paths: &Paths,
        epoch: Epoch,
        version: Option<i32>,
        parts: &[Part<'_>],
    ) -> BoxFuture<'_, Committed> {
        let path = paths.epoch(epoch);
        let committed = self.commit(&[&[Part::Check(&path, version)], parts].concat());
        Box::pin(async move {
            committed.await.map_err(|failed| match failed {
                Failed::Part(0, error) => {
                    if error == Error::NoNode {
                        self.forget_admission(epoch);
                    }
                    Failed::Epoch(error)
                }
                // As the caller counts them: the check of the epoch stands before its parts.
                Failed::Part(part, error) => Failed::Part(part - 1, error),
                failed => failed,
            })
        })
    }
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
