//! A real Prometheus on loopback, with virtual time in it: what is written with old times is asked for at old times.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use prost::Message;
use serde_json::Value;
use tempfile::TempDir;

use super::support::{Running, try_get};

/// The labels of a series, its name among them.
pub(crate) type Labels = BTreeMap<String, String>;
/// Milliseconds and value.
pub(crate) type Samples = Vec<(i64, f64)>;

/// The value that says: this series is not there any more.
pub(crate) fn stale() -> f64 {
    f64::from_bits(0x7ff0_0000_0000_0002)
}

/// What remote write sends, as its specification 1.0 has it.
#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    series: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    at: i64,
}

/// The server and its folder.
pub(crate) struct Prometheus {
    address: SocketAddr,
    _running: Running,
    _folder: TempDir,
}

impl Prometheus {
    /// Starts an empty one that scrapes nothing.
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("prometheus.yml");
        std::fs::write(&config, "global: {}\n").expect("written");
        for _ in 0..5 {
            let free = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr());
            let address = free.expect("a port");
            let child = Command::new("prometheus")
                .arg(format!("--config.file={}", config.display()))
                .arg(format!(
                    "--storage.tsdb.path={}",
                    folder.path().join("data").display()
                ))
                .arg(format!("--web.listen-address={address}"))
                // Series come one after the other, each from the beginning of time.
                .args([
                    "--storage.tsdb.min-block-duration=24h",
                    "--storage.tsdb.max-block-duration=24h",
                ])
                .args(["--web.enable-remote-write-receiver", "--log.level=error"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("prometheus; tests/run.sh installs what the tests need");
            let mut running = Running(child);
            for _ in 0..600 {
                if running.0.try_wait().expect("a child of ours").is_some() {
                    break;
                }
                if try_get(address, "/-/ready").is_ok_and(|(status, _)| status == 200) {
                    return Self {
                        address,
                        _running: running,
                        _folder: folder,
                    };
                }
                thread::sleep(Duration::from_millis(100));
            }
        }
        panic!("Prometheus does not start");
    }

    /// Writes series.
    pub(crate) fn write(&self, all: impl IntoIterator<Item = (Labels, Samples)>) {
        let label = |(name, value)| Label { name, value };
        let sample = |(at, value)| Sample { value, at };
        let series = all.into_iter().map(|(labels, samples)| TimeSeries {
            labels: labels.into_iter().map(label).collect(),
            samples: samples.into_iter().map(sample).collect(),
        });
        let request = WriteRequest {
            series: series.collect(),
        };
        let body = snap::raw::Encoder::new()
            .compress_vec(&request.encode_to_vec())
            .expect("compressed");
        let (status, said) = self.post("/api/v1/write", "application/x-protobuf", &body);
        assert!(
            (200..300).contains(&status),
            "remote write: {status} {said}"
        );
    }

    /// What an expression gives at a time in seconds.
    pub(crate) fn ask(&self, expr: &str, at: f64) -> Vec<(Labels, f64)> {
        let answer = self.query("query", &[("query", expr), ("time", &at.to_string())]);
        let sample = |series: &Value| (labels(&series["metric"]), number(&series["value"][1]));
        let result = answer["data"]["result"].as_array();
        result.expect("a list").iter().map(sample).collect()
    }

    /// What an expression gives over a span, every `step` seconds.
    pub(crate) fn over(&self, expr: &str, until: f64, step: f64) -> Vec<(Labels, Samples)> {
        let (end, step) = (until.to_string(), step.to_string());
        let answer = self.query(
            "query_range",
            &[
                ("query", expr),
                ("start", "0"),
                ("end", &end),
                ("step", &step),
            ],
        );
        let sample = |point: &Value| {
            let at = point[0].as_f64().expect("a time");
            ((at * 1000.0).round() as i64, number(&point[1]))
        };
        let series = |series: &Value| {
            let points = series["values"].as_array().expect("points");
            (
                labels(&series["metric"]),
                points.iter().map(sample).collect(),
            )
        };
        let result = answer["data"]["result"].as_array();
        result.expect("a list").iter().map(series).collect()
    }

    /// The names of the labels that series of this name have.
    pub(crate) fn labels_of(&self, name: &str) -> Vec<String> {
        let answer = self.query("labels", &[("match[]", name), ("start", "0")]);
        let names = answer["data"].as_array().expect("a list");
        names
            .iter()
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect()
    }

    fn query(&self, what: &str, fields: &[(&str, &str)]) -> Value {
        let form: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{}={}", escaped(name), escaped(value)))
            .collect();
        let path = format!("/api/v1/{what}");
        let (status, answer) = self.post(
            &path,
            "application/x-www-form-urlencoded",
            form.join("&").as_bytes(),
        );
        assert_eq!(status, 200, "{fields:?}: {answer}");
        serde_json::from_str(&answer).expect("JSON")
    }

    fn post(&self, path: &str, kind: &str, body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        // In HTTP 1.0 the answer comes in one piece.
        write!(
            stream,
            "POST {path} HTTP/1.0\r\nHost: {}\r\nContent-Type: {kind}\r\nContent-Encoding: {}\r\n\
             X-Prometheus-Remote-Write-Version: 0.1.0\r\nContent-Length: {}\r\n\r\n",
            self.address,
            if kind.ends_with("protobuf") {
                "snappy"
            } else {
                "identity"
            },
            body.len()
        )
        .and_then(|()| stream.write_all(body))
        .expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        (status.expect("a status"), body.to_owned())
    }
}

fn labels(metric: &Value) -> Labels {
    let metric = metric.as_object().expect("labels");
    metric
        .iter()
        .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect()
}

fn number(value: &Value) -> f64 {
    value
        .as_str()
        .and_then(|text| text.parse().ok())
        .expect("a number")
}

fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut done, byte| {
        if byte.is_ascii_alphanumeric() {
            done.push(char::from(byte));
        } else {
            let _ = write!(done, "%{byte:02X}");
        }
        done
    })
}
