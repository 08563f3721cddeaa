//! Converts the file to a [`Study`]: resolves names, and reports mistakes with their position.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use frostline_base::{Error, Result};
use toml::Spanned;

use super::file::{self, File, Gates, Place, Selector, Word};
use super::{CONTROL, Cell, Comparison, Group, Study, fill};
use crate::guest::Recipe;
use crate::host::probe::Need;
use crate::names::position;
use crate::workload::TOOLS;
use frostline_show::suggestion;

/// More cells than this are a mistake in a file, not a study.
const CELLS_MAX: usize = 10_000;
/// What the runner adds to the factors as placeholders.
pub(super) const PLACEHOLDERS: &[&str] =
    &["directory", "device", "devices", "seconds", "seed", "data_mib", "arc_bytes", "server", "port"];

/// A translation of what the study does not say is a translation that was forgotten.
fn check_korean(source: &Source<'_>, file: &File) -> Result<()> {
    let names = file.comparisons.iter().map(|comparison| comparison.get_ref().name.as_str());
    let reasons = file.setups.values().filter_map(|setup| setup.get_ref().why.as_deref());
    let notes = file.notes.iter().map(String::as_str);
    let said: Vec<&str> = names.chain([file.title.as_str()]).chain(notes).chain(reasons).collect();
    match file.korean.keys().find(|text| !said.contains(&text.get_ref().as_str())) {
        None => Ok(()),
        Some(text) => {
            let near = suggestion(text.get_ref(), said.iter().copied());
            let what = format!("no title, note, comparison or `why` is `{}`{near}", text.get_ref());
            Err(source.error(text.span(), what))
        }
    }
}

/// The text that errors point into.
struct Source<'a> {
    text: &'a str,
    origin: &'a str,
}

impl Source<'_> {
    fn error(&self, span: Range<usize>, what: impl std::fmt::Display) -> Error {
        let (line, column) = position(self.text, span.start);
        Error::invalid(format!("{}:{line}:{column}: {what}", self.origin))
    }

    fn syntax(&self, error: &toml::de::Error) -> Error {
        let at = error.span().unwrap_or(0..0);
        self.error(at, with_nearest(error.message()))
    }
}

/// Serde lists all that it expected; of those, the nearest is what a person wants to read.
fn with_nearest(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match quoted.split_first() {
        Some((wrong, known)) if message.starts_with("unknown") && !known.is_empty() => {
            let kind = message.split(" `").next().unwrap_or("unknown name");
            format!("{kind} `{wrong}`{}", suggestion(wrong, known.iter().copied()))
        }
        _ => message.lines().collect::<Vec<_>>().join(" "),
    }
}

pub(super) fn study(text: &str, origin: &str) -> Result<Study> {
    let source = Source { text, origin };
    let file: File = toml::from_str(text).map_err(|e| source.syntax(&e))?;
    let factors = Factors::new(&source, &file)?;
    for setup in file.setups.values() {
        check_setup(&source, &factors, setup)?;
    }
    for workload in file.workloads.values() {
        check_workload(&source, &factors, workload)?;
    }
    let mut groups = Vec::new();
    let mut cells = Vec::new();
    for group in &file.cells {
        cells.extend(expand(&source, &factors, group, groups.len())?);
        groups.push(resolve(&source, &factors, &file, group)?);
    }
    check_gates(&source, &file)?;
    check_unique(&source, &file, &groups, &cells)?;
    publish(&source, &factors, &file, &mut cells)?;
    let comparisons = comparisons(&source, &factors, &file, &cells)?;
    let controls = file.control.iter().chain(&file.controls);
    let controls = controls.map(|selector| select(&source, &factors, &cells, selector, &[]));
    let controls = controls.collect::<Result<Vec<_>>>()?;
    let variants = variants(&source, &factors, &file)?;
    check_korean(&source, &file)?;
    if let Some(image) = &file.image {
        Recipe::named(image.get_ref()).map_err(|error| source.error(image.span(), error.what()))?;
    }
    Ok(Study {
        name: file.name,
        title: file.title,
        notes: file.notes,
        korean: file.korean.into_iter().map(|(text, korean)| (text.into_inner(), korean)).collect(),
        image: file.image.map(Spanned::into_inner),
        factors: file.factors,
        setups: file.setups.into_iter().map(|(name, setup)| (name, setup.into_inner())).collect(),
        workloads: file.workloads.into_iter().map(|(name, w)| (name, w.into_inner())).collect(),
        groups,
        cells,
        comparisons,
        controls,
        variants,
        text: text.to_owned(),
    })
}

