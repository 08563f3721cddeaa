//! Runs a script.
//!
//! Each step, each turn of a loop and each byte that is made counts towards what a document may cost; what is inside
//! each other is bounded, so that the stack is. Limits cannot be caught.

use std::rc::Rc;

use super::names::{CAST, ILLEGAL, NULL, OUTSIDE, SCRIPT};
use super::tree::{
    Argument, Catch, Class, Expression, Lambda, Link, Of, Operator, Primitive, Statement, Target, Tree, Type,
    What,
};
use super::value::{Got, Members, Object, Part, Text, json_of_float, object};
use crate::document::{Document, Done, LOOKUP_BYTES, READ, Stop, failure, limit, shown, weight};
use crate::limits::{DEPTH_MAX, SCRIPT_CALLS_MAX, SCRIPT_TURNS_MAX};
use crate::value::{Map, Number, Value};

/// What it counts to evaluate a part of a script.
pub(super) const STEP_BYTES: u64 = 256;
/// What an element of a list or a member of a map takes.
pub(super) const ELEMENT_BYTES: u64 = 48;

/// A run of a script.
pub(super) struct Run<'a> {
    tree: &'a Tree,
    /// Counts what the run costs.
    pub(super) meter: &'a Document,
    pub(super) context: Got<'a>,
    params: Got<'a>,
    pub(super) heap: Vec<Object<'a>>,
    /// The variables of the functions that run.
    slots: Vec<Got<'a>>,
    /// Where those of the innermost one begin.
    base: usize,
    depth: usize,
    turns: usize,
    /// What loops hold of the lists that they go over.
    held: u64,
    /// The position in the script.
    at: usize,
}

/// A char as a text. Some characters are two chars, of which neither is a text.
pub(super) fn of_char(unit: u16) -> Done<String> {
    match char::from_u32(u32::from(unit)) {
        Some(c) => Ok(c.to_string()),
        None => fail(ILLEGAL, "a char that is half of a character cannot be made a text: use substring"),
    }
}

/// What loops inside each other hold of lists, which may change while they go over them.
const HELD_BYTES_MAX: u64 = 64 << 20;

/// Why a number is no part of a document.
const UNSTORED: &str = "a number that is infinite or none cannot be stored";

/// What comes after a statement.
enum Flow<'a> {
    Next,
    Break,
    Continue,
    Return(Got<'a>),
}

pub(super) fn fail<T>(kind: &'static str, reason: impl Into<String>) -> Done<T> {
    Err(failure(kind, reason))
}

