//! A headless Chromium, driven over the protocol of its developer tools.

use std::{
    fs,
    net::TcpStream,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;
use tungstenite::{Message, WebSocket, client::client_with_config};

const LIMIT: Duration = Duration::from_secs(60);
/// Between two looks at a condition.
const LOOK_AGAIN: Duration = Duration::from_millis(30);

/// A browser with one page. It ends when this is dropped.
pub(crate) struct Browser {
    socket: WebSocket<TcpStream>,
    session: String,
    calls: u64,
    /// Exceptions, and what was written to the console as an error.
    errors: Vec<String>,
    process: Child,
    _profile: TempDir,
}

impl Browser {
    /// Starts Chromium and opens a page.
    ///
    /// # Panics
    ///
    /// If Chromium is not installed.
    pub(crate) fn open(url: &str) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let process = start(&profile);
        let socket = connect(&profile);
        socket.get_ref().set_read_timeout(Some(LIMIT)).unwrap();
        let mut browser =
            Self { socket, session: String::new(), calls: 0, errors: Vec::new(), process, _profile: profile };
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        browser.session = browser.call("Target.attachToTarget", &attach)["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser.call("Emulation.setScrollbarsHidden", &json!({ "hidden": true }));
        browser.size(1200, 1000);
        browser.call("Page.navigate", &json!({ "url": url }));
        browser
    }

    pub(crate) fn size(&mut self, width: u32, height: u32) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
    }

    pub(crate) fn colors(&mut self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    pub(crate) fn reload(&mut self) {
        self.evaluate("window.old = true");
        self.call("Page.reload", &json!({}));
        self.until("!window.old && document.readyState === 'complete'");
    }

    /// The value of a JavaScript expression.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let answer = self.call(
            "Runtime.evaluate",
            &json!({ "expression": expression, "returnByValue": true, "awaitPromise": true }),
        );
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    pub(crate) fn text(&mut self, id: &str) -> String {
        self.evaluate(&format!("document.getElementById('{id}').textContent")).as_str().unwrap().to_owned()
    }

    pub(crate) fn number(&mut self, id: &str) -> i64 {
        let text = self.text(id);
        text.parse().unwrap_or_else(|_| panic!("{id} is {text}"))
    }

    /// Waits until a JavaScript expression is true.
    pub(crate) fn until(&mut self, condition: &str) {
        let start = Instant::now();
        // While a page loads, there may be nothing to ask.
        let wrapped = format!("(() => {{ try {{ return !!({condition}) }} catch {{ return false }} }})()");
        while self.evaluate(&wrapped) != true {
            assert!(
                start.elapsed() < LIMIT,
                "never true: {condition}; the page is: {}",
                self.evaluate("document.body.innerText")
            );
            sleep(LOOK_AGAIN);
        }
    }

    /// Clicks on an element, as a mouse does: it must be enabled, and nothing may lie over it.
    pub(crate) fn click(&mut self, id: &str) {
        self.until(&format!("!document.getElementById('{id}').disabled"));
        let place = self.evaluate(&format!(
            "(() => {{ const node = document.getElementById('{id}'); node.scrollIntoView({{ block: 'center', behavior: 'instant' }});
               const box = node.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let mouse = json!({ "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &mouse);
        }
    }

    /// Presses and releases a key.
    pub(crate) fn key(&mut self, key: &str) {
        let (code, number, text) = match key {
            "Tab" => ("Tab", 9, ""),
            "Enter" => ("Enter", 13, "\r"),
            " " => ("Space", 32, " "),
            _ => panic!("no such key: {key}"),
        };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({ "type": kind, "key": key, "code": code, "windowsVirtualKeyCode": number, "text": if kind == "keyDown" { text } else { "" } });
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// What is visible, as a PNG of this size for each pixel of the page.
    pub(crate) fn screenshot(&mut self, scale: f64) -> Vec<u8> {
        let [width, height] = ["innerWidth", "innerHeight"].map(|side| self.evaluate(side));
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": scale });
        let shot = self.call("Page.captureScreenshot", &json!({ "format": "png", "clip": clip }));
        data_encoding::BASE64.decode(shot["data"].as_str().unwrap().as_bytes()).unwrap()
    }

    /// The errors since the last call.
    pub(crate) fn take_errors(&mut self) -> Vec<String> {
        // What was sent before the answer has arrived with it.
        self.evaluate("0");
        std::mem::take(&mut self.errors)
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.calls += 1;
        let id = self.calls;
        let mut call = json!({ "id": id, "method": method, "params": parameters });
        if !self.session.is_empty() {
            call["sessionId"] = self.session.clone().into();
        }
        self.socket.send(Message::text(call.to_string())).unwrap();
        loop {
            let Message::Text(text) = self.socket.read().unwrap() else { continue };
            let mut answer: Value = serde_json::from_str(&text).unwrap();
            if answer["id"] == id {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
            self.note(&answer);
        }
    }

    fn note(&mut self, event: &Value) {
        let parameters = &event["params"];
        let is_error = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => parameters["type"] == "error",
            Some("Log.entryAdded") => parameters["entry"]["level"] == "error",
            _ => false,
        };
        if is_error {
            self.errors.push(parameters.to_string());
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its own processes end with it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn start(profile: &TempDir) -> Child {
    for name in ["chromium", "chromium-browser", "google-chrome"] {
        let started = Command::new(name)
            // Only our own page is opened, and root has no sandbox.
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
            .args(["--disable-extensions", "--disable-background-networking", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        if let Ok(process) = started {
            return process;
        }
    }
    panic!("this test needs Chromium in the PATH; install it, for example with `apt-get install chromium`");
}

/// Chromium writes its port and path into its profile.
fn connect(profile: &TempDir) -> WebSocket<TcpStream> {
    let start = Instant::now();
    loop {
        let place = fs::read_to_string(profile.path().join("DevToolsActivePort")).unwrap_or_default();
        if let Some((port, path)) = place.split_once('\n').filter(|(_, path)| !path.trim().is_empty()) {
            let stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
            let url = format!("ws://127.0.0.1:{port}{}", path.trim());
            return client_with_config(url, stream, None).unwrap().0;
        }
        assert!(start.elapsed() < LIMIT, "Chromium does not start");
        sleep(LOOK_AGAIN);
    }
}
