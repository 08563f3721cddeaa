//! Expressions over the numbers of a bucket: what `bucket_script` and `bucket_selector` compute.
//!
//! The part of Painless that is arithmetic, comparison and logic over `params.name` and numbers, with some functions of
//! `Math`. Every other word is refused with its position. An expression is compiled to steps on a stack, so that
//! evaluating it neither recurses nor fails.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Error, Result};

/// Longest source.
const SOURCE_BYTES_MAX: usize = 2_000;
/// Deepest nesting of parentheses, signs and choices.
const DEPTH_MAX: usize = 50;

/// A compiled expression.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Script {
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Step {
    Number(f64),
    Boolean(bool),
    Null,
    /// A variable, by its number.
    Variable(usize),
    Negate,
    Not,
    Two(Operator),
    /// The second of three where the first is true, else the third.
    Choose,
    Call(Function),
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Less,
    AtMost,
    More,
    AtLeast,
    Equal,
    NotEqual,
    And,
    Or,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Function {
    Abs,
    Ceil,
    Exp,
    Floor,
    Log,
    Log10,
    Max,
    Min,
    Pow,
    Sqrt,
}

/// Each function with how many arguments it takes.
const FUNCTIONS: &[(&str, Function, usize)] = &[
    ("abs", Function::Abs, 1),
    ("ceil", Function::Ceil, 1),
    ("exp", Function::Exp, 1),
    ("floor", Function::Floor, 1),
    ("log", Function::Log, 1),
    ("log10", Function::Log10, 1),
    ("max", Function::Max, 2),
    ("min", Function::Min, 2),
    ("pow", Function::Pow, 2),
    ("sqrt", Function::Sqrt, 1),
];

/// What an expression is known to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// Set where it is made of whole constants only, which Painless computes without fractions.
    Number(Option<Whole>),
    Boolean,
    Null,
}

/// A whole constant, or what is computed of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    /// It is no further from 0.
    most: u64,
    /// Whether it has 64 bits, not 32.
    is_long: bool,
}

/// Whole numbers up to here are doubles, and so are those computed of them.
const WHOLE_MAX: u64 = 1 << 53;

impl Whole {
    /// None where Painless would overflow, or a double is not exact.
    fn new(most: u64, is_long: bool) -> Option<Whole> {
        let limit = if is_long { WHOLE_MAX } else { i32::MAX as u64 };
        (most <= limit).then_some(Whole { most, is_long })
    }
}

impl Type {
    /// A number of any size.
    const NUMBER: Type = Type::Number(None);

    fn name(self) -> &'static str {
        match self {
            Type::Number(_) => "number",
            Type::Boolean => "boolean",
            Type::Null => "null",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Got {
    Number(f64),
    Boolean(bool),
    Null,
}

/// What an expression may name.
pub(super) struct Names<'a> {
    /// The variables, whose values are given in this order.
    pub variables: &'a [String],
    /// The constants of the script's own `params`.
    pub constants: &'a serde_json::Map<String, Value>,
    /// Whether variables stand alone (`lang: expression`) instead of after `params.`.
    pub bare: bool,
}

impl Script {
    /// Compiles an expression. `Invalid` with the position of what is not understood.
    pub(super) fn parse(source: &str, names: &Names<'_>) -> Result<(Script, Type)> {
        if source.len() > SOURCE_BYTES_MAX {
            return Err(Error::invalid(format!("a script has at most {SOURCE_BYTES_MAX} bytes")));
        }
        let chars: Vec<char> = source.chars().collect();
        let mut parser = Parser { chars: &chars, at: 0, depth: 0, names, steps: Vec::new() };
        parser.space();
        if parser.word_ahead() == "return" {
            parser.at += "return".len();
        }
        let ty = parser.choice()?;
        parser.eat(";");
        parser.space();
        if parser.at < chars.len() {
            return Err(parser.unexpected());
        }
        Ok((Script { steps: parser.steps }, ty))
    }

    /// How many steps it takes.
    pub(super) fn steps(&self) -> usize {
        self.steps.len()
    }

