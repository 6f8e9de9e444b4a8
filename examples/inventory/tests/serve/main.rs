//! The service over HTTP, and its page in a browser.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, but not in their helper functions")]

mod access;
mod browser;
mod chromium;
mod masters;
mod pages;
mod proof;
mod service;
mod shop;
