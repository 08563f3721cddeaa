//! A Lucene query string, with either operator, and the patterns in it compiled.
#![no_main]

use frostline_fuzz::questions::context;
use frostline_query::fuzzing::compile;
use frostline_query::language::query_string::{QueryStringOptions, parse};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let fields = ["message".to_owned(), "client.*".to_owned()];
    let options = [
        QueryStringOptions::default(),
        QueryStringOptions::default()
            .with_and()
            .with_fields(&fields, &context())
            .expect("the fields are there"),
    ];
    for options in options {
        if let Ok(filter) = parse(text, &options, &context()) {
            compile(&filter);
        }
    }
});
