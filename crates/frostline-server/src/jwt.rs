//! Users that an issuer knows: JSON web tokens (RFC 7519), as OpenID Connect and OAuth 2 have them.
//!
//! - A token counts only with a signature of one of the issuer's keys, by an algorithm of public keys that suits the key.
//!   What the header says of where keys are (`jku`, `jwk`, `x5u`) is not looked at.
//! - It is for this server (`aud`), by this issuer (`iss`), and has not expired (`exp`).
//! - What the user may do is what rules say of its claims, and nothing where none does.
//! - An issuer that cannot be asked lets nobody in: keys that were read before count for a day.

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use frostline_base::{Error, ErrorKind, chain};
use http::StatusCode;
use serde_json::{Map, Value};
use url::Url;

use crate::auth::{Client, Realm, unauthenticated};
use crate::error::{ApiError, Result};
use crate::jwt::issuer::Issuer;
use crate::jwt::keys::Keys;
use crate::jwt::rule::Rule;
use crate::jwt::signature::ALGORITHMS;
use crate::scope::{Grant, Scope};

mod issuer;
mod keys;
mod rule;
mod signature;

/// The longest token.
const TOKEN_BYTES_MAX: usize = 16 << 10;
/// How far the clock of the issuer may be from ours.
const LEEWAY_S: f64 = 60.0;
/// The longest name of a user.
const USER_BYTES_MAX: usize = 256;

/// Whose tokens let users in, and what these may do.
#[derive(Clone, Debug)]
pub struct JwtSettings {
    /// What tokens say in `iss`, and where OpenID Connect's discovery begins.
    pub issuer: String,
    /// Tokens name one of these in `aud`.
    pub audiences: Vec<String>,
    /// Where the issuer's keys are, a file or a URL; none for where discovery says.
    pub jwks: Option<String>,
    /// The claim that names the user.
    pub user_claim: String,
    /// What users may do: `CLAIM=VALUE: ROLE` or `CLAIM=VALUE: PRIVILEGES on INDICES`.
    pub roles: Vec<String>,
}

/// What knows users by their tokens.
pub(crate) struct Jwt {
    issuer: String,
    audiences: Vec<String>,
    user_claim: String,
    rules: Vec<Rule>,
    keys: Arc<Keys>,
    /// Whether the keys are in a file.
    is_local: bool,
}

impl Jwt {
    /// `Invalid` where the settings contradict each other.
    pub(crate) fn new(settings: &JwtSettings) -> frostline_base::Result<Jwt> {
        let JwtSettings { issuer, audiences, jwks, user_claim, roles } = settings;
        if audiences.is_empty() {
            return Err(Error::invalid(
                "--jwt-issuer needs --jwt-audience: tokens for other services would count here, too",
            ));
        }
        if roles.is_empty() {
            return Err(Error::invalid(
                "--jwt-issuer needs --jwt-role: its users may do nothing without one",
            ));
        }
        let rules = roles.iter().map(|rule| Rule::parse(rule)).collect::<frostline_base::Result<_>>()?;
        let (from, is_local) = match jwks.as_deref() {
            Some(url) if url.contains("://") => (Issuer::at(safe(url, "--jwt-jwks")?)?, false),
            Some(path) => (Issuer::in_file(Path::new(path)), true),
            None => (Issuer::discovered(issuer, &safe(issuer, "--jwt-issuer")?)?, false),
        };
        Ok(Jwt {
            issuer: issuer.clone(),
            audiences: audiences.clone(),
            user_claim: user_claim.clone(),
            rules,
            keys: Arc::new(Keys::new(from)),
            is_local,
        })
    }

    /// Reads the keys. A file that has none is an error; an issuer that cannot be asked is asked again when a token comes.
    pub(crate) async fn load(&self, now_us: i64) -> frostline_base::Result<()> {
        match self.keys.load(now_us).await {
            Err(error) if !self.is_local && error.kind() == ErrorKind::Unavailable => {
                tracing::warn!(error = chain(&error), "the keys of the issuer of tokens cannot be read yet");
                Ok(())
            }
            loaded => loaded,
        }
    }

