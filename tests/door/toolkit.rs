//! The web configuration file: TLS, client certificates, users, headers, rate, and all of it renewed while it serves.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::stage::{Authority, basic, exchange, plain, prometheus, request, serve, until};
use super::support::EXPORTER;

/// Writes a web configuration and what it needs into the folder, and gives the flag for it.
fn web(folder: &Path, text: &str, authority: &Authority) -> Vec<String> {
    let (cert, key) = authority.issue(&["localhost", "127.0.0.1"]);
    let file = folder.join("web.yml");
    for (name, text) in [
        ("web.yml", text),
        ("server.crt", &cert),
        ("server.key", &key),
        ("ca.crt", &authority.pem),
    ] {
        fs::write(folder.join(name), text).expect("written");
    }
    vec![format!("--web.config.file={}", file.display())]
}

fn hash(password: &str) -> String {
    // The least cost: what is tested is who gets in.
    bcrypt::hash(password, 4)
        .expect("a hash")
        .replacen("$2b$", "$2y$", 1)
}

const SERVER: &str = "tls_server_config: {cert_file: server.crt, key_file: server.key}\n";

#[test]
fn the_example_is_accepted_by_promtool_and_lets_in_only_who_may() {
    let authority = Authority::new("ours");
    let example = include_str!("../../deploy/web/web-config.example.yml");
    let serving = serve(|folder| web(folder, example, &authority));
    let file = serving.folder.path().join("web.yml").display().to_string();
    for (program, args) in [
        ("promtool", ["check", "web-config"].as_slice()),
        (EXPORTER, &["check"]),
    ] {
        let output = Command::new(program).args(args).arg(&file).output();
        let output = output.unwrap_or_else(|e| panic!("{program}: {e}; tests/run.sh installs it"));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{program}: {said} {output:?}");
    }
    let own = authority.issue(&["prometheus.example.org"]);
    let known = authority.client(Some(&own));
    let user = basic("prometheus", "change-me");
    let answer = known
        .ask(serving.address, "/metrics", &user)
        .expect("an answer");
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains("training_exporter_build_info"));
    assert!(
        answer
            .head
            .contains("strict-transport-security: max-age=31536000"),
        "{answer:?}"
    );
    assert_eq!(
        known
            .ask(serving.address, "/metrics", "")
            .expect("an answer")
            .status,
        401
    );
    let foreign = Authority::new("foreign").issue(&["prometheus.example.org"]);
    for own in [None, Some(&foreign)] {
        let answer = authority
            .client(own)
            .ask(serving.address, "/metrics", &user);
        assert!(answer.is_err(), "{answer:?}");
    }
}

#[test]
fn prometheus_scrapes_it() {
    let authority = Authority::new("ours");
    let text = format!(
        "tls_server_config: {{cert_file: server.crt, key_file: server.key, client_ca_file: ca.crt, \
         client_auth_type: RequireAndVerifyClientCert, min_version: TLS13}}\nbasic_auth_users: {{ann: {}}}\n",
        hash("right")
    );
    let serving = serve(|folder| web(folder, &text, &authority));
    let (cert, key) = authority.issue(&["prometheus"]);
    fs::write(serving.folder.path().join("client.crt"), cert).expect("written");
    fs::write(serving.folder.path().join("client.key"), key).expect("written");
    let scrape = "scheme: https, basic_auth: {username: ann, password: right}, tls_config: {ca_file: ca.crt, \
                  cert_file: client.crt, key_file: client.key, server_name: localhost}";
    let (_prometheus, address) = prometheus(&serving, scrape);
    until("Prometheus scrapes the exporter", || {
        let answer = plain(address, "/api/v1/query?query=up", "").text();
        answer.contains(",\"1\"]").then_some(())
    });
}

#[test]
fn client_certificates_are_asked_for_as_the_file_says() {
    let authority = Authority::new("ours");
    let foreign = Authority::new("foreign");
    let named = authority.issue(&["good.example.org", "10.1.2.3"]);
    let other = authority.issue(&["bad.example.org"]);
    let stranger = foreign.issue(&["good.example.org"]);
    let everyone = [None, Some(&named), Some(&other), Some(&stranger)];
    let sans = "client_allowed_sans: [good.example.org]";
    for (asked, admitted) in [
        ("client_auth_type: NoClientCert", [true, true, true, true]),
        (
            "client_auth_type: RequestClientCert",
            [true, true, true, true],
        ),
        (
            "client_auth_type: RequireAnyClientCert",
            [false, true, true, true],
        ),
        (
            "client_ca_file: ca.crt, client_auth_type: VerifyClientCertIfGiven",
            [true, true, true, false],
        ),
        (
            "client_ca_file: ca.crt, client_auth_type: RequireAndVerifyClientCert",
            [false, true, true, false],
        ),
        (
            &format!(
                "client_ca_file: ca.crt, client_auth_type: RequireAndVerifyClientCert, {sans}"
            ),
            [false, true, false, false],
        ),
        (
            &format!("client_auth_type: RequireClientCert, {sans}"),
            [false, true, false, true],
        ),
        (
            "client_auth_type: RequireAnyClientCert, client_allowed_sans: [10.1.2.3]",
            [false, true, false, false],
        ),
    ] {
        let text = format!(
            "tls_server_config: {{cert_file: server.crt, key_file: server.key, {asked}}}\n"
        );
        let serving = serve(|folder| web(folder, &text, &authority));
        for (tls13, alpn) in [(true, None), (false, Some("http/1.1"))] {
            let got = everyone.map(|own| {
                let mut client = authority.client(own);
                (client.tls13, client.alpn) = (tls13, alpn);
                client
                    .ask(serving.address, "/-/healthy", "")
                    .is_ok_and(|answer| answer.status == 200)
            });
            assert_eq!(got, admitted, "{asked}, TLS 1.3: {tls13}");
        }
    }
}

