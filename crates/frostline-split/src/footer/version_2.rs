//! The hot footer of versions 1 and 2: all fields, all pages and the whole digest are in it.
//!
//! ```text
//! magic "FROSTHF1" | version u32 | body packed u32 | body raw u32 | digest packed u32 | digest raw u32
//! body (zstd) | digest (zstd) | XXH3-64 of the file after the hot footer | XXH3-64 of all before
//! ```

use super::*;
use crate::bytes_codec::put_bytes;
use crate::dictionary::Entries;
use crate::fields::FieldRecord;

pub(super) fn decode(version: u32, frame: &mut Cursor<'_>) -> Result<Footer> {
    let body_packed = frame.u32_le()? as usize;
    let body_raw = frame.u32_le()? as usize;
    let digest_packed = frame.u32_le()? as usize;
    let raw_bytes = frame.u32_le()? as usize;
    let body = unpack(frame.take(body_packed)?, body_raw)?;
    let packed = frame.take(digest_packed)?.to_vec();
    let digest = DigestPlace::Footer(HotDigest::new(packed, raw_bytes, false));
    let mut footer = decode_body(&mut Cursor::new(&body), digest)?;
    footer.version = version;
    footer.tail_checksum = if frame.is_empty() { None } else { Some(frame.u64_le()?) };
    Ok(footer)
}

pub(crate) fn decode_body(cursor: &mut Cursor<'_>, digest: DigestPlace) -> Result<Footer> {
    let rows = cursor.varint_u32()?;
    let (rows_without_time, times) = Footer::decode_times(cursor, rows)?;
    let mut records = Vec::new();
    for number in 0..cursor.varint_usize()? {
        let number =
            u16::try_from(number).map_err(|_| Error::corrupt("a split has more fields than numbers"))?;
        let field = read_field(cursor, number, rows)?;
        records.push(FieldRecord { field, exists: cursor.bytes()?.to_vec(), chunks: Vec::new() });
    }
    let mut own = Vec::new();
    for _ in 0..cursor.varint_usize()? {
        let name = read_text(cursor)?;
        let kind = read_kind(cursor, &records)?;
        let chunk = read_chunk(cursor, name, kind, rows)?;
        let record = match kind {
            ColumnKind::Field { field, .. } => records.get_mut(usize::from(field)),
            _ => None,
        };
        match record {
            Some(record) => record.chunks.push(chunk),
            None => own.push(OwnColumn::here(chunk)),
        }
    }
    let text = Dictionary::decode(cursor, rows)?;
    let exact = Dictionary::decode(cursor, rows)?;
    Ok(Footer {
        version: 2,
        id: None,
        rows,
        rows_without_time,
        times,
        own,
        groups: Vec::new(),
        fields: FieldTable::whole(records, rows),
        text,
        exact,
        pairs: Dictionary::new(Table::default(), 0..0, rows, Entries::WithoutHeads),
        digest,
        leaves_lists: false,
        origins: None,
        tail_checksum: None,
    })
}

fn read_field(cursor: &mut Cursor<'_>, number: u16, rows: u32) -> Result<SplitField> {
    let path = read_text(cursor)?;
    let ty = read_type(cursor.u8()?)?;
    let flags = cursor.u8()?;
    let rows_with_value = cursor.varint_u32()?;
    if rows_with_value > rows || flags > 7 {
        return Err(Error::corrupt("a field of a split is invalid").with("field", &path));
    }
    let (has_scalar, has_list, dynamic) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
    let is_indexed = true;
    let has_nanos = false;
    Ok(SplitField { number, path, ty, has_scalar, has_list, dynamic, has_nanos, is_indexed, rows_with_value })
}

fn read_kind(cursor: &mut Cursor<'_>, records: &[FieldRecord]) -> Result<ColumnKind> {
    Ok(match cursor.u8()? {
        0 => ColumnKind::Time,
        1 => ColumnKind::Source,
        code @ (2 | 5) => ColumnKind::Dynamic { typed: code == 5 },
        code @ (3 | 4) => {
            let number = cursor.varint_usize()?;
            let record = records.get(number).ok_or_else(|| Error::corrupt("a column belongs to no field"))?;
            ColumnKind::Field { field: record.field.number, ty: record.field.ty, list: code == 4 }
        }
        code => return Err(Error::corrupt("a column has an unknown kind").with("kind", code)),
    })
}

/// A hot footer of version 2, for tests of what reads both: nothing else writes it.
pub(crate) fn write(contents: &Contents, zstd_level: i32) -> Result<Unsummed> {
    let DigestPlace::Footer(digest) = &contents.digest else {
        return Err(Error::internal("the digest of version 2 is in the hot footer"));
    };
    let body = body_of(contents);
    let packed = zstd::bulk::compress(&body, zstd_level).map_err(crate::writer::cannot_write)?;
    let mut out = MAGIC.to_vec();
    for number in [2, packed.len(), body.len(), digest.packed.len(), digest.raw_bytes] {
        out.extend_from_slice(&(number as u32).to_le_bytes());
    }
    out.extend_from_slice(&packed);
    out.extend_from_slice(&digest.packed);
    Ok(Unsummed(out))
}

fn body_of(contents: &Contents) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, u64::from(contents.rows));
    body::put_times(&mut out, contents);
    put_varint(&mut out, contents.fields.len() as u64);
    for FieldRecord { field, exists, .. } in &contents.fields {
        put_bytes(&mut out, field.path.as_bytes());
        out.push(type_code(field.ty));
        out.push(u8::from(field.has_scalar) | u8::from(field.has_list) << 1 | u8::from(field.dynamic) << 2);
        put_varint(&mut out, u64::from(field.rows_with_value));
        put_bytes(&mut out, exists);
    }
    let of_fields = || contents.fields.iter().flat_map(|record| &record.chunks);
    put_varint(&mut out, (contents.own.len() + of_fields().count()) as u64);
    for chunk in contents.own.iter().chain(of_fields()) {
        put_bytes(&mut out, chunk.name.as_bytes());
        match chunk.kind {
            // No reader of version 2 would know nanoseconds or identities, and no writer of it has any.
            ColumnKind::Time | ColumnKind::Nanos | ColumnKind::FieldNanos { .. } => out.push(0),
            ColumnKind::Id | ColumnKind::Version | ColumnKind::SeqNo => out.push(0),
            ColumnKind::Source | ColumnKind::Shape | ColumnKind::Residual | ColumnKind::Raw => out.push(1),
            ColumnKind::Dynamic { .. } => out.push(5),
            ColumnKind::Field { field, list, .. } => {
                out.push(3 + u8::from(list));
                put_varint(&mut out, u64::from(field));
            }
        }
        put_chunk(&mut out, chunk);
    }
    contents.text.encode(&mut out);
    contents.exact.encode(&mut out);
    out
}
