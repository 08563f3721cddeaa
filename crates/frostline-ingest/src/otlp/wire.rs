//! Protobuf's wire format, read where it lies: a message takes no memory besides its bytes, whatever it says of itself.

use frostline_base::{Error, Result};

/// A message, and where it begins in the body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    pub(super) bytes: &'a [u8],
    at: usize,
}

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub(super) number: u64,
    value: Value<'a>,
    /// Where it begins in the body.
    at: usize,
}

#[derive(Clone, Copy, Debug)]
enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(Message<'a>),
}

impl<'a> Message<'a> {
    pub(super) fn whole(bytes: &'a [u8]) -> Message<'a> {
        Message { bytes, at: 0 }
    }

    /// The fields in their order, up to the first that cannot be read, which is the last item.
    pub(super) fn fields(self) -> Fields<'a> {
        Fields { left: self.bytes, at: self.at }
    }

    /// Its bytes as text; an error says where they are none.
    pub(super) fn text(self) -> std::result::Result<&'a str, String> {
        std::str::from_utf8(self.bytes)
            .map_err(|e| format!("not UTF-8 at byte {} of the request", self.at + e.valid_up_to()))
    }
}

impl<'a> Field<'a> {
    pub(super) fn message(self) -> Result<Message<'a>> {
        match self.value {
            Value::Bytes(message) => Ok(message),
            _ => Err(self.wrong("bytes")),
        }
    }

    pub(super) fn varint(self) -> Result<u64> {
        match self.value {
            Value::Varint(number) => Ok(number),
            _ => Err(self.wrong("a varint")),
        }
    }

    pub(super) fn fixed64(self) -> Result<u64> {
        match self.value {
            Value::Fixed64(number) => Ok(number),
            _ => Err(self.wrong("64 bits")),
        }
    }

    pub(super) fn fixed32(self) -> Result<u32> {
        match self.value {
            Value::Fixed32(number) => Ok(number),
            _ => Err(self.wrong("32 bits")),
        }
    }

    fn wrong(self, expected: &str) -> Error {
        malformed(self.at, &format!("field {} is not {expected}", self.number))
    }
}

/// Iterates over the fields of a message.
pub(super) struct Fields<'a> {
    left: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<Field<'a>> {
        let at = self.at;
        let key = self.varint()?;
        let number = key >> 3;
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = self.varint()?;
                let message_at = self.at;
                let bytes = usize::try_from(length).ok().and_then(|length| self.take(length));
                let bytes = bytes.ok_or_else(|| {
                    malformed(at, &format!("field {number} has {length} bytes, more than there are"))
                })?;
                Value::Bytes(Message { bytes, at: message_at })
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.array()?)),
            other => return Err(malformed(at, &format!("unknown wire type {other}"))),
        };
        if number == 0 {
            return Err(malformed(at, "a field has the number 0"));
        }
        Ok(Field { number, value, at })
    }

    fn varint(&mut self) -> Result<u64> {
        let at = self.at;
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(malformed(at, "a varint has more than 64 bits"))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let at = self.at;
        let taken = self.take(N).and_then(|bytes| bytes.try_into().ok());
        taken.ok_or_else(|| malformed(at, "the message ends inside a field"))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.left.split_at_checked(length)?;
        self.left = left;
        self.at += length;
        Some(taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>>;

    fn next(&mut self) -> Option<Result<Field<'a>>> {
        if self.left.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.left = &[];
        }
        Some(field)
    }
}

fn malformed(at: usize, what: &str) -> Error {
    Error::invalid(format!("the request is not valid protobuf: {what}, at byte {at}"))
}

/// Appends a field with a varint.
pub(super) fn put_varint(out: &mut Vec<u8>, number: u32, value: u64) {
    varint(out, u64::from(number) << 3);
    varint(out, value);
}

/// Appends a field with 64 bits.
pub(super) fn put_fixed64(out: &mut Vec<u8>, number: u32, value: u64) {
    varint(out, u64::from(number) << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a field with 32 bits.
pub(super) fn put_fixed32(out: &mut Vec<u8>, number: u32, value: u32) {
    varint(out, u64::from(number) << 3 | 5);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a field with bytes: text or a message.
pub(super) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    varint(out, u64::from(number) << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
