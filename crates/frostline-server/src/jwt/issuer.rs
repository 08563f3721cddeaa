//! Where the keys of an issuer are read.

use std::path::{Path, PathBuf};
use std::time::Duration;

use frostline_base::{Error, Result};
use reqwest::redirect::Policy;
use serde_json::Value;
use url::Url;

use crate::jwt::safe;

/// How long an issuer may take to answer.
const TIME_MAX: Duration = Duration::from_secs(10);
/// The longest answer.
const BYTES_MAX: usize = 1 << 20;

/// Where the keys of an issuer are.
pub(super) enum Issuer {
    File(PathBuf),
    At(reqwest::Client, Url),
    /// Where its description says, which OpenID Connect's discovery finds at this URL.
    Discovered {
        client: reqwest::Client,
        issuer: String,
        description: Url,
    },
}

impl Issuer {
    pub(super) fn in_file(path: &Path) -> Issuer {
        Issuer::File(path.to_owned())
    }

    pub(super) fn at(url: Url) -> Result<Issuer> {
        Ok(Issuer::At(client()?, url))
    }

    pub(super) fn discovered(issuer: &str, url: &Url) -> Result<Issuer> {
        let mut description = url.clone();
        description
            .set_path(&format!("{}/.well-known/openid-configuration", url.path().trim_end_matches('/')));
        Ok(Issuer::Discovered { client: client()?, issuer: issuer.to_owned(), description })
    }

    /// The key set, as it is now.
    pub(super) async fn read(&self) -> Result<Vec<u8>> {
        match self {
            Issuer::File(path) => tokio::fs::read(path).await.map_err(|e| {
                Error::invalid(format!("cannot read --jwt-jwks {}", path.display())).with_source(e)
            }),
            Issuer::At(client, url) => get(client, url).await,
            Issuer::Discovered { client, issuer, description } => {
                let wrong = |what: &str| Error::invalid(format!("{description} {what}"));
                let described: Value = serde_json::from_slice(&get(client, description).await?)
                    .map_err(|e| wrong("is not JSON").with_source(e))?;
                if described["issuer"].as_str() != Some(issuer) {
                    return Err(wrong(&format!("is not the description of the issuer {issuer}")));
                }
                let keys = described["jwks_uri"].as_str().ok_or_else(|| wrong("has no jwks_uri"))?;
                get(client, &safe(keys, "the jwks_uri of the issuer,")?).await
            }
        }
    }
}

fn client() -> Result<reqwest::Client> {
    // What another place says is not what the issuer says.
    let client = reqwest::Client::builder().timeout(TIME_MAX).redirect(Policy::none()).build();
    client
        .map_err(|e| Error::internal("cannot make a client of HTTP for the issuer of tokens").with_source(e))
}

async fn get(client: &reqwest::Client, url: &Url) -> Result<Vec<u8>> {
    let failed = |e: reqwest::Error| Error::unavailable(format!("cannot read {url}")).with_source(e);
    let mut response = client.get(url.clone()).send().await.map_err(failed)?;
    let status = response.status();
    if !status.is_success() {
        return Err(Error::unavailable(format!("{url} answers with status {status}")));
    }
    let mut read = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(failed)? {
        if read.len() + bytes.len() > BYTES_MAX {
            return Err(Error::invalid(format!("{url} answers with more than {BYTES_MAX} bytes")));
        }
        read.extend_from_slice(&bytes);
    }
    Ok(read)
}
