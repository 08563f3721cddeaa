use serde_json::{Value, json};

use super::{Analysis, Definitions};

fn check(analysis: &Analysis, text: &str, expected: &[(usize, &str)]) {
    let words = analysis.words(text);
    let words: Vec<(usize, &str)> = words.iter().map(|word| (word.at, word.text.as_ref())).collect();
    assert_eq!(words, expected, "{} of {text:?}", analysis.name());
}

fn named(name: &str) -> Analysis {
    Analysis::analyzer(name).unwrap()
}

/// What `analysis` in settings defines.
fn defined(analysis: Value) -> Definitions {
    Definitions::from_settings(&json!({ "index": { "analysis": analysis } })).unwrap()
}

/// An analyzer of the parts that a request gives.
fn of(request: Value) -> Analysis {
    Definitions::default().described(request.as_object().unwrap(), true).unwrap()
}

/// The words of a text that is taken apart so, and where they are.
fn places(request: Value, text: &str) -> Vec<(String, std::ops::Range<usize>)> {
    of(request).words(text).into_iter().map(|word| (word.text.into_owned(), word.place)).collect()
}

fn words(request: Value, text: &str) -> Vec<String> {
    places(request, text).into_iter().map(|(word, _)| word).collect()
}

#[test]
fn words_are_those_of_the_analyzers_of_these_names() {
    let text = "The QUICK fox-42's  Over";
    let lowercase = Analysis::normalizer("lowercase").unwrap();
    check(&named("keyword"), text, &[(0, text)]);
    check(&lowercase, text, &[(0, "the quick fox-42's  over")]);
    check(&named("whitespace"), text, &[(0, "The"), (1, "QUICK"), (2, "fox-42's"), (3, "Over")]);
    check(&named("simple"), text, &[(0, "the"), (1, "quick"), (2, "fox"), (3, "s"), (4, "over")]);
    check(&named("stop"), text, &[(1, "quick"), (2, "fox"), (3, "s"), (4, "over")]);
    let standard = [(0, "the"), (1, "quick"), (2, "fox"), (3, "42"), (4, "s"), (5, "over")];
    check(&named("standard"), text, &standard);
    for name in ["whitespace", "simple", "stop", "standard"] {
        check(&named(name), "", &[]);
    }
    check(&lowercase, "", &[(0, "")]);
    check(&lowercase, "ÄÖ ẞ İ", &[(0, "äö ß i")]);
}

#[test]
fn a_name_is_of_an_analyzer_or_of_a_normalizer() {
    assert!(named("whitespace").name() == "whitespace" && !named("whitespace").is_normalizer());
    assert!(Analysis::normalizer("lowercase").unwrap().is_normalizer());
    assert_eq!((Analysis::analyzer("lowercase"), Analysis::normalizer("stop")), (None, None));
    assert_eq!(Analysis::analyzer("french"), None);
}

