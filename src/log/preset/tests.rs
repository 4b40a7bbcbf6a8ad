use std::collections::BTreeSet;

use super::emit::count;
use super::*;

fn refused(rule: &str) -> String {
    let yaml = format!("name: x\nabout: x\nrules:\n  - {rule}\nsamples: []\n");
    Preset::parse(&yaml, &|_| None).expect_err(rule)
}

#[test]
fn a_bad_file_is_refused_with_the_reason_and_the_way_out() {
    assert_eq!(
        refused("{ when: 'a(', emit: start }").lines().last(),
        Some("error: unclosed group"),
    );
    assert_eq!(
        refused("{ when: 'Epoch', emit: epoch }"),
        "rule `Epoch`: emits Epoch, which needs the capture (?<epoch>..) or (?<epoch0>..)"
    );
    assert_eq!(
        refused("{ when: '(?<value>x)', emit: { value: 'acc_{k}' } }"),
        "rule `(?<value>x)`: the value's name `acc_{k}` needs the capture (?<k>..)"
    );
    for (rule, part) in [
        (
            "{ when: 'x', emit: { phase: trian } }",
            "`phase: trian` is not known here, expected start, epoch",
        ),
        (
            "{ when: 'x', emit: begin }",
            "unknown variant `begin`, expected `start, epoch",
        ),
        (
            "{ whne: 'x', emit: start }",
            "unknown field `whne`, expected one of `when`, `unless`, `nested`, `emit` at line 4",
        ),
    ] {
        let message = refused(rule);
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_sample_that_gives_something_else_is_told() {
    let yaml = "name: x\nabout: x\nrules:\n  - { when: 'go', emit: start }\nsamples:\n  - { line: 'go', gives: [] }\n";
    let preset = Preset::parse(yaml, &|_| None).expect("a good file");
    assert_eq!(
        preset.prove().unwrap_err(),
        r#"preset x: sample "go" gives ["start"], but should give []"#
    );
}

#[test]
fn counts_as_logs_print_them() {
    for (text, value) in [
        ("412", Some(412)),
        ("1,710", Some(1710)),
        ("1.2k", Some(1200)),
        ("3M", Some(3_000_000)),
        ("?", None),
        ("", None),
    ] {
        assert_eq!(count(text), value, "{text}");
    }
}

#[test]
fn every_rule_is_shown_by_a_sample() {
    for preset in crate::log::reader::Presets::built_in().all() {
        let mut fit = BTreeSet::new();
        let mut each = |line: Line<'_>| {
            fit.extend(preset.explain(&line).into_iter().map(|found| found.when));
        };
        for Sample { line, .. } in &preset.samples {
            let mut lines = Lines::default();
            lines.push(line.as_bytes(), &mut each);
            lines.rest(&mut each);
        }
        let taken_over = preset.extends.as_ref().map_or(0, |base| base.rules.len());
        for rule in &preset.rules[taken_over..] {
            let written = &rule.when.written;
            assert!(fit.contains(written), "{}: {written}", preset.name);
        }
    }
}

#[test]
fn what_is_sifted_out_would_have_matched_nothing() {
    let presets = crate::log::reader::Presets::built_in();
    for preset in presets.all() {
        let (rules, mut sifted) = (preset.rules_with(&[]), Sifted::default());
        let mut lines = Lines::default();
        let mut each = |line: Line<'_>| {
            let mut got = Vec::new();
            rules.read(&line, &mut sifted, &mut |said| got.push(said.to_string()));
            let all = preset.explain(&line).into_iter();
            let all: Vec<String> = all.flat_map(|found| found.said).collect();
            assert_eq!(got, all, "{}: {line:?}", preset.name);
        };
        for other in presets.all() {
            // Its own come in pieces, so that each line also grows.
            let own = other.name == preset.name;
            for Sample { line, .. } in &other.samples {
                for piece in line.as_bytes().chunks(if own { 7 } else { line.len() }) {
                    lines.push(piece, &mut each);
                    lines.rest(&mut each);
                }
                lines.push(b"\n", &mut each);
            }
        }
    }
}
