//! TLS with certificates on both sides.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Who a client is, and whom it trusts: files in PEM.
#[derive(Clone, Debug)]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    ca: PathBuf,
    server_name: Option<String>,
}

/// An error that names the file.
fn of<E: std::fmt::Display>(file: &Path) -> impl FnOnce(E) -> io::Error {
    move |e| io::Error::other(format!("{}: {e}", file.display()))
}

impl Tls {
    /// The client's certificate, with those between it and the CA behind it, and its private key; and the certificates of those that
    /// sign the router's.
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>, ca: impl Into<PathBuf>) -> Tls {
        Tls { certificate: certificate.into(), key: key.into(), ca: ca.into(), server_name: None }
    }

    /// The same, with a name that the router's certificate must have, where it is not the host that is connected to.
    #[must_use]
    pub fn server_name(self, name: impl Into<String>) -> Tls {
        Tls { server_name: Some(name.into()), ..self }
    }

    fn config(&self) -> io::Result<ClientConfig> {
        let (certificate, key, ca) = (&self.certificate, &self.key, &self.ca);
        let certificates = |file: &Path| -> io::Result<Vec<CertificateDer<'static>>> {
            let all: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).map_err(of(file))?.collect();
            all.map_err(of(file))
        };
        let mut roots = RootCertStore::empty();
        for root in certificates(ca)? {
            roots.add(root).map_err(of(ca))?;
        }
        if roots.is_empty() {
            return Err(of(ca)("there is no certificate in it"));
        }
        let key = PrivateKeyDer::from_pem_file(key).map_err(of(key))?;
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_client_auth_cert(certificates(certificate)?, key)
            .map_err(of(certificate))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }

    /// Connects to `host:port`.
    pub(crate) async fn connect(&self, address: &str) -> io::Result<TlsStream<TcpStream>> {
        let config = self.config()?;
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = self.server_name.as_deref().unwrap_or(host).to_owned();
        let name = ServerName::try_from(name).map_err(io::Error::other)?;
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }
}