#[test]
fn tokenizers_take_texts_apart_as_they_are_described() {
    for (tokenizer, text, expected) in [
        (json!("standard"), "10.0.0.1 a_b-c 日本 can't", &["10.0.0.1", "a_b", "c", "日", "本", "can't"][..]),
        (json!({ "type": "standard", "max_token_length": 3 }), "abcdefgh ij", &["abc", "def", "gh", "ij"]),
        (json!({ "type": "whitespace", "max_token_length": 2 }), "äöü b", &["äö", "ü", "b"]),
        (json!("letter"), "Don't 2 Stop", &["Don", "t", "Stop"]),
        (json!("lowercase"), "Don't", &["don", "t"]),
        (json!("pattern"), "a-b é c", &["a", "b", "c"]),
        (json!({ "type": "pattern", "pattern": "," }), ",a, b,,c", &["a", " b", "c"]),
        (json!({ "type": "pattern", "pattern": "'([^']*)'", "group": 1 }), "'a' b 'c d' ''", &["a", "c d"]),
        (
            json!({ "type": "pattern", "pattern": "X", "flags": "CASE_INSENSITIVE" }),
            "axbXc",
            &["a", "b", "c"],
        ),
        (json!("path_hierarchy"), "/a/b/c", &["/a", "/a/b", "/a/b/c"]),
        (json!("path_hierarchy"), "a/b/", &["a", "a/b", "a/b/"]),
        (
            json!({ "type": "path_hierarchy", "delimiter": "-", "replacement": "/", "skip": 1 }),
            "a-b-c",
            &["/b", "/b/c"],
        ),
        (
            json!({ "type": "path_hierarchy", "reverse": true, "delimiter": "." }),
            "www.a.com",
            &["www.a.com", "a.com", "com"],
        ),
        (json!({ "type": "path_hierarchy", "reverse": true, "skip": 1 }), "a/b/c", &["a/b/", "b/"]),
        (
            json!({ "type": "char_group", "tokenize_on_chars": ["whitespace", "-", "\\n"] }),
            "a b-c_d\ne",
            &["a", "b", "c_d", "e"],
        ),
        (
            json!({ "type": "char_group", "tokenize_on_chars": ["punctuation", "digit"] }),
            "a«b1c d",
            &["a", "b", "c d"],
        ),
        (json!("ngram"), "abc", &["a", "ab", "b", "bc", "c"]),
        (
            json!({ "type": "edge_ngram", "min_gram": 2, "max_gram": 3, "token_chars": ["letter"] }),
            "Äbcd e fg",
            &["Äb", "Äbc", "fg"],
        ),
    ] {
        assert_eq!(words(json!({ "tokenizer": tokenizer }), text), expected, "{tokenizer} of {text:?}");
    }
}

#[test]
fn filters_change_words_as_they_are_described() {
    let text = "The Quick É foo foo ab";
    for (filter, expected) in [
        (json!("lowercase"), &["the", "quick", "é", "foo", "foo", "ab"][..]),
        (json!("uppercase"), &["THE", "QUICK", "É", "FOO", "FOO", "AB"]),
        (json!("asciifolding"), &["The", "Quick", "E", "foo", "foo", "ab"]),
        (
            json!({ "type": "asciifolding", "preserve_original": true }),
            &["The", "Quick", "E", "É", "foo", "foo", "ab"],
        ),
        (json!({ "type": "stop", "stopwords": ["the", "FOO"], "ignore_case": true }), &["Quick", "É", "ab"]),
        (json!({ "type": "stop", "stopwords": "foo, ab" }), &["The", "Quick", "É"]),
        (json!({ "type": "keep", "keep_words": ["foo"] }), &["foo", "foo"]),
        (json!({ "type": "length", "min": 2, "max": 3 }), &["The", "foo", "foo", "ab"]),
        (json!({ "type": "truncate", "length": 2 }), &["Th", "Qu", "É", "fo", "fo", "ab"]),
        (json!("unique"), &["The", "Quick", "É", "foo", "ab"]),
        (json!("reverse"), &["ehT", "kciuQ", "É", "oof", "oof", "ba"]),
        (json!({ "type": "limit", "max_token_count": 2 }), &["The", "Quick"]),
        (
            json!({ "type": "edge_ngram", "min_gram": 2, "max_gram": 3 }),
            &["Th", "The", "Qu", "Qui", "fo", "foo", "fo", "foo", "ab"],
        ),
        (
            json!({ "type": "ngram", "min_gram": 4, "max_gram": 4, "preserve_original": true }),
            &["The", "Quic", "uick", "Quick", "É", "foo", "foo", "ab"],
        ),
        (json!({ "type": "pattern_replace", "pattern": "(o)\\1?o", "replacement": "0" }), &[]),
    ] {
        let request = json!({ "tokenizer": "whitespace", "filter": filter });
        if expected.is_empty() {
            let refused = Definitions::default().described(request.as_object().unwrap(), true);
            assert!(refused.unwrap_err().to_string().contains("is not valid"), "{filter}");
            continue;
        }
        assert_eq!(words(request, text), expected, "{filter}");
    }
    let replace =
        json!({ "type": "pattern_replace", "pattern": "(.)o(\\w)", "replacement": "$2$1_$", "all": false });
    let request = json!({ "tokenizer": "keyword", "filter": [replace, "trim", "apostrophe"] });
    assert_eq!(words(request, " foo'fox "), ["of_$"]);
}

