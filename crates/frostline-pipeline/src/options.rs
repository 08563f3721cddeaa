//! The options of a processor. Each is taken once, and what nobody took is an error.

use std::borrow::Cow;

use frostline_base::{Error, Result};

use crate::document::{Document, Done, Path, unfit};
use crate::limits::{PATTERNS_MAX, PROCESSORS_MAX};
use crate::regular::Pattern;
use crate::template::Template;
use crate::value::{Map, Value};

/// What is counted while a pipeline is read.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    processors: usize,
    patterns: usize,
    /// Files that processors cannot do without.
    pub(crate) files: Vec<String>,
}

impl Counts {
    pub(crate) fn processor(&mut self, place: &str) -> Result<()> {
        self.processors += 1;
        match self.processors <= PROCESSORS_MAX {
            true => Ok(()),
            false => Err(Error::invalid(format!("a pipeline has at most {PROCESSORS_MAX} processors"))
                .with("at", place)),
        }
    }
}

/// The options of one processor, or of a pipeline.
pub(crate) struct Options<'a> {
    pub(crate) place: String,
    /// How many processors this one is inside of.
    pub(crate) depth: usize,
    /// The type of the processor; none of a pipeline.
    pub(crate) kind: Option<&'static str>,
    pub(crate) tag: Option<String>,
    members: Map,
    pub(crate) counts: &'a mut Counts,
}

impl<'a> Options<'a> {
    pub(crate) fn new(
        place: String,
        depth: usize,
        json: &Value,
        counts: &'a mut Counts,
    ) -> Result<Options<'a>> {
        match json {
            Value::Object(members) => {
                Ok(Options { place, depth, kind: None, tag: None, members: members.clone(), counts })
            }
            _ => Err(Error::invalid("expected an object").with("at", place)),
        }
    }

    /// An option is wrong.
    pub(crate) fn wrong(&self, name: &str, what: impl std::fmt::Display) -> Error {
        let wrong = Error::invalid(format!("[{name}] {what}")).with("at", &self.place);
        let about = [("processor_type", self.kind), ("processor_tag", self.tag.as_deref())];
        let known = about.into_iter().filter_map(|(key, value)| Some((key, value?)));
        known.fold(wrong.with("property_name", name), |wrong, (key, value)| wrong.with(key, value))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.members.shift_remove(name).filter(|value| !value.is_null())
    }

    /// The same, also where it is null.
    pub(crate) fn take_any(&mut self, name: &str) -> Option<Value> {
        self.members.shift_remove(name)
    }

    pub(crate) fn required<T>(&self, name: &str, found: Option<T>) -> Result<T> {
        found.ok_or_else(|| self.wrong(name, "required property is missing"))
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(_) => Err(self.wrong(name, "property isn't a string")),
        }
    }

    pub(crate) fn flag(&mut self, name: &str, default: bool) -> Result<bool> {
        match self.take(name) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(Value::String(text)) if text == "true" => Ok(true),
            Some(Value::String(text)) if text == "false" => Ok(false),
            Some(_) => Err(self.wrong(name, "property isn't a boolean")),
        }
    }

    /// A list of texts, or one text.
    pub(crate) fn texts(&mut self, name: &str) -> Result<Option<Vec<String>>> {
        let text = |value: Value| match value {
            Value::String(text) => Ok(text),
            Value::Number(number) => Ok(number.to_string()),
            _ => Err(()),
        };
        let texts = match self.take(name) {
            None => return Ok(None),
            Some(Value::Array(all)) => all.into_iter().map(text).collect(),
            Some(other) => text(other).map(|text| vec![text]),
        };
        texts.map(Some).map_err(|()| self.wrong(name, "property is neither a string nor a list of strings"))
    }

    /// One of some words.
    pub(crate) fn one_of<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Result<Option<T>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, meaning)) => Ok(Some(*meaning)),
            None => {
                let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                Err(self.wrong(name, format!("is [{text}], not one of [{}]", known.join(", "))))
            }
        }
    }

    pub(crate) fn template(&mut self, name: &str) -> Result<Option<Template>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        Template::parse(&text).map(Some).map_err(|what| self.wrong(name, what))
    }

    /// A path, which may be a template.
    pub(crate) fn field(&mut self, name: &str) -> Result<Option<Field>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        Field::parse(&text).map(Some).map_err(|what| self.wrong(name, what))
    }

    pub(crate) fn required_field(&mut self, name: &str) -> Result<Field> {
        let field = self.field(name)?;
        self.required(name, field)
    }

    /// Paths that may be templates.
    pub(crate) fn fields(&mut self, name: &str) -> Result<Option<Vec<Field>>> {
        let Some(texts) = self.texts(name)? else { return Ok(None) };
        let fields: Result<Vec<Field>, String> = texts.iter().map(|text| Field::parse(text)).collect();
        fields.map(Some).map_err(|what| self.wrong(name, what))
    }

    pub(crate) fn required_pattern(&mut self, name: &str) -> Result<Pattern> {
        let text = self.text(name)?;
        let text = self.required(name, text)?;
        self.pattern(name, &text, false)
    }

    /// Compiles a pattern of this option, in which `^` and `$` are at the ends of lines if `is_lines`.
    pub(crate) fn pattern(&mut self, name: &str, text: &str, is_lines: bool) -> Result<Pattern> {
        self.count_patterns(name, 1)?;
        Pattern::compile(text, is_lines).map_err(|what| self.wrong(name, what))
    }

    /// Counts patterns that are compiled.
    pub(crate) fn count_patterns(&mut self, name: &str, count: usize) -> Result<()> {
        self.counts.patterns += count;
        match self.counts.patterns <= PATTERNS_MAX {
            true => Ok(()),
            false => {
                Err(self.wrong(name, format!("is one of more than {PATTERNS_MAX} patterns of the pipeline")))
            }
        }
    }

    /// Refuses what nobody took.
    pub(crate) fn finish(self) -> Result<()> {
        match self.members.keys().next() {
            None => Ok(()),
            Some(name) => Err(self.wrong(name, "is not known here")),
        }
    }
}

/// A path, or a template of one.
#[derive(Debug)]
pub(crate) enum Field {
    Fixed(Path),
    Rendered(Template),
}

impl Field {
    pub(crate) fn parse(text: &str) -> Result<Field, String> {
        let template = Template::parse(text)?;
        match template.fixed() {
            Some(fixed) => Path::parse(fixed).map(Field::Fixed),
            None => Ok(Field::Rendered(template)),
        }
    }

    pub(crate) fn path(&self, document: &Document) -> Done<Cow<'_, Path>> {
        match self {
            Field::Fixed(path) => Ok(Cow::Borrowed(path)),
            Field::Rendered(template) => match template.render(document)? {
                empty if empty.is_empty() => Err(unfit("field path cannot be null nor empty")),
                text => Path::parse(&text).map(Cow::Owned).map_err(unfit),
            },
        }
    }

    /// The same; none where a template is empty, if that is allowed.
    pub(crate) fn path_if_any(
        &self,
        document: &Document,
        ignore_missing: bool,
    ) -> Done<Option<Cow<'_, Path>>> {
        match self {
            Field::Rendered(template) if ignore_missing && template.render(document)?.is_empty() => Ok(None),
            field => field.path(document).map(Some),
        }
    }
}
