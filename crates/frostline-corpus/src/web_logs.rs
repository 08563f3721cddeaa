//! Seeded, realistic web server logs: the same options always give the same bytes.
//!
//! Visitors come in sessions. A session has one client (skewed: some return often), and with it a country,
//! network and browser. It requests a few pages, each with the previous page as referrer.
//! Pages are skewed (Zipf). About 3 % of the responses are 404s, and nearly all of those are for 40 paths
//! that do not exist. Response sizes and times are log-normal. Traffic follows the hour of the day and the
//! day of the week, and times never go back. Each request has a unique id.
//!
//! A few *needles* have known numbers of hits, spread over the whole time range: see [`Generator::needles`].
//!
//! Fields (36): `@timestamp`, `clientip`, `clientport`, `geo.country`, `geo.country_name`, `geo.continent`,
//! `geo.city`, `geo.asn`, `verb`, `request`, `path`, `query`, `extension`, `httpversion`, `response`,
//! `bytes`, `request_bytes`, `response_ms`, `upstream_ms`, `upstream`, `cache`, `referrer`, `agent`,
//! `browser`, `os`, `device`, `bot`, `session`, `user`, `request_id`, `tls`, `host`, `region`, `service`,
//! `level`, `tags`. `query`, `extension`, `referrer`, `upstream…` and `user` are not in every document.

mod words;

use std::io::{self, Read};

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use words::{AGENTS, BROKEN_PATHS, COUNTRIES, HOSTS, PATH_WORDS, SECTIONS};

const SESSIONS: usize = 512;
const PATHS: usize = 2_000;
const TABLE: usize = 1 << 16;
const SLOT_US: i64 = 600_000_000;

/// What to generate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratorOptions {
    /// Number of documents.
    pub documents: u64,
    /// The seed of everything random.
    pub seed: u64,
    /// The time of the first documents, in microseconds since 1970 UTC.
    pub start_us: i64,
    /// Number of days over which the documents are spread; at least 1, at most 36,500.
    pub days: u32,
}

/// Documents whose number is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needle {
    /// The field.
    pub field: &'static str,
    /// Its value.
    pub value: &'static str,
    /// The number of documents that have it.
    pub hits: u64,
}

/// Generates the documents in the order of their times; reading returns them as lines.
#[derive(Debug)]
pub struct Generator {
    options: GeneratorOptions,
    next: u64,
    rng: Rng,
    clock: Clock,
    sessions: Vec<Session>,
    tables: Tables,
    line: Vec<u8>,
    taken: usize,
}

impl Default for GeneratorOptions {
    /// Two million documents over the 30 days from 2025-01-06.
    fn default() -> Self {
        GeneratorOptions { documents: 2_000_000, seed: 1, start_us: 1_736_121_600_000_000, days: 30 }
    }
}

impl GeneratorOptions {
    /// A text that two runs share only if they produce the same bytes.
    pub fn identity(&self) -> String {
        format!("v1-{}-{}-{}-{}", self.documents, self.seed, self.start_us, self.days)
    }

    /// The approximate number of bytes that are generated.
    pub fn bytes_expected(&self) -> u64 {
        self.documents.saturating_mul(DOCUMENT_BYTES_EXPECTED)
    }
}

const DOCUMENT_BYTES_EXPECTED: u64 = 835;
const NEEDLES: [(&str, &str, u64); 3] = [
    ("clientip", "198.51.100.77", 5),
    ("path", "/backup/2019/customers.sql.gz", 3),
    ("user", "mallory@example.org", 1),
];

impl Generator {
    /// Starts at the first document.
    pub fn new(options: GeneratorOptions) -> Self {
        let mut rng = Rng(options.seed ^ 0x6672_6f73_746c_696e);
        let tables = Tables::new(&mut rng);
        let sessions = (0..SESSIONS).map(|_| Session::new(&mut rng, &tables)).collect();
        let clock = Clock::new(&options);
        Generator { options, next: 0, rng, clock, sessions, tables, line: Vec::with_capacity(2048), taken: 0 }
    }

    /// The needles that these options give, each with its hits: an address (5), a path (3) and a user (1),
    /// or as many as there are documents.
    pub fn needles(options: &GeneratorOptions) -> Vec<Needle> {
        let hits = |(which, (field, value, wanted)): (usize, (&'static str, &'static str, u64))| Needle {
            field,
            value,
            hits: (0..wanted).filter(|k| Self::holder(options.documents, which, *k, wanted).is_some()).count()
                as u64,
        };
        NEEDLES.into_iter().enumerate().map(hits).collect()
    }

