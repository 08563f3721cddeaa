//! TLS of connections.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use frostline_base::{Error, Result};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};

/// Files in PEM.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The certificate, and those that it is signed by.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// What makes TLS of a connection. `Invalid` where the files are no certificate and its key.
pub(crate) fn acceptor(tls: &Tls) -> Result<TlsAcceptor> {
    let certificates = CertificateDer::pem_file_iter(&tls.certificate).and_then(Iterator::collect);
    let certificates: Vec<CertificateDer<'static>> = certificates.map_err(|e| unread(&tls.certificate, e))?;
    if certificates.is_empty() {
        return Err(Error::invalid(format!("{} holds no certificate", tls.certificate.display())));
    }
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|e| unread(&tls.key, e))?;
    let failed = |e: tokio_rustls::rustls::Error| {
        Error::invalid(format!("cannot use {} with {}", tls.certificate.display(), tls.key.display()))
            .with_source(e)
    };
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().map_err(failed)?.with_no_client_auth();
    let mut config = config.with_single_cert(certificates, key).map_err(failed)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn unread(path: &Path, e: pem::Error) -> Error {
    Error::invalid(format!("cannot read {} as PEM", path.display())).with_source(e)
}
