//! Reads a script. What is not of the language is Invalid with its position.

use frostline_base::{Error, Result};
use frostline_java::JavaRegex;

use super::names::{
    CLASSES, CONSTANTS, EXCEPTIONS, FUNCTIONS_TAKEN, METHODS, STATICS, TYPES, UNSUPPORTED, exception_kinds,
};
use super::tokens::{Token, invalid, tokens};
use super::tree::{
    Argument, Catch, Class, Expression, Function, Lambda, Link, Of, Operator, Pattern, Statement, Target,
    Tree, Type, What,
};
use crate::document::shown;
use crate::limits::{PATTERN_BYTES_MAX, PATTERNS_MAX, SCRIPT_DEPTH_MAX};

/// Reads a script, with how many patterns it has. The context of a condition cannot be changed.
pub(super) fn read(source: &str, is_condition: bool) -> Result<(Tree, usize)> {
    let mut reader = Reader {
        tokens: tokens(source)?,
        next: 0,
        depth: 0,
        end: source.len(),
        is_condition,
        scopes: vec![Vec::new()],
        slots: 0,
        calls: Vec::new(),
        patterns: 0,
    };
    let mut functions: Vec<Function> = Vec::new();
    while let Some(function) = reader.function()? {
        if functions.iter().any(|known| known.name == function.name) {
            return Err(invalid(format!("a second function [{}]", shown(&function.name)), reader.at()));
        }
        functions.push(function);
    }
    (reader.scopes, reader.slots) = (vec![Vec::new()], 0);
    let mut body = Vec::new();
    while reader.peek().is_some() {
        body.push(reader.statement()?);
    }
    if body.is_empty() {
        return Err(reader.unexpected());
    }
    returns_last(&mut body);
    let mut calls = Vec::new();
    for (name, count, at) in &reader.calls {
        let of_name = functions.iter().position(|function| function.name == *name);
        let place = of_name.ok_or_else(|| invalid(format!("unknown function [{}]", shown(name)), *at))?;
        let takes = functions[place].parameters.len();
        if takes != *count {
            return Err(invalid(format!("[{}] takes {takes} arguments", shown(name)), *at));
        }
        calls.push(place);
    }
    Ok((Tree { functions, calls, body, slots: reader.slots }, reader.patterns))
}

/// What an expression at the end is, is what its script is.
fn returns_last(body: &mut Vec<Statement>) {
    match body.pop() {
        Some(Statement::Expression(expression)) => body.push(Statement::Return(Some(expression))),
        other => body.extend(other),
    }
}

struct Reader {
    tokens: Vec<(Token, usize)>,
    next: usize,
    depth: usize,
    end: usize,
    is_condition: bool,
    /// The variables that are known here, from the outside in.
    scopes: Vec<Vec<(String, usize, Type)>>,
    slots: usize,
    /// Functions that are called, with how many arguments and where.
    calls: Vec<(String, usize, usize)>,
    patterns: usize,
}

impl Reader {
    fn peek(&self) -> Option<&Token> {
        self.ahead(0)
    }

