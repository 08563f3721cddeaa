//! Pages of numbers in streams.
//!
//! A page of a scan copy may have its body taken apart: levels, and the places in the dictionary or the numbers, reduced to
//! small ones and packed byte by byte of them ([`crate::streams`]). Reading puts the body together again, and the Parquet
//! reader sees an ordinary page.
//!
//! Body: varint how many bytes the levels take, those as *bytes*; varint values; u8 form, and what it asks for. `n` are
//! *numbers*; sums and products wrap.
//!
//! | form | | the page's values are |
//! |---|---|---|
//! | 0 | u8 bits; `n` | places in the dictionary, in so many bits each |
//! | 1 | signed smallest, varint unit; `n` | smallest + unit × `n`, in 64 bits |
//! | 2 | signed first, smallest, varint unit; `n` of all but the first | each smallest + unit × `n` above the one before |
//! | 3 | u8 digits, then as 1 | doubles: what 1 gives, divided by ten to the `digits` |

use frostline_base::{Error, Result};

use crate::bytes_codec::put_varint;
use crate::footer::{put_signed, read_signed};
use crate::streams::{BytesPacker, StreamReader};
use crate::writer::RleEncoder;

const PLACES: u8 = 0;
const WHOLE: u8 = 1;
const DIFFERENCES: u8 = 2;
const DECIMALS: u8 = 3;

/// Powers of ten that a double has exactly, as far as logs have digits.
const POWERS: [f64; 10] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
/// Larger whole numbers do not all have a double.
const EXACT_MAX: f64 = (1u64 << 53) as f64;
/// A page has no more values in streams.
pub(crate) const VALUES_MAX: usize = 1 << 16;
/// Nor more bytes of levels.
const LEVELS_BYTES_MAX: usize = 1 << 20;
/// So no body takes more.
pub(crate) const BODY_BYTES_MAX: usize = LEVELS_BYTES_MAX + 8 * VALUES_MAX;