#[test]
fn words_keep_their_places_whatever_is_done_to_characters() {
    let html = json!({ "tokenizer": "standard", "char_filter": "html_strip" });
    let text = "<p>I&apos;m <b>so</b>&nbsp;h<i>app</i>y&#33;</p><!-- no --><script>var a</script> 1 < 2";
    let expected = [("I'm", 3..11), ("so", 15..17), ("happy", 27..39), ("1", 82..83), ("2", 86..87)];
    let found = places(html, text);
    assert_eq!(found, expected.map(|(word, place)| (word.to_owned(), place)));
    for (word, place) in &found[1..] {
        assert!(text[place.clone()].contains(&word[..1]), "{word} is at {place:?}");
    }
    let kept =
        json!({ "tokenizer": "whitespace", "char_filter": { "type": "html_strip", "escaped_tags": ["b"] } });
    assert_eq!(words(kept, "<b>a</b><i>b</i>"), ["<b>a</b>b"]);
    let mapping = json!({ "type": "mapping", "mappings": ["a => 1", "ab=>22", "\\u0020 => _", "x =>"] });
    let two = json!({ "tokenizer": "keyword", "char_filter": [mapping, { "type": "pattern_replace", "pattern": "2+", "replacement": "z" }] });
    assert_eq!(places(two, "ab axé"), [("z_1é".to_owned(), 0..7)]);
    let parts = json!({ "tokenizer": { "type": "pattern", "pattern": "_" }, "char_filter": { "type": "mapping", "mappings": [":) => _happy_"] } });
    assert_eq!(
        places(parts, "a:)é"),
        [("a".to_owned(), 0..1), ("happy".to_owned(), 1..3), ("é".to_owned(), 3..5)]
    );
}

#[test]
fn what_is_left_out_keeps_its_place_and_what_is_there_twice_does_not() {
    let of_filter = |filter: Value| of(json!({ "tokenizer": "whitespace", "filter": filter }));
    check(&of_filter(json!("stop")), "a fox is in", &[(1, "fox")]);
    check(&of_filter(json!("unique")), "b a b c", &[(0, "b"), (1, "a"), (2, "c")]);
    let same = json!([{ "type": "asciifolding", "preserve_original": true }, "uppercase", { "type": "unique", "only_on_same_position": true }]);
    check(&of_filter(same), "é e e", &[(0, "E"), (0, "É"), (1, "E"), (2, "E")]);
    check(
        &of_filter(json!({ "type": "edge_ngram", "min_gram": 2, "max_gram": 3 })),
        "abc x de",
        &[(0, "ab"), (0, "abc"), (2, "de")],
    );
}

#[test]
fn queries_ask_for_one_word_of_each_place() {
    let settings = json!({
        "filter": { "starts": { "type": "edge_ngram", "min_gram": 1, "max_gram": 5 } },
        "analyzer": { "grams": { "type": "custom", "tokenizer": "standard", "filter": ["lowercase", "starts"] } },
    });
    let grams = defined(settings).analyzer("grams").unwrap();
    let asked: Vec<(usize, Vec<String>)> =
        grams.asked("Ab c").into_iter().map(|asked| (asked.at, asked.words.into_iter().collect())).collect();
    assert_eq!(asked, [(0, vec!["a".to_owned(), "ab".to_owned()]), (1, vec!["c".to_owned()])]);
    let apart = grams.asked_by(&named("standard"));
    assert_eq!(apart.asked("Ab c").len(), 2);
    assert_eq!(apart.asked_once("Ab ab", true).len(), 2, "the last one may be only the start of a word");
    assert_eq!(apart.words("Ab").len(), 2, "values are what they were");
    assert_eq!(grams.asked_by(&grams), grams);
}