/// Factors and their levels, for looking names up.
struct Factors(Vec<(String, Vec<String>)>);

impl Factors {
    fn new(source: &Source<'_>, file: &File) -> Result<Factors> {
        let mut seen = BTreeSet::new();
        for factor in &file.factors {
            let name = &factor.name;
            let is_plain = |text: &str| !text.is_empty() && !text.contains(['=', '{', '}', '/', '\n', '"']);
            if !is_plain(name) || PLACEHOLDERS.contains(&name.as_str()) || name == "control" {
                let at = source.text.find(&format!("\"{name}\"")).unwrap_or(0);
                return Err(source.error(at..at, format!("`{name}` cannot be the name of a factor")));
            }
            if let Some(level) = factor.levels.iter().find(|level| level.contains(['\n', '{', '}'])) {
                let at = source.text.find(level.as_str()).unwrap_or(0);
                return Err(source.error(at..at, format!("`{level}` cannot be a level")));
            }
            if !seen.insert(name) {
                let at = source.text.rfind(&format!("\"{name}\"")).unwrap_or(0);
                return Err(source.error(at..at, format!("the factor `{name}` is there twice")));
            }
        }
        Ok(Factors(file.factors.iter().map(|f| (f.name.clone(), f.levels.clone())).collect()))
    }

    fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    fn levels(&self, source: &Source<'_>, factor: &Word) -> Result<&[String]> {
        let name = factor.get_ref();
        self.0.iter().find(|(known, _)| known == name).map(|(_, levels)| levels.as_slice()).ok_or_else(|| {
            source.error(factor.span(), format!("unknown factor `{name}`{}", suggestion(name, self.names())))
        })
    }

    fn level(&self, source: &Source<'_>, factor: &Word, level: &Word) -> Result<()> {
        let (levels, word) = (self.levels(source, factor)?, level.get_ref());
        if levels.contains(word) {
            return Ok(());
        }
        let near = suggestion(word, levels.iter().map(String::as_str));
        let what = format!("the factor `{}` has no level `{word}`{near}", factor.get_ref());
        Err(source.error(level.span(), what))
    }

    /// Placeholders of every template, each with a value that is only looked for, not read.
    fn placeholders(&self) -> BTreeMap<String, String> {
        self.names()
            .chain(PLACEHOLDERS.iter().copied())
            .map(|name| (name.to_owned(), String::new()))
            .collect()
    }

    fn id(&self, levels: &BTreeMap<String, String>) -> String {
        let parts: Vec<_> =
            self.names().filter_map(|name| levels.get(name).map(|level| format!("{name}={level}"))).collect();
        parts.join(",")
    }
}

fn check_template(source: &Source<'_>, factors: &Factors, within: Range<usize>, text: &str) -> Result<()> {
    fill(text, &factors.placeholders()).map(drop).map_err(|error| {
        let section = source.text.get(within.clone()).unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        let at = section.find(line).map_or(within.start, |at| within.start + at);
        source.error(at..at, error.what())
    })
}

