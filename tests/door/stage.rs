//! The program on a free port, a certificate authority, and clients that speak TLS or nonsense.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::ring,
};

use super::support::{EXPORTER, Running, free_port};

/// A program that answers, and what it says of itself.
pub(crate) struct Serving {
    pub(crate) running: Running,
    pub(crate) address: SocketAddr,
    pub(crate) folder: tempfile::TempDir,
}

/// Starts it; `args` may name files of the folder that `prepare` fills.
pub(crate) fn serve(prepare: impl FnOnce(&Path) -> Vec<String>) -> Serving {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let args = prepare(folder.path());
    for _ in 0..5 {
        let address = free_port();
        let said = std::fs::File::create(folder.path().join("said")).expect("a file");
        let mut command = Command::new(EXPORTER);
        command
            .args(["--web.listen-address", &address.to_string()])
            .args(&args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said);
        let mut running = Running(command.spawn().expect("the program starts"));
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(30) {
            if TcpStream::connect(address).is_ok() {
                return Serving {
                    running,
                    address,
                    folder,
                };
            }
            if running.end_within(Duration::from_millis(20)).is_some() {
                break;
            }
        }
    }
    let said = std::fs::read_to_string(folder.path().join("said"));
    panic!("the exporter does not come up: {said:?}");
}

impl Serving {
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("said")).expect("text")
    }

    /// Resident bytes, open descriptors and threads of the process.
    pub(crate) fn weight(&self) -> (u64, usize) {
        let of = Path::new("/proc").join(self.running.0.id().to_string());
        let status = std::fs::read_to_string(of.join("status")).expect("it lives");
        let resident = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        let open = std::fs::read_dir(of.join("fd")).expect("ours").count();
        (resident.expect("a size") * 1024, open)
    }
}

/// A Prometheus that scrapes it each second, in this manner.
pub(crate) fn prometheus(serving: &Serving, how: &str) -> (Running, SocketAddr) {
    let folder = serving.folder.path();
    let config = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n- {{job_name: training, static_configs: [{{targets: \
         ['{}']}}], {how}}}\n",
        serving.address
    );
    std::fs::write(folder.join("prometheus.yml"), config).expect("written");
    for _ in 0..5 {
        let address = free_port();
        let child = Command::new("prometheus")
            .current_dir(folder)
            .args([
                "--config.file=prometheus.yml",
                "--storage.tsdb.path=data",
                "--log.level=error",
            ])
            .arg(format!("--web.listen-address={address}"))
            .spawn();
        let mut running = Running(child.expect("tests/run.sh installs Prometheus"));
        while running.end_within(Duration::from_millis(100)).is_none() {
            let ready =
                TcpStream::connect(address).and_then(|s| exchange(s, &request("/-/ready", "")));
            if ready.is_ok_and(|answer| answer.status == 200) {
                return (running, address);
            }
        }
    }
    panic!("Prometheus does not start");
}

/// Waits until it is so, and says what did not come.
pub(crate) fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// An answer: status, head in small letters, body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("text")
    }
}

/// Sends a request as it is, and reads until the other side ends.
pub(crate) fn exchange(mut stream: impl Read + Write, request: &[u8]) -> std::io::Result<Answer> {
    stream.write_all(request)?;
    stream.flush()?;
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        // A reset after the answer: what was sent beyond it was not wanted.
        Ok(_) => {}
        Err(_) if !all.is_empty() => {}
        Err(e) => return Err(e),
    }
    let end = all.windows(4).position(|part| part == b"\r\n\r\n");
    let end = end.ok_or_else(|| std::io::Error::other("no HTTP answer"))?;
    let head = String::from_utf8_lossy(&all[..end]).to_lowercase();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok(Answer {
        status: status.ok_or_else(|| std::io::Error::other("no status"))?,
        head,
        body: all[end + 4..].to_vec(),
    })
}

/// A connection that does not wait for ever.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connects");
    let patience = Some(Duration::from_secs(20));
    stream.set_read_timeout(patience).expect("a timeout");
    stream.set_write_timeout(patience).expect("a timeout");
    stream
}

/// A GET with further lines of the head.
pub(crate) fn request(path: &str, lines: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{lines}\r\n")
        .into_bytes()
}

/// Asks plainly.
pub(crate) fn plain(address: SocketAddr, path: &str, lines: &str) -> Answer {
    exchange(connect(address), &request(path, lines)).expect("an answer")
}

/// The line that names a user.
pub(crate) fn basic(user: &str, password: &str) -> String {
    use base64::Engine;
    let code = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    format!("Authorization: Basic {code}\r\n")
}

/// A certificate authority.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("signed").pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// A certificate for these names, and its key.
    pub(crate) fn issue(&self, names: &[&str]) -> (String, String) {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let params = CertificateParams::new(names).expect("names");
        let key = KeyPair::generate().expect("a key");
        let signed = params.signed_by(&key, &self.issuer).expect("signed");
        (signed.pem(), key.serialize_pem())
    }

    /// A client that trusts this authority.
    pub(crate) fn client<'a>(&self, own: Option<&'a (String, String)>) -> Client<'a> {
        Client {
            roots: self.pem.clone(),
            own,
            tls13: true,
            alpn: None,
        }
    }
}

/// A client that speaks TLS.
pub(crate) struct Client<'a> {
    roots: String,
    own: Option<&'a (String, String)>,
    pub(crate) tls13: bool,
    pub(crate) alpn: Option<&'static str>,
}

impl Client<'_> {
    pub(crate) fn connect(
        &self,
        address: SocketAddr,
    ) -> std::io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_slice(self.roots.as_bytes()).expect("PEM");
        roots.add(root).expect("a root");
        let versions = if self.tls13 { &TLS13 } else { &TLS12 };
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[versions])
            .expect("a version")
            .with_root_certificates(roots);
        let mut config = match self.own {
            None => config.with_no_client_auth(),
            Some((cert, key)) => config
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_slice(cert.as_bytes()).expect("PEM")],
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM"),
                )
                .expect("a pair"),
        };
        config.alpn_protocols = self.alpn.iter().map(|p| p.as_bytes().to_vec()).collect();
        let name = ServerName::try_from("localhost").expect("a name");
        let mut session = ClientConnection::new(Arc::new(config), name).expect("a client");
        let mut stream = connect(address);
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        Ok(StreamOwned::new(session, stream))
    }

    pub(crate) fn ask(
        &self,
        address: SocketAddr,
        path: &str,
        lines: &str,
    ) -> std::io::Result<Answer> {
        exchange(self.connect(address)?, &request(path, lines))
    }
}
