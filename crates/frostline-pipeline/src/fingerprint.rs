//! `fingerprint`: a hash of fields, the same as Elasticsearch computes of them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use frostline_base::Result;
use md5::{Digest, Md5};

use crate::document::{Document, Done, unfit, weight};
use crate::options::{Field, Options};
use crate::pipeline::{Processor, Run};
use crate::value::{Number, Value};

#[derive(Debug)]
struct Fingerprint {
    /// Sorted by name.
    fields: Vec<Field>,
    target: Field,
    salt: String,
    method: Method,
    ignore_missing: bool,
}

#[derive(Clone, Copy, Debug)]
enum Method {
    Md5,
    Murmur3,
    Sha1,
    Sha256,
    Sha512,
}

const METHODS: &[(&str, Method)] = &[
    ("MD5", Method::Md5),
    ("SHA-1", Method::Sha1),
    ("SHA-256", Method::Sha256),
    ("SHA-512", Method::Sha512),
    ("MurmurHash3", Method::Murmur3),
];

pub(crate) fn fingerprint(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    let names = options.texts("fields")?;
    let mut names = options.required("fields", names)?;
    if names.is_empty() {
        return Err(options.wrong("fields", "must specify at least one field"));
    }
    names.sort();
    let fields: std::result::Result<Vec<Field>, String> =
        names.iter().map(|name| Field::parse(name)).collect();
    let target = options.text("target_field")?.unwrap_or_else(|| "fingerprint".to_owned());
    Ok(Box::new(Fingerprint {
        fields: fields.map_err(|what| options.wrong("fields", what))?,
        target: Field::parse(&target).map_err(|what| options.wrong("target_field", what))?,
        salt: options.text("salt")?.filter(|salt| !salt.trim().is_empty()).unwrap_or_default(),
        method: options.one_of("method", METHODS)?.unwrap_or(Method::Sha1),
        ignore_missing: options.flag("ignore_missing", false)?,
    }))
}

impl Processor for Fingerprint {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        let mut bytes = self.salt.clone().into_bytes();
        let mut is_any = false;
        for field in &self.fields {
            let path = field.path(document)?;
            match document.find(&path).filter(|value| !value.is_null()) {
                Some(value) => {
                    is_any = true;
                    document.spend(weight(value))?;
                    add(value, &mut bytes);
                }
                None if self.ignore_missing => {}
                None => return Err(unfit(format!("missing field [{path}] when calculating fingerprint"))),
            }
        }
        if !is_any {
            return Ok(());
        }
        let hash = STANDARD.encode(self.method.hash(&bytes));
        document.put(&*self.target.path(document)?, Value::String(hash))
    }
}

/// Adds what is hashed of a value: a zero byte before each scalar and each name, members sorted by name.
fn add(value: &Value, bytes: &mut Vec<u8>) {
    match value {
        Value::Array(elements) => elements.iter().for_each(|element| add(element, bytes)),
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_by(|a, b| a.0.cmp(b.0));
            for (name, value) in members {
                bytes.push(0);
                bytes.extend_from_slice(name.as_bytes());
                add(value, bytes);
            }
        }
        scalar => {
            bytes.push(0);
            match scalar {
                Value::String(text) => bytes.extend_from_slice(text.as_bytes()),
                Value::Bool(flag) => bytes.push(if *flag { 1 } else { 2 }),
                Value::Number(Number::Long(whole)) => match i32::try_from(*whole) {
                    Ok(small) => bytes.extend_from_slice(&small.to_le_bytes()),
                    Err(_) => bytes.extend_from_slice(&whole.to_le_bytes()),
                },
                Value::Number(Number::Big(whole)) => bytes.extend_from_slice(&whole.to_le_bytes()),
                Value::Number(Number::Double(double)) => {
                    bytes.extend_from_slice(&double.value().to_le_bytes());
                }
                _ => {}
            }
        }
    }
}

impl Method {
    fn hash(self, bytes: &[u8]) -> Vec<u8> {
        use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA512, digest};
        match self {
            Method::Md5 => Md5::digest(bytes).to_vec(),
            Method::Sha1 => digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().to_vec(),
            Method::Sha256 => digest(&SHA256, bytes).as_ref().to_vec(),
            Method::Sha512 => digest(&SHA512, bytes).as_ref().to_vec(),
            Method::Murmur3 => murmur3(bytes).to_vec(),
        }
    }
}

/// MurmurHash3 in its form of 128 bits for x64, with the seed 0.
fn murmur3(bytes: &[u8]) -> [u8; 16] {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    let mix1 = |k: u64| k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    let mix2 = |k: u64| k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let (mut h1, mut h2) = (0u64, 0u64);
    let blocks = bytes.chunks_exact(16);
    let tail = blocks.remainder();
    for block in blocks {
        h1 = (h1 ^ mix1(word(&block[..8]))).rotate_left(27).wrapping_add(h2);
        h1 = h1.wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 = (h2 ^ mix2(word(&block[8..]))).rotate_left(31).wrapping_add(h1);
        h2 = h2.wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let (low, high) = tail.split_at(tail.len().min(8));
    h2 ^= mix2(word(high));
    h1 ^= mix1(word(low));
    let length = bytes.len() as u64;
    (h1, h2) = (h1 ^ length, h2 ^ length);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    let last = |mut h: u64| {
        h = (h ^ (h >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        h = (h ^ (h >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        h ^ (h >> 33)
    };
    (h1, h2) = (last(h1), last(h2));
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    let mut hash = [0; 16];
    hash[..8].copy_from_slice(&h1.to_be_bytes());
    hash[8..].copy_from_slice(&h2.to_be_bytes());
    hash
}

#[cfg(test)]
mod tests;
