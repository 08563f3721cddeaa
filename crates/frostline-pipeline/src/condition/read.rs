//! Reads a condition.

use frostline_base::{Error, Result};
use serde_json::{Number, Value};

use super::{CONDITION_DEPTH_MAX, Comparison, Expression, Link, METHODS, Of};
use crate::document::shown;

pub(super) fn read(source: &str) -> Result<Expression> {
    let mut reader = Reader { tokens: tokens(source)?, next: 0, depth: 0, end: source.len() };
    if reader.peek() == Some(&Token::Name("return".to_owned())) {
        reader.next += 1;
    }
    let expression = reader.or()?;
    reader.eat(";");
    match reader.peek() {
        None => Ok(expression),
        Some(_) => Err(reader.unexpected()),
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Name(String),
    Literal(Value),
    Symbol(&'static str),
}

const SYMBOLS: &[&str] = &[
    "===", "!==", "==~", "=~", "==", "!=", "<=", ">=", "&&", "||", "?.", "?:", "<", ">", "!", "(", ")", "[",
    "]", ".", ",", ";", "-", "+", "*", "/", "%", "?", ":", "=", "{", "}",
];

fn invalid(what: &str, at: usize) -> Error {
    Error::invalid(format!("{what} at position {at}"))
}

fn tokens(source: &str) -> Result<Vec<(Token, usize)>> {
    let mut tokens = Vec::new();
    let mut rest = source;
    loop {
        rest = rest.trim_start();
        let at = source.len() - rest.len();
        let Some(first) = rest.chars().next() else { return Ok(tokens) };
        let (token, length) = match first {
            'a'..='z' | 'A'..='Z' | '_' => {
                let length =
                    rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                let token = match &rest[..length] {
                    "null" => Token::Literal(Value::Null),
                    "true" => Token::Literal(Value::Bool(true)),
                    "false" => Token::Literal(Value::Bool(false)),
                    name => Token::Name(name.to_owned()),
                };
                (token, length)
            }
            '0'..='9' => number(rest, at)?,
            '\'' | '"' => text(rest, first).ok_or_else(|| invalid("a text without an end", at))?,
            _ => match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
                Some(symbol) => (Token::Symbol(symbol), symbol.len()),
                None => return Err(invalid(&format!("unexpected character [{first}]"), at)),
            },
        };
        tokens.push((token, at));
        rest = &rest[length..];
    }
}

fn number(rest: &str, at: usize) -> Result<(Token, usize)> {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let mut length = digits(rest);
    if let Some(fraction) = rest[length..].strip_prefix('.')
        && fraction.starts_with(|c: char| c.is_ascii_digit())
    {
        length += 1 + digits(fraction);
    }
    let text = &rest[..length];
    let number = text.parse::<i64>().map(Number::from).ok().or_else(|| Number::from_f64(text.parse().ok()?));
    let suffix = rest[length..].starts_with(['l', 'L', 'd', 'D', 'f', 'F']);
    let length = length + usize::from(suffix);
    match number {
        Some(number) if !rest[length..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') => {
            Ok((Token::Literal(Value::Number(number)), length))
        }
        _ => Err(invalid("a number that is not understood", at)),
    }
}

/// The text until its quote, with the length of all.
fn text(rest: &str, quote: char) -> Option<(Token, usize)> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1);
    loop {
        match chars.next()? {
            (_, '\\') => match chars.next()?.1 {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                c @ ('\\' | '\'' | '"') => text.push(c),
                _ => return None,
            },
            (at, c) if c == quote => return Some((Token::Literal(Value::String(text)), at + 1)),
            (_, c) => text.push(c),
        }
    }
}

struct Reader {
    tokens: Vec<(Token, usize)>,
    next: usize,
    depth: usize,
    end: usize,
}