    /// The number it computes; none where it computes none. `NaN` stands for a value that is missing.
    pub(super) fn number(&self, variables: &[f64]) -> Option<f64> {
        match self.run(variables) {
            Got::Number(value) => Some(value),
            _ => None,
        }
    }

    /// Whether it holds.
    pub(super) fn holds(&self, variables: &[f64]) -> bool {
        self.run(variables) == Got::Boolean(true)
    }

    fn run(&self, variables: &[f64]) -> Got {
        let mut stack: Vec<Got> = Vec::with_capacity(8);
        for step in &self.steps {
            let mut pop = || stack.pop().unwrap_or(Got::Null);
            let got = match step {
                Step::Number(value) => Got::Number(*value),
                Step::Boolean(value) => Got::Boolean(*value),
                Step::Null => Got::Null,
                Step::Variable(number) => Got::Number(variables.get(*number).copied().unwrap_or(f64::NAN)),
                Step::Negate => match pop() {
                    Got::Number(value) => Got::Number(-value),
                    _ => Got::Null,
                },
                Step::Not => match pop() {
                    Got::Boolean(value) => Got::Boolean(!value),
                    _ => Got::Null,
                },
                Step::Two(operator) => {
                    let (right, left) = (pop(), pop());
                    operator.of(left, right)
                }
                Step::Choose => {
                    let (otherwise, then, condition) = (pop(), pop(), pop());
                    if condition == Got::Boolean(true) { then } else { otherwise }
                }
                Step::Call(function) => function.call(pop),
            };
            stack.push(got);
        }
        stack.pop().unwrap_or(Got::Null)
    }
}

impl Operator {
    fn of(self, left: Got, right: Got) -> Got {
        match (self, left, right) {
            (Operator::Equal, left, right) => Got::Boolean(left == right),
            (Operator::NotEqual, left, right) => Got::Boolean(left != right),
            (Operator::And, Got::Boolean(left), Got::Boolean(right)) => Got::Boolean(left && right),
            (Operator::Or, Got::Boolean(left), Got::Boolean(right)) => Got::Boolean(left || right),
            (_, Got::Number(left), Got::Number(right)) => match self {
                Operator::Add => Got::Number(left + right),
                Operator::Subtract => Got::Number(left - right),
                Operator::Multiply => Got::Number(left * right),
                Operator::Divide => Got::Number(left / right),
                Operator::Remainder => Got::Number(left % right),
                Operator::Less => Got::Boolean(left < right),
                Operator::AtMost => Got::Boolean(left <= right),
                Operator::More => Got::Boolean(left > right),
                Operator::AtLeast => Got::Boolean(left >= right),
                _ => Got::Null,
            },
            _ => Got::Null,
        }
    }
}

impl Function {
    fn call(self, mut pop: impl FnMut() -> Got) -> Got {
        let mut number = || match pop() {
            Got::Number(value) => value,
            _ => f64::NAN,
        };
        let last = number();
        Got::Number(match self {
            Function::Abs => last.abs(),
            Function::Ceil => last.ceil(),
            Function::Exp => last.exp(),
            Function::Floor => last.floor(),
            Function::Log => last.ln(),
            Function::Log10 => last.log10(),
            // What is no number stays none, unlike with `f64::max`.
            Function::Max => match number() {
                first if first.is_nan() || last.is_nan() => f64::NAN,
                first => first.max(last),
            },
            Function::Min => match number() {
                first if first.is_nan() || last.is_nan() => f64::NAN,
                first => first.min(last),
            },
            Function::Pow => number().powf(last),
            Function::Sqrt => last.sqrt(),
        })
    }
}

struct Parser<'a> {
    chars: &'a [char],
    at: usize,
    depth: usize,
    names: &'a Names<'a>,
    steps: Vec<Step>,
}

