//! The flags of the node itself: where its driver and its processes are.

use std::path::PathBuf;

use anyhow::Result;

use crate::node::procfs::ProcFs;
use crate::run::Sources;
use crate::run::worker::NvmlWorker;

/// Where to look on this node.
#[derive(Clone, Debug, clap::Args)]
pub struct Node {
    /// NVIDIA's library; without it the loader looks for libnvidia-ml.so.1.
    #[arg(
        long = "nvml.library",
        value_name = "PATH",
        env = "TRAINING_EXPORTER_NVML_LIBRARY"
    )]
    nvml_library: Option<PathBuf>,
    /// Where the processes of this node are seen.
    #[arg(
        long = "path.procfs",
        value_name = "DIR",
        default_value = "/proc",
        env = "TRAINING_EXPORTER_PATH_PROCFS"
    )]
    pub(super) procfs: PathBuf,
}

impl Node {
    /// The GPUs by NVML, in a process of its own, and the processes.
    pub fn sources(&self) -> Result<Sources> {
        Ok(Sources {
            gpus: Some(Box::new(NvmlWorker::new(self.nvml_library.as_deref())?)),
            processes: Some(Box::new(ProcFs::new(&self.procfs))),
        })
    }
}