#[test]
fn versions_suites_and_http2_are_as_the_file_says() {
    let authority = Authority::new("ours");
    for (more, http2, tls12, tls13) in [
        ("", "true", true, true),
        ("min_version: TLS13", "true", false, true),
        ("max_version: TLS12", "false", true, false),
        (
            "cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]",
            "true",
            false,
            true,
        ),
        (
            "cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384], curve_preferences: [CurveP384]",
            "true",
            true,
            true,
        ),
    ] {
        let text = format!(
            "tls_server_config: {{cert_file: server.crt, key_file: server.key, {more}}}\nhttp_server_config: {{http2: {http2}}}\n"
        );
        let serving = serve(|folder| web(folder, &text, &authority));
        for (newer, works) in [(false, tls12), (true, tls13)] {
            let mut client = authority.client(None);
            client.tls13 = newer;
            let answer = client.ask(serving.address, "/-/healthy", "");
            assert_eq!(
                answer.is_ok(),
                works,
                "{more}, TLS 1.3: {newer}: {answer:?}"
            );
            client.alpn = Some("h2");
            let spoken = client.connect(serving.address).is_ok();
            assert_eq!(spoken, works && http2 == "true", "h2, {more}");
        }
    }
}

#[test]
fn what_changes_counts_at_once() {
    let authority = Authority::new("ours");
    let text = format!(
        "{SERVER}basic_auth_users: {{ann: {}, bob: {}}}\n",
        hash("a"),
        hash("b")
    );
    let serving = serve(|folder| web(folder, &text, &authority));
    let address = serving.address;
    let ask = |user: &str, password: &str| {
        let answer = authority
            .client(None)
            .ask(address, "/-/healthy", &basic(user, password));
        answer.map(|answer| answer.status).ok()
    };
    for (user, password, status) in [
        ("ann", "a", 200),
        ("ann", "b", 401),
        ("bob", "b", 200),
        ("eve", "a", 401),
        ("eve", "", 401),
        ("ann", "a\0", 401),
        ("", "", 401),
        // Known by now, and so without a check.
        ("ann", "a", 200),
    ] {
        assert_eq!(ask(user, password), Some(status), "{user}:{password}");
    }
    let write = |name: &str, text: &str| {
        fs::write(serving.folder.path().join(name), text).expect("written")
    };
    // One user is gone, and the other has a new password.
    write(
        "web.yml",
        &format!("{SERVER}basic_auth_users: {{bob: {}}}\n", hash("c")),
    );
    assert_eq!(
        [ask("ann", "a"), ask("bob", "b"), ask("bob", "c")],
        [Some(401), Some(401), Some(200)]
    );
    // Another authority issues the certificate.
    let renewed = Authority::new("renewed");
    let (cert, key) = renewed.issue(&["localhost"]);
    write("server.crt", &cert);
    write("server.key", &key);
    assert_eq!(
        ask("bob", "c"),
        None,
        "the old authority is not asked any more"
    );
    let answer = renewed
        .client(None)
        .ask(address, "/-/healthy", &basic("bob", "c"));
    assert_eq!(answer.map(|answer| answer.status).ok(), Some(200));
    // A file that turned bad lets nobody in, and the log says why.
    write("web.yml", "tls_server_config: {cert_fil: server.crt}\n");
    assert!(renewed.client(None).connect(address).is_err());
    until("the log says why", || {
        serving.said().contains("web.yml:1:21: ").then_some(())
    });
    write("web.yml", "");
    assert_eq!(
        plain(address, "/-/healthy", "").status,
        200,
        "no TLS any more"
    );
    write("web.yml", "basic_auth_users: {ann: plain}\n");
    assert_eq!(plain(address, "/-/healthy", "").status, 500);
}

#[test]
fn a_rate_is_held() {
    let authority = Authority::new("ours");
    let serving = serve(|folder| web(folder, "rate_limit: {interval: 1h, burst: 3}\n", &authority));
    let answers: Vec<u16> = (0..5)
        .map(|_| plain(serving.address, "/metrics", "").status)
        .collect();
    assert_eq!(answers, [200, 200, 200, 429, 429]);
}

