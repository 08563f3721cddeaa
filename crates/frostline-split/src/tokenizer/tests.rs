use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn tokens(text: &str) -> BTreeSet<String> {
    let mut tokens = BTreeSet::new();
    tokenize(text, |token| {
        tokens.insert(token.to_owned());
    });
    tokens
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let expected: BTreeSet<String> = expected.iter().map(|token| (*token).to_owned()).collect();
    assert_eq!(tokens(text), expected, "{text}");
}

#[test]
fn words_and_punctuation() {
    check("Connection refused!", &["connection", "refused"]);
    check("  -- (hello), [world]; ", &["hello", "world"]);
    check("snake_case C++ #tag -enc", &["snake_case", "c", "tag", "enc"]);
    check("", &[]);
    check("... --- ::: ///", &[]);
    check("wait...what", &["wait", "what"]);
}

fn placed(text: &str) -> Vec<(String, usize, usize, usize, usize)> {
    let tokens = analyze(text, 100).into_iter();
    tokens.map(|token| (token.text, token.start, token.end, token.position, token.words)).collect()
}

#[test]
fn a_token_is_told_where_it_is() {
    let token = |text: &str, start, end, position, words| (text.to_owned(), start, end, position, words);
    let expected = vec![
        token("run", 0, 3, 0, 1),
        token("c", 5, 6, 1, 1),
        token("c:/cmd.exe", 5, 15, 1, 3),
        token("cmd", 8, 11, 2, 1),
        token("cmd.exe", 8, 15, 2, 2),
        token("exe", 12, 15, 3, 1),
        token("now", 17, 20, 4, 1),
    ];
    assert_eq!(placed("Run (C:/CMD.exe) NOW"), expected);
    // Offsets are those of the text as it is written: `İ` is two characters in lower case, and `😀` two units.
    let expected = [token("i\u{307}x", 0, 2, 0, 1), token("😀", 3, 5, 1, 1), token("é", 6, 7, 2, 1)];
    assert_eq!(placed("İX 😀 É"), expected);
    assert_eq!((analyze("a b c", 2).len(), analyze("...", 9).len()), (2, 0));
}

proptest! {
    #[test]
    fn what_is_placed_is_every_token_of_the_text(text in "[a-zİ\u{df}é日😀 ./@=-]{0,20}") {
        let mut all = Vec::new();
        tokenize(&text, |token| all.push(token.to_owned()));
        let units: Vec<u16> = text.encode_utf16().collect();
        let mut found = Vec::new();
        for token in analyze(&text, usize::MAX) {
            prop_assert_eq!(lower(&String::from_utf16(&units[token.start..token.end]).unwrap()), token.text.clone());
            found.push(token.text);
        }
        all.sort_unstable();
        found.sort_unstable();
        prop_assert_eq!(all, found);
    }
}

#[test]
fn files_and_hosts() {
    check("PowerShell.exe", &["powershell", "exe", "powershell.exe"]);
    check(r"C:\Windows\cmd.exe", &["c", "windows", "cmd", "exe", "cmd.exe", r"c:\windows\cmd.exe"]);
    check(r"c:\\a\\b", &["c", "a", "b", r"c:\\a\\b"]);
    check("/var/log/syslog.1", &["var", "log", "syslog", "1", "syslog.1", "var/log/syslog.1"]);
    check(
        r"HKU\S-1-5-21\Software",
        &["hku", "s", "1", "5", "21", "s-1-5-21", "software", r"hku\s-1-5-21\software"],
    );
    check("ws6.mordor.local", &["ws6", "mordor", "local", "ws6.mordor.local"]);
}

#[test]
fn addresses() {
    check("10.0.0.1", &["10", "0", "1", "10.0.0.1"]);
    check("10.0.0.1:443", &["10", "0", "1", "443", "10.0.0.1", "10.0.0.1:443"]);
    check("10.0.0.0/8", &["10", "0", "8", "10.0.0.0", "10.0.0.0/8"]);
    check("fe80::1", &["fe80", "1", "fe80::1"]);
    check("[fe80::1]:443", &["fe80", "1", "fe80::1", "443"]);
    check("src=10.0.0.1", &["src", "10", "0", "1", "10.0.0.1", "src=10.0.0.1"]);
    check("a.b@c.com", &["a", "b", "c", "com", "a.b", "c.com", "a.b@c.com"]);
}

