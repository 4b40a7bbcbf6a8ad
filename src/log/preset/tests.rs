use std::collections::BTreeSet;

use super::emit::count;
use super::*;

fn refused(yaml: &str) -> String {
    let read = Preset::parse(yaml, &[]).and_then(|preset| preset.prove(yaml));
    let all = read.expect_err(yaml).into_iter();
    all.map(|wrong| wrong.to_string())
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn a_bad_rule_is_refused_in_the_words_of_its_author() {
    for (rule, told) in [
        (
            r"{ when: 'a\d(', emit: start }",
            "4:13: rules[0].when: unclosed group\n    a\\d(\n       ^",
        ),
        (
            r"{ when: 'a', unless: 'é\d\p{X', emit: start }",
            "4:26: rules[0].unless: incomplete escape sequence, reached end of pattern prematurely\n    é\\d\\p{X\n           ^",
        ),
        (
            r"{ when: 'Epoch', emit: epoch }",
            "4:13: rules[0].when: `epoch` needs the capture (?<epoch>..) or (?<epoch0>..)",
        ),
        (
            r"{ when: '(?<value>x)', emit: { value: 'acc_{k}' } }",
            "4:13: rules[0].when: `{value: acc_{k}}` needs the capture (?<k>..)",
        ),
        (
            r"{ when: 'x', emit: [start, { phase: trian }] }",
            "4:41: rules[0].emit[1].phase: no phase `trian`; did you mean `train`? There are init, train, validation, \
             checkpoint",
        ),
        (
            r"{ when: 'x', emit: { value: 7 } }",
            "4:33: rules[0].emit.value: `value` takes a name, in quotes where it looks like a number",
        ),
        (
            r"{ when: 'x', emit: [] }",
            "4:24: rules[0].emit: says nothing; name a word, such as train, or a list of them",
        ),
        (
            r"{ when: '(?<ep>x)', emit: start }",
            "4:13: rules[0].when: no word takes (?<ep>..); what stands here takes none; rename it, or write (?:..), which \
             has no name",
        ),
        (
            r"{ whne: 'x', emit: start }",
            "4:7: rules[0]: unknown field `whne`, expected one of `when`, `unless`, `nested`, `emit`",
        ),
        (
            r"{ when: '(?:a\w{999}){999}', emit: start }",
            "4:13: rules[0].when: too large: built, it takes more than 10485760 bytes; repeat less",
        ),
    ] {
        let yaml =
            format!("name: x\nabout: x\nrules:\n  - {rule}\nsamples: [{{ line: x, gives: [] }}]\n");
        assert_eq!(refused(&yaml), told, "{rule}");
    }
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