#[test]
fn a_wrong_file_is_told_with_its_place_and_nothing_is_served() {
    let authority = Authority::new("ours");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let other_key = authority.issue(&["localhost"]).1;
    fs::write(folder.path().join("other.key"), other_key).expect("written");
    for (text, said) in [
        (
            "tls_server_config:\n  cert_flie: x\n",
            ":2:3: tls_server_config: unknown field `cert_flie`",
        ),
        ("tls_server: {}\n", ": unknown field `tls_server`"),
        (
            "tls_server_config: {cert_file: server.crt}\n",
            "key_file is missing",
        ),
        (
            "tls_server_config: {cert_file: server.crt, key_file: none}\n",
            "none: cannot be read: No such file",
        ),
        (
            "tls_server_config: {cert_file: server.crt, key_file: other.key}\n",
            "cert and key: ",
        ),
        (
            "tls_server_config: {cert_file: server.key, key_file: server.key}\n",
            "cert: no certificate in it (PEM)",
        ),
        (
            "tls_server_config: {cert_file: server.crt, key_file: server.key, key: x}\n",
            "key and key_file: give one",
        ),
        (
            "tls_server_config: {cert_file: server.crt, key_file: server.key, client_ca_file: ca.crt}\n",
            "asks for a client_auth_type",
        ),
        (
            "tls_server_config: {cert_file: server.crt, key_file: server.key, client_auth_type: RequireAndVerifyClientCert}\n",
            "asks for client_ca_file",
        ),
        (
            "tls_server_config: {cert_file: server.crt, key_file: server.key, client_allowed_sans: [a]}\n",
            "client_allowed_sans asks for",
        ),
        (
            "tls_server_config: {client_auth_type: Maybe}\n",
            ":1:39: tls_server_config.client_auth_type: unknown variant `Maybe`",
        ),
        (
            "tls_server_config: {min_version: TLS13, max_version: TLS12, cert_file: server.crt, key_file: server.key}\n",
            "there are TLS12 and TLS13",
        ),
        (
            "tls_server_config: {cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]}\n",
            "no cipher suite `TLS_RSA_WITH_RC4_128_SHA`; there are TLS_AES",
        ),
        (
            "tls_server_config: {curve_preferences: [CurveP521]}\n",
            "no curve `CurveP521`; there are X25519, CurveP256, CurveP384",
        ),
        (
            "http_server_config: {headers: {Server: x}}\n",
            "unknown field `Server`",
        ),
        (
            "http_server_config: {headers: {X-Frame-Options: maybe}}\n",
            "unknown variant `maybe`",
        ),
        (
            "http_server_config: {headers: {Content-Security-Policy: \"a\\nb\"}}\n",
            "not the value of a header",
        ),
        (
            "basic_auth_users: {ann: secret}\n",
            ":1:19: basic_auth_users: no bcrypt hash",
        ),
        (
            "rate_limit: {interval: soon, burst: 1}\n",
            "`soon` is no length of time",
        ),
        (
            "rate_limit: {interval: 1s}\n",
            "burst: 0 would let nobody in",
        ),
        (
            "tls_server_config: {cert_file: x\n",
            "web.yml:2:1: did not find expected",
        ),
    ] {
        let args = web(folder.path(), text, &authority);
        let file = folder.path().join("web.yml");
        for args in [vec!["check".to_owned(), file.display().to_string()], args] {
            let output = Command::new(EXPORTER)
                .args(
                    ["--web.listen-address=127.0.0.1:0"]
                        .iter()
                        .filter(|_| args[0] != "check"),
                )
                .args(&args)
                .output();
            let output = output.expect("it ends");
            let told =
                String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert_eq!(output.status.code(), Some(1), "{text}: {told}");
            assert!(
                told.contains(&file.display().to_string()) && told.contains(said),
                "{text}: {told}"
            );
            assert!(!told.contains("secret"), "{told}");
        }
    }
}

/// Checking a password costs the more the better it is hashed; scrapes go on meanwhile, and the right one is not
/// checked each time.
#[test]
fn a_flood_of_wrong_passwords_hinders_no_scrape() {
    let authority = Authority::new("ours");
    let costly = bcrypt::hash("right", 7).expect("a hash");
    let serving = serve(|folder| {
        web(
            folder,
            &format!("basic_auth_users: {{ann: {costly}}}\n"),
            &authority,
        )
    });
    let address = serving.address;
    assert_eq!(
        plain(address, "/metrics", &basic("ann", "right")).status,
        200
    );
    let mut flood: Vec<_> = (0..50).map(|_| super::stage::connect(address)).collect();
    for (i, stream) in flood.iter_mut().enumerate() {
        let user = ["ann", "eve"][i % 2];
        std::io::Write::write_all(stream, &request("/metrics", &basic(user, "wrong")))
            .expect("sent");
    }
    let began = std::time::Instant::now();
    assert_eq!(
        plain(address, "/metrics", &basic("ann", "right")).status,
        200
    );
    let scrape = began.elapsed();
    let refused = flood
        .into_iter()
        .map(|stream| exchange(stream, b"").expect("an answer").status);
    assert!(refused.into_iter().all(|status| status == 401));
    assert!(
        scrape < Duration::from_secs(2).min(began.elapsed()),
        "{scrape:?}"
    );
}
