use anyhow::anyhow;

use super::*;

#[test]
fn a_command_that_was_stopped_exits_with_130_however_it_tells() {
    let stopped = || Error::stopped("the restore was stopped").context("fio was ended");
    for (ended, expected) in [
        (Ok(Outcome::of(false, true)), 0),
        (Ok(Outcome::of(false, false)), 3),
        (Ok(Outcome::of(true, true)), 130),
        (Ok(Outcome::of(true, false)), 130),
        (Ok(Outcome::Found), 1),
        (Err(stopped().into()), 130),
        (Err(stopped()).context("cannot restore"), 130),
        (Err(Error::conflict("taken").into()), 1),
        (Err(anyhow!("stopped")), 1),
        (Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into()), 0),
    ] {
        assert_eq!(status(&ended), expected, "{ended:?}");
    }
}