#[test]
fn what_is_compared_whole_is_changed_by_what_changes_characters_alone() {
    let settings = json!({
        "char_filter": { "dash": { "type": "mapping", "mappings": ["_ => -"] } },
        "normalizer": { "mine": { "type": "custom", "char_filter": "dash", "filter": ["lowercase", "asciifolding", "trim"] } },
        "analyzer": { "stops": { "tokenizer": "lowercase", "filter": ["stop", "uppercase", "reverse"], "char_filter": ["html_strip"] } },
    });
    let definitions = defined(settings);
    let mine = definitions.normalizer("mine").unwrap();
    assert_eq!(mine.fold(" ÀB_c "), "ab-c");
    check(&mine, " ÀB_c ", &[(0, "ab-c")]);
    assert_eq!(definitions.analyzer("stops").unwrap().fold("<b>The"), "<B>THE");
    assert_eq!((definitions.analyzer("mine"), definitions.normalizer("stops")), (None, None));
}

#[test]
fn analyzers_have_the_types_of_elasticsearch() {
    let definitions = defined(json!({ "analyzer": {
        "plain": { "type": "standard", "stopwords": ["_english_", "fox"], "max_token_length": 4 },
        "commas": { "type": "pattern", "pattern": "," },
        "written": { "type": "pattern", "lowercase": false, "stopwords": "_none_" },
        "little": { "type": "stop", "stopwords": ["fox"] },
        "default": { "type": "standard" },
    } }));
    let check = |name: &str, text: &str, expected: &[(usize, &str)]| {
        check(&definitions.analyzer(name).unwrap(), text, expected);
    };
    check("plain", "The Foxes fox", &[(1, "foxe"), (2, "s")]);
    check("commas", "A b,C", &[(0, "a b"), (1, "c")]);
    check("written", "A b,C", &[(0, "A"), (1, "b"), (2, "C")]);
    check("little", "the Fox 2 b", &[(0, "the"), (2, "b")]);
}

/// As Java has them.
#[test]
fn ends_quoted_texts_and_white_space_are_those_of_java() {
    let definitions = defined(json!({
        "char_filter": { "end": { "type": "pattern_replace", "pattern": "(x)$", "replacement": "$1y" } },
        "tokenizer": {
            "dots": { "type": "pattern", "pattern": "\\Q.\\E" },
            "words": { "type": "pattern", "pattern": "\\Q\\w\\E|(\\w+)$", "group": 1 },
            "spaces": { "type": "char_group", "tokenize_on_chars": ["whitespace"] },
        },
        "analyzer": {
            "ended": { "tokenizer": "keyword", "char_filter": ["end"] },
            "dots": { "tokenizer": "dots" },
            "last": { "tokenizer": "words" },
            "spaces": { "tokenizer": "spaces" },
        },
    }));
    let check = |name: &str, text: &str, expected: &[(usize, &str)]| {
        check(&definitions.analyzer(name).unwrap(), text, expected);
    };
    check("ended", "x x\n", &[(0, "x xy\n")]);
    check("dots", "a.bc", &[(0, "a"), (1, "bc")]);
    check("last", "ab cd\r\n", &[(0, "cd")]);
    check("spaces", "a\u{a0}b\u{2007}c\u{202f}d\u{85}e", &[(0, "a\u{a0}b\u{2007}c\u{202f}d\u{85}e")]);
    check(
        "spaces",
        "a\u{1c}b\u{1f}c\u{b}d\u{2028}e\u{3000}f\tg h",
        &[(0, "a"), (1, "b"), (2, "c"), (3, "d"), (4, "e"), (5, "f"), (6, "g"), (7, "h")],
    );
    let again: Definitions = serde_json::from_value(serde_json::to_value(&definitions).unwrap()).unwrap();
    assert_eq!(again.analyzer("ended"), definitions.analyzer("ended"));
}

