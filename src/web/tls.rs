//! `tls_server_config` -> what rustls serves by. Names are Go's, as everywhere in the exporter-toolkit; what rustls does
//! not have (CBC suites, P-521, versions before 1.2) is refused by name rather than left out in silence.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use tokio_rustls::rustls::crypto::{CryptoProvider, SupportedKxGroup, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    RootCertStore, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion,
};

use super::clients::Clients;
use crate::config::Bad;

/// The section of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Tls {
    cert: String,
    key: String,
    client_ca: String,
    cert_file: String,
    key_file: String,
    client_ca_file: String,
    client_auth_type: ClientAuth,
    client_allowed_sans: Option<Vec<String>>,
    min_version: Version,
    max_version: Version,
    cipher_suites: Vec<Suite>,
    prefer_server_cipher_suites: bool,
    curve_preferences: Vec<Curve>,
}

impl Default for Tls {
    fn default() -> Self {
        Self {
            cert: String::new(),
            key: String::new(),
            client_ca: String::new(),
            cert_file: String::new(),
            key_file: String::new(),
            client_ca_file: String::new(),
            client_auth_type: ClientAuth::NoClientCert,
            client_allowed_sans: None,
            min_version: Version::TLS12,
            max_version: Version::TLS13,
            cipher_suites: Vec::new(),
            prefer_server_cipher_suites: true,
            curve_preferences: Vec::new(),
        }
    }
}

/// What is asked of a client, by Go's names.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
enum ClientAuth {
    #[serde(alias = "")]
    NoClientCert,
    RequestClientCert,
    #[serde(alias = "RequireClientCert")]
    RequireAnyClientCert,
    VerifyClientCertIfGiven,
    RequireAndVerifyClientCert,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
enum Version {
    TLS10,
    TLS11,
    TLS12,
    TLS13,
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Suite(SupportedCipherSuite);

#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Curve(&'static dyn SupportedKxGroup);

impl TryFrom<String> for Suite {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        // Rustls writes `TLS13_`, Go does not.
        let go = |suite: &SupportedCipherSuite| {
            format!("{:?}", suite.suite()).replacen("TLS13_", "TLS_", 1)
        };
        find("cipher suite", &name, ring::ALL_CIPHER_SUITES, go).map(Self)
    }
}

impl TryFrom<String> for Curve {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let go = |group: &&dyn SupportedKxGroup| {
            format!("{:?}", group.name())
                .replace("secp256r1", "CurveP256")
                .replace("secp384r1", "CurveP384")
        };
        find("curve", &name, ring::ALL_KX_GROUPS, go).map(Self)
    }
}

fn find<T: Copy>(
    what: &str,
    name: &str,
    all: &[T],
    go: impl Fn(&T) -> String,
) -> Result<T, String> {
    let known = || all.iter().map(&go).collect::<Vec<_>>().join(", ");
    all.iter()
        .find(|one| go(one) == name)
        .copied()
        .ok_or_else(|| format!("no {what} `{name}`; there are {}", known()))
}

/// Reads a file that the section names.
type Read<'a> = &'a mut dyn FnMut(&Path) -> Result<String, Bad>;

