//! The chart, by Helm's own library (`chart.py`): what it lints, renders and packs. No cluster is at hand.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::sync::LazyLock;

use clap::Parser as _;
use serde_json::{Value, json};
use training_exporter::cli::Cli;

use super::{is_good_configuration, prometheus_accepts, python, text};

/// Values that the chart must refuse.
fn wrong() -> Value {
    json!([
        {"hostPid": true},
        {"capabilities": ["SYS_ADMIN"]},
        {"hostPaths": ["runs"]},
        {"podMonitor": {"enable": true}},
    ])
}

/// What Helm says of the chart, asked once.
fn helm() -> Option<&'static Value> {
    static SAID: LazyLock<Option<Value>> = LazyLock::new(|| {
        let output = Command::new(python()?)
            .arg("tests/deploy/chart.py")
            .arg(wrong().to_string())
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        Some(serde_json::from_slice(&output.stdout).expect("JSON"))
    });
    SAID.as_ref()
}

fn all<'a>(values: &'a Value, kind: &str) -> Vec<&'a Value> {
    let values = values.as_array().expect("objects");
    values.iter().filter(|one| one["kind"] == kind).collect()
}

fn one<'a>(values: &'a Value, kind: &str) -> &'a Value {
    let found = all(values, kind);
    assert_eq!(found.len(), 1, "{kind}");
    found[0]
}

#[test]
fn the_chart_is_without_fault_and_refuses_what_is_misspelt() {
    let Some(said) = helm() else { return };
    // Severity 1 is advice: an icon.
    for message in said["lint"].as_array().expect("messages") {
        assert!(message["severity"].as_u64() <= Some(1), "{message}");
    }
    let refused = said["refused"].as_object().expect("refused");
    assert_eq!(
        refused.len(),
        wrong().as_array().map_or(0, Vec::len),
        "{refused:?}"
    );
}

#[test]
fn the_chart_is_of_this_version() {
    let chart: Value =
        serde_yaml::from_str(&text("deploy/helm/training-exporter/Chart.yaml")).expect("YAML");
    for key in ["version", "appVersion"] {
        assert_eq!(chart[key], env!("CARGO_PKG_VERSION"), "{key}");
    }
}

#[test]
fn its_pods_may_look_and_nothing_else() {
    let Some(said) = helm() else { return };
    for values in ["default", "all"] {
        let daemon = one(&said["objects"][values], "DaemonSet");
        let pod = &daemon["spec"]["template"]["spec"];
        assert_eq!(pod["hostPID"], true);
        assert_eq!(pod["automountServiceAccountToken"], false);
        assert_eq!(pod["tolerations"][0]["key"], "nvidia.com/gpu");
        let container = &pod["containers"][0];
        let security = &container["securityContext"];
        assert_eq!(
            security["capabilities"],
            json!({"drop": ["ALL"], "add": ["SYS_PTRACE", "DAC_READ_SEARCH"]})
        );
        assert_eq!(security["readOnlyRootFilesystem"], true);
        assert_eq!(security["allowPrivilegeEscalation"], false);
        assert_eq!(container["resources"]["limits"].get("nvidia.com/gpu"), None);
        for mount in container["volumeMounts"].as_array().expect("mounts") {
            assert_eq!(mount["readOnly"], true, "{mount}");
        }
        let line = container["args"].as_array().expect("arguments");
        let line = line.iter().map(|word| word.as_str().expect("a word"));
        Cli::try_parse_from(["training-exporter"].into_iter().chain(line)).expect("understood");
        let config = all(&said["objects"][values], "ConfigMap");
        let config = config
            .iter()
            .find_map(|map| map["data"]["config.yaml"].as_str());
        is_good_configuration(config.expect("a configuration"));
    }
    let mounted = &one(&said["objects"]["all"], "DaemonSet")["spec"]["template"]["spec"];
    assert_eq!(mounted["volumes"][1]["hostPath"]["path"], "/runs");
    assert!(all(&said["objects"]["default"], "PrometheusRule").is_empty());
    let notes = said["notes"]["default"].as_str().expect("notes");
    assert!(notes.contains("No log is configured"), "{notes}");
}

#[test]
fn prometheus_is_led_to_the_pods() {
    let Some(said) = helm() else { return };
    let objects = &said["objects"]["all"];
    let labels = &one(objects, "DaemonSet")["spec"]["template"]["metadata"]["labels"];
    let monitor = &one(objects, "PodMonitor")["spec"];
    for (name, value) in monitor["selector"]["matchLabels"]
        .as_object()
        .expect("labels")
    {
        assert_eq!(labels[name], *value);
    }
    let container = &one(objects, "DaemonSet")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        container["ports"][0]["name"],
        monitor["podMetricsEndpoints"][0]["port"]
    );
    assert_eq!(labels["app.kubernetes.io/name"], "training-exporter");
}

/// Debian's Prometheus is built without Kubernetes' discovery, so that part of the example is only compared.
#[test]
fn the_example_without_the_operator_is_good() {
    let example = text("deploy/helm/prometheus.example.yml");
    assert!(example.contains("label: app.kubernetes.io/name=training-exporter}"));
    let discovery = "    kubernetes_sd_configs:
      - role: pod
        selectors:
          - {role: pod, label: app.kubernetes.io/name=training-exporter}
";
    assert!(example.contains(discovery), "{example}");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("prometheus.yml");
    fs::write(&file, example.replace(discovery, "")).expect("written");
    prometheus_accepts(&file);
}

/// There are no copies: Helm packs what the chart's links lead to, byte by byte, all of it and nothing else.
#[test]
fn rules_and_dashboards_are_those_of_the_repository() {
    let Some(said) = helm() else { return };
    let packed = said["packed"].as_object().expect("files");
    let mut expected = BTreeSet::new();
    for (folder, pattern, place) in [
        ("alerts", "alerts/*.rules.yml", "files/alerts"),
        ("grafana", "grafana/dashboards/*.json", "files/dashboards"),
    ] {
        for file in glob::glob(pattern).expect("a pattern").flatten() {
            let name = file
                .file_name()
                .and_then(|name| name.to_str())
                .expect("a name");
            let place = format!("{place}/{name}");
            let source = fs::read_to_string(&file).expect("text");
            assert!(packed[&place] == source, "{place} is not {folder}'s");
            expected.insert(place);
        }
    }
    let files: BTreeSet<String> = packed
        .keys()
        .filter(|name| name.starts_with("files/"))
        .cloned()
        .collect();
    assert_eq!(files, expected);

    let objects = &said["objects"]["all"];
    let mut rules: Vec<Value> = all(objects, "PrometheusRule")
        .iter()
        .map(|rule| rule["spec"].clone())
        .collect();
    let mut sources: Vec<Value> = glob::glob("alerts/*.rules.yml")
        .expect("a pattern")
        .flatten()
        .map(|file| serde_yaml::from_str(&text(&file.to_string_lossy())).expect("YAML"))
        .collect();
    let key = |value: &Value| value.to_string();
    rules.sort_by_key(key);
    sources.sort_by_key(key);
    assert!(
        !rules.is_empty() && rules == sources,
        "rules changed on their way"
    );
    for map in all(objects, "ConfigMap") {
        for (name, content) in map["data"].as_object().expect("data") {
            if name.ends_with(".json") {
                let source = text(&format!("grafana/dashboards/{name}"));
                let content = content.as_str().expect("text");
                assert!(
                    content.trim_end() == source.trim_end(),
                    "{name} changed on its way"
                );
            }
        }
    }
}
