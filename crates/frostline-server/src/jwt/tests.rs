use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::Request;
use http_body_util::Full;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, RSA_PKCS1_SHA256, RSA_PSS_SHA512, RsaKeyPair,
};
use ring::{hmac, signature::EcdsaSigningAlgorithm};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::settings::Settings;
use crate::testing::{NOW_US, Tested};

const ISSUER: &str = "https://issuer.example/realm";
const NOW_S: i64 = NOW_US / 1_000_000;

fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// A private key of a test.
enum Private {
    Ecdsa(EcdsaKeyPair, &'static str),
    Ed25519(Ed25519KeyPair),
    Rsa(Box<RsaKeyPair>),
}

impl Private {
    fn ecdsa(algorithm: &'static EcdsaSigningAlgorithm, curve: &'static str) -> Private {
        let made = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new()).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, made.as_ref(), &SystemRandom::new());
        Private::Ecdsa(pair.unwrap(), curve)
    }

    fn p256() -> Private {
        Private::ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING, "P-256")
    }

    fn ed25519() -> Private {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Private::Ed25519(Ed25519KeyPair::from_pkcs8(made.as_ref()).unwrap())
    }

    /// Of this test alone.
    fn rsa() -> Private {
        Private::Rsa(Box::new(RsaKeyPair::from_der(include_bytes!("testdata/rsa_key.der")).unwrap()))
    }

    fn public(&self, id: &str) -> Value {
        match self {
            Private::Ecdsa(pair, curve) => {
                let point = &pair.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                json!({ "kty": "EC", "crv": curve, "x": encode(x), "y": encode(y), "kid": id, "use": "sig" })
            }
            Private::Ed25519(pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": encode(pair.public_key().as_ref()), "kid": id })
            }
            Private::Rsa(pair) => {
                let public: RsaPublicKeyComponents<Vec<u8>> = pair.public_key().into();
                json!({ "kty": "RSA", "n": encode(public.n), "e": encode(public.e), "kid": id })
            }
        }
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let (random, bytes) = (SystemRandom::new(), message.as_bytes());
        let signature = match self {
            Private::Ecdsa(pair, _) => pair.sign(&random, bytes).unwrap().as_ref().to_vec(),
            Private::Ed25519(pair) => pair.sign(bytes).as_ref().to_vec(),
            Private::Rsa(pair) => {
                let padding: &'static dyn ring::signature::RsaEncoding = match header["alg"].as_str() {
                    Some("PS512") => &RSA_PSS_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(padding, &random, bytes, &mut signature).unwrap();
                signature
            }
        };
        format!("{message}.{}", encode(signature))
    }
}

use ring::signature::RsaPublicKeyComponents;

fn claims() -> Value {
    json!({
        "iss": ISSUER, "aud": ["other", "logs"], "sub": "ada", "exp": NOW_S + 300, "nbf": NOW_S - 5,
        "groups": ["sre", "everybody"], "scope": "openid logs:read", "realm_access": { "roles": ["auditor"] },
    })
}

fn settings(jwks: &str) -> JwtSettings {
    JwtSettings {
        issuer: ISSUER.to_owned(),
        audiences: vec!["logs".to_owned()],
        jwks: Some(jwks.to_owned()),
        user_claim: "sub".to_owned(),
        roles: vec!["groups=sre: read on web*".to_owned(), "groups=admins: superuser".to_owned()],
    }
}

/// What knows users by the keys in a file.
async fn of_keys(keys: &[Value]) -> (Jwt, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), json!({ "keys": keys }).to_string()).unwrap();
    let jwt = Jwt::new(&settings(&file.path().display().to_string())).unwrap();
    jwt.load(NOW_US).await.unwrap();
    (jwt, file)
}

async fn refused(jwt: &Jwt, token: &str) -> String {
    let error = jwt.client(token, NOW_US).await.expect_err(token);
    assert_eq!(error.status, 401, "{token}");
    error.reason.split_once(": ").map_or(error.reason.clone(), |(_, why)| why.to_owned())
}