/// What a page has after its levels.
pub(crate) enum Numbers<'a> {
    /// Places in the dictionary, in so many bits each.
    Places(u8, &'a [u64]),
    /// Whole numbers, by their bits.
    Whole(&'a [u64]),
    /// Doubles, by their bits.
    Doubles(&'a [u64]),
}

/// Appends levels and numbers, in the form that takes least.
pub(crate) fn pack(
    packer: &mut BytesPacker,
    levels: &[u8],
    numbers: &Numbers<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    put_varint(out, levels.len() as u64);
    packer.put_bytes(out, levels)?;
    let (Numbers::Places(_, values) | Numbers::Whole(values) | Numbers::Doubles(values)) = numbers;
    put_varint(out, values.len() as u64);
    match *numbers {
        Numbers::Places(bits, places) => {
            out.extend([PLACES, bits]);
            packer.put_numbers(out, places)
        }
        Numbers::Whole(values) => {
            let start = out.len();
            out.push(WHOLE);
            put_whole(packer, values, out)?;
            let Some((first, _)) = values.split_first() else { return Ok(()) };
            let mut differences = vec![DIFFERENCES];
            put_signed(&mut differences, *first as i64);
            let steps: Vec<u64> = values.windows(2).map(|two| two[1].wrapping_sub(two[0])).collect();
            put_whole(packer, &steps, &mut differences)?;
            if differences.len() < out.len() - start {
                out.truncate(start);
                out.extend_from_slice(&differences);
            }
            Ok(())
        }
        Numbers::Doubles(bits) => match as_decimals(bits) {
            Some((digits, scaled)) => {
                out.extend([DECIMALS, digits]);
                put_whole(packer, &scaled, out)
            }
            None => {
                out.push(WHOLE);
                put_whole(packer, bits, out)
            }
        },
    }
}

fn put_whole(packer: &mut BytesPacker, values: &[u64], out: &mut Vec<u8>) -> Result<()> {
    let smallest = values.iter().map(|value| *value as i64).min().unwrap_or_default();
    let mut above: Vec<u64> = values.iter().map(|value| value.wrapping_sub(smallest as u64)).collect();
    let unit = above.iter().fold(0, |unit, value| greatest_divisor(unit, *value)).max(1);
    above.iter_mut().for_each(|value| *value /= unit);
    put_signed(out, smallest);
    put_varint(out, unit);
    packer.put_numbers(out, &above)
}

fn greatest_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The digits after the point that all doubles have at most, and the doubles without a point, if that gives them back bit by bit.
fn as_decimals(bits: &[u64]) -> Option<(u8, Vec<u64>)> {
    POWERS.iter().enumerate().find_map(|(digits, power)| {
        let scaled = bits.iter().map(|bits| {
            let scaled = (f64::from_bits(*bits) * power).round();
            let whole = scaled as i64;
            let is_exact = scaled.abs() <= EXACT_MAX && decimal(whole, *power).to_bits() == *bits;
            is_exact.then_some(whole as u64)
        });
        scaled.collect::<Option<Vec<u64>>>().map(|scaled| (digits as u8, scaled))
    })
}

fn decimal(whole: i64, power: f64) -> f64 {
    whole as f64 / power
}

/// Appends the body that was packed, of at most so many values.
pub(crate) fn unpack(packed: &[u8], values_max: u32, out: &mut Vec<u8>) -> Result<()> {
    let mut input = StreamReader::new(packed, LEVELS_BYTES_MAX + 2 * VALUES_MAX);
    let levels = input.cursor.varint_usize()?;
    if levels > LEVELS_BYTES_MAX {
        return Err(wrong("levels"));
    }
    out.extend(input.bytes(levels as u64)?);
    let count = input.cursor.varint_usize()?;
    if count > VALUES_MAX.min(values_max as usize) {
        return Err(wrong("values").with("values", count).with("values_max", values_max));
    }
    match input.cursor.u8()? {
        PLACES => {
            let bits = input.cursor.u8()?;
            if !(1..=32).contains(&bits) {
                return Err(wrong("bits"));
            }
            out.push(bits);
            let mut places = RleEncoder::new(u32::from(bits));
            for place in input.numbers(count as u64)? {
                if place >> bits != 0 {
                    return Err(wrong("places"));
                }
                places.push(place as u32, 1, out);
            }
            places.finish(out);
        }
        WHOLE => put_plain(out, whole(&mut input, count)?),
        DIFFERENCES => {
            let mut value = read_signed(&mut input.cursor)? as u64;
            let steps = count.checked_sub(1).ok_or_else(|| wrong("values"))?;
            put_plain(out, std::iter::once(value));
            let add = |step| {
                value = value.wrapping_add(step);
                value
            };
            put_plain(out, whole(&mut input, steps)?.map(add));
        }
        DECIMALS => {
            let digits = usize::from(input.cursor.u8()?);
            let power = *POWERS.get(digits).ok_or_else(|| wrong("digits"))?;
            put_plain(out, whole(&mut input, count)?.map(|value| decimal(value as i64, power).to_bits()));
        }
        _ => return Err(wrong("form")),
    }
    if input.cursor.is_empty() { Ok(()) } else { Err(wrong("length")) }
}

fn whole(input: &mut StreamReader<'_>, count: usize) -> Result<impl ExactSizeIterator<Item = u64> + use<>> {
    let smallest = read_signed(&mut input.cursor)? as u64;
    let unit = input.cursor.varint()?;
    let numbers = input.numbers(count as u64)?.into_iter();
    Ok(numbers.map(move |number| unit.wrapping_mul(number).wrapping_add(smallest)))
}

fn put_plain(out: &mut Vec<u8>, bits: impl ExactSizeIterator<Item = u64>) {
    let start = out.len();
    out.resize(start + size_of::<u64>() * bits.len(), 0);
    for (place, bits) in out[start..].chunks_exact_mut(size_of::<u64>()).zip(bits) {
        place.copy_from_slice(&bits.to_le_bytes());
    }
}

fn wrong(what: &'static str) -> Error {
    Error::corrupt("a page in streams is not encoded correctly").with("of", what)
}

#[cfg(test)]
mod tests;
