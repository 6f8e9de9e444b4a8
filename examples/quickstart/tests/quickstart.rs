//! The program, with the settings that its help lists.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to end")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// The program, with no settings but its own.
fn quickstart() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quickstart"));
    command.env_remove("PORT").env_remove("LOCK_URLS").env_remove("DASHBOARD_PASSWORD").stdin(Stdio::null());
    command
}

/// A process, which is killed when this is dropped.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[test]
fn it_listens_on_the_port_that_is_set_and_says_which_it_is() {
    let mut service = Service(quickstart().env("PORT", "0").stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(service.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on http://").unwrap();
    assert!(!address.ends_with(":0"), "{address}");

    let mut connection = TcpStream::connect(address).unwrap();
    let request = "POST /stock/42/deduct HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    connection.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    connection.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200") && response.contains("\"sku\":\"42\""), "{response}");
}

#[test]
fn a_setting_that_is_wrong_stops_it_with_the_name_the_value_and_the_remedy() {
    for (name, value, message) in [
        ("PORT", "http", "PORT is \"http\": give a number from 0 to 65535"),
        ("LOCK_URLS", "", "LOCK_URLS is empty: name the masters"),
    ] {
        let output = quickstart().env(name, value).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn the_help_has_every_setting_and_an_argument_is_refused() {
    let output = quickstart().arg("--help").output().unwrap();
    assert!(output.status.success());
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(["PORT", "LOCK_URLS", "DASHBOARD_PASSWORD"].iter().all(|name| help.contains(name)), "{help}");

    let output = quickstart().arg("--port=80").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("--help"));
}