#[tokio::test]
async fn a_token_of_each_kind_of_key_lets_its_user_in() {
    let pairs = [
        ("RS256", Private::rsa()),
        ("PS512", Private::rsa()),
        ("ES256", Private::p256()),
        ("ES384", Private::ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING, "P-384")),
        ("EdDSA", Private::ed25519()),
    ];
    let public: Vec<Value> = pairs.iter().map(|(algorithm, pair)| pair.public(algorithm)).collect();
    let (jwt, _file) = of_keys(&public).await;
    for (algorithm, pair) in &pairs {
        for kind in [json!("JWT"), json!("at+jwt"), json!("application/at+JWT")] {
            let token = pair.sign(&json!({ "alg": algorithm, "kid": algorithm, "typ": kind }), &claims());
            let client = jwt.client(&token, NOW_US).await.unwrap();
            assert_eq!((client.user.as_str(), client.realm), ("ada", Realm::Jwt), "{algorithm}");
            assert_eq!(client.roles, ["groups=sre"]);
            assert!(!client.scope.is_all());
        }
        // By the key of another kind of signature.
        let other = if *algorithm == "EdDSA" { "ES256" } else { "EdDSA" };
        let crossed = pair.sign(&json!({ "alg": algorithm, "kid": other }), &claims());
        assert_eq!(refused(&jwt, &crossed).await, "its key is not one of the issuer's");
    }
}

#[tokio::test]
async fn tokens_that_are_not_the_issuers_let_nobody_in() {
    let (ours, theirs, rsa) = (Private::p256(), Private::p256(), Private::rsa());
    let secret = json!({ "kty": "oct", "k": encode("secret"), "kid": "oct" });
    let for_other = json!({ "kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "short" });
    let (jwt, _file) = of_keys(&[ours.public("a"), rsa.public("r"), secret, for_other]).await;
    let header = json!({ "alg": "ES256", "kid": "a" });
    let good = ours.sign(&header, &claims());
    jwt.client(&good, NOW_US).await.unwrap();

    let (message, signature) = good.rsplit_once('.').unwrap();
    let payload = message.split_once('.').unwrap().1;
    let none = |algorithm: &str| format!("{}.{payload}.", encode(json!({ "alg": algorithm }).to_string()));
    for algorithm in ["none", "None", "nOnE", ""] {
        assert_eq!(refused(&jwt, &none(algorithm)).await, "its algorithm is not one of public keys");
    }
    // The public key, which everybody knows, as if it were the secret.
    for (algorithm, secret) in [
        ("HS256", rsa.public("r").to_string()),
        ("HS256", rsa.public("r")["n"].as_str().unwrap().to_owned()),
        ("HS512", "secret".to_owned()),
    ] {
        for id in ["r", "oct"] {
            let head = encode(json!({ "alg": algorithm, "kid": id }).to_string());
            let message = format!("{head}.{payload}");
            let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), message.as_bytes());
            let forged = format!("{message}.{}", encode(tag.as_ref()));
            assert_eq!(refused(&jwt, &forged).await, "its algorithm is not one of public keys");
        }
    }
    let not_ours = "its signature is not the issuer's";
    assert_eq!(refused(&jwt, &theirs.sign(&header, &claims())).await, not_ours);
    let own_key =
        json!({ "alg": "ES256", "kid": "a", "jwk": theirs.public("a"), "jku": "https://evil.example" });
    assert_eq!(refused(&jwt, &theirs.sign(&own_key, &claims())).await, not_ours);
    let mut more = claims();
    more["groups"] = json!(["admins"]);
    let swapped = format!("{}.{}.{signature}", encode(header.to_string()), encode(more.to_string()));
    assert_eq!(refused(&jwt, &swapped).await, not_ours);
    assert_eq!(refused(&jwt, &format!("{message}.")).await, not_ours);
    assert_eq!(refused(&jwt, &format!("{message}.{}", encode([0; 64]))).await, not_ours);

    let unknown = "its key is not one of the issuer's";
    for id in ["b", "", "short", "../a"] {
        let token = ours.sign(&json!({ "alg": "ES256", "kid": id }), &claims());
        assert_eq!(refused(&jwt, &token).await, unknown, "{id}");
    }
    assert_eq!(refused(&jwt, &ours.sign(&json!({ "alg": "ES256" }), &claims())).await, unknown);
    let shape = "it is not a signed JSON web token";
    assert_eq!(refused(&jwt, &ours.sign(&json!({ "alg": "ES256", "kid": 7 }), &claims())).await, shape);
    let critical = json!({ "alg": "ES256", "kid": "a", "crit": ["b64"], "b64": false });
    assert_eq!(refused(&jwt, &ours.sign(&critical, &claims())).await, "it needs an extension");
    for kind in [json!("logout+jwt"), json!("JOSE"), json!(1)] {
        let token = ours.sign(&json!({ "alg": "ES256", "kid": "a", "typ": kind }), &claims());
        assert_eq!(refused(&jwt, &token).await, "it is of another type");
    }
    for broken in
        ["", ".", "..", "a.b.c", "e30.e30", "e30.e30.e30.e30", &format!("{good}="), &format!("{good}.x")]
    {
        jwt.client(broken, NOW_US).await.expect_err(broken);
    }
    let huge = ours.sign(&header, &json!({ "pad": "x".repeat(TOKEN_BYTES_MAX) }));
    assert_eq!(refused(&jwt, &huge).await, "it is too long");
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    assert_eq!(refused(&jwt, &format!("{}.{payload}.AA", encode(deep))).await, shape);
}

