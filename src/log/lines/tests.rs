use proptest::prelude::*;

use super::*;

/// All lines that `chunks` give, the unfinished last one included.
fn lines(chunks: &[&[u8]]) -> Vec<(String, usize, u64)> {
    let mut got = Vec::new();
    let mut each = |line: Line<'_>| got.push((line.text.to_owned(), line.seen, line.end));
    let mut lines = Lines::default();
    chunks.iter().for_each(|chunk| lines.push(chunk, &mut each));
    lines.rest(&mut each);
    got
}

fn texts(bytes: &[u8]) -> Vec<String> {
    lines(&[bytes])
        .into_iter()
        .map(|(text, _, _)| text)
        .collect()
}

#[test]
fn both_ends_split_and_blank_frames_are_nothing() {
    assert_eq!(
        texts(b"a\nb\r\nc\rd\r     \r\n\ne"),
        ["a", "b", "c", "d", "e"]
    );
    assert_eq!(
        lines(&[b"a\r\nbc"]),
        [("a".to_owned(), 0, 2), ("bc".to_owned(), 0, 5)]
    );
}

#[test]
fn a_rich_record_grows_with_each_of_its_lines() {
    let wrapped = "[21:10:47] INFO     val/loss_0_epoch=0.012,                       trainer.py:671\n\
                   foreign warning\n\
                   \x20                   val/loss_epoch=0.037, epoch=1                               \n\
                   \x20          INFO     Validation epoch 2/2 completed                trainer.py:756\n";
    assert_eq!(
        lines(&[wrapped.as_bytes()])
            .into_iter()
            .map(|(text, seen, _)| (text, seen))
            .collect::<Vec<_>>(),
        [
            ("val/loss_0_epoch=0.012,".to_owned(), 0),
            ("foreign warning".to_owned(), 0),
            (
                "val/loss_0_epoch=0.012, val/loss_epoch=0.037, epoch=1".to_owned(),
                23
            ),
            ("Validation epoch 2/2 completed".to_owned(), 0),
        ]
    );
}

#[test]
fn a_word_that_rich_broke_is_one_again() {
    let wrapped = "[01:14:40] INFO     Saving checkpoint to                                 trainer.py:594\n\
                   \x20                   /mnt/shared/runs/llama8b/output/checkpoints/run_2026                \n\
                   \x20                   -02-23T01-14-40/11                                                  \n";
    assert_eq!(
        texts(wrapped.as_bytes()).last().expect("three"),
        "Saving checkpoint to /mnt/shared/runs/llama8b/output/checkpoints/run_2026-02-23T01-14-40/11"
    );
}

#[test]
fn a_resting_line_is_handed_out_once_and_again_only_longer() {
    let mut got = Vec::new();
    let mut each = |line: Line<'_>| got.push((line.text.to_owned(), line.seen));
    let mut lines = Lines::default();
    lines.push(b"step 1", &mut each);
    lines.rest(&mut each);
    lines.push(b"2/400\nnext", &mut each);
    assert!(lines.unfinished());
    lines.rest(&mut each);
    assert_eq!(
        got,
        [
            ("step 1".to_owned(), 0),
            ("step 12/400".to_owned(), 6),
            ("next".to_owned(), 0)
        ]
    );
}

#[test]
fn an_endless_line_keeps_its_newest_bytes_and_no_more() {
    let mut lines = Lines::default();
    for _ in 0..1000 {
        lines.push(&[b'x'; 4096], &mut |_| panic!("no line ends here"));
        assert!(lines.tail.len() <= 3 * BOUND);
    }
    lines.push(b" step 7\n", &mut |line| {
        assert!(line.text.len() <= BOUND && line.text.ends_with("x step 7"));
    });
}

/// What makes lines hard, to be put together in any order.
const PIECES: &[&[u8]] = &[
    b"\n",
    b"\r",
    b"\r\n",
    b"\x1b[1;36m",
    b"\x1b]8;;f\x1b\\",
    b"\x08",
    b"\0",
    "━".as_bytes(),
    b"\xff",
    b"Epoch 1/2",
    b" 7/9",
    b"      ",
    b"[21:10:47] INFO     val/x=1,                trainer.py:671\n",
    b"                    val/y=2         \n",
    b"2026-02-23T01:14:40Z stderr P ",
    b"2026-02-23T01:14:40Z stdout F ",
    b"[rank1]: ",
    b"0: ",
    b"{\"log\":\"a\\rb\",\"stream\":\"stdout\",\"time\":\"\"}\n",
    b"#015",
];

proptest! {
    #[test]
    fn any_chunking_gives_the_same_lines(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let bytes = pieces.concat();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let chunks: Vec<&[u8]> = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(lines(&chunks), lines(&[&bytes]));
    }
}

