//! Methods of values, functions of classes, and what `new` makes.

use std::cmp::Ordering;
use std::ops::Range;
use std::rc::Rc;

use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use base64::engine::{DecodePaddingMode, Engine};
use frostline_java::Found;

use super::names::{CAST, ILLEGAL, NO_ELEMENT, NO_NUMBER, NULL, OUTSIDE, SCRIPT, STATE};
use super::run::{ELEMENT_BYTES, Run, fail, of_char, place_of};
use super::tree::{Class, Lambda, Pattern, Static};
use super::value::{Collector, Got, Groups, Members, Object, Part, Text};
use crate::document::{Done, READ, failure, shown};
use crate::value::{Map, Value};

/// Methods that change what they are of.
const CHANGES: &[&str] = &[
    "add",
    "addAll",
    "clear",
    "computeIfAbsent",
    "put",
    "putAll",
    "putIfAbsent",
    "remove",
    "removeIf",
    "replaceAll",
    "set",
    "sort",
];

/// As Java reads it: bytes are padded or not, and what is left of the last one does not count.
fn base64(text: &str) -> Option<String> {
    let padding = match text.contains('=') {
        true => DecodePaddingMode::RequireCanonical,
        false => DecodePaddingMode::RequireNone,
    };
    let config =
        GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true).with_decode_padding_mode(padding);
    let bytes = GeneralPurpose::new(&alphabet::STANDARD, config).decode(text.as_bytes()).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// What is between tokens unless a script says otherwise.
const BLANKS: &str = " \t\n\r\u{c}";

impl<'a> Run<'a> {
    /// Calls a method of a value.
    pub(super) fn method(
        &mut self,
        of: &Got<'a>,
        name: &'static str,
        arguments: &[Got<'a>],
        function: Option<&'a Lambda>,
    ) -> Done<Got<'a>> {
        match (name, arguments) {
            ("equals", [other]) => return self.equal(of, other, 0).map(Got::Boolean),
            ("toString", []) => return self.text_of(of).and_then(|text| self.make_text(text)),
            _ => {}
        }
        match function {
            Some(_) => self.holding(of, |run| run.dispatched(of, name, arguments, function)),
            None => self.dispatched(of, name, arguments, function),
        }
    }

    fn dispatched(
        &mut self,
        of: &Got<'a>,
        name: &'static str,
        arguments: &[Got<'a>],
        function: Option<&'a Lambda>,
    ) -> Done<Got<'a>> {
        match of {
            Got::Text(text) => self.of_text(&text.clone(), name, arguments, function),
            Got::Int(_) | Got::Long(_) | Got::Big(_) | Got::Float(_) | Got::Double(_) => {
                self.of_number(of, name, arguments)
            }
            Got::Boolean(flag) if name == "booleanValue" => Ok(Got::Boolean(*flag)),
            Got::Json(_) | Got::Context(_) if CHANGES.contains(&name) => {
                fail(ILLEGAL, "what a condition or [params] has cannot be changed: make a copy of it")
            }
            Got::Json(Value::Array(_)) => self.of_collection(of, name, arguments, function),
            Got::Json(_) | Got::Context(_) => self.of_map(of, name, arguments, function),
            Got::View(map, part) => self.of_view(of, &map.clone(), *part, name, arguments, function),
            Got::Entry(..) if matches!(name, "getKey" | "getValue") => {
                let (key, value) = self.entry(of)?;
                Ok(if name == "getKey" { Got::Text(key) } else { value })
            }
            Got::Pattern(pattern) => self.of_pattern(pattern, name, arguments),
            Got::Failure(failure) if name == "getMessage" => Ok(Got::text(failure.1.as_str())),
            Got::Heap(place) => match self.heap.get(*place) {
                Some(Object::List(_) | Object::Set(_)) => self.of_list(*place, name, arguments, function),
                Some(Object::Map(_)) => self.of_map(of, name, arguments, function),
                Some(Object::Cursor(..) | Object::Tokens(..)) => self.of_cursor(*place, name),
                Some(Object::Builder(_)) => self.of_builder(*place, name, arguments),
                Some(Object::Matcher { .. }) => self.of_matcher(*place, name, arguments),
                None => self.no_method(of, name),
            },
            other => self.no_method(other, name),
        }
    }

    fn no_method<T>(&self, of: &Got<'a>, name: &str) -> Done<T> {
        fail(SCRIPT, format!("a [{}] has no method [{name}]", self.kind(of)))
    }

