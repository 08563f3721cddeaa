//! Media types: what a client sends and what it wants to be sent.

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName};
use http::{HeaderValue, StatusCode};

use crate::error::{ApiError, Result};
use crate::params::Params;

/// How Elasticsearch's clients call their versions of JSON.
const VENDOR: &str = "application/vnd.elasticsearch+";
/// Versions of the API whose clients are served.
const VERSIONS: [&str; 2] = ["8", "9"];

/// The form of an answer that is JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// Its media type.
    pub(crate) json: HeaderValue,
    /// Whether it is written as YAML instead.
    pub(crate) is_yaml: bool,
    /// The format that `Accept` names, where it names one alone.
    pub(crate) accepted: Option<&'static str>,
}

impl Default for Form {
    fn default() -> Form {
        Form { json: HeaderValue::from_static("application/json"), is_yaml: false, accepted: None }
    }
}

impl Form {
    /// What the URL or `Accept` ask for, or else the type of the body: a client gets the version of the API that it speaks.
    pub(crate) fn of(headers: &HeaderMap, params: &Params) -> Result<Form> {
        let mut asked = named(headers, ACCEPT)?;
        let accepted = asked.first().filter(|_| asked.len() == 1).and_then(Media::format);
        if asked.is_empty() {
            asked = named(headers, CONTENT_TYPE)?;
        }
        let mut form = None;
        for media in &asked {
            match media.version()? {
                Some(version) if media.name.ends_with("json") => {
                    let value = format!("{VENDOR}json;compatible-with={version}");
                    form = form.or(HeaderValue::from_str(&value).ok());
                }
                _ => {}
            }
        }
        let Form { json, .. } = Form::default();
        let is_yaml = params.get("format").or(accepted) == Some("yaml");
        Ok(Form { json: form.unwrap_or(json), is_yaml, accepted })
    }
}

/// Refuses a body whose type is not JSON, in one document or in lines.
pub(crate) fn check_body(headers: &HeaderMap) -> Result<()> {
    let sent = named(headers, CONTENT_TYPE)?;
    let Some(media) = sent.first() else {
        return Err(not_acceptable("Content-Type header is missing: send application/json".to_owned()));
    };
    let format = match media.version()? {
        Some(_) => media.name.strip_prefix(VENDOR),
        None => media.name.strip_prefix("application/"),
    };
    match format {
        Some("json" | "x-ndjson" | "x-json") => Ok(()),
        _ => Err(not_acceptable(format!("Content-Type header [{}] is not supported", media.name))),
    }
}

struct Media {
    name: String,
    /// What follows `compatible-with=`.
    compatible: Option<String>,
}

impl Media {
    /// The format that it is, of those that answers have.
    fn format(&self) -> Option<&'static str> {
        match self.name.as_str() {
            "application/yaml" | "application/x-yaml" | "text/yaml" => Some("yaml"),
            name if name.ends_with("json") => Some("json"),
            _ => None,
        }
    }

    /// The version of the API that a vendor's type names.
    fn version(&self) -> Result<Option<&str>> {
        if !self.name.starts_with(VENDOR) {
            return Ok(None);
        }
        match self.compatible.as_deref() {
            Some(version) if VERSIONS.contains(&version) => Ok(Some(version)),
            version => Err(ApiError::new(
                StatusCode::BAD_REQUEST,
                "media_type_header_exception",
                format!(
                    "A compatible version is required on Content-Type and Accept headers; [{}] has [{}], and 8 and 9 \
                     are served",
                    self.name,
                    version.unwrap_or_default()
                ),
            )),
        }
    }
}

/// The media types that a header lists.
fn named(headers: &HeaderMap, header: HeaderName) -> Result<Vec<Media>> {
    let mut all = Vec::new();
    for value in headers.get_all(&header) {
        let text =
            value.to_str().map_err(|_| ApiError::invalid(format!("the header {header} is not text")))?;
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let mut pieces = part.split(';').map(str::trim);
            let name = pieces.next().unwrap_or_default().to_ascii_lowercase();
            let compatible = pieces.find_map(|piece| {
                let (key, value) = piece.split_once('=')?;
                key.trim()
                    .eq_ignore_ascii_case("compatible-with")
                    .then(|| value.trim().trim_matches('"').to_owned())
            });
            all.push(Media { name, compatible });
        }
    }
    Ok(all)
}

fn not_acceptable(reason: String) -> ApiError {
    ApiError::new(StatusCode::NOT_ACCEPTABLE, "media_type_header_exception", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_client_is_answered_in_the_version_that_it_speaks() {
        let of = |headers: &HeaderMap| Form::of(headers, &Params::default());
        let form = |accept: &'static str| of(&headers(&[(ACCEPT, accept)])).map(|form| form.json);
        let vendor = "application/vnd.elasticsearch+json;compatible-with=9";
        assert_eq!(form("application/vnd.elasticsearch+json; compatible-with=9").unwrap(), vendor);
        assert_eq!(form("text/plain, application/vnd.elasticsearch+json;compatible-with=9").unwrap(), vendor);
        assert_eq!(form("*/*").unwrap(), "application/json");
        assert!(form("application/vnd.elasticsearch+json;compatible-with=7").is_err());
        assert!(form("application/vnd.elasticsearch+json").is_err());
        // Of the body, where nothing is asked for.
        let sent = "application/vnd.elasticsearch+x-ndjson;compatible-with=8";
        let form = of(&headers(&[(CONTENT_TYPE, sent)])).unwrap();
        assert_eq!(form.json, "application/vnd.elasticsearch+json;compatible-with=8");
        let form = |accept: &'static str, url: &str| {
            let form = Form::of(&headers(&[(ACCEPT, accept)]), &Params::parse(url)).unwrap();
            (form.accepted, form.is_yaml)
        };
        assert_eq!(form("application/yaml", ""), (Some("yaml"), true));
        assert_eq!(form("text/plain, application/json", ""), (None, false));
        assert_eq!(form("application/yaml", "format=json"), (Some("yaml"), false));
        assert_eq!(form("*/*", "format=yaml"), (None, true));
    }

    #[test]
    fn a_body_is_json_or_lines_of_it() {
        let status = |sent: &'static str| {
            check_body(&headers(&[(CONTENT_TYPE, sent)])).map_err(|error| error.status.as_u16())
        };
        for taken in [
            "application/json",
            "application/json; charset=utf-8",
            "application/x-ndjson",
            "application/vnd.elasticsearch+x-ndjson; compatible-with=8",
        ] {
            assert_eq!(status(taken), Ok(()), "{taken}");
        }
        assert_eq!(status("application/x-www-form-urlencoded"), Err(406));
        assert_eq!(status("application/cbor"), Err(406));
        assert_eq!(status("application/vnd.elasticsearch+cbor;compatible-with=8"), Err(406));
        assert!(check_body(&HeaderMap::new()).is_err());
    }
}
