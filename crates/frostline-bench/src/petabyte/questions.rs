//! What is asked, and how many documents must be found.

use serde::Serialize;
use serde_json::{Value, json};

use super::bases::{BASES, DAY_US, FIVE, MANY, ONE, SESSION, USER};
use super::names::Shares;
use crate::study::Study;

/// A question of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Question {
    Absent,
    One,
    Five,
    Many,
    FiveInTime,
    Both,
    Dashboard,
}

/// How the splits are found that a question has to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Design {
    /// By needle segments.
    Segments,
    /// Not at all: each split is opened.
    EverySplit,
}

/// Whether anything is near.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Pass {
    First,
    Repeat,
}

/// A request that no document has.
const ABSENT: &str = "00000000000000000123456789abcdef";

impl Design {
    pub(super) const ALL: [Design; 2] = [Design::Segments, Design::EverySplit];

    pub(super) fn name(self) -> &'static str {
        match self {
            Design::Segments => "needle segments",
            Design::EverySplit => "every split opened",
        }
    }

    /// The index whose catalog has it so.
    pub(super) fn index(self) -> &'static str {
        match self {
            Design::Segments => "petabyte",
            Design::EverySplit => "every-split",
        }
    }

    /// The questions that tell the designs apart: a dashboard reads the same in both.
    pub(super) fn questions(self) -> &'static [Question] {
        use Question::{Absent, Both, Dashboard, Five, FiveInTime, Many, One};
        match self {
            Design::Segments => &[Absent, One, Five, Many, FiveInTime, Both, Dashboard],
            Design::EverySplit => &[Absent, Five, FiveInTime, Both],
        }
    }
}

impl Pass {
    pub(super) const ALL: [Pass; 2] = [Pass::First, Pass::Repeat];

    pub(super) fn name(self) -> &'static str {
        match self {
            Pass::First => "first",
            Pass::Repeat => "repeat",
        }
    }
}

impl Question {
    pub(super) const ALL: [Question; 7] = [
        Question::Absent,
        Question::One,
        Question::Five,
        Question::Many,
        Question::FiveInTime,
        Question::Both,
        Question::Dashboard,
    ];

    pub(super) fn name(self, shares: &Shares) -> String {
        let within = |id| match shares.of_request(id) {
            1 => "needle in 1 split".to_owned(),
            splits => format!("needle in {splits} splits"),
        };
        match self {
            Question::Absent => "needle in no split".to_owned(),
            Question::One => within(ONE),
            Question::Five => within(FIVE),
            Question::Many => within(MANY),
            Question::FiveInTime => format!("{}, last quarter of the time", within(FIVE)),
            Question::Both => "two terms in one document".to_owned(),
            Question::Dashboard => "404 dashboard, last three quarters".to_owned(),
        }
    }

    /// The search bodies, which are asked at the same time.
    pub(super) fn bodies(self, study: &Study) -> Vec<String> {
        let filters = match self {
            Question::Absent => vec![request(ABSENT)],
            Question::One => vec![request(ONE)],
            Question::Five => vec![request(FIVE)],
            Question::Many => vec![request(MANY)],
            Question::FiveInTime => vec![request(FIVE), last_quarter(study)],
            Question::Both => {
                vec![json!({ "term": { "session": SESSION } }), json!({ "term": { "user": USER } })]
            }
            Question::Dashboard => return study.dashboard(),
        };
        let query = json!({ "bool": { "filter": filters } });
        vec![json!({ "query": query, "size": 10, "track_total_hits": true }).to_string()]
    }

    /// How many documents a needle finds: one in each split that has it. None for the dashboard, whose documents are
    /// counted in the bases.
    pub(super) fn hits(self, shares: &Shares) -> Option<u64> {
        let splits = match self {
            Question::Absent => 0,
            Question::One => shares.of_request(ONE),
            Question::Five | Question::FiveInTime | Question::Both => shares.of_request(FIVE),
            Question::Many => shares.of_request(MANY),
            Question::Dashboard => return None,
        };
        Some(splits as u64)
    }
}

fn request(id: &str) -> Value {
    json!({ "term": { "request_id": id } })
}

fn last_quarter(study: &Study) -> Value {
    let start_us = study.generator.start_us;
    let days = BASES as i64;
    let ms = |day: i64| (start_us + day * DAY_US) / 1_000;
    let range = json!({ "gte": ms(days * 3 / 4), "lt": ms(days), "format": "epoch_millis" });
    json!({ "range": { "@timestamp": range } })
}
