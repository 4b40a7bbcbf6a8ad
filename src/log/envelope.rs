//! What others put around each line: a container's runtime, a launcher, a remote shell, a log daemon.
//!
//! An envelope tells two things beside the text: which stream the text belongs to (records of several streams stand
//! between each other, each with an unfinished line of its own), and which rank wrote it.
//!
//! Some are certain by their form. A bare `0: ` or `node1: ` is not: `Validation: 10/50` looks the same, and so does
//! a list. Such a label is believed only once every line has one and the same few come again and again.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::bytes::Regex;

/// No line is in more envelopes than so many.
const LAYERS: usize = 4;
/// So many labelled lines in a row are needed, each label at least twice in the mean.
const ENOUGH: usize = 4;
/// More labels than so many are no labels.
const LABELS: usize = 4096;

/// What stands before the text of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// The stream: all that tells it from others.
    pub(super) stream: Vec<u8>,
    /// The rank that writes, where an envelope tells.
    pub(super) rank: Option<u64>,
    /// The line goes on with the next record of this stream.
    pub(super) partial: bool,
    /// A daemon wrote the line, and writes only whole ones.
    pub(super) record: bool,
    /// A launcher puts this into the line's middle, too.
    pub(super) again: Option<Vec<u8>>,
    /// So many bytes stand before the text.
    pub(super) length: usize,
}

/// Which weak labels this log has.
#[derive(Debug, Default)]
pub(super) struct Labels {
    believed: bool,
    row: usize,
    distinct: BTreeSet<Vec<u8>>,
}

/// Forms that cannot be mistaken; `record` marks those of daemons.
static SURE: LazyLock<[Regex; 6]> = LazyLock::new(|| {
    [
        // Kubernetes, as its runtimes write it
        r"^(?<record>)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d) (?<stream>stdout|stderr) (?<tag>[PF])(?::[^ ]*)? ?",
        // torchrun --tee, and torch's own mark of a rank
        r"^\[(?<again>[A-Za-z_][A-Za-z_-]*(?<rank>\d{1,6}))\]: ?",
        // what many write by hand
        r"^\[[Rr]ank[ :_]?(?<rank>\d{1,6})\] ",
        // mpirun --tag-output
        r"^\[\d+,(?:mpirank:)?(?<rank>\d+)(?:,[\w-]+)?\]<(?<stream>stdout|stderr)>: ?",
        // ray, coloured or not
        r"^(?:\x1b\[\d+m)?\((?<stream>[\w.\[\]=-]+ pid=\d+(?:, ip=[\d.a-f:]+)?)\)(?:\x1b\[0m)? ",
        // rsyslog's file format: time, host, program
        r"^(?<record>)(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+[+-]\d\d:\d\d) (?<stream>[\w.-]+ [\w./-]+(?:\[\d+\])?): ?",
    ]
    .map(|form| Regex::new(&format!("(?-u){form}")).expect("a constant pattern"))
});

/// `3: ` and `node1: `: a number, or a name with a digit in it.
static LABEL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)^(?: *(?<rank>\d{1,6})|(?<host>[A-Za-z][\w.-]*\d[\w.-]*)):(?: |\s*$)")
        .expect("a constant pattern")
});

