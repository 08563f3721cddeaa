//! Walks structures of Thrift's compact protocol with bounds before the Parquet reader sees them.
//!
//! The Parquet reader skips unknown fields, and spends minutes on a list of two thousand million booleans, which take
//! no
//! bytes (apache/arrow-rs issue 9874). It also assumes that a known field has the expected type,
//! whatever type the field states. [`walk`] follows the reader through the bytes and checks:
//!
//! - A known field has its type, so that both see the same fields from there on.
//! - Every element takes at least a byte: no list, set or map is of booleans, or longer than the remaining bytes.
//! - Nesting is at most [`DEPTH_MAX`] deep.
//!
//! Bytes that pass are read or skipped in time and memory in proportion to their length.

use frostline_base::{Error, Result};

use crate::bytes_codec::Cursor;

const DEPTH_MAX: usize = 64;

/// A structure: its fields by number.
pub struct Shape {
    /// What a visitor knows it by.
    pub name: &'static str,
    /// The fields that the reader knows.
    pub fields: &'static [(i16, Type)],
    /// Whether there may be others, which the reader skips.
    pub open: bool,
}

/// What a field holds. Integers of 16, 32 and 64 bits are written alike.
pub enum Type {
    /// Its type is its value.
    Bool,
    /// One byte.
    Byte,
    /// An integer, or a value of an enumeration.
    Int,
    /// Eight bytes.
    Double,
    /// Bytes or text.
    Binary,
    /// Another structure.
    Struct(&'static Shape),
    /// Elements of one type.
    List(&'static Type),
}

/// What a walk comes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A known field of the structure of this name.
    Int(&'static str, i16, i64),
    /// The end of such a structure.
    End(&'static str),
}

/// Walks the structure that `bytes` begin with, and returns what follows it. `Corrupt` if it has another
/// shape, or when `visit` says so.
pub fn walk<'a>(
    bytes: &'a [u8],
    shape: &'static Shape,
    visit: &mut dyn FnMut(Seen) -> Result<()>,
) -> Result<&'a [u8]> {
    let mut walk = Walk { cursor: Cursor::new(bytes), visit };
    walk.structure(shape, 0)?;
    Ok(walk.cursor.rest())
}

/// Types as they are written.
mod wire {
    pub(super) const STOP: u8 = 0;
    pub(super) const TRUE: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const BYTE: u8 = 3;
    pub(super) const I16: u8 = 4;
    pub(super) const I64: u8 = 6;
    pub(super) const DOUBLE: u8 = 7;
    pub(super) const BINARY: u8 = 8;
    pub(super) const LIST: u8 = 9;
    pub(super) const SET: u8 = 10;
    pub(super) const MAP: u8 = 11;
    pub(super) const STRUCT: u8 = 12;
    pub(super) const UUID: u8 = 13;
}

impl Type {
    fn is(&self, written: u8) -> bool {
        match self {
            Type::Bool => matches!(written, wire::TRUE | wire::FALSE),
            Type::Byte => written == wire::BYTE,
            Type::Int => (wire::I16..=wire::I64).contains(&written),
            Type::Double => written == wire::DOUBLE,
            Type::Binary => written == wire::BINARY,
            Type::Struct(_) => written == wire::STRUCT,
            Type::List(_) => written == wire::LIST,
        }
    }
}

struct Walk<'a, 'v> {
    cursor: Cursor<'a>,
    visit: &'v mut dyn FnMut(Seen) -> Result<()>,
}

impl Walk<'_, '_> {
    fn structure(&mut self, shape: &'static Shape, depth: usize) -> Result<()> {
        let depth = deeper(depth)?;
        let mut last = 0;
        while let Some((number, written)) = self.field(last)? {
            last = number;
            match shape.fields.iter().find(|(known, _)| *known == number) {
                Some((_, Type::Int)) if Type::Int.is(written) => {
                    let value = self.int()?;
                    (self.visit)(Seen::Int(shape.name, number, value))?;
                }
                Some((_, ty)) if ty.is(written) => self.value(ty, depth)?,
                None if shape.open => self.skip(written, depth)?,
                _ => {
                    return Err(Error::corrupt("a structure has an invalid field")
                        .with("structure", shape.name)
                        .with("field", number)
                        .with("type", written));
                }
            }
        }
        (self.visit)(Seen::End(shape.name))
    }

