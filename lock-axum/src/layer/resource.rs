use std::sync::Arc;

use http::request::Parts;

use super::template::Template;
use crate::key_error::KeyError;
use crate::rejection::LockRejection;

/// Where the resource comes from.
#[derive(Clone)]
pub(super) enum ResourceSource {
    Template(Arc<Template>),
    Function(Arc<ResourceFn>),
}

pub(super) type ResourceFn = dyn Fn(&Parts) -> Result<String, KeyError> + Send + Sync;

impl ResourceSource {
    /// The resource to lock for a request.
    pub(super) async fn resource(&self, parts: &mut Parts) -> Result<String, LockRejection> {
        match self {
            Self::Template(template) => template.render(parts).await,
            Self::Function(function) => Ok(function(parts)?),
        }
    }
}