impl Labels {
    /// Reads what stands before the text of a line; one that is not `whole` proves nothing about labels. What a daemon
    /// wrote down is a stream of its own, whose lines need not begin here: unless this is `within` one, nothing of it
    /// is read.
    pub(super) fn open(&mut self, line: &[u8], whole: bool, within: bool) -> Header {
        let mut header = Header::default();
        let mut weak = false;
        for _ in 0..LAYERS {
            let rest = &line[header.length..];
            let forms = match rest.first() {
                Some(b'[') if rest.get(1).is_some_and(u8::is_ascii_digit) => &SURE[3..4],
                Some(b'[') => &SURE[1..3],
                Some(b'(' | 0x1b) => &SURE[4..5],
                Some(b'A'..=b'Z') if rest.get(3) == Some(&b' ') => &SURE[5..],
                Some(b'0'..=b'9') if rest.get(10) == Some(&b'T') => &SURE[..],
                _ => &[],
            };
            let sure = forms.iter().find(|form| form.is_match(rest));
            let found = match sure.and_then(|form| form.captures(rest)) {
                Some(found) => found,
                None if weak => break,
                None => {
                    weak = true;
                    match self.label(rest, whole) {
                        Some(found) => found,
                        None => break,
                    }
                }
            };
            let all = found.get(0).expect("always there");
            let named = |name: &str| found.name(name).map(|m| m.as_bytes());
            let parts = [named("stream"), named("host"), named("rank")];
            for part in parts.into_iter().flatten() {
                header.stream.extend_from_slice(part);
                header.stream.push(b'|');
            }
            let rank = named("rank").and_then(|rank| std::str::from_utf8(rank).ok()?.parse().ok());
            header.rank = rank.or(header.rank);
            header.partial |= named("tag") == Some(b"P");
            header.record |= named("record").is_some();
            if let Some(name) = named("again") {
                header.again = Some([b"[", name, b"]:"].concat());
            }
            header.length += all.end();
            if header.record && !within {
                break;
            }
        }
        header
    }

    /// The label of this line, if this log is believed to have labels.
    fn label<'a>(&mut self, rest: &'a [u8], whole: bool) -> Option<regex::bytes::Captures<'a>> {
        let word = rest.trim_ascii_start();
        let end = word
            .iter()
            .position(|&b| !(b.is_ascii_alphanumeric() || b"_.-".contains(&b)));
        let labelled = end.is_some_and(|end| word[end] == b':');
        let found = labelled.then(|| LABEL.captures(rest)).flatten();
        if self.believed || !whole {
            return found.filter(|_| self.believed);
        }
        let Some(all) = found.as_ref().and_then(|found| found.get(0)) else {
            if !rest.trim_ascii().is_empty() {
                (self.row, self.distinct) = (0, BTreeSet::new());
            }
            return None;
        };
        self.row += 1;
        if self.distinct.len() < LABELS {
            self.distinct.insert(all.as_bytes().trim_ascii().to_owned());
        }
        self.believed = self.row >= ENOUGH && self.row >= 2 * self.distinct.len();
        found.filter(|_| self.believed)
    }
}

/// How Docker's lines begin.
pub(super) const DOCKER: &[u8] = b"{\"log\":\"";

/// The text within a line of Docker's json-file; nothing if it is none.
pub(super) fn docker(line: &[u8]) -> Option<(Header, Vec<u8>)> {
    #[derive(serde::Deserialize)]
    struct Record {
        log: String,
        stream: String,
    }
    if !line.starts_with(DOCKER) {
        return None;
    }
    let Record { log, stream } = serde_json::from_slice(line).ok()?;
    let header = Header {
        partial: !log.ends_with('\n'),
        record: true,
        stream: stream.into_bytes(),
        ..Header::default()
    };
    Some((header, log.into_bytes()))
}