    fn value(&mut self, ty: &'static Type, depth: usize) -> Result<()> {
        match ty {
            Type::Bool => Ok(()),
            Type::Byte => self.cursor.u8().map(drop),
            Type::Int => self.int().map(drop),
            Type::Double => self.cursor.take(8).map(drop),
            Type::Binary => self.binary(),
            Type::Struct(shape) => self.structure(shape, depth),
            Type::List(element) => {
                let (written, count) = self.list()?;
                if count > 0 && !element.is(written) {
                    return Err(Error::corrupt("a list is of another type").with("type", written));
                }
                (0..count).try_for_each(|_| self.value(element, deeper(depth)?))
            }
        }
    }

    fn skip(&mut self, written: u8, depth: usize) -> Result<()> {
        let depth = deeper(depth)?;
        match written {
            wire::TRUE | wire::FALSE => Ok(()),
            wire::BYTE => self.cursor.u8().map(drop),
            wire::I16..=wire::I64 => self.int().map(drop),
            wire::DOUBLE => self.cursor.take(8).map(drop),
            wire::BINARY => self.binary(),
            wire::UUID => self.cursor.take(16).map(drop),
            wire::STRUCT => {
                // The numbers do not matter to who skips.
                while let Some((_, written)) = self.field(0)? {
                    self.skip(written, depth)?;
                }
                Ok(())
            }
            wire::LIST | wire::SET => {
                let (written, count) = self.list()?;
                (0..count).try_for_each(|_| self.skip(written, depth))
            }
            wire::MAP => {
                let count = self.cursor.varint_usize()?;
                if count == 0 {
                    return Ok(());
                }
                let types = self.cursor.u8()?;
                let (key, value) = (types >> 4, types & 0xf);
                self.check_count(key, count)?;
                self.check_count(value, count)?;
                (0..count).try_for_each(|_| {
                    self.skip(key, depth)?;
                    self.skip(value, depth)
                })
            }
            _ => Err(Error::corrupt("a field has no known type").with("type", written)),
        }
    }

    /// The number and type of the next field, if there is one.
    fn field(&mut self, last: i16) -> Result<Option<(i16, u8)>> {
        let head = self.cursor.u8()?;
        if head == wire::STOP {
            return Ok(None);
        }
        // The high half is how much larger the number is than the last one; zero says that it follows.
        let number = match head >> 4 {
            0 => i16::try_from(self.int()?).ok(),
            step => last.checked_add(i16::from(step)),
        };
        let number = number.ok_or_else(|| Error::corrupt("the number of a field does not fit 16 bits"))?;
        match head & 0xf {
            wire::STOP => Err(Error::corrupt("a field has no type").with("field", number)),
            written => Ok(Some((number, written))),
        }
    }

    /// The type and count of a list or set.
    fn list(&mut self) -> Result<(u8, usize)> {
        let head = self.cursor.u8()?;
        let count = match head >> 4 {
            15 => self.cursor.varint_usize()?,
            count => usize::from(count),
        };
        let written = head & 0xf;
        if count > 0 {
            self.check_count(written, count)?;
        }
        Ok((written, count))
    }

    fn check_count(&self, written: u8, count: usize) -> Result<()> {
        if matches!(written, wire::TRUE | wire::FALSE) || count > self.cursor.rest().len() {
            return Err(Error::corrupt("a list is of booleans, or longer than its container")
                .with("type", written)
                .with("elements", count));
        }
        Ok(())
    }

    fn int(&mut self) -> Result<i64> {
        let zigzag = self.cursor.varint()?;
        Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
    }

    fn binary(&mut self) -> Result<()> {
        let bytes = self.cursor.varint_usize()?;
        self.cursor.take(bytes).map(drop)
    }
}

fn deeper(depth: usize) -> Result<usize> {
    if depth == DEPTH_MAX {
        return Err(Error::corrupt(format!("structures are nested more than {DEPTH_MAX} deep")));
    }
    Ok(depth + 1)
}

#[cfg(test)]
mod tests;
