use super::*;

#[test]
fn the_end_of_a_log_is_short_and_never_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    assert_eq!(last_lines(&log, 2), "");
    std::fs::write(&log, b"one\n\ntwo \xff\r\nthree\n\n").unwrap();
    assert_eq!(last_lines(&log, 2), "two \u{fffd}\nthree");
}

#[test]
fn a_list_without_an_image_says_so() {
    #[derive(Debug, clap::Parser)]
    struct Program {
        #[command(flatten)]
        args: cli::ImageArgs,
    }
    let folder = tempfile::tempdir().unwrap();
    let program = <Program as clap::Parser>::try_parse_from(["image", "list"]).unwrap();
    for (json, printed) in [(false, ""), (true, "{\"images\":[]}\n")] {
        let (mut out, mut said) = (Vec::new(), Vec::new());
        cli::image(&program.args, folder.path(), json, &mut out, &mut |what| said.push(what.to_owned()))
            .unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), printed);
        assert_eq!(said, ["no image was built: `frostline lab image build` builds one"]);
    }
}
