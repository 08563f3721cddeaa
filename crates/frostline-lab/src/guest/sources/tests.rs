use std::fs;

use super::*;

fn host(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = root.path().join("etc/apt").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

#[test]
fn paragraphs_and_lines_give_the_same_sources() {
    let keys = "/usr/share/keyrings/k.gpg";
    let new = host(&[(
        "sources.list.d/debian.sources",
        "Types: deb deb-src\n# a remark\nURIs: http://m.example/debian\nSuites: bookworm\n bookworm-updates\n\
         Components: main\nSigned-By: /usr/share/keyrings/k.gpg\n\nTypes: deb\nURIs: http://m.example/security\n\
         Suites: bookworm-security\nSigned-By: /usr/share/keyrings/k.gpg\n",
    )]);
    let old = host(&[(
        "sources.list",
        "# deb http://commented.example/debian bookworm main\n\
         deb [arch=amd64 signed-by=/usr/share/keyrings/k.gpg] http://m.example/debian bookworm main\n\
         deb-src http://m.example/debian bookworm main\n\
         deb [signed-by=/usr/share/keyrings/k.gpg] http://m.example/debian bookworm-updates main\n\
         deb [signed-by=/usr/share/keyrings/k.gpg] http://m.example/security bookworm-security main\n",
    )]);
    let expected = format!(
        "deb [signed-by={keys}] http://m.example/debian bookworm main contrib\n\
         deb [signed-by={keys}] http://m.example/debian bookworm-updates main contrib\n\
         deb [signed-by={keys}] http://m.example/security bookworm-security main contrib\n"
    );
    for root in [&new, &old] {
        let sources = of_host(root.path()).unwrap();
        assert_eq!(list_for(&sources, "bookworm", false).unwrap(), expected);
        let backports = list_for(&sources, "bookworm", true).unwrap();
        let added =
            format!("deb [signed-by={keys}] http://m.example/debian bookworm-backports main contrib\n");
        assert_eq!(backports, expected.clone() + &added);
    }
}

#[test]
fn sources_that_are_off_or_of_others_do_not_count() {
    let root = host(&[(
        "sources.list.d/a.sources",
        "Types: deb\nEnabled: no\nURIs: http://off.example/debian\nSuites: bookworm\n\n\
         Types: deb-src\nURIs: http://source.example/debian\nSuites: bookworm\n\n\
         Types: deb\nURIs: http://other.example\nSuites: nodistro\n",
    )]);
    let sources = of_host(root.path()).unwrap();
    assert_eq!(sources.len(), 1);
    let error = list_for(&sources, "bookworm", false).unwrap_err();
    assert!(error.what().contains("bookworm"), "{error}");
}
