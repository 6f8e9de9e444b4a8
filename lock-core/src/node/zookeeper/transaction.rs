use futures_util::future::BoxFuture;
use zookeeper_client::{Acls, Client, CreateMode, Error, MultiWriteError, MultiWriteResult, Stat};

use super::classify::node_error;
use crate::node::NodeError;

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
    /// This part, by its number, did not hold.
    Part(usize, Error),
    Whole(Error),
}

impl From<Failed> for NodeError {
    fn from(failed: Failed) -> Self {
        let (Failed::Part(_, error) | Failed::Whole(error)) = failed;
        node_error(&error)
    }
}

/// What became of the znodes that a transaction set, in order.
pub(super) type Committed = Result<Vec<Stat>, Failed>;

/// Sends a transaction. It has its place in the order of the session when this returns.
pub(super) fn commit<'a>(client: &'a Client, acls: Acls<'_>, parts: &[Part<'_>]) -> BoxFuture<'a, Committed> {
    let mut writer = client.new_multi_writer();
    let added: Result<(), Error> = parts.iter().try_for_each(|part| match *part {
        Part::Check(path, version) => writer.add_check_version(path, version.unwrap_or(-1)),
        Part::Create(path, value, mode) => writer.add_create(path, value, &mode.with_acls(acls)),
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
