//! Processors that decide what runs: `drop`, `fail`, `foreach`, `pipeline`, `terminate`.

use frostline_base::Result;

use crate::document::{Document, Done, Stop, failure, not_a, unfit, weight};
use crate::options::{Field, Options};
use crate::pipeline::{Processor, Run, Step, read_step};
use crate::template::Template;
use crate::value::{Map, Value};

#[derive(Debug)]
struct Drop;

pub(crate) fn drop_document(_: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    Ok(Box::new(Drop))
}

impl Processor for Drop {
    fn run(&self, _: &mut Document, _: &mut Run<'_>) -> Done {
        Err(Stop::Drop)
    }
}

#[derive(Debug)]
struct Terminate;

pub(crate) fn terminate(_: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    Ok(Box::new(Terminate))
}

impl Processor for Terminate {
    fn run(&self, _: &mut Document, _: &mut Run<'_>) -> Done {
        Err(Stop::Terminate)
    }
}

#[derive(Debug)]
struct Fail {
    message: Template,
}

pub(crate) fn fail(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    let message = options.template("message")?;
    Ok(Box::new(Fail { message: options.required("message", message)? }))
}

impl Processor for Fail {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        Err(failure("fail_processor_exception", self.message.render(document)?))
    }
}

#[derive(Debug)]
struct Pipeline {
    name: Template,
    ignore_missing: bool,
}

pub(crate) fn pipeline(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    let name = options.template("name")?;
    Ok(Box::new(Pipeline {
        name: options.required("name", name)?,
        ignore_missing: options.flag("ignore_missing_pipeline", false)?,
    }))
}

impl Processor for Pipeline {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Done {
        let name = self.name.render(document)?;
        match run.pipelines.get(&name) {
            Some(pipeline) => run.pipeline(&name, &pipeline, document),
            None if self.ignore_missing => Ok(()),
            None => Err(failure(
                "illegal_state_exception",
                format!("Pipeline processor configured for non-existent pipeline [{name}]"),
            )),
        }
    }
}

#[derive(Debug)]
struct Foreach {
    field: Field,
    ignore_missing: bool,
    step: Box<Step>,
}

pub(crate) fn foreach(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    let processor = options.take("processor");
    let processor = options.required("processor", processor)?;
    let place = format!("{}.processor", options.place);
    Ok(Box::new(Foreach {
        field: options.required_field("field")?,
        ignore_missing: options.flag("ignore_missing", false)?,
        step: Box::new(read_step(&processor, &place, options.depth + 1, options.counts)?),
    }))
}

impl Foreach {
    /// Runs the processor over a value, with its name where it is of an object. Both as they are afterwards.
    fn one(
        &self,
        key: Option<&str>,
        value: Value,
        document: &mut Document,
        run: &mut Run<'_>,
    ) -> Done<(Option<Value>, Option<Value>)> {
        let outer_value = document.set_ingest("_value", Some(value));
        let outer_key = document.set_ingest("_key", key.map(Value::from));
        let done = run.part(&self.step, document);
        let value = document.set_ingest("_value", outer_value);
        let key = document.set_ingest("_key", outer_key);
        done.map(|()| (key, value))
    }
}

impl Processor for Foreach {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Done {
        let path = self.field.path(document)?.into_owned();
        let Some(found) = document.need(&path, self.ignore_missing)? else { return Ok(()) };
        document.spend(weight(found))?;
        let changed = match found.clone() {
            Value::Array(elements) => {
                let mut changed = Vec::with_capacity(elements.len());
                for element in elements {
                    let (_, value) = self.one(None, element, document, run)?;
                    changed.push(value.unwrap_or_default());
                }
                Value::Array(changed)
            }
            Value::Object(members) => {
                let mut changed = Map::new();
                for (name, member) in members {
                    let (key, value) = self.one(Some(&name), member, document, run)?;
                    match key {
                        Some(Value::String(key)) => drop(changed.insert(key, value.unwrap_or_default())),
                        _ => return Err(unfit("[_ingest._key] is not a string")),
                    }
                }
                Value::Object(changed)
            }
            other => return Err(not_a(&path, &other, "an array or an object")),
        };
        document.put(&path, changed)
    }
}