#[test]
fn urls_pairs_and_json() {
    check(
        "https://h.io/p?user=alice&x=1",
        &[
            "https",
            "h",
            "io",
            "p",
            "user",
            "alice",
            "x",
            "1",
            "h.io",
            "https://h.io/p",
            "user=alice",
            "x=1",
            "https://h.io/p?user=alice&x=1",
        ],
    );
    check("key=value", &["key", "value", "key=value"]);
    check("key=\"a b\"", &["key", "a", "b"]);
    check(r#"{"user":"bob","port":443}"#, &["user", "bob", "port", "443"]);
    check(
        "6a910b9d-498a-5ee0-c903-000000000400",
        &["6a910b9d", "498a", "5ee0", "c903", "000000000400", "6a910b9d-498a-5ee0-c903-000000000400"],
    );
    check(r"path=C:\x.exe", &["path", "c", "x", "exe", "x.exe", r"c:\x.exe", r"path=c:\x.exe"]);
}

#[test]
fn beyond_ascii() {
    check("Straße ÉCOLE", &["straße", "école"]);
    check("東京都", &["東", "京", "都", "東京都"]);
    check("한국어 x", &["한", "국", "어", "한국어", "x"]);
    check("カナabc", &["カ", "ナ", "abc", "カナabc"]);
    check("fire🔥now", &["fire", "🔥", "now", "fire🔥now"]);
    check("cafe\u{301} x", &["cafe\u{301}", "x"]);
    check("“quoted”—dash\u{a0}nbsp", &["quoted", "dash", "nbsp"]);
    check("हिन्दी", &["हिन्दी"]);
    check("İ", &["i\u{307}"]);
}

#[test]
fn a_query_is_one_token_at_its_highest_level() {
    let check = |text: &str, expected: &[&str]| assert_eq!(query_tokens(text), expected, "{text}");
    check("PowerShell", &["powershell"]);
    check("powershell.exe -enc", &["powershell.exe", "enc"]);
    check(r"C:\Windows\x.exe", &[r"c:\windows\x.exe"]);
    check("10.0.0.1, 10.0.0.1", &["10.0.0.1"]);
    check("東京", &["東", "京"]);
    check("東京.jp", &["東", "京", "jp"]);
    check("!!", &[]);
}

#[test]
fn parts_of_texts_without_spaces_find_them() {
    let text = tokens("彼は東京都に住んでいます。서울특별시🔥");
    for part in ["東京", "京都", "特別".replace("特別", "특별").as_str(), "住んで", "🔥"] {
        assert!(query_tokens(part).iter().all(|token| text.contains(token)), "{part}");
    }
}

#[test]
fn a_piece_is_found_wherever_it_stands_between_ends_of_words() {
    let check = |text: &str, piece: &str, expected: bool| {
        let pieces = query_pieces(piece);
        let mut tokenizer = Tokenizer::new();
        let found = pieces.iter().all(|piece| piece.is_in(text, &mut tokenizer));
        assert_eq!(found, expected, "{piece:?} in {text:?}");
    };
    check(r"C:\x\v1.0#PowerShell.exe -enc", "powershell.exe", true);
    check("v1.0-powershell.exe.bak", "powershell.exe", true);
    check("v1.0-powershell.exe.bak", "powershell-exe", false);
    check("10.0.0.12", "10.0.0.1", false);
    check("110.0.0.1", "10.0.0.1", false);
    check("from 10.0.0.1:443", "0.0.1", true);
    check(r"c:\windows\system32\cmd.exe", r"System32\cmd", true);
    check("aabaab aab-aab", "aab-aab", true);
    check("東京powershell.exe東京", "powershell.exe", true);
    check("", "x", false);
}

#[test]
fn a_final_sigma_is_a_sigma() {
    assert_eq!(lower("ΟΔΟΣ"), "οδοσ");
    assert_eq!(query_tokens("ΟΔΟΣ"), ["οδοσ"]);
}

#[test]
fn what_is_written_keeps_its_sign() {
    let written = |text: &str| -> Vec<String> {
        query_pieces(text).iter().map(|piece| piece.written().to_owned()).collect()
    };
    assert_eq!(written("-5"), ["-5"]);
    assert_eq!(written("(+1.5e3), x"), ["+1.5e3", "x"]);
    assert_eq!(written("A,B"), ["a", "b"]);
    assert_eq!(written("::1"), ["::1"]);
}

#[test]
fn starts_of_pieces() {
    let check = |text: &str, start: &str, expected: bool| {
        let piece = Piece::start(start).unwrap();
        assert_eq!(piece.starts_in(text, &mut Tokenizer::new()), expected, "{start:?} in {text:?}");
    };
    check("v1.0#PowerShell.exe", "PowerShell.e", true);
    check("10.0.0.1", "10.0.", true);
    check("10.0", "10.0.", false);
    check("apowershell", "power", false);
    assert!(Piece::start(".exe").is_none() && Piece::start("a b").is_none() && Piece::start("").is_none());
}

#[test]
fn a_line_of_forty_kilobytes_stays_linear() {
    for unit in ["a", "a.", "a/", "a=b&", "ab ", "東", "aB+/9x=", "\\", "::"] {
        let line = unit.repeat(40_960 / unit.len());
        let (mut count, mut longest) = (0, 0);
        let emit = |token: &str, _, _| {
            count += 1;
            longest = longest.max(token.len());
            true
        };
        crate::text_index::each_key(&mut Tokenizer::new(), &line, emit, |_| {});
        assert!(count <= 7 * line.len() && longest <= crate::TOKEN_BYTES_MAX, "{unit}");
    }
}

#[test]
fn phrases_are_consecutive_words() {
    let check = |text: &str, phrase: &str, expected: bool| {
        assert_eq!(contains_phrase(text, phrase), expected, "{phrase:?} in {text:?}");
    };
    let text = r"Failed password for root from 10.0.0.1 port 22: C:\Windows\System32";
    check(text, "failed PASSWORD", true);
    check(text, "password failed", false);
    check(text, "10.0.0.1 port", true);
    check(text, "10 0 0 1", true);
    check(text, r"windows\system32", true);
    check(text, "port 2", false);
    check(text, "fail", false);
    check(text, "", false);
    check("", "x", false);
    check("a a b", "a b", true);
    check("a b a b a c", "a b a c", true);
    check("東京都に", "京都", true);
    check("東京都に", "都京", false);
}

#[test]
fn a_phrase_serves_many_texts() {
    let mut phrase = Phrase::new("a b");
    assert!(!phrase.is_in("a"));
    assert!(!phrase.is_in("b"), "a match does not reach over two texts");
    assert!(phrase.is_in("x a b"));
    let words: Vec<String> = phrase_words("B a, b").iter().map(|word| word.text().to_owned()).collect();
    assert_eq!(words, ["b", "a"]);
    assert!(Phrase::new("--").is_empty());
}

/// Texts where every rule has something to do.
pub(crate) fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-cA-C0-1_]{1,4}",
        "[.:/=@&?#-]{1,6}",
        "[ \"',()!*\\\\|]{1,2}",
        "[東京カé\u{301}İß🔥\u{200d}\u{fe0f}ñ한]{1,3}",
        "\\PC{0,3}",
        "[a-z]{60,70}",
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn words(text: &str) -> Vec<String> {
    Phrase::new(text).words
}

