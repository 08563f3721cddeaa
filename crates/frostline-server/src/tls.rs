//! TLS of connections.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use frostline_base::{Error, Result};
use parking_lot::{Mutex, MutexGuard};
use ring::digest;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Files in PEM.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The certificate, and those that it is signed by.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Certificates that sign those of clients; none where clients need no certificate.
    pub client_ca: Option<PathBuf>,
}

/// What makes TLS of the connections of one listener, by the files as they are.
#[derive(Debug)]
pub(crate) struct Reloading {
    files: Tls,
    /// The protocol that its clients agree on; none where there is no choice.
    protocol: Option<&'static [u8]>,
    loaded: Mutex<Loaded>,
}

struct Loaded {
    acceptor: TlsAcceptor,
    /// The files that it was made of.
    of: digest::Digest,
    /// The files that could not be used, to tell it once.
    failed: Option<digest::Digest>,
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded").field("of", &self.of).finish_non_exhaustive()
    }
}

impl Reloading {
    /// `Invalid` where the files are no certificate and its key.
    pub(crate) fn new(files: Tls, protocol: Option<&'static [u8]>) -> Result<Reloading> {
        let read = Contents::read(&files)?;
        let loaded = Loaded { acceptor: acceptor(&files, protocol, &read)?, of: read.digest(), failed: None };
        Ok(Reloading { files, protocol, loaded: Mutex::new(loaded) })
    }

    /// What makes TLS of the next connection.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.loaded().acceptor.clone()
    }

    /// Uses the files as they are now for the connections that come, if they have changed and can be used. Open connections
    /// stay as they are.
    pub(crate) fn reload(&self) {
        let read = match Contents::read(&self.files) {
            Ok(read) => read,
            Err(error) => return tracing::warn!(?error, "the certificate stays as it was"),
        };
        let of = read.digest();
        let is_known = |loaded: &Loaded| {
            let is = |known: &digest::Digest| known.as_ref() == of.as_ref();
            is(&loaded.of) || loaded.failed.as_ref().is_some_and(is)
        };
        if is_known(&self.loaded()) {
            return;
        }
        let made = acceptor(&self.files, self.protocol, &read);
        let mut loaded = self.loaded();
        match made {
            Ok(acceptor) => {
                *loaded = Loaded { acceptor, of, failed: None };
                tracing::info!(certificate = %self.files.certificate.display(), "the certificate was loaded again");
            }
            // Who renews it may have written only one of the files.
            Err(error) => {
                loaded.failed = Some(of);
                tracing::warn!(?error, "the certificate stays as it was");
            }
        }
    }

    fn loaded(&self) -> MutexGuard<'_, Loaded> {
        // What it holds is whole even if a thread died while it held the lock.
        self.loaded.lock()
    }
}

/// What the files hold.
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Contents {
    fn read(files: &Tls) -> Result<Contents> {
        let read = |path: &Path| {
            std::fs::read(path)
                .map_err(|e| Error::invalid(format!("cannot read {}", path.display())).with_source(e))
        };
        Ok(Contents {
            certificate: read(&files.certificate)?,
            key: read(&files.key)?,
            client_ca: files.client_ca.as_deref().map(read).transpose()?,
        })
    }

    fn digest(&self) -> digest::Digest {
        let mut all = digest::Context::new(&digest::SHA256);
        for part in [&self.certificate, &self.key].into_iter().chain(&self.client_ca) {
            all.update(&(part.len() as u64).to_le_bytes());
            all.update(part);
        }
        all.finish()
    }
}

fn acceptor(files: &Tls, protocol: Option<&[u8]>, read: &Contents) -> Result<TlsAcceptor> {
    let certificates = certificates(&files.certificate, &read.certificate)?;
    let key = PrivateKeyDer::from_pem_slice(&read.key).map_err(|e| unread(&files.key, e))?;
    let failed = |e: tokio_rustls::rustls::Error| {
        Error::invalid(format!("cannot use {} with {}", files.certificate.display(), files.key.display()))
            .with_source(e)
    };
    let provider = Arc::new(default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let config = config.with_safe_default_protocol_versions().map_err(failed)?;
    let config = match files.client_ca.as_deref().zip(read.client_ca.as_ref()) {
        None => config.with_no_client_auth(),
        Some((path, pem)) => {
            let unusable = |e: &(dyn std::error::Error + 'static)| {
                Error::invalid(format!("cannot use {} to check clients: {e}", path.display()))
            };
            let mut roots = RootCertStore::empty();
            for certificate in self::certificates(path, pem)? {
                roots.add(certificate).map_err(|e| unusable(&e))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            config.with_client_cert_verifier(verifier.build().map_err(|e| unusable(&e))?)
        }
    };
    let mut config = config.with_single_cert(certificates, key).map_err(failed)?;
    config.alpn_protocols = protocol.into_iter().map(<[u8]>::to_vec).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// At least one.
fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<std::result::Result<_, _>>()
        .map_err(|e| unread(path, e))?;
    match certificates.is_empty() {
        true => Err(Error::invalid(format!("{} holds no certificate", path.display()))),
        false => Ok(certificates),
    }
}

fn unread(path: &Path, e: pem::Error) -> Error {
    Error::invalid(format!("cannot read {} as PEM", path.display())).with_source(e)
}