impl<'a> Run<'a> {
    pub(super) fn new(tree: &'a Tree, meter: &'a Document, context: Got<'a>, params: Got<'a>) -> Run<'a> {
        Run {
            tree,
            meter,
            context,
            params,
            heap: Vec::new(),
            slots: Vec::new(),
            base: 0,
            depth: 0,
            turns: 0,
            held: 0,
            at: 0,
        }
    }

    /// Runs the script to its end. What it returns; what fails says where.
    pub(super) fn execute(&mut self) -> Done<Got<'a>> {
        self.slots = vec![Got::Null; self.tree.slots];
        match self.block(&self.tree.body) {
            Ok(Flow::Return(got)) => Ok(got),
            Ok(_) => Ok(Got::Null),
            Err(Stop::Fail(mut failure)) => {
                failure.reason = format!("{} at position {} of the script", failure.reason, self.at);
                Err(Stop::Fail(failure))
            }
            Err(other) => Err(other),
        }
    }

    fn enter(&mut self) -> Done {
        self.meter.look(STEP_BYTES, READ)?;
        if self.depth >= SCRIPT_CALLS_MAX {
            return Err(limit(format!(
                "the script has more than {SCRIPT_CALLS_MAX} steps inside each other"
            )));
        }
        self.depth += 1;
        Ok(())
    }

    fn block(&mut self, statements: &'a [Statement]) -> Done<Flow<'a>> {
        for statement in statements {
            match self.statement(statement)? {
                Flow::Next => {}
                other => return Ok(other),
            }
        }
        Ok(Flow::Next)
    }

    fn statement(&mut self, statement: &'a Statement) -> Done<Flow<'a>> {
        self.enter()?;
        let flow = match statement {
            Statement::Declare(declared) => self.declare(declared),
            Statement::Expression(expression) => self.eval(expression).map(|_| Flow::Next),
            Statement::If(ways, otherwise) => self.if_else(ways, otherwise),
            Statement::For(before, condition, after, body) => {
                self.for_loop(before, condition.as_ref(), after, body)
            }
            Statement::Each(slot, of, over, body) => self.each(*slot, *of, over, body),
            Statement::DoWhile(body, condition) => self.do_while(body, condition),
            Statement::Break => Ok(Flow::Break),
            Statement::Continue => Ok(Flow::Continue),
            Statement::Return(None) => Ok(Flow::Return(Got::Null)),
            Statement::Return(Some(expression)) => self.eval(expression).map(Flow::Return),
            Statement::Throw(expression) => self.throw(expression),
            Statement::Try(body, catches) => self.try_catch(body, catches),
            Statement::Block(body) => self.block(body),
        };
        self.depth -= 1;
        flow
    }

    fn declare(&mut self, declared: &'a [(usize, Type, Option<Expression>)]) -> Done<Flow<'a>> {
        for (slot, of, value) in declared {
            let value = match (value, of) {
                (Some(value), _) => {
                    let value = self.eval(value)?;
                    convert(value, *of, false)?
                }
                (None, Type::Primitive(primitive)) => default(*primitive),
                (None, _) => Got::Null,
            };
            self.set_local(*slot, value);
        }
        Ok(Flow::Next)
    }

    fn if_else(
        &mut self,
        ways: &'a [(Expression, Vec<Statement>)],
        otherwise: &'a [Statement],
    ) -> Done<Flow<'a>> {
        for (condition, body) in ways {
            if self.flag(condition)? {
                return self.block(body);
            }
        }
        self.block(otherwise)
    }

    fn turn(&mut self) -> Done {
        self.turns += 1;
        match self.turns <= SCRIPT_TURNS_MAX {
            true => Ok(()),
            false => Err(limit(format!("the loops of the script turn more than {SCRIPT_TURNS_MAX} times"))),
        }
    }

    fn for_loop(
        &mut self,
        before: &'a [Statement],
        condition: Option<&'a Expression>,
        after: &'a [Expression],
        body: &'a [Statement],
    ) -> Done<Flow<'a>> {
        self.block(before)?;
        loop {
            self.turn()?;
            if let Some(condition) = condition
                && !self.flag(condition)?
            {
                return Ok(Flow::Next);
            }
            match self.block(body)? {
                Flow::Next | Flow::Continue => {}
                Flow::Break => return Ok(Flow::Next),
                other => return Ok(other),
            }
            for step in after {
                self.eval(step)?;
            }
        }
    }

    fn each(&mut self, slot: usize, of: Type, over: &'a Expression, body: &'a [Statement]) -> Done<Flow<'a>> {
        let over = self.eval(over)?;
        self.holding(&over, |run| {
            for item in run.items(&over)? {
                run.turn()?;
                let item = convert(item, of, false)?;
                run.set_local(slot, item);
                match run.block(body)? {
                    Flow::Next | Flow::Continue => {}
                    Flow::Break => return Ok(Flow::Next),
                    other => return Ok(other),
                }
            }
            Ok(Flow::Next)
        })
    }

    /// Runs what goes over a copy of a list. An error where such copies inside each other take too much memory.
    pub(super) fn holding<T>(&mut self, over: &Got<'a>, run: impl FnOnce(&mut Self) -> Done<T>) -> Done<T> {
        let bytes = ELEMENT_BYTES * self.elements_of(over) as u64;
        if self.held + bytes > HELD_BYTES_MAX {
            return Err(limit(format!(
                "loops inside each other hold more than {HELD_BYTES_MAX} bytes of lists"
            )));
        }
        self.held += bytes;
        let done = run(self);
        self.held -= bytes;
        done
    }

    /// How many elements or members it has; none if it has none.
    fn elements_of(&self, of: &Got<'a>) -> usize {
        match of {
            Got::Json(Value::Array(elements)) => elements.len(),
            Got::Json(Value::Object(members)) => members.len(),
            Got::View(map, _) => self.elements_of(map),
            Got::Heap(place) => match self.heap.get(*place) {
                Some(Object::List(elements) | Object::Set(elements)) => elements.len(),
                Some(Object::Map(members)) => members.len(),
                _ => 0,
            },
            _ => 0,
        }
    }

    fn do_while(&mut self, body: &'a [Statement], condition: &'a Expression) -> Done<Flow<'a>> {
        loop {
            self.turn()?;
            match self.block(body)? {
                Flow::Next | Flow::Continue => {}
                Flow::Break => return Ok(Flow::Next),
                other => return Ok(other),
            }
            if !self.flag(condition)? {
                return Ok(Flow::Next);
            }
        }
    }

    fn throw(&mut self, expression: &'a Expression) -> Done<Flow<'a>> {
        match self.eval(expression)? {
            Got::Failure(thrown) => fail(thrown.0, thrown.1.clone()),
            other => fail(CAST, format!("cannot throw a [{}]", self.kind(&other))),
        }
    }

    fn try_catch(&mut self, body: &'a [Statement], catches: &'a [Catch]) -> Done<Flow<'a>> {
        let (depth, base, count) = (self.depth, self.base, self.slots.len());
        let failed = match self.block(body) {
            Err(Stop::Fail(failure)) if !failure.is_limit => failure,
            done => return done,
        };
        let is_for = |catch: &&Catch| catch.kinds.is_none_or(|kinds| kinds.contains(&failed.kind));
        let Some(catch) = catches.iter().find(is_for) else { return Err(Stop::Fail(failed)) };
        // What was begun inside has ended.
        (self.depth, self.base) = (depth, base);
        self.slots.truncate(count);
        self.set_local(catch.slot, Got::Failure(Rc::new((failed.kind, failed.reason))));
        self.block(&catch.body)
    }

    fn set_local(&mut self, slot: usize, value: Got<'a>) {
        if let Some(variable) = self.slots.get_mut(self.base + slot) {
            *variable = value;
        }
    }

    fn flag(&mut self, expression: &'a Expression) -> Done<bool> {
        match self.eval(expression)? {
            Got::Boolean(flag) => Ok(flag),
            other => fail(SCRIPT, format!("a condition is a [{}], not a boolean", self.kind(&other))),
        }
    }

    fn eval(&mut self, expression: &'a Expression) -> Done<Got<'a>> {
        self.enter()?;
        let got = match &expression.what {
            What::Null => Ok(Got::Null),
            What::Boolean(flag) => Ok(Got::Boolean(*flag)),
            What::Int(number) => Ok(Got::Int(*number)),
            What::Long(number) => Ok(Got::Long(*number)),
            What::Float(number) => Ok(Got::Float(*number)),
            What::Double(number) => Ok(Got::double(*number)),
            What::Text(text) => Ok(Got::Text(Text::Borrowed(text))),
            What::Pattern(pattern) => Ok(Got::Pattern(pattern)),
            What::Context => Ok(self.context.clone()),
            What::Params => Ok(self.params.clone()),
            What::Local(slot) => Ok(self.slots.get(self.base + slot).cloned().unwrap_or(Got::Null)),
            What::List(elements) => self.list(elements),
            What::Map(members) => self.map(members),
            What::New(class, arguments) => self.create(*class, arguments, expression.at),
            What::Chain(start, links) => self.chain(start, links),
            What::Static(function, arguments) => self.function_of_class(*function, arguments, expression.at),
            What::Call(place, arguments) => self.call_function(*place, arguments, expression.at),
            What::Not(operand) => self.flag(operand).map(|flag| Got::Boolean(!flag)),
            What::Negate(operand) => self.sign(operand, expression.at, true),
            What::Plus(operand) => self.sign(operand, expression.at, false),
            What::Complement(operand) => self.complement(operand, expression.at),
            What::Cast(of, operand) => self.cast(*of, operand, expression.at),
            What::And(operands) => self.all(operands),
            What::Or(operands) => self.any(operands),
            What::Binary(first, rest) => self.binary(first, rest),
            What::InstanceOf(operand, of) => self.instance_of(operand, *of),
            What::Choice(parts) => self.choice(parts),
            What::Elvis(parts) => self.elvis(parts),
            What::Assign(target, operator, value) => self.assign(target, *operator, value, expression.at),
            What::Step(target, delta, is_after) => self.step(target, *delta, *is_after, expression.at),
        };
        self.depth -= 1;
        got
    }

    fn all(&mut self, operands: &'a [Expression]) -> Done<Got<'a>> {
        for operand in operands {
            if !self.flag(operand)? {
                return Ok(Got::Boolean(false));
            }
        }
        Ok(Got::Boolean(true))
    }

    fn any(&mut self, operands: &'a [Expression]) -> Done<Got<'a>> {
        for operand in operands {
            if self.flag(operand)? {
                return Ok(Got::Boolean(true));
            }
        }
        Ok(Got::Boolean(false))
    }

    fn binary(&mut self, first: &'a Expression, rest: &'a [(Operator, usize, Expression)]) -> Done<Got<'a>> {
        let mut left = self.eval(first)?;
        for (operator, at, operand) in rest {
            let right = self.eval(operand)?;
            self.at = *at;
            left = self.operate(*operator, left, right)?;
        }
        Ok(left)
    }

    fn choice(&mut self, [condition, yes, no]: &'a [Expression; 3]) -> Done<Got<'a>> {
        if self.flag(condition)? { self.eval(yes) } else { self.eval(no) }
    }

    fn elvis(&mut self, [first, otherwise]: &'a [Expression; 2]) -> Done<Got<'a>> {
        match self.eval(first)? {
            Got::Null => self.eval(otherwise),
            got => Ok(got),
        }
    }

    fn sign(&mut self, operand: &'a Expression, at: usize, is_negative: bool) -> Done<Got<'a>> {
        let operand = self.eval(operand)?;
        self.at = at;
        Ok(match operand {
            Got::Char(unit) => Got::Int(if is_negative { -i32::from(unit) } else { i32::from(unit) }),
            Got::Int(number) if is_negative => Got::Int(number.wrapping_neg()),
            Got::Long(number) if is_negative => Got::Long(number.wrapping_neg()),
            Got::Float(number) if is_negative => Got::Float(-number),
            Got::Double(number) if is_negative => Got::double(-number.value()),
            number @ (Got::Int(_) | Got::Long(_) | Got::Float(_) | Got::Double(_)) => number,
            Got::Null => return fail(NULL, "a sign before null"),
            other => return fail(CAST, format!("a sign before a [{}]", self.kind(&other))),
        })
    }

    fn complement(&mut self, operand: &'a Expression, at: usize) -> Done<Got<'a>> {
        let operand = self.eval(operand)?;
        self.at = at;
        match operand {
            Got::Int(number) => Ok(Got::Int(!number)),
            Got::Long(number) => Ok(Got::Long(!number)),
            other => fail(CAST, format!("[~] before a [{}]", self.kind(&other))),
        }
    }

    fn cast(&mut self, of: Type, operand: &'a Expression, at: usize) -> Done<Got<'a>> {
        let operand = self.eval(operand)?;
        self.at = at;
        convert(operand, of, true)
    }

    fn instance_of(&mut self, operand: &'a Expression, of: Type) -> Done<Got<'a>> {
        let operand = self.eval(operand)?;
        Ok(Got::Boolean(!matches!(operand, Got::Null) && self.is_of(&operand, of)))
    }

    fn list(&mut self, elements: &'a [Expression]) -> Done<Got<'a>> {
        let mut list = Vec::with_capacity(elements.len());
        for element in elements {
            list.push(self.eval(element)?);
        }
        self.make(Object::List(list))
    }

    fn map(&mut self, members: &'a [(Expression, Expression)]) -> Done<Got<'a>> {
        let mut map = Members::new();
        for (name, value) in members {
            let name = self.eval(name)?;
            let value = self.eval(value)?;
            map.insert(self.name(&name)?, value);
        }
        self.make(Object::Map(map))
    }

    fn values(&mut self, arguments: &'a [Expression]) -> Done<Vec<Got<'a>>> {
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            values.push(self.eval(argument)?);
        }
        Ok(values)
    }

    fn create(&mut self, class: Class, arguments: &'a [Expression], at: usize) -> Done<Got<'a>> {
        let arguments = self.values(arguments)?;
        self.at = at;
        self.made(class, arguments)
    }

    fn function_of_class(
        &mut self,
        function: super::tree::Static,
        arguments: &'a [Expression],
        at: usize,
    ) -> Done<Got<'a>> {
        let arguments = self.values(arguments)?;
        self.at = at;
        self.of_class(function, &arguments)
    }

    fn call_function(&mut self, place: usize, arguments: &'a [Expression], at: usize) -> Done<Got<'a>> {
        let function = self.tree.calls.get(place).and_then(|place| self.tree.functions.get(*place));
        let Some(function) = function else { return fail(SCRIPT, "a function that is not there") };
        let mut values = self.values(arguments)?;
        self.at = at;
        for (value, (_, of)) in values.iter_mut().zip(&function.parameters) {
            *value = convert(std::mem::replace(value, Got::Null), *of, false)?;
        }
        self.meter.spend(ELEMENT_BYTES * function.slots as u64)?;
        let outer = std::mem::replace(&mut self.base, self.slots.len());
        self.slots.resize(self.base + function.slots, Got::Null);
        for (value, (slot, _)) in values.into_iter().zip(&function.parameters) {
            self.set_local(*slot, value);
        }
        let returned = match self.block(&function.body)? {
            Flow::Return(got) => got,
            _ => Got::Null,
        };
        self.slots.truncate(self.base);
        self.base = outer;
        match function.returns {
            Type::Void => Ok(Got::Null),
            of => convert(returned, of, false),
        }
    }

    /// Runs a function that a method was given.
    pub(super) fn invoke(&mut self, lambda: &'a Lambda, arguments: Vec<Got<'a>>) -> Done<Got<'a>> {
        self.turn()?;
        if lambda.parameters.len() != arguments.len() {
            let (has, gets) = (lambda.parameters.len(), arguments.len());
            return fail(ILLEGAL, format!("a function of {has} parameters gets {gets}"));
        }
        for (slot, argument) in lambda.parameters.iter().zip(arguments) {
            self.set_local(*slot, argument);
        }
        match self.block(&lambda.body)? {
            Flow::Return(got) => Ok(got),
            _ => Ok(Got::Null),
        }
    }

    fn chain(&mut self, start: &'a Expression, links: &'a [Link]) -> Done<Got<'a>> {
        let mut at = self.eval(start)?;
        for link in links {
            self.meter.look(LOOKUP_BYTES, READ)?;
            if matches!(at, Got::Null) {
                if link.is_safe {
                    continue;
                }
                self.at = link.at;
                return fail(NULL, "cannot access a member or a method of null");
            }
            at = match &link.what {
                Of::Member(name) => {
                    self.at = link.at;
                    self.member(&at, name)?
                }
                Of::Element(place) => {
                    let place = self.eval(place)?;
                    self.at = link.at;
                    self.element(&at, &place)?
                }
                Of::Call(name, arguments) => self.call_method(&at, name, arguments, link.at)?,
            };
        }
        Ok(at)
    }

    fn call_method(
        &mut self,
        of: &Got<'a>,
        name: &'static str,
        arguments: &'a [Argument],
        at: usize,
    ) -> Done<Got<'a>> {
        let (mut values, mut function) = (Vec::new(), None);
        for argument in arguments {
            match argument {
                Argument::Value(value) => values.push(self.eval(value)?),
                Argument::Function(lambda) => function = Some(lambda),
            }
        }
        self.at = at;
        self.method(of, name, &values, function)
    }

    fn assign(
        &mut self,
        target: &'a Target,
        operator: Option<Operator>,
        value: &'a Expression,
        at: usize,
    ) -> Done<Got<'a>> {
        let (base, place) = self.place(target)?;
        let value = match operator {
            None => self.eval(value)?,
            Some(operator) => {
                let before = self.read(target, &base, &place)?;
                let value = self.eval(value)?;
                self.at = at;
                self.operate(operator, before, value)?
            }
        };
        self.at = at;
        self.write(target, &base, &place, value, operator.is_some())
    }

    fn step(&mut self, target: &'a Target, delta: i32, is_after: bool, at: usize) -> Done<Got<'a>> {
        let (base, place) = self.place(target)?;
        let before = self.read(target, &base, &place)?;
        self.at = at;
        let after = self.operate(Operator::Add, before.clone(), Got::Int(delta))?;
        let written = self.write(target, &base, &place, after, true)?;
        Ok(if is_after { before } else { written })
    }

    /// What a target is in, and where.
    fn place(&mut self, target: &'a Target) -> Done<(Got<'a>, Got<'a>)> {
        Ok(match target {
            Target::Local(..) => (Got::Null, Got::Null),
            Target::Member(base, name) => (self.eval(base)?, Got::Text(Text::Borrowed(name))),
            Target::Element(base, place) => (self.eval(base)?, self.eval(place)?),
        })
    }

    fn read(&mut self, target: &'a Target, base: &Got<'a>, place: &Got<'a>) -> Done<Got<'a>> {
        match target {
            Target::Local(slot, _) => Ok(self.slots.get(self.base + slot).cloned().unwrap_or(Got::Null)),
            Target::Member(_, name) => self.member(base, name),
            Target::Element(..) => self.element(base, place),
        }
    }

    fn write(
        &mut self,
        target: &'a Target,
        base: &Got<'a>,
        place: &Got<'a>,
        value: Got<'a>,
        is_explicit: bool,
    ) -> Done<Got<'a>> {
        match target {
            Target::Local(slot, of) => {
                let value = convert(value, *of, is_explicit)?;
                self.set_local(*slot, value.clone());
                Ok(value)
            }
            Target::Member(..) | Target::Element(..) => self.set(base, place, value),
        }
    }

    /// A member of an object; null where it has none of that name.
    pub(super) fn member(&mut self, of: &Got<'a>, name: &'a str) -> Done<Got<'a>> {
        match of {
            Got::Null => fail(NULL, "cannot access a member or a method of null"),
            Got::Context(document) => Ok(document.member(name).map_or(Got::Null, Got::of_json)),
            Got::Json(Value::Object(members)) => Ok(members.get(name).map_or(Got::Null, Got::of_json)),
            Got::Entry(..) if name == "key" => self.method(of, "getKey", &[], None),
            Got::Entry(..) if name == "value" => self.method(of, "getValue", &[], None),
            Got::Failure(failure) if name == "message" => Ok(Got::text(failure.1.as_str())),
            Got::Heap(place) => match self.heap.get(*place) {
                Some(Object::Map(members)) => Ok(members.get(name).cloned().unwrap_or(Got::Null)),
                Some(Object::List(elements) | Object::Set(elements)) if name == "length" => {
                    Ok(Got::Int(i32::try_from(elements.len()).unwrap_or(i32::MAX)))
                }
                Some(Object::List(_)) => self.numbered(of, name),
                _ => self.no_member(of, name),
            },
            Got::Json(Value::Array(elements)) if name == "length" => {
                Ok(Got::Int(i32::try_from(elements.len()).unwrap_or(i32::MAX)))
            }
            Got::Json(Value::Array(_)) => self.numbered(of, name),
            other => self.no_member(other, name),
        }
    }

    fn numbered(&mut self, of: &Got<'a>, name: &str) -> Done<Got<'a>> {
        match name.parse::<i32>() {
            Ok(number) => self.element(of, &Got::Int(number)),
            Err(_) => self.no_member(of, name),
        }
    }

    fn no_member<T>(&self, of: &Got<'a>, name: &str) -> Done<T> {
        fail(SCRIPT, format!("a [{}] has no member [{}]", self.kind(of), shown(name)))
    }

    /// An element of a list, from the end where the number is negative, or a member of a map.
    fn element(&mut self, of: &Got<'a>, place: &Got<'a>) -> Done<Got<'a>> {
        match (of, place) {
            (Got::Null, _) => fail(NULL, "cannot access an element of null"),
            (Got::Heap(heap), Got::Text(name)) => match self.heap.get(*heap) {
                Some(Object::Map(members)) => Ok(members.get(&**name).cloned().unwrap_or(Got::Null)),
                _ => self.no_element(of, place),
            },
            (Got::Json(Value::Object(members)), Got::Text(name)) => {
                Ok(members.get(&**name).map_or(Got::Null, Got::of_json))
            }
            (Got::Context(document), Got::Text(name)) => {
                Ok(document.member(name).map_or(Got::Null, Got::of_json))
            }
            (Got::Heap(heap), number) => match (self.heap.get(*heap), number.whole()) {
                (Some(Object::List(elements)), Some(number)) => {
                    let place = place_of(number, elements.len())?;
                    Ok(elements.get(place).cloned().unwrap_or(Got::Null))
                }
                (Some(Object::Map(_)), _) => Ok(Got::Null),
                _ => self.no_element(of, number),
            },
            (Got::Json(Value::Array(elements)), number) => match number.whole() {
                Some(number) => Ok(Got::of_json(&elements[place_of(number, elements.len())?])),
                None => self.no_element(of, number),
            },
            _ => self.no_element(of, place),
        }
    }

    fn no_element<T>(&self, of: &Got<'a>, place: &Got<'a>) -> Done<T> {
        fail(SCRIPT, format!("a [{}] has no element by a [{}]", self.kind(of), self.kind(place)))
    }

    fn set(&mut self, of: &Got<'a>, place: &Got<'a>, value: Got<'a>) -> Done<Got<'a>> {
        let value = self.import(value)?;
        match of {
            Got::Null => return fail(NULL, "cannot set a member or an element of null"),
            Got::Json(_) | Got::Context(_) => {
                return fail(
                    ILLEGAL,
                    "what a condition or [params] has cannot be changed: make a copy of it",
                );
            }
            Got::Heap(heap) => {
                self.meter.spend(ELEMENT_BYTES)?;
                if let Some(Object::Map(_)) = self.heap.get(*heap) {
                    let name = self.name(place)?;
                    self.meter.spend(name.len() as u64)?;
                    if let Some(Object::Map(members)) = self.heap.get_mut(*heap) {
                        members.insert(name, value.clone());
                    }
                    return Ok(value);
                }
                if let Some(Object::List(elements)) = self.heap.get_mut(*heap)
                    && let Some(number) = place.whole()
                {
                    let at = place_of(number, elements.len())?;
                    elements[at] = value.clone();
                    return Ok(value);
                }
            }
            _ => {}
        }
        self.no_element(of, place)
    }

    /// What a map calls a member.
    pub(super) fn name(&self, got: &Got<'a>) -> Done<Rc<str>> {
        match got {
            Got::Text(Text::Made(text)) => Ok(Rc::clone(text)),
            Got::Text(Text::Borrowed(text)) => Ok(Rc::from(*text)),
            Got::Null => fail(NULL, "the name of a member is null"),
            other => fail(CAST, format!("the name of a member is a [{}], not a string", self.kind(other))),
        }
    }

    /// Puts something on the heap.
    pub(super) fn make(&mut self, object: Object<'a>) -> Done<Got<'a>> {
        let count = match &object {
            Object::List(elements) | Object::Set(elements) => elements.len(),
            Object::Map(members) => members.len(),
            Object::Cursor(elements, _) | Object::Tokens(elements, _) => elements.len(),
            Object::Builder(_) | Object::Matcher { .. } => 1,
        };
        self.meter.spend(ELEMENT_BYTES * (1 + count as u64))?;
        self.heap.push(object);
        Ok(Got::Heap(self.heap.len() - 1))
    }

    pub(super) fn make_text(&self, text: String) -> Done<Got<'a>> {
        self.meter.spend(ELEMENT_BYTES + text.len() as u64)?;
        Ok(Got::Text(text.into()))
    }

    /// The same as something that can be changed, and be part of a document.
    pub(super) fn import(&mut self, got: Got<'a>) -> Done<Got<'a>> {
        match got {
            Got::Json(value) => {
                self.meter.spend(weight(value))?;
                self.copy(value)
            }
            Got::View(..) => {
                let items = self.items(&got)?;
                self.make(Object::List(items))
            }
            other => Ok(other),
        }
    }

    fn copy(&mut self, value: &'a Value) -> Done<Got<'a>> {
        match value {
            Value::Array(elements) => {
                let elements = elements.iter().map(|element| self.copy(element)).collect::<Done<Vec<_>>>()?;
                self.make(Object::List(elements))
            }
            Value::Object(members) => {
                let mut map = Members::with_capacity(members.len());
                for (name, member) in members {
                    map.insert(Rc::from(name.as_str()), self.copy(member)?);
                }
                self.make(Object::Map(map))
            }
            other => Ok(Got::of_json(other)),
        }
    }

    /// Takes a document, which the script may change.
    pub(super) fn take(&mut self, value: Value) -> Done<Got<'a>> {
        Ok(match value {
            Value::Null => Got::Null,
            Value::Bool(flag) => Got::Boolean(flag),
            Value::Number(number) => Got::of_number(&number),
            Value::String(text) => Got::Text(text.into()),
            Value::Array(elements) => {
                let elements = elements.into_iter().map(|element| self.take(element));
                let elements = elements.collect::<Done<Vec<_>>>()?;
                self.heap.push(Object::List(elements));
                Got::Heap(self.heap.len() - 1)
            }
            Value::Object(members) => {
                let mut map = Members::with_capacity(members.len());
                for (name, member) in members {
                    map.insert(Rc::from(name), self.take(member)?);
                }
                self.heap.push(Object::Map(map));
                Got::Heap(self.heap.len() - 1)
            }
        })
    }

    /// What a document has of it.
    pub(super) fn give(&self, got: &Got<'a>, depth: usize) -> Done<Value> {
        self.meter.look(STEP_BYTES, READ)?;
        if depth > DEPTH_MAX {
            return fail(
                ILLEGAL,
                format!("the script makes a document that refers to itself or is more than {DEPTH_MAX} deep"),
            );
        }
        let list = |elements: &[Got<'a>]| {
            self.meter.spend(ELEMENT_BYTES * elements.len() as u64)?;
            let elements = elements.iter().map(|element| self.give(element, depth + 1));
            elements.collect::<Done<Vec<_>>>().map(Value::Array)
        };
        Ok(match got {
            Got::Null => Value::Null,
            Got::Boolean(flag) => Value::from(*flag),
            Got::Char(unit) => Value::from(of_char(*unit)?),
            Got::Int(number) => Value::from(*number),
            Got::Long(number) => Value::from(*number),
            Got::Big(number) => Value::from(*number),
            Got::Float(number) => match json_of_float(*number) {
                Some(number) => number,
                None => return fail(ILLEGAL, UNSTORED),
            },
            Got::Double(number) if number.can_be_written() => {
                self.meter.spend(number.text_bytes() as u64)?;
                Value::Number(Number::Double(number.clone()))
            }
            Got::Double(_) => return fail(ILLEGAL, UNSTORED),
            Got::Text(text) => {
                self.meter.spend(text.len() as u64)?;
                Value::from(&**text)
            }
            Got::Json(value) => {
                self.meter.spend(weight(value))?;
                (*value).clone()
            }
            Got::View(..) => list(&self.items(got)?)?,
            Got::Heap(place) => match self.heap.get(*place) {
                Some(Object::List(elements) | Object::Set(elements)) => list(elements)?,
                Some(Object::Map(members)) => {
                    self.meter.spend(ELEMENT_BYTES * members.len() as u64)?;
                    let mut given = Vec::with_capacity(members.len());
                    for (name, member) in members {
                        self.meter.spend(name.len() as u64)?;
                        given.push((name.to_string(), self.give(member, depth + 1)?));
                    }
                    object(given.into_iter())
                }
                Some(Object::Builder(text)) => {
                    self.meter.spend(text.len() as u64)?;
                    Value::from(text.as_str())
                }
                _ => return fail(ILLEGAL, format!("a [{}] cannot be stored", self.kind(got))),
            },
            other => return fail(ILLEGAL, format!("a [{}] cannot be stored", self.kind(other))),
        })
    }

    /// What a loop goes over, as it is now.
    pub(super) fn items(&self, of: &Got<'a>) -> Done<Vec<Got<'a>>> {
        let items: Vec<Got<'a>> = match of {
            Got::Null => return fail(NULL, "cannot go over null"),
            Got::Json(Value::Array(elements)) => elements.iter().map(Got::of_json).collect(),
            Got::View(map, part) => self.parts(map, *part)?,
            Got::Heap(place) => match self.heap.get(*place) {
                Some(Object::List(elements) | Object::Set(elements)) => elements.clone(),
                _ => return fail(CAST, format!("cannot go over a [{}]", self.kind(of))),
            },
            other => return fail(CAST, format!("cannot go over a [{}]", self.kind(other))),
        };
        self.meter.look(ELEMENT_BYTES * items.len() as u64, READ)?;
        Ok(items)
    }

    fn parts(&self, map: &Rc<Got<'a>>, part: Part) -> Done<Vec<Got<'a>>> {
        let of = |name: Text<'a>, value: Got<'a>| match part {
            Part::Keys => Got::Text(name),
            Part::Values => value,
            Part::Entries => Got::Entry(Rc::clone(map), name),
        };
        let json = |members: &'a Map| {
            members.iter().map(|(name, value)| of(Text::Borrowed(name), Got::of_json(value))).collect()
        };
        match &**map {
            Got::Json(Value::Object(members)) => Ok(json(members)),
            Got::Context(document) => Ok(document.source().as_object().map(json).unwrap_or_default()),
            Got::Heap(place) => match self.heap.get(*place) {
                Some(Object::Map(members)) => Ok(members
                    .iter()
                    .map(|(name, value)| of(Text::Made(Rc::clone(name)), value.clone()))
                    .collect()),
                _ => fail(CAST, "the members of what is no map"),
            },
            _ => fail(CAST, "the members of what is no map"),
        }
    }

    pub(super) fn kind(&self, of: &Got<'a>) -> &'static str {
        match of {
            Got::Null => "null",
            Got::Boolean(_) => "boolean",
            Got::Char(_) => "char",
            Got::Int(_) | Got::Long(_) | Got::Big(_) | Got::Float(_) | Got::Double(_) => "number",
            Got::Text(_) => "string",
            Got::Json(value) => crate::document::kind(value),
            Got::Context(_) => "object",
            Got::Heap(place) => match self.heap.get(*place) {
                Some(Object::List(_) | Object::Set(_)) => "array",
                Some(Object::Map(_)) => "object",
                Some(Object::Cursor(..)) => "iterator",
                Some(Object::Tokens(..)) => "tokenizer",
                Some(Object::Builder(_)) => "builder",
                Some(Object::Matcher { .. }) => "matcher",
                None => "nothing",
            },
            Got::View(..) => "collection",
            Got::Entry(..) => "entry",
            Got::Pattern(_) => "pattern",
            Got::Failure(_) => "exception",
            Got::Collector(_) => "collector",
        }
    }

    /// Whether it is a set: also the keys and the entries of a map are.
    pub(super) fn is_set(&self, got: &Got<'a>) -> bool {
        match got {
            Got::Heap(place) => matches!(self.heap.get(*place), Some(Object::Set(_))),
            Got::View(_, part) => matches!(part, Part::Keys | Part::Entries),
            _ => false,
        }
    }

    fn is_of(&self, got: &Got<'a>, of: Type) -> bool {
        let kind = self.kind(got);
        match of {
            Type::Void => false,
            Type::Any => true,
            Type::Primitive(of) | Type::Boxed(of) => matches!(
                (of, got),
                (Primitive::Boolean, Got::Boolean(_))
                    | (Primitive::Char, Got::Char(_))
                    | (Primitive::Int, Got::Int(_))
                    | (Primitive::Long, Got::Long(_))
                    | (Primitive::Float, Got::Float(_))
                    | (Primitive::Double, Got::Double(_))
            ),
            Type::Number => kind == "number",
            Type::Text => kind == "string",
            Type::Map => kind == "object",
            Type::List => kind == "array" && !self.is_set(got),
            Type::Set => self.is_set(got),
            Type::Collection => kind == "array" || kind == "collection",
            Type::Entry => kind == "entry",
            Type::Iterator => kind == "iterator",
            Type::Tokenizer => kind == "tokenizer",
            Type::Builder => kind == "builder",
            Type::Pattern => kind == "pattern",
            Type::Matcher => kind == "matcher",
            Type::Exception => kind == "exception",
        }
    }
}

/// Where an element is: from the end where the number is negative, as in Painless.
pub(super) fn place_of(number: i128, length: usize) -> Done<usize> {
    let place = if number < 0 { number + length as i128 } else { number };
    match usize::try_from(place).ok().filter(|place| *place < length) {
        Some(place) => Ok(place),
        None => fail(OUTSIDE, format!("Index {number} out of bounds for length {length}")),
    }
}

fn default<'a>(of: Primitive) -> Got<'a> {
    match of {
        Primitive::Boolean => Got::Boolean(false),
        Primitive::Char => Got::Char(0),
        Primitive::Byte | Primitive::Short | Primitive::Int => Got::Int(0),
        Primitive::Long => Got::Long(0),
        Primitive::Float => Got::Float(0.0),
        Primitive::Double => Got::double(0.0),
    }
}

/// A value as one of a type: without loss unless `is_explicit`. What is no primitive is checked where it is used.
fn convert(got: Got<'_>, of: Type, is_explicit: bool) -> Done<Got<'_>> {
    let primitive = match (of, &got) {
        (Type::Primitive(_), Got::Null) => return fail(NULL, "null is no value of a primitive type"),
        (Type::Primitive(of), _) => of,
        (Type::Boxed(_), Got::Null) => return Ok(Got::Null),
        (Type::Boxed(of), _) => of,
        (Type::Text, Got::Char(unit)) if is_explicit => {
            return Ok(Got::text(String::from_utf16_lossy(&[*unit])));
        }
        (Type::Text, Got::Null | Got::Text(_)) => return Ok(got),
        (Type::Text, _) => return fail(CAST, "cannot cast to a string: use String.valueOf"),
        _ => return Ok(got),
    };
    let rank = |got: &Got<'_>| match got {
        Got::Char(_) => Some(0),
        Got::Int(_) => Some(1),
        Got::Long(_) => Some(2),
        Got::Float(_) => Some(3),
        Got::Double(_) => Some(4),
        _ => None,
    };
    let wanted = match primitive {
        Primitive::Boolean if matches!(got, Got::Boolean(_)) => return Ok(got),
        Primitive::Boolean => return fail(CAST, "what is no boolean cannot be cast to one"),
        Primitive::Char => 0,
        Primitive::Byte | Primitive::Short | Primitive::Int => 1,
        Primitive::Long => 2,
        Primitive::Float => 3,
        Primitive::Double => 4,
    };
    if let (Primitive::Char, Got::Text(text), true) = (primitive, &got, is_explicit) {
        let mut units = text.encode_utf16();
        return match (units.next(), units.next()) {
            (Some(unit), None) => Ok(Got::Char(unit)),
            _ => fail(CAST, "a text that is not one character is no char"),
        };
    }
    let Some(found) = rank(&got) else { return fail(CAST, "what is no number cannot be cast to one") };
    if found > wanted && !is_explicit {
        return fail(CAST, "a number cannot be cast to a smaller type without a cast");
    }
    let float = got.number().unwrap_or(f64::NAN);
    // As in Java, what has a fraction goes to the nearest number of the type, and what is whole loses its first bits.
    let whole = match got.whole() {
        Some(whole) => whole as i64,
        None if wanted == 2 => float as i64,
        None => i64::from(float as i32),
    };
    Ok(match primitive {
        Primitive::Boolean => got,
        Primitive::Char => Got::Char(whole as u16),
        Primitive::Byte => Got::Int(i32::from(whole as i8)),
        Primitive::Short => Got::Int(i32::from(whole as i16)),
        Primitive::Int => Got::Int(whole as i32),
        Primitive::Long => Got::Long(whole),
        Primitive::Float => match got {
            Got::Float(_) => got,
            Got::Long(number) => Got::Float(number as f32),
            _ => Got::Float(float as f32),
        },
        Primitive::Double => match got {
            Got::Double(_) => got,
            _ => Got::double(float),
        },
    })
}