fn check_setup(source: &Source<'_>, factors: &Factors, setup: &Spanned<file::Setup>) -> Result<()> {
    let (span, setup) = (setup.span(), setup.get_ref());
    let optional = [
        &setup.path,
        &setup.device,
        &setup.volumes,
        &setup.class,
        &setup.stripe,
        &setup.bucket,
        &setup.write_cache,
        &setup.drain_mib_per_s,
        &setup.pin,
    ];
    let texts = optional.into_iter().flatten().chain(&setup.make).chain([&setup.options]);
    for text in texts {
        check_template(source, factors, span.clone(), text)?;
    }
    if let Some(guest) = &setup.guest {
        let optional = [&guest.record, &guest.compression, &guest.arc, &guest.age];
        let texts = [&guest.stack, &guest.disks, &guest.block, &guest.data];
        for text in optional.into_iter().flatten().chain(texts) {
            check_template(source, factors, span.clone(), text)?;
        }
    }
    for text in setup.machines.iter().flat_map(file::Machines::texts) {
        check_template(source, factors, span.clone(), text)?;
    }
    for tool in &setup.tools {
        check_tool(source, tool)?;
    }
    let has_device = matches!(setup.place, Place::File | Place::Volumes | Place::Kept)
        || setup.machines.as_ref().is_some_and(|machines| machines.disks > 0);
    if has_device && setup.device_mib == 0 {
        return Err(source.error(span, "a setup with devices says their size as `device_mib`"));
    }
    if matches!(setup.place, Place::Volumes | Place::Kept)
        && (setup.volumes.is_none() || setup.class.is_none())
    {
        return Err(
            source.error(span, "a setup on volumes says which: class = \"st1\", volumes = \"4x2TiB\"")
        );
    }
    if (setup.place == Place::Path) != setup.path.is_some() {
        return Err(source.error(span, "a setup in a directory, and only such, names it: path = \"/mnt/a\""));
    }
    if (setup.place == Place::Device) != setup.device.is_some() {
        return Err(source.error(span, "a setup on a device, and only such, names it: device = \"/dev/sdx\""));
    }
    let is_made = !setup.make.is_empty() || setup.file_system.is_some() || !setup.options.is_empty();
    if setup.place == Place::Path && is_made {
        return Err(source.error(
            span,
            "a directory is measured as it is: `make`, `file_system` and `options` are for devices",
        ));
    }
    if setup.place == Place::Device && setup.file_system.is_none() && !setup.options.is_empty() {
        return Err(source.error(span, "`options` are those of a `file_system`, which this device has not"));
    }
    if matches!(setup.place, Place::Path | Place::Device) && setup.write_cache.is_some() {
        return Err(source.error(span, "`write_cache` is changed only on devices that the lab makes"));
    }
    if setup.place != Place::File && setup.drain_mib_per_s.is_some() {
        return Err(source.error(span, "`drain_mib_per_s` is of a device on a file: place = \"file\""));
    }
    if setup.slowed.is_some_and(|by| !by.is_finite() || by < 1.0) {
        return Err(source.error(span, "volumes are `slowed` by a number from 1 up"));
    }
    if setup.slowed.is_some() && setup.place != Place::Kept {
        return Err(source.error(span, "only volumes of place = \"kept\" are `slowed`"));
    }
    if matches!(setup.place, Place::Guest | Place::Kept) != setup.guest.is_some() {
        return Err(source.error(span, "a setup in a guest, and only such, has a table `guest`"));
    }
    if (setup.place == Place::Guests) != setup.machines.is_some() {
        return Err(source.error(span, "a setup in guests, and only such, has a table `machines`"));
    }
    if (setup.place == Place::Published) != setup.why.is_some() {
        return Err(source.error(span, "a setup that is only published, and only such, says `why`"));
    }
    Ok(())
}

fn check_workload(source: &Source<'_>, factors: &Factors, workload: &Spanned<file::Workload>) -> Result<()> {
    let (span, workload) = (workload.span(), workload.get_ref());
    let tool = &workload.tool;
    if !TOOLS.contains(&tool.get_ref().as_str()) {
        let near = suggestion(tool.get_ref(), TOOLS.iter().copied());
        return Err(source.error(tool.span(), format!("unknown tool `{}`{near}", tool.get_ref())));
    }
    let optional = [workload.layout.as_ref(), workload.processes.as_ref()];
    for text in optional.into_iter().flatten().chain([&workload.arguments]) {
        check_template(source, factors, span.clone(), text)?;
    }
    for pattern in workload.read.values() {
        if let Err(error) = regex::Regex::new(pattern) {
            let at =
                source.text[span.clone()].find(pattern.as_str()).map_or(span.start, |at| span.start + at);
            return Err(source.error(at..at, format!("not a regular expression: {error}")));
        }
    }
    Ok(())
}

