//! The order in which files will probably be read, which is that of their chunks in packs.
//!
//! A database reads its control files and its transaction status first, then its catalogs, the start of each relation
//! and its log, then the rest of tables. All else is read directory by directory, small files before large ones.

/// The rank of large files, and of tables and indexes.
pub(crate) const LARGE: u8 = 6;
/// The rank of catalogs: a server reads what is of a lower rank, and these, when it starts.
pub(crate) const CATALOG: u8 = 2;
/// The rank of the log.
pub(crate) const LOG: u8 = 4;
/// The rank of the first chunk of a table or an index, which has the root or leads to it.
pub(crate) const START: u8 = 3;

/// The rank of databases that new ones are copied from. Hardly anybody connects to them.
const TEMPLATE: u8 = 5;

/// Files are stored by rank, and within one by path.
pub(crate) fn rank(path: &[u8], bytes: u64, cluster: Option<&[u8]>) -> u8 {
    const SMALL_BYTES: u64 = 64 << 10;
    let small = if bytes <= SMALL_BYTES { 5 } else { LARGE };
    let Some(inside) = cluster.and_then(|cluster| inside(path, cluster)) else { return small };
    let first = inside.split(|byte| *byte == b'/').next().unwrap_or_default();
    let name = inside.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    match first {
        b"global" => 0,
        b"pg_xact" | b"pg_multixact" | b"pg_commit_ts" | b"pg_logical" | b"pg_notify" => 1,
        b"base" if is_template(inside) => TEMPLATE,
        b"base" | b"pg_tblspc" | b"frostline_tablespaces" if is_catalog(name) => CATALOG,
        // Much of it may be of before the last checkpoint.
        b"pg_wal" => LOG,
        b"base" | b"pg_tblspc" | b"frostline_tablespaces" => LARGE,
        _ if inside == first && bytes <= SMALL_BYTES => 0,
        _ => small,
    }
}

/// A path relative to a folder; none if it is not below it.
pub(crate) fn inside<'a>(path: &'a [u8], folder: &[u8]) -> Option<&'a [u8]> {
    if folder.is_empty() { Some(path) } else { path.strip_prefix(folder)?.strip_prefix(b"/") }
}

/// Whether a file is of `template1` or, since version 15, `template0`.
fn is_template(inside: &[u8]) -> bool {
    [&b"base/1/"[..], b"base/4/"].iter().any(|folder| inside.starts_with(folder))
}

/// Whether a file of PostgreSQL is of a relation that every database has, or maps them.
fn is_catalog(name: &[u8]) -> bool {
    const FIRST_USER_RELATION: u64 = 16_384;
    let digits: &[u8] = name.split(|byte| !byte.is_ascii_digit()).next().unwrap_or_default();
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u64>().ok());
    number.is_none_or(|number| number < FIRST_USER_RELATION)
}

/// The directory of PostgreSQL's data, if there is one: that of `global/pg_control`.
pub(crate) fn cluster<'a>(paths: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    paths.into_iter().find_map(|path| match path.strip_suffix(b"global/pg_control")? {
        b"" => Some(Vec::new()),
        folder => folder.strip_suffix(b"/").map(<[u8]>::to_vec),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_stored_in_the_order_in_which_it_starts() {
        let paths: [&[u8]; 8] = [
            b"PG_VERSION",
            b"base/5/1259",
            b"base/5/16400",
            b"base/5/pg_filenode.map",
            b"global/pg_control",
            b"log/postgresql.log",
            b"pg_wal/000000010000000000000001",
            b"pg_xact/0000",
        ];
        let cluster = cluster(paths.iter().copied());
        assert_eq!(cluster.as_deref(), Some(&b""[..]));
        let ranks = paths.map(|path| rank(path, 8_192, cluster.as_deref()));
        assert_eq!(ranks, [0, 2, 6, 2, 0, 5, 4, 1]);
        let inner = super::cluster([&b"pg/data/global/pg_control"[..]].into_iter());
        assert_eq!(inner.as_deref(), Some(&b"pg/data"[..]));
        assert_eq!(rank(b"pg/data/base/5/1259", 8_192, inner.as_deref()), 2);
        for template in ["1", "4"].map(|oid| format!("pg/data/base/{oid}/1259")) {
            assert_eq!(rank(template.as_bytes(), 1 << 20, inner.as_deref()), 5, "nobody connects to it");
        }
        assert_eq!(
            rank(b"pg/data/core", 1 << 30, inner.as_deref()),
            LARGE,
            "no server reads it when it starts"
        );
        assert_eq!(rank(b"pg/database/5/1259", 8_192, inner.as_deref()), 5, "a name that only begins alike");
    }

    #[test]
    fn other_directories_begin_with_their_small_files() {
        assert!(rank(b"b/small", 10, None) < rank(b"a/large", 1 << 20, None));
    }
}