#[tokio::test]
async fn claims_say_for_whom_and_when() {
    let pair = Private::p256();
    // Without an id the only key is meant.
    let (jwt, _file) = of_keys(&[pair.public("a")]).await;
    let why = async |name: &str, value: Value| {
        let mut claims = claims();
        match value.is_null() {
            true => claims.as_object_mut().unwrap().remove(name),
            false => claims.as_object_mut().unwrap().insert(name.to_owned(), value),
        };
        let token = pair.sign(&json!({ "alg": "ES256" }), &claims);
        match jwt.client(&token, NOW_US).await {
            Ok(_) => String::new(),
            Err(error) => error.reason.split_once(": ").unwrap().1.to_owned(),
        }
    };
    for other in [json!(null), json!("https://issuer.example/realm/"), json!([ISSUER])] {
        assert_eq!(why("iss", other).await, "it is another issuer's");
    }
    for other in [json!(null), json!("log"), json!([]), json!(["logs "]), json!({ "logs": 1 })] {
        assert_eq!(why("aud", other).await, "it is for another audience");
    }
    assert_eq!(why("aud", json!("logs")).await, "");
    for missing in [json!(null), json!("9999999999"), json!([1])] {
        assert_eq!(why("exp", missing).await, "it does not say when it expires");
    }
    for (exp, is_valid) in [(NOW_S - 59, true), (NOW_S - 60, false), (-1, false)] {
        assert_eq!(why("exp", json!(exp)).await.is_empty(), is_valid, "{exp}");
    }
    for (nbf, is_valid) in
        [(json!(NOW_S + 60), true), (json!(NOW_S + 61), false), (json!("0"), false), (json!(1e300), false)]
    {
        assert_eq!(why("nbf", nbf.clone()).await.is_empty(), is_valid, "{nbf}");
    }
    for name in [json!(null), json!(""), json!(7), json!("a\nb"), json!("x".repeat(300))] {
        assert_eq!(why("sub", name).await, "it does not name its user");
    }
}

