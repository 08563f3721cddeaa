//! Scripts in a part of Painless: conditions of processors, the processor `script`, and scripts of updates.
//!
//! ```text
//! script     = { function } { statement }
//! function   = type name "(" [ type name { "," type name } ] ")" block
//! statement  = block | type name [ "=" expression ] { "," name [ "=" expression ] } ";" | expression ";"
//!            | "if" "(" expression ")" body [ "else" body ] | "while" "(" expression ")" body
//!            | "do" body "while" "(" expression ")" ";"
//!            | "for" "(" [ statement ] ";" [ expression ] ";" [ expression { "," expression } ] ")" body
//!            | "for" "(" ( type name ":" | name "in" ) expression ")" body
//!            | "break" ";" | "continue" ";" | "return" [ expression ] ";" | "throw" expression ";"
//!            | "try" block { "catch" "(" exception name ")" block }
//! expression = target ( "=" | "+=" | … ) expression | choice
//! choice     = binary [ "?" expression ":" expression | "?:" choice ]
//! unary      = ( "!" | "-" | "+" | "~" | "++" | "--" | "(" type ")" ) unary | value [ "++" | "--" ]
//! value      = ( literal | name | "[" … "]" | "(" expression ")" | "new" class "(" … ")" | class "." name "(" … ")" ) { link }
//! link       = ( "." | "?." ) name [ "(" … ")" ] | "[" expression "]"
//! ```
//!
//! What a script is made of is known when it is read: names, functions, methods and how many arguments these take. What
//! is not known is Invalid, with its position. Types are checked when it runs. Which words there are is in `names`.

use frostline_base::{Error, Result};
use serde_json::{Map, Value};

use crate::document::{Document, Done, Failure, Stop, failure, limit, unfit};
use crate::limits::{SCRIPT_BYTES_MAX, UPDATE_READ_BYTES_MAX};

mod methods;
mod names;
mod operate;
mod read;
mod run;
mod tokens;
mod tree;
mod value;

use run::Run;
use value::Got;

/// A script that was read.
#[derive(Debug)]
pub struct Script {
    source: String,
    tree: tree::Tree,
    /// An object.
    params: Value,
    /// How many patterns it has.
    patterns: usize,
}

/// A document that a script of an update changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Edited {
    /// The index that it is in, or goes to.
    pub index: String,
    /// Its `_id`.
    pub id: String,
    /// Its version, if it is there.
    pub version: Option<i64>,
    /// What is to be done with it: `index` and the like.
    pub op: String,
    /// Its fields.
    pub source: Map<String, Value>,
}