    /// Appends the next document without a line end; `false` if there is none.
    pub fn next_document(&mut self, out: &mut Vec<u8>) -> bool {
        if self.next >= self.options.documents {
            return false;
        }
        let time_us = self.clock.at(self.next, &mut self.rng);
        let which = (self.rng.next() % SESSIONS as u64) as usize;
        let needle = self.needle_at(self.next);
        let mut visit = Visit { time_us, number: self.next, needle, request_id: self.request_id() };
        self.next += 1;
        let Some(session) = self.sessions.get_mut(which) else { return false };
        visit.write(session, &mut self.rng, &self.tables, out);
        if session.requests_left == 0 {
            *session = Session::new(&mut self.rng, &self.tables);
        }
        true
    }

    /// Which needle a document holds: a document holds at most one.
    fn needle_at(&self, number: u64) -> Option<usize> {
        let documents = self.options.documents;
        (0..NEEDLES.len()).find(|&which| {
            let wanted = NEEDLES[which].2;
            (0..wanted).any(|k| Self::holder(documents, which, k, wanted) == Some(number))
        })
    }

    /// The document that holds hit `k` of a needle: the middle of the k-th part of all documents, moved by
    /// one for each needle so that they never meet.
    fn holder(documents: u64, which: usize, k: u64, wanted: u64) -> Option<u64> {
        let middle = (u128::from(documents) * u128::from(2 * k + 1) / u128::from(2 * wanted)) as u64;
        let number = middle + which as u64;
        // With very few documents the needles would collide.
        (documents >= 100 && number < documents).then_some(number)
    }

    /// Mixing a counter gives ids that look random and never repeat.
    fn request_id(&self) -> u64 {
        mix(self.next.wrapping_add(self.options.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }
}

impl Read for Generator {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            if self.taken == self.line.len() {
                let mut line = std::mem::take(&mut self.line);
                line.clear();
                let more = self.next_document(&mut line);
                if more {
                    line.push(b'\n');
                }
                (self.line, self.taken) = (line, 0);
                if !more {
                    break;
                }
            }
            let count = (buffer.len() - filled).min(self.line.len() - self.taken);
            buffer[filled..filled + count].copy_from_slice(&self.line[self.taken..self.taken + count]);
            filled += count;
            self.taken += count;
        }
        Ok(filled)
    }
}

/// One request of a session.
struct Visit {
    time_us: i64,
    number: u64,
    needle: Option<usize>,
    request_id: u64,
}

impl Visit {
    fn write(&mut self, session: &mut Session, rng: &mut Rng, tables: &Tables, out: &mut Vec<u8>) {
        let page = self.page(rng, tables);
        out.extend_from_slice(b"{\"@timestamp\":\"");
        push_time(out, self.time_us);
        out.extend_from_slice(b"\",");
        if self.needle == Some(0) {
            out.extend_from_slice(b"\"clientip\":\"198.51.100.77\"");
            out.extend_from_slice(&session.about.json[session.about.client_end..]);
        } else {
            out.extend_from_slice(&session.about.json);
        }
        self.write_request(session, &page, rng, out);
        self.write_answer(&page, rng, out);
        session.requests_left = session.requests_left.saturating_sub(1);
        if !page.is_broken && self.needle != Some(1) {
            session.last_path = page.path_index;
        }
    }

