//! The published frozen-tier study: its data, its two questions and its figures.
//!
//! The figures are of 4 TB of web server logs in 50 shards on a node with 8 vCPUs and 64 GB of memory, with
//! object storage in the same cloud: neither our data nor our machine. They are shown beside ours to compare
//! the effect of each tier on a query, not speed.

use std::path::Path;

use frostline_corpus::{Generator, GeneratorOptions, Needle};
use frostline_ingest::Input;
use serde::Serialize;
use serde_json::{Value, json};

/// The index that the generated logs go to.
pub(crate) const INDEX: &str = "weblogs";
/// What the published figures are of, in one line.
pub(crate) const PUBLISHED: &str =
    "Elastic 7.12, 2021: 4 TB in 50 shards, one node with 8 vCPUs, 64 GB and 16 local SSDs, medians of 5";
/// The country that the third kind of dashboard adds.
const COUNTRY: &str = "DE";

/// Where the bytes of an index are, and how much of it is cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Tier {
    Hot,
    Cold,
    Frozen5,
    Frozen05,
}

/// A row of the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Row {
    NeedleFirst,
    NeedleRepeat,
    DashboardFirst,
    DashboardRepeat,
    DashboardCountry,
    DashboardResults,
    Mount,
    Restore,
}

impl Tier {
    pub(crate) const ALL: [Tier; 4] = [Tier::Hot, Tier::Cold, Tier::Frozen5, Tier::Frozen05];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Tier::Hot => "hot",
            Tier::Cold => "cold",
            Tier::Frozen5 => "frozen, 5 % cache",
            Tier::Frozen05 => "frozen, 0.5 % cache",
        }
    }
}

impl Row {
    pub(crate) const ALL: [Row; 8] = [
        Row::NeedleFirst,
        Row::NeedleRepeat,
        Row::DashboardFirst,
        Row::DashboardRepeat,
        Row::DashboardCountry,
        Row::DashboardResults,
        Row::Mount,
        Row::Restore,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Row::NeedleFirst => "needle, first",
            Row::NeedleRepeat => "needle, repeat",
            Row::DashboardFirst => "dashboard, first",
            Row::DashboardRepeat => "dashboard, repeat",
            Row::DashboardCountry => "dashboard, for one country",
            Row::DashboardResults => "dashboard, repeat, result cache",
            Row::Mount => "mount",
            Row::Restore => "restore, or fetch all",
        }
    }

    /// Milliseconds as published, where there is such a cell.
    pub(crate) fn published_ms(self, tier: Tier) -> Option<f64> {
        let by_tier = match self {
            Row::NeedleFirst => [Some(92.0), Some(95.0), Some(6_257.0), None],
            Row::NeedleRepeat => [Some(29.0), Some(38.0), Some(76.0), None],
            Row::DashboardFirst => [Some(16_300.0), Some(16_600.0), Some(282_800.0), Some(321_500.0)],
            Row::DashboardRepeat => [Some(6_200.0), Some(7_100.0), Some(11_100.0), Some(224_100.0)],
            Row::DashboardCountry => [Some(19_500.0), Some(20_300.0), Some(23_400.0), Some(238_400.0)],
            Row::DashboardResults => [Some(80.0), Some(75.0), None, None],
            Row::Mount => [None, Some(115_000.0), Some(47_000.0), None],
            Row::Restore => [Some(72.4 * 60_000.0), Some(82.8 * 60_000.0), None, None],
        };
        by_tier[tier as usize]
    }
}

/// The study's data and questions, made from a number of documents and a seed.
#[derive(Clone, Debug)]
pub(crate) struct Study {
    pub(crate) generator: GeneratorOptions,
}

impl Study {
    pub(crate) fn new(documents: u64, seed: u64) -> Study {
        Study { generator: GeneratorOptions { documents, seed, ..GeneratorOptions::default() } }
    }

    /// The documents as an input; what they are made from is their identity.
    pub(crate) fn input(&self) -> Input {
        let name = format!("generated web server logs, seed {}", self.generator.seed);
        let identity = format!("generated-{}", self.generator.identity());
        let bytes = self.generator.bytes_expected();
        Input::documents(&name, &identity, Some(bytes), Generator::new(self.generator.clone()))
    }

    /// The client that few documents hold.
    pub(crate) fn needle(&self) -> Option<Needle> {
        Generator::needles(&self.generator).into_iter().find(|needle| needle.field == "clientip")
    }