fn check_tool(source: &Source<'_>, tool: &Word) -> Result<Need> {
    Need::parse(&format!("tool:{}", tool.get_ref())).map_err(|e| source.error(tool.span(), e.what()))
}

fn expand(
    source: &Source<'_>,
    factors: &Factors,
    group: &Spanned<file::Group>,
    at: usize,
) -> Result<Vec<Cell>> {
    let mut combinations: Vec<BTreeMap<String, String>> = vec![BTreeMap::new()];
    let levels = &group.get_ref().levels;
    let mut count = 1_usize;
    for (factor, levels) in levels {
        for level in levels {
            factors.level(source, factor, level)?;
        }
        count = count.saturating_mul(levels.len());
        if count > CELLS_MAX {
            return Err(source.error(factor.span(), format!("more than {CELLS_MAX} cells")));
        }
    }
    // In the order of the factors, so that ids and cells come in that order too.
    for name in factors.names() {
        let Some(levels) = levels.iter().find(|(factor, _)| factor.get_ref() == name).map(|(_, l)| l) else {
            continue;
        };
        combinations = combinations
            .iter()
            .flat_map(|combination| {
                levels.iter().map(move |level| {
                    let mut more = combination.clone();
                    more.insert(name.to_owned(), level.get_ref().clone());
                    more
                })
            })
            .collect();
    }
    Ok(combinations
        .into_iter()
        .map(|levels| Cell { id: factors.id(&levels), levels, group: at, published: BTreeMap::new() })
        .collect())
}

fn resolve(
    source: &Source<'_>,
    factors: &Factors,
    file: &File,
    group: &Spanned<file::Group>,
) -> Result<Group> {
    let (span, group) = (group.span(), group.get_ref());
    let setup = lookup(source, "setup", &group.setup, &file.setups)?.get_ref();
    let workload = lookup(source, "workload", &group.workload, &file.workloads)?.get_ref();
    let mut needs: BTreeSet<Need> = BTreeSet::new();
    for word in &group.requires {
        needs.insert(Need::parse(word.get_ref()).map_err(|e| source.error(word.span(), e.what()))?);
    }
    needs.extend(implied(setup));
    if !matches!(setup.place, Place::Guest | Place::Kept) {
        for tool in &setup.tools {
            needs.insert(check_tool(source, tool)?);
        }
    }
    // The tools of a guest are inside it.
    if !matches!(setup.place, Place::Guest | Place::Kept | Place::Guests | Place::Published) {
        needs.extend(
            Some(workload.tool.get_ref())
                .filter(|t| crate::host::tools::is_known(t))
                .cloned()
                .map(Need::Tool),
        );
    }
    if let Some(model) = &group.model {
        let optional = [&model.bucket, &model.stripe, &model.record, &model.age];
        let texts = [&model.class, &model.volumes, &model.block, &model.file_system];
        for text in optional.into_iter().flatten().chain(texts) {
            check_template(source, factors, span.clone(), text)?;
        }
    }
    Ok(Group {
        name: group.name.get_ref().clone(),
        setup: group.setup.get_ref().clone(),
        workload: group.workload.get_ref().clone(),
        needs: needs.into_iter().collect(),
        gates: merged(file.gates.as_ref(), group.gates.as_ref()),
        model: group.model.clone(),
        blocks_max: group.blocks_max,
    })
}

