//! A study is data: a TOML file of factors with levels, groups of cells, how each is set up, what runs in
//! it, what is expected, and when a sample is void. `docs/lab.md` describes the file.
//!
//! [`Study::parse`] reports a mistake with line and column and, for a name, a suggestion. The
//! result is checked: every name in it resolves, every template's placeholder is known, and every
//! comparison selects one cell.

mod check;
mod file;
pub mod plan;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use frostline_base::{Error, Result};

pub use self::file::{Factor, Gates, GuestStack, Machines, Model, Place, Setup, Variant, Workload};
use crate::host::probe::Need;
use crate::record::Mode;
use frostline_show::suggestion;

/// Studies that come with the lab, by name.
const EMBEDDED: &[(&str, &str)] = &[
    ("mount-options", include_str!("../studies/mount-options.toml")),
    ("restore", include_str!("../studies/restore.toml")),
    ("vm", include_str!("../studies/vm.toml")),
    ("warm-tier", include_str!("../studies/warm-tier.toml")),
    ("warm-tier-zfs", include_str!("../studies/warm-tier-zfs.toml")),
    ("warm-tier-zfs-direct", include_str!("../studies/warm-tier-zfs-direct.toml")),
];

/// The level of the factor `control` that the copy of the null control's cell has.
pub const CONTROL: &str = "again";

/// A checked study.
#[derive(Clone, Debug)]
pub struct Study {
    /// Its name, such as `warm-tier`.
    pub name: String,
    /// A sentence.
    pub title: String,
    /// What a reader must know before the figures.
    pub notes: Vec<String>,
    /// Korean of the title, of notes and of names of comparisons, for the report's page.
    pub korean: BTreeMap<String, String>,
    /// Recipe of the image that guests boot; none for the one that they need.
    pub image: Option<String>,
    /// Factors in order.
    pub factors: Vec<Factor>,
    /// Where and on what cells run, by name.
    pub setups: BTreeMap<String, Setup>,
    /// What runs, by name.
    pub workloads: BTreeMap<String, Workload>,
    /// Groups of cells in order.
    pub groups: Vec<Group>,
    /// All cells of all groups in order.
    pub cells: Vec<Cell>,
    /// The ratios that are requested.
    pub comparisons: Vec<Comparison>,
    /// Ids of the cells that are run twice under two labels.
    pub controls: Vec<String>,
    /// How much is done in each mode.
    pub variants: BTreeMap<&'static str, Variant>,
    /// The file as it was read, kept with each run.
    pub text: String,
}

/// Cells that are set up alike.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Name of the setup.
    pub setup: String,
    /// Name of the workload.
    pub workload: String,
    /// What the host must have.
    pub needs: Vec<Need>,
    /// When a sample does not count.
    pub gates: Gates,
    /// The input of the volume model, if the model applies.
    pub model: Option<Model>,
    /// Most blocks of these cells, if fewer than the variant's.
    pub blocks_max: Option<u32>,
}

/// One combination of levels.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// `factor=level,factor=level` in the order of the factors.
    pub id: String,
    /// Level by factor.
    pub levels: BTreeMap<String, String>,
    /// Index of its group in [`Study::groups`].
    pub group: usize,
    /// What was published, by metric.
    pub published: BTreeMap<String, f64>,
}

/// A ratio of two cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Its name.
    pub name: String,
    /// Id of the cell above the line.
    pub numerator: String,
    /// Id of the cell below the line.
    pub denominator: String,
    /// The metric.
    pub metric: String,
    /// What was published.
    pub published: Option<f64>,
    /// The inclusive range that is expected of a measurement, or of the model without one.
    pub expected: Option<(f64, f64)>,
}

