//! Requests that are too big, or no requests at all: each is answered or cut, and nothing else is hindered by it.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use super::stage::{Authority, Serving, connect, exchange, plain, request, serve};

/// What one bad request may cost in memory.
const BOUND: u64 = 32 << 20;

/// The status that `bytes` get, or nothing if the connection ends without.
fn status(serving: &Serving, bytes: &[u8]) -> Option<u16> {
    exchange(connect(serving.address), bytes)
        .map(|answer| answer.status)
        .ok()
}

#[test]
fn oversized_and_malformed_requests_are_refused() {
    let serving = serve(|_| Vec::new());
    plain(serving.address, "/metrics", "");
    let (before, open) = serving.weight();
    let line = |name: &str, length: usize| format!("{name}: {}\r\n", "x".repeat(length));
    let body = |head: &str, length: usize| [head.as_bytes(), &vec![b'x'; length]].concat();
    for (what, bytes, allowed) in [
        (
            "a header of 1 MB",
            request("/metrics", &line("X", 1 << 20)),
            vec![Some(431), None],
        ),
        (
            "a thousand headers",
            request("/metrics", &line("X", 1).repeat(1000)),
            vec![Some(431)],
        ),
        (
            "an URL of 1 MB",
            request(&format!("/{}", "x".repeat(1 << 20)), ""),
            vec![Some(414), Some(431), None],
        ),
        (
            "a body of 10 MB",
            body(
                "GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 10485760\r\n\r\n",
                10 << 20,
            ),
            vec![Some(413), None],
        ),
        (
            "a posted body",
            body(
                "POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5\r\n\r\n",
                5,
            ),
            vec![Some(413)],
        ),
        (
            "a chunked body",
            b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\nxx"
                .to_vec(),
            vec![Some(413)],
        ),
        (
            "two lengths",
            b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n".to_vec(),
            vec![Some(400)],
        ),
        (
            "no version",
            b"GET /\r\n\r\n".to_vec(),
            vec![Some(400), None],
        ),
        (
            "no HTTP",
            b"\0\x01\x02\xff\xfe hello\r\n\r\n".to_vec(),
            vec![Some(400), None],
        ),
        (
            "TLS on a plain port",
            b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03".to_vec(),
            vec![Some(400), None],
        ),
        (
            "HTTP/2 on a plain port",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
            vec![Some(400), Some(505), None],
        ),
        ("a bad escape", request("/%zz%00", ""), vec![Some(404)]),
        (
            "a way out",
            request("/../../etc/passwd", ""),
            vec![Some(404)],
        ),
        (
            "another method",
            b"DELETE /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_vec(),
            vec![Some(405)],
        ),
    ] {
        let got = status(&serving, &bytes);
        assert!(allowed.contains(&got), "{what}: {got:?}");
        let began = Instant::now();
        assert_eq!(
            plain(serving.address, "/metrics", "").status,
            200,
            "after {what}"
        );
        assert!(began.elapsed() < Duration::from_secs(2), "after {what}");
    }
    let (after, still) = serving.weight();
    assert!(after < before + BOUND, "{before} bytes became {after}");
    assert!(still <= open + 4, "{open} descriptors became {still}");
}

#[test]
fn an_endless_url_is_cut() {
    let serving = serve(|_| Vec::new());
    let (before, _) = serving.weight();
    let mut stream = connect(serving.address);
    stream.write_all(b"GET /").expect("sent");
    let piece = [b'x'; 1 << 16];
    let cut = (0..1000).any(|_| stream.write_all(&piece).is_err());
    assert!(cut, "64 MB were taken");
    assert!(serving.weight().0 < before + BOUND);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let serving = serve(|_| Vec::new());
    let mut stream = connect(serving.address);
    let asked = [
        b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n".repeat(99),
        request("/nothing", ""),
    ]
    .concat();
    stream.write_all(&asked).expect("sent");
    let mut all = String::new();
    stream.read_to_string(&mut all).expect("answers");
    assert_eq!(all.matches("HTTP/1.1 200 OK").count(), 99);
    assert!(
        all.rfind("HTTP/1.1 404 Not Found") > all.rfind("HTTP/1.1 200 OK"),
        "the last one is the last"
    );
}