#[test]
fn envelopes_come_off_and_streams_are_kept_apart() {
    let cri = |stream: &str, tag: &str, text: &str| {
        format!("2026-02-23T01:14:40.123456789Z {stream} {tag} {text}\n")
    };
    let bytes = [
        cri("stderr", "P", "\r 50%|█ | 1/2\r 10"),
        cri("stdout", "F", "{'loss': 1}"),
        cri("stderr", "F", "0%|██| 2/2"),
        cri("stderr", "P", "dangling"),
    ]
    .concat();
    assert_eq!(
        texts(bytes.as_bytes()),
        [" 50%|█ | 1/2", "{'loss': 1}", " 100%|██| 2/2", "dangling"]
    );
    let docker = br#"{"log":"\r 50%|\u2588 | 1/2\u001b[A\r 10","stream":"stderr","time":"2026-02-23T01:14:40Z"}
{"log":"0%|x| 2/2\n","stream":"stderr","time":"2026-02-23T01:14:40Z"}
"#;
    assert_eq!(texts(docker), [" 50%|█ | 1/2", " 100%|x| 2/2"]);
    assert_eq!(
        texts(b"[default0]:Valid[default0]:ation  1/2 [00:01][default0]:\n"),
        ["Validation  1/2 [00:01]"]
    );
    assert_eq!(texts(b"step 1#015step 2#033[A\n"), ["step 1", "step 2"]);
    let mut seen = Vec::new();
    let mut each = |line: Line<'_>| seen.push((line.rank, line.nested));
    Lines::default().push(
        b"[rank3]: x\n[default1]: 0%| | 0/9 [00:00]\x1b[A[default1]:\ny\n",
        &mut each,
    );
    assert_eq!(seen, [(Some(3), false), (Some(1), true), (None, false)]);
}

/// The rank and the text of each line.
fn ranked(bytes: &[u8]) -> Vec<(Option<u64>, String)> {
    let mut seen = Vec::new();
    let mut lines = Lines::default();
    lines.push(bytes, &mut |line| {
        seen.push((line.rank, line.text.to_owned()))
    });
    seen
}

#[test]
fn launchers_marks_are_known_within_what_a_daemon_wrote_down() {
    let cri = |tag: &str, text: &str| format!("2026-02-23T01:14:40Z stderr {tag} {text}\n");
    let docker = |text: &str| {
        let text = serde_json::Value::from(text);
        format!("{{\"log\":{text},\"stream\":\"stderr\",\"time\":\"2026-02-23T01:14:40Z\"}}\n")
    };
    let rsyslog = |text: &str| format!("Feb 23 01:14:40 node07 train.sh[812]: {text}\n");
    // A record ends anywhere: within a mark, behind a carriage return, within a word.
    let by_cri = [
        cri("P", "[default0]:a\r[default0]: 1"),
        cri("P", "0%[def"),
        cri("F", "ault0]:b"),
        cri("F", "[rank3]: c"),
    ];
    let by_docker = [
        docker("[default0]:a\r[default0]: 1"),
        docker("0%[def"),
        docker("ault0]:b\n"),
        docker("[rank3]: c\n"),
    ];
    let by_rsyslog = ["[default0]:a#015[default0]: 10%b", "[rank3]: c"].map(rsyslog);
    let expected = [(Some(0), "a"), (Some(0), " 10%b"), (Some(3), "c")];
    let expected = expected.map(|(rank, text)| (rank, text.to_owned()));
    for log in [by_cri.concat(), by_docker.concat(), by_rsyslog.concat()] {
        assert_eq!(ranked(log.as_bytes()), expected, "{log}");
    }
    let labels = ["0: a\n", "1: a\n", "0: b\n", "1: b\n", "0: step 7\n"];
    let labelled = ranked(labels.map(docker).concat().as_bytes());
    assert_eq!(labelled.last(), Some(&(Some(0), "step 7".to_owned())));
}

#[test]
fn what_daemons_write_down_is_bounded() {
    let mut lines = Lines::default();
    for n in 0..1000 {
        let record = format!(
            "Feb 23 01:14:40 node07 sshd[{n}]: x\nFeb 23 01:14:40 node07 train[1]: [rank1]: y\n"
        );
        lines.push(record.as_bytes(), &mut |_| {});
    }
    assert_eq!(lines.recorded.len(), RECORDED);
    let train = lines.recorded.last().expect("some");
    assert_eq!(train.0, b"node07 train[1]|", "who writes on is kept");
    let endless = [
        b"2026-02-23T01:14:40Z stdout P ",
        [b'x'; 4096].as_slice(),
        b"\n",
    ]
    .concat();
    for _ in 0..1000 {
        lines.push(&endless, &mut |_| panic!("no line ends here"));
        let (_, stdout) = lines.recorded.last().expect("some");
        assert!(stdout.tail.len() <= 3 * BOUND);
    }
}