/// What a place needs whatever the file says.
fn implied(setup: &file::Setup) -> Vec<Need> {
    let mut needs = match setup.place {
        Place::Folder | Place::Path | Place::Model | Place::Published => vec![],
        Place::Device => vec![Need::Root],
        Place::File if setup.drain_mib_per_s.is_some() => vec![Need::Root, Need::Fuse, Need::Loop],
        Place::File => vec![Need::Root, Need::Loop],
        Place::Restore => {
            let ext4 = Need::FileSystem("ext4".to_owned());
            vec![Need::Root, Need::Fuse, Need::Loop, ext4]
        }
        Place::Volumes | Place::Crash => vec![Need::Root, Need::Fuse, Need::Loop],
        Place::Guest => vec![Need::Root, Need::Guest],
        Place::Kept => vec![Need::Root, Need::Guest, Need::Fuse, Need::Loop],
        // Their volumes are emulated ones.
        Place::Guests if setup.volumes.is_some() => vec![Need::Root, Need::Guest, Need::Fuse, Need::Loop],
        Place::Guests => vec![Need::Root, Need::Guest],
    };
    if let (Some(name), false) = (&setup.file_system, setup.place == Place::Guest) {
        needs.push(Need::FileSystem(name.clone()));
    }
    needs
}

fn merged(all: Option<&Spanned<Gates>>, own: Option<&Spanned<Gates>>) -> Gates {
    let all = all.map(Spanned::get_ref).cloned().unwrap_or_default();
    let Some(own) = own.map(Spanned::get_ref) else { return all };
    Gates {
        device_bytes: own.device_bytes.or(all.device_bytes),
        cpu_pressure_max: own.cpu_pressure_max.or(all.cpu_pressure_max),
        steal_percent_max: own.steal_percent_max.or(all.steal_percent_max),
        overrun_percent_max: own.overrun_percent_max.or(all.overrun_percent_max),
        resident_max: own.resident_max.or(all.resident_max),
    }
}

/// Refuses gates that would judge nothing: one of a group that its cells have no reading for, and one of the study that no
/// group has a reading for.
fn check_gates(source: &Source<'_>, file: &File) -> Result<()> {
    let of = |group: &file::Group| {
        let setup = lookup(source, "setup", &group.setup, &file.setups)?.get_ref();
        let workload = lookup(source, "workload", &group.workload, &file.workloads)?.get_ref();
        Ok::<_, Error>((setup.clone(), workload.clone()))
    };
    for group in &file.cells {
        let Some(gates) = &group.get_ref().gates else { continue };
        let (setup, workload) = of(group.get_ref())?;
        if let Some((name, why)) = unjudged(gates.get_ref(), &setup, &workload).into_iter().next() {
            return Err(
                source.error(gates.span(), format!("the gate `{name}` would judge nothing here: {why}"))
            );
        }
    }
    let Some(gates) = &file.gates else { return Ok(()) };
    let mut left: Option<BTreeMap<&str, &str>> = None;
    for group in &file.cells {
        let (setup, workload) = of(group.get_ref())?;
        let here: BTreeMap<_, _> = unjudged(gates.get_ref(), &setup, &workload).into_iter().collect();
        left = Some(match left {
            None => here,
            Some(left) => left.into_iter().filter(|(name, _)| here.contains_key(name)).collect(),
        });
    }
    match left.unwrap_or_default().into_iter().next() {
        Some((name, why)) => {
            let what = format!("the gate `{name}` would judge nothing in any cells: {why}");
            Err(source.error(gates.span(), what))
        }
        None => Ok(()),
    }
}

/// The gates that these cells have no reading for, and what that would take.
fn unjudged(
    gates: &Gates,
    setup: &file::Setup,
    workload: &file::Workload,
) -> Vec<(&'static str, &'static str)> {
    let place = setup.place;
    // What is inside `guest` and `crash` is judged by rules of its own.
    let on_host = matches!(place, Place::Folder | Place::Path | Place::File | Place::Volumes | Place::Device);
    let has_device = (on_host && place != Place::Folder) || place == Place::Guests;
    let counts_bytes = matches!(workload.tool.get_ref().as_str(), "fio" | "dd");
    let has_file = workload.data_file.is_some() && workload.direct && on_host && place != Place::Device;
    let rules = [
        (
            "device_bytes",
            gates.device_bytes.is_some() && !(has_device && counts_bytes),
            "it compares the bytes of fio or dd with those of a device that is known",
        ),
        (
            "resident_max",
            gates.resident_max.is_some() && !has_file,
            "it looks at the `data_file` of a workload with `direct`, outside of guests",
        ),
        (
            "overrun_percent_max",
            gates.overrun_percent_max.is_some() && place != Place::Volumes,
            "it is about emulated volumes (place = \"volumes\")",
        ),
        (
            "cpu_pressure_max",
            gates.cpu_pressure_max.is_some() && !on_host,
            "it is about tools that run on this host",
        ),
        (
            "steal_percent_max",
            gates.steal_percent_max.is_some() && !(on_host || place == Place::Guests),
            "it is about tools that run on this host or in guests",
        ),
    ];
    rules.into_iter().filter(|(_, is_unjudged, _)| *is_unjudged).map(|(name, _, why)| (name, why)).collect()
}

