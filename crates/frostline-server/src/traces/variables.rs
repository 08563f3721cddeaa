//! What the variables of OpenTelemetry ask for.

use std::time::Duration;

use frostline_base::{Error, Result};
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use url::Url;

use super::context::Sampler;
use super::wire::{Attribute, Value};

/// A variable of the environment.
pub(super) type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The path of a receiver, below the URL that is named for all signals.
const PATH: &str = "v1/traces";
const NO_URL: &str = "is the URL of a receiver of OTLP over HTTP, such as http://localhost:4318";

/// What is sent where.
pub(super) struct Asked {
    pub(super) receiver: Url,
    /// What the receiver asks for, such as a key.
    pub(super) headers: HeaderMap,
    /// What the spans are of.
    pub(super) resource: Vec<Attribute>,
    pub(super) sampler: Sampler,
    /// Spans that wait.
    pub(super) queue_max: usize,
    /// Spans of one request.
    pub(super) batch_max: usize,
    /// How long a span waits for others.
    pub(super) every: Duration,
    /// How long the receiver may take.
    pub(super) timeout: Duration,
}

impl Asked {
    /// None where nothing is to be sent.
    pub(super) fn read(
        endpoint: Option<&str>,
        version: &str,
        variable: Variable<'_>,
    ) -> Result<Option<Asked>> {
        let said = Said(variable);
        let Some(receiver) = said.receiver(endpoint)? else { return Ok(None) };
        said.check()?;
        let queue_max = said.number("OTEL_BSP_MAX_QUEUE_SIZE", 1..=1_000_000, 2_048)?;
        let batch_max = said.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 1..=10_000, 512)?;
        let every = said.number("OTEL_BSP_SCHEDULE_DELAY", 1..=3_600_000, 5_000)?;
        let timeout = match said.of_signal("TIMEOUT") {
            Some((name, _)) => said.number(&name, 1..=3_600_000, 10_000)?,
            None => 10_000,
        };
        Ok(Some(Asked {
            receiver,
            headers: said.headers()?,
            resource: said.resource(version)?,
            sampler: said.sampler()?,
            queue_max: queue_max as usize,
            batch_max: batch_max as usize,
            every: Duration::from_millis(every),
            timeout: Duration::from_millis(timeout),
        }))
    }
}

fn wrong(name: &str, what: &str) -> Error {
    Error::invalid(format!("{name} {what}"))
}

/// Variables; an empty one says nothing.
struct Said<'a>(Variable<'a>);