impl Reader {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(token, _)| token)
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |(_, at)| *at)
    }

    fn eat(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Symbol(found)) if *found == symbol);
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<()> {
        if self.eat(symbol) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> Error {
        let found = match self.peek() {
            None => "the end".to_owned(),
            Some(Token::Symbol("=~" | "==~")) => {
                return invalid("patterns are not supported in a condition: found a match", self.at());
            }
            Some(Token::Name(name)) if name == "instanceof" => {
                return invalid("[instanceof] is not supported in a condition", self.at());
            }
            Some(Token::Symbol(symbol)) => format!("[{symbol}]"),
            Some(Token::Name(name)) => format!("[{}]", shown(name)),
            Some(Token::Literal(value)) => format!("[{}]", shown(&value.to_string())),
        };
        invalid(&format!("unexpected {found}"), self.at())
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Reader) -> Result<T>) -> Result<T> {
        if self.depth >= CONDITION_DEPTH_MAX {
            return Err(invalid(&format!("more than {CONDITION_DEPTH_MAX} inside each other"), self.at()));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn or(&mut self) -> Result<Expression> {
        let mut operands = vec![self.and()?];
        while self.eat("||") {
            operands.push(self.and()?);
        }
        Ok(if operands.len() == 1 { operands.remove(0) } else { Expression::Or(operands) })
    }

    fn and(&mut self) -> Result<Expression> {
        let mut operands = vec![self.compare()?];
        while self.eat("&&") {
            operands.push(self.compare()?);
        }
        Ok(if operands.len() == 1 { operands.remove(0) } else { Expression::And(operands) })
    }

    fn compare(&mut self) -> Result<Expression> {
        let left = self.unary()?;
        let comparisons = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::AtMost),
            (">=", Comparison::AtLeast),
            ("<", Comparison::Less),
            (">", Comparison::More),
        ];
        for (symbol, comparison) in comparisons {
            if self.eat(symbol) {
                return Ok(Expression::Compare(Box::new(left), comparison, Box::new(self.unary()?)));
            }
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expression> {
        match self.eat("!") {
            true => self.deeper(|reader| Ok(Expression::Not(Box::new(reader.unary()?)))),
            false => self.value(),
        }
    }

    fn value(&mut self) -> Result<Expression> {
        let start = match self.peek().cloned() {
            Some(Token::Literal(value)) => {
                self.next += 1;
                Expression::Literal(value)
            }
            Some(Token::Name(name)) if name == "ctx" => {
                self.next += 1;
                Expression::Context
            }
            Some(Token::Symbol("-")) => {
                self.next += 1;
                self.negative()?
            }
            Some(Token::Symbol("(")) => {
                self.next += 1;
                let inside = self.deeper(Reader::or)?;
                self.expect(")")?;
                inside
            }
            Some(Token::Symbol("[")) => {
                self.next += 1;
                Expression::List(self.list("]")?)
            }
            _ => return Err(self.unexpected()),
        };
        let mut links = Vec::new();
        while let Some(link) = self.link()? {
            links.push(link);
        }
        Ok(if links.is_empty() { start } else { Expression::Chain(Box::new(start), links) })
    }

    fn negative(&mut self) -> Result<Expression> {
        let number = match self.peek() {
            Some(Token::Literal(Value::Number(number))) => match number.as_i64() {
                Some(whole) => Some(Value::from(-whole)),
                None => number.as_f64().map(|number| Value::from(-number)),
            },
            _ => None,
        };
        let number = number.ok_or_else(|| self.unexpected())?;
        self.next += 1;
        Ok(Expression::Literal(number))
    }

    /// What is between commas, until a symbol.
    fn list(&mut self, end: &str) -> Result<Vec<Expression>> {
        let mut elements = Vec::new();
        if self.eat(end) {
            return Ok(elements);
        }
        loop {
            elements.push(self.deeper(Reader::or)?);
            if self.eat(end) {
                return Ok(elements);
            }
            self.expect(",")?;
        }
    }

    fn link(&mut self) -> Result<Option<Link>> {
        let is_safe = match self.peek() {
            Some(Token::Symbol(".")) => false,
            Some(Token::Symbol("?.")) => true,
            Some(Token::Symbol("[")) => {
                self.next += 1;
                let place = self.deeper(Reader::or)?;
                self.expect("]")?;
                return Ok(Some(Link { what: Of::Element(place), is_safe: false }));
            }
            _ => return Ok(None),
        };
        self.next += 1;
        let at = self.at();
        let Some(Token::Name(name)) = self.peek().cloned() else { return Err(self.unexpected()) };
        self.next += 1;
        if !self.eat("(") {
            return Ok(Some(Link { what: Of::Member(name), is_safe }));
        }
        let arguments = self.list(")")?;
        match METHODS.iter().find(|(known, ..)| *known == name) {
            Some((_, method, count)) if arguments.len() == *count => {
                Ok(Some(Link { what: Of::Call(*method, arguments), is_safe }))
            }
            Some((_, _, count)) => Err(invalid(&format!("[{name}] takes {count} arguments"), at)),
            None => {
                Err(invalid(&format!("the method [{}] is not supported in a condition", shown(&name)), at))
            }
        }
    }
}
