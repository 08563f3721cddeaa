//! A search body, and the patterns in it compiled.
#![no_main]

use frostline_fuzz::questions::context;
use frostline_query::filter::Filter;
use frostline_query::fuzzing::compile;
use frostline_query::language::SearchRequest;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(request) = SearchRequest::parse(bytes, &context()) else { return };
    compile(&request.filter);
    let written = serde_json::to_string(&request.filter).expect("a filter can be written");
    // Filters name cached results, so they are written and read back.
    serde_json::from_str::<Filter>(&written).expect("what was written is read");
});
