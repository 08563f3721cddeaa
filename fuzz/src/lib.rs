//! What the fuzz targets share.

#[cfg(feature = "engine")]
pub mod questions;
#[cfg(feature = "engine")]
pub mod rows;

use std::sync::{LazyLock, Once};

use frostline_split::Mapping;

/// The time of every request: 2024-03-01T10:00:00Z.
pub const NOW_US: i64 = 1_709_287_200_000_000;

static MAPPING: LazyLock<Mapping> = LazyLock::new(|| {
    let fields = br#"{"mappings":{"properties":{
        "@timestamp":{"type":"date"},"status":{"type":"long"},"took":{"type":"double"},"ok":{"type":"boolean"},
        "client":{"properties":{"ip":{"type":"ip"}}},"host":{"type":"keyword"},"message":{"type":"text"}}}}"#;
    Mapping::from_elasticsearch_bytes(fields).unwrap_or_else(|_| Mapping::dynamic())
});

/// A mapping with a field of every type.
pub fn mapping() -> &'static Mapping {
    &MAPPING
}

/// Lets panics of the Parquet reader pass, for targets whose code under test catches them as it must.
/// Others end the process as before, and so does a panic that nobody catches.
pub fn allow_caught_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let foreign = panic.location().is_some_and(|at| !at.file().contains("frostline"));
            if !foreign {
                report(panic);
            }
        }));
    });
}
