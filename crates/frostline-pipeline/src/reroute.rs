//! `reroute`: sends a document to another data stream or index, whose default pipeline is next.

use frostline_base::Result;

use crate::document::{Document, Done, Path, Stop, not_a, unfit};
use crate::options::Options;
use crate::pipeline::{Processor, Run};
use crate::value::Value;

/// The longest part of a name.
const PART_BYTES_MAX: usize = 100;

#[derive(Debug)]
enum Reroute {
    To(String),
    /// Its type, dataset and namespace.
    Stream(Box<[Part; 3]>),
}

/// A part of the name of a data stream: the first of some values, else that of its name so far.
#[derive(Debug)]
struct Part {
    values: Vec<From>,
    /// The field that then says the same.
    field: Path,
    /// Whether it may have a hyphen.
    has_hyphens: bool,
}

#[derive(Debug)]
enum From {
    Fixed(String),
    Field(Path),
}

pub(crate) fn reroute(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    let destination = options.text("destination")?;
    let of_stream = ["dataset", "namespace", "type"].into_iter().find(|name| options.has(name));
    Ok(Box::new(match (destination, of_stream) {
        (Some(_), Some(name)) => {
            let what = "can only be set if dataset, namespace, and type are not set";
            return Err(options.wrong("destination", format!("{what}: there is a {name}")));
        }
        (Some(destination), None) => Reroute::To(destination),
        (None, _) => Reroute::Stream(Box::new([
            Part::read(options, "type", false)?,
            Part::read(options, "dataset", false)?,
            Part::read(options, "namespace", true)?,
        ])),
    }))
}

impl Part {
    fn read(options: &mut Options<'_>, name: &str, has_hyphens: bool) -> Result<Part> {
        let field = format!("data_stream.{name}");
        let values = options.texts(name)?.unwrap_or_else(|| vec![format!("{{{{{field}}}}}")]);
        let read = |text: &String| match text.strip_prefix("{{").and_then(|text| text.strip_suffix("}}")) {
            Some(field) => {
                let field =
                    field.strip_prefix('{').and_then(|field| field.strip_suffix('}')).unwrap_or(field);
                Path::parse(field.trim()).map(From::Field)
            }
            None if fitting(text, has_hyphens) == *text && !text.is_empty() => Ok(From::Fixed(text.clone())),
            None => Err(format!("[{text}] cannot be a part of the name of a data stream")),
        };
        let values: std::result::Result<Vec<From>, String> = values.iter().map(read).collect();
        let field = Path::parse(&field).map_err(|what| options.wrong(name, what))?;
        Ok(Part { values: values.map_err(|what| options.wrong(name, what))?, field, has_hyphens })
    }

    fn of(&self, document: &Document, so_far: &str) -> Done<String> {
        for value in &self.values {
            match value {
                From::Fixed(text) => return Ok(text.clone()),
                From::Field(path) => match document.find(path) {
                    None | Some(Value::Null) => {}
                    Some(Value::String(text)) if text.is_empty() => {}
                    Some(Value::String(text)) => return Ok(fitting(text, self.has_hyphens)),
                    Some(other) => return Err(not_a(path, other, "a string")),
                },
            }
        }
        Ok(so_far.to_owned())
    }
}

/// A text as a part of a name: in lower case, with an underscore for what a name cannot have.
fn fitting(text: &str, has_hyphens: bool) -> String {
    let text = text.to_lowercase();
    let is_odd = |c: char| {
        matches!(c, '\\' | '/' | '*' | '?' | '"' | '<' | '>' | '|' | ' ' | ',' | '#' | ':')
            || (c == '-' && !has_hyphens)
    };
    text[..text.floor_char_boundary(PART_BYTES_MAX)].replace(is_odd, "_")
}

impl Processor for Reroute {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        let [kind, dataset, namespace] = match self {
            Reroute::To(destination) => {
                document.put_index(destination.clone())?;
                return Err(Stop::Reroute);
            }
            Reroute::Stream(parts) => parts.as_ref(),
        };
        let name = document.index().to_owned();
        let parts = name.split_once('-').and_then(|(kind, rest)| Some((kind, rest.rsplit_once('-')?)));
        let (old_kind, (old_dataset, old_namespace)) = parts.ok_or_else(|| {
            unfit(format!(
                "invalid data stream name: [{name}]; must follow naming scheme <type>-<dataset>-<namespace>"
            ))
        })?;
        let new = [
            (kind, kind.of(document, old_kind)?),
            (dataset, dataset.of(document, old_dataset)?),
            (namespace, namespace.of(document, old_namespace)?),
        ];
        document.put_index(new.each_ref().map(|(_, text)| text.as_str()).join("-"))?;
        // The Elastic Common Schema has the name of the dataset there, too.
        let event = Path::parse("event.dataset").map_err(unfit)?;
        if document.find(&event).is_some() {
            document.put(&event, new[1].1.clone().into())?;
        }
        for (part, text) in new {
            document.put(&part.field, text.into())?;
        }
        Err(Stop::Reroute)
    }
}

#[cfg(test)]
mod tests;