#[test]
fn rules_say_what_claims_allow() {
    let claims = claims();
    let claims = claims.as_object().unwrap();
    for (rule, applies) in [
        ("groups=sre: read on web", true),
        ("groups=sr: read on web", false),
        ("sub=ada: viewer", true),
        ("scope=logs:read: viewer", true),
        ("scope=logs: viewer", false),
        ("realm_access.roles=auditor: viewer", true),
        ("realm_access.roles.x=auditor: viewer", false),
        ("exp=1: viewer", false),
    ] {
        assert_eq!(Rule::parse(rule).unwrap().applies(claims), applies, "{rule}");
    }
    let rule = Rule::parse("groups=a b: read write create_doc on logs-* web").unwrap();
    let privileges =
        vec![crate::scope::Privilege::Read, crate::scope::Privilege::Write, crate::scope::Privilege::Edit];
    assert_eq!(
        rule.grant(),
        Some(&Grant { names: vec!["logs-*".to_owned(), "web".to_owned()], privileges, fields: None })
    );
    assert_eq!(rule.role(), "groups=a b");
    assert_eq!(Rule::parse("groups=root: superuser").unwrap().grant(), None);
    for wrong in [
        "",
        "groups",
        "groups=sre",
        "=sre: viewer",
        "groups=: viewer",
        "groups=sre: king",
        "groups=sre: on web",
        "groups=sre: read on",
        "groups=sre: fly on web",
        "groups=sre: viewer editor",
    ] {
        let error = Rule::parse(wrong).expect_err(wrong).to_string();
        assert!(error.contains("--jwt-role"), "{error}");
    }
}

/// An issuer on this machine.
struct Served {
    address: SocketAddr,
    keys: Mutex<Vec<Value>>,
    asked: AtomicUsize,
    fails: AtomicBool,
}

use parking_lot::Mutex;

