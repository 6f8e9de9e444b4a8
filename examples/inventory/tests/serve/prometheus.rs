//! A real Prometheus that scrapes one service.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    process::{Child, Command, Stdio},
};

use axum::http::{Method, StatusCode};
use form_urlencoded::byte_serialize;
use lock_support::{eventually_async, free_port};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::client::Client;

/// A Prometheus on a free port of the loopback interface. It ends when this is dropped.
pub(crate) struct Prometheus {
    client: Client,
    process: Child,
    _data: TempDir,
}

impl Prometheus {
    /// Starts it, and waits until it has scraped a service once. From then on it does so every second.
    ///
    /// # Panics
    ///
    /// If Prometheus is not installed.
    pub(crate) async fn scraping(target: SocketAddr) -> Self {
        Self::alerting(target, "groups: []").await
    }

    /// As [`scraping`](Self::scraping), with rules that are evaluated every second.
    pub(crate) async fn alerting(target: SocketAddr, rules: &str) -> Self {
        let data = tempfile::tempdir().unwrap();
        fs::write(data.path().join("rules.yml"), rules).unwrap();
        let config = data.path().join("prometheus.yml");
        // JSON is YAML.
        let job = json!({ "job_name": "shop", "static_configs": [{ "targets": [target.to_string()] }] });
        let settings = json!({
            "global": { "scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s" },
            "rule_files": ["rules.yml"],
            "scrape_configs": [job],
        });
        fs::write(&config, settings.to_string()).unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", data.path().join("tsdb").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus is installed: apt-get install prometheus");
        let prometheus = Self { client: Client { address }, process, _data: data };
        eventually_async("Prometheus listens", async || TcpStream::connect(address).await.is_ok()).await;
        eventually_async("the service is scraped", async || prometheus.values("up").await == [1.0]).await;
        prometheus
    }

    /// The values of the series that a query has now.
    ///
    /// # Panics
    ///
    /// If it is not a query.
    pub(crate) async fn values(&self, query: &str) -> Vec<f64> {
        let query: String = byte_serialize(query.as_bytes()).collect();
        let (status, answer) = self.client.ask(Method::GET, &format!("/api/v1/query?query={query}"), "").await;
        // It still starts.
        if status == StatusCode::SERVICE_UNAVAILABLE {
            return Vec::new();
        }
        assert_eq!(answer["status"], "success", "{answer}");
        let value = |series: &Value| series["value"][1].as_str().unwrap().parse().unwrap();
        answer["data"]["result"].as_array().unwrap().iter().map(value).collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}