impl Said<'_> {
    fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    /// What is said of traces, or else of all signals, and by which variable.
    fn of_signal(&self, name: &str) -> Option<(String, String)> {
        ["OTEL_EXPORTER_OTLP_TRACES", "OTEL_EXPORTER_OTLP"].iter().find_map(|prefix| {
            let name = format!("{prefix}_{name}");
            self.get(&name).map(|value| (name, value))
        })
    }

    fn number(&self, name: &str, allowed: std::ops::RangeInclusive<u64>, default: u64) -> Result<u64> {
        let Some(text) = self.get(name) else { return Ok(default) };
        let number = text.parse().ok().filter(|number| allowed.contains(number));
        let (least, most) = (allowed.start(), allowed.end());
        number.ok_or_else(|| wrong(name, &format!("is a number from {least} to {most}, and not {text}")))
    }

    /// Where traces are sent.
    fn receiver(&self, endpoint: Option<&str>) -> Result<Option<Url>> {
        if self.get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        match self.get("OTEL_TRACES_EXPORTER").as_deref() {
            None | Some("otlp") => {}
            Some("none") => return Ok(None),
            Some(other) => {
                return Err(wrong("OTEL_TRACES_EXPORTER", &format!("is otlp or none, and not {other}")));
            }
        }
        let below = |name: &str, text: &str| {
            let mut url = parse(name, text)?;
            let path = format!("{}/{PATH}", url.path().trim_end_matches('/'));
            url.set_path(&path);
            Ok(Some(url))
        };
        match (endpoint, self.of_signal("ENDPOINT")) {
            (Some(text), _) => below("--traces", text),
            (None, Some((name, text))) if name.contains("_TRACES_") => parse(&name, &text).map(Some),
            (None, Some((name, text))) => below(&name, &text),
            (None, None) => Ok(None),
        }
    }

    /// Refuses what others can do and this cannot, rather than sending something else.
    fn check(&self) -> Result<()> {
        if let Some((name, protocol)) = self.of_signal("PROTOCOL").filter(|(_, said)| said != "http/protobuf")
        {
            let what = format!(
                "is http/protobuf, and not {protocol}: most receivers take that on port 4318, not 4317"
            );
            return Err(wrong(&name, &what));
        }
        if let Some((name, packing)) = self.of_signal("COMPRESSION").filter(|(_, said)| said != "none") {
            return Err(wrong(&name, &format!("is none, and not {packing}: traces are not packed")));
        }
        Ok(())
    }

    /// Pairs as in `a=1,b=2`, whose values may be percent-encoded.
    fn pairs(&self, name: &str, text: &str) -> Result<Vec<(String, String)>> {
        // What is wrong with it is not shown: it may be a secret.
        let wrong = || wrong(name, "is a list of pairs such as a=1,b=2");
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let pair = |part: &str| {
            let (key, value) = part.split_once('=').ok_or_else(wrong)?;
            let value = percent_decode_str(value.trim()).decode_utf8().map_err(|_| wrong())?;
            Ok((key.trim().to_owned(), value.into_owned()))
        };
        parts.map(pair).collect()
    }

    fn headers(&self) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        let Some((variable, text)) = self.of_signal("HEADERS") else { return Ok(headers) };
        for (name, value) in self.pairs(&variable, &text)? {
            let wrong = || wrong(&variable, "has a name or a value that is no header");
            let name = HeaderName::try_from(name).map_err(|_| wrong())?;
            let mut value = HeaderValue::try_from(value).map_err(|_| wrong())?;
            value.set_sensitive(true);
            headers.append(name, value);
        }
        Ok(headers)
    }

    /// What variables say, and else what is known.
    fn resource(&self, version: &str) -> Result<Vec<Attribute>> {
        const NAME: &str = "OTEL_RESOURCE_ATTRIBUTES";
        let mut all = match self.get(NAME) {
            Some(text) => self.pairs(NAME, &text)?,
            None => Vec::new(),
        };
        let mut put =
            |name: &str, value: String, replaces: bool| match all.iter_mut().find(|(key, _)| key == name) {
                Some((_, there)) if replaces => *there = value,
                Some(_) => {}
                None => all.push((name.to_owned(), value)),
            };
        match self.get("OTEL_SERVICE_NAME") {
            Some(name) => put("service.name", name, true),
            None => put("service.name", "frostline".to_owned(), false),
        }
        put("service.version", version.to_owned(), false);
        Ok(all.into_iter().map(|(key, value)| Attribute::new(key, Value::Text(value))).collect())
    }

    /// Without the variable the client decides, and all requests of clients that do not are sent.
    fn sampler(&self) -> Result<Sampler> {
        const NAME: &str = "OTEL_TRACES_SAMPLER";
        const ARGUMENT: &str = "OTEL_TRACES_SAMPLER_ARG";
        let name = self.get(NAME).unwrap_or_else(|| "parentbased_always_on".to_owned());
        let (follows, kind) = match name.strip_prefix("parentbased_") {
            Some(kind) => (true, kind),
            None => (false, name.as_str()),
        };
        let ratio = match kind {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => match self.get(ARGUMENT) {
                None => 1.0,
                Some(text) => {
                    let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
                    ratio.ok_or_else(|| wrong(ARGUMENT, "is a share of requests, from 0 to 1"))?
                }
            },
            _ => {
                let what = "is always_on, always_off, traceidratio, or one of these after parentbased_";
                return Err(wrong(NAME, what));
            }
        };
        Ok(Sampler { ratio, follows })
    }
}

fn parse(name: &str, text: &str) -> Result<Url> {
    let url = Url::parse(text.trim()).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.ok_or_else(|| wrong(name, NO_URL))
}
