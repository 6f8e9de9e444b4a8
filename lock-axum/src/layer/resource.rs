use std::sync::Arc;

use http::request::Parts;

use super::template::{ResourceError, Template};
use crate::guard::Resources;
use crate::key_error::KeyError;

/// Where the resource, or the resources of a set, come from.
#[derive(Clone)]
pub(super) enum ResourceSource {
    One(OneSource),
    Set(Arc<[Template]>),
}

/// Where one resource comes from.
#[derive(Clone)]
pub(super) enum OneSource {
    Template(Arc<Template>),
    Function(Arc<ResourceFn>),
}

pub(super) type ResourceFn = dyn Fn(&Parts) -> Result<String, KeyError> + Send + Sync;

/// What tells the resources to lock for a request: one, or those of a set.
pub(super) trait Source: Send + Sync + 'static {
    type Resources: Resources;

    fn resources(&self, parts: &mut Parts) -> impl Future<Output = Result<Self::Resources, ResourceError>> + Send;
}

impl Source for OneSource {
    type Resources = String;

    async fn resources(&self, parts: &mut Parts) -> Result<String, ResourceError> {
        match self {
            Self::Template(template) => template.render(parts).await,
            Self::Function(function) => Ok(function(parts)?),
        }
    }
}

impl Source for Arc<[Template]> {
    type Resources = Vec<String>;

    async fn resources(&self, parts: &mut Parts) -> Result<Vec<String>, ResourceError> {
        let mut resources = Vec::with_capacity(self.len());
        for template in self.iter() {
            resources.push(template.render(parts).await?);
        }
        Ok(resources)
    }
}
