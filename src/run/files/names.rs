//! What a run is called whose name nobody gave: two trainings never become one because their logs have the same name.

use std::path::{Component, Path};

/// The derived name of a run: the folders that the pattern left open, the log's stem and the host. A name that is taken
/// by another log gets the folders above it, one after the other.
pub(super) fn run_name(
    pattern: &str,
    path: &Path,
    host: &str,
    taken: impl Fn(&str) -> bool,
) -> String {
    let words = |path: &Path| -> Vec<String> {
        let normal = path
            .components()
            .filter(|part| matches!(part, Component::Normal(_)));
        normal
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .collect()
    };
    let mut folders = words(path.parent().unwrap_or(Path::new("")));
    let mut open = words(Path::new(pattern).parent().unwrap_or(Path::new("")));
    let stem = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let fixed = open
        .iter()
        .take_while(|word| !word.contains(['*', '?', '[']))
        .count();
    let absolute = Path::new(pattern).is_absolute();
    // A relative pattern says nothing of the folders above it.
    let skipped = if absolute {
        fixed
    } else {
        folders
            .len()
            .saturating_sub(open.len().saturating_sub(fixed))
    };
    let same_depth = absolute && open.len() == folders.len();
    let mut named: Vec<String> = if same_depth {
        let pairs = open.drain(..).zip(&folders);
        pairs
            .filter(|(word, _)| word.contains(['*', '?', '[']))
            .map(|(_, folder)| folder.clone())
            .collect()
    } else if fixed < open.len() {
        folders[skipped.min(folders.len())..].to_vec()
    } else {
        Vec::new()
    };
    named.push(stem);
    let mut name = format!("{}@{host}", named.join("/"));
    while taken(&name) {
        let Some(above) = folders.pop() else { break };
        name = format!("{above}/{name}");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_runs_apart() {
        let nobody = |_: &str| false;
        for (pattern, path, name) in [
            ("/runs/a.log", "/runs/a.log", "a@h"),
            ("/runs/*.log", "/runs/a.log", "a@h"),
            ("/runs/*/train.log", "/runs/a/train.log", "a/train@h"),
            ("/r/*/logs/train.log", "/r/A/logs/train.log", "A/train@h"),
            ("/r/**/train.log", "/r/A/b/train.log", "A/b/train@h"),
        ] {
            assert_eq!(
                run_name(pattern, Path::new(path), "h", nobody),
                name,
                "{pattern}"
            );
        }
        let one = |name: &str| name == "train@h" || name == "logs/train@h";
        assert_eq!(
            run_name(
                "/B/logs/train.log",
                Path::new("/B/logs/train.log"),
                "h",
                one
            ),
            "B/logs/train@h"
        );
    }
}