    fn page<'a>(&self, rng: &mut Rng, tables: &'a Tables) -> Page<'a> {
        if self.needle == Some(1) {
            return Page {
                path: "/backup/2019/customers.sql.gz",
                path_index: 1,
                is_broken: false,
                status: 200,
            };
        }
        let draw = rng.next();
        if draw & 0xffff < 1_750 {
            let path_index = usize::from(tables.broken[(draw >> 48) as usize]);
            let status = if (draw >> 20) & 0xff < 250 { 404 } else { 403 };
            let path = tables.broken_paths.get(path_index).map_or("/", String::as_str);
            return Page { path, path_index, is_broken: true, status };
        }
        let path_index = usize::from(tables.pages[(draw >> 48) as usize]);
        let path = tables.paths.get(path_index).map_or("/", String::as_str);
        Page { path, path_index, is_broken: false, status: status_of((draw >> 20) & 0xfff) }
    }

    fn write_request(&self, session: &Session, page: &Page<'_>, rng: &mut Rng, out: &mut Vec<u8>) {
        let draw = rng.next();
        let verb = match draw & 0xff {
            0..=9 if !page.is_broken => "POST",
            10..=14 => "HEAD",
            15 if !page.is_broken => "PUT",
            16 => "OPTIONS",
            _ => "GET",
        };
        out.extend_from_slice(b",\"verb\":\"");
        out.extend_from_slice(verb.as_bytes());
        out.extend_from_slice(b"\",\"request\":\"");
        out.extend_from_slice(page.path.as_bytes());
        let query_from = out.len();
        if (draw >> 8) & 7 == 0 && !page.path.contains('.') {
            out.extend_from_slice(b"?page=");
            push_number(out, (draw >> 11) & 31);
            out.extend_from_slice(b"&q=");
            out.extend_from_slice(word(draw >> 16).as_bytes());
        }
        let query = query_from..out.len();
        out.extend_from_slice(b"\",\"path\":\"");
        out.extend_from_slice(page.path.as_bytes());
        if query.len() > 1 {
            out.extend_from_slice(b"\",\"query\":\"");
            out.extend_from_within(query.start + 1..query.end);
        }
        if let Some((_, extension)) = page.path.rsplit_once('.').filter(|(_, extension)| extension.len() <= 5)
        {
            out.extend_from_slice(b"\",\"extension\":\"");
            out.extend_from_slice(extension.as_bytes());
        }
        if let Some(path) = session.referrer(draw >> 40) {
            out.extend_from_slice(b"\",\"referrer\":\"");
            out.extend_from_slice(path.0.as_bytes());
            out.extend_from_slice(path.1.as_bytes());
        }
        out.extend_from_slice(b"\",\"clientport\":");
        push_number(out, 1_024 + (draw >> 32) % 64_000);
        if self.needle == Some(2) {
            out.extend_from_slice(b",\"user\":\"mallory@example.org\"");
        } else {
            out.extend_from_slice(&session.user);
        }
        out.extend_from_slice(b",\"request_id\":\"");
        push_hex(out, self.request_id);
        push_hex(out, mix(self.number ^ self.request_id));
        out.push(b'"');
    }

    fn write_answer(&self, page: &Page<'_>, rng: &mut Rng, out: &mut Vec<u8>) {
        let draw = rng.next();
        out.extend_from_slice(b",\"response\":");
        push_number(out, page.status);
        out.extend_from_slice(b",\"bytes\":");
        push_number(out, page.bytes(rng));
        out.extend_from_slice(b",\"request_bytes\":");
        push_number(out, 180 + (draw & 1023));
        let micros = page.micros(rng);
        out.extend_from_slice(b",\"response_ms\":");
        push_thousandths(out, micros);
        let is_cached = page.path.starts_with("/assets") || page.status == 304;
        let cache = match (is_cached, (draw >> 10) & 15) {
            (true, 0) => "EXPIRED",
            (true, _) => "HIT",
            (false, 0..=3) => "HIT",
            (false, 4..=8) => "MISS",
            (false, _) => "BYPASS",
        };
        out.extend_from_slice(b",\"cache\":\"");
        out.extend_from_slice(cache.as_bytes());
        out.push(b'"');
        if cache != "HIT" {
            out.extend_from_slice(b",\"upstream\":\"10.20.");
            push_number(out, (draw >> 14) & 3);
            out.push(b'.');
            push_number(out, 10 + ((draw >> 16) & 15));
            out.extend_from_slice(b":8080\",\"upstream_ms\":");
            push_thousandths(out, micros - micros / 8);
        }
        let (host, region) = HOSTS[(draw >> 24) as usize % HOSTS.len()];
        out.extend_from_slice(b",\"host\":\"");
        out.extend_from_slice(host.as_bytes());
        out.extend_from_slice(b"\",\"region\":\"");
        out.extend_from_slice(region.as_bytes());
        out.extend_from_slice(page.kind().as_bytes());
    }
}

struct Page<'a> {
    path: &'a str,
    path_index: usize,
    is_broken: bool,
    status: u64,
}

