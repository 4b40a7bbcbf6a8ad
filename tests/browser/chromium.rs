//! A headless Chromium that is told what to do over its DevTools protocol, and that tells all that it heard.

use std::io::{BufRead, BufReader, ErrorKind};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;
use tungstenite::{Error, Message, WebSocket};

use super::support::chromium;

/// How long an answer may take: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// The browser; it ends with this value.
pub(crate) struct Chromium {
    child: Child,
    socket: WebSocket<TcpStream>,
    asked: u64,
    /// Everything that happened and was not yet asked for, by session.
    events: Vec<Value>,
    _profile: TempDir,
}

/// One tab.
#[derive(Clone, Debug)]
pub(crate) struct Tab(String);

impl Chromium {
    /// Starts it with an empty profile.
    pub(crate) fn start() -> Self {
        let profile = tempfile::tempdir().expect("a temporary folder");
        let mut child = chromium(profile.path())
            .args(["--hide-scrollbars", "--remote-debugging-port=0"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("chromium starts; tests/run.sh installs what the tests need");
        let mut said = BufReader::new(child.stderr.take().expect("piped")).lines();
        let url = said
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| Some(line.split_once("DevTools listening on ")?.1.to_owned()))
            .expect("it tells where it listens");
        // It must not wait for somebody who hears what else it says.
        std::thread::spawn(move || said.for_each(drop));
        let address = url.split('/').nth(2).expect("ws://ADDRESS/PATH");
        let stream = TcpStream::connect(address).expect("it listens");
        stream
            .set_read_timeout(Some(Duration::from_millis(100)))
            .expect("a timeout");
        // The handshake must not meet the timeout of the reads.
        let begun = tungstenite::client(url.as_str(), stream);
        let (socket, _) = match begun {
            Ok(begun) => begun,
            Err(tungstenite::HandshakeError::Interrupted(mut half)) => loop {
                match half.handshake() {
                    Ok(done) => break done,
                    Err(tungstenite::HandshakeError::Interrupted(again)) => half = again,
                    Err(e) => panic!("{url}: {e}"),
                }
            },
            Err(e) => panic!("{url}: {e}"),
        };
        Self {
            child,
            socket,
            asked: 0,
            events: Vec::new(),
            _profile: profile,
        }
    }

    /// A new tab, whose console, log and network are heard.
    pub(crate) fn tab(&mut self) -> Tab {
        let target = self.ask(None, "Target.createTarget", json!({"url": "about:blank"}));
        let attached = self.ask(
            None,
            "Target.attachToTarget",
            json!({"targetId": target["targetId"], "flatten": true}),
        );
        let tab = Tab(attached["sessionId"]
            .as_str()
            .expect("a session")
            .to_owned());
        for domain in ["Page", "Network", "Runtime", "Log", "Accessibility"] {
            self.tell(&tab, &format!("{domain}.enable"), json!({}));
        }
        tab
    }

    /// Asks for something in a tab.
    pub(crate) fn tell(&mut self, tab: &Tab, method: &str, params: Value) -> Value {
        self.ask(Some(tab), method, params)
    }

    /// Opens an address and waits until all of it is there.
    pub(crate) fn open(&mut self, tab: &Tab, url: &str) {
        self.events
            .retain(|event| !of(event, tab, "Page.loadEventFired"));
        let answer = self.tell(tab, "Page.navigate", json!({"url": url}));
        assert!(answer.get("errorText").is_none(), "{url}: {answer}");
        self.until(|events| {
            events
                .iter()
                .any(|event| of(event, tab, "Page.loadEventFired"))
        });
    }

    /// What an expression is, in the page; a promise is waited for.
    pub(crate) fn value(&mut self, tab: &Tab, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.tell(tab, "Runtime.evaluate", params);
        assert!(answer.get("exceptionDetails").is_none(), "{answer}");
        answer["result"]["value"].clone()
    }

    /// Makes the tab's window so large, in a light or a dark world.
    pub(crate) fn window(&mut self, tab: &Tab, width: u32, scale: f64, scheme: &str) {
        self.tell(
            tab,
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": 900, "deviceScaleFactor": scale, "mobile": width < 600}),
        );
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.tell(
            tab,
            "Emulation.setEmulatedMedia",
            json!({"features": features}),
        );
    }

    /// The whole page as PNG, or a part of it: x, y, width, height.
    pub(crate) fn picture(&mut self, tab: &Tab, part: Option<[f64; 4]>) -> Vec<u8> {
        let mut params = json!({"format": "png", "captureBeyondViewport": true});
        let size = self.tell(tab, "Page.getLayoutMetrics", json!({}))["cssContentSize"].clone();
        let [x, y, width, height] = part.unwrap_or_else(|| {
            ["x", "y", "width", "height"].map(|key| size[key].as_f64().expect("a size"))
        });
        params["clip"] = json!({"x": x, "y": y, "width": width, "height": height, "scale": 1});
        let answer = self.tell(tab, "Page.captureScreenshot", params);
        BASE64_STANDARD
            .decode(answer["data"].as_str().expect("a picture"))
            .expect("base64")
    }

    /// What of this kind has happened in a tab so far.
    pub(crate) fn heard(&mut self, tab: &Tab, method: &str) -> Vec<Value> {
        self.events
            .iter()
            .filter(|event| of(event, tab, method))
            .map(|event| event["params"].clone())
            .collect()
    }

    /// Listens until so many of this kind have happened in a tab.
    pub(crate) fn hear(&mut self, tab: &Tab, method: &str, count: usize) {
        self.until(|events| events.iter().filter(|event| of(event, tab, method)).count() >= count);
    }

    fn ask(&mut self, tab: Option<&Tab>, method: &str, params: Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        let mut question = json!({"id": id, "method": method, "params": params});
        if let Some(Tab(session)) = tab {
            question["sessionId"] = json!(session);
        }
        self.socket
            .send(Message::text(question.to_string()))
            .expect("it hears");
        let answer = self.until(|events| events.iter().any(|event| event["id"] == id));
        let at = answer.events.iter().position(|event| event["id"] == id);
        let answer = answer.events.remove(at.expect("it came"));
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Listens until what has happened is enough.
    fn until(&mut self, enough: impl Fn(&[Value]) -> bool) -> &mut Self {
        let began = Instant::now();
        while !enough(&self.events) {
            assert!(began.elapsed() < PATIENCE, "Chromium does not answer");
            match self.socket.read() {
                Ok(message) => {
                    let text = message.into_text().expect("text");
                    self.events.push(serde_json::from_str(&text).expect("JSON"));
                }
                Err(Error::Io(e))
                    if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(e) => panic!("Chromium is gone: {e}"),
            }
        }
        self
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.socket.close(None);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn of(event: &Value, tab: &Tab, method: &str) -> bool {
    event["method"] == method && event["sessionId"] == tab.0.as_str()
}