    /// Who sends this token. An error of status 401 where it does not count, and of 503 where no keys could be read yet.
    pub(crate) async fn client(&self, token: &str, now_us: i64) -> Result<Client> {
        let refused = |why: &str| unauthenticated(&format!("unable to authenticate with this token: {why}"));
        if token.len() > TOKEN_BYTES_MAX {
            return Err(refused("it is too long"));
        }
        let signed = Signed::parse(token).map_err(refused)?;
        let key = self.keys.find(&signed.algorithm, signed.key_id.as_deref(), now_us).await;
        let key = key.map_err(|error| match error.kind() {
            ErrorKind::Unavailable => {
                ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable_exception", error.to_string())
            }
            _ => refused(&error.to_string()),
        })?;
        if !key.verifies(&signed.algorithm, signed.message.as_bytes(), &signed.signature) {
            return Err(refused("its signature is not the issuer's"));
        }
        // Only now is anything of it believed.
        let claims = signed.claims().map_err(refused)?;
        self.check(&claims, now_us).map_err(refused)?;
        let user = claims.get(&self.user_claim).and_then(Value::as_str).filter(|user| is_name(user));
        let user = user.ok_or_else(|| refused("it does not name its user"))?;
        let mut grants: Option<Vec<Grant>> = Some(Vec::new());
        let mut roles = Vec::new();
        for rule in self.rules.iter().filter(|rule| rule.applies(&claims)) {
            roles.push(rule.role().to_owned());
            // What allows everything allows it whatever else applies.
            grants = grants.zip(rule.grant()).map(|(mut grants, grant)| {
                grants.push(grant.clone());
                grants
            });
        }
        Ok(Client { user: user.to_owned(), key: None, roles, realm: Realm::Jwt, scope: Scope::of(grants) })
    }

    /// Whether a token with these claims is for us and now.
    fn check(&self, claims: &Map<String, Value>, now_us: i64) -> std::result::Result<(), &'static str> {
        let now_s = now_us as f64 / 1e6;
        let is_ours = |audience: &Value| {
            audience.as_str().is_some_and(|audience| self.audiences.iter().any(|ours| ours == audience))
        };
        if claims.get("iss").and_then(Value::as_str) != Some(&self.issuer) {
            return Err("it is another issuer's");
        }
        let is_for_us = match claims.get("aud") {
            Some(Value::Array(all)) => all.iter().any(is_ours),
            Some(one) => is_ours(one),
            None => false,
        };
        if !is_for_us {
            return Err("it is for another audience");
        }
        let expires_s = claims.get("exp").and_then(Value::as_f64).ok_or("it does not say when it expires")?;
        if expires_s + LEEWAY_S <= now_s {
            return Err("it has expired");
        }
        match claims.get("nbf").map(Value::as_f64) {
            None => Ok(()),
            Some(Some(from_s)) if from_s - LEEWAY_S <= now_s => Ok(()),
            Some(_) => Err("it is not valid yet"),
        }
    }
}

/// A token whose signature is still to be verified.
struct Signed {
    algorithm: String,
    key_id: Option<String>,
    /// What is signed.
    message: String,
    payload: Vec<u8>,
    signature: Vec<u8>,
}

impl Signed {
    fn parse(token: &str) -> std::result::Result<Signed, &'static str> {
        const SHAPE: &str = "it is not a signed JSON web token";
        let decode = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| SHAPE);
        let (message, signature) = token.rsplit_once('.').ok_or(SHAPE)?;
        let (header, payload) = message.split_once('.').ok_or(SHAPE)?;
        let (header, payload, signature) = (decode(header)?, decode(payload)?, decode(signature)?);
        let header: Map<String, Value> = serde_json::from_slice(&header).map_err(|_| SHAPE)?;
        let text = |name: &str| header.get(name).and_then(Value::as_str);
        let algorithm = text("alg").filter(|algorithm| ALGORITHMS.contains(algorithm));
        let algorithm = algorithm.ok_or("its algorithm is not one of public keys")?.to_owned();
        if header.contains_key("crit") {
            return Err("it needs an extension");
        }
        // Tokens that are made for other purposes are no credentials.
        let kind = header.get("typ").map(|kind| kind.as_str().unwrap_or("?").to_ascii_lowercase());
        let kind = kind.as_deref().map(|kind| kind.strip_prefix("application/").unwrap_or(kind));
        if !matches!(kind, None | Some("jwt" | "at+jwt")) {
            return Err("it is of another type");
        }
        let key_id = match header.get("kid") {
            None => None,
            Some(Value::String(id)) => Some(id.clone()),
            Some(_) => return Err(SHAPE),
        };
        Ok(Signed { algorithm, key_id, message: message.to_owned(), payload, signature })
    }

    fn claims(&self) -> std::result::Result<Map<String, Value>, &'static str> {
        serde_json::from_slice(&self.payload).map_err(|_| "its claims are not a JSON object")
    }
}

/// Whether this can be shown as a user's name.
fn is_name(text: &str) -> bool {
    (1..=USER_BYTES_MAX).contains(&text.len()) && !text.contains(char::is_control)
}

/// A URL from which keys can be read: nobody between us and the issuer can put others in their place.
fn safe(text: &str, option: &str) -> frostline_base::Result<Url> {
    let wrong = |what: &str| Error::invalid(format!("{option} {text} {what}"));
    let url = Url::parse(text).map_err(|e| wrong("is not a URL").with_source(e))?;
    let is_local = match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match (url.scheme(), is_local) {
        ("https", _) | ("http", true) => Ok(url),
        _ => Err(wrong("is not https: whoever is on the way could let anybody in")),
    }
}

#[cfg(test)]
mod tests;
