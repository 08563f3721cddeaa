//! The processor `script`.

use frostline_base::Result;

use crate::document::{Document, Done};
use crate::options::Options;
use crate::painless::Script;
use crate::pipeline::{Processor, Run};
use crate::value::{Map, Value};

#[derive(Debug)]
struct Change {
    script: Script,
}

pub(crate) fn script(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    options.one_of("lang", &[("painless", ())])?;
    if options.has("id") {
        return Err(
            options.wrong("id", "is not supported: stored scripts are those of searches, give a [source]")
        );
    }
    let params = match options.take("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => return Err(options.wrong("params", "property isn't a map")),
    };
    let source = options.text("source")?;
    let source = options.required("source", source)?;
    let script =
        Script::read(&source, params, false).map_err(|error| options.wrong("source", error.what()))?;
    options.count_patterns("source", script.patterns())?;
    Ok(Box::new(Change { script }))
}

impl Processor for Change {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        self.script.change(document)
    }
}

#[cfg(test)]
mod tests;
