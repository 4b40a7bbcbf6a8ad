//! SIGHUP has the configuration read anew, in a real exporter: what is wrong changes nothing and is told, what is right
//! comes into force, and no run that goes on loses anything.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::stage::{Exporter, append, epoch, until};

const IN_FORCE: &str = "training_exporter_config_last_reload_successful";

/// A folder with a configuration and logs, and who follows them.
struct Stage {
    folder: tempfile::TempDir,
    exporter: Exporter,
}

impl Stage {
    /// `config` is written with `@` for the folder.
    fn new(logs: &[&str], config: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for log in logs {
            append(&folder.path().join(log), &epoch(1));
        }
        let config = at(folder.path(), config);
        let exporter = Exporter::follows(folder.path(), &config);
        Self { folder, exporter }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), at(self.folder.path(), text)).expect("written");
    }

    /// Has this configuration read; it must be told in so many words that it was.
    fn reads(&self, config: &str, told: &str) {
        let before = self.said().matches(told).count();
        self.write("config.yaml", config);
        self.exporter.running.signal("HUP");
        until(told, || {
            (self.said().matches(told).count() > before).then_some(())
        });
    }

    fn said(&self) -> String {
        fs::read_to_string(self.path("said")).expect("text")
    }

    fn epoch(&self, run: &str) -> Option<f64> {
        self.exporter.value(&of("training_epoch", run))
    }

    fn reaches(&self, name: &str, run: &str, wanted: f64) {
        self.exporter.reaches(&of(name, run), wanted);
    }

    fn all_reach(&self, name: &str, runs: &[&str], wanted: f64) {
        runs.iter().for_each(|run| self.reaches(name, run, wanted));
    }

    fn ends(&self, run: &str) {
        until(run, || self.epoch(run).is_none().then_some(()));
    }
}

fn at(folder: &Path, text: &str) -> String {
    text.replace('@', folder.to_str().expect("text"))
}

fn of(name: &str, run: &str) -> String {
    format!("{name}{{run=\"{run}\"}}")
}

