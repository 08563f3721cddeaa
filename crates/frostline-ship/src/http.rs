//! Requests to a server over HTTP.

use std::error::Error as StdError;
use std::fmt;
use std::io::ErrorKind::InvalidData;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use frostline_base::{Error, Result, chain};
pub use reqwest::Method;
use reqwest::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, WARNING,
};
use tokio::runtime::Handle;
use url::Url;

const CONNECT: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(120);
/// Answers are short; what is longer is none of this protocol.
const REPLY_BYTES_MAX: usize = 64 << 20;
/// Why there is no answer where it is longer.
pub const TOO_LONG: &str = "the answer has more than 64 MiB";

/// Where a server is, and how it is spoken to.
#[derive(Clone, Debug)]
pub struct Access {
    /// `http://` or `https://`, perhaps with a path.
    pub url: String,
    /// Who asks.
    pub credentials: Option<Credentials>,
    /// CA certificates in PEM to trust for the server, beside those of the system.
    pub ca: Option<PathBuf>,
}

/// Who asks. No log shows it.
#[derive(Clone)]
pub enum Credentials {
    /// An API key as the server printed it.
    ApiKey(String),
    /// A user and the password.
    Basic(String, String),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(…)")
    }
}

/// What is posted.
#[derive(Clone, Debug)]
pub struct Request {
    /// Appended to the server's URL.
    pub path: String,
    /// The media type of the body.
    pub content_type: &'static str,
    /// A header more.
    pub header: Option<(&'static str, String)>,
    /// The body, before it is compressed.
    pub body: Vec<u8>,
}

/// What a server answered.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// How long to wait before the next request.
    pub retry_after: Option<Duration>,
    /// What the server says beside it, of `Warning` headers.
    pub warnings: Vec<String>,
    /// The body.
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoAnswer {
    /// What happened, on one line.
    pub why: String,
    /// What to do where trying again does not help.
    pub lasting: Option<&'static str>,
}

impl From<String> for NoAnswer {
    fn from(why: String) -> NoAnswer {
        NoAnswer { why, lasting: None }
    }
}

impl NoAnswer {
    fn of(error: reqwest::Error) -> NoAnswer {
        let error = error.without_url();
        let mut causes = std::iter::successors(Some(&error as &(dyn StdError + 'static)), |e| (*e).source());
        let lasting = causes.find_map(|cause| {
            let is_tls = cause.downcast_ref::<std::io::Error>().is_some_and(is_of_tls);
            let is_http = cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse);
            match (is_tls, is_http) {
                (true, _) if chain(cause).contains("CaUsedAsEndEntity") => Some(CA_TRUE),
                (true, _) => Some(TLS),
                (_, true) => Some(NO_HTTP),
                _ => None,
            }
        });
        NoAnswer { why: chain(&error), lasting }
    }
}

/// What goes wrong with TLS, other than a lost connection, has a kind of its own, perhaps inside of another error.
fn is_of_tls(error: &std::io::Error) -> bool {
    let inside = error.get_ref().and_then(|inside| inside.downcast_ref::<std::io::Error>());
    error.kind() == InvalidData || inside.is_some_and(is_of_tls)
}

const TLS: &str = "look whether this port speaks TLS (else write http://) and the certificate is for this name and valid; \
                   if an authority of your own signed it, name that with --ca FILE";
const CA_TRUE: &str = "the server's certificate is one of an authority (CA:TRUE), as openssl req -x509 makes it: make \
                       one with -addext basicConstraints=critical,CA:FALSE";
const NO_HTTP: &str =
    "this port does not speak HTTP: write https:// if it speaks TLS, else name another port";

/// Posts requests. It blocks: not for a thread of the runtime.
pub trait Post: Send + Sync {
    /// The answer, or why there is none.
    fn post(&self, request: &Request) -> std::result::Result<Reply, NoAnswer>;
}

/// A server.
pub struct Http {
    client: reqwest::Client,
    url: Url,
    runtime: Handle,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

impl Http {
    /// The server that `access` names. `Invalid` where that cannot be one.
    pub fn new(access: &Access) -> Result<Http> {
        let url = parse(&access.url)?;
        let mut headers = HeaderMap::new();
        if let Some(credentials) = &access.credentials {
            let text = match credentials {
                Credentials::ApiKey(key) => format!("ApiKey {key}"),
                Credentials::Basic(user, password) => {
                    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
                }
            };
            let value = HeaderValue::from_str(&text);
            let mut value =
                value.map_err(|_| Error::invalid("the API key has characters that no key can have"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let mut client = reqwest::Client::builder()
            .user_agent(concat!("frostline/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .timeout(ANSWER);
        if let Some(path) = &access.ca {
            let cannot =
                |why: &str| Error::invalid(format!("cannot use the certificates of {}{why}", path.display()));
            let pem = std::fs::read(path).map_err(|error| cannot("").with_source(error))?;
            let certificates = reqwest::Certificate::from_pem_bundle(&pem);
            let certificates = certificates.map_err(|error| cannot("").with_source(error))?;
            if certificates.is_empty() {
                return Err(cannot(": there are none in it"));
            }
            for certificate in certificates {
                client = client.add_root_certificate(certificate);
            }
        }
        let client =
            client.build().map_err(|error| Error::invalid("cannot speak HTTP").with_source(error))?;
        Ok(Http { client, url, runtime: Handle::current() })
    }

    /// The answer to what is posted, or asked in another way, or why there is none.
    pub async fn send(&self, method: Method, request: &Request) -> std::result::Result<Reply, NoAnswer> {
        let mut url = self.url.clone();
        let path = format!("{}{}", url.path().trim_end_matches('/'), request.path);
        match path.split_once('?') {
            Some((path, query)) => {
                url.set_path(path);
                url.set_query(Some(query));
            }
            None => url.set_path(&path),
        }
        let mut post = self.client.request(method, url);
        if let Some((name, value)) = &request.header {
            let value = HeaderValue::from_str(value).map_err(|error| error.to_string())?;
            post = post.header(HeaderName::from_static(name), value);
        }
        if !request.body.is_empty() {
            let body = packed(&request.body).map_err(|error| error.to_string())?;
            post = post.header(CONTENT_TYPE, request.content_type).header(CONTENT_ENCODING, "gzip");
            post = post.body(Bytes::from(body));
        }
        let sent = post.send().await;
        let mut answer = sent.map_err(NoAnswer::of)?;
        let seconds =
            answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let mut reply = Reply {
            status: answer.status().as_u16(),
            retry_after: seconds.map(Duration::from_secs),
            warnings: answer.headers().get_all(WARNING).iter().filter_map(warning).collect(),
            body: Vec::new(),
        };
        while let Some(bytes) = answer.chunk().await.map_err(NoAnswer::of)? {
            if reply.body.len() + bytes.len() > REPLY_BYTES_MAX {
                return Err(TOO_LONG.to_owned().into());
            }
            reply.body.extend_from_slice(&bytes);
        }
        Ok(reply)
    }
}

impl Post for Http {
    fn post(&self, request: &Request) -> std::result::Result<Reply, NoAnswer> {
        self.runtime.block_on(self.send(Method::POST, request))
    }
}

/// The URL of a server.
pub(crate) fn parse(text: &str) -> Result<Url> {
    let wrong = |why: &str| Error::invalid(format!("{why}: write http://HOST:PORT or https://HOST:PORT"));
    // An error never repeats the text: it may hold a password.
    let url = Url::parse(text).map_err(|error| wrong("the server is not a URL").with_source(error))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("the server is not an HTTP URL"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::invalid("the URL of the server has a user or a password: give them as options"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("the URL of the server has a query or a fragment"));
    }
    Ok(url)
}

/// The text of a header such as `299 Frostline "text"`.
fn warning(value: &HeaderValue) -> Option<String> {
    let (_, text) = value.to_str().ok()?.split_once('"')?;
    Some(text.rsplit_once('"')?.0.to_owned())
}

fn packed(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    packer.write_all(body)?;
    packer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_without_secrets_name_servers() {
        assert_eq!(parse("https://logs.example:9200/es").unwrap().path(), "/es");
        for (wrong, why) in [
            ("logs:9200", "is not an HTTP URL"),
            ("", "is not a URL"),
            ("ftp://a", "is not an HTTP URL"),
            ("http://u:secret@a", "has a user or a password"),
            ("http://a/?x=1", "has a query"),
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(error.what().contains(why) && !error.what().contains("secret"), "{wrong}: {error}");
        }
    }

    /// What a server that says this, whatever it is sent, is taken for.
    async fn answered_with(scheme: &str, says: &'static [u8]) -> NoAnswer {
        use std::io::Read as _;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            stream.write_all(says).unwrap();
        });
        let http = Http::new(&Access { url, credentials: None, ca: None }).unwrap();
        let request =
            Request { path: "/".to_owned(), content_type: "text/plain", header: None, body: Vec::new() };
        let answer = http.send(Method::POST, &request).await.unwrap_err();
        server.join().unwrap();
        answer
    }

    #[tokio::test]
    async fn what_trying_again_does_not_mend_says_what_to_do() {
        let plain = answered_with("https", b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        assert_eq!(plain.lasting, Some(TLS), "{plain:?}");
        let no_http = answered_with("http", &[0x15, 3, 3, 0, 2, 2, 70]).await;
        assert_eq!(no_http.lasting, Some(NO_HTTP), "{no_http:?}");
        let cut = answered_with("http", b"").await;
        assert_eq!(cut.lasting, None, "{cut:?}");
    }

    #[test]
    fn no_log_shows_credentials() {
        let all = [Credentials::ApiKey("secret".into()), Credentials::Basic("u".into(), "secret".into())];
        assert!(!format!("{all:?}").contains("secret"));
    }
}
