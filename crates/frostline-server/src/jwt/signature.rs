//! Public keys of an issuer (RFC 7517), and signatures by them (RFC 7518).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use frostline_base::{Error, Result};
use ring::signature::{
    self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;
use serde_json::Value;

/// The algorithms of signatures that count. None has a secret that verifies what it signs.
pub(super) const ALGORITHMS: [&str; 10] =
    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA", "Ed25519"];

/// A key that verifies signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) id: Option<String>,
    /// The only algorithm that it is for.
    algorithm: Option<String>,
    public: Public,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Public {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl Key {
    /// Whether signatures of this algorithm may be by it.
    pub(super) fn is_for(&self, algorithm: &str) -> bool {
        let suits = match &self.public {
            Public::Rsa { .. } => algorithm.starts_with("RS") || algorithm.starts_with("PS"),
            Public::P256(_) => algorithm == "ES256",
            Public::P384(_) => algorithm == "ES384",
            Public::Ed25519(_) => matches!(algorithm, "EdDSA" | "Ed25519"),
        };
        suits && self.algorithm.as_deref().is_none_or(|only| only == algorithm)
    }

    pub(super) fn verifies(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
        if !self.is_for(algorithm) {
            return false;
        }
        let by = |algorithm: &'static dyn VerificationAlgorithm, key: &Vec<u8>| {
            UnparsedPublicKey::new(algorithm, key).verify(message, signature).is_ok()
        };
        match &self.public {
            Public::Rsa { modulus, exponent } => rsa(algorithm).is_some_and(|parameters| {
                RsaPublicKeyComponents { n: modulus, e: exponent }
                    .verify(parameters, message, signature)
                    .is_ok()
            }),
            Public::P256(point) => by(&signature::ECDSA_P256_SHA256_FIXED, point),
            Public::P384(point) => by(&signature::ECDSA_P384_SHA384_FIXED, point),
            Public::Ed25519(point) => by(&signature::ED25519, point),
        }
    }
}

/// With them keys of less than 2,048 bits verify nothing.
fn rsa(algorithm: &str) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
        "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
        "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
        "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
        "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
        "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

/// A key, as its issuer writes it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Written {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    crv: String,
    n: String,
    e: String,
    x: String,
    y: String,
}

impl Written {
    /// The key; none where it is for something else.
    fn key(self) -> Option<Key> {
        if self.usage.is_some_and(|usage| usage != "sig") {
            return None;
        }
        let decode = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).ok().filter(|bytes| !bytes.is_empty());
        let point = |bytes: usize| {
            let (x, y) = (decode(&self.x)?, decode(&self.y)?);
            (x.len() == bytes && y.len() == bytes).then(|| [vec![4], x, y].concat())
        };
        let public = match (self.kty.as_str(), self.crv.as_str()) {
            ("RSA", _) => Public::Rsa { modulus: decode(&self.n)?, exponent: decode(&self.e)? },
            ("EC", "P-256") => Public::P256(point(32)?),
            ("EC", "P-384") => Public::P384(point(48)?),
            ("OKP", "Ed25519") => Public::Ed25519(decode(&self.x)?),
            _ => return None,
        };
        Some(Key { id: self.kid, algorithm: self.alg, public })
    }
}

/// The keys of a key set. Those that are not for signatures, or of a kind that is not known, are left out.
pub(super) fn parse(set: &[u8]) -> Result<Vec<Key>> {
    #[derive(Deserialize)]
    struct Set {
        keys: Vec<Value>,
    }
    let set: Set = serde_json::from_slice(set)
        .map_err(|e| Error::invalid("the keys of the issuer are not a JSON web key set").with_source(e))?;
    let keys = set.keys.into_iter().filter_map(|key| Written::deserialize(key).ok()?.key());
    let keys: Vec<Key> = keys.collect();
    match keys.is_empty() {
        true => Err(Error::invalid("the issuer has no RSA, EC or Ed25519 key for signatures")),
        false => Ok(keys),
    }
}
