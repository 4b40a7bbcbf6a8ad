//! Other readers of NVML see the same node: `nvidia-ml-py`, NVIDIA's own binding, and `nvitop`, on the same library.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use prometheus::TextEncoder;
use training_exporter::node::gpu::Gpu;
use training_exporter::state::State;

use super::node::{Node, TWO};

/// Needs `TRAINING_EXPORTER_PEERS`: a Python virtual environment that has both.
#[test]
fn nvidia_ml_py_and_nvitop_agree() {
    let Some(peers) = std::env::var_os("TRAINING_EXPORTER_PEERS").map(PathBuf::from) else {
        let why = "skipped: TRAINING_EXPORTER_PEERS names no virtual environment with nvidia-ml-py and nvitop";
        let _ = writeln!(std::io::stderr(), "{why}");
        return;
    };
    let mut node = Node::new(TWO);
    // nvitop leaves out processes that do not live; the second board would gain energy meanwhile.
    let own = format!("{}:1048576", std::process::id());
    node.set(&[
        ("0.procs", &own),
        ("1.power_mw", "0"),
        ("1.energy_mj", "123456"),
        ("1.memory_used", "1000000000"),
    ]);
    let gpus = node.look(0.0);
    let reading = node.folder.path().join("reading.json");
    std::fs::write(&reading, serde_json::to_vec(&gpus).unwrap()).unwrap();
    same_on_the_page(&gpus);
    let output = Command::new(peers.join("bin/python"))
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/agree.py"))
        .arg(&reading)
        .env("LD_LIBRARY_PATH", node.folder.path())
        .output()
        .expect("the peers' Python runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.starts_with("all agree: "),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// What the peers are compared with is what `/metrics` shows.
fn same_on_the_page(gpus: &[Gpu]) {
    let mut state = State::default();
    state.record_gpus(Ok(gpus.to_vec()), 100.0);
    let page = TextEncoder::new()
        .encode_to_string(&state.families(100.0))
        .expect("a page");
    for gpu in gpus {
        for (metric, value) in [
            ("training_gpu_util_ratio", gpu.util),
            ("training_gpu_energy_joules_total", gpu.energy_joules),
            ("training_gpu_power_watts", gpu.power_watts),
            ("training_gpu_power_limit_watts", gpu.power_limit_watts),
            ("training_gpu_memory_used_bytes", gpu.memory_used_bytes),
            (
                "training_gpu_memory_capacity_bytes",
                gpu.memory_capacity_bytes,
            ),
            ("training_gpu_temperature_celsius", gpu.temperature_celsius),
            ("training_gpu_sm_clock_hertz", gpu.sm_clock_hertz),
        ] {
            let series = format!("{metric}{{gpu=\"{}\",uuid=\"{}\"}} ", gpu.index, gpu.uuid);
            let shown = page.lines().find_map(|line| line.strip_prefix(&series));
            let read = value.map(|value| value.to_string());
            assert_eq!(shown, read.as_deref(), "{series}{page}");
        }
    }
}