fn lookup<'f, T>(
    source: &Source<'_>,
    kind: &str,
    word: &Word,
    known: &'f BTreeMap<String, T>,
) -> Result<&'f T> {
    known.get(word.get_ref()).ok_or_else(|| {
        let near = suggestion(word.get_ref(), known.keys().map(String::as_str));
        source.error(word.span(), format!("unknown {kind} `{}`{near}", word.get_ref()))
    })
}

fn check_unique(source: &Source<'_>, file: &File, groups: &[Group], cells: &[Cell]) -> Result<()> {
    let mut seen = BTreeMap::new();
    for cell in cells {
        if let Some(first) = seen.insert(cell.id.as_str(), cell.group) {
            let (first, second) = (&groups[first].name, &groups[cell.group].name);
            let what = format!("`{first}` and `{second}` both have the cell {}", cell.id);
            return Err(source.error(file.cells[cell.group].span(), what));
        }
    }
    let mut names = BTreeSet::new();
    match file.cells.iter().find(|group| !names.insert(group.get_ref().name.get_ref())) {
        Some(group) => {
            let name = &group.get_ref().name;
            Err(source.error(name.span(), format!("two groups of cells are called `{}`", name.get_ref())))
        }
        None => Ok(()),
    }
}

fn publish(source: &Source<'_>, factors: &Factors, file: &File, cells: &mut [Cell]) -> Result<()> {
    for published in &file.published {
        let id = select(source, factors, cells, &published.cell, &[])?;
        if let Some(cell) = cells.iter_mut().find(|cell| cell.id == id) {
            cell.published.clone_from(&published.values);
        }
    }
    Ok(())
}

fn comparisons(
    source: &Source<'_>,
    factors: &Factors,
    file: &File,
    cells: &[Cell],
) -> Result<Vec<Comparison>> {
    let mut all = Vec::new();
    for comparison in &file.comparisons {
        let (span, comparison) = (comparison.span(), comparison.get_ref());
        for (factor, level) in comparison.numerator.get_ref().iter().chain(comparison.denominator.get_ref()) {
            factors.level(source, factor, level)?;
        }
        let combinations = each(source, factors, cells, comparison)?;
        if combinations.is_empty() {
            return Err(source.error(span, "both sides of this comparison have no level of `each` in common"));
        }
        for extra in combinations {
            let words: Vec<String> = extra.iter().map(|(f, level)| format!("{f}={level}")).collect();
            let name = [std::slice::from_ref(&comparison.name), &words].concat().join(", ");
            all.push(Comparison {
                name,
                numerator: select(source, factors, cells, &comparison.numerator, &extra)?,
                denominator: select(source, factors, cells, &comparison.denominator, &extra)?,
                metric: comparison.metric.clone(),
                published: comparison.published,
                expected: comparison.expected,
            });
        }
    }
    Ok(all)
}

/// The combinations of levels of a comparison's `each` that both of its sides have.
fn each(
    source: &Source<'_>,
    factors: &Factors,
    cells: &[Cell],
    comparison: &file::Comparison,
) -> Result<Vec<Vec<(String, String)>>> {
    let mut combinations = vec![Vec::new()];
    for factor in &comparison.each {
        let levels = factors.levels(source, factor)?;
        combinations = combinations
            .iter()
            .flat_map(|c: &Vec<(String, String)>| {
                let name = factor.get_ref();
                levels.iter().map(move |level| [c.as_slice(), &[(name.clone(), level.clone())]].concat())
            })
            .collect();
    }
    let sides = [&comparison.numerator, &comparison.denominator];
    combinations.retain(|extra| sides.iter().all(|side| !matching(cells, side.get_ref(), extra).is_empty()));
    Ok(combinations)
}