/// Operators by how strongly they bind, the weakest first.
const LEVELS: &[&[(&str, Operator)]] = &[
    &[("||", Operator::Or)],
    &[("&&", Operator::And)],
    &[("==", Operator::Equal), ("!=", Operator::NotEqual)],
    &[("<=", Operator::AtMost), (">=", Operator::AtLeast), ("<", Operator::Less), (">", Operator::More)],
    &[("+", Operator::Add), ("-", Operator::Subtract)],
    &[("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Remainder)],
];

impl Parser<'_> {
    fn error(&self, at: usize, what: impl std::fmt::Display) -> Error {
        Error::invalid(format!("{what} at character {} of the script", at + 1))
    }

    fn unexpected(&self) -> Error {
        match self.chars.get(self.at) {
            Some(c) => self.error(self.at, format!("unexpected `{c}`")),
            None => Error::invalid("the script ends too early"),
        }
    }

    fn space(&mut self) {
        while self.chars.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
    }

    fn ahead(&self, text: &str) -> bool {
        let rest = self.chars.get(self.at..).unwrap_or_default();
        text.chars().enumerate().all(|(at, c)| rest.get(at) == Some(&c))
    }

    fn eat(&mut self, text: &str) -> bool {
        self.space();
        let found = self.ahead(text);
        if found {
            self.at += text.len();
        }
        found
    }

    fn expect(&mut self, text: &str) -> Result<()> {
        if self.eat(text) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn word_ahead(&self) -> String {
        let rest = self.chars.get(self.at..).unwrap_or_default();
        let is_word = |c: &&char| c.is_ascii_alphanumeric() || **c == '_';
        rest.iter().take_while(is_word).collect()
    }

    /// Runs `parse` a level deeper.
    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH_MAX {
            return Err(self.error(self.at, format!("more than {DEPTH_MAX} levels of nesting")));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn choice(&mut self) -> Result<Type> {
        self.space();
        let start = self.at;
        let condition = self.level(0)?;
        if !self.eat("?") {
            return Ok(condition);
        }
        self.want(start, condition, Type::Boolean)?;
        let then = self.deeper(Self::choice)?;
        self.expect(":")?;
        let otherwise_at = self.at;
        let otherwise = self.deeper(Self::choice)?;
        self.steps.push(Step::Choose);
        match (then, otherwise) {
            (Type::Number(then), Type::Number(otherwise)) => {
                let both = then
                    .zip(otherwise)
                    .map(|(a, b)| Whole { most: a.most.max(b.most), is_long: a.is_long || b.is_long });
                Ok(Type::Number(both))
            }
            (Type::Null, other) | (other, Type::Null) => Ok(other),
            (Type::Boolean, Type::Boolean) => Ok(Type::Boolean),
            (_, other) => Err(self.error(otherwise_at, format!("unexpected {} after `:`", other.name()))),
        }
    }

    fn want(&self, at: usize, found: Type, wanted: Type) -> Result<()> {
        match found.name() == wanted.name() {
            true => Ok(()),
            false => Err(self.error(at, format!("a {} where a {} must be", found.name(), wanted.name()))),
        }
    }

    fn level(&mut self, number: usize) -> Result<Type> {
        let Some(operators) = LEVELS.get(number) else { return self.unary() };
        self.space();
        let start = self.at;
        let mut left = self.level(number + 1)?;
        loop {
            self.space();
            let Some((text, operator)) = operators.iter().find(|(text, _)| self.ahead(text)) else {
                return Ok(left);
            };
            let at = self.at;
            self.single_sign()?;
            self.at += text.len();
            self.space();
            let right_at = self.at;
            let right = self.level(number + 1)?;
            left = self.typed(*operator, at, (start, left), (right_at, right))?;
            self.steps.push(Step::Two(*operator));
            if matches!((operator, left), (Operator::Multiply, Type::Number(Some(_)))) {
                self.one_zero();
            }
        }
    }

    fn typed(
        &self,
        operator: Operator,
        at: usize,
        (left_at, left): (usize, Type),
        (right_at, right): (usize, Type),
    ) -> Result<Type> {
        let numbers = || {
            self.want(left_at, left, Type::NUMBER)?;
            self.want(right_at, right, Type::NUMBER)
        };
        let whole = match (left, right) {
            (Type::Number(Some(left)), Type::Number(Some(right))) => Some((left, right)),
            _ => None,
        };
        match operator {
            Operator::Or | Operator::And => {
                self.want(left_at, left, Type::Boolean)?;
                self.want(right_at, right, Type::Boolean)?;
                Ok(Type::Boolean)
            }
            Operator::Equal | Operator::NotEqual => {
                if left != Type::Null && right != Type::Null {
                    self.want(right_at, right, left)?;
                }
                Ok(Type::Boolean)
            }
            Operator::Divide | Operator::Remainder if whole.is_some() => Err(self.error(
                at,
                "whole constants are divided without a fraction in Painless, which is not supported: write one as 2.0",
            )),
            Operator::Add | Operator::Subtract | Operator::Multiply => {
                numbers()?;
                let Some((left, right)) = whole else { return Ok(Type::NUMBER) };
                let most = match operator {
                    Operator::Multiply => left.most.saturating_mul(right.most),
                    _ => left.most + right.most,
                };
                self.whole(at, most, left.is_long || right.is_long)
            }
            Operator::Divide | Operator::Remainder => {
                numbers()?;
                Ok(Type::NUMBER)
            }
            _ => {
                numbers()?;
                Ok(Type::Boolean)
            }
        }
    }

    /// What is computed of whole constants, which must not overflow.
    fn whole(&self, at: usize, most: u64, is_long: bool) -> Result<Type> {
        let whole = Whole::new(most, is_long).ok_or_else(|| {
            let limit = if is_long { "2^53" } else { "2147483647, or with an L than 2^53" };
            self.error(at, format!("whole constants that may become larger than {limit}: write one as 2.0;"))
        })?;
        Ok(Type::Number(Some(whole)))
    }

    /// Makes the zero of doubles that has a sign the one that whole numbers have.
    fn one_zero(&mut self) {
        self.steps.extend([Step::Number(0.0), Step::Two(Operator::Add)]);
    }

    /// Refuses `++` and `--`, which change a variable.
    fn single_sign(&self) -> Result<()> {
        match ["++", "--"].into_iter().find(|double| self.ahead(double)) {
            Some(double) => Err(self.error(self.at, format!("`{double}`, which is not supported,"))),
            None => Ok(()),
        }
    }

    fn unary(&mut self) -> Result<Type> {
        self.space();
        let at = self.at;
        if self.eat("!") {
            let operand = self.deeper(Self::unary)?;
            self.want(at + 1, operand, Type::Boolean)?;
            self.steps.push(Step::Not);
            return Ok(Type::Boolean);
        }
        let negate = self.ahead("-");
        if negate || self.ahead("+") {
            self.single_sign()?;
            self.at += 1;
            let operand = self.deeper(Self::unary)?;
            self.want(at + 1, operand, Type::NUMBER)?;
            if negate {
                self.steps.push(Step::Negate);
                if matches!(operand, Type::Number(Some(_))) {
                    self.one_zero();
                }
            }
            return Ok(operand);
        }
        self.primary()
    }

    fn primary(&mut self) -> Result<Type> {
        let at = self.at;
        if self.eat("(") {
            let inner = self.deeper(Self::choice)?;
            self.expect(")")?;
            return Ok(inner);
        }
        if self.chars.get(at).is_some_and(|c| c.is_ascii_digit() || *c == '.') {
            return self.number();
        }
        let word = self.word_ahead();
        self.at += word.chars().count();
        match word.as_str() {
            "" => Err(self.unexpected()),
            "true" | "false" => {
                self.steps.push(Step::Boolean(word == "true"));
                Ok(Type::Boolean)
            }
            "null" => {
                self.steps.push(Step::Null);
                Ok(Type::Null)
            }
            "Math" => self.function(),
            "params" => {
                let name = self.member()?;
                self.name(at, &name)
            }
            name if self.names.bare => self.name(at, name),
            name => Err(self.error(
                at,
                format!(
                    "[{name}] is not supported: a script is numbers, `params.name`, `Math` and the operators `+ - * / % < <= > \
                     >= == != && || ! ?:`",
                ),
            )),
        }
    }

    /// What follows `params`: `.name` or `['name']`.
    fn member(&mut self) -> Result<String> {
        if self.eat(".") {
            let name = self.word_ahead();
            self.at += name.chars().count();
            return if name.is_empty() { Err(self.unexpected()) } else { Ok(name) };
        }
        self.expect("[")?;
        self.space();
        let quote = match self.chars.get(self.at) {
            Some(quote @ ('\'' | '"')) => *quote,
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        let rest = self.chars.get(self.at..).unwrap_or_default();
        let name: String = rest.iter().take_while(|c| **c != quote && **c != '\\').collect();
        self.at += name.chars().count();
        self.expect(&quote.to_string())?;
        self.expect("]")?;
        Ok(name)
    }

    fn name(&mut self, at: usize, name: &str) -> Result<Type> {
        if let Some(number) = self.names.variables.iter().position(|known| known == name) {
            self.steps.push(Step::Variable(number));
            return Ok(Type::NUMBER);
        }
        match self.names.constants.get(name) {
            Some(Value::Number(number)) => {
                self.steps.push(Step::Number(number.as_f64().unwrap_or(f64::NAN)));
                if number.is_f64() || self.names.bare {
                    return Ok(Type::NUMBER);
                }
                let most = number.as_i64().map(i64::unsigned_abs).or(number.as_u64()).unwrap_or(u64::MAX);
                self.whole(at, most, most > i32::MAX as u64)
            }
            Some(Value::Bool(value)) => {
                self.steps.push(Step::Boolean(*value));
                Ok(Type::Boolean)
            }
            Some(_) => Err(self.error(at, format!("[{name}] is neither a number nor a boolean"))),
            None => {
                Err(self
                    .error(at, format!("[{name}] is neither in [buckets_path] nor in the script's [params]")))
            }
        }
    }

    fn number(&mut self) -> Result<Type> {
        let start = self.at;
        let digits = |parser: &mut Self| {
            while parser.chars.get(parser.at).is_some_and(char::is_ascii_digit) {
                parser.at += 1;
            }
        };
        digits(self);
        if self.at > start + 1 && self.chars.get(start) == Some(&'0') {
            return Err(self.error(start, "an octal number, which is not supported,"));
        }
        let (mut is_whole, mut is_long) = (true, false);
        if self.ahead(".") {
            is_whole = false;
            self.at += 1;
            digits(self);
        }
        if self.ahead("e") || self.ahead("E") {
            is_whole = false;
            self.at += 1;
            if self.ahead("-") || self.ahead("+") {
                self.at += 1;
            }
            digits(self);
        }
        let text: String = self.chars.get(start..self.at).unwrap_or_default().iter().collect();
        match self.chars.get(self.at) {
            Some('d' | 'D' | 'f' | 'F') => {
                is_whole = false;
                self.at += 1;
            }
            Some('l' | 'L') if is_whole => {
                is_long = true;
                self.at += 1;
            }
            _ => {}
        }
        if self.chars.get(self.at).is_some_and(|c| c.is_ascii_alphanumeric() || *c == '_') {
            return Err(self.unexpected());
        }
        let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
        let value = value.ok_or_else(|| self.error(start, format!("[{text}] is not a number")))?;
        self.steps.push(Step::Number(value));
        if !is_whole || self.names.bare {
            return Ok(Type::NUMBER);
        }
        self.whole(start, text.parse().unwrap_or(u64::MAX), is_long)
    }

    fn function(&mut self) -> Result<Type> {
        self.expect(".")?;
        let at = self.at;
        let word = self.word_ahead();
        self.at += word.chars().count();
        let Some((_, function, arguments)) = FUNCTIONS.iter().find(|(name, ..)| *name == word) else {
            return Err(self.error(at, format!("[Math.{word}] is not supported")));
        };
        self.expect("(")?;
        for number in 0..*arguments {
            if number > 0 {
                self.expect(",")?;
            }
            self.space();
            let at = self.at;
            let argument = self.deeper(Self::choice)?;
            self.want(at, argument, Type::NUMBER)?;
        }
        self.expect(")")?;
        self.steps.push(Step::Call(*function));
        Ok(Type::NUMBER)
    }
}

#[cfg(test)]
mod tests;
