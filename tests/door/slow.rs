//! Clients that are slow: those that never finish a request, never read an answer, or only sit there.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::stage::{Serving, connect, plain, serve, until};

/// More than any scrape takes here, and less than any wait for a client.
const SOON: Duration = Duration::from_secs(2);
/// What bad clients may cost in memory; they come by the hundred and hold a buffer each.
const BOUND: u64 = 64 << 20;
/// Connections, and what the program opens for itself.
const DESCRIPTORS: usize = 256 + 64;

/// A scrape that comes in the middle of it all.
fn scrape(serving: &Serving) {
    let began = Instant::now();
    let answer = plain(serving.address, "/metrics", "");
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains("training_exporter_build_info"));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

fn light(serving: &Serving, before: u64) {
    let (now, open) = serving.weight();
    assert!(now < before + BOUND, "{before} bytes became {now}");
    assert!(open < DESCRIPTORS, "{open} descriptors");
}

#[test]
fn five_hundred_that_send_a_byte_a_second_hinder_no_scrape() {
    let serving = serve(|_| Vec::new());
    scrape(&serving);
    let (before, _) = serving.weight();
    let mut slow: Vec<TcpStream> = (0..500).map(|_| connect(serving.address)).collect();
    for byte in "GET / HTT".bytes() {
        // One that was sent away is an error here, and all right.
        slow.iter_mut()
            .for_each(|stream| drop(stream.write_all(&[byte])));
        scrape(&serving);
        light(&serving, before);
        std::thread::sleep(Duration::from_secs(1));
    }
    // Who never ends a request is sent away.
    until("the slow ones are gone", || {
        (serving.weight().1 < 64).then_some(())
    });
    let gone = slow
        .iter_mut()
        .all(|stream| !matches!(stream.read(&mut [0]), Ok(1..)));
    assert!(gone, "none of them got an answer");
}

#[test]
fn a_connection_in_use_keeps_its_seat_while_idle_ones_come_and_go() {
    let serving = serve(|_| Vec::new());
    let mut kept = connect(serving.address);
    let mut ask = || {
        kept.write_all(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
            .expect("it is there");
        let mut head = [0; 15];
        kept.read_exact(&mut head).expect("an answer");
        assert_eq!(&head, b"HTTP/1.1 200 OK");
        let mut rest = [0; 4096];
        let _ = kept.read(&mut rest).expect("the rest");
    };
    ask();
    let idle: Vec<TcpStream> = (0..600).map(|_| connect(serving.address)).collect();
    scrape(&serving);
    ask();
    drop(idle);
}

#[test]
fn those_that_never_read_their_answer_hinder_no_scrape() {
    let serving = serve(|_| Vec::new());
    scrape(&serving);
    let (before, _) = serving.weight();
    let asked = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(5000);
    let _deaf: Vec<TcpStream> = (0..60)
        .map(|_| {
            let mut stream = connect(serving.address);
            stream.set_nonblocking(true).expect("set");
            let _ = stream.write(&asked);
            stream
        })
        .collect();
    for _ in 0..10 {
        scrape(&serving);
        light(&serving, before);
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A connection for which the kernel keeps next to nothing.
fn hard_of_hearing(address: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build();
    let connected = runtime.expect("a runtime").block_on(async {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(4096)?;
        socket.connect(address).await?.into_std()
    });
    let stream = connected.expect("connects");
    stream.set_nonblocking(false).expect("set");
    stream
}

#[test]
fn too_many_answers_under_way_are_refused_and_health_is_not() {
    // Answers that are larger than what the kernel takes for a client that does not read.
    let serving = serve(|folder| {
        let logs: String = (0..600)
            .map(|i| {
                let run = format!("{i:-<400}");
                format!(
                    "- {{path: {}/{i}.log, run: '{run}', user: '{run}', team: '{run}'}}\n",
                    folder.display()
                )
            })
            .collect();
        let config = folder.join("config.yaml");
        std::fs::write(&config, format!("run_max: 600\nlogs:\n{logs}")).expect("written");
        vec![
            "--config.file".into(),
            config.display().to_string(),
            "--web.max-requests=1".into(),
        ]
    });
    until("all runs are there", || {
        (plain(serving.address, "/metrics", "").body.len() > 6 << 20).then_some(())
    });
    let mut deaf = hard_of_hearing(serving.address);
    deaf.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("sent");
    let mut begun = [0; 15];
    deaf.read_exact(&mut begun).expect("an answer begins");
    assert_eq!(&begun, b"HTTP/1.1 200 OK");
    until("the other one is under way", || {
        let answer = plain(serving.address, "/metrics", "");
        (answer.status == 503 && answer.text().contains("--web.max-requests")).then_some(())
    });
    assert_eq!(plain(serving.address, "/-/healthy", "").status, 200);
    // It is given half a minute to take its answer.
    let began = Instant::now();
    while plain(serving.address, "/metrics", "").status != 200 {
        assert!(
            began.elapsed() < Duration::from_secs(120),
            "the deaf one is still there"
        );
        std::thread::sleep(Duration::from_secs(1));
    }
}