fn matching<'c>(cells: &'c [Cell], selector: &Selector, extra: &[(String, String)]) -> Vec<&'c Cell> {
    let wanted = |cell: &&Cell| {
        let has = |factor: &str, level: &str| cell.levels.get(factor).is_some_and(|l| l == level);
        selector.iter().all(|(factor, level)| has(factor.get_ref(), level.get_ref()))
            && extra.iter().all(|(factor, level)| has(factor, level))
    };
    cells.iter().filter(wanted).collect()
}

/// The one cell that a selector selects: all its factors have these levels, and if several have, it has no
/// other factor.
fn select(
    source: &Source<'_>,
    factors: &Factors,
    cells: &[Cell],
    selector: &Spanned<Selector>,
    extra: &[(String, String)],
) -> Result<String> {
    for (factor, level) in selector.get_ref() {
        factors.level(source, factor, level)?;
    }
    let mut found = matching(cells, selector.get_ref(), extra);
    // A cell with these levels and no others is what was meant, even if others have more factors.
    let exactly = selector.get_ref().len() + extra.len();
    if found.iter().filter(|cell| cell.levels.len() == exactly).count() == 1 {
        found.retain(|cell| cell.levels.len() == exactly);
    }
    match found.as_slice() {
        [cell] => Ok(cell.id.clone()),
        [] => Err(source.error(selector.span(), "no cell has these levels")),
        [first, second, ..] => Err(source.error(
            selector.span(),
            format!("{} cells have these levels, such as {} and {}", found.len(), first.id, second.id),
        )),
    }
}

fn variants(
    source: &Source<'_>,
    factors: &Factors,
    file: &File,
) -> Result<BTreeMap<&'static str, file::Variant>> {
    let groups: Vec<&str> = file.cells.iter().map(|g| g.get_ref().name.get_ref().as_str()).collect();
    let all = [("simulate", &file.simulate), ("quick", &file.quick), ("full", &file.full)];
    let mut variants = BTreeMap::new();
    for (name, variant) in all {
        let Some(variant) = variant else { continue };
        for word in &variant.cells {
            if !groups.contains(&word.get_ref().as_str()) {
                let near = suggestion(word.get_ref(), groups.iter().copied());
                let what = format!("no group of cells is called `{}`{near}", word.get_ref());
                return Err(source.error(word.span(), what));
            }
        }
        for (factor, levels) in &variant.levels {
            for level in levels {
                factors.level(source, factor, level)?;
            }
        }
        check_amounts(source, name, variant)?;
        variants.insert(name, variant.clone());
    }
    Ok(variants)
}

fn check_amounts(source: &Source<'_>, name: &str, variant: &file::Variant) -> Result<()> {
    let at = source.text.find(&format!("[{name}]")).unwrap_or(0);
    let wrong = |what: &str| Err(source.error(at..at, format!("[{name}]: {what}")));
    let positive = |value: f64| value.is_finite() && value > 0.0;
    if !positive(variant.seconds) || variant.seconds > 86_400.0 {
        return wrong("`seconds` is above 0 and at most a day");
    }
    if variant.blocks.0 == 0 || variant.blocks.1 < variant.blocks.0 || variant.blocks.1 > 1000 {
        return wrong("`blocks` are the fewest, at least 1, and the most, at most 1000");
    }
    if !positive(variant.time_scale) || variant.time_scale < 1.0 {
        return wrong("`time_scale` is 1 or more");
    }
    if !positive(variant.half_width) {
        return wrong("`half_width` is above 0");
    }
    Ok(())
}

/// The copy of a cell under another label, for the null control.
pub(super) fn control_of(cell: &Cell) -> Cell {
    let mut copy = cell.clone();
    copy.levels.insert("control".to_owned(), CONTROL.to_owned());
    copy.id = format!("{},control={CONTROL}", cell.id);
    copy.published.clear();
    copy
}