impl Page<'_> {
    /// Log-normal around a median that is the path's own; answers without content have none.
    fn bytes(&self, rng: &mut Rng) -> u64 {
        match self.status {
            301 | 302 => 178,
            304 | 204 => 0,
            400..=599 => 153 + (self.path_index as u64 * 37) % 900,
            _ => {
                let median = 2_000.0 + ((self.path_index * 7_919) % 40_000) as f64;
                (median * rng.log_normal(0.9)).min(5e8) as u64
            }
        }
    }

    /// Microseconds to answer.
    fn micros(&self, rng: &mut Rng) -> u64 {
        let median = match self.status {
            304 => 900.0,
            500..=599 => 900_000.0,
            404 => 4_000.0,
            _ => 9_000.0 + ((self.path_index * 104_729) % 90_000) as f64,
        };
        (median * rng.log_normal(0.8)).min(6e7) as u64 + 50
    }

    /// The service, level and tags that go with the path and status; closes the document.
    fn kind(&self) -> &'static str {
        let service = if self.path.starts_with("/api") {
            0
        } else if self.path.starts_with("/assets") {
            1
        } else {
            2
        };
        KINDS[service][if self.status >= 500 { 2 } else { usize::from(self.status >= 400) }]
    }
}

const KINDS: [[&str; 3]; 3] = [
    [
        "\",\"service\":\"api\",\"level\":\"info\",\"tags\":[\"web\",\"api\"]}",
        "\",\"service\":\"api\",\"level\":\"warn\",\"tags\":[\"web\",\"api\",\"client-error\"]}",
        "\",\"service\":\"api\",\"level\":\"error\",\"tags\":[\"web\",\"api\",\"server-error\"]}",
    ],
    [
        "\",\"service\":\"assets\",\"level\":\"info\",\"tags\":[\"web\",\"static\"]}",
        "\",\"service\":\"assets\",\"level\":\"warn\",\"tags\":[\"web\",\"static\",\"client-error\"]}",
        "\",\"service\":\"assets\",\"level\":\"error\",\"tags\":[\"web\",\"static\",\"server-error\"]}",
    ],
    [
        "\",\"service\":\"shop\",\"level\":\"info\",\"tags\":[\"web\"]}",
        "\",\"service\":\"shop\",\"level\":\"warn\",\"tags\":[\"web\",\"client-error\"]}",
        "\",\"service\":\"shop\",\"level\":\"error\",\"tags\":[\"web\",\"server-error\"]}",
    ],
];

/// The status of a page that exists, by a draw of 12 bits.
fn status_of(draw: u64) -> u64 {
    match draw {
        0..=219 => 304,
        220..=299 => 301,
        300..=339 => 302,
        340..=359 => 204,
        360..=379 => 404,
        380..=389 => 403,
        390..=399 => 401,
        400..=411 => 500,
        412..=419 => 503,
        420..=423 => 502,
        424..=427 => 429,
        _ => 200,
    }
}

/// A visitor's stay: what is the same in all its requests is written once.
#[derive(Debug)]
struct Session {
    about: About,
    user: Vec<u8>,
    requests_left: u32,
    last_path: usize,
}

/// The members that a session's documents share, starting with `clientip`.
#[derive(Debug)]
struct About {
    json: Vec<u8>,
    client_end: usize,
}

