//! Guarded handlers, functions and layers, nearly all of them over real connections.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to end")]

mod any_moment;
mod body_budget;
mod body_holds;
mod dashboard;
mod dashboard_control;
mod dashboard_page;
mod delegations;
mod endings;
mod fence;
mod functions;
mod grpc;
mod handlers;
mod hang_ups;
mod holds;
mod layer;
mod layer_bodies;
mod layer_services;
mod layer_settings;
mod lease_extraction;
mod manager_in_state;
mod openapi;
mod permits;
mod public_names;
mod readers;
mod readyz;
mod rejections;
mod retry_after;
mod session_kinds;
mod sessions;
mod sets;
mod slow_uploads;
mod stalled_runtimes;
mod templates;
mod traces;
mod upgrades;
