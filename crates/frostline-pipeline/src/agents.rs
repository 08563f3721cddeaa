//! The processor `user_agent`: which program sent a request, on which system and device.
//!
//! Patterns are those of a file in the format of uap-core, which the caller reads and hands out by its name. Without one,
//! a table of the most common programs does, which is in that format, too (`agents/common.yaml`).

use std::sync::{Arc, OnceLock};

use frostline_base::{Error, Result};
use serde_json::{Map, Value as Json, json};

use crate::document::{Document, Done, READ, shown, unfit};
use crate::options::{Field, Options};
use crate::pipeline::{Processor, Run};

mod rules;
mod yaml;

use rules::{Part, Rule, first};

/// What is looked at of a user agent: no program says more.
const AGENT_BYTES_MAX: usize = 4 << 10;
/// What a byte of it counts, since it is searched for many patterns.
const PATTERNS_COST: u64 = 256;
/// The longest file of patterns.
const FILE_BYTES_MAX: usize = 16 << 20;

const AGENT: &[&str] =
    &["family_replacement", "v1_replacement", "v2_replacement", "v3_replacement", "v4_replacement"];
const SYSTEM: &[&str] =
    &["os_replacement", "os_v1_replacement", "os_v2_replacement", "os_v3_replacement", "os_v4_replacement"];
const DEVICE: &[&str] = &["device_replacement", "brand_replacement", "model_replacement"];

/// Patterns of user agents.
pub struct Agents {
    agents: Vec<Rule>,
    systems: Vec<Rule>,
    devices: Vec<Rule>,
}

impl std::fmt::Debug for Agents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agents").finish_non_exhaustive()
    }
}

impl Agents {
    /// Reads patterns in the format of `regexes.yaml` of uap-core. `Invalid`, with the line, where a part is not
    /// understood.
    pub fn parse(text: &str) -> Result<Agents> {
        if text.len() > FILE_BYTES_MAX {
            return Err(Error::invalid(format!("a file of patterns has at most {FILE_BYTES_MAX} bytes")));
        }
        let mut agents = Agents { agents: Vec::new(), systems: Vec::new(), devices: Vec::new() };
        for item in yaml::items(text)? {
            let yaml::Item { section, line, mut members } = item;
            let regex =
                members.remove("regex").ok_or_else(|| yaml::wrong("an item without [regex]", line))?;
            let mut parts = |names: &[&str], templates: &[usize]| {
                let all = names.iter().zip(templates).zip(1..);
                all.map(|((name, groups), group)| {
                    let template = members.remove(*name).filter(|template| !template.trim().is_empty());
                    template.map_or(Part::Group(group), |template| Part::Template(template, *groups))
                })
                .collect::<Vec<Part>>()
            };
            // Of an agent, only the name has a group in its text.
            let (into, parts) = match section.as_str() {
                "user_agent_parsers" => (&mut agents.agents, parts(AGENT, &[1, 0, 0, 0, 0])),
                "os_parsers" => (&mut agents.systems, parts(SYSTEM, &[9; 5])),
                "device_parsers" => (&mut agents.devices, parts(DEVICE, &[9; 3])),
                other => return Err(yaml::wrong(&format!("a section [{}]", shown(other)), line)),
            };
            let ignores_case = match members.remove("regex_flag").as_deref() {
                None => false,
                Some("i") => true,
                Some(_) => return Err(yaml::wrong("a [regex_flag] that is not i", line)),
            };
            if let Some(other) = members.keys().next() {
                return Err(yaml::wrong(&format!("a member [{}]", shown(other)), line));
            }
            into.push(Rule::new(&regex, ignores_case, parts)?);
        }
        Ok(agents)
    }