impl Session {
    fn new(rng: &mut Rng, tables: &Tables) -> Self {
        let draw = rng.next();
        let client = u64::from(tables.clients[(draw >> 48) as usize]) << 4 | draw & 15;
        let person = mix(client.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let agent = &AGENTS[usize::from(tables.agents[(person >> 48) as usize])];
        let requests_left = if agent.is_bot { 30 } else { 1 + (draw >> 16) as u32 % 15 };
        let user = if (person >> 8) & 3 == 0 && !agent.is_bot {
            format!(",\"user\":\"{}.{}@example.com\"", word(person >> 10), word(person >> 20)).into_bytes()
        } else {
            Vec::new()
        };
        let about = about(client, person, mix(draw), tables);
        Session { about, user, requests_left, last_path: usize::MAX }
    }

    /// Where the visitor came from: the section of the last page, a search engine, or nowhere known.
    fn referrer(&self, draw: u64) -> Option<(&'static str, &'static str)> {
        if self.last_path != usize::MAX && draw & 7 != 0 {
            return Some(("https://www.example.com", SECTIONS[self.last_path % SECTIONS.len()]));
        }
        match draw & 31 {
            0..=7 => Some(("https://www.google.com/", "")),
            8..=9 => Some(("https://duckduckgo.com/", "")),
            10 => Some(("https://news.example.net/item", "?id=4711")),
            _ => None,
        }
    }
}

fn about(client: u64, person: u64, session: u64, tables: &Tables) -> About {
    let country = &COUNTRIES[usize::from(tables.countries[(person & 0xffff) as usize])];
    let agent = &AGENTS[usize::from(tables.agents[(person >> 48) as usize])];
    let mut json = Vec::with_capacity(600);
    let (high, low) = (country.network, mix(client));
    // 198.51.100.0/24 holds needles only; no country's network is 198.
    let ip = format!("\"clientip\":\"{high}.{}.{}.{}\"", low & 255, (low >> 8) & 255, 1 + (low >> 16) % 254);
    json.extend_from_slice(ip.as_bytes());
    let client_end = json.len();
    let city = country.cities[(person >> 16) as usize % country.cities.len()];
    let asn = 1_000 + u64::from(high) * 50 + (person >> 24) % 12;
    let minor = (person >> 30) % 40;
    let rest = format!(
        ",\"geo.country\":\"{}\",\"geo.country_name\":\"{}\",\"geo.continent\":\"{}\",\"geo.city\":\"{city}\",\
         \"geo.asn\":{asn},\"agent\":\"{}.{minor}{}\",\"browser\":\"{}\",\"os\":\"{}\",\"device\":\"{}\",\"bot\":{},\
         \"session\":\"{session:016x}\",\"httpversion\":\"{}\",\"tls\":\"{}\"",
        country.code,
        country.name,
        country.continent,
        agent.start,
        agent.end,
        agent.browser,
        agent.os,
        agent.device,
        agent.is_bot,
        if agent.is_bot { "1.1" } else { "2.0" },
        if (person >> 36) & 7 == 0 { "TLSv1.2" } else { "TLSv1.3" },
    );
    json.extend_from_slice(rest.as_bytes());
    About { json, client_end }
}

/// Skewed choices as tables of 65,536 entries: one draw, one look.
#[derive(Debug)]
struct Tables {
    paths: Vec<String>,
    broken_paths: Vec<String>,
    pages: Vec<u16>,
    broken: Vec<u16>,
    clients: Vec<u16>,
    countries: Vec<u16>,
    agents: Vec<u16>,
}

impl Tables {
    fn new(rng: &mut Rng) -> Self {
        Tables {
            paths: (0..PATHS).map(|index| path_of(index, rng)).collect(),
            broken_paths: BROKEN_PATHS.iter().map(|path| (*path).to_owned()).collect(),
            pages: zipf(PATHS, 1.05),
            broken: zipf(BROKEN_PATHS.len(), 0.9),
            clients: zipf(20_000, 0.85),
            countries: weighted(&COUNTRIES.map(|country| country.weight)),
            agents: weighted(&AGENTS.map(|agent| agent.weight)),
        }
    }
}

fn path_of(index: usize, rng: &mut Rng) -> String {
    let draw = rng.next();
    let (first, second) = (word(draw), word(draw >> 8));
    let section = SECTIONS[index % SECTIONS.len()];
    match index % 10 {
        0 if index == 0 => "/".into(),
        0 | 1 => format!("/assets/{first}-{:06x}.{}", draw >> 40, ["js", "css", "woff2"][index % 3]),
        2 => format!("/assets/images/{first}/{second}_{index}.{}", ["png", "jpg", "svg", "webp"][index % 4]),
        3 | 4 => format!("/api/v{}/{first}/{index}", 1 + (draw >> 16) % 3),
        5 => format!("{section}/{}/{first}-{second}.html", 2015 + (draw >> 20) % 11),
        _ => format!("{section}/{first}-{second}-{index}"),
    }
}

fn word(draw: u64) -> &'static str {
    PATH_WORDS[(draw & 0xff) as usize % PATH_WORDS.len()]
}

/// A table in which number `i` has a share that falls with `(i + 1)^-exponent`.
fn zipf(count: usize, exponent: f64) -> Vec<u16> {
    let weights: Vec<f64> = (1..=count).map(|rank| (rank as f64).powf(-exponent)).collect();
    shares(&weights)
}

fn weighted(weights: &[u32]) -> Vec<u16> {
    let weights: Vec<f64> = weights.iter().map(|weight| f64::from(*weight)).collect();
    shares(&weights)
}

fn shares(weights: &[f64]) -> Vec<u16> {
    let total: f64 = weights.iter().sum();
    let mut table = Vec::with_capacity(TABLE);
    let mut sum = 0.0;
    for (index, weight) in weights.iter().enumerate() {
        sum += weight / total * TABLE as f64;
        // Each choice keeps at least its rounded share; the last fills what rounding left.
        let until = if index + 1 == weights.len() { TABLE } else { (sum.round() as usize).min(TABLE) };
        table.resize(until.max(table.len()), index as u16);
    }
    table
}

