use std::sync::Arc;

use http::request::Parts;

use super::resource_error::ResourceError;
use super::template::Template;
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

impl OneSource {
    /// The resource to lock for a request.
    pub(super) async fn resource(&self, parts: &mut Parts) -> Result<String, ResourceError> {
        match self {
            Self::Template(template) => template.render(parts).await,
            Self::Function(function) => Ok(function(parts)?),
        }
    }
}

/// The resources of a set to lock for a request.
pub(super) async fn resources(templates: &[Template], parts: &mut Parts) -> Result<Vec<String>, ResourceError> {
    let mut resources = Vec::with_capacity(templates.len());
    for template in templates {
        resources.push(template.render(parts).await?);
    }
    Ok(resources)
}
