//! Which preset reads a log, and which rank is heard.

use include_dir::File;

use super::*;

#[test]
fn every_preset_proves_itself() {
    for preset in Presets::built_in().all() {
        let file = BUILT_IN.get_file(format!("{}.yaml", preset.name));
        let yaml = file
            .and_then(File::contents_utf8)
            .expect("a file of its name");
        let proved = preset.prove(yaml);
        proved.unwrap_or_else(|e| panic!("{}: {e:?}", preset.name));
    }
}

fn preset(yaml: &str, presets: &mut Presets) {
    let preset = presets.parse(yaml).expect("a good preset");
    presets.add(preset);
}

fn read(reader: &mut Reader, text: &str, rank: Option<u64>) -> Vec<String> {
    let mut said = Vec::new();
    let line = Line {
        text,
        seen: 0,
        end: 0,
        rank,
        nested: false,
    };
    reader.read(&line, &mut |what| said.push(what.to_string()));
    said
}

#[test]
fn what_speaks_for_a_preset_speaks_for_those_built_on_it() {
    let mut presets = Presets::built_in();
    let rest = "rules: [{ when: '^s=(?<step>\\d+)', emit: step }]\nsamples: []\n";
    preset(
        &format!("name: below\nabout: x\ndetect: [lower, '^s=']\n{rest}"),
        &mut presets,
    );
    preset(
        "name: above\nabout: x\nextends: below\ndetect: [upper]\nrules: []\nsamples: []\n",
        &mut presets,
    );
    let mut reader = presets.reader(None);
    read(&mut reader, "lower", None);
    assert_eq!(reader.framework(), Some("below"));
    read(&mut reader, "upper", None);
    assert_eq!(reader.framework(), Some("above"));
    assert_eq!(read(&mut reader, "s=7", None), ["step 7"]);
    let mut pinned = presets.reader(presets.named("below"));
    read(&mut pinned, "lower upper", None);
    assert_eq!(pinned.framework(), Some("below"));
}

#[test]
fn ranks_that_say_the_same_are_one_and_faults_are_heard_from_all() {
    let mut reader = Presets::built_in().reader(None);
    assert_eq!(read(&mut reader, "step 4: loss=1", Some(1)).len(), 2);
    assert_eq!(read(&mut reader, "step 4: loss=1", Some(0)).len(), 0);
    assert_eq!(read(&mut reader, "step 5: loss=1", Some(1)).len(), 2);
    for rank in [0, 1] {
        let head = "Traceback (most recent call last):";
        assert_eq!(read(&mut reader, head, Some(rank)), ["fault exception"]);
        assert_eq!(
            read(&mut reader, "ValueError: x", Some(rank)),
            ["raised error"]
        );
    }
}
