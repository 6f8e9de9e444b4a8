//! The service over HTTP, and its page in a browser.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, but not in their helper functions")]

mod access;
mod alerts;
mod animation;
mod browser;
mod chromium;
mod client;
mod dashboard;
mod grafana;
mod instances;
mod masters;
mod pages;
mod program;
mod prometheus;
mod proof;
mod service;
mod shop;
mod tour;