#[test]
fn what_is_defined_wrongly_is_refused_by_name() {
    for (analysis, reason) in [
        (
            json!({ "analyzer": { "a": { "tokenizer": "thai" } } }),
            "Custom Analyzer [a] failed to find tokenizer under name [thai]",
        ),
        (
            json!({ "analyzer": { "a": { "tokenizer": "standard", "filter": ["nope"] } } }),
            "Custom Analyzer [a] failed to find filter under name [nope]",
        ),
        (
            json!({ "analyzer": { "a": { "tokenizer": "standard", "char_filter": "nope" } } }),
            "Custom Analyzer [a] failed to find char_filter under name [nope]",
        ),
        (
            json!({ "analyzer": { "a": { "filter": "lowercase" } } }),
            "analyzer [a] must specify either an analyzer type, or a tokenizer",
        ),
        (json!({ "analyzer": { "a": { "type": "french" } } }), "Unknown analyzer type [french] for [a]"),
        (json!({ "analyzer": { "a": null } }), "[index.analysis.analyzer.a] must be an object of options"),
        (
            json!({ "analyzer": { "a": { "type": "simple", "stopwords": ["x"] } } }),
            "analyzer [a]: [stopwords] is not supported",
        ),
        (json!({ "analyzer": { "a": { "type": "stop", "stopwords": "_greek_" } } }), "[_greek_]"),
        (json!({ "filter": { "f": { "type": "snowball" } } }), "Unknown filter type [snowball] for [f]"),
        (
            json!({ "filter": { "f": { "type": "length", "min": "x" } } }),
            "Failed to parse value [x] for setting [min]",
        ),
        (
            json!({ "filter": { "f": { "type": "lowercase", "language": "greek" } } }),
            "[language] is not supported",
        ),
        (
            json!({ "filter": { "f": { "type": "pattern_replace", "pattern": "(" } } }),
            "filter [f] is not valid",
        ),
        (
            json!({ "tokenizer": { "t": { "type": "ngram", "min_gram": 1, "max_gram": 5 } } }),
            "must be less than or equal to: [1] but was [4]",
        ),
        (
            json!({ "tokenizer": { "t": { "type": "edge_ngram", "min_gram": 3, "max_gram": 2 } } }),
            "[min_gram] is at least 1",
        ),
        (json!({ "tokenizer": { "t": { "max_token_length": 1 } } }), "tokenizer [t]: it has no [type]"),
        (
            json!({ "char_filter": { "c": { "type": "mapping", "mappings": ["a"] } } }),
            "Invalid Mapping Rule : [a]",
        ),
        (
            json!({ "normalizer": { "n": { "filter": ["stop"] } } }),
            "Custom normalizer [n] may not use filter [stop]",
        ),
        (json!({ "normalizer": { "n": { "tokenizer": "keyword" } } }), "cannot configure a tokenizer"),
        (json!({ "synonyms": { "n": { "x": 1 } } }), "unknown setting [index.analysis.synonyms.n]"),
        (
            json!({ "analyzer": { "a": { "type": "stop", "stopwords": ["x".repeat(70_000)] } } }),
            "more than 65536",
        ),
    ] {
        let error = Definitions::from_settings(&json!({ "analysis": analysis })).unwrap_err();
        assert!(error.to_string().contains(reason), "{error} does not say {reason:?}");
    }
}

#[test]
fn settings_are_read_in_each_form_and_shown_as_they_were_said() {
    let nested = json!({ "analysis": {
        "filter": { "grams": { "type": "ngram", "min_gram": 2, "max_gram": 4 } },
        "analyzer": { "a": { "tokenizer": "keyword", "filter": ["grams"] } },
    }, "max_ngram_diff": "2", "number_of_shards": 1 });
    let flat = json!({
        "index.analysis.filter.grams.type": "ngram", "index.analysis.filter.grams.min_gram": 2,
        "index": { "analysis.filter": { "grams": { "max_gram": 4 } }, "max_ngram_diff": 2 },
        "analysis": { "analyzer": { "a": { "tokenizer": "keyword", "filter": ["grams"], "type": null } } },
    });
    let (nested, flat) =
        (Definitions::from_settings(&nested).unwrap(), Definitions::from_settings(&flat).unwrap());
    assert_eq!(nested, flat);
    let shown = nested.to_settings();
    assert_eq!(
        shown["analysis"]["filter"]["grams"],
        json!({ "max_gram": 4, "min_gram": 2, "type": "ngram" })
    );
    let again: Definitions = serde_json::from_str(&serde_json::to_string(&nested).unwrap()).unwrap();
    assert_eq!(again.analyzer("a"), nested.analyzer("a"));
    for nothing in
        [json!({ "codec": "x" }), json!({ "analysis": null }), json!({ "analysis": { "analyzer": null } })]
    {
        assert!(Definitions::from_settings(&nothing).unwrap().is_empty());
    }
}

