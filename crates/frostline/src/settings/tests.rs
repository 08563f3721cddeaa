use std::collections::BTreeMap;
use std::time::Instant;

use clap::FromArgMatches as _;

use super::*;
use crate::args::{Arguments, Command, LogFormat, Serve};

/// What `serve` is told by a command line, an environment and a file.
fn read(typed: &[&str], environment: &[(&str, &str)], file: &str) -> Result<(Serve, String)> {
    let typed: Vec<OsString> = ["frostline", "serve"].iter().chain(typed).map(OsString::from).collect();
    let environment: BTreeMap<&str, &str> = environment.iter().copied().collect();
    let matches = args::command().try_get_matches_from(&typed).unwrap();
    let arguments = Arguments::from_arg_matches(&matches).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frostline.toml");
    std::fs::write(&path, file).unwrap();
    let variable = |name: &str| Ok(environment.get(name).map(|value| (*value).to_owned()));
    let global = args::Global { config: Some(path), ..arguments.global };
    let config = Config::of(global, Instant::now(), &variable)?;
    let matches = complete(&matches, &typed, variable, config.serve())?;
    let page = print(&config, &matches)?;
    match Arguments::from_arg_matches(&matches).unwrap().command {
        Command::Serve(serve) => Ok((serve, page)),
        other => panic!("{other:?}"),
    }
}

fn fails(typed: &[&str], environment: &[(&str, &str)], file: &str, says: &str) {
    let error = format!("{:#}", read(typed, environment, file).map(drop).unwrap_err());
    assert!(error.contains(says), "{error}");
}

#[test]
fn an_option_overrides_a_variable_and_that_a_file() {
    let file = "[serve]\nlisten = \"127.0.0.1:1\"\nauth = true\nslow_query = \"2s\"\nkey_rate = 7\n";
    let (serve, _) = read(&[], &[], file).unwrap();
    assert_eq!((serve.listen.port(), serve.auth, serve.key_rate.unwrap().get()), (1, true, 7));
    let environment = [("FROSTLINE_LISTEN", "127.0.0.1:2"), ("FROSTLINE_AUTH", "off")];
    let (serve, _) = read(&[], &environment, file).unwrap();
    assert_eq!((serve.listen.port(), serve.auth), (2, false));
    let (serve, _) = read(&["--listen", "127.0.0.1:3", "--log-format=json"], &environment, file).unwrap();
    assert_eq!((serve.listen.port(), serve.log_format), (3, LogFormat::Json));
    assert_eq!(serve.slow_query.unwrap().as_secs(), 2);
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    fails(&[], &[], "[serve]\nlistn = \"x\"", "[serve] has no setting listn; did you mean `listen`?");
    fails(&[], &[], "[serve]\nlisten = \"x\"", "frostline.toml: listen in [serve]: invalid value 'x'");
    fails(&[], &[], "[serve]\nauth = \"yes\"", "auth in [serve] is true or false, not \"yes\"");
    fails(&[], &[], "[serve]\nlisten = [1]", "listen in [serve] is a text or a number");
    fails(&[], &[], "[serve]\nlisten = \"\"", "listen in [serve] is empty: omit it");
    fails(&[], &[], "listen = \"x\"", "unknown field");
    fails(&[], &[("FROSTLINE_SLOW_QUERY", "soon")], "", "FROSTLINE_SLOW_QUERY: invalid value 'soon'");
    fails(&[], &[("FROSTLINE_KEY_RATE", "0")], "", "FROSTLINE_KEY_RATE: invalid value '0'");
}

#[test]
fn what_is_printed_is_read_back() {
    let typed = ["--auth", "--tls-cert", "/etc/a \"b\".pem", "--tls-key=/etc/k.pem", "--key-rate=50"];
    let environment = [("FROSTLINE_REPO", "s3://bucket/logs"), ("FROSTLINE_SLOW_QUERY", "1s")];
    let (said, page) = read(&typed, &environment, "json = true\nvolumes = [\"/a\", \"/b\"]").unwrap();
    for line in [
        "repo = \"s3://bucket/logs\"",
        "volumes = [\"/a\", \"/b\"]",
        "json = true",
        "auth = true",
        "tls_key = \"/etc/k.pem\"",
        "slow_query = \"1s\"",
        "key_rate = 50",
        "# listen = \"127.0.0.1:9200\"",
        "# no_upkeep = false",
    ] {
        assert!(page.lines().any(|printed| printed == line), "{line}\n{page}");
    }
    let (again, printed_again) = read(&[], &[], &page).unwrap();
    assert_eq!(printed_again, page);
    assert_eq!(format!("{again:?}"), format!("{said:?}"));
}