impl Served {
    async fn start() -> Arc<Served> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served =
            Arc::new(Served { address, keys: Mutex::default(), asked: 0.into(), fails: false.into() });
        let serving = Arc::clone(&served);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    request.push(stream.read_u8().await.unwrap());
                }
                let answer = serving.answer(&String::from_utf8(request).unwrap());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        served
    }

    fn issuer(&self) -> String {
        format!("http://{}/realm/", self.address)
    }

    fn answer(&self, request: &str) -> String {
        let (status, body) = match request.split(' ').nth(1).unwrap() {
            _ if self.fails.load(Ordering::Relaxed) => ("500 Broken", json!(null)),
            "/realm/.well-known/openid-configuration" => {
                let keys = format!("http://{}/keys", self.address);
                ("200 OK", json!({ "issuer": self.issuer(), "jwks_uri": keys }))
            }
            "/keys" => {
                self.asked.fetch_add(1, Ordering::Relaxed);
                ("200 OK", json!({ "keys": *self.keys.lock() }))
            }
            _ => ("404 Not Found", json!(null)),
        };
        let body = body.to_string();
        let length = body.len();
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn keys_are_found_by_discovery_and_read_again_when_they_change() {
    let served = Served::start().await;
    let (old, new) = (Private::p256(), Private::ed25519());
    *served.keys.lock() = vec![old.public("old")];
    let jwt = JwtSettings { issuer: served.issuer(), jwks: None, ..settings("") };
    let jwt = Jwt::new(&jwt).unwrap();
    let mut claims = claims();
    claims["iss"] = json!(served.issuer());
    claims["exp"] = json!(NOW_S * 2);
    let by_old = old.sign(&json!({ "alg": "ES256", "kid": "old" }), &claims);
    let by_new = new.sign(&json!({ "alg": "EdDSA", "kid": "new" }), &claims);
    let status = async |token: &str, after_s: i64| match jwt.client(token, NOW_US + after_s * 1_000_000).await
    {
        Ok(_) => 200,
        Err(error) => error.status.as_u16(),
    };
    // An issuer that does not answer opens no door, and is not asked by every request.
    served.fails.store(true, Ordering::Relaxed);
    jwt.load(NOW_US).await.unwrap();
    assert_eq!((status(&by_old, 1).await, served.asked()), (503, 0));
    served.fails.store(false, Ordering::Relaxed);
    assert_eq!((status(&by_old, 9).await, served.asked()), (503, 0));
    assert_eq!((status(&by_old, 10).await, served.asked()), (200, 1));
    // A key that is not known makes it look again, and not more often than once in ten seconds.
    assert_eq!((status(&by_new, 19).await, served.asked()), (401, 1));
    served.keys.lock().push(new.public("new"));
    assert_eq!((status(&by_new, 20).await, served.asked()), (200, 2));
    for _ in 0..20 {
        assert_eq!(status(&by_old.replace("eyJ", "eyK"), 25).await, 401);
    }
    assert_eq!(served.asked(), 2);
    // Later it looks again beside the requests: a key that was taken away ends.
    served.keys.lock().remove(0);
    assert_eq!(status(&by_old, 20 + 300).await, 200);
    while served.asked() < 3 || status(&by_old, 20 + 301).await == 200 {
        tokio::task::yield_now().await;
    }
    // Where the issuer is away, what is known counts for a day.
    served.fails.store(true, Ordering::Relaxed);
    assert_eq!(status(&by_new, 86_000).await, 200);
    assert_eq!(status(&by_old, 86_000).await, 401);
    assert_eq!(status(&by_new, 90_000).await, 503);
}

#[tokio::test]
async fn descriptions_of_other_issuers_are_refused() {
    let served = Served::start().await;
    *served.keys.lock() = vec![Private::p256().public("a")];
    // The same place by another name.
    let issuer = served.issuer().trim_end_matches('/').to_owned();
    let jwt = Jwt::new(&JwtSettings { issuer, jwks: None, ..settings("") }).unwrap();
    let error = jwt.load(NOW_US).await.unwrap_err();
    assert!(error.to_string().contains("is not the description of the issuer"), "{error}");
    // Keys come by a way on which nobody can exchange them.
    for url in ["http://issuer.example/keys", "http://127.0.0.1.evil.example/", "ftp://127.0.0.1/keys"] {
        assert!(Jwt::new(&settings(url)).err().unwrap().to_string().contains("is not https"), "{url}");
    }
    let (keys, none) = (settings("http://[::1]:1/keys"), settings("/nowhere/keys.json"));
    assert!(Jwt::new(&keys).is_ok());
    assert!(Jwt::new(&none).unwrap().load(NOW_US).await.is_err());
    assert!(Jwt::new(&JwtSettings { audiences: Vec::new(), ..keys.clone() }).is_err());
    assert!(Jwt::new(&JwtSettings { roles: Vec::new(), ..keys }).is_err());
}

#[tokio::test]
async fn a_user_of_the_issuer_reads_what_its_claims_allow() {
    let pair = Private::p256();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), json!({ "keys": [pair.public("a")] }).to_string()).unwrap();
    let jwt = Some(settings(&file.path().display().to_string()));
    let tested = Tested::with(Settings { auth: true, jwt, ..Settings::default() });
    tested.ingest("web", 60).await;
    tested.ingest("app", 30).await;
    let send = async |token: &str, uri: &str| {
        let request = Request::builder().uri(uri).header("authorization", format!("Bearer {token}"));
        tested.request(request.body(Full::from("")).unwrap()).await
    };
    let header = json!({ "alg": "ES256", "kid": "a" });
    let token = |groups: Value| {
        let mut claims = claims();
        claims["groups"] = groups;
        pair.sign(&header, &claims)
    };
    let sre = token(json!(["sre"]));
    assert_eq!(send(&sre, "/_count").await.json()["count"], 60);
    assert_eq!(send(&sre, "/app/_count").await.status, 403);
    assert_eq!(send(&sre, "/_cat/nodes").await.status, 403);
    let about = send(&sre, "/_security/_authenticate").await.json();
    assert_eq!(about["username"], "ada");
    assert_eq!(about["roles"], json!(["groups=sre"]));
    assert_eq!(about["authentication_realm"]["type"], "jwt");
    // What allows everything does so beside other roles, and who has no role may do nothing.
    assert_eq!(send(&token(json!(["sre", "admins"])), "/_cat/nodes").await.status, 200);
    let nobody = token(json!(["guests"]));
    assert_eq!(send(&nobody, "/web/_count").await.status, 403);
    assert_eq!(send(&nobody, "/_count").await.json()["count"], 0);
    let forged = Private::p256().sign(&header, &claims());
    let refused = send(&forged, "/web/_count").await;
    assert_eq!(refused.status, 401);
    let ways: Vec<_> = refused.headers.get_all("www-authenticate").iter().collect();
    assert!(ways.contains(&&http::HeaderValue::from_static("Bearer realm=\"security\"")), "{ways:?}");
}
