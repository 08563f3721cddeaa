//! A test of the order of the layers: which files may use which, without cycles.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The modules of this crate, each of which names only those before it.
const LAYERS: &[&str] = &[
    "errors", "nesting", "json", "source", "geo", "ranges", "filter", "language", "prune", "read", "select",
    "agg", "exec", "answer", "fuzzing",
];

type Module = Vec<String>;
type Edges = BTreeMap<Module, BTreeSet<Module>>;

/// The modules of a crate with their text, without tests.
fn modules(root: &Path) -> BTreeMap<Module, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            if ["tests", "testing", "lib", "layers"].contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let module = path.strip_prefix(root).unwrap().with_extension("");
                let module = module.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
                found.insert(module, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

/// The paths that a `use` names: `a::{b, c::d}` are `a::b` and `a::c::d`.
fn expanded(tree: &str) -> Vec<String> {
    let Some((prefix, rest)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let inner = rest.rsplit_once('}').unwrap().0;
    let (mut parts, mut depth, mut part) = (Vec::new(), 0, String::new());
    for c in inner.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match c {
            ',' if depth == 0 => parts.push(std::mem::take(&mut part)),
            c => part.push(c),
        }
    }
    parts.push(part);
    let whole = |part: &String| expanded(&format!("{}{}", prefix.trim(), part.trim()));
    parts.iter().filter(|part| !part.trim().is_empty()).flat_map(whole).collect()
}

/// What a module names, as paths. What it hands on (`pub use`) it does not itself need.
fn named(text: &str) -> Vec<String> {
    let comment = regex::Regex::new("//[^\n]*").unwrap();
    let import = regex::Regex::new(r"(?m)^\s*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);").unwrap();
    let inline = regex::Regex::new(r"\b(?:crate|super)(?:::\w+)+").unwrap();
    let text = comment.replace_all(text, "");
    let own = import.captures_iter(&text).filter(|found| found.get(1).is_none());
    let mut paths: Vec<String> = own.flat_map(|found| expanded(&found[2])).collect();
    let rest = import.replace_all(&text, "");
    paths.extend(inline.find_iter(&rest).map(|found| found.as_str().to_owned()));
    paths
}

fn edges(modules: &BTreeMap<Module, String>) -> Edges {
    let mut edges = Edges::new();
    for (module, text) in modules {
        for path in named(text) {
            let mut parts = path.split("::").peekable();
            let mut at: Module = match parts.peek() {
                Some(&"crate") => Module::new(),
                Some(&"super") => module[..module.len() - 1].to_vec(),
                Some(first)
                    if modules.contains_key(&[module.as_slice(), &[(*first).to_owned()]].concat()) =>
                {
                    module.clone()
                }
                _ => continue,
            };
            if matches!(parts.peek(), Some(&"crate" | &"super")) {
                parts.next();
            }
            for part in parts {
                let deeper = [at.as_slice(), &[part.to_owned()]].concat();
                if !modules.contains_key(&deeper) {
                    break;
                }
                at = deeper;
            }
            if modules.contains_key(&at) && at != *module {
                edges.entry(module.clone()).or_default().insert(at);
            }
        }
    }
    edges
}

/// Everything that can be reached from a module.
fn reached(edges: &Edges, from: &Module) -> BTreeSet<Module> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        for to in edges.get(module).into_iter().flatten() {
            if reached.insert(to.clone()) {
                next.push(to);
            }
        }
    }
    reached
}

fn check(root: &Path, layers: &[&str]) {
    let modules = modules(root);
    let edges = edges(&modules);
    let layer = |module: &Module| layers.iter().position(|layer| *layer == module[0]);
    let mut wrong = Vec::new();
    for (from, to) in edges.iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to))) {
        if layer(from) < layer(to) && layer(from).is_some() {
            wrong.push(format!("{} names {}, a higher layer", from.join("/"), to.join("/")));
        }
        if reached(&edges, to).contains(from) {
            wrong.push(format!("{} and {} name one another", from.join("/"), to.join("/")));
        }
    }
    let strangers = modules.keys().filter(|module| !layers.is_empty() && layer(module).is_none());
    wrong.extend(strangers.map(|module| format!("{} is in no layer", module.join("/"))));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_layer_of_queries_names_a_higher_one_and_no_files_one_another() {
    check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), LAYERS);
}
