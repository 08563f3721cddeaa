use std::collections::BTreeSet;

use super::*;
use crate::testing::Tested;

/// Every operation, with its method and path.
fn operations(described: &Value) -> Vec<(String, String, &Value)> {
    let paths = described["paths"].as_object().unwrap().iter();
    let each = paths.flat_map(|(path, of_path)| {
        let methods = of_path.as_object().unwrap().iter();
        methods.map(move |(method, operation)| (method.to_ascii_uppercase(), path.clone(), operation))
    });
    each.collect()
}

#[tokio::test]
async fn the_description_has_every_api_and_no_other() {
    let described = Tested::new().ok("GET", "/_openapi.json", "").await;
    let found: BTreeSet<(String, String)> =
        operations(&described).into_iter().map(|(method, path, _)| (method, path)).collect();
    let routed = APIS.iter().flat_map(|api| {
        let paths = api.paths.iter();
        paths.flat_map(|path| api.methods.iter().map(|method| (method.to_string(), (*path).to_owned())))
    });
    assert_eq!(found, routed.collect());
    assert!(described["security"].is_null(), "nobody is asked");
}

#[test]
fn names_of_operations_and_parameters_are_unique() {
    let described = described("1", true, true);
    let operations = operations(&described);
    let ids: BTreeSet<&str> =
        operations.iter().map(|(_, _, operation)| operation["operationId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), operations.len());
    let mut shapes = BTreeSet::new();
    for path in described["paths"].as_object().unwrap().keys() {
        let shape: Vec<&str> =
            path.split('/').map(|part| if part.starts_with('{') { "{}" } else { part }).collect();
        assert!(shapes.insert(shape.join("/")), "{path} has the shape of another path");
    }
    for (method, path, operation) in operations {
        let parameters = operation["parameters"].as_array().unwrap();
        let named: BTreeSet<(&str, &str)> = parameters
            .iter()
            .map(|parameter| (parameter["in"].as_str().unwrap(), parameter["name"].as_str().unwrap()))
            .collect();
        assert_eq!(named.len(), parameters.len(), "{method} {path}");
        let in_path = named.iter().filter(|(place, _)| *place == "path").count();
        assert_eq!(in_path, path.matches('{').count(), "{method} {path}");
        // What is asked of a probe is who it is not.
        assert_eq!(operation["security"] == json!([]), path == "/health" || path == "/ready", "{path}");
    }
}

#[test]
fn what_is_said_of_parameters_and_bodies_is_of_apis_that_there_are() {
    let known: BTreeSet<&str> = APIS
        .iter()
        .flat_map(|api| api.takes.iter().chain(api.ignores))
        .flat_map(|some| some.iter().copied())
        .chain(COMMON.iter().copied())
        .collect();
    for name in SWITCHES.iter().chain(NUMBERS) {
        assert!(known.contains(name), "{name}");
    }
    for name in [DELETES_BY_BODY, LINES, SEARCHES, QUERIES].concat() {
        assert!(APIS.iter().any(|api| api.name == name), "{name}");
    }
}

#[test]
fn who_is_asked_may_answer_with_what_the_server_takes() {
    let tokens = |takes_tokens| {
        let described = described("1", true, takes_tokens);
        let schemes = described["components"]["securitySchemes"].as_object().unwrap().len();
        assert_eq!(described["security"].as_array().unwrap().len(), schemes);
        schemes
    };
    assert_eq!((tokens(false), tokens(true)), (2, 3));
}
