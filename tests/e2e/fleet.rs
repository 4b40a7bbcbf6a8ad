//! The watchers above the nodes: a real Prometheus with the shipped rules and a real Alertmanager with the shipped
//! routes, all in seconds, on loopback.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::programs::serve;
use super::rules::{FASTER, alertmanager, write_rules};
use super::support::{Running, try_get};

/// Both of them, and their folder.
pub(crate) struct Fleet {
    prometheus: SocketAddr,
    _running: [Running; 2],
    _folder: TempDir,
}

impl Fleet {
    /// Scrapes these exporters each second, and tells that webhook.
    pub(crate) fn start(exporters: &[SocketAddr], webhook: SocketAddr) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("written");
            path
        };
        let (alerts, alerts_at) = alertmanager_at(folder.path(), webhook, FASTER);
        let rules = write_rules(folder.path());
        let targets: Vec<String> = exporters
            .iter()
            .map(|address| format!("'{address}'"))
            .collect();
        let config = write(
            "prometheus.yml",
            &format!(
                "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n\
                 rule_files: {rules:?}\n\
                 alerting: {{alertmanagers: [{{static_configs: [{{targets: ['{alerts_at}']}}]}}]}}\n\
                 scrape_configs: [{{job_name: training, static_configs: [{{targets: [{}]}}]}}]\n",
                targets.join(", ")
            ),
        );
        let (metrics, prometheus) = serve("/-/ready", |address| {
            let mut command = Command::new("prometheus");
            command
                .arg(flag("config.file", &config))
                .arg(flag("storage.tsdb.path", &folder.path().join("metrics")))
                .arg(format!("--web.listen-address={address}"))
                .arg("--log.level=error");
            command
        });
        Self {
            prometheus,
            _running: [metrics, alerts],
            _folder: folder,
        }
    }

    /// The fleet's verdict of a run; exactly one, once the run is known.
    pub(crate) fn verdict(&self, run: &str) -> Option<String> {
        let path = "/api/v1/query?query=run:training_verdict:info";
        let (_, answer) = try_get(self.prometheus, path).ok()?;
        let answer: Value = serde_json::from_str(&answer).ok()?;
        let series = answer["data"]["result"].as_array()?;
        let mut found = series
            .iter()
            .map(|series| &series["metric"])
            .filter(|labels| labels["run"] == run);
        let verdict = found.next()?["verdict"].as_str()?.to_owned();
        assert_eq!(found.next(), None, "one verdict for {run}");
        Some(verdict)
    }
}

/// An Alertmanager with the example's routes and inhibition, in a folder, that tells this webhook; its waits are so many
/// times shorter.
pub(crate) fn alertmanager_at(
    folder: &Path,
    webhook: SocketAddr,
    times: u64,
) -> (Running, SocketAddr) {
    let config = folder.join("alertmanager.yml");
    fs::write(&config, alertmanager(&webhook.to_string(), times)).expect("written");
    serve("/-/ready", |address| {
        let mut command = Command::new("prometheus-alertmanager");
        command
            .arg(flag("config.file", &config))
            .arg(flag("storage.path", &folder.join("alerts")))
            .arg(format!("--web.listen-address={address}"))
            .args(["--cluster.listen-address=", "--log.level=error"]);
        command
    })
}

fn flag(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}
