use super::Analysis;

fn check(analysis: Analysis, text: &str, expected: &[(usize, &str)]) {
    let words = analysis.words(text);
    let words: Vec<(usize, &str)> = words.iter().map(|(at, word)| (*at, word.as_ref())).collect();
    assert_eq!(words, expected, "{} of {text:?}", analysis.name());
}

#[test]
fn words_are_those_of_the_analyzers_of_these_names() {
    let text = "The QUICK fox-42's  Over";
    check(Analysis::Keyword, text, &[(0, text)]);
    check(Analysis::Lowercase, text, &[(0, "the quick fox-42's  over")]);
    check(Analysis::Whitespace, text, &[(0, "The"), (1, "QUICK"), (2, "fox-42's"), (3, "Over")]);
    check(Analysis::Simple, text, &[(0, "the"), (1, "quick"), (2, "fox"), (3, "s"), (4, "over")]);
    check(Analysis::Stop, text, &[(1, "quick"), (2, "fox"), (3, "s"), (4, "over")]);
    for analysis in [Analysis::Whitespace, Analysis::Simple, Analysis::Stop] {
        check(analysis, "", &[]);
    }
    check(Analysis::Lowercase, "", &[(0, "")]);
    check(Analysis::Lowercase, "ÄÖ ẞ İ", &[(0, "äö ß i\u{307}")]);
}

#[test]
fn a_name_is_of_an_analyzer_or_of_a_normalizer() {
    assert_eq!(Analysis::analyzer("whitespace"), Some(Analysis::Whitespace));
    assert_eq!(Analysis::normalizer("lowercase"), Some(Analysis::Lowercase));
    assert_eq!((Analysis::analyzer("lowercase"), Analysis::normalizer("stop")), (None, None));
    assert_eq!(Analysis::analyzer("french"), None);
}
