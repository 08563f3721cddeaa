//! Operators, equality and text, as Java has them.
//!
//! Equality is of two kinds. `==` takes numbers for equal if they are once the smaller type has become the larger. `equals`,
//! and with it everything in lists, sets and maps, takes only numbers of one class for equal.

use std::cmp::Ordering;
use std::rc::Rc;

use super::names::{ARITHMETIC, CAST, NULL, SCRIPT};
use super::run::{Run, STEP_BYTES, fail, of_char};
use super::tree::Operator;
use super::value::{Got, Object, Part, java_of_float};
use crate::document::{Done, READ, weight};
use crate::limits::DEPTH_MAX;
use crate::value::Value;

/// Numbers as both operands are, once the smaller type has become the larger.
enum Pair {
    Int(i32, i32),
    Long(i64, i64),
    Float(f32, f32),
    Double(f64, f64),
}

impl<'a> Run<'a> {
    pub(super) fn operate(&mut self, operator: Operator, left: Got<'a>, right: Got<'a>) -> Done<Got<'a>> {
        let flag = |flag: bool| Ok(Got::Boolean(flag));
        match operator {
            Operator::Equal => self.alike(&left, &right).map(Got::Boolean),
            Operator::NotEqual => self.alike(&left, &right).map(|alike| Got::Boolean(!alike)),
            Operator::Same => self.same(&left, &right).map(Got::Boolean),
            Operator::NotSame => self.same(&left, &right).map(|same| Got::Boolean(!same)),
            Operator::Less | Operator::AtMost | Operator::More | Operator::AtLeast => {
                let order = self.order(&left, &right)?;
                flag(match operator {
                    Operator::Less => order == Some(Ordering::Less),
                    Operator::AtMost => matches!(order, Some(Ordering::Less | Ordering::Equal)),
                    Operator::More => order == Some(Ordering::Greater),
                    _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
                })
            }
            Operator::Find | Operator::Match => match (&left, &right) {
                (Got::Text(text), Got::Pattern(pattern)) => {
                    self.meter.look(text.len() as u64, READ)?;
                    let regex = if operator == Operator::Find { &pattern.find } else { &pattern.whole };
                    flag(regex.is_match(text))
                }
                (Got::Null, _) => fail(NULL, "cannot look for a pattern in null"),
                _ => self.unfit(operator, &left, &right),
            },
            Operator::Add if matches!(left, Got::Text(_)) || matches!(right, Got::Text(_)) => {
                let mut text = String::new();
                self.write_text(&left, &mut text, 0)?;
                self.write_text(&right, &mut text, 0)?;
                self.make_text(text)
            }
            Operator::BitAnd | Operator::BitOr | Operator::BitXor => match (&left, &right) {
                (Got::Boolean(left), Got::Boolean(right)) => flag(match operator {
                    Operator::BitAnd => left & right,
                    Operator::BitOr => left | right,
                    _ => left ^ right,
                }),
                _ => self.calculate(operator, &left, &right),
            },
            _ => self.calculate(operator, &left, &right),
        }
    }

    fn unfit<T>(&self, operator: Operator, left: &Got<'a>, right: &Got<'a>) -> Done<T> {
        let (left, right) = (self.kind(left), self.kind(right));
        let kind = if left == "null" || right == "null" { NULL } else { CAST };
        fail(kind, format!("[{operator:?}] does not go with a [{left}] and a [{right}]"))
    }

    fn calculate(&self, operator: Operator, left: &Got<'a>, right: &Got<'a>) -> Done<Got<'a>> {
        let Some(pair) = pair(left, right) else { return self.unfit(operator, left, right) };
        let whole = |right: i64| match right {
            0 => fail(ARITHMETIC, "/ by zero"),
            _ => Ok(()),
        };
        Ok(match (operator, pair) {
            (Operator::Add, Pair::Int(left, right)) => Got::Int(left.wrapping_add(right)),
            (Operator::Add, Pair::Long(left, right)) => Got::Long(left.wrapping_add(right)),
            (Operator::Add, Pair::Float(left, right)) => Got::Float(left + right),
            (Operator::Add, Pair::Double(left, right)) => Got::double(left + right),
            (Operator::Subtract, Pair::Int(left, right)) => Got::Int(left.wrapping_sub(right)),
            (Operator::Subtract, Pair::Long(left, right)) => Got::Long(left.wrapping_sub(right)),
            (Operator::Subtract, Pair::Float(left, right)) => Got::Float(left - right),
            (Operator::Subtract, Pair::Double(left, right)) => Got::double(left - right),
            (Operator::Multiply, Pair::Int(left, right)) => Got::Int(left.wrapping_mul(right)),
            (Operator::Multiply, Pair::Long(left, right)) => Got::Long(left.wrapping_mul(right)),
            (Operator::Multiply, Pair::Float(left, right)) => Got::Float(left * right),
            (Operator::Multiply, Pair::Double(left, right)) => Got::double(left * right),
            (Operator::Divide, Pair::Int(left, right)) => {
                whole(right.into())?;
                Got::Int(left.wrapping_div(right))
            }
            (Operator::Divide, Pair::Long(left, right)) => {
                whole(right)?;
                Got::Long(left.wrapping_div(right))
            }
            (Operator::Divide, Pair::Float(left, right)) => Got::Float(left / right),
            (Operator::Divide, Pair::Double(left, right)) => Got::double(left / right),
            (Operator::Remainder, Pair::Int(left, right)) => {
                whole(right.into())?;
                Got::Int(left.wrapping_rem(right))
            }
            (Operator::Remainder, Pair::Long(left, right)) => {
                whole(right)?;
                Got::Long(left.wrapping_rem(right))
            }
            (Operator::Remainder, Pair::Float(left, right)) => Got::Float(left % right),
            (Operator::Remainder, Pair::Double(left, right)) => Got::double(left % right),
            (Operator::BitAnd, Pair::Int(left, right)) => Got::Int(left & right),
            (Operator::BitAnd, Pair::Long(left, right)) => Got::Long(left & right),
            (Operator::BitOr, Pair::Int(left, right)) => Got::Int(left | right),
            (Operator::BitOr, Pair::Long(left, right)) => Got::Long(left | right),
            (Operator::BitXor, Pair::Int(left, right)) => Got::Int(left ^ right),
            (Operator::BitXor, Pair::Long(left, right)) => Got::Long(left ^ right),
            (Operator::ShiftLeft | Operator::ShiftRight | Operator::ShiftRightUnsigned, _) => {
                return self.shift(operator, left, right);
            }
            _ => return self.unfit(operator, left, right),
        })
    }

    /// What is shifted keeps its type; of the distance the last bits count.
    fn shift(&self, operator: Operator, left: &Got<'a>, right: &Got<'a>) -> Done<Got<'a>> {
        let Some(distance) = right.whole().map(|distance| distance as u32) else {
            return self.unfit(operator, left, right);
        };
        Ok(match (left, operator) {
            (Got::Int(number), Operator::ShiftLeft) => Got::Int(number.wrapping_shl(distance)),
            (Got::Int(number), Operator::ShiftRight) => Got::Int(number.wrapping_shr(distance)),
            (Got::Int(number), _) => Got::Int((*number as u32).wrapping_shr(distance) as i32),
            (Got::Long(number), Operator::ShiftLeft) => Got::Long(number.wrapping_shl(distance)),
            (Got::Long(number), Operator::ShiftRight) => Got::Long(number.wrapping_shr(distance)),
            (Got::Long(number), _) => Got::Long((*number as u64).wrapping_shr(distance) as i64),
            _ => return self.unfit(operator, left, right),
        })
    }

    /// How two numbers compare; none where one of them is none.
    pub(super) fn order(&self, left: &Got<'a>, right: &Got<'a>) -> Done<Option<Ordering>> {
        if let (Some(left), Some(right)) = (left.whole(), right.whole()) {
            return Ok(Some(left.cmp(&right)));
        }
        match (left.number(), right.number()) {
            (Some(left), Some(right)) => Ok(left.partial_cmp(&right)),
            _ => {
                let (left, right) = (self.kind(left), self.kind(right));
                fail(SCRIPT, format!("cannot compare a [{left}] with a [{right}]"))
            }
        }
    }

    fn same(&self, left: &Got<'a>, right: &Got<'a>) -> Done<bool> {
        match (left, right) {
            (Got::Heap(left), Got::Heap(right)) => Ok(left == right),
            _ => self.alike(left, right),
        }
    }

    /// Whether values are equal to `==`.
    fn alike(&self, left: &Got<'a>, right: &Got<'a>) -> Done<bool> {
        self.meter.look(4 * STEP_BYTES, READ)?;
        Ok(match pair(left, right) {
            Some(Pair::Int(left, right)) => left == right,
            Some(Pair::Long(left, right)) => left == right,
            Some(Pair::Float(left, right)) => left == right,
            Some(Pair::Double(left, right)) => left == right,
            None if left.number().is_some() && right.number().is_some() => {
                self.order(left, right)? == Some(Ordering::Equal)
            }
            None => return self.equal(left, right, 0),
        })
    }

    /// Whether values are equal to `equals`: numbers of one class, and lists, sets and maps by what is in them.
    pub(super) fn equal(&self, left: &Got<'a>, right: &Got<'a>, depth: usize) -> Done<bool> {
        self.meter.look(4 * STEP_BYTES, READ)?;
        if depth > DEPTH_MAX {
            return fail(
                SCRIPT,
                format!("what is compared refers to itself or is more than {DEPTH_MAX} deep"),
            );
        }
        match (left, right) {
            (Got::Null, Got::Null) => return Ok(true),
            (Got::Boolean(left), Got::Boolean(right)) => return Ok(left == right),
            (Got::Text(left), Got::Text(right)) => {
                self.meter.look(left.len().min(right.len()) as u64, READ)?;
                return Ok(**left == **right);
            }
            (Got::Json(left), Got::Json(right)) => {
                self.meter.look(weight(left), READ)?;
                return Ok(std::ptr::eq(*left, *right) || json_equal(left, right));
            }
            (Got::Heap(left), Got::Heap(right)) if left == right => return Ok(true),
            (Got::Context(_), Got::Context(_)) => return Ok(true),
            (Got::Entry(of, name), Got::Entry(of_other, other)) => {
                let value = |of: &Rc<Got<'a>>, name| self.in_map(of, name).unwrap_or(Got::Null);
                return Ok(
                    **name == **other && self.equal(&value(of, name), &value(of_other, other), depth + 1)?
                );
            }
            _ => {}
        }
        if left.number().is_some() && right.number().is_some() {
            return Ok(is_same_number(left, right));
        }
        match (self.kind(left), self.kind(right)) {
            ("array" | "collection", "array" | "collection") => {
                let is_set = self.is_set(left);
                if is_set != self.is_set(right) {
                    return Ok(false);
                }
                let (left, right) = (self.items(left)?, self.items(right)?);
                if left.len() != right.len() {
                    return Ok(false);
                }
                // Sets have no order.
                if is_set {
                    for item in &left {
                        if self.find(&right, item)?.is_none() {
                            return Ok(false);
                        }
                    }
                    return Ok(true);
                }
                for (left, right) in left.iter().zip(&right) {
                    if !self.equal(left, right, depth + 1)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            ("object", "object") => {
                let (left, right) = (self.members(left)?, self.members(right)?);
                if left.len() != right.len() {
                    return Ok(false);
                }
                let right: std::collections::HashMap<&str, &Got<'a>> =
                    right.iter().map(|(name, value)| (&**name, value)).collect();
                for (name, value) in &left {
                    match right.get(&**name) {
                        Some(other) if self.equal(value, other, depth + 1)? => {}
                        _ => return Ok(false),
                    }
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// The members of a map, by their names.
    pub(super) fn members(&self, of: &Got<'a>) -> Done<Vec<(super::value::Text<'a>, Got<'a>)>> {
        let of = Rc::new(of.clone());
        let names = self.items(&Got::View(Rc::clone(&of), Part::Keys))?;
        let values = self.items(&Got::View(of, Part::Values))?;
        let named = |(name, value)| match name {
            Got::Text(name) => Some((name, value)),
            _ => None,
        };
        Ok(names.into_iter().zip(values).filter_map(named).collect())
    }

    pub(super) fn text_of(&self, got: &Got<'a>) -> Done<String> {
        let mut text = String::new();
        self.write_text(got, &mut text, 0)?;
        Ok(text)
    }

    /// Writes a value as Java does.
    fn write_text(&self, got: &Got<'a>, into: &mut String, depth: usize) -> Done {
        if depth > DEPTH_MAX {
            return fail(
                SCRIPT,
                format!("what is written refers to itself or is more than {DEPTH_MAX} deep"),
            );
        }
        let before = into.len();
        match got {
            Got::Null => into.push_str("null"),
            Got::Boolean(flag) => into.push_str(if *flag { "true" } else { "false" }),
            Got::Char(unit) => into.push_str(&of_char(*unit)?),
            Got::Int(_) | Got::Long(_) | Got::Big(_) => {
                into.push_str(&got.whole().unwrap_or(0).to_string());
            }
            Got::Float(number) => into.push_str(&java_of_float(f64::from(*number), true)),
            Got::Double(number) => match number.rounded() {
                Some(text) => into.push_str(text),
                None => into.push_str(&java_of_float(number.value(), false)),
            },
            Got::Text(text) => into.push_str(text),
            Got::Failure(failure) => into.push_str(&failure.1),
            Got::Entry(..) => {
                let (name, value) = self.entry(got)?;
                into.push_str(&name);
                into.push('=');
                self.write_text(&value, into, depth + 1)?;
            }
            Got::Pattern(pattern) => into.push_str(pattern.find.as_str()),
            Got::Heap(place) if let Some(Object::Builder(text)) = self.heap.get(*place) => {
                into.push_str(text)
            }
            other => match self.kind(other) {
                "array" | "collection" => {
                    into.push('[');
                    for (item, place) in self.items(other)?.iter().zip(0..) {
                        into.push_str(if place > 0 { ", " } else { "" });
                        self.write_text(item, into, depth + 1)?;
                    }
                    into.push(']');
                }
                "object" => {
                    into.push('{');
                    for ((name, value), place) in self.members(other)?.iter().zip(0..) {
                        into.push_str(if place > 0 { ", " } else { "" });
                        into.push_str(name);
                        into.push('=');
                        self.write_text(value, into, depth + 1)?;
                    }
                    into.push('}');
                }
                kind => return fail(CAST, format!("a [{kind}] has no text")),
            },
        }
        self.meter.spend((into.len() - before) as u64)
    }
}

fn json_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            is_same_number(&Got::of_number(left), &Got::of_number(right))
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| json_equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let is_there = |(name, value): (&String, &Value)| {
                right.get(name).is_some_and(|other| json_equal(value, other))
            };
            left.len() == right.len() && left.iter().all(is_there)
        }
        _ => left == right,
    }
}

/// Whether numbers are of one class, and of one value of that.
fn is_same_number(left: &Got<'_>, right: &Got<'_>) -> bool {
    match (left, right) {
        (Got::Char(left), Got::Char(right)) => left == right,
        (Got::Int(left), Got::Int(right)) => left == right,
        (Got::Long(left), Got::Long(right)) => left == right,
        (Got::Big(left), Got::Big(right)) => left == right,
        // Of these the bits count: 0.0 is not -0.0, and what is no number is itself.
        (Got::Float(left), Got::Float(right)) => left.total_cmp(right).is_eq(),
        (Got::Double(left), Got::Double(right)) => {
            left.value().total_cmp(&right.value()).is_eq() && left.rounded() == right.rounded()
        }
        _ => false,
    }
}

/// Both as the larger of their types; none where one is no number, or too large for all of them.
fn pair(left: &Got<'_>, right: &Got<'_>) -> Option<Pair> {
    let rank = |got: &Got<'_>| match got {
        Got::Char(_) | Got::Int(_) => Some(0),
        Got::Long(_) => Some(1),
        Got::Float(_) => Some(2),
        Got::Double(_) => Some(3),
        _ => None,
    };
    let whole = |got: &Got<'_>| got.whole().and_then(|whole| i64::try_from(whole).ok());
    Some(match rank(left)?.max(rank(right)?) {
        0 => Pair::Int(i32::try_from(whole(left)?).ok()?, i32::try_from(whole(right)?).ok()?),
        1 => Pair::Long(whole(left)?, whole(right)?),
        2 => Pair::Float(single(left)?, single(right)?),
        _ => Pair::Double(left.number()?, right.number()?),
    })
}

fn single(got: &Got<'_>) -> Option<f32> {
    match got {
        Got::Long(number) => Some(*number as f32),
        other => other.number().map(|number| number as f32),
    }
}