impl Tls {
    /// What to serve by; nothing if the section is empty. Paths are relative to `folder`.
    pub(super) fn server_config(
        &self,
        folder: &Path,
        http2: bool,
        read: Read<'_>,
    ) -> Result<Option<ServerConfig>, String> {
        let mut pem = |name: &str, inline: &str, file: &str| match (inline, file) {
            ("", "") => Ok(None),
            (text, "") => Ok(Some(text.to_owned())),
            ("", file) => {
                let text = read(&folder.join(file)).map_err(|e| format!("{name}_file: {e}"))?;
                Ok(Some(text))
            }
            (..) => Err(format!("{name} and {name}_file: give one of them")),
        };
        let cert = pem("cert", &self.cert, &self.cert_file)?;
        let key = pem("key", &self.key, &self.key_file)?;
        let ca = pem("client_ca", &self.client_ca, &self.client_ca_file)?;
        let (cert, key) = match (cert, key) {
            (Some(cert), Some(key)) => (certificates("cert", &cert)?, private_key(&key)?),
            (None, None) if self.is_empty() => return Ok(None),
            (None, _) => return Err("cert_file is missing".to_owned()),
            (_, None) => return Err("key_file is missing".to_owned()),
        };
        let provider = Arc::new(self.provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&self.versions()?)
            .map_err(|e| e.to_string())?;
        let builder = match self.clients(&provider, ca.as_deref())? {
            Some(clients) => builder.with_client_cert_verifier(Arc::new(clients)),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder
            .with_single_cert(cert, key)
            .map_err(|e| format!("cert and key: {e}"))?;
        config.ignore_client_order = self.prefer_server_cipher_suites;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        if http2 {
            config.alpn_protocols.insert(0, b"h2".to_vec());
        }
        Ok(Some(config))
    }

    fn is_empty(&self) -> bool {
        let none = self.client_allowed_sans.is_none() && self.client_ca.is_empty();
        none && self.client_ca_file.is_empty() && self.client_auth_type == ClientAuth::NoClientCert
    }

    /// Suites of TLS 1.3 cannot be chosen, in Go neither.
    fn provider(&self) -> CryptoProvider {
        let mut provider = ring::default_provider();
        if !self.cipher_suites.is_empty() {
            let newest = |suite: &SupportedCipherSuite| suite.tls13().is_some();
            provider.cipher_suites.retain(newest);
            let chosen = self.cipher_suites.iter().map(|suite| suite.0);
            provider
                .cipher_suites
                .extend(chosen.filter(|suite| !newest(suite)));
        }
        if !self.curve_preferences.is_empty() {
            provider.kx_groups = self.curve_preferences.iter().map(|curve| curve.0).collect();
        }
        provider
    }

    fn versions(&self) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
        let all = [(Version::TLS12, &TLS12), (Version::TLS13, &TLS13)];
        let range = self.min_version..=self.max_version;
        let versions: Vec<_> = all
            .into_iter()
            .filter_map(|(version, known)| range.contains(&version).then_some(known))
            .collect();
        if versions.is_empty() {
            return Err(format!(
                "min_version {:?} to max_version {:?}: there are TLS12 and TLS13",
                self.min_version, self.max_version
            ));
        }
        Ok(versions)
    }

    fn clients(
        &self,
        provider: &Arc<CryptoProvider>,
        ca: Option<&str>,
    ) -> Result<Option<Clients>, String> {
        let (mandatory, verified) = match self.client_auth_type {
            ClientAuth::NoClientCert if ca.is_some() => {
                return Err("client_ca_file asks for a client_auth_type, such as RequireAndVerifyClientCert".to_owned());
            }
            ClientAuth::NoClientCert | ClientAuth::RequestClientCert => (false, false),
            ClientAuth::RequireAnyClientCert => (true, false),
            ClientAuth::VerifyClientCertIfGiven => (false, true),
            ClientAuth::RequireAndVerifyClientCert => (true, true),
        };
        if self.client_allowed_sans.is_some() && !mandatory {
            return Err("client_allowed_sans asks for client_auth_type RequireAndVerifyClientCert or RequireAnyClientCert".to_owned());
        }
        if self.client_auth_type == ClientAuth::NoClientCert {
            return Ok(None);
        }
        let chain = match (verified, ca) {
            (false, _) => None,
            (true, None) => return Err("client_auth_type asks for client_ca_file".to_owned()),
            (true, Some(ca)) => {
                let mut roots = RootCertStore::empty();
                for root in certificates("client_ca", ca)? {
                    roots.add(root).map_err(|e| format!("client_ca: {e}"))?;
                }
                let builder =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
                Some(builder.build().map_err(|e| format!("client_ca: {e}"))?)
            }
        };
        Ok(Some(Clients {
            chain,
            mandatory,
            sans: self.client_allowed_sans.clone(),
            algorithms: provider.signature_verification_algorithms,
        }))
    }
}

fn certificates(name: &str, pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match all {
        Ok(all) if all.is_empty() => Err(format!("{name}: no certificate in it (PEM)")),
        Ok(all) => Ok(all),
        Err(e) => Err(format!("{name}: {e}")),
    }
}

fn private_key(pem: &str) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|e| format!("key: {e}"))
}