impl Script {
    /// Reads a script as Elasticsearch writes it: its source, or an object with that, `lang` and `params`. `Invalid`
    /// where it is not understood.
    pub fn parse(json: &Value) -> Result<Script> {
        let (source, params) = match json {
            Value::String(source) => (source, None),
            Value::Object(members) => {
                for (name, value) in members {
                    match name.as_str() {
                        "source" | "params" => {}
                        "lang" if value == "painless" => {}
                        "lang" => {
                            return Err(Error::invalid(format!(
                                "script_lang not supported [{value}]: use painless"
                            )));
                        }
                        "id" => {
                            let what = "a script is given by its [source]: stored ones are those of searches";
                            return Err(Error::invalid(what));
                        }
                        "options" if value == &Value::Object(Map::new()) => {}
                        other => return Err(Error::invalid(format!("[script] unknown field [{other}]"))),
                    }
                }
                match members.get("source") {
                    Some(Value::String(source)) => (source, members.get("params")),
                    _ => return Err(Error::invalid("must specify either [source] for an inline script")),
                }
            }
            _ => return Err(Error::invalid("a script is a text or an object")),
        };
        let params = match params {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(params)) => params.clone(),
            Some(_) => return Err(Error::invalid("[params] of a script is an object")),
        };
        Script::read(source, params, false)
    }

    /// Reads the source of a script. That of a condition cannot change anything.
    pub(crate) fn read(source: &str, params: Map<String, Value>, is_condition: bool) -> Result<Script> {
        if source.len() > SCRIPT_BYTES_MAX {
            return Err(Error::invalid(format!("a script has at most {SCRIPT_BYTES_MAX} bytes")));
        }
        let (tree, patterns) = read::read(source, is_condition)?;
        Ok(Script { source: source.to_owned(), tree, params: Value::Object(params), patterns })
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// How many patterns it has, each of which takes up to [`crate::limits::PATTERN_BYTES_MAX`] of memory.
    pub fn patterns(&self) -> usize {
        self.patterns
    }

    /// Whether a document meets it as a condition.
    pub(crate) fn holds(&self, document: &Document) -> Done<bool> {
        let mut run = Run::new(&self.tree, document, Got::Context(document), Got::of_json(&self.params));
        match run.execute()? {
            Got::Boolean(holds) => Ok(holds),
            other => {
                let kind = run.kind(&other);
                Err(failure(names::SCRIPT, format!("a condition is a [{kind}], not a boolean")))
            }
        }
    }

    /// Changes a document in a pipeline. What it did before it failed is done.
    pub(crate) fn change(&self, document: &mut Document) -> Done {
        let Value::Object(mut members) = document.take_source() else { return Ok(()) };
        members.insert("_index".to_owned(), document.index().into());
        if let Some(id) = document.id() {
            members.insert("_id".to_owned(), id.into());
        }
        let (done, given) = self.run(Value::Object(members), document);
        match given {
            Ok(Value::Object(mut members)) => {
                let (index, id) = (members.shift_remove("_index"), members.shift_remove("_id"));
                document.set_source(Value::Object(members));
                done?;
                match index {
                    Some(Value::String(index)) if !index.is_empty() => document.put_index(index)?,
                    _ => return Err(unfit("[_index] is a text that is not empty")),
                }
                document.put_id(id)
            }
            // There is no document that a handler could see.
            other => {
                document.set_source(Value::Object(Map::new()));
                done?;
                match other {
                    Err(Stop::Fail(failure)) => Err(limit(failure.reason)),
                    _ => Err(limit("the script leaves no document".to_owned())),
                }
            }
        }
    }

    /// Changes a document that is updated at a time.
    pub fn update(&self, edited: &mut Edited, now_us: i64) -> std::result::Result<(), Failure> {
        let source = std::mem::take(&mut edited.source);
        let document = Document::new(&edited.index, Some(&edited.id), source, now_us);
        let mut document = document.read_at_most(UPDATE_READ_BYTES_MAX);
        let mut context = Map::new();
        for (name, value) in [
            ("_index", Value::from(edited.index.as_str())),
            ("_id", Value::from(edited.id.as_str())),
            ("_version", edited.version.map_or(Value::Null, Value::from)),
            ("_routing", Value::Null),
            ("_now", Value::from(now_us.div_euclid(1_000))),
            ("op", Value::from(edited.op.as_str())),
            ("_source", document.take_source()),
        ] {
            context.insert(name.to_owned(), value);
        }
        let (done, given) = self.run(Value::Object(context), &document);
        let failed = |stop| match stop {
            Stop::Fail(failure) => *failure,
            _ => Failure::of(names::SCRIPT, "the script has ended".to_owned()),
        };
        done.and_then(|()| left(given?, edited)).map_err(failed)
    }

    /// Runs it over a context. What became of that, also where the script failed.
    fn run(&self, context: Value, meter: &Document) -> (Done, Done<Value>) {
        let mut run = Run::new(&self.tree, meter, Got::Null, Got::of_json(&self.params));
        match run.take(context) {
            Ok(context) => {
                run.context = context.clone();
                let done = run.execute().map(drop);
                let given = run.give(&context, 0);
                (done, given)
            }
            Err(stop) => (Ok(()), Err(stop)),
        }
    }
}

/// Takes what a script of an update left.
fn left(context: Value, edited: &mut Edited) -> Done {
    let Value::Object(mut context) = context else { return Err(unfit("[ctx] is an object")) };
    let mut text = |name: &str| match context.shift_remove(name) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        _ => Err(unfit(format!("[{name}] is a text that is not empty"))),
    };
    let (index, id, op) = (text("_index")?, text("_id")?, text("op")?);
    let Some(Value::Object(source)) = context.shift_remove("_source") else {
        return Err(unfit("[_source] is an object"));
    };
    let version = match context.shift_remove("_version") {
        None | Some(Value::Null) => None,
        Some(version) => Some(version.as_i64().ok_or_else(|| unfit("[_version] is a whole number"))?),
    };
    context.shift_remove("_now");
    if context.shift_remove("_routing").is_some_and(|routing| !routing.is_null()) {
        return Err(unfit("[_routing] is not supported: documents are not routed"));
    }
    if let Some(name) = context.keys().next() {
        return Err(unfit(format!(
            "[ctx] has no member [{}]: fields are in [ctx._source]",
            crate::document::shown(name)
        )));
    }
    *edited = Edited { index, id, version, op, source };
    Ok(())
}

#[cfg(test)]
mod tests;
