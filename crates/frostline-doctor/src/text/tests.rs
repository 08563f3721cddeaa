use super::*;

#[test]
fn what_a_terminal_acts_upon_is_shown_instead() {
    assert_eq!(
        clean("a\x1b[31mred\x07\u{9b}0m\u{202e}x\r"),
        "a\\u{1b}[31mred\\u{7}\\u{9b}0m\\u{202e}x\\u{d}"
    );
    assert_eq!(clean("tab\tand\nline, 디스크"), "tab\tand\nline, 디스크");
    assert_eq!(line("a\nb\tc", 4), "a b ");
}

#[test]
fn a_shell_sees_one_word() {
    assert_eq!(shell_word("/sys/block/sda"), "/sys/block/sda");
    assert_eq!(shell_word("a b"), "'a b'");
    assert_eq!(shell_word("x';reboot;'"), r"'x'\'';reboot;'\'''");
    assert_eq!(shell_word(""), "''");
}
