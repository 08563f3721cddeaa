//! Makes what disagrees as small as it can be.

use serde_json::{Value, json};

use super::ask::{Wrong, disagreement};
use super::oracle::Answer;
use super::{Oracle, Places, Scene};

/// Smaller scenes and questions that are tried.
const TRIES_MAX: usize = 150;

/// The ways in which a question is answered wrongly; an `Err` where it means nothing or the documents are refused.
pub(crate) async fn wrong(scene: &Scene, question: &Value) -> Answer<Vec<Wrong>> {
    let oracle = Oracle::new(scene);
    let places = Places::of(scene, std::slice::from_ref(question)).await.map_err(|e| e.to_string())?;
    disagreement(&oracle, &places, question).await
}

/// The smallest scene and question found that still disagree, greedily.
pub(crate) async fn shrunk(scene: &Scene, question: &Value) -> (Scene, Value) {
    let (mut scene, mut question) = (scene.clone(), question.clone());
    let first = wrong(&scene, &question).await.unwrap_or_default();
    let refusal = refusal(&first);
    let mut tries = 0;
    loop {
        let mut smaller = false;
        let mut at = 0;
        while let Some(candidate) = smaller_scenes(&scene).into_iter().nth(at) {
            tries += 1;
            if still(refusal, wrong(&candidate, &question).await) {
                (scene, smaller) = (candidate, true);
            } else {
                at += 1;
            }
            if tries > TRIES_MAX {
                return (scene, question);
            }
        }
        let mut at = 0;
        while let Some(candidate) = without_one(&question).into_iter().nth(at) {
            tries += 1;
            if still(refusal, wrong(&scene, &candidate).await) {
                (question, smaller) = (candidate, true);
            } else {
                at += 1;
            }
            if tries > TRIES_MAX {
                return (scene, question);
            }
        }
        if !smaller {
            return (scene, question);
        }
    }
}

/// Whether it is still the same kind of fault.
fn still(first: Option<&str>, wrong: Answer<Vec<Wrong>>) -> bool {
    wrong.is_ok_and(|wrong| !wrong.is_empty() && refusal(&wrong) == first)
}

fn refusal(wrong: &[Wrong]) -> Option<&str> {
    wrong.iter().find_map(Wrong::refusal)
}

/// Scenes without a group, a document, a field or a declaration.
fn smaller_scenes(scene: &Scene) -> Vec<Scene> {
    let mut all = Vec::new();
    let groups = json!(scene.groups);
    for group in 0..scene.groups.len() {
        let mut smaller = scene.clone();
        smaller.groups.remove(group);
        all.push(smaller);
    }
    for (group, documents) in scene.groups.iter().enumerate() {
        for document in 0..documents.len() {
            let mut smaller = scene.clone();
            smaller.groups[group].remove(document);
            smaller.groups.retain(|group| !group.is_empty());
            all.push(smaller);
        }
    }
    for candidate in without_one(&groups) {
        let keeps_numbers = candidate.as_array().is_some_and(|groups| {
            groups.len() == scene.groups.len()
                && groups.iter().zip(&scene.groups).all(|(group, old)| {
                    group.as_array().is_some_and(|group| {
                        group.len() == old.len() && group.iter().all(|document| document["n"].is_i64())
                    })
                })
        });
        if keeps_numbers && let Ok(groups) = serde_json::from_value(candidate) {
            all.push(Scene { groups, ..scene.clone() });
        }
    }
    all.extend(without_one(&scene.mapping).into_iter().map(|mapping| Scene { mapping, ..scene.clone() }));
    all
}

/// The value without one of its parts, or with a part in the place of the whole.
fn without_one(value: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    match value {
        Value::Object(object) => {
            if let Some(inner) = object.get("bool").and_then(Value::as_object) {
                all.extend(inner.values().filter_map(Value::as_array).flatten().cloned());
            }
            all.extend(["written", "not"].iter().filter_map(|key| object.get(*key)).cloned());
            all.extend(
                ["and", "or"].iter().filter_map(|key| object.get(*key)?.as_array()).flatten().cloned(),
            );
            for key in object.keys() {
                let mut smaller = object.clone();
                smaller.shift_remove(key);
                all.push(Value::Object(smaller));
            }
            for (key, inner) in object {
                for candidate in without_one(inner) {
                    let mut smaller = object.clone();
                    smaller.insert(key.clone(), candidate);
                    all.push(Value::Object(smaller));
                }
            }
        }
        Value::Array(items) => {
            for at in 0..items.len() {
                let mut smaller = items.clone();
                smaller.remove(at);
                all.push(Value::Array(smaller));
            }
            for (at, inner) in items.iter().enumerate() {
                for candidate in without_one(inner) {
                    let mut smaller = items.clone();
                    smaller[at] = candidate;
                    all.push(Value::Array(smaller));
                }
            }
        }
        Value::String(text) if text.contains(' ') => {
            let words: Vec<&str> = text.split(' ').collect();
            all.push(json!(words[1..].join(" ")));
            all.push(json!(words[..words.len() - 1].join(" ")));
        }
        _ => {}
    }
    all
}
