use clap::Parser;
use frostline_base::ErrorKind;

use super::*;

#[derive(Parser)]
struct Typed {
    #[command(flatten)]
    args: MeasureArgs,
}

fn typed(words: &[&str]) -> MeasureArgs {
    Typed::try_parse_from(std::iter::once("measure").chain(words.iter().copied())).unwrap().args
}

/// The error of arguments, before anything is written.
fn refused(words: &[&str]) -> Error {
    check(&typed(words)).unwrap_err()
}

#[test]
fn what_cannot_be_measured_is_named_before_anything_is_written() {
    let data = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = data.path().to_str().unwrap();
    let same = format!("{path}/.");
    let error = refused(&[path, "/nonexistent", "--as", "log", "--data-mib", "64"]);
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.what().contains("/nonexistent"), "{error}");
    let error = refused(&[path, &same, "--as", "log", "--data-mib", "64"]);
    assert!(error.what().contains("are the same directory"), "{error}");
    let error = refused(&[path, "--as", "log", "--data-mib", "1000000000"]);
    assert!(error.what().contains("is full") && error.kind() == ErrorKind::Exhausted, "{error}");
    let error = refused(&[path, "--as", "log", "--price", "gp3", "--price", "st1:1TiB"]);
    assert!(error.what().contains("2 times for 1 directories"), "{error}");
    assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 0);
}

#[test]
fn a_number_that_is_too_small_is_refused_with_its_unit() {
    let error = |words: &[&str]| {
        let words = ["measure", "/", "--as", "log"].iter().chain(words);
        Typed::try_parse_from(words).err().unwrap().to_string()
    };
    for text in ["8", "8s", "-1", "99999999999"] {
        let said = error(&[&format!("--watch={text}")]);
        assert!(said.contains("write a whole number of seconds, at least 12"), "{said}");
    }
    assert!(error(&["--data-mib", "63"]).contains("of MiB, at least 64"));
    assert_eq!(typed(&["/", "--as", "log", "--watch", "12"]).watch, 12);
}

#[test]
fn a_price_is_for_all_or_for_each() {
    let data = tempfile::tempdir_in("/var/tmp").unwrap();
    let paths = ["a", "b"].map(|name| data.path().join(name));
    paths.iter().for_each(|path| std::fs::create_dir(path).unwrap());
    let [a, b] = paths.each_ref().map(|path| path.to_str().unwrap());
    let priced = |prices: &[&str]| {
        let words: Vec<&str> = [a, b, "--as", "postgres", "--data-mib", "64"]
            .into_iter()
            .chain(prices.iter().flat_map(|p| ["--price", p]))
            .collect();
        let (_, costs) = check(&typed(&words)).unwrap();
        costs.into_iter().map(|cost| cost.map(|cost| cost.volume)).collect::<Vec<_>>()
    };
    let named = |text: &str| Some(text.to_owned());
    assert_eq!(priced(&[]), [None, None]);
    assert_eq!(priced(&["gp3:1TiB"]), [named("gp3:1TiB"), named("gp3:1TiB")]);
    assert_eq!(priced(&["gp3:1TiB", "st1:2TiB"]), [named("gp3:1TiB"), named("st1:2TiB")]);
}

#[test]
fn what_is_left_is_said() {
    struct Heard(Vec<String>);
    impl Watching for Heard {
        fn begin(&mut self, _: f64) {}
        fn passed(&mut self, _: f64) {}
        fn doing(&mut self, _: &str) {}
        fn say(&mut self, what: &str) {
            self.0.push(what.to_owned());
        }
    }
    let left = Err(Error::unavailable("cannot remove /mnt/a/x")
        .with_source(std::io::Error::from(std::io::ErrorKind::ReadOnlyFilesystem)));
    let mut heard = Heard(Vec::new());
    assert!(is_left(&left, &mut heard) && !is_left(&Ok(()), &mut heard));
    assert!(heard.0[0].starts_with("cannot remove /mnt/a/x: ") && heard.0.len() == 1, "{:?}", heard.0);
}
