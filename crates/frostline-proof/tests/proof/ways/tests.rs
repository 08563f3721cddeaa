use serde_json::{Value, json};

use super::ask::Wrong;
use super::documents::Scene;
use super::{Oracle, Places, disagreement, questions, shrink};
use crate::dice::{Dice, setting};

/// Questions about one scene.
const QUESTIONS: usize = 30;
/// Disagreements that are made small and printed before the test gives up.
const SHOWN_MAX: u64 = 5;

/// `FROSTLINE_WAYS_QUESTIONS=20000 cargo test -p frostline-proof ways -- --nocapture` asks more.
#[test]
fn every_way_gives_the_answer_of_a_plain_look() {
    let wanted = setting("FROSTLINE_WAYS_QUESTIONS", 100);
    let first = setting("FROSTLINE_WAYS_SEED", 1);
    let (mut asked, mut ways, mut failed) = (0, 0, 0);
    let mut last = first;
    for seed in first.. {
        if asked >= wanted || failed >= SHOWN_MAX {
            break;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let outcome = runtime.block_on(check(seed));
        (asked, ways) = (asked + outcome.asked, ways + outcome.ways);
        (last, failed) = (seed, failed + u64::from(outcome.failed));
    }
    println!("{asked} questions, asked in {ways} ways, from seed {first} to {last}");
    assert_eq!(failed, 0, "disagreements, printed above");
}

/// Every fault that was ever found, as small as it can be.
#[test]
fn recipes_of_known_faults_agree() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut failed = Vec::new();
    for line in include_str!("recipes.jsonl").lines() {
        let recipe: Value = serde_json::from_str(line).unwrap();
        let fault = recipe["fault"].as_str().unwrap();
        let scene = Scene {
            mapping: recipe.get("mapping").cloned().unwrap_or(json!({"properties": {}})),
            time_field: recipe["time_field"].as_str().unwrap_or("@timestamp").to_owned(),
            column_budget: 1_000,
            groups: serde_json::from_value(recipe["groups"].clone()).unwrap(),
        };
        for question in recipe["questions"].as_array().unwrap() {
            let wrong = runtime.block_on(shrink::wrong(&scene, question)).unwrap();
            if !wrong.is_empty() {
                failed.push(fault.to_owned());
                print(fault, &scene, question, &wrong);
            }
        }
    }
    assert!(failed.is_empty(), "these disagree, printed above: {failed:?}");
}

struct Outcome {
    asked: u64,
    ways: u64,
    failed: bool,
}

/// Asks the questions of a seed; what disagrees first is made small and printed.
async fn check(seed: u64) -> Outcome {
    let mut dice = Dice::new(seed);
    let scene = Scene::random(&mut dice);
    let oracle = Oracle::new(&scene);
    let questions: Vec<Value> = (0..QUESTIONS).map(|_| questions::random(&mut dice, &oracle)).collect();
    let mut places = Places::of(&scene, &questions).await.unwrap();
    let mut outcome = Outcome { asked: 0, ways: 0, failed: false };
    for (number, question) in questions.iter().enumerate() {
        if number == questions.len() / 2 {
            for place in &mut places.all {
                place.restart().await.unwrap();
            }
        }
        // What means nothing, such as a day that is none, is not compared.
        let Ok(wrong) = disagreement(&oracle, &places, question).await else { continue };
        outcome.asked += 1;
        outcome.ways += places.all.len() as u64;
        if !wrong.is_empty() {
            outcome.failed = true;
            let (small, question) = match shrink::wrong(&scene, question).await.unwrap_or_default().is_empty()
            {
                // It needs what was asked before.
                true => (scene.clone(), question.clone()),
                false => shrink::shrunk(&scene, question).await,
            };
            let again = shrink::wrong(&small, &question).await.unwrap_or_default();
            print(&format!("seed {seed}"), &small, &question, if again.is_empty() { &wrong } else { &again });
            break;
        }
    }
    outcome
}

fn print(name: &str, scene: &Scene, question: &Value, wrong: &[Wrong]) {
    println!("--- {name}\n{scene}\nquestion {question}");
    let mut shown: Vec<&Wrong> = Vec::new();
    for one in wrong {
        if shown.iter().any(|known| known.got == one.got && known.expected == one.expected) {
            println!("  {}: the same", one.way);
            continue;
        }
        println!(
            "  {}\n    asked    {}\n    expected {}\n    got      {}",
            one.way, one.asked, one.expected, one.got
        );
        shown.push(one);
    }
}

#[test]
fn shrinking_drops_what_does_not_matter() {
    let question = json!({"bool": {"must": [{"match_all": {}}], "should": []}});
    let scene = Scene {
        mapping: json!({"properties": {}}),
        time_field: "@timestamp".to_owned(),
        column_budget: 1,
        groups: vec![],
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (scene, question) = runtime.block_on(shrink::shrunk(&scene, &question));
    assert!(
        scene.groups.is_empty() && question["bool"].is_object(),
        "nothing disagrees, so nothing is dropped"
    );
}