/// What the exporter says of a run, but for how it is called and by whom it is seen.
fn facts(page: &str, run: &str) -> Vec<String> {
    let own = format!("{{run=\"{run}\"");
    let mine = page.lines().filter(|line| line.contains(&own));
    let names = ["training_log_", "training_epoch", "training_phase_start"];
    mine.filter(|line| names.iter().any(|name| line.starts_with(name)))
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_wrong_configuration_is_told_and_the_old_one_stays_in_force() {
    let stage = Stage::new(&["a.log"], "- {path: '@/a.log', run: a}\n");
    let exporter = &stage.exporter;
    stage.reaches("training_epoch", "a", 1.0);
    exporter.reaches(IN_FORCE, 1.0);
    let preset = "name: mine\nabout: x\nrules:\n- {when: 'x', emit: nonsense}\nsamples: []\n";
    stage.write("mine.yaml", preset);
    for (wrong, place) in [
        ("logs:\n- {path: '@/b.log', rum: b}\n", "@/config.yaml:2:"),
        ("presets: [mine.yaml]\n", "@/mine.yaml:4:"),
        ("presets: [none.yaml]\n", "@/none.yaml: cannot be read"),
    ] {
        stage.reads(wrong, "the old one stays in force");
        exporter.reaches(IN_FORCE, 0.0);
        let place = at(stage.folder.path(), place);
        assert!(stage.said().contains(&place), "{place}: {}", stage.said());
        let page = exporter.status();
        assert!(page.contains(&place), "{place}: {page}");
        assert!(exporter.api().contains(&place), "{place}");
    }
    append(&stage.path("a.log"), &epoch(2));
    stage.reaches("training_epoch", "a", 2.0);
    // The old file again: it is in force as it was.
    stage.reads(
        "logs:\n- {path: '@/a.log', run: a}\n",
        "nothing has changed",
    );
    exporter.reaches(IN_FORCE, 1.0);
    assert!(!exporter.status().contains("was refused"));
    assert_eq!(stage.epoch("a"), Some(2.0));
}

#[test]
fn a_right_one_comes_into_force_and_no_run_that_goes_on_loses_anything() {
    let stage = Stage::new(
        &["kept.log", "gone.log", "by-name.log"],
        "- {path: '@/kept.log', run: kept, val_data: ['@']}\n\
         - {path: '@/gone.log', run: gone}\n\
         - {path: '@/by-name.log', run: by-name}\n",
    );
    let exporter = &stage.exporter;
    let all = ["kept", "gone", "by-name"];
    stage.all_reach("training_epoch", &all, 1.0);
    append(&stage.path("kept.log"), &epoch(2));
    stage.reaches("training_epoch", "kept", 2.0);
    until("read", || {
        let lag = exporter.value(&of("training_log_lag_bytes", "kept"));
        (lag == Some(0.0)).then_some(())
    });
    let runs = ["kept", "by-name"];
    let before = runs.map(|run| facts(&exporter.page(), run));
    assert!(before.iter().all(|facts| facts.len() > 8), "{before:?}");

    append(&stage.path("new.log"), &epoch(7));
    // The one by name is found by a pattern now, which also finds the new one.
    stage.reads(
        "limits: {train: {lower: 700, start: 1234}}\nrun_max: 7\nlogs:\n\
         - {path: '@/kept.log', run: kept, user: ann, team: nlp, alerting: warn, nodes: 3}\n\
         - {path: '@/by-*.log', run: by-name}\n\
         - {path: '@/new.log', run: new}\n",
        "and is in force",
    );
    stage.reaches("training_epoch", "new", 7.0);
    stage.ends("gone");
    let ceiling = "training_progress_ceiling_seconds";
    stage.all_reach(ceiling, &["kept", "by-name", "new"], 1234.0);
    let page = exporter.page();
    assert_eq!(runs.map(|run| facts(&page, run)), before);
    exporter.reaches(IN_FORCE, 1.0);
    exporter.reaches("training_exporter_runs_limit", 7.0);
    exporter.reaches("training_run_alerting{run=\"kept\",level=\"warn\"}", 1.0);
    let info = page.lines().find(|line| {
        line.starts_with("training_run_info{run=\"kept\"")
            && line.contains("user=\"ann\"")
            && line.contains("team=\"nlp\"")
    });
    assert!(info.is_some(), "{page}");
    assert!(!page.contains("source=\"data\""), "no folder is looked at");
    // What goes on is followed on.
    append(&stage.path("kept.log"), &epoch(3));
    append(&stage.path("by-name.log"), &epoch(3));
    stage.all_reach("training_epoch", &runs, 3.0);
    assert!(!stage.said().contains("panicked"), "{}", stage.said());
}

#[test]
fn a_log_that_another_preset_reads_begins_anew_and_no_other_does() {
    let preset = |word: &str| {
        format!(
            "name: mine\nabout: x\nrules:\n- {{when: '^{word} (?<epoch>\\d+)$', emit: epoch}}\n\
             samples: [{{line: '{word} 3', gives: [epoch 3]}}]\n"
        )
    };
    let stage = Stage::new(&["other.log"], "- {path: '@/other.log', run: other}\n");
    append(&stage.path("mine.log"), "left 5\nright 6\n");
    stage.write("mine.yaml", &preset("left"));
    let config = "presets: [mine.yaml]\nlogs:\n\
                  - {path: '@/mine.log', run: mine, preset: mine}\n\
                  - {path: '@/other.log', run: other, preset: transformers}\n";
    stage.reads(config, "and is in force");
    stage.reaches("training_epoch", "mine", 5.0);
    until("the other begins anew, too", || {
        (stage.said().matches("begins anew").count() == 1).then_some(())
    });
    // Only the preset's own file is another one.
    stage.write("mine.yaml", &preset("right"));
    stage.reads(config, "and is in force");
    stage.reaches("training_epoch", "mine", 6.0);
    let anew = stage.said();
    let anew: Vec<&str> = anew.lines().filter(|l| l.contains("begins anew")).collect();
    assert_eq!(anew.len(), 2, "{anew:#?}");
    assert!(anew[0].contains("other.log") && anew[1].contains("mine.log"));
    assert_eq!(stage.exporter.value("training_exporter_runs"), Some(2.0));
}

/// Writers write, and the configuration changes again and again: no byte is counted twice or lost.
#[test]
fn under_load_nothing_is_lost_or_counted_twice() {
    let kept: Vec<String> = (0..8).map(|n| format!("kept-{n}")).collect();
    let pattern = "- {path: '@/kept-*.log'}\n";
    let names: Vec<String> = kept.iter().map(|name| format!("{name}.log")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let stage = Stage::new(&names, pattern);
    // So long that it is let go while it is read, and found again before that is over.
    let noise = format!("{}\n", "nothing of interest ".repeat(2000));
    append(&stage.path("comes.log"), &noise.repeat(500));
    stage.exporter.reaches("training_exporter_runs", 8.0);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for name in names.iter().chain(&["comes.log"]) {
            let (log, done) = (stage.path(name), &done);
            let text = format!("{}\n", "nothing of interest ".repeat(10)).repeat(5);
            scope.spawn(move || {
                let mut written = 0;
                while !done.load(Ordering::Relaxed) && written < 2 << 20 {
                    append(&log, &text);
                    written += text.len();
                    thread::sleep(std::time::Duration::from_millis(5));
                }
                append(&log, &epoch(9));
            });
        }
        for round in 0..20 {
            let more = match round % 2 {
                0 => "- {path: '@/comes.l*', run: comes, user: ann}\n",
                _ => "",
            };
            let user = format!("- {{path: '@/kept-*.log', user: u{round}}}\n");
            stage.reads(&format!("logs:\n{user}{more}"), "and is in force");
        }
        let last = format!("logs:\n{pattern}- {{path: '@/comes.l*', run: comes}}\n");
        stage.reads(&last, "and is in force");
        done.store(true, Ordering::Relaxed);
    });
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let runs = kept.iter().map(|name| format!("{name}@{}", host.trim()));
    let logs = names.iter().copied().chain(["comes.log"]);
    for (run, log) in runs.chain(["comes".to_owned()]).zip(logs) {
        stage.reaches("training_epoch", &run, 9.0);
        let length = fs::metadata(stage.path(log)).expect("there").len();
        stage.reaches("training_log_bytes_total", &run, length as f64);
    }
    stage.exporter.reaches("training_exporter_runs", 9.0);
    stage.exporter.reaches(IN_FORCE, 1.0);
    assert!(!stage.said().contains("panicked"), "{}", stage.said());
    let taken_up = stage.said();
    let taken_up = taken_up
        .lines()
        .filter(|line| line.contains("taken up") && line.contains("kept-"));
    assert_eq!(taken_up.count(), kept.len(), "each once");
}