#[test]
fn definitions_are_added_to_and_never_changed() {
    let one = defined(json!({ "analyzer": { "a": { "type": "simple" } } }));
    let two = defined(json!({ "analyzer": { "a": { "type": "simple" }, "b": { "type": "stop" } } }));
    assert_eq!(one.adding(&two).unwrap(), two);
    let other = defined(json!({ "analyzer": { "a": { "type": "stop" } } }));
    let error = one.adding(&other).unwrap_err().to_string();
    assert!(error.contains("Can't update the setting [index.analysis.analyzer.a]"), "{error}");
    for name in ["default", "default_search", "whitespace", "standard", "simple", "stop", "keyword"] {
        let error = one.adding(&defined(json!({ "analyzer": { name: { "type": "simple" } } }))).unwrap_err();
        assert!(error.what().contains(&format!("[index.analysis.analyzer.{name}]")), "{error}");
    }
    let normalizer = defined(json!({ "normalizer": { "lowercase": { "filter": ["uppercase"] } } }));
    let error = one.adding(&normalizer).unwrap_err();
    assert!(error.what().contains("[index.analysis.normalizer.lowercase]"), "{error}");
    // Analyzers may have these without a definition.
    for (kind, name, options) in [
        ("tokenizer", "standard", json!({ "type": "keyword" })),
        ("tokenizer", "PathHierarchy", json!({ "type": "keyword" })),
        ("filter", "lowercase", json!({ "type": "uppercase" })),
        ("filter", "stop", json!({ "type": "stop", "stopwords": ["x"] })),
        ("char_filter", "html_strip", json!({ "type": "html_strip", "escaped_tags": ["b"] })),
    ] {
        let own = defined(json!({ kind: { name: options } }));
        let error = one.adding(&own).unwrap_err();
        assert!(error.what().contains(&format!("[index.analysis.{kind}.{name}]")), "{error}");
        assert_eq!(own.adding(&own).unwrap(), own, "what is there may be said again");
    }
    let keep = defined(json!({ "filter": { "keep": { "type": "keep", "keep_words": ["x"] } } }));
    one.adding(&keep).unwrap();
    let wild = ["*", "analysis.*", "analysis.analyzer.*", "analysis.*.type", "analysis.analyzer.a.*"];
    for reset in ["analysis", "analysis.analyzer", "analysis.analyzer.a", "analysis.analyzer.a.type"]
        .into_iter()
        .chain(wild)
    {
        let error = one.check_reset(reset).unwrap_err();
        assert!(error.what().contains(&format!("Can't update the setting [index.{reset}]")), "{error}");
    }
    for other in
        ["analysis.filter", "analysis.analyzer.b", "analysis.analyzer.a.stopwords", "analysis.filter.*", "x*"]
    {
        one.check_reset(other).unwrap();
    }
    Definitions::default().check_reset("analysis").unwrap();
}

#[test]
fn an_analysis_is_the_same_in_another_process() {
    let analysis = of(json!({
        "tokenizer": { "type": "pattern", "pattern": "\\d" },
        "char_filter": [{ "type": "mapping", "mappings": ["x => y"] }], "filter": ["lowercase", "stop"],
    }));
    let bytes = postcard::to_allocvec(&analysis).unwrap();
    let again: Analysis = postcard::from_bytes(&bytes).unwrap();
    assert_eq!(again, analysis);
    check(&again, "Ax1the2c", &[(0, "ay"), (2, "c")]);
}

