//! A test that each module uses only modules above it in this list, so that there are no cycles.

const LAYERS: [&str; 25] = [
    "actions",
    "answers",
    "sorted",
    "looked_up",
    "split_entry",
    "file_entry",
    "schema",
    "state",
    "log",
    "checkpoint",
    "history",
    "names",
    "snapshot",
    "repository_log",
    "expression",
    "records",
    "access",
    "shared",
    "index",
    "commit",
    "pin",
    "kept",
    "vacuum",
    "catalog",
    "fuzzing",
];

#[test]
fn no_module_names_one_below_it() {
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![source.clone()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let of_tests = ["tests.rs", "testing.rs", "layers.rs", "lib.rs"];
            if path.is_dir() {
                folders.push(path);
            } else if !of_tests.iter().any(|name| path.ends_with(name)) {
                let below = path.strip_prefix(&source).unwrap().to_string_lossy().into_owned();
                let module = below.split(['/', '.']).next().unwrap();
                check(module, &below, &std::fs::read_to_string(&path).unwrap());
                files += 1;
            }
        }
    }
    assert!(files > LAYERS.len());
}

fn check(module: &str, file: &str, text: &str) {
    let layer = |name: &str| LAYERS.iter().position(|layer| *layer == name);
    let own = layer(module).unwrap_or_else(|| panic!("{file} is in no layer"));
    let code =
        text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    for named in code.split("crate::").skip(1) {
        let names = match named.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or_default().split(',').collect(),
            None => vec![named],
        };
        for name in names {
            let name: String = name.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let other =
                layer(&name).unwrap_or_else(|| panic!("{file} names crate::{name}, which is in no layer"));
            assert!(other < own, "{file} names {name}, which is below it");
        }
    }
}