    fn text<'g>(&self, got: &'g Got<'a>) -> Done<&'g Text<'a>> {
        match got {
            Got::Text(text) => {
                self.meter.look(text.len() as u64, READ)?;
                Ok(text)
            }
            Got::Null => fail(NULL, "an argument is null, not a string"),
            other => fail(SCRIPT, format!("an argument is a [{}], not a string", self.kind(other))),
        }
    }

    fn int(&self, got: &Got<'a>) -> Done<i32> {
        match got {
            Got::Int(number) => Ok(*number),
            Got::Char(unit) => Ok(i32::from(*unit)),
            other => fail(SCRIPT, format!("an argument is a [{}], not an int", self.kind(other))),
        }
    }

    fn truth(&self, got: &Got<'a>) -> Done<bool> {
        match got {
            Got::Boolean(flag) => Ok(*flag),
            other => fail(CAST, format!("a function returns a [{}], not a boolean", self.kind(other))),
        }
    }

    fn count(length: usize) -> Got<'a> {
        Got::Int(i32::try_from(length).unwrap_or(i32::MAX))
    }

    fn of_text(
        &mut self,
        text: &Text<'a>,
        name: &'static str,
        arguments: &[Got<'a>],
        function: Option<&'a Lambda>,
    ) -> Done<Got<'a>> {
        self.meter.look(if name == "isEmpty" { 0 } else { text.len() as u64 }, READ)?;
        Ok(match (name, arguments) {
            ("contains", [other]) => Got::Boolean(text.contains(&**self.text(other)?)),
            ("startsWith", [other]) => Got::Boolean(text.starts_with(&**self.text(other)?)),
            ("endsWith", [other]) => Got::Boolean(text.ends_with(&**self.text(other)?)),
            ("equalsIgnoreCase", [Got::Null]) => Got::Boolean(false),
            ("equalsIgnoreCase", [other]) => {
                let lower = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<String>();
                let other = self.text(other)?;
                self.meter.spend((text.len() + other.len()) as u64)?;
                Got::Boolean(lower(text) == lower(other))
            }
            ("compareTo", [other]) => {
                let other = self.text(other)?;
                let order = text.encode_utf16().cmp(other.encode_utf16());
                Got::Int(order as i32)
            }
            ("isEmpty", []) => Got::Boolean(text.is_empty()),
            // Java counts in units of UTF-16.
            ("length", []) => Self::count(units(text)),
            ("toLowerCase", []) => {
                self.meter.spend(text.len() as u64)?;
                self.make_text(text.to_lowercase())?
            }
            ("toUpperCase", []) => {
                self.meter.spend(text.len() as u64)?;
                self.make_text(text.to_uppercase())?
            }
            ("trim", []) => self.make_text(text.trim_matches(|c| c <= ' ').to_owned())?,
            ("concat", [other]) => {
                let other = self.text(other)?;
                self.make_text(format!("{}{}", &**text, &**other))?
            }
            ("charAt", [place]) => {
                let place = self.int(place)?;
                let unit = usize::try_from(place).ok().and_then(|place| text.encode_utf16().nth(place));
                match unit {
                    Some(unit) => Got::Char(unit),
                    None => return outside(i64::from(place), text),
                }
            }
            ("substring", [from]) => {
                let from = byte_of(text, self.int(from)?)?;
                self.make_text(text[from..].to_owned())?
            }
            ("substring", [from, to]) => {
                let (from, to) = (byte_of(text, self.int(from)?)?, byte_of(text, self.int(to)?)?);
                match text.get(from..to) {
                    Some(part) => self.make_text(part.to_owned())?,
                    None => return fail(OUTSIDE, "begin is after end"),
                }
            }
            ("indexOf", [other]) => {
                let other = self.sought(other)?;
                self.place_in(text, text.find(&*other))
            }
            ("indexOf", [other, from]) => {
                let other = self.sought(other)?;
                let from = self.int(from)?.max(0);
                // From inside of a character it begins after that.
                match byte_of(text, from).or_else(|_| byte_of(text, from + 1)) {
                    Ok(from) => self.place_in(text, text[from..].find(&*other).map(|place| from + place)),
                    Err(_) => Got::Int(-1),
                }
            }
            ("lastIndexOf", [other]) => {
                let other = self.sought(other)?;
                self.place_in(text, text.rfind(&*other))
            }
            ("replace", [from, to]) => {
                let (from, to) = (self.sought(from)?, self.sought(to)?);
                self.meter.spend((text.matches(&*from).count() * to.len()) as u64)?;
                self.make_text(text.replace(&*from, &to))?
            }
            ("splitOnToken", [token]) => self.split_on(text, token, None)?,
            ("splitOnToken", [token, most]) => {
                let most = self.int(most)?;
                self.split_on(text, token, usize::try_from(most).ok().filter(|most| *most > 0))?
            }
            ("encodeBase64", []) => {
                self.meter.spend(2 * text.len() as u64)?;
                self.make_text(STANDARD.encode(text.as_bytes()))?
            }
            ("decodeBase64", []) => match base64(text) {
                Some(decoded) => self.make_text(decoded)?,
                None => return fail(ILLEGAL, "this is not base64"),
            },
            ("replaceAll" | "replaceFirst", [Got::Pattern(pattern)]) if let Some(function) = function => {
                self.replace(text, pattern, name == "replaceFirst", function)?
            }
            _ => return self.no_method(&Got::Text(text.clone()), name),
        })
    }

    /// A text, or a char as one.
    fn sought(&self, got: &Got<'a>) -> Done<Text<'a>> {
        match got {
            Got::Char(unit) => Ok(of_char(*unit)?.into()),
            other => self.text(other).cloned(),
        }
    }

    fn place_in(&self, text: &str, byte: Option<usize>) -> Got<'a> {
        byte.map_or(Got::Int(-1), |byte| Self::count(units(&text[..byte])))
    }

    fn split_on(&mut self, text: &Text<'a>, token: &Got<'a>, most: Option<usize>) -> Done<Got<'a>> {
        let token = self.text(token)?.clone();
        if token.is_empty() {
            return fail(ILLEGAL, "a text cannot be split on an empty one");
        }
        self.meter.spend(text.len() as u64 + ELEMENT_BYTES * text.matches(&*token).count() as u64)?;
        let parts: Vec<Got<'a>> = match most {
            None => text.split(&*token).map(Got::text).collect(),
            Some(most) => text.splitn(most, &*token).map(Got::text).collect(),
        };
        self.make(Object::List(parts))
    }

    fn replace(
        &mut self,
        text: &Text<'a>,
        pattern: &'a Pattern,
        only_first: bool,
        function: &'a Lambda,
    ) -> Done<Got<'a>> {
        let (mut replaced, mut from) = (String::new(), 0);
        // Each search may look at all that is left.
        self.meter.look(text.len() as u64, READ)?;
        for found in pattern.find.find_iter(text).take(if only_first { 1 } else { usize::MAX }) {
            let groups = places(&found);
            let Some((begin, end)) = groups.first().copied().flatten() else { continue };
            self.meter.look((text.len() - end) as u64 + 1, READ)?;
            self.meter.spend(ELEMENT_BYTES * groups.len() as u64)?;
            let matcher = Object::Matcher { pattern, text: text.clone(), groups: Some(groups), next: end };
            let matcher = self.make(matcher)?;
            let with = self.invoke(function, vec![matcher])?;
            let with = self.text_of(&with)?;
            replaced.push_str(&text[from..begin]);
            replaced.push_str(&with);
            self.meter.spend((begin - from + with.len()) as u64)?;
            from = end;
        }
        replaced.push_str(&text[from..]);
        self.make_text(replaced)
    }

    fn of_number(&mut self, of: &Got<'a>, name: &'static str, arguments: &[Got<'a>]) -> Done<Got<'a>> {
        let float = of.number().unwrap_or(f64::NAN);
        let whole = of.whole().map_or(float as i64, |whole| whole as i64);
        Ok(match (name, arguments) {
            ("intValue", []) if of.whole().is_none() => Got::Int(float as i32),
            ("intValue", []) => Got::Int(whole as i32),
            ("longValue", []) => Got::Long(whole),
            ("floatValue", []) => Got::Float(float as f32),
            ("doubleValue", []) if matches!(of, Got::Double(_)) => of.clone(),
            ("doubleValue", []) => Got::double(float),
            ("compareTo", [other]) => Got::Int(self.order(of, other)?.map_or(0, |order| order as i32)),
            _ => return self.no_method(of, name),
        })
    }

    /// What can be asked of a list, of a part of a map and of JSON, without a change.
    fn of_collection(
        &mut self,
        of: &Got<'a>,
        name: &'static str,
        arguments: &[Got<'a>],
        function: Option<&'a Lambda>,
    ) -> Done<Got<'a>> {
        let items = self.items(of)?;
        if let (Some(function), []) = (function, arguments) {
            return self.with_each(of, items, name, function);
        }
        Ok(match (name, arguments) {
            ("size" | "length" | "getLength", []) => Self::count(items.len()),
            ("count", []) => Got::Long(items.len() as i64),
            ("isEmpty", []) => Got::Boolean(items.is_empty()),
            ("contains", [wanted]) => Got::Boolean(self.find(&items, wanted)?.is_some()),
            ("containsAll", [wanted]) => {
                for wanted in self.items(wanted)? {
                    if self.find(&items, &wanted)?.is_none() {
                        return Ok(Got::Boolean(false));
                    }
                }
                Got::Boolean(true)
            }
            ("indexOf", [wanted]) => self.find(&items, wanted)?.map_or(Got::Int(-1), Self::count),
            ("get", [place]) => {
                let place = self.int(place)?;
                let place = if place < 0 { i128::from(i64::MAX) } else { i128::from(place) };
                items[place_of(place, items.len())?].clone()
            }
            ("subList", [from, to]) => {
                let (from, to) = (self.int(from)?, self.int(to)?);
                let part = usize::try_from(from).ok().zip(usize::try_from(to).ok());
                match part.and_then(|(from, to)| items.get(from..to)) {
                    Some(part) => self.make(Object::List(part.to_vec()))?,
                    None => return fail(OUTSIDE, format!("from {from} to {to} of {}", items.len())),
                }
            }
            ("join", [between]) => self.join(between, &items)?,
            ("iterator", []) => self.make(Object::Cursor(items, 0))?,
            ("stream", []) => self.make(Object::List(items))?,
            ("distinct", []) => {
                let distinct = self.distinct(items)?;
                self.make(Object::List(distinct))?
            }
            ("collect", [Got::Collector(collector)]) => match collector {
                Collector::List => self.make(Object::List(items))?,
                Collector::Set => {
                    let distinct = self.distinct(items)?;
                    self.make(Object::Set(distinct))?
                }
                Collector::Joined(between) => self.join(&Got::Text(between.clone()), &items)?,
            },
            _ => return self.no_method(of, name),
        })
    }

    pub(super) fn find(&self, items: &[Got<'a>], wanted: &Got<'a>) -> Done<Option<usize>> {
        for (place, item) in items.iter().enumerate() {
            if self.equal(wanted, item, 0)? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    fn distinct(&self, items: Vec<Got<'a>>) -> Done<Vec<Got<'a>>> {
        let mut distinct: Vec<Got<'a>> = Vec::new();
        for item in items {
            if self.find(&distinct, &item)?.is_none() {
                distinct.push(item);
            }
        }
        Ok(distinct)
    }

    fn join(&self, between: &Got<'a>, items: &[Got<'a>]) -> Done<Got<'a>> {
        let between = self.text(between)?;
        let mut joined = String::new();
        for (item, place) in items.iter().zip(0..) {
            joined.push_str(if place > 0 { between } else { "" });
            joined.push_str(&self.text_of(item)?);
            self.meter.spend(between.len() as u64)?;
        }
        self.make_text(joined)
    }

    fn with_each(
        &mut self,
        of: &Got<'a>,
        items: Vec<Got<'a>>,
        name: &'static str,
        function: &'a Lambda,
    ) -> Done<Got<'a>> {
        match name {
            "forEach" | "each" => {
                for item in items {
                    self.invoke(function, vec![item])?;
                }
                Ok(Got::Null)
            }
            "map" => {
                let mut made = Vec::with_capacity(items.len());
                for item in items {
                    made.push(self.invoke(function, vec![item])?);
                }
                self.make(Object::List(made))
            }
            "filter" | "findAll" => {
                let mut kept = Vec::new();
                for item in items {
                    let holds = self.invoke(function, vec![item.clone()])?;
                    if self.truth(&holds)? {
                        kept.push(item);
                    }
                }
                self.make(Object::List(kept))
            }
            "find" => {
                for item in items {
                    let holds = self.invoke(function, vec![item.clone()])?;
                    if self.truth(&holds)? {
                        return Ok(item);
                    }
                }
                Ok(Got::Null)
            }
            "any" | "anyMatch" | "every" | "allMatch" | "noneMatch" => {
                let ends = matches!(name, "any" | "anyMatch" | "noneMatch");
                for item in items {
                    let holds = self.invoke(function, vec![item])?;
                    if self.truth(&holds)? == ends {
                        return Ok(Got::Boolean(matches!(name, "any" | "anyMatch")));
                    }
                }
                Ok(Got::Boolean(!matches!(name, "any" | "anyMatch")))
            }
            _ => self.no_method(of, name),
        }
    }

    fn of_list(
        &mut self,
        place: usize,
        name: &'static str,
        arguments: &[Got<'a>],
        function: Option<&'a Lambda>,
    ) -> Done<Got<'a>> {
        let of = Got::Heap(place);
        let is_set = matches!(self.heap.get(place), Some(Object::Set(_)));
        match (name, arguments, function) {
            ("add", [value], None) => self.add(place, None, value, is_set),
            ("add", [at, value], None) if !is_set => {
                let at = self.int(at)?;
                self.add(place, Some(at), value, false)
            }
            ("addAll", [values], None) => {
                let mut is_changed = false;
                for value in self.items(values)? {
                    let added = self.add(place, None, &value, is_set)?;
                    is_changed |= matches!(added, Got::Boolean(true));
                }
                Ok(Got::Boolean(is_changed))
            }
            ("set", [at, value], None) if !is_set => {
                let (at, value) = (self.int(at)?, self.import(value.clone())?);
                let Some(elements) = self.elements(place) else { return self.no_method(&of, name) };
                let at = place_of(if at < 0 { i128::from(i64::MAX) } else { at.into() }, elements.len())?;
                Ok(std::mem::replace(&mut elements[at], value))
            }
            ("remove", [Got::Int(at)], None) if !is_set => {
                let at = *at;
                let Some(elements) = self.elements(place) else { return self.no_method(&of, name) };
                let at = place_of(if at < 0 { i128::from(i64::MAX) } else { at.into() }, elements.len())?;
                let (moved, removed) = (elements.len(), elements.remove(at));
                self.meter.look(8 * moved as u64, READ)?;
                Ok(removed)
            }
            ("remove", [wanted], None) => {
                let items = self.items(&of)?;
                let found = self.find(&items, wanted)?;
                if let (Some(found), Some(elements)) = (found, self.elements(place)) {
                    elements.remove(found);
                }
                Ok(Got::Boolean(found.is_some()))
            }
            ("removeIf", [], Some(function)) => {
                let items = self.items(&of)?;
                let (before, mut kept) = (items.len(), Vec::new());
                for item in items {
                    let goes = self.invoke(function, vec![item.clone()])?;
                    if !self.truth(&goes)? {
                        kept.push(item);
                    }
                }
                let is_changed = kept.len() < before;
                if let Some(elements) = self.elements(place) {
                    *elements = kept;
                }
                Ok(Got::Boolean(is_changed))
            }
            ("replaceAll", [], Some(function)) => {
                let mut made = Vec::new();
                for item in self.items(&of)? {
                    let item = self.invoke(function, vec![item])?;
                    made.push(self.import(item)?);
                }
                if let Some(elements) = self.elements(place) {
                    *elements = made;
                }
                Ok(Got::Null)
            }
            ("sort", [], Some(function)) if !is_set => {
                let items = self.items(&of)?;
                let sorted = self.sorted(items, Some(function))?;
                if let Some(elements) = self.elements(place) {
                    *elements = sorted;
                }
                Ok(Got::Null)
            }
            ("sort", [Got::Null], None) if !is_set => {
                let items = self.items(&of)?;
                let sorted = self.sorted(items, None)?;
                if let Some(elements) = self.elements(place) {
                    *elements = sorted;
                }
                Ok(Got::Null)
            }
            ("clear", [], None) => {
                self.elements(place).map(Vec::clear);
                Ok(Got::Null)
            }
            _ => self.of_collection(&of, name, arguments, function),
        }
    }

    fn elements(&mut self, place: usize) -> Option<&mut Vec<Got<'a>>> {
        match self.heap.get_mut(place) {
            Some(Object::List(elements) | Object::Set(elements)) => Some(elements),
            _ => None,
        }
    }

    fn add(&mut self, place: usize, at: Option<i32>, value: &Got<'a>, is_set: bool) -> Done<Got<'a>> {
        let value = self.import(value.clone())?;
        self.meter.spend(ELEMENT_BYTES)?;
        if is_set {
            let items = self.items(&Got::Heap(place))?;
            if self.find(&items, &value)?.is_some() {
                return Ok(Got::Boolean(false));
            }
        }
        let meter = self.meter;
        let Some(elements) = self.elements(place) else { return Ok(Got::Null) };
        let at = match at {
            None => elements.len(),
            Some(at) => match usize::try_from(at).ok().filter(|at| *at <= elements.len()) {
                Some(at) => at,
                None => return fail(OUTSIDE, format!("Index: {at}, Size: {}", elements.len())),
            },
        };
        meter.look(8 * (elements.len() - at) as u64, READ)?;
        elements.insert(at, value);
        Ok(Got::Boolean(true))
    }

    /// Sorts by merging, as a function that contradicts itself does no harm then.
    fn sorted(&mut self, items: Vec<Got<'a>>, function: Option<&'a Lambda>) -> Done<Vec<Got<'a>>> {
        let mut runs: Vec<Vec<Got<'a>>> = items.into_iter().map(|item| vec![item]).collect();
        while runs.len() > 1 {
            let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
            let mut pairs = runs.into_iter();
            while let Some(left) = pairs.next() {
                match pairs.next() {
                    Some(right) => merged.push(self.merged(left, right, function)?),
                    None => merged.push(left),
                }
            }
            runs = merged;
        }
        Ok(runs.pop().unwrap_or_default())
    }

    fn merged(
        &mut self,
        left: Vec<Got<'a>>,
        right: Vec<Got<'a>>,
        function: Option<&'a Lambda>,
    ) -> Done<Vec<Got<'a>>> {
        let mut merged = Vec::with_capacity(left.len() + right.len());
        let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
        while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
            let order = match function {
                Some(function) => {
                    let order = self.invoke(function, vec![first.clone(), second.clone()])?;
                    self.int(&order)?.cmp(&0)
                }
                None => self.natural(first, second)?,
            };
            merged.extend(if order == Ordering::Greater { right.next() } else { left.next() });
        }
        merged.extend(left);
        merged.extend(right);
        Ok(merged)
    }

    fn natural(&self, left: &Got<'a>, right: &Got<'a>) -> Done<Ordering> {
        match (left, right) {
            (Got::Text(left), Got::Text(right)) => Ok(left.encode_utf16().cmp(right.encode_utf16())),
            _ => Ok(self.order(left, right)?.unwrap_or(Ordering::Equal)),
        }
    }

    /// The name of an entry, and its value as it is now.
    pub(super) fn entry(&self, of: &Got<'a>) -> Done<(Text<'a>, Got<'a>)> {
        let Got::Entry(map, name) = of else { return self.no_method(of, "getKey") };
        Ok((name.clone(), self.in_map(map, name).unwrap_or(Got::Null)))
    }

    /// A member of a map, if it is there.
    pub(super) fn in_map(&self, map: &Got<'a>, name: &str) -> Option<Got<'a>> {
        match map {
            Got::Json(Value::Object(members)) => members.get(name).map(Got::of_json),
            Got::Context(document) => document.member(name).map(Got::of_json),
            Got::Heap(place) => match self.heap.get(*place) {
                Some(Object::Map(members)) => members.get(name).cloned(),
                _ => None,
            },
            _ => None,
        }
    }

    fn of_map(
        &mut self,
        of: &Got<'a>,
        name: &'static str,
        arguments: &[Got<'a>],
        function: Option<&'a Lambda>,
    ) -> Done<Got<'a>> {
        let part = |part| Ok(Got::View(Rc::new(of.clone()), part));
        match (name, arguments, function) {
            ("containsKey", [Got::Null], None) => Ok(Got::Boolean(false)),
            ("containsKey", [key], None) => {
                let key = self.text(key)?;
                Ok(Got::Boolean(self.in_map(of, key).is_some()))
            }
            ("get", [key], None) => {
                let key = self.name(key)?;
                Ok(self.in_map(of, &key).unwrap_or(Got::Null))
            }
            ("getOrDefault", [key, other], None) => {
                let key = self.name(key)?;
                Ok(self.in_map(of, &key).unwrap_or_else(|| other.clone()))
            }
            ("containsValue", [value], None) => {
                let values = self.items(&Got::View(Rc::new(of.clone()), Part::Values))?;
                Ok(Got::Boolean(self.find(&values, value)?.is_some()))
            }
            ("size", [], None) => self.of_part(of, name),
            ("isEmpty", [], None) => self.of_part(of, name),
            ("keySet", [], None) => part(Part::Keys),
            ("values", [], None) => part(Part::Values),
            ("entrySet", [], None) => part(Part::Entries),
            ("forEach", [], Some(function)) => {
                for (name, value) in self.members(of)? {
                    self.invoke(function, vec![Got::Text(name), value])?;
                }
                Ok(Got::Null)
            }
            _ => match of {
                Got::Heap(place) => self.change_map(*place, name, arguments, function),
                _ => self.no_method(of, name),
            },
        }
    }

    fn of_part(&mut self, of: &Got<'a>, name: &'static str) -> Done<Got<'a>> {
        let count = match of {
            Got::Json(Value::Object(members)) => members.len(),
            Got::Context(document) => document.source().as_object().map_or(0, Map::len),
            Got::Heap(place) => match self.heap.get(*place) {
                Some(Object::Map(members)) => members.len(),
                _ => 0,
            },
            _ => return self.no_method(of, name),
        };
        Ok(if name == "size" { Self::count(count) } else { Got::Boolean(count == 0) })
    }

    fn change_map(
        &mut self,
        place: usize,
        name: &'static str,
        arguments: &[Got<'a>],
        function: Option<&'a Lambda>,
    ) -> Done<Got<'a>> {
        let of = Got::Heap(place);
        match (name, arguments, function) {
            ("put", [key, value], None) => {
                let key = self.name(key)?;
                self.put(place, key, value.clone())
            }
            ("putIfAbsent", [key, value], None) => {
                let key = self.name(key)?;
                match self.in_map(&of, &key) {
                    Some(before) if !matches!(before, Got::Null) => Ok(before),
                    _ => self.put(place, key, value.clone()),
                }
            }
            ("putAll", [other], None) => {
                for (name, value) in self.members(other)? {
                    let name = self.name(&Got::Text(name))?;
                    self.put(place, name, value)?;
                }
                Ok(Got::Null)
            }
            ("computeIfAbsent", [key], Some(function)) => {
                let name = self.name(key)?;
                match self.in_map(&of, &name) {
                    Some(before) if !matches!(before, Got::Null) => Ok(before),
                    _ => {
                        let made = self.invoke(function, vec![key.clone()])?;
                        let made = self.import(made)?;
                        self.put(place, name, made.clone())?;
                        Ok(made)
                    }
                }
            }
            ("remove", [key], None) => {
                let key = self.name(key)?;
                let meter = self.meter;
                let Some(members) = self.map_at(place) else { return self.no_method(&of, name) };
                meter.look(8 * members.len() as u64, READ)?;
                Ok(members.shift_remove(&key).unwrap_or(Got::Null))
            }
            ("clear", [], None) => {
                self.map_at(place).map(Members::clear);
                Ok(Got::Null)
            }
            _ => self.no_method(&of, name),
        }
    }

    fn map_at(&mut self, place: usize) -> Option<&mut Members<'a>> {
        match self.heap.get_mut(place) {
            Some(Object::Map(members)) => Some(members),
            _ => None,
        }
    }

    fn put(&mut self, place: usize, name: Rc<str>, value: Got<'a>) -> Done<Got<'a>> {
        let value = self.import(value)?;
        self.meter.spend(ELEMENT_BYTES + name.len() as u64)?;
        let before = self.map_at(place).and_then(|members| members.insert(name, value));
        Ok(before.unwrap_or(Got::Null))
    }

    fn of_view(
        &mut self,
        of: &Got<'a>,
        map: &Rc<Got<'a>>,
        part: Part,
        name: &'static str,
        arguments: &[Got<'a>],
        function: Option<&'a Lambda>,
    ) -> Done<Got<'a>> {
        match (name, arguments, function, &**map) {
            ("removeIf", [], Some(function), Got::Heap(place)) => {
                let mut gone = Vec::new();
                let names = self.items(&Got::View(Rc::clone(map), Part::Keys))?;
                for (key, item) in names.into_iter().zip(self.items(of)?) {
                    let goes = self.invoke(function, vec![item])?;
                    if self.truth(&goes)? {
                        gone.push(self.name(&key)?);
                    }
                }
                let is_changed = !gone.is_empty();
                if let Some(members) = self.map_at(*place) {
                    let gone: std::collections::HashSet<Rc<str>> = gone.into_iter().collect();
                    members.retain(|name, _| !gone.contains(name));
                }
                Ok(Got::Boolean(is_changed))
            }
            ("remove", [key], None, Got::Heap(place)) if part == Part::Keys => {
                let is_there = self.in_map(map, &self.name(key)?).is_some();
                self.change_map(*place, "remove", arguments, None)?;
                Ok(Got::Boolean(is_there))
            }
            _ => self.of_collection(of, name, arguments, function),
        }
    }

    fn of_cursor(&mut self, place: usize, name: &'static str) -> Done<Got<'a>> {
        let (items, next, is_tokens) = match self.heap.get_mut(place) {
            Some(Object::Cursor(items, next)) => (items, next, false),
            Some(Object::Tokens(items, next)) => (items, next, true),
            _ => return fail(SCRIPT, "what is no iterator is used as one"),
        };
        match (name, is_tokens) {
            ("hasNext", false) | ("hasMoreTokens", true) => Ok(Got::Boolean(*next < items.len())),
            ("countTokens", true) => Ok(Self::count(items.len().saturating_sub(*next))),
            ("next", false) | ("nextToken", true) => match items.get(*next) {
                Some(item) => {
                    *next += 1;
                    Ok(item.clone())
                }
                None => fail(NO_ELEMENT, "there is no further element"),
            },
            _ => self.no_method(&Got::Heap(place), name),
        }
    }

    fn of_builder(&mut self, place: usize, name: &'static str, arguments: &[Got<'a>]) -> Done<Got<'a>> {
        match (name, arguments) {
            ("append", [value]) => {
                let more = self.text_of(value)?;
                if let Some(Object::Builder(text)) = self.heap.get_mut(place) {
                    text.push_str(&more);
                }
                Ok(Got::Heap(place))
            }
            ("length", []) => match self.heap.get(place) {
                Some(Object::Builder(text)) => {
                    self.meter.look(text.len() as u64, READ)?;
                    Ok(Self::count(units(text)))
                }
                _ => self.no_method(&Got::Heap(place), name),
            },
            _ => self.no_method(&Got::Heap(place), name),
        }
    }

    fn of_pattern(
        &mut self,
        pattern: &'a Pattern,
        name: &'static str,
        arguments: &[Got<'a>],
    ) -> Done<Got<'a>> {
        match (name, arguments) {
            ("matcher", [text]) => {
                let text = self.text(text)?.clone();
                self.make(Object::Matcher { pattern, text, groups: None, next: 0 })
            }
            ("split", [text]) => {
                let text = self.text(text)?.clone();
                let (mut parts, mut from) = (Vec::new(), 0);
                self.meter.look(text.len() as u64, READ)?;
                for Range { start, end } in pattern.find.places(&text) {
                    // As in Java, a match of nothing at the beginning splits nothing.
                    if end == 0 {
                        continue;
                    }
                    self.meter.look((text.len() - end) as u64 + 1, READ)?;
                    self.meter.spend(ELEMENT_BYTES + (start - from) as u64)?;
                    parts.push(&text[from..start]);
                    from = end;
                }
                self.meter.spend(ELEMENT_BYTES + (text.len() - from) as u64)?;
                parts.push(&text[from..]);
                // Where something was found, empty parts at the end are none.
                while from > 0 && parts.last() == Some(&"") {
                    parts.pop();
                }
                let parts = parts.into_iter().map(Got::text).collect();
                self.make(Object::List(parts))
            }
            _ => self.no_method(&Got::Pattern(pattern), name),
        }
    }

    fn of_matcher(&mut self, place: usize, name: &'static str, arguments: &[Got<'a>]) -> Done<Got<'a>> {
        let Some(Object::Matcher { pattern, text, groups, next }) = self.heap.get_mut(place) else {
            return fail(SCRIPT, "what is no matcher is used as one");
        };
        match (name, arguments) {
            ("matches", []) => {
                self.meter.look(text.len() as u64, READ)?;
                *groups = pattern.whole.find_at(text, 0).map(|found| places(&found));
                // What is found next comes after it.
                if groups.is_some() {
                    *next = text.len().max(1);
                }
                Ok(Got::Boolean(groups.is_some()))
            }
            ("find", []) => {
                self.meter.look(text.len() as u64, READ)?;
                let found = if *next > text.len() { None } else { pattern.find.find_at(text, *next) };
                *groups = found.map(|found| places(&found));
                if let Some((begin, end)) =
                    groups.as_ref().and_then(|groups| groups.first().copied().flatten())
                {
                    // After a match of nothing the next one begins further on.
                    let step = text[end..].chars().next().map_or(1, char::len_utf8);
                    *next = if begin == end { end + step } else { end };
                } else {
                    *next = text.len() + 1;
                }
                Ok(Got::Boolean(groups.is_some()))
            }
            ("groupCount", []) => Ok(Self::count(pattern.find.groups())),
            ("group" | "start" | "end", _) => {
                let Some(groups) = groups.clone() else { return fail(STATE, "No match found") };
                let (pattern, text) = (*pattern, text.clone());
                let number = match arguments {
                    [] => 0,
                    [Got::Text(group)] => pattern
                        .find
                        .group(group)
                        .ok_or_else(|| failure(ILLEGAL, format!("No group with name <{}>", shown(group))))?,
                    [number, ..] => {
                        let number = self.int(number)?;
                        match usize::try_from(number).ok().filter(|number| *number < groups.len()) {
                            Some(number) => number,
                            None => return fail(OUTSIDE, format!("No group {number}")),
                        }
                    }
                };
                let found = groups.get(number).copied().flatten();
                Ok(match (name, found) {
                    ("group", None) => Got::Null,
                    ("group", Some((begin, end))) => self.make_text(text[begin..end].to_owned())?,
                    (_, None) => Got::Int(-1),
                    ("start", Some((begin, _))) => self.place_in(&text, Some(begin)),
                    (_, Some((_, end))) => self.place_in(&text, Some(end)),
                })
            }
            _ => self.no_method(&Got::Heap(place), name),
        }
    }

    /// What `new` makes.
    pub(super) fn made(&mut self, class: Class, arguments: Vec<Got<'a>>) -> Done<Got<'a>> {
        match (class, arguments.as_slice()) {
            (Class::List, [] | [Got::Int(_)]) => self.make(Object::List(Vec::new())),
            (Class::List | Class::Set, [of]) if !matches!(of, Got::Int(_)) => {
                let mut items = Vec::new();
                for item in self.items(of)? {
                    items.push(self.import(item)?);
                }
                match class {
                    Class::List => self.make(Object::List(items)),
                    _ => {
                        let distinct = self.distinct(items)?;
                        self.make(Object::Set(distinct))
                    }
                }
            }
            (Class::Set, _) => self.make(Object::Set(Vec::new())),
            (Class::Map, [] | [Got::Int(_)]) => self.make(Object::Map(Members::new())),
            (Class::Map, [of]) => {
                let mut members = Members::new();
                for (name, value) in self.members(of)? {
                    let value = self.import(value)?;
                    members.insert(self.name(&Got::Text(name))?, value);
                }
                self.make(Object::Map(members))
            }
            (Class::Tokenizer, [text, rest @ ..]) => {
                let text = self.text(text)?.clone();
                let between = match rest.first() {
                    None => Text::Borrowed(BLANKS),
                    Some(between) => self.text(between)?.clone(),
                };
                self.meter.look((text.len() as u64).saturating_mul(between.len() as u64), READ)?;
                self.meter.spend(text.len() as u64)?;
                let tokens = text.split(|c| between.contains(c)).filter(|token| !token.is_empty());
                let tokens = tokens.map(Got::text).collect();
                self.make(Object::Tokens(tokens, 0))
            }
            (Class::Builder, [] | [Got::Int(_)]) => self.make(Object::Builder(String::new())),
            (Class::Builder, [text]) => {
                let text = self.text_of(text)?;
                self.make(Object::Builder(text))
            }
            (Class::Exception(kind), []) => Ok(Got::Failure(Rc::new((kind, String::new())))),
            (Class::Exception(kind), [reason, ..]) => {
                let reason = self.text_of(reason)?;
                Ok(Got::Failure(Rc::new((kind, reason))))
            }
            _ => fail(ILLEGAL, "[new] has other arguments"),
        }
    }

    /// Calls a function of a class.
    pub(super) fn of_class(&mut self, function: Static, arguments: &[Got<'a>]) -> Done<Got<'a>> {
        let number = |got: &Got<'a>| match got.number() {
            Some(number) => Ok(number),
            None if matches!(got, Got::Null) => fail(NULL, "an argument is null, not a number"),
            None => fail(CAST, "an argument is no number"),
        };
        let double = |of: fn(f64) -> f64, got: &Got<'a>| number(got).map(|number| Got::double(of(number)));
        match (function, arguments) {
            (Static::ParseInt, [whole @ Got::Int(_)]) | (Static::ParseLong, [whole @ Got::Long(_)]) => {
                Ok(whole.clone())
            }
            (Static::ParseLong, [Got::Int(whole)]) => Ok(Got::Long(i64::from(*whole))),
            (Static::ParseInt | Static::ParseLong, [text, rest @ ..]) => {
                let radix = rest.first().map_or(Ok(10), |radix| self.int(radix))?;
                self.parse_whole(text, radix, function == Static::ParseLong)
            }
            (Static::ParseFloat | Static::ParseDouble, [text]) => {
                let parsed = match text {
                    Got::Text(text) => self.parse_float(text)?,
                    other => number(other)?,
                };
                Ok(if function == Static::ParseFloat {
                    Got::Float(parsed as f32)
                } else {
                    Got::double(parsed)
                })
            }
            (Static::ParseBoolean, [flag @ Got::Boolean(_)]) => Ok(flag.clone()),
            (Static::ParseBoolean, [Got::Text(text)]) => Ok(Got::Boolean(text.eq_ignore_ascii_case("true"))),
            (Static::ParseBoolean, _) => Ok(Got::Boolean(false)),
            (Static::ValueOfText, [value]) => self.text_of(value).and_then(|text| self.make_text(text)),
            (Static::Join, [between, of]) => {
                let items = self.items(of)?;
                self.join(between, &items)
            }
            (Static::AsList, [one]) => match self.kind(one) {
                "array" => {
                    let items = self.items(one)?;
                    self.make(Object::List(items))
                }
                _ => self.make(Object::List(vec![one.clone()])),
            },
            (Static::ObjectsEqual, [left, right]) => self.equal(left, right, 0).map(Got::Boolean),
            // Painless has these only of doubles.
            (Static::Abs, [of]) => double(f64::abs, of),
            (Static::Max | Static::Min, [left, right]) => {
                let (left, right) = (number(left)?, number(right)?);
                let is_left = if function == Static::Max {
                    left.total_cmp(&right).is_ge()
                } else {
                    left.total_cmp(&right).is_le()
                };
                Ok(Got::double(match () {
                    () if left.is_nan() || right.is_nan() => f64::NAN,
                    () if is_left => left,
                    () => right,
                }))
            }
            (Static::Floor, [of]) => double(f64::floor, of),
            (Static::Ceil, [of]) => double(f64::ceil, of),
            (Static::Sqrt, [of]) => double(f64::sqrt, of),
            (Static::Exp, [of]) => double(f64::exp, of),
            (Static::Log, [of]) => double(f64::ln, of),
            (Static::Log10, [of]) => double(f64::log10, of),
            (Static::Signum, [of]) => double(|x| if x == 0.0 || x.is_nan() { x } else { x.signum() }, of),
            (Static::Pow, [of, by]) => Ok(Got::double(number(of)?.powf(number(by)?))),
            (Static::Round, [of]) => {
                let of = number(of)?;
                // What is just below a half would become one by adding to it.
                let below = of.floor();
                Ok(Got::Long(if of - below >= 0.5 { below + 1.0 } else { below } as i64))
            }
            (Static::ToList, []) => Ok(Got::Collector(Collector::List)),
            (Static::ToSet, []) => Ok(Got::Collector(Collector::Set)),
            (Static::Joining, []) => Ok(Got::Collector(Collector::Joined(Text::Borrowed("")))),
            (Static::Joining, [between]) => {
                Ok(Got::Collector(Collector::Joined(self.text(between)?.clone())))
            }
            _ => fail(ILLEGAL, "a function has other arguments"),
        }
    }

    fn parse_whole(&self, text: &Got<'a>, radix: i32, is_long: bool) -> Done<Got<'a>> {
        let Got::Text(text) = text else {
            return fail(NO_NUMBER, format!("Cannot parse a [{}] as a number", self.kind(text)));
        };
        let wrong = || failure(NO_NUMBER, format!("For input string: \"{}\"", shown(text)));
        let radix = u32::try_from(radix).ok().filter(|radix| (2..=36).contains(radix)).ok_or_else(wrong)?;
        let parsed = i64::from_str_radix(text, radix).map_err(|_| wrong())?;
        match is_long {
            true => Ok(Got::Long(parsed)),
            false => i32::try_from(parsed).map(Got::Int).map_err(|_| wrong()),
        }
    }

    fn parse_float(&self, text: &Text<'a>) -> Done<f64> {
        let trimmed = text.trim_matches(|c| c <= ' ');
        let digits = trimmed.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(trimmed);
        let is_plain = digits.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c));
        let parsed = match trimmed {
            "NaN" => Some(f64::NAN),
            "Infinity" | "+Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ if is_plain => digits.parse().ok(),
            _ => None,
        };
        parsed.ok_or_else(|| failure(NO_NUMBER, format!("For input string: \"{}\"", shown(text))))
    }
}

/// Where the groups of a match are.
fn places(found: &Found) -> Groups {
    found.groups().iter().map(|group| group.as_ref().map(|place| (place.start, place.end))).collect()
}

/// How many units of UTF-16 a text has, as Java counts.
fn units(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.encode_utf16().count() }
}

/// Where a unit of UTF-16 begins in a text.
fn byte_of(text: &str, unit: i32) -> Done<usize> {
    let Ok(wanted) = usize::try_from(unit) else { return outside(i64::from(unit), text) };
    if text.is_ascii() {
        return if wanted <= text.len() { Ok(wanted) } else { outside(i64::from(unit), text) };
    }
    let mut at = 0;
    for (byte, c) in text.char_indices() {
        if at == wanted {
            return Ok(byte);
        }
        at += c.len_utf16();
    }
    if at == wanted { Ok(text.len()) } else { outside(i64::from(unit), text) }
}

fn outside<T>(unit: i64, text: &str) -> Done<T> {
    fail(OUTSIDE, format!("Index {unit} out of bounds for length {}", units(text)))
}