    fn ahead(&self, count: usize) -> Option<&Token> {
        self.tokens.get(self.next + count).map(|(token, _)| token)
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |(_, at)| *at)
    }

    fn is(&self, count: usize, symbol: &str) -> bool {
        matches!(self.ahead(count), Some(Token::Symbol(found)) if *found == symbol)
    }

    fn is_word(&self, count: usize, word: &str) -> bool {
        matches!(self.ahead(count), Some(Token::Name(name)) if name == word)
    }

    fn eat(&mut self, symbol: &str) -> bool {
        let found = self.is(0, symbol);
        self.next += usize::from(found);
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(0, word);
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<()> {
        if self.eat(symbol) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> Error {
        match self.peek() {
            None => invalid("unexpected the end", self.at()),
            Some(Token::Name(name)) if UNSUPPORTED.contains(&name.as_str()) => {
                invalid(format!("[{name}] is not supported in a script"), self.at())
            }
            Some(token) => invalid(format!("unexpected {token}"), self.at()),
        }
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Reader) -> Result<T>) -> Result<T> {
        if self.depth >= SCRIPT_DEPTH_MAX {
            return Err(invalid(format!("more than {SCRIPT_DEPTH_MAX} inside each other"), self.at()));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn name(&mut self) -> Result<String> {
        let Some(Token::Name(name)) = self.peek() else { return Err(self.unexpected()) };
        let name = name.clone();
        self.next += 1;
        Ok(name)
    }

    /// The type that begins some tokens from here, and how many tokens it has.
    fn type_at(&self, count: usize) -> Option<(Type, usize)> {
        let Some(Token::Name(name)) = self.ahead(count) else { return None };
        let (_, of_name) = TYPES.iter().find(|(known, _)| known == name)?;
        // `Map.Entry`.
        if name == "Map" && self.is(count + 1, ".") && self.is_word(count + 2, "Entry") {
            return Some((Type::Entry, 3));
        }
        match self.is(count + 1, "[") && self.is(count + 2, "]") {
            true => Some((Type::List, 3)),
            false => Some((*of_name, 1)),
        }
    }

    /// The name that comes after a type.
    fn is_declaration(&self) -> bool {
        let after = self.type_at(0).map(|(_, length)| self.ahead(length));
        matches!(after, Some(Some(Token::Name(name))) if name != "instanceof")
    }

    fn declare(&mut self, name: String, of: Type, at: usize) -> Result<usize> {
        let is_known = |(known, ..): &(String, usize, Type)| *known == name;
        if self.scopes.iter().flatten().any(is_known) || ["ctx", "params"].contains(&name.as_str()) {
            return Err(invalid(format!("a second variable [{}]", shown(&name)), at));
        }
        let slot = self.slots;
        self.slots += 1;
        if let Some(scope) = self.scopes.last_mut() {
            scope.push((name, slot, of));
        }
        Ok(slot)
    }

    fn scoped<T>(&mut self, read: impl FnOnce(&mut Reader) -> Result<T>) -> Result<T> {
        self.scopes.push(Vec::new());
        let read = self.deeper(read);
        self.scopes.pop();
        read
    }

    /// A function, where one is declared here.
    fn function(&mut self) -> Result<Option<Function>> {
        let Some((returns, length)) = self.type_at(0) else { return Ok(None) };
        let is_function = matches!(self.ahead(length), Some(Token::Name(_))) && self.is(length + 1, "(");
        if !is_function {
            return Ok(None);
        }
        self.next += length;
        let name = self.name()?;
        self.next += 1;
        (self.scopes, self.slots) = (vec![Vec::new()], 0);
        let mut parameters = Vec::new();
        while !self.eat(")") {
            if !parameters.is_empty() {
                self.expect(",")?;
            }
            let (of, length) = self.type_at(0).ok_or_else(|| self.unexpected())?;
            self.next += length;
            let at = self.at();
            let name = self.name()?;
            parameters.push((self.declare(name, of, at)?, of));
        }
        self.expect("{")?;
        let body = self.block()?;
        Ok(Some(Function { name, parameters, returns, body, slots: self.slots }))
    }

    /// The rest of a block.
    fn block(&mut self) -> Result<Vec<Statement>> {
        self.scoped(|reader| {
            let mut statements = Vec::new();
            while !reader.eat("}") {
                statements.push(reader.statement()?);
            }
            Ok(statements)
        })
    }

    /// A block, or one statement.
    fn body(&mut self) -> Result<Vec<Statement>> {
        match self.eat("{") {
            true => self.block(),
            false => self.scoped(|reader| Ok(vec![reader.statement()?])),
        }
    }

    fn condition(&mut self) -> Result<Expression> {
        self.expect("(")?;
        let condition = self.expression()?;
        self.expect(")")?;
        Ok(condition)
    }

    fn statement(&mut self) -> Result<Statement> {
        let word = match self.peek() {
            Some(Token::Name(name)) => name.clone(),
            Some(Token::Symbol("{")) => {
                self.next += 1;
                return Ok(Statement::Block(self.block()?));
            }
            _ => String::new(),
        };
        match word.as_str() {
            "if" => return self.if_else(),
            "for" => {
                self.next += 1;
                return self.scoped(Reader::for_loop);
            }
            "while" => {
                self.next += 1;
                let condition = self.condition()?;
                let body = if self.eat(";") { Vec::new() } else { self.body()? };
                return Ok(Statement::For(Vec::new(), Some(condition), Vec::new(), body));
            }
            "try" => return self.try_catch(),
            _ => {}
        }
        let statement = match word.as_str() {
            "do" => {
                self.next += 1;
                let body = self.body()?;
                if !self.eat_word("while") {
                    return Err(self.unexpected());
                }
                Statement::DoWhile(body, self.condition()?)
            }
            "break" => {
                self.next += 1;
                Statement::Break
            }
            "continue" => {
                self.next += 1;
                Statement::Continue
            }
            "return" => {
                self.next += 1;
                let is_bare = self.is(0, ";") || self.is(0, "}") || self.peek().is_none();
                Statement::Return(if is_bare { None } else { Some(self.expression()?) })
            }
            "throw" => {
                self.next += 1;
                Statement::Throw(self.expression()?)
            }
            _ => self.simple()?,
        };
        // The last one of a block needs none.
        match self.eat(";") || self.is(0, "}") || self.peek().is_none() {
            true => Ok(statement),
            false => Err(self.unexpected()),
        }
    }

    /// A declaration or an expression.
    fn simple(&mut self) -> Result<Statement> {
        if !self.is_declaration() {
            return Ok(Statement::Expression(self.expression()?));
        }
        let (of, length) = self.type_at(0).ok_or_else(|| self.unexpected())?;
        self.next += length;
        let mut declared = Vec::new();
        loop {
            let at = self.at();
            let name = self.name()?;
            let value = if self.eat("=") { Some(self.expression()?) } else { None };
            declared.push((self.declare(name, of, at)?, of, value));
            if !self.eat(",") {
                return Ok(Statement::Declare(declared));
            }
        }
    }

    fn if_else(&mut self) -> Result<Statement> {
        let mut ways = Vec::new();
        while self.eat_word("if") {
            let condition = self.condition()?;
            ways.push((condition, self.body()?));
            if !self.eat_word("else") {
                return Ok(Statement::If(ways, Vec::new()));
            }
        }
        Ok(Statement::If(ways, self.body()?))
    }

    fn for_loop(&mut self) -> Result<Statement> {
        self.expect("(")?;
        // `for (def x : list)` or `for (x in list)`.
        let each = match self.type_at(0) {
            Some((of, length)) if self.is(length + 1, ":") => Some((of, length)),
            None if self.is_word(1, "in") => Some((Type::Any, 0)),
            _ => None,
        };
        if let Some((of, length)) = each {
            self.next += length;
            let at = self.at();
            let name = self.name()?;
            self.next += 1;
            let over = self.expression()?;
            self.expect(")")?;
            let slot = self.declare(name, of, at)?;
            return Ok(Statement::Each(slot, of, over, self.body()?));
        }
        let before = if self.is(0, ";") { Vec::new() } else { vec![self.simple()?] };
        self.expect(";")?;
        let condition = if self.is(0, ";") { None } else { Some(self.expression()?) };
        self.expect(";")?;
        let mut after = Vec::new();
        while !self.eat(")") {
            if !after.is_empty() {
                self.expect(",")?;
            }
            after.push(self.expression()?);
        }
        let body = if self.eat(";") { Vec::new() } else { self.body()? };
        Ok(Statement::For(before, condition, after, body))
    }

    fn try_catch(&mut self) -> Result<Statement> {
        self.next += 1;
        self.expect("{")?;
        let body = self.block()?;
        let mut catches = Vec::new();
        while self.eat_word("catch") {
            self.expect("(")?;
            let at = self.at();
            let class = self.name()?;
            let kinds = exception_kinds(&class)
                .ok_or_else(|| invalid(format!("[{}] is no exception", shown(&class)), at))?;
            let at = self.at();
            let name = self.name()?;
            self.expect(")")?;
            self.expect("{")?;
            catches.push(self.scoped(|reader| {
                let slot = reader.declare(name, Type::Exception, at)?;
                Ok(Catch { kinds, slot, body: reader.block()? })
            })?);
        }
        match catches.is_empty() {
            true => Err(self.unexpected()),
            false => Ok(Statement::Try(body, catches)),
        }
    }

    fn expression(&mut self) -> Result<Expression> {
        self.deeper(Reader::assignment)
    }

    fn assignment(&mut self) -> Result<Expression> {
        let left = self.choice()?;
        let at = self.at();
        let operator = match self.peek() {
            Some(Token::Symbol("=")) => None,
            Some(Token::Symbol(symbol)) => match ASSIGNED.iter().find(|(known, _)| known == symbol) {
                Some((_, operator)) => Some(*operator),
                None => return Ok(left),
            },
            _ => return Ok(left),
        };
        let target = self.target(left, at)?;
        self.next += 1;
        let value = self.expression()?;
        Ok(Expression { at, what: What::Assign(Box::new(target), operator, Box::new(value)) })
    }

    /// What an expression names, so that it can be set.
    fn target(&self, expression: Expression, at: usize) -> Result<Target> {
        let wrong = || invalid("what is no variable, member or element cannot be set", at);
        let Expression { at: begins, what } = expression;
        match what {
            What::Local(slot) => {
                let of = self.scopes.iter().flatten().find(|(_, known, _)| *known == slot);
                Ok(Target::Local(slot, of.map_or(Type::Any, |(.., of)| *of)))
            }
            What::Chain(start, mut links) => {
                if self.is_condition && matches!(start.what, What::Context) {
                    return Err(invalid("a condition cannot change [ctx]", at));
                }
                let last = links.pop().ok_or_else(wrong)?;
                let before = match links.is_empty() {
                    true => *start,
                    false => Expression { at: begins, what: What::Chain(start, links) },
                };
                match last {
                    Link { is_safe: false, what: Of::Member(name), .. } => Ok(Target::Member(before, name)),
                    Link { what: Of::Element(place), .. } => Ok(Target::Element(before, place)),
                    _ => Err(wrong()),
                }
            }
            _ => Err(wrong()),
        }
    }

    /// `a ? b : c` and `a ?: b`.
    fn choice(&mut self) -> Result<Expression> {
        let first = self.binary(0)?;
        let at = self.at();
        if self.eat("?") {
            let second = self.expression()?;
            self.expect(":")?;
            let third = self.deeper(Reader::assignment)?;
            return Ok(Expression { at, what: What::Choice(Box::new([first, second, third])) });
        }
        if self.eat("?:") {
            let second = self.deeper(Reader::choice)?;
            return Ok(Expression { at, what: What::Elvis(Box::new([first, second])) });
        }
        Ok(first)
    }

    /// The operator that comes next, with how strongly it binds.
    fn operator(&self) -> Option<(&'static str, u8)> {
        if self.is_word(0, "instanceof") {
            return Some(("instanceof", 6));
        }
        let Some(Token::Symbol(symbol)) = self.peek() else { return None };
        let found = LEVELS.iter().zip(0..).find(|(symbols, _)| symbols.contains(symbol));
        found.map(|(_, level)| (*symbol, level))
    }

    /// Operands of operators that bind at least so strongly. Those of one level are one list, however many they are.
    fn binary(&mut self, least: u8) -> Result<Expression> {
        let mut left = self.unary()?;
        while let Some((_, level)) = self.operator().filter(|(_, level)| *level >= least) {
            let at = self.at();
            let mut rest = Vec::new();
            while let Some((symbol, _)) = self.operator().filter(|(_, found)| *found == level) {
                let at = self.at();
                self.next += 1;
                if symbol == "instanceof" {
                    left = chained(left, std::mem::take(&mut rest), at);
                    let (of, length) = self.type_at(0).ok_or_else(|| self.unexpected())?;
                    self.next += length;
                    left = Expression { at, what: What::InstanceOf(Box::new(left), of) };
                    if self.operator().is_some_and(|(symbol, _)| symbol == "instanceof") {
                        return Err(self.unexpected());
                    }
                    continue;
                }
                rest.push((symbol, at, self.binary(level + 1)?));
            }
            left = match level {
                0 | 1 => {
                    let operands = [left].into_iter().chain(rest.into_iter().map(|(.., operand)| operand));
                    let operands = operands.collect();
                    let what = if level == 0 { What::Or(operands) } else { What::And(operands) };
                    Expression { at, what }
                }
                _ => chained(left, rest, at),
            };
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expression> {
        let at = self.at();
        if let Some(delta) = self.step() {
            self.next += 1;
            let operand = self.deeper(Reader::unary)?;
            let target = self.target(operand, at)?;
            return Ok(Expression { at, what: What::Step(Box::new(target), delta, false) });
        }
        let cast = self.cast();
        if let Some((of, length)) = cast {
            self.next += length;
            let operand = self.deeper(Reader::unary)?;
            return Ok(Expression { at, what: What::Cast(of, Box::new(operand)) });
        }
        let smallest = match (self.peek(), self.ahead(1)) {
            (Some(Token::Symbol("-")), Some(Token::IntAfterMinus)) => Some(What::Int(i32::MIN)),
            (Some(Token::Symbol("-")), Some(Token::LongAfterMinus)) => Some(What::Long(i64::MIN)),
            _ => None,
        };
        if let Some(what) = smallest {
            self.next += 2;
            return Ok(Expression { at, what });
        }
        let make = match self.peek() {
            Some(Token::Symbol("!")) => What::Not,
            Some(Token::Symbol("-")) => What::Negate,
            Some(Token::Symbol("+")) => What::Plus,
            Some(Token::Symbol("~")) => What::Complement,
            _ => return self.value(),
        };
        self.next += 1;
        let operand = self.deeper(Reader::unary)?;
        Ok(Expression { at, what: make(Box::new(operand)) })
    }

    fn step(&self) -> Option<i32> {
        match self.peek() {
            Some(Token::Symbol("++")) => Some(1),
            Some(Token::Symbol("--")) => Some(-1),
            _ => None,
        }
    }

    /// The type in parentheses, with how many tokens it has.
    fn cast(&self) -> Option<(Type, usize)> {
        if !self.is(0, "(") {
            return None;
        }
        let (of, length) = self.type_at(1)?;
        self.is(1 + length, ")").then_some((of, length + 2))
    }

    fn value(&mut self) -> Result<Expression> {
        let at = self.at();
        let what = self.start()?;
        let mut links = Vec::new();
        while let Some(link) = self.link()? {
            links.push(link);
        }
        let start = Expression { at, what };
        let value = match links.is_empty() {
            true => start,
            false => Expression { at, what: What::Chain(Box::new(start), links) },
        };
        let at = self.at();
        match self.step() {
            None => Ok(value),
            Some(delta) => {
                let target = self.target(value, at)?;
                self.next += 1;
                Ok(Expression { at, what: What::Step(Box::new(target), delta, true) })
            }
        }
    }

    fn start(&mut self) -> Result<What> {
        let Some(token) = self.peek().cloned() else { return Err(self.unexpected()) };
        let at = self.at();
        let what = match token {
            Token::Text(text) => What::Text(text),
            Token::Int(number) => What::Int(number),
            Token::Long(number) => What::Long(number),
            Token::Float(number) => What::Float(number),
            Token::Double(number) => What::Double(number),
            Token::Pattern(pattern, flags) => What::Pattern(self.pattern(&pattern, &flags, at)?),
            Token::Symbol("(") => {
                self.next += 1;
                let inside = self.expression()?;
                self.expect(")")?;
                return Ok(inside.what);
            }
            Token::Symbol("[") => {
                self.next += 1;
                return self.literal();
            }
            Token::Name(name) => return self.named(&name, at),
            Token::IntAfterMinus | Token::LongAfterMinus => {
                return Err(invalid(format!("{token} is too large for its type"), at));
            }
            Token::Symbol(_) => return Err(self.unexpected()),
        };
        self.next += 1;
        Ok(what)
    }

    fn pattern(&mut self, pattern: &str, flags: &str, at: usize) -> Result<Pattern> {
        self.patterns += 1;
        if self.patterns > PATTERNS_MAX {
            return Err(invalid(format!("more than {PATTERNS_MAX} patterns"), at));
        }
        if let Some(flag) = flags.chars().find(|flag| !"imsx".contains(*flag)) {
            return Err(invalid(format!("the flag [{flag}] of a pattern is not supported"), at));
        }
        // What it says has several lines.
        let said = |e: regex::Error| e.to_string().lines().last().unwrap_or_default().to_owned();
        let unread = |e| invalid(format!("a pattern that is not understood: {}", said(e)), at);
        Ok(Pattern {
            find: JavaRegex::new(pattern, flags, PATTERN_BYTES_MAX).map_err(unread)?,
            whole: JavaRegex::whole(pattern, flags, PATTERN_BYTES_MAX).map_err(unread)?,
        })
    }

    /// The rest of a list or a map.
    fn literal(&mut self) -> Result<What> {
        if self.eat("]") {
            return Ok(What::List(Vec::new()));
        }
        if self.is(0, ":") && self.is(1, "]") {
            self.next += 2;
            return Ok(What::Map(Vec::new()));
        }
        let first = self.expression()?;
        if !self.eat(":") {
            let mut elements = vec![first];
            while !self.eat("]") {
                self.expect(",")?;
                elements.push(self.expression()?);
            }
            return Ok(What::List(elements));
        }
        let mut members = vec![(first, self.expression()?)];
        while !self.eat("]") {
            self.expect(",")?;
            let key = self.expression()?;
            self.expect(":")?;
            members.push((key, self.expression()?));
        }
        Ok(What::Map(members))
    }

    fn named(&mut self, name: &str, at: usize) -> Result<What> {
        let what = match name {
            "null" => What::Null,
            "true" => What::Boolean(true),
            "false" => What::Boolean(false),
            "ctx" => What::Context,
            "params" if !self.is_condition => What::Params,
            "new" => {
                self.next += 1;
                return self.made();
            }
            _ => {
                if let Some((_, slot, _)) = self.scopes.iter().flatten().find(|(known, ..)| known == name) {
                    What::Local(*slot)
                } else if self.is(1, ".") && matches!(self.ahead(2), Some(Token::Name(_))) {
                    return self.of_class(name, at);
                } else if self.is(1, "(") && !UNSUPPORTED.contains(&name) {
                    self.next += 2;
                    let arguments = self.list()?;
                    self.calls.push((name.to_owned(), arguments.len(), at));
                    return Ok(What::Call(self.calls.len() - 1, arguments));
                } else {
                    return Err(self.unexpected());
                }
            }
        };
        self.next += 1;
        Ok(what)
    }

    /// A function or a constant of a class.
    fn of_class(&mut self, class: &str, at: usize) -> Result<What> {
        let Some(Token::Name(name)) = self.ahead(2).cloned() else { return Err(self.unexpected()) };
        let of_class = |known: &&'static str| *known == class;
        if !self.is(3, "(") {
            let constant = CONSTANTS.iter().find(|(known, constant, _)| of_class(known) && *constant == name);
            let Some((.., make)) = constant else { return Err(self.unexpected()) };
            self.next += 3;
            return Ok(make());
        }
        if !STATICS.iter().any(|(known, ..)| of_class(known)) {
            return Err(self.unexpected());
        }
        self.next += 4;
        let arguments = self.list()?;
        let mut of_name = STATICS.iter().filter(|(known, function, ..)| of_class(known) && *function == name);
        match of_name.clone().find(|(_, _, count, _)| *count == arguments.len()) {
            Some((.., function)) => Ok(What::Static(*function, arguments)),
            None => Err(match of_name.next() {
                Some((_, _, count, _)) => invalid(format!("[{class}.{name}] takes {count} arguments"), at),
                None => invalid(format!("[{class}.{}] is not supported in a script", shown(&name)), at),
            }),
        }
    }

    /// What comes after `new`.
    fn made(&mut self) -> Result<What> {
        let at = self.at();
        let name = self.name()?;
        let exception = || {
            let kind = EXCEPTIONS.iter().find(|(known, ..)| *known == name)?.1;
            Some((Class::Exception(kind), 0, 1))
        };
        let known = CLASSES.iter().find(|(known, ..)| *known == name);
        let known = known.map(|(_, class, least, most)| (*class, *least, *most)).or_else(exception);
        let Some((class, least, most)) = known else {
            return Err(invalid(format!("[new {}] is not supported in a script", shown(&name)), at));
        };
        self.expect("(")?;
        let arguments = self.list()?;
        match (least..=most).contains(&arguments.len()) {
            true => Ok(What::New(class, arguments)),
            false => Err(invalid(format!("[new {name}] takes {least} to {most} arguments"), at)),
        }
    }

    /// The rest of arguments between commas.
    fn list(&mut self) -> Result<Vec<Expression>> {
        let mut elements = Vec::new();
        while !self.eat(")") {
            if !elements.is_empty() {
                self.expect(",")?;
            }
            elements.push(self.expression()?);
        }
        Ok(elements)
    }

    fn link(&mut self) -> Result<Option<Link>> {
        let at = self.at();
        let is_safe = match self.peek() {
            Some(Token::Symbol(".")) => false,
            Some(Token::Symbol("?.")) => true,
            Some(Token::Symbol("[")) => {
                self.next += 1;
                let place = self.expression()?;
                self.expect("]")?;
                return Ok(Some(Link { at, is_safe: false, what: Of::Element(place) }));
            }
            _ => return Ok(None),
        };
        self.next += 1;
        let at = self.at();
        let name = match self.peek() {
            Some(Token::Name(name)) => name.clone(),
            // `list.0`
            Some(Token::Int(number)) => number.to_string(),
            _ => return Err(self.unexpected()),
        };
        self.next += 1;
        if !self.eat("(") {
            return Ok(Some(Link { at, is_safe, what: Of::Member(name) }));
        }
        let mut arguments = Vec::new();
        while !self.eat(")") {
            if !arguments.is_empty() {
                self.expect(",")?;
            }
            arguments.push(self.argument()?);
        }
        let Some((name, least, most)) = METHODS.iter().find(|(known, ..)| *known == name) else {
            return Err(invalid(format!("the method [{}] is not supported in a script", shown(&name)), at));
        };
        if !(*least..=*most).contains(&arguments.len()) {
            let count = if least == most { least.to_string() } else { format!("{least} to {most}") };
            return Err(invalid(format!("[{name}] takes {count} arguments"), at));
        }
        let has_function = arguments.iter().any(|argument| matches!(argument, Argument::Function(_)));
        if has_function && !FUNCTIONS_TAKEN.contains(name) {
            return Err(invalid(format!("[{name}] takes no function"), at));
        }
        Ok(Some(Link { at, is_safe, what: Of::Call(name, arguments) }))
    }

    /// A value, or a function such as `x -> x + 1`.
    fn argument(&mut self) -> Result<Argument> {
        let mut length = 0;
        let mut names = Vec::new();
        if let Some(Token::Name(name)) = self.peek()
            && self.is(1, "->")
        {
            names.push((name.clone(), self.at()));
            length = 2;
        } else if self.is(0, "(") {
            let mut place = 1;
            while let Some(Token::Name(name)) = self.ahead(place) {
                names.push((name.clone(), self.at()));
                place += if self.is(place + 1, ",") { 2 } else { 1 };
            }
            if self.is(place, ")") && self.is(place + 1, "->") {
                length = place + 2;
            }
        }
        if length == 0 {
            return Ok(Argument::Value(self.expression()?));
        }
        self.next += length;
        self.scoped(|reader| {
            let mut parameters = Vec::new();
            for (name, at) in names {
                parameters.push(reader.declare(name, Type::Any, at)?);
            }
            let body = match reader.eat("{") {
                true => reader.block()?,
                false => vec![Statement::Return(Some(reader.expression()?))],
            };
            Ok(Argument::Function(Lambda { parameters, body }))
        })
    }
}

/// Operators by how strongly they bind, the weakest first. Of level 6 is also `instanceof`.
const LEVELS: &[&[&str]] = &[
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!=", "===", "!=="],
    &["<", "<=", ">", ">="],
    &["<<", ">>", ">>>"],
    &["=~", "==~"],
    &["+", "-"],
    &["*", "/", "%"],
];

const OPERATORS: &[(&str, Operator)] = &[
    ("+", Operator::Add),
    ("-", Operator::Subtract),
    ("*", Operator::Multiply),
    ("/", Operator::Divide),
    ("%", Operator::Remainder),
    ("<<", Operator::ShiftLeft),
    (">>", Operator::ShiftRight),
    (">>>", Operator::ShiftRightUnsigned),
    ("&", Operator::BitAnd),
    ("|", Operator::BitOr),
    ("^", Operator::BitXor),
    ("=~", Operator::Find),
    ("==~", Operator::Match),
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("===", Operator::Same),
    ("!==", Operator::NotSame),
    ("<", Operator::Less),
    ("<=", Operator::AtMost),
    (">", Operator::More),
    (">=", Operator::AtLeast),
];

const ASSIGNED: &[(&str, Operator)] = &[
    ("+=", Operator::Add),
    ("-=", Operator::Subtract),
    ("*=", Operator::Multiply),
    ("/=", Operator::Divide),
    ("%=", Operator::Remainder),
    ("<<=", Operator::ShiftLeft),
    (">>=", Operator::ShiftRight),
    (">>>=", Operator::ShiftRightUnsigned),
    ("&=", Operator::BitAnd),
    ("|=", Operator::BitOr),
    ("^=", Operator::BitXor),
];

fn chained(left: Expression, rest: Vec<(&'static str, usize, Expression)>, at: usize) -> Expression {
    let operator =
        |symbol: &str| OPERATORS.iter().find(|(known, _)| *known == symbol).map(|(_, known)| *known);
    let rest: Vec<_> =
        rest.into_iter().filter_map(|(symbol, at, operand)| Some((operator(symbol)?, at, operand))).collect();
    match rest.is_empty() {
        true => left,
        false => Expression { at, what: What::Binary(Box::new(left), rest) },
    }
}