/// Each setting with its meaning, its variable and its default; and each can be uncommented.
#[test]
fn every_setting_is_printed() {
    let (_, page) = read(&[], &[], "").unwrap();
    let table: Table = page
        .lines()
        .filter(|line| !line.starts_with("# ") || is_example(line))
        .fold(String::new(), |text, line| text + line.strip_prefix("# ").unwrap_or(line) + "\n")
        .parse()
        .unwrap();
    let serve = table["serve"].as_table().unwrap();
    assert_eq!(serve.len(), options().len());
    for option in options() {
        assert!(serve.contains_key(&key(&option)), "{page}");
        let name = variable(&option);
        let help = option.get_help().unwrap().to_string();
        assert!(help.contains(&format!("[env: {name}]")), "{help}");
        let line = format!("# --{}, {name}; default: ", option.get_long().unwrap());
        assert!(page.contains(&line), "{line}\n{page}");
    }
    for key in ["repo", "data", "volumes", "memory", "query_memory", "json"] {
        assert!(table.contains_key(key), "{key}");
    }
    assert_eq!(table.len(), 7);
}

fn is_example(line: &str) -> bool {
    let key = line.trim_start_matches("# ").split(" = ").next().unwrap_or_default();
    line.contains(" = ") && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

fn deploy(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

/// What a program prints; none where it is not here.
fn run(program: &str, arguments: &[&std::ffi::OsStr]) -> Option<(bool, String)> {
    match std::process::Command::new(program).args(arguments).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            frostline_show::note!("skipped: no {program}");
            None
        }
        output => {
            let output = output.unwrap();
            let text = [output.stdout, output.stderr].concat();
            Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
        }
    }
}

#[test]
fn the_unit_is_one_that_systemd_takes() {
    let unit = std::fs::read_to_string(deploy("frostline.service")).unwrap();
    assert!(unit.contains("ExecStart=/usr/bin/frostline serve --config /etc/frostline/config.toml\n"));
    // A program that is there.
    let here = std::env::current_exe().unwrap();
    let unit = unit.replace("/usr/bin/frostline", here.to_str().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frostline.service");
    std::fs::write(&path, unit).unwrap();
    let offline = |more: &[&'static str]| {
        let mut arguments: Vec<&std::ffi::OsStr> = more.iter().map(std::ffi::OsStr::new).collect();
        arguments.push(path.as_os_str());
        run("systemd-analyze", &arguments)
    };
    if let Some((is_well, said)) = offline(&["verify"]) {
        let about: Vec<&str> = said.lines().filter(|line| line.contains("frostline.service")).collect();
        assert!(is_well && about.is_empty(), "{said}");
    }
    // 10 is a unit without any protection.
    if let Some((is_well, said)) = offline(&["security", "--offline=true", "--threshold=20"]) {
        assert!(is_well, "{said}");
    }
}

#[test]
fn the_image_is_started_with_options_that_there_are() {
    let file = std::fs::read_to_string(deploy("Containerfile")).unwrap();
    let command = file.lines().find_map(|line| line.strip_prefix("CMD ")).unwrap();
    let command: Vec<String> = serde_json::from_str(command).unwrap();
    let typed = command.iter().skip(1).map(String::as_str);
    let (serve, _) = read(&typed.collect::<Vec<_>>(), &[], "").unwrap();
    assert_eq!((serve.auth, serve.listen.to_string().as_str()), (true, "0.0.0.0:9200"));
    let toolchain = std::fs::read_to_string(deploy("../rust-toolchain.toml")).unwrap();
    let version = file.split("rust:").nth(1).and_then(|rest| rest.split('-').next()).unwrap();
    assert!(toolchain.contains(&format!("channel = \"{version}")), "{version}: {toolchain}");
}

#[test]
fn the_chart_makes_a_file_of_settings_that_there_are() {
    let chart = deploy("helm/frostline");
    let helm = |more: &[&'static str]| {
        let mut arguments: Vec<&std::ffi::OsStr> = more.iter().map(std::ffi::OsStr::new).collect();
        arguments.insert(1, chart.as_os_str());
        run("helm", &arguments)
    };
    let Some((is_well, said)) = helm(&["lint", "--strict", "--set", "repo=s3://bucket/logs"]) else { return };
    assert!(is_well, "{said}");
    let (is_well, said) = helm(&["template"]).unwrap();
    assert!(!is_well && said.contains("repo is required"), "{said}");
    let (is_well, said) = helm(&["template", "--set", "repo=r,serve.tls_key=x"]).unwrap();
    assert!(!is_well && said.contains("serve.tls_key is what the chart sets"), "{said}");
    let set = "repo=s3://bucket/logs,serve.key_rate=100,serve.slow_query=1s,serve.no_upkeep=true,settings.memory=4GiB,\
               tls.secretName=tls,tls.clientCaSecretName=ca,serviceMonitor.enabled=true";
    let (is_well, said) = helm(&["template", "--set", set]).unwrap();
    assert!(is_well, "{said}");
    let file = said.lines().skip_while(|line| !line.contains("config.toml: |")).skip(1);
    let file: Vec<&str> = file.take_while(|line| line.starts_with("    ")).map(str::trim).collect();
    let (serve, page) = read(&[], &[], &file.join("\n")).unwrap();
    assert!(serve.auth && serve.no_upkeep && serve.tls_client_ca.is_some(), "{page}");
    assert_eq!((serve.key_rate.unwrap().get(), serve.slow_query.unwrap().as_secs()), (100, 1));
    assert!(page.contains("\nmemory = \"4GiB\"\n") && page.contains("\nrepo = \"s3://bucket/logs\"\n"));
}