proptest! {
    #[test]
    fn every_piece_between_spaces_finds_its_text(text in texts()) {
        let indexed = tokens(&text);
        for piece in text.split_whitespace() {
            for token in query_tokens(piece) {
                prop_assert!(indexed.contains(&token), "{:?} of {:?} in {:?}", token, piece, text);
            }
        }
    }

    #[test]
    fn tokens_have_no_separators_and_are_in_their_text(text in texts()) {
        for token in tokens(&text) {
            prop_assert!(!token.is_empty());
            prop_assert!(query_pieces(&token).iter().all(|piece| piece.is_in(&text, &mut Tokenizer::new())));
            prop_assert!(!token.contains(|c: char| c.is_whitespace() || c.is_control()));
        }
    }

    #[test]
    fn a_phrase_is_a_window_of_the_words(text in texts(), phrase in texts(), at in 0usize..8, length in 1usize..4) {
        let all = words(&text);
        let window: Vec<String> = all.iter().skip(at).take(length).cloned().collect();
        for phrase in [window.join(" "), phrase] {
            let wanted = words(&phrase);
            let expected = !wanted.is_empty() && all.windows(wanted.len()).any(|window| window == wanted);
            prop_assert_eq!(contains_phrase(&text, &phrase), expected);
            if expected {
                let indexed = tokens(&text);
                prop_assert!(phrase_words(&phrase).iter().all(|word| indexed.contains(word.text())));
            }
        }
    }

    #[test]
    fn a_repeated_phrase_is_found_like_any_other(text in "[ab ]{0,40}", phrase in "[ab] [ab] [ab] [ab]") {
        let (all, wanted) = (words(&text), words(&phrase));
        prop_assert_eq!(contains_phrase(&text, &phrase), all.windows(4).any(|window| window == wanted));
    }

    #[test]
    fn words_are_indexed_and_case_does_not_matter(text in texts()) {
        let indexed = tokens(&text);
        let ascii_upper = text.to_ascii_uppercase();
        prop_assert_eq!(&indexed, &tokens(&ascii_upper));
        prop_assert!(words(&text).iter().all(|word| indexed.contains(word)));
    }
}
