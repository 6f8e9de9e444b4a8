//! A part of the ledger: how transactions are sent. Must be right: one that is sent in an epoch changes nothing in another one.

use futures_util::future::BoxFuture;
use zookeeper_client::{Error, MultiWriteError, MultiWriteResult, Stat};

use super::classify::node_error;
use super::parts::Part;
use super::paths::Paths;
use super::session::Session;
use crate::node::NodeError;
use crate::random::Epoch;

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