/// Times that follow the rhythm of days and weeks.
#[derive(Debug)]
struct Clock {
    start_us: i64,
    documents: u64,
    /// Traffic up to the end of each ten minutes, as a share of everything.
    until: Vec<f64>,
    slot: usize,
}

impl Clock {
    fn new(options: &GeneratorOptions) -> Self {
        let slots = options.days.clamp(1, 36_500) as usize * 144;
        let mut sum = 0.0;
        let mut until: Vec<f64> = (0..slots)
            .map(|slot| {
                sum += intensity(options.start_us.saturating_add(slot as i64 * SLOT_US));
                sum
            })
            .collect();
        until.iter_mut().for_each(|share| *share /= sum);
        Clock { start_us: options.start_us, documents: options.documents, until, slot: 0 }
    }

    /// The time of a document: the documents share the traffic evenly, each somewhere in its part.
    fn at(&mut self, number: u64, rng: &mut Rng) -> i64 {
        let share = (number as f64 + rng.unit()) / self.documents.max(1) as f64;
        while self.slot + 1 < self.until.len() && self.until.get(self.slot).is_some_and(|end| *end < share) {
            self.slot += 1;
        }
        let end = self.until.get(self.slot).copied().unwrap_or(1.0);
        let begin = self.slot.checked_sub(1).and_then(|slot| self.until.get(slot)).copied().unwrap_or(0.0);
        let within = ((share - begin) / (end - begin)).clamp(0.0, 0.999_999);
        let milliseconds = (within * (SLOT_US / 1000) as f64) as i64;
        self.start_us.saturating_add(self.slot as i64 * SLOT_US).saturating_add(milliseconds * 1000)
    }
}

/// Traffic at a time: little at night, most in the evening, less at weekends.
fn intensity(time_us: i64) -> f64 {
    const HOURS: [f64; 24] = [
        0.35, 0.25, 0.2, 0.18, 0.18, 0.22, 0.35, 0.55, 0.8, 1.0, 1.1, 1.1, 1.05, 1.0, 1.05, 1.1, 1.15, 1.2,
        1.25, 1.35, 1.4, 1.25, 0.9, 0.6,
    ];
    let hours = time_us.div_euclid(3_600_000_000);
    let (hour, day) = (hours.rem_euclid(24) as usize, (hours.div_euclid(24) + 3).rem_euclid(7));
    let next = HOURS[(hour + 1) % 24];
    let part = (time_us.rem_euclid(3_600_000_000) / 60_000_000) as f64 / 60.0;
    let base = HOURS[hour] * (1.0 - part) + next * part;
    if day >= 5 { base * 0.7 } else { base }
}

/// SplitMix64: a counter and a mixing function. Ours and not a library's, so that a seed gives the same
/// logs in every release.
#[derive(Debug)]
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// At least 0, less than 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A log-normal factor with median 1. The sum of four draws stands for the normal one.
    fn log_normal(&mut self, sigma: f64) -> f64 {
        let draw = self.next();
        let sum: u64 = (0..4).map(|part| (draw >> (16 * part)) & 0xffff).sum();
        let normal = (sum as f64 / 65_536.0 - 2.0) * 1.732_050_8;
        (normal * sigma).exp()
    }
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// `yyyy-MM-ddTHH:mm:ss.SSSZ`, with six digits of fraction where the microseconds need them.
fn push_time(out: &mut Vec<u8>, time_us: i64) {
    const MILLIS: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
    const MICROS: DateTimePrinter = DateTimePrinter::new().precision(Some(6));
    let printer = if time_us % 1000 == 0 { MILLIS } else { MICROS };
    let time = Timestamp::from_microsecond(time_us).unwrap_or(Timestamp::MAX);
    // Writing into memory does not fail.
    let _ = printer.print_timestamp(&time, out);
}

fn push_hex(out: &mut Vec<u8>, value: u64) {
    for digit in (0..16).rev() {
        out.push(b"0123456789abcdef"[(value >> (4 * digit) & 15) as usize]);
    }
}

fn push_number(out: &mut Vec<u8>, value: u64) {
    let mut digits = [0; 20];
    let (mut at, mut rest) = (digits.len(), value);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// `1234` as `1.234`, always with three digits: a double, never a whole number.
fn push_thousandths(out: &mut Vec<u8>, value: u64) {
    push_number(out, value / 1000);
    out.push(b'.');
    for divisor in [100, 10, 1] {
        out.push(b'0' + (value / divisor % 10) as u8);
    }
}

#[cfg(test)]
mod tests;