#[test]
fn each_step_is_told() {
    let steps = of(json!({
        "tokenizer": "whitespace", "char_filter": ["html_strip"], "filter": ["lowercase", { "type": "stop" }],
    }))
    .steps("<b>The</b> Fox", 10)
    .unwrap();
    assert_eq!(steps.char_filters, [("html_strip".to_owned(), "The Fox".to_owned())]);
    let texts =
        |words: &[super::Word<'_>]| words.iter().map(|word| word.text.to_string()).collect::<Vec<_>>();
    assert_eq!(
        (steps.tokenizer.0.as_str(), texts(&steps.tokenizer.1)),
        ("whitespace", vec!["The".to_owned(), "Fox".to_owned()])
    );
    let filters: Vec<(&str, Vec<String>)> =
        steps.filters.iter().map(|(name, words)| (name.as_str(), texts(words))).collect();
    assert_eq!(filters[0], ("lowercase", vec!["the".to_owned(), "fox".to_owned()]));
    assert_eq!(filters[1], ("__anonymous__stop", vec!["fox".to_owned()]));
}

#[test]
fn characters_become_one_character_as_in_elasticsearch() {
    let lower = of(json!({ "tokenizer": "keyword", "filter": ["lowercase"] }));
    check(&lower, "İSTANBUL", &[(0, "istanbul")]);
    let upper = of(json!({ "tokenizer": "keyword", "filter": ["uppercase"] }));
    check(&upper, "straße ᾳ", &[(0, "STRAßE ᾼ")]);
}

#[test]
fn words_are_those_of_elasticsearch_where_there_are_no_spaces() {
    let standard = of(json!({ "tokenizer": "standard" }));
    check(&standard, "ไทย ok 😀!", &[(0, "ไทย"), (1, "ok"), (2, "😀")]);
    check(&of(json!({ "tokenizer": "whitespace" })), "10\u{a0}km far", &[(0, "10\u{a0}km"), (1, "far")]);
    check(&of(json!({ "tokenizer": "keyword", "filter": ["trim"] })), " a\u{a0} ", &[(0, "a\u{a0}")]);
}

#[test]
fn a_group_of_a_replacement_has_the_digits_that_the_pattern_has_groups_for() {
    let filter = json!({ "type": "pattern_replace", "pattern": "(a)", "replacement": "$12" });
    check(&of(json!({ "tokenizer": "keyword", "filter": [filter] })), "abc", &[(0, "a2bc")]);
}

#[test]
fn what_is_made_of_a_text_is_bounded() {
    let growing = json!({ "type": "pattern_replace", "pattern": "x", "replacement": "x".repeat(60_000) });
    let text = "x".repeat(20_000);
    let bytes_of = |analysis: &Analysis, text: &str| {
        analysis.words(text).iter().map(|word| word.text.len() + 48).sum::<usize>()
    };
    let characters = of(json!({ "tokenizer": "keyword", "char_filter": vec![growing.clone(); 8] }));
    assert!(bytes_of(&characters, &text) < 5 << 20);
    let words = of(json!({ "tokenizer": "keyword", "filter": vec![growing; 40] }));
    assert!(bytes_of(&words, &text) <= 64 << 20);
    let grams = json!({ "type": "edge_ngram", "min_gram": 1, "max_gram": 256 });
    let starts = of(json!({ "tokenizer": "whitespace", "filter": [grams] }));
    let long = ("x".repeat(255) + " ").repeat(3_000);
    let found = starts.words(&long);
    assert!(found.len() > 100_000 && found.len() < 3_000 * 255, "{}", found.len());
    assert!(
        found.iter().enumerate().all(|(n, word)| word.text.len() == n % 255 + 1),
        "the first ones are there"
    );
    let swapped = json!({ "type": "path_hierarchy", "replacement": "-" });
    let paths = of(json!({ "tokenizer": swapped }));
    assert!(bytes_of(&paths, &"/a".repeat(100_000)) <= 64 << 20);
}
