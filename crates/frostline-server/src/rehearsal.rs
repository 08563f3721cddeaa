//! Searches before the first client's, over a small index in memory.
//!
//! A server that has just started waits for its disk: the code of a search is read where it first runs, tens of megabytes
//! of it. A rehearsal reads it while nobody waits. It makes no request to the repository and leaves nothing behind.

use std::fmt::Write as _;
use std::io::Cursor;
use std::sync::Arc;

use frostline_base::{Error, IndexName, Result};
use frostline_ingest::{Ingest, IngestOptions, Input, Inputs, Random};
use frostline_node::{Node, Settings};
use frostline_query::{Response, Search};

const DOCUMENTS: usize = 300;

/// A search of each kind.
const SEARCHES: [&str; 7] = [
    r#"{"query":{"query_string":{"query":"unit7"}}}"#,
    r#"{"size":0,"track_total_hits":true,"query":{"match_phrase":{"message":"of unit3"}}}"#,
    r#"{"size":0,"track_total_hits":true,"query":{"term":{"code":4}}}"#,
    r#"{"size":0,"query":{"wildcard":{"path.keyword":{"value":"*5.LOG","case_insensitive":true}}}}"#,
    r#"{"size":0,"aggs":{"code":{"terms":{"field":"code"}}}}"#,
    r#"{"size":0,"query":{"bool":{"filter":[{"term":{"host.keyword":"host1"}},{"range":{"@timestamp":{"gte":"2024-05-01T00:01:00Z"}}}]}},
        "aggs":{"time":{"date_histogram":{"field":"@timestamp","fixed_interval":"1m"},
        "aggs":{"code":{"terms":{"field":"code"},"aggs":{"last":{"max":{"field":"number"}}}}}}}}"#,
    r#"{"size":10,"query":{"match":{"message":"unit5"}},"sort":[{"@timestamp":"desc"}]}"#,
];

/// Searches once in each way.
pub(crate) async fn rehearse(of: &Node, random: Random) -> Result<Vec<Response>> {
    // In memory, whatever the settings of the node's own data say.
    let node = Node::open(
        &Settings { repo: "memory:".to_owned(), ..of.settings().clone() },
        Arc::clone(of.clock()),
    )?;
    let name: IndexName = "rehearsal".parse()?;
    let input = Input::documents("rehearsal", "rehearsal", None, Cursor::new(documents()?));
    let ingest = Ingest::new(node.repository(), node.catalog(), Arc::clone(node.clock()), random);
    ingest.run(Inputs::of(input), &name, IngestOptions::default()).await?;
    let index = node.index(&name).await?;
    let mut responses = Vec::with_capacity(SEARCHES.len());
    for body in SEARCHES {
        // Nothing is kept of their answers.
        let options = node.search_options(false, true).await;
        let search =
            Search::new(&node.searcher().await?, std::slice::from_ref(&index), body.as_bytes(), &options)?;
        responses.push(search.run().await?);
    }
    Ok(responses)
}

fn documents() -> Result<String> {
    let mut lines = String::new();
    for n in 0..DOCUMENTS {
        let (minute, second, unit, code, host) = (n / 60, n % 60, n % 11, n % 7, n % 3);
        writeln!(
            lines,
            r#"{{"@timestamp":"2024-05-01T00:{minute:02}:{second:02}Z","message":"A message of unit{unit}, number {n}","path":"C:\\Logs\\unit{unit}.log","code":{code},"host":"host{host}","number":{n}}}"#
        )
        .map_err(|e| Error::internal("documents cannot be written").with_source(e))?;
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{node, random};

    #[tokio::test]
    async fn every_search_of_it_finds_what_it_looks_for_and_nothing_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let (node, _) = node(folder.path());
        let before = node.repository().meter().cost();
        let responses = rehearse(&node, random("rehearsal")).await.unwrap();
        let found: Vec<_> =
            responses.iter().map(|response| response.hits.total.as_ref().unwrap().value).collect();
        assert_eq!(found, [27, 27, 43, 27, 300, 80, 27]);
        assert!(responses.iter().all(|response| response.warnings.is_empty()));
        assert_eq!(node.repository().meter().cost(), before);
        assert!(!folder.path().join("data").exists(), "{:?}", std::fs::read_dir(folder.path().join("data")));
        assert!(node.catalog().list().await.unwrap().is_empty());
    }
}