    /// The table of the most common programs.
    fn common() -> Done<Arc<Agents>> {
        static COMMON: OnceLock<Option<Arc<Agents>>> = OnceLock::new();
        let common =
            COMMON.get_or_init(|| Agents::parse(include_str!("agents/common.yaml")).ok().map(Arc::new));
        common.clone().ok_or_else(|| unfit("the table of common user agents cannot be read"))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Property {
    Name,
    Os,
    Device,
    Original,
    Version,
}

const PROPERTIES: &[(&str, Property)] = &[
    ("name", Property::Name),
    ("os", Property::Os),
    ("device", Property::Device),
    ("original", Property::Original),
    ("version", Property::Version),
];

#[derive(Debug)]
struct UserAgent {
    field: Field,
    target: Field,
    /// The file of patterns; none for the table.
    file: Option<String>,
    properties: Vec<Property>,
    ignore_missing: bool,
}

pub(crate) fn user_agent(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    if options.flag("extract_device_type", false)? {
        return Err(options.wrong("extract_device_type", "is not supported: it would guess from names"));
    }
    let target = match options.field("target_field")? {
        Some(target) => target,
        None => Field::parse("user_agent").map_err(|what| options.wrong("target_field", what))?,
    };
    let properties = match options.texts("properties")? {
        None => PROPERTIES.iter().map(|(_, property)| *property).collect(),
        Some(names) => {
            let mut properties = Vec::new();
            for name in names {
                match PROPERTIES.iter().find(|(known, _)| name.eq_ignore_ascii_case(known)) {
                    Some((_, property)) => properties.push(*property),
                    None => {
                        let known: Vec<&str> = PROPERTIES.iter().map(|(known, _)| *known).collect();
                        let known = known.join(", ");
                        let what =
                            format!("illegal property value [{}]. valid values are [{known}]", shown(&name));
                        return Err(options.wrong("properties", what));
                    }
                }
            }
            properties
        }
    };
    let file = options.text("regex_file")?;
    if let Some(file) = &file {
        let is_yaml = file.ends_with(".yml") || file.ends_with(".yaml");
        if !is_yaml || file.starts_with('.') || file.contains(['/', '\\']) {
            return Err(options.wrong("regex_file", "is the name of a file that ends in .yml or .yaml"));
        }
        options.counts.files.push(file.clone());
    }
    Ok(Box::new(UserAgent {
        field: options.required_field("field")?,
        target,
        file,
        properties,
        ignore_missing: options.flag("ignore_missing", false)?,
    }))
}

/// The name that a rule says, and the parts of the version after it, by dots, until one is missing.
fn named(said: Option<Vec<Option<String>>>) -> (Option<String>, Option<String>) {
    let mut said = said.unwrap_or_default().into_iter();
    let name = said.next().flatten();
    let version: Vec<String> = said.map_while(|part| part).collect();
    (name, (!version.is_empty()).then(|| version.join(".")))
}

impl UserAgent {
    fn describe(&self, agents: &Agents, original: &str) -> Map<String, Json> {
        let looked_at = &original[..original.floor_char_boundary(AGENT_BYTES_MAX)];
        let has = |property| self.properties.contains(&property);
        let mut told = Map::new();
        if has(Property::Name) || has(Property::Version) {
            let (name, version) = named(first(&agents.agents, looked_at));
            if has(Property::Name) {
                told.insert("name".to_owned(), name.unwrap_or_else(|| "Other".to_owned()).into());
            }
            if let Some(version) = version.filter(|_| has(Property::Version)) {
                told.insert("version".to_owned(), version.into());
            }
        }
        if has(Property::Os)
            && let (Some(name), version) = named(first(&agents.systems, looked_at))
        {
            let mut os = json!({ "name": name });
            if let Some(version) = version {
                os["full"] = format!("{name} {version}").into();
                os["version"] = version.into();
            }
            told.insert("os".to_owned(), os);
        }
        if has(Property::Device) {
            let device = first(&agents.devices, looked_at).and_then(|said| said.into_iter().next().flatten());
            let name = device.unwrap_or_else(|| "Other".to_owned());
            told.insert("device".to_owned(), json!({ "name": name }));
        }
        if has(Property::Original) {
            told.insert("original".to_owned(), original.into());
        }
        told
    }
}

impl Processor for UserAgent {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Done {
        let path = self.field.path(document)?;
        let Some(original) = document.need_text(&path, self.ignore_missing)? else { return Ok(()) };
        document.look(original.len().min(AGENT_BYTES_MAX) as u64 * PATTERNS_COST, READ)?;
        document.spend(original.len() as u64)?;
        let agents = match &self.file {
            None => Agents::common()?,
            Some(file) => run.pipelines.agents(file).ok_or_else(|| unfit(missing(file)))?,
        };
        let told = self.describe(&agents, original);
        let target = self.target.path(document)?.into_owned();
        document.put(&target, told.into())
    }
}

/// Why a file of patterns is not there.
fn missing(file: &str) -> String {
    format!("regex file [{}] doesn't exist: put it into the folder of --ingest-files", shown(file))
}

#[cfg(test)]
mod tests;
