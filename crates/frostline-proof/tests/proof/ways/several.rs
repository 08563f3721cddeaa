//! Two indices asked at once: each reads a query by its own declarations, so the hits are those of both alone.

use serde_json::json;

use super::ask::{engine_body, numbers, page_through};
use super::{Oracle, Place, Scene, questions};
use crate::dice::{Dice, setting};

/// Questions about one pair of scenes.
const QUESTIONS: usize = 30;

/// `FROSTLINE_WAYS_QUESTIONS=2000 cargo test -p frostline-proof two_indices -- --nocapture` asks more.
#[test]
fn two_indices_asked_at_once_find_what_each_finds() {
    let wanted = setting("FROSTLINE_WAYS_QUESTIONS", 100);
    let first = setting("FROSTLINE_WAYS_SEED", 1);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (mut asked, mut wrong) = (0, Vec::new());
    let mut seed = first;
    while asked < wanted && wrong.len() < 5 {
        asked += runtime.block_on(check(seed, &mut wrong));
        seed += 1;
    }
    println!("{asked} questions to two indices, from seed {first} to {}", seed - 1);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn check(seed: u64, wrong: &mut Vec<String>) -> u64 {
    let mut dice = Dice::new(seed);
    let (one, mut other) = (Scene::random(&mut dice), Scene::random(&mut dice));
    // Indices with different time fields are not searched together.
    other.time_field.clone_from(&one.time_field);
    for document in other.groups.iter_mut().flatten() {
        document["n"] = json!(document["n"].as_i64().unwrap() + 1_000);
    }
    let places = [
        Place::two("two indices", &one, &other).await.unwrap(),
        Place::two("two indices with needle segments", &one, &other)
            .await
            .unwrap()
            .with_needle()
            .await
            .unwrap(),
    ];
    let oracles = [Oracle::new(&one), Oracle::new(&other)];
    let mut asked = 0;
    for _ in 0..QUESTIONS {
        let question = questions::random(&mut dice, &oracles[asked as usize % 2]);
        let Some(query) = question["search"].get("query") else { continue };
        // What means nothing to one of them is not compared.
        let (Ok(found), Ok(others)) = (oracles[0].matching(query), oracles[1].matching(query)) else {
            continue;
        };
        let expected: Vec<i64> = found.iter().chain(&others).map(|doc| doc.n).collect();
        asked += 1;
        let body = engine_body(&json!({"query": query, "sort": [{"n": "asc"}]}));
        let whole = json!({"query": body["query"], "size": 1_000});
        let mut answers = Vec::new();
        for place in &places {
            answers.push(page_through(place, &body, 1 + expected.len() / 3).await);
            answers.push(place.search(&whole).await.map(|answer| {
                let mut hits = numbers(&answer);
                hits.sort_unstable();
                assert_eq!(answer["hits"]["total"]["value"], json!(hits.len()), "seed {seed}: {whole}");
                hits
            }));
        }
        if answers.iter().any(|answer| answer.as_ref().ok() != Some(&expected)) {
            wrong.push(format!(
                "--- seed {seed}\n{one}\n{other}\nquery {query}\n  expected {expected:?}\n  got {answers:?}"
            ));
            break;
        }
    }
    asked
}
