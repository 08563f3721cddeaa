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

use crate::document::{Document, Done, Failure, READ, Stop, failure, unfit};
use crate::limits::{SCRIPT_BYTES_MAX, UPDATE_READ_BYTES_MAX};
use crate::original::Original;
use crate::value::{Map, Value};

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

/// What a script of an update sees of a document besides its fields, and changes.
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
}

/// Why a script of an update left no document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// It failed.
    Failed(Box<Failure>),
    /// Those of its request together looked at too much.
    Spent,
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
                        "lang" if value.as_str() == Some("painless") => {}
                        "lang" => {
                            return Err(Error::invalid(format!(
                                "script_lang not supported [{value}]: use painless"
                            )));
                        }
                        "id" => {
                            let what = "a script is given by its [source]: stored ones are those of searches";
                            return Err(Error::invalid(what));
                        }
                        "options" if value.as_object().is_some_and(Map::is_empty) => {}
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
    pub(crate) fn read(source: &str, params: Map, is_condition: bool) -> Result<Script> {
        if source.len() > SCRIPT_BYTES_MAX {
            return Err(Error::invalid(format!("a script has at most {SCRIPT_BYTES_MAX} bytes")));
        }
        let (tree, patterns) = read::read(source, is_condition)?;
        Ok(Script { source: source.to_owned(), tree, params: params.into(), patterns })
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

    /// Changes a document in a pipeline. What it did before it failed is done, unless that cannot be stored.
    pub(crate) fn change(&self, document: &mut Document) -> Done {
        let original = document.source().clone();
        let Value::Object(mut members) = document.take_source() else { return Ok(()) };
        members.insert("_index".to_owned(), document.index().into());
        if let Some(id) = document.id() {
            members.insert("_id".to_owned(), id.into());
        }
        // Those who handle its failure see what it did.
        let (done, given) = self.run(Value::Object(members), document, true);
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
            unstored => {
                document.set_source(original);
                done?;
                Err(unstored.err().unwrap_or_else(|| unfit("the script leaves no document")))
            }
        }
    }

    /// Changes a document that is updated at a time. Its text as the script leaves it: what nothing changed is as it was
    /// written. What it looks at beyond `own_bytes` is taken from what `shared_bytes` has left.
    pub fn update(
        &self,
        edited: &mut Edited,
        text: &[u8],
        now_us: i64,
        own_bytes: u64,
        shared_bytes: &mut u64,
    ) -> std::result::Result<Vec<u8>, Unfinished> {
        let read_max = own_bytes.saturating_add(*shared_bytes).min(UPDATE_READ_BYTES_MAX);
        let failed = |failure| Unfinished::Failed(Box::new(failure));
        let (original, source) = Original::read(text)
            .map_err(|error| failed(Failure::of("illegal_argument_exception", error.what().to_owned())))?;
        let document = Document::new(&edited.index, Some(&edited.id), source, now_us).read_at_most(read_max);
        let (done, left_read) = self.update_read(edited, document, text.len() as u64, now_us);
        *shared_bytes = shared_bytes.saturating_sub((read_max - left_read).saturating_sub(own_bytes));
        let source = done.map_err(|stop| match stop {
            Stop::Fail(failure) if failure.is_limit && left_read == 0 && read_max < UPDATE_READ_BYTES_MAX => {
                Unfinished::Spent
            }
            Stop::Fail(failure) => Unfinished::Failed(failure),
            _ => failed(Failure::of(names::SCRIPT, "the script has ended".to_owned())),
        })?;
        Ok(original.write(&source))
    }

    /// The fields that it leaves, and what it could still have looked at.
    fn update_read(
        &self,
        edited: &mut Edited,
        mut document: Document,
        text_bytes: u64,
        now_us: i64,
    ) -> (Done<Value>, u64) {
        if let Err(stop) = document.look(text_bytes, READ) {
            return (Err(stop), 0);
        }
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
        let (done, given) = self.run(Value::Object(context), &document, false);
        (done.and_then(|()| left(given?, edited)), document.left_read())
    }

    /// Runs it over a context. What became of that; where the script failed, only if `also_failed`.
    fn run(&self, context: Value, meter: &Document, also_failed: bool) -> (Done, Done<Value>) {
        let mut run = Run::new(&self.tree, meter, Got::Null, Got::of_json(&self.params));
        match run.take(context) {
            Ok(context) => {
                run.context = context.clone();
                let done = run.execute().map(drop);
                let given = match done {
                    Err(_) if !also_failed => Ok(Value::Null),
                    _ => run.give(&context, 0),
                };
                (done, given)
            }
            Err(stop) => (Ok(()), Err(stop)),
        }
    }
}

/// Takes what a script of an update left. The fields of the document.
fn left(context: Value, edited: &mut Edited) -> Done<Value> {
    let Value::Object(mut context) = context else { return Err(unfit("[ctx] is an object")) };
    let mut text = |name: &str| match context.shift_remove(name) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        _ => Err(unfit(format!("[{name}] is a text that is not empty"))),
    };
    let (index, id, op) = (text("_index")?, text("_id")?, text("op")?);
    let source = context.shift_remove("_source").filter(Value::is_object);
    let source = source.ok_or_else(|| unfit("[_source] is an object"))?;
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
    *edited = Edited { index, id, version, op };
    Ok(source)
}

#[cfg(test)]
mod tests;