impl Study {
    /// The study that comes with the lab under this name, or that is in this file.
    ///
    /// # Errors
    /// NotFound with the nearest name; Invalid with a position.
    pub fn find(name: &str) -> Result<Study> {
        if let Some((name, text)) = EMBEDDED.iter().find(|(known, _)| *known == name) {
            return Study::parse(text, name);
        }
        let path = Path::new(name);
        if path.extension().is_none_or(|e| e != "toml") && !path.exists() {
            let near = suggestion(name, EMBEDDED.iter().map(|(name, _)| *name));
            return Err(Error::not_found(format!(
                "no study `{name}`{near} (or give the path of a .toml file)"
            )));
        }
        let text = fs::read_to_string(path)
            .map_err(|e| Error::not_found(format!("cannot read the study {name}")).with_source(e))?;
        Study::parse(&text, name)
    }

    /// The studies that come with the lab.
    ///
    /// # Errors
    /// None, unless one of them is wrong.
    pub fn embedded() -> Result<Vec<Study>> {
        EMBEDDED.iter().map(|(name, text)| Study::parse(text, name)).collect()
    }

    /// Reads and checks the text of a study; `origin` names it in errors.
    ///
    /// # Errors
    /// Invalid, as `origin:line:column: what is wrong; did you mean …`.
    pub fn parse(text: &str, origin: &str) -> Result<Study> {
        check::study(text, origin)
    }

    /// The variant of a mode.
    ///
    /// # Errors
    /// Invalid if the study has none.
    pub fn variant(&self, mode: Mode) -> Result<&Variant> {
        let name = mode_name(mode);
        self.variants.get(name).ok_or_else(|| {
            let modes = [Mode::Full, Mode::Quick, Mode::Simulate].map(mode_name);
            let has = modes.into_iter().filter(|mode| self.variants.contains_key(*mode));
            let options: Vec<&str> = has.map(option_of).collect();
            let instead =
                if options.is_empty() { String::new() } else { format!("; run it {}", options.join(" or ")) };
            Error::invalid(format!("the study {} has no section [{name}]{instead}", self.name))
        })
    }

    /// The cell with this id.
    pub fn cell(&self, id: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.id == id)
    }
}

/// How the mode of that section is asked for.
fn option_of(section: &str) -> &'static str {
    match section {
        "quick" => "with --quick",
        "simulate" => "with --simulate",
        _ => "without --quick and --simulate",
    }
}

/// The name of a mode's section.
pub fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Simulate => "simulate",
        Mode::Quick => "quick",
        Mode::Full => "full",
    }
}

/// `template` with every `{name}` replaced by its value; `{{` and `}}` are braces.
///
/// # Errors
/// Invalid for a name without a value, with the nearest that has one, and for an open brace.
pub fn fill(template: &str, values: &BTreeMap<String, String>) -> Result<String> {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        filled.push_str(before);
        let doubled = from.as_bytes().get(1) == from.as_bytes().first();
        if doubled {
            filled.push_str(&from[..1]);
            rest = &from[2..];
            continue;
        }
        let Some((name, after)) = from.strip_prefix('{').and_then(|from| from.split_once('}')) else {
            return Err(Error::invalid(format!("a brace without its other half in `{template}`")));
        };
        let value = values.get(name).ok_or_else(|| {
            let known = suggestion(name, values.keys().map(String::as_str));
            Error::invalid(format!("nothing is called {{{name}}}{known}"))
        })?;
        filled.push_str(value);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

/// What the word of a study stands for.
///
/// # Errors
/// Invalid, with all that it may be.
pub(crate) fn word<T: Copy>(text: &str, known: &[(&str, T)]) -> Result<T> {
    known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        Error::invalid(format!("`{text}` is not one of {}", names.join(", ")))
    })
}

/// The number in a study, from 1 to `most`.
///
/// # Errors
/// Invalid.
pub(crate) fn number(text: &str, of: &str, most: u32) -> Result<u32> {
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| Error::invalid(format!("`{text}` {of}; 1 to {most} are possible")))
}

#[cfg(test)]
pub(crate) mod tests;