    /// Every document of one client: the first question.
    pub(crate) fn needle_question(needle: &Needle) -> Vec<String> {
        let term = json!({ "term": { needle.field: needle.value } });
        vec![json!({ "query": term, "size": 10, "track_total_hits": true }).to_string()]
    }

    /// Five charts of 404s over the last three quarters of the time range: the second question. They are
    /// asked all at once, as a dashboard does.
    pub(crate) fn dashboard(&self) -> Vec<String> {
        self.panels(&[])
    }

    /// The same charts for one country.
    pub(crate) fn dashboard_of_country(&self) -> Vec<String> {
        self.panels(&[json!({ "term": { "geo.country": COUNTRY } })])
    }

    fn panels(&self, more: &[Value]) -> Vec<String> {
        let mut filters = vec![json!({ "term": { "response": 404 } }), self.three_quarters()];
        filters.extend_from_slice(more);
        let panel = |aggregation: Value| {
            let query = json!({ "bool": { "filter": filters } });
            json!({ "size": 0, "query": query, "aggs": { "panel": aggregation } }).to_string()
        };
        vec![
            panel(json!({ "date_histogram": { "field": "@timestamp", "fixed_interval": "3h" } })),
            panel(json!({ "terms": { "field": "path", "size": 10 } })),
            panel(json!({ "terms": { "field": "geo.country", "size": 20 } })),
            panel(json!({
                "date_histogram": { "field": "@timestamp", "fixed_interval": "12h" },
                "aggs": { "sent": { "stats": { "field": "bytes" } } },
            })),
            panel(json!({
                "terms": { "field": "clientip", "size": 10 },
                "aggs": { "agents": { "terms": { "field": "agent", "size": 1 } } },
            })),
        ]
    }

    fn three_quarters(&self) -> Value {
        const DAY_MS: i64 = 86_400_000;
        let start_ms = self.generator.start_us / 1_000;
        let range_ms = i64::from(self.generator.days) * DAY_MS;
        let (from, to) = (start_ms + range_ms / 4, start_ms + range_ms);
        json!({ "range": { "@timestamp": { "gte": from, "lt": to, "format": "epoch_millis" } } })
    }
}

/// What the dashboard shows, for people who read the figures.
pub(crate) const DASHBOARD: &str = "404s over time; their paths; their countries; bytes sent over time; \
     clients with their browser: five charts at once over the last 75 % of the time range";

/// The URL of the simulated store over a directory.
pub(crate) fn simulated(folder: &Path, profile: &str, seed: u64) -> String {
    let path = folder.display().to_string().replace('%', "%25").replace('?', "%3F").replace('#', "%23");
    format!("sim+file://{path}?profile={profile}&seed={seed}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dashboard_covers_three_quarters_of_the_time() {
        let study = Study::new(1_000, 1);
        let body: Value = serde_json::from_str(&study.dashboard()[0]).unwrap();
        let range = &body["query"]["bool"]["filter"][1]["range"]["@timestamp"];
        let (from, to) = (range["gte"].as_i64().unwrap(), range["lt"].as_i64().unwrap());
        assert_eq!(to - from, 30 * 86_400_000 * 3 / 4);
        assert_eq!(to, study.generator.start_us / 1_000 + 30 * 86_400_000);
    }

    #[test]
    fn a_country_is_one_filter_more() {
        let study = Study::new(1_000, 1);
        let filters = |bodies: Vec<String>| -> Vec<usize> {
            let body = |text: &String| serde_json::from_str::<Value>(text).unwrap();
            bodies
                .iter()
                .map(|text| body(text)["query"]["bool"]["filter"].as_array().unwrap().len())
                .collect()
        };
        assert_eq!(filters(study.dashboard()), [2; 5]);
        assert_eq!(filters(study.dashboard_of_country()), [3; 5]);
    }

    #[test]
    fn a_directory_with_odd_characters_stays_one() {
        assert_eq!(
            simulated(Path::new("/a b/50%?"), "measured", 3),
            "sim+file:///a b/50%25%3F?profile=measured&seed=3"
        );
    }

    #[test]
    fn published_cells_are_where_the_study_has_them() {
        assert_eq!(Row::NeedleFirst.published_ms(Tier::Frozen5), Some(6_257.0));
        assert_eq!(Row::NeedleFirst.published_ms(Tier::Frozen05), None);
        assert_eq!(Row::Restore.published_ms(Tier::Frozen5), None);
    }
}
