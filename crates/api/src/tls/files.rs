//! The router's certificate and key, and who signs those of clients: read from their files, and again when these have changed.

use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use control::yaml::{Listen, PemFile, Place};
use drivers::Files as Opener;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{Error, RootCertStore, ServerConfig};

/// The largest file, in bytes.
const LARGEST: u64 = 1 << 20;
/// What is spoken within TLS: HTTP/2 alone.
const PROTOCOL: &[u8] = b"h2";

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field that names it, such as `certificate`.
    pub field: &'static str,
    /// Where that stands.
    pub place: Place,
    /// The rule that is broken.
    pub rule: &'static str,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub help: &'static str,
    /// Whoever looks may not open it.
    pub denied: bool,
}

/// A file of a field.
struct Pem<'l>(&'static str, &'l PemFile);

impl Pem<'_> {
    fn problem(&self, rule: &'static str, what: impl std::fmt::Display, help: &'static str) -> Problem {
        let Pem(field, PemFile { path, place }) = self;
        Problem { field, place: *place, rule, message: format!("{path}: {what}"), help, denied: false }
    }

    fn bytes(&self, opener: &Opener) -> Result<Vec<u8>, Problem> {
        let help = "a file in PEM that the router's user may read";
        let unread = |e: std::io::Error| {
            let denied = e.kind() == ErrorKind::PermissionDenied;
            Problem { denied, ..self.problem("tls-file", e, help) }
        };
        // A pipe does not hold the router up.
        let file = opener.read(Path::new(&self.1.path)).map_err(unread)?;
        let mut bytes = vec![];
        file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(unread)?;
        if bytes.len() as u64 > LARGEST {
            return Err(self.problem("tls-file", format!("it is larger than {LARGEST} bytes"), help));
        }
        Ok(bytes)
    }

    fn malformed(&self, e: pem::Error) -> Problem {
        self.problem("tls-pem", format!("it is no PEM: {e}"), "lines between -----BEGIN and -----END")
    }

    fn certificates(&self, opener: &Opener) -> Result<Vec<CertificateDer<'static>>, Problem> {
        let bytes = self.bytes(opener)?;
        let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
        let all = all.map_err(|e| self.malformed(e))?;
        if all.is_empty() {
            let help = "a certificate in PEM: -----BEGIN CERTIFICATE-----";
            return Err(self.problem("tls-pem", "there is no certificate in it", help));
        }
        Ok(all)
    }

    fn key(&self, opener: &Opener) -> Result<PrivateKeyDer<'static>, Problem> {
        PrivateKeyDer::from_pem_slice(&self.bytes(opener)?).map_err(|e| match e {
            pem::Error::NoItemsFound => {
                let help = "a private key in PEM without a password, as `openssl pkey -in FILE` prints it";
                self.problem("tls-pem", "there is no private key in it that has no password", help)
            }
            e => self.malformed(e),
        })
    }
}

/// How connections are made, by what is in the files now, which are opened with somebody's rights.
///
/// # Errors
/// A file is not there, or what is in it does not fit.
pub fn load(listen: &Listen, opener: &Opener) -> Result<Arc<ServerConfig>, Problem> {
    let certificate = Pem("certificate", &listen.certificate);
    let (key, client_ca) = (Pem("key", &listen.key), Pem("client-ca", &listen.client_ca));
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());

    let mut roots = RootCertStore::empty();
    for root in client_ca.certificates(opener)? {
        let help = "certificates of those that sign the clients'";
        roots.add(root).map_err(|e| client_ca.problem("tls-certificate", e, help))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let verifier =
        verifier.build().map_err(|e| client_ca.problem("tls-certificate", e, "at least one certificate"))?;

    let chain = certificate.certificates(opener)?;
    let secret = key.key(opener)?;
    // 1.2 and 1.3: there is nothing older in it.
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| certificate.problem("tls-certificate", e, "this should not be"))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, secret);
    let mut config = config.map_err(|e| match e {
        Error::InconsistentKeys(_) => key.problem(
            "tls-key",
            format!("it is not the key of the certificate in {}", listen.certificate.path),
            "the private key with which the certificate was asked for",
        ),
        Error::General(_) => key.problem("tls-key", e, "a private key for RSA, ECDSA or Ed25519"),
        e => {
            certificate.problem("tls-certificate", e, "a certificate (X.509, version 3) and its private key")
        }
    })?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    // Who comes back is verified again: certificates expire, and who signs them changes.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// What tells one state of a file from another: change, size, number.
type Stamp = (i64, i64, u64, u64);

fn stamp(file: &PemFile) -> Option<Stamp> {
    let found = fs::metadata(&file.path).ok()?;
    // Not when its bytes were written: who may read it is changed as well.
    Some((found.ctime(), found.ctime_nsec(), found.size(), found.ino()))
}

fn stamps(listen: &Listen) -> [Option<Stamp>; 3] {
    [&listen.certificate, &listen.key, &listen.client_ca].map(stamp)
}

/// What was read last of the files of an address.
pub struct Files {
    listen: Listen,
    read: [Option<Stamp>; 3],
    config: Result<Arc<ServerConfig>, Problem>,
}

impl Files {
    /// Reads them. Where they do not fit nobody gets in until they do.
    pub fn open(listen: Listen) -> Files {
        let read = stamps(&listen);
        Files { config: load(&listen, &Opener::default()), read, listen }
    }

    /// What is wrong with them, where nobody gets in.
    pub fn wrong(&self) -> Option<&Problem> {
        self.config.as_ref().err()
    }

    /// Reads files that have changed again, once: whether they fit. What does not is told, and what was read before stays. It opens
    /// files: not for a thread that others wait for.
    pub fn read_again(&mut self) -> Option<Result<(), Problem>> {
        let found = stamps(&self.listen);
        if found == self.read {
            return None;
        }
        self.read = found;
        let (now, told) = match load(&self.listen, &Opener::default()) {
            Ok(config) => (Ok(config), Ok(())),
            Err(problem) => (Err(problem.clone()), Err(problem)),
        };
        if now.is_ok() || self.config.is_err() {
            self.config = now;
        }
        Some(told)
    }

    /// How the next connection is made; `None` where nobody gets in.
    pub fn config(&self) -> Option<Arc<ServerConfig>> {
        self.config.as_ref().ok().map(Arc::clone)
    }
}
