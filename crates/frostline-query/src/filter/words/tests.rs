use frostline_split::{Analysis, Definitions};
use serde_json::json;

use super::{folded, phrases};
use crate::filter::Pattern;

fn grams() -> Analysis {
    let settings = json!({ "analysis": {
        "filter": { "starts": { "type": "edge_ngram", "min_gram": 2, "max_gram": 8 } },
        "analyzer": { "grams": { "tokenizer": "whitespace", "filter": ["lowercase", "starts", "asciifolding"] } },
    } });
    Definitions::from_settings(&settings).unwrap().analyzer("grams").unwrap()
}

#[test]
fn a_phrase_may_have_any_of_the_words_of_a_place() {
    let analysis = grams();
    let own = analysis.words("Web server ten");
    let found = |phrase: &str, prefix_last: bool| -> Vec<std::ops::Range<usize>> {
        let asked = analysis.asked_by(&Analysis::analyzer("whitespace").unwrap()).asked(phrase);
        phrases(&own, &asked, prefix_last).collect()
    };
    assert_eq!(found("we serv", false), vec![0..10; 1]);
    assert_eq!(found("serve te", false), vec![4..14; 1]);
    assert_eq!(found("we te", false), vec![0..0; 0]);
    assert_eq!(found("server t", false), vec![0..0; 0]);
    assert_eq!(found("server t", true), vec![4..14; 1]);
    assert_eq!(found("", false), vec![0..0; 0]);
}

#[test]
fn the_characters_of_a_wildcard_are_changed_between_its_signs() {
    let wildcard = |text: &str| Pattern::Wildcard(text.to_owned());
    assert_eq!(folded(&wildcard(r"ÄB*C?\*É\"), &grams()), wildcard(r"ab*c?\*e\"));
    let regex = Pattern::Regex("[A-Z]".to_owned());
    assert_eq!(folded(&regex, &grams()), regex);
}
