//! Reports of a run: one self-contained page ([`html`]), Markdown ([`markdown`]), the JSON itself with its
//! [`schema`], two runs against each other ([`compare`]), the front of price and speed ([`pareto`]), latency over load
//! ([`load_page`]), and pages of documentation whose tables are made from runs ([`fill`]).
//!
//! A report can be made of any run: values that are not numbers show as a dash, text of tools and
//! users cannot become markup or terminal escapes, and thousands of cells go to tables, not charts.

mod chart;
mod compare;
mod evidence;
mod korean;
mod load;
mod markdown;
mod matrix;
mod page;
mod pareto;
mod schema;
pub(crate) mod text;

use std::path::Path;

use frostline_base::{Error, Result};
use serde::Deserialize;

pub use compare::{CellChange, Change, Compared, compare};
pub use evidence::fill;
pub use load::load_page;
pub use markdown::markdown;
pub use page::html;
pub use pareto::{Point, pareto, pareto_page};
pub use schema::schema;

use crate::measure::Measurement;
use crate::record::{self, Run, Sample};
use crate::study::Study;

/// The language a page opens in. Both are in the page, with a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// English.
    #[default]
    English,
    /// Korean.
    Korean,
}

/// Reads `run.json` of a run's folder. A newer format is `Invalid`, a file that is none is `Corrupt`.
pub fn read_run(folder: &Path) -> Result<Run> {
    let path = folder.join("run.json");
    let text = read(&path, "is that the folder of a run?")?;
    parse_run(&text).map_err(|error| error.with("file", path.display()))
}

/// The run with what the study of that name says in Korean now: it may be older than a translation.
///
/// # Errors
/// None, unless an embedded study is wrong.
pub fn translated(mut run: Run) -> Result<Run> {
    for study in Study::embedded()?.into_iter().filter(|study| study.name == run.study) {
        study.korean.into_iter().for_each(|(text, korean)| {
            run.korean.entry(text).or_insert(korean);
        });
    }
    Ok(run)
}

/// Reads `samples.ndjson` of a run's folder. A last line without its end was cut by a crash and is left out.
pub fn read_samples(folder: &Path) -> Result<Vec<Sample>> {
    let path = folder.join("samples.ndjson");
    let text = read(&path, "a simulated run has none")?;
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    let parse = |(at, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| {
            let place = format!("{}:{}", path.display(), at + 1);
            Error::corrupt("a line is not a sample").with("at", place).with_source(error)
        })
    };
    whole.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(parse).collect()
}

/// Reads what `lab --json measure` printed into a file. A file that is none is `Corrupt`.
pub fn read_measurement(file: &Path) -> Result<Measurement> {
    let text = read(file, "is that what `lab --json measure` printed?")?;
    serde_json::from_str(&text).map_err(|e| {
        Error::corrupt(format!("{} is not what `lab --json measure` printed", file.display())).with_source(e)
    })
}

/// Parses the text of a `run.json`.
pub fn parse_run(text: &str) -> Result<Run> {
    #[derive(Deserialize)]
    struct Version {
        format: u32,
    }
    let not_a_run = |error| Error::corrupt("this is not the JSON of a run").with_source(error);
    // The version first: what a newer format has must not read as damage.
    let Version { format } = serde_json::from_str(text).map_err(not_a_run)?;
    if format > record::FORMAT {
        let what = "the run was written by a newer frostline; report on it with that one";
        return Err(Error::invalid(what).with("format", format).with("understood", record::FORMAT));
    }
    serde_json::from_str(text).map_err(not_a_run)
}

fn read(path: &Path, hint: &str) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Error::not_found(format!("there is no {}; {hint}", path.display())).with_source(error)
        }
        std::io::ErrorKind::InvalidData => {
            Error::corrupt(format!("{} is not text", path.display())).with_source(error)
        }
        _ => Error::unavailable(format!("cannot read {}", path.display())).with_source(error),
    })
}

#[cfg(test)]
mod tests;