/// A log daemon writes control bytes as `#` and three octal digits: their bytes again, if there are any.
pub(super) fn octal(line: &[u8]) -> Option<Vec<u8>> {
    let first = memchr::memchr_iter(b'#', line).find(|&at| line.get(at + 1) == Some(&b'0'))?;
    let control = |code: &[u8]| match code {
        b"#010" => Some(0x08),
        b"#011" => Some(b'\t'),
        b"#012" => Some(b'\n'),
        b"#015" => Some(b'\r'),
        b"#033" => Some(0x1b),
        _ => None,
    };
    let mut bytes = line[..first].to_owned();
    let mut rest = &line[first..];
    let mut any = false;
    while let Some(&byte) = rest.first() {
        let code = rest.get(..4).and_then(control);
        any |= code.is_some();
        bytes.push(code.unwrap_or(byte));
        rest = &rest[if code.is_some() { 4 } else { 1 }..];
    }
    any.then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text and the rank of each line.
    fn opened(lines: &[&str]) -> Vec<(String, Option<u64>)> {
        let mut labels = Labels::default();
        lines
            .iter()
            .map(|line| {
                let header = labels.open(line.as_bytes(), true, true);
                (line[header.length..].to_owned(), header.rank)
            })
            .collect()
    }

    #[test]
    fn sure_forms_one_around_the_other() {
        for (line, text, rank) in [
            (
                "2026-02-23T01:14:40.123456789Z stderr P  42%|",
                " 42%|",
                None,
            ),
            (
                "2026-02-23T01:14:40Z stdout F [default3]:[rank11]: x",
                "x",
                Some(11),
            ),
            ("[default0]:  1%|1", " 1%|1", Some(0)),
            ("[trainer12]:loss 1.2", "loss 1.2", Some(12)),
            ("[1,mpirank:5,algo-1]<stdout>:Epoch 1", "Epoch 1", Some(5)),
            ("[1,5]<stderr>: Epoch 1", "Epoch 1", Some(5)),
            ("(TaskRunner pid=1234, ip=10.0.0.7) step:1", "step:1", None),
            ("\x1b[36m(TaskRunner pid=12)\x1b[0m step:1", "step:1", None),
            (
                "Feb 23 01:14:40 node07 train.sh[812]: step 1",
                "step 1",
                None,
            ),
            ("[rank1] epoch 3", "epoch 3", Some(1)),
            ("[Rank 12] epoch 3", "epoch 3", Some(12)),
            ("[epoch3] loss 1", "[epoch3] loss 1", None),
            ("[rank: 1] Received", "[rank: 1] Received", None),
            ("[INFO] x", "[INFO] x", None),
            ("[12/400] loss: 1", "[12/400] loss: 1", None),
            (
                "2026-02-23 01:14:40 | INFO | x",
                "2026-02-23 01:14:40 | INFO | x",
                None,
            ),
        ] {
            assert_eq!(opened(&[line]), [(text.to_owned(), rank)], "{line}");
        }
    }

    #[test]
    fn a_label_is_believed_when_it_comes_again_and_again() {
        let labelled = opened(&["0: a", "1: a", "0: b", "1: b", "0: c", "slurmstepd: x"]);
        assert_eq!(labelled[4], ("c".to_owned(), Some(0)));
        assert_eq!(labelled[5].0, "slurmstepd: x");
        let aligned = opened(&[" 3: a", "10: a", " 3: b", "10: b", "10: c"]);
        assert_eq!(aligned[4], ("c".to_owned(), Some(10)));
        let hosts = opened(&["node1: a", "node2: a", "node1: b", "node2: b", "node1: c"]);
        assert_eq!(hosts[4], ("c".to_owned(), None));
        for ordinary in [
            ["1: a", "2: b", "3: c", "4: d", "5: e"],
            [
                "Validation: 1",
                "Validation: 2",
                "Train: 1",
                "Train: 2",
                "Train: 3",
            ],
            ["0: a", "0: b", "text", "0: c", "0: d"],
            [
                "Epoch 3: a",
                "Epoch 3: b",
                "Epoch 3: c",
                "Epoch 3: d",
                "Epoch 3: e",
            ],
            ["INFO: a", "INFO: b", "loss: 1", "Step: 1", "INFO: c"],
            [
                "12:30:01: a",
                "12:30:01: b",
                "12:30:02: c",
                "12:30:02: d",
                "12:30:03: e",
            ],
            [
                "12:30:01 a",
                "12:30:01 b",
                "12:30:02 c",
                "12:30:02 d",
                "12:30:03 e",
            ],
        ] {
            assert_eq!(opened(&ordinary)[4].0, ordinary[4]);
        }
    }

    #[test]
    fn control_bytes_that_were_written_as_digits() {
        assert_eq!(octal(b"a#015b#033[A"), Some(b"a\rb\x1b[A".to_vec()));
        assert_eq!(
            octal(b"issue #0150 and #099"),
            Some(b"issue \r0 and #099".to_vec())
        );
        assert_eq!(octal(b"colour #099 #0"), None);
    }
}