#[test]
fn garbage_for_tls_hinders_no_scrape() {
    let authority = Authority::new("ours");
    let serving = serve(|folder| {
        let (cert, key) = authority.issue(&["localhost"]);
        let config = folder.join("web.yml");
        let text = "tls_server_config: {cert_file: c, key_file: k}\n";
        for (name, text) in [("c", &cert), ("k", &key), ("web.yml", &text.to_owned())] {
            std::fs::write(folder.join(name), text).expect("written");
        }
        vec![format!("--web.config.file={}", config.display())]
    });
    let client = authority.client(None);
    let scrape = || {
        client
            .ask(serving.address, "/metrics", "")
            .expect("an answer")
            .status
    };
    assert_eq!(scrape(), 200);
    let (before, _) = serving.weight();
    let mut open = Vec::new();
    for i in 0_u32..300 {
        let mut stream = connect(serving.address);
        let noise: Vec<u8> = (0_u32..2000)
            .map(|n| (n.wrapping_mul(2_654_435_761).wrapping_add(i) >> 13) as u8)
            .collect();
        let begun: &[u8] = match i % 4 {
            0 => b"GET /metrics HTTP/1.1\r\n\r\n",
            // A record that announces more than ever comes.
            1 => b"\x16\x03\x01\x40\0\x01\0\x3f\xfc\x03\x03",
            2 => b"\x16",
            _ => &noise,
        };
        let _ = stream.write_all(begun);
        open.push(stream);
    }
    for _ in 0..5 {
        let began = Instant::now();
        assert_eq!(scrape(), 200);
        assert!(
            began.elapsed() < Duration::from_secs(2),
            "{:?}",
            began.elapsed()
        );
    }
    let (after, descriptors) = serving.weight();
    assert!(
        after < before + BOUND && descriptors < 320,
        "{before} bytes became {after}, {descriptors} descriptors"
    );
}

#[test]
fn compressed_bare_and_unknown_answers() {
    let serving = serve(|_| Vec::new());
    let zipped = plain(serving.address, "/metrics", "Accept-Encoding: gzip\r\n");
    assert!(
        zipped.head.contains("content-encoding: gzip"),
        "{}",
        zipped.head
    );
    let mut page = String::new();
    let body = unchunked(&zipped.body);
    flate2::read::GzDecoder::new(&body[..])
        .read_to_string(&mut page)
        .expect("gzip");
    assert!(page.contains("training_exporter_build_info"));
    assert!(body.len() < page.len() / 2);
    let head = exchange(
        connect(serving.address),
        b"HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    );
    let head = head.expect("an answer");
    assert!(
        head.status == 200 && head.body.is_empty() && head.head.contains("content-length: "),
        "{head:?}"
    );
    for (path, status, word) in [
        ("/nothing", 404, "nothing here"),
        ("/-/ready", 200, "Ready"),
    ] {
        let answer = plain(serving.address, path, "");
        if answer.status == 503 {
            continue;
        }
        assert!(
            answer.status == status && answer.text().contains(word),
            "{answer:?}"
        );
        assert!(
            answer.head.contains("content-type: text/plain"),
            "{}",
            answer.head
        );
        assert!(
            answer.head.contains("x-content-type-options: nosniff"),
            "{}",
            answer.head
        );
    }
}

/// A body that was sent in chunks, whole.
fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = body.windows(2).position(|two| two == b"\r\n") {
        let size = std::str::from_utf8(&body[..end]).expect("a size");
        let size = usize::from_str_radix(size, 16).expect("a size");
        whole.extend_from_slice(&body[end + 2..end + 2 + size]);
        body = &body[end + 4 + size..];
    }
    whole
}

#[test]
fn it_listens_where_it_is_told_and_the_metrics_are_where_they_are_told_to_be() {
    let ports = [(); 2].map(|()| {
        std::net::TcpListener::bind("[::1]:0")
            .expect("IPv6")
            .local_addr()
            .expect("bound")
    });
    let more: Vec<String> = ports
        .iter()
        .map(|port| format!("--web.listen-address={port}"))
        .collect();
    let serving = serve(|_| [more, vec!["--web.telemetry-path=/probe".to_owned()]].concat());
    for address in [serving.address, ports[0], ports[1]] {
        assert_eq!(plain(address, "/probe", "").status, 200, "{address}");
        let elsewhere = plain(address, "/metrics", "");
        assert!(
            elsewhere.status == 307 && elsewhere.head.contains("location: /probe"),
            "{elsewhere:?}"
        );
    }
}
