use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Edited, Script, Unfinished};
use crate::document::Stop;
use crate::tests::document;
use crate::value::Map;

/// What a script returns, with a document as its `ctx`, some `params`, and the document afterwards.
fn ran(source: &str, ctx: Value, params: Value) -> Result<(Value, Value), String> {
    let crate::Value::Object(params) = params.into() else { panic!("params are an object") };
    let script = Script::read(source, params, false);
    let script = script.map_err(|error| error.what().to_owned())?;
    let mut document = document(ctx);
    match script.change(&mut document) {
        Ok(()) => {
            let mut source = crate::tests::shown(&document);
            let returned = source.as_object_mut().unwrap().shift_remove("got").unwrap_or_default();
            Ok((returned, source))
        }
        Err(Stop::Fail(failure)) => Err(format!("{}: {}", failure.kind, failure.reason)),
        Err(other) => panic!("{other:?}"),
    }
}

/// What an expression is.
fn value(expression: &str) -> Result<Value, String> {
    let ctx = json!({
        "n": 7, "long": 3_000_000_000_u64, "big": u64::MAX, "half": 0.5, "text": "a-b-c", "null": null, "umlaut": "äöü😀x",
        "list": [3, 1, 2], "map": { "a": 1, "b": { "c": [1] } }, "yes": true,
    });
    ran(&format!("ctx.got = {expression};"), ctx, json!({ "n": 2, "list": [1] })).map(|(got, _)| got)
}

#[test]
fn expressions_are_as_in_painless() {
    for (expression, expected) in [
        ("1 + 2 * 3 - 4 / 3", json!(6)),
        ("(1 + 2) * 3 % 5", json!(4)),
        ("2147483647 + 1", json!(-2_147_483_648_i64)),
        ("2147483647L + 1", json!(2_147_483_648_i64)),
        ("9223372036854775807L + 1", json!(i64::MIN)),
        ("ctx.n + params.n", json!(9)),
        ("ctx.long * 2", json!(6_000_000_000_i64)),
        ("-7 / 2", json!(-3)),
        ("-7 % 3", json!(-1)),
        ("7 / 2.0", json!(3.5)),
        ("1.1f + 0", json!(1.1)),
        ("1 << 33", json!(2)),
        ("1L << 33", json!(8_589_934_592_i64)),
        ("-1 >>> 28", json!(15)),
        ("-16 >> 2", json!(-4)),
        ("6 & 3 | 8 ^ 1", json!(11)),
        ("~5", json!(-6)),
        ("0xFF", json!(255)),
        ("1e3", json!(1000.0)),
        ("'a' + 1 + 2", json!("a12")),
        ("1 + 2 + 'a'", json!("3a")),
        ("'' + 1.0", json!("1.0")),
        ("'' + 1e10", json!("1.0E10")),
        ("'' + 12345678.9", json!("1.23456789E7")),
        ("'' + 0.0001", json!("1.0E-4")),
        ("'' + 1.1f", json!("1.1")),
        ("'' + null + true", json!("nulltrue")),
        ("'' + ctx.map + ctx.list", json!("{a=1, b={c=[1]}}[3, 1, 2]")),
        ("1 == 1.0 && 1 == 1L && 'a' == 'a' && null == null", json!(true)),
        ("[1, [2]] == [1, [2]] && ['a': 1] == ['a': 1] && [1] != [2]", json!(true)),
        ("-2147483648", json!(i32::MIN)),
        ("-2147483648 instanceof Integer && -2147483648 - 1 == 2147483647", json!(true)),
        ("-9223372036854775808L", json!(i64::MIN)),
        ("1 < 2 == true", json!(true)),
        ("ctx.big > ctx.long", json!(true)),
        ("true ? 1 : false ? 2 : 3", json!(1)),
        ("ctx.none ?: 'other'", json!("other")),
        ("ctx.none?.deep?.er", json!(null)),
        ("ctx.map?.b.c[0]", json!(1)),
        ("ctx.list.length + ctx.list[-1] + ctx.list.1", json!(6)),
        ("ctx['map']['a']", json!(1)),
        ("ctx.null", json!(null)),
        ("(int) 3.99 + (int) -3.99", json!(0)),
        ("(int) 3000000000L", json!(-1_294_967_296_i64)),
        ("(long) 1e30", json!(i64::MAX)),
        ("(byte) 200", json!(-56)),
        ("(char) 'a' + 1", json!(98)),
        ("(String) (char) 98", json!("b")),
        ("'abc'.charAt(1) == (char) 'b'", json!(true)),
        ("ctx.n instanceof Integer && ctx.long instanceof Long && ctx.half instanceof Double", json!(true)),
        ("ctx.n instanceof Number && !(ctx.n instanceof String) && !(ctx.null instanceof Map)", json!(true)),
        ("ctx.map instanceof Map && ctx.list instanceof List && params.list instanceof List", json!(true)),
        ("ctx.text =~ /b/ && !(ctx.text ==~ /b/) && ctx.text ==~ /[a-c-]+/", json!(true)),
        ("'X/y' =~ /x\\/Y/i", json!(true)),
        ("10 / 2 / 5", json!(1)),
        ("!true || false && true", json!(false)),
    ] {
        assert_eq!(value(expression), Ok(expected), "{expression}");
    }
}

#[test]
fn values_have_the_methods_of_java() {
    for (expression, expected) in [
        ("'Hello'.substring(1, 3) + 'Hello'.substring(3)", json!("ello")),
        ("ctx.umlaut.length()", json!(6)),
        ("ctx.umlaut.substring(3, 5) + ctx.umlaut.indexOf('x')", json!("😀5")),
        ("'a.b.c'.splitOnToken('.')", json!(["a", "b", "c"])),
        ("'a.b.c'.splitOnToken('.', 2)", json!(["a", "b.c"])),
        ("'abcabc'.indexOf('c', 3) + 'abcabc'.lastIndexOf('a')", json!(8)),
        ("'aXbX'.replace('X', '--').toUpperCase().trim()", json!("A--B--")),
        ("' x '.trim().isEmpty()", json!(false)),
        ("'abc'.compareTo('abd') < 0 && 'a'.equalsIgnoreCase('A')", json!(true)),
        ("'abc'.contains('b') && 'abc'.startsWith('ab') && 'abc'.endsWith('bc')", json!(true)),
        ("'hi'.encodeBase64() + 'aGk='.decodeBase64()", json!("aGk=hi")),
        ("'aGk'.decodeBase64() + 'aGl='.decodeBase64() + '/w=='.decodeBase64()", json!("hihi\u{fffd}")),
        ("'a1b22'.replaceAll(/[0-9]+/, m -> '<' + m.group() + '>')", json!("a<1>b<22>")),
        ("'a1b22'.replaceFirst(/([0-9])/, m -> m.group(1) + '!')", json!("a1!b22")),
        ("/,/.split('a,b,,')", json!(["a", "b"])),
        (
            "[/,/.split(','), /,/.split(''), /,/.split('a'), /,/.split(',a')]",
            json!([[], [""], ["a"], ["", "a"]]),
        ),
        ("/b*/.split('ac')", json!(["a", "c"])),
        ("ctx.list.contains(1) && ctx.list.indexOf(2) == 2 && ctx.list.size() == 3", json!(true)),
        ("ctx.map.keySet()", json!(["a", "b"])),
        ("ctx.map.containsKey('null') || ctx.containsKey('null')", json!(true)),
        ("ctx.map.getOrDefault('z', 5) + ctx.map.get('a') + ctx.map.size()", json!(8)),
        (
            "ctx.list.stream().map(x -> x * 10).filter(x -> x > 10).collect(Collectors.toList())",
            json!([30, 20]),
        ),
        ("ctx.list.stream().map(x -> '' + x).collect(Collectors.joining('/'))", json!("3/1/2")),
        (
            "ctx.list.any(x -> x == 2) && ctx.list.every(x -> x > 0) && !ctx.list.stream().noneMatch(x -> x > 1)",
            json!(true),
        ),
        ("ctx.list.find(x -> x < 3)", json!(1)),
        ("ctx.list.findAll(x -> { return x >= 2; })", json!([3, 2])),
        ("String.join('-', ['a', 'b'])", json!("a-b")),
        ("String.valueOf(5) + Integer.toString(6)", json!("56")),
        ("Integer.parseInt('-12') + Integer.parseInt('ff', 16)", json!(243)),
        ("Long.parseLong('3000000000')", json!(3_000_000_000_u64)),
        ("Double.parseDouble(' 1.5 ') + Float.parseFloat('1')", json!(2.5)),
        ("Boolean.parseBoolean('TRUE')", json!(true)),
        ("Math.max(1, 2L) + Math.min(1, 0) + Math.abs(-5)", json!(7.0)),
        ("'' + Math.max(-0.0, 0) + Math.min(0, -0.0) + Math.max(1, 0.0 / 0)", json!("0.0-0.0NaN")),
        ("Math.round(2.5f) instanceof Long", json!(true)),
        ("Math.round(2.5) + Math.round(-2.5)", json!(1)),
        ("Math.floor(-0.5) + Math.ceil(0.5) + Math.pow(2, 10) + Math.sqrt(4)", json!(1026.0)),
        ("Integer.MAX_VALUE", json!(i32::MAX)),
        ("(3.7).intValue()", json!(3)),
        ("Objects.equals(null, ctx.none)", json!(true)),
        ("new ArrayList(ctx.list).subList(0, 2)", json!([3, 1])),
        ("new HashSet([1, 1, 2]).size()", json!(2)),
        ("new StringBuilder('a').append(1).append('b').toString()", json!("a1b")),
    ] {
        assert_eq!(value(expression), Ok(expected), "{expression}");
    }
}

#[test]
fn statements_do_what_they_say() {
    for (script, expected) in [
        (
            "int sum = 0; for (int i = 0; i < 5; i++) { if (i == 3) continue; sum += i; } ctx.got = sum",
            json!(7),
        ),
        ("int i = 0; while (true) { if (++i > 4) { break; } } ctx.got = i", json!(5)),
        ("int i = 9; do { i--; } while (i > 5); ctx.got = i", json!(5)),
        (
            "def out = []; for (x in [1, 2]) { out.add(x); } for (def y : [3]) out.add(y); ctx.got = out",
            json!([1, 2, 3]),
        ),
        (
            "def m = new HashMap(); m.put('a', 1); m['b'] = 2; m.c = [:]; m.c.d = 3; ctx.got = m",
            json!({ "a": 1, "b": 2, "c": { "d": 3 } }),
        ),
        ("def a = 1, b = 2; ctx.got = a++ + ++b + a-- - --b", json!(4)),
        ("int x = 5; x += 2.9; x *= 2; x -= 1; x /= 2; x %= 4; x <<= 2; ctx.got = x", json!(8)),
        ("long x; boolean b; String s; ctx.got = [x, b, s]", json!([0, false, null])),
        ("ctx.a = ctx.b = 4; ctx.got = ctx.a + ctx.b", json!(8)),
        ("def l = [3, 1, 2]; l.sort((a, b) -> a - b); ctx.got = l", json!([1, 2, 3])),
        (
            "def l = ['b', 'a']; l.sort(null); l.add(0, 'z'); l.remove(1); l.set(0, 'y'); ctx.got = l",
            json!(["y", "b"]),
        ),
        ("def l = [1, 2, 3, 4]; l.removeIf(x -> x % 2 == 0); ctx.got = l", json!([1, 3])),
        (
            "def m = ['a': null, 'b': 1]; m.values().removeIf(v -> v == null); m.remove('z'); ctx.got = m",
            json!({ "b": 1 }),
        ),
        (
            "def m = [:]; for (w in ['x', 'y', 'x']) { m.computeIfAbsent(w, k -> []).add(1); } ctx.got = m",
            json!({ "x": [1, 1], "y": [1] }),
        ),
        (
            "def s = ''; for (e in ['a': 1, 'b': 2].entrySet()) { s += e.getKey() + e.value; } ctx.got = s",
            json!("a1b2"),
        ),
        ("def s = ''; ['a': 1].forEach((k, v) -> { s += k; }); ctx.got = s", json!("a")),
        (
            "Iterator i = [1, 2].iterator(); int n = 0; while (i.hasNext()) { n += i.next(); } ctx.got = n",
            json!(3),
        ),
        (
            "StringTokenizer t = new StringTokenizer('a.b c', '.'); ctx.got = [t.countTokens(), t.nextToken(), t.nextToken(), t.hasMoreTokens()]",
            json!([2, "a", "b c", false]),
        ),
        (
            "Matcher m = /(?<k>[a-z]+)=([0-9]+)/.matcher('x=1 yy=22'); def out = []; while (m.find()) { out.add([m.group('k'), m.group(2), m.start()]); } ctx.got = out",
            json!([["x", "1", 0], ["yy", "22", 4]]),
        ),
        (
            "try { def x = null; x.foo = 1; } catch (NullPointerException e) { ctx.got = 'null'; }",
            json!("null"),
        ),
        (
            "try { ctx.got = Integer.parseInt('x'); } catch (IllegalArgumentException e) { ctx.got = e.getMessage(); }",
            json!("For input string: \"x\""),
        ),
        (
            "try { throw new IllegalStateException('no'); } catch (ArithmeticException e) { ctx.got = 1; } catch (Exception e) { ctx.got = e.message; }",
            json!("no"),
        ),
        ("int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); } ctx.got = f(10)", json!(55)),
        (
            "void put(Map m, def v) { m.got = v; } boolean yes() { return true; } put(ctx, yes() == false)",
            json!(false),
        ),
        ("if (false) { ctx.got = 1; } else if (true) { ctx.got = 2; } else ctx.got = 3;", json!(2)),
        ("/* a */ ctx.got = 1; // b", json!(1)),
        ("ctx.got = 1; return; ", json!(1)),
        ("ctx.got = params.list; ctx.got.add(2);", json!([1, 2])),
        ("def a = [1]; def b = a; b.add(2); ctx.got = a", json!([1, 2])),
    ] {
        let got = ran(script, json!({}), json!({ "list": [1] }));
        assert_eq!(got.map(|(got, _)| got), Ok(expected), "{script}");
    }
}

/// `==` takes numbers for equal by their value, `equals` and what collections do only those of one class.
#[test]
fn numbers_are_equal_as_in_painless() {
    for (expression, expected) in [
        (
            "[1 == 1L, 1L == 1.0, 1 == 1.0f, (char) 'a' == 97, 0.0 == -0.0, ctx.big == ctx.big]",
            json!(vec![true; 6]),
        ),
        ("[16777217 == 16777216.0f, 9007199254740993L == 9007199254740992.0]", json!(vec![true; 2])),
        (
            "[1.equals(1L), 1L.equals(1.0), 1.0.equals(1.0f), 0.0.equals(-0.0), Objects.equals(1, 1L)]",
            json!(vec![false; 5]),
        ),
        (
            "[1.equals(1), 1L.equals(1L), (0.0 / 0).equals(0.0 / 0), Objects.equals(null, null)]",
            json!(vec![true; 4]),
        ),
        ("[0.0 / 0 == 0.0 / 0, [1] == [1L], ['a': 1] == ['a': 1.0], [0.0] == [-0.0]]", json!(vec![false; 4])),
        (
            "[[1].contains(1L), [1, 2L].indexOf(2), ['a': 1].containsValue(1L), [1L].containsAll([1])]",
            json!([false, -1, false, false]),
        ),
        (
            "ctx.list.contains(3) && ctx.list.indexOf(2L) == -1 && params.list == [1] && params.list != [1L]",
            json!(true),
        ),
        ("new HashSet([1, 1L, 1.0, 1]).size()", json!(3)),
        (
            "new HashSet([1, 2]) == new HashSet([2, 1]) && new HashSet([1]) != [1] && ctx.map.keySet() == new HashSet(['b', 'a'])",
            json!(true),
        ),
        ("[1, 1L, 1.0, 1].stream().distinct().count()", json!(3)),
        ("ctx.map.entrySet().contains(['a': 1].entrySet().iterator().next())", json!(true)),
    ] {
        assert_eq!(value(expression), Ok(expected), "{expression}");
    }
    let removed = ran("def l = [1, 1L]; ctx.got = [l.remove((long) 1L), l]", json!({}), json!({}));
    assert_eq!(removed.map(|(got, _)| got), Ok(json!([true, [1]])));
}

/// What was matched as a whole is not found again, as in Java.
#[test]
fn a_matcher_finds_on_after_what_it_matched() {
    let matched = "Matcher m = /[a-z]*/.matcher('abc'); def got = [m.matches()]; while (m.find()) { got.add(m.group()); } ctx.got = got";
    assert_eq!(ran(matched, json!({}), json!({})).unwrap().0, json!([true, ""]));
    let not = "Matcher m = /[a-z]/.matcher('abc'); def got = [m.matches()]; while (m.find()) { got.add(m.group()); } ctx.got = got";
    assert_eq!(ran(not, json!({}), json!({})).unwrap().0, json!([false, "a", "b", "c"]));
    let empty = "Matcher m = /x*/.matcher(''); ctx.got = [m.matches(), m.find()]";
    assert_eq!(ran(empty, json!({}), json!({})).unwrap().0, json!([true, false]));
}

#[test]
fn what_goes_wrong_fails_with_its_position() {
    for (script, failed) in [
        ("ctx.a.b = 1", "null_pointer_exception: cannot set a member or an element of null at position "),
        ("ctx.x = 1 / 0", "arithmetic_exception: / by zero at position "),
        ("ctx.x = 1L % 0", "arithmetic_exception: / by zero at position "),
        ("ctx.x = [1][3]", "index_out_of_bounds_exception: Index 3 out of bounds for length 1 at position "),
        (
            "ctx.x = 'a'.substring(2)",
            "index_out_of_bounds_exception: Index 2 out of bounds for length 1 at position ",
        ),
        ("int x = 5L", "class_cast_exception: a number cannot be cast to a smaller type"),
        ("int x = null", "null_pointer_exception: null is no value of a primitive type"),
        (
            "ctx.x = 'a' - 1",
            "class_cast_exception: [Subtract] does not go with a [string] and a [number] at position ",
        ),
        (
            "params.l.add(1)",
            "illegal_argument_exception: what a condition or [params] has cannot be changed: make a copy of it at position ",
        ),
        ("ctx.x = 'aGk=='.decodeBase64()", "illegal_argument_exception: this is not base64"),
        ("ctx.x = 'aA='.decodeBase64()", "illegal_argument_exception: this is not base64"),
        ("params.a = 1", "illegal_argument_exception: what a condition or [params] has cannot be changed"),
        ("ctx.x = ctx", "illegal_argument_exception: the script makes a document that refers to itself"),
        ("def a = []; a.add(a); ctx.x = '' + a", "script_exception: what is written refers to itself"),
        ("ctx.x = 1.0 / 0", "illegal_argument_exception: a number that is infinite or none cannot be stored"),
        ("ctx.x = /a/", "illegal_argument_exception: a [pattern] cannot be stored"),
        ("throw new Exception('no')", "script_exception: no at position "),
        (
            "ctx.x = Integer.parseInt('2147483648')",
            "number_format_exception: For input string: \"2147483648\"",
        ),
        ("ctx.x = Integer.parseInt('1', 99)", "number_format_exception: For input string: \"1\""),
        ("if (1) {}", "script_exception: a condition is a [number], not a boolean"),
        ("ctx._index = null", "illegal_argument_exception: [_index] is a text that is not empty"),
    ] {
        let error = ran(script, json!({}), json!({ "a": 0, "l": [] })).unwrap_err();
        assert!(error.starts_with(failed), "{script}: {error}");
    }
}

#[test]
fn what_is_not_supported_is_invalid_with_its_position() {
    for (script, what) in [
        ("", "unexpected the end at position 0"),
        ("ctx.a = foo", "unexpected [foo] at position 8"),
        ("ctx.a = foo(1)", "unknown function [foo] at position 8"),
        ("int f(int a) { a } ctx.a = f()", "[f] takes 1 arguments at position 27"),
        ("ctx.a.matches2('x')", "the method [matches2] is not supported in a script at position 6"),
        ("ctx.a.contains()", "[contains] takes 1 arguments at position 6"),
        ("ctx.a.contains(x -> x)", "[contains] takes no function at position 6"),
        ("Math.cbrt(2)", "[Math.cbrt] is not supported in a script at position 0"),
        ("new Foo()", "[new Foo] is not supported in a script at position 4"),
        ("doc['a'].value", "[doc] is not supported in a script at position 0"),
        ("switch (1) {}", "[switch] is not supported in a script at position 0"),
        ("int a = 1; int a = 2", "a second variable [a] at position 15"),
        ("1 = 2", "what is no variable, member or element cannot be set at position 2"),
        ("ctx = 1", "what is no variable, member or element cannot be set at position 4"),
        ("ctx.a = 'x", "a text without an end at position 8"),
        ("ctx.a =~ /(/", "a pattern that is not understood: error: unclosed group at position 9"),
        ("ctx.a =~ /x/u", "the flag [u] of a pattern is not supported at position 9"),
        ("try { } catch (Foo e) { }", "[Foo] is no exception at position 15"),
        ("ctx.a = 864000000000", "[864000000000] is no int: write [864000000000L] for a long at position 8"),
        ("ctx.a = -2147483649", "[2147483649] is no int: write [2147483649L] for a long at position 9"),
        ("ctx.a = 2147483648", "[2147483648] is too large for its type at position 8"),
        ("ctx.a = 9223372036854775808L", "[9223372036854775808L] is too large for its type at position 8"),
        ("ctx.a = 92233720368547758070", "[92233720368547758070] is no int at position 8"),
        ("ctx.a = 010", "a number that is not understood at position 8"),
        ("ctx.a = 1 ctx.b = 2", "unexpected [ctx] at position 10"),
        ("{ ctx.a = 1;", "unexpected the end at position 12"),
    ] {
        let error = Script::read(script, Map::new(), false).unwrap_err();
        assert_eq!(error.what(), what, "{script}");
    }
    let open = |open: &str| format!("ctx.a = {}1", open.repeat(5_000));
    for deep in
        [open("("), open("!"), open("["), open("-"), "{".repeat(5_000), open("x ? 1 : "), open("1 ?: ")]
    {
        let error = Script::read(&deep, Map::new(), false).unwrap_err();
        assert!(error.what().contains("inside each other") || error.what().contains("unexpected"), "{error}");
    }
    let chained = vec!["1"; 10_000].join(" + ");
    assert_eq!(value(&chained), Ok(json!(10_000)));
}

#[test]
fn what_never_ends_is_stopped() {
    for script in [
        "while (true) {}",
        "def s = 'x'; while (true) { s += s; }",
        "def l = []; while (true) { l.add(l); }",
        "def l = []; for (int i = 0; i < 200000; i++) { l = [l]; } ctx.x = l",
        "int f(int n) { return f(n + 1) + 1; } f(0)",
        "def l = [1, 1]; for (int i = 0; i < 40; i++) { l = [l, l]; } ctx.x = l",
        "def l = [1, 1]; for (int i = 0; i < 40; i++) { l = [l, l]; } ctx.x = '' + l",
        "def l = [1, 1]; def m = [1, 1]; for (int i = 0; i < 40; i++) { l = [l, l]; m = [m, m]; } ctx.x = l == m",
        "try { while (true) {} } catch (Exception e) { }",
        "StringBuilder b = new StringBuilder('0123456789abcdef'); for (int i = 0; i < 16; i++) { b.append(b); } \
         def l = []; for (int i = 0; i < 1000; i++) { l.add(b); } ctx.x = l",
        "void f(def l, int n) { for (x in l) { if (n > 0) { f(l, n - 1); } break; } } \
         def l = [0]; for (int i = 0; i < 19; i++) { l.addAll(l); } f(l, 40);",
    ] {
        let error = ran(script, json!({}), json!({})).unwrap_err();
        assert!(
            error.contains("turn more than")
                || error.contains("inside each other")
                || error.contains("write more")
                || error.contains("look at too much")
                || error.contains("loops inside each other hold")
                || error.contains("refers to itself"),
            "{script}: {error}"
        );
    }
}

/// To find all matches may take the square of a text's length.
#[test]
fn searches_for_all_matches_are_stopped() {
    let letters = "def s = 'a'; for (int i = 0; i < 17; i++) { s += s; } ctx._source.x = ";
    for search in ["s.replaceAll(/.*x|a/, m -> 'b')", "/.*x|a/.split(s)"] {
        let reason = updated(&format!("{letters}{search}"), "{}", &mut u64::MAX.clone()).unwrap_err();
        assert!(reason.contains("look at too much"), "{search}: {reason}");
    }
}

fn edited(op: &str) -> Edited {
    Edited { index: "web".to_owned(), id: "1".to_owned(), version: Some(3), op: op.to_owned() }
}

/// What a script makes of a document, and what is to be done with it; `shared` is what its request has left.
fn updated(script: &str, text: &str, shared: &mut u64) -> Result<(String, Edited), String> {
    let mut after = edited("index");
    let script =
        Script::parse(&crate::Value::read(script.as_bytes()).unwrap_or_else(|_| script.into())).unwrap();
    match script.update(&mut after, text.as_bytes(), 7_000_000, 1 << 16, shared) {
        Ok(made) => Ok((String::from_utf8(made).unwrap(), after)),
        Err(Unfinished::Failed(failure)) => Err(failure.reason),
        Err(Unfinished::Spent) => Err("spent".to_owned()),
    }
}

/// What a script does not touch is not read and written again.
#[test]
fn what_a_script_does_not_touch_is_as_it_was_written() {
    let text = r#"{"a": 1.10, "b":-0,"c":[12345678901234567890123, {"d":1e400}], "n":1}"#;
    let of = |script: &str| updated(script, text, &mut 0).unwrap().0;
    assert_eq!(of("ctx._source.n = 1"), text);
    let set = r#"{"a":1.10,"b":-0,"c":[12345678901234567890123, {"d":1e400}],"n":2}"#;
    assert_eq!(of("ctx._source.n += 1"), set);
    // Also what is moved.
    let moved = r#"{"b":-0,"c":[{"d":1e400}],"n":1,"e":1.10,"f":12345678901234567890123}"#;
    assert_eq!(of("ctx._source.e = ctx._source.remove('a'); ctx._source.f = ctx._source.c.remove(0)"), moved);
    assert_eq!(of("ctx._source = ['x': ctx._source.b]"), r#"{"x":-0}"#);
    assert!(updated("ctx._source.n = 2", "[]", &mut 0).unwrap_err().contains("a document is an object"));
}

/// The scripts of a request have something together: once that is gone, each has only its own.
#[test]
fn the_scripts_of_a_request_share_what_they_look_at() {
    let long = "for (int i = 0; i < 1000; i++) {}";
    let mut shared = 2 << 20;
    for _ in 0..2 {
        updated(long, "{}", &mut shared).unwrap();
    }
    assert!(shared < 1 << 20, "{shared}");
    assert_eq!(updated("while (true) {}", "{}", &mut shared).unwrap_err(), "spent");
    assert_eq!((shared, updated(long, "{}", &mut shared).unwrap_err().as_str()), (0, "spent"));
    assert!(updated("ctx._source.n = 1", "{}", &mut shared).is_ok());
    // One that is endless alone is told so.
    let mut shared = u64::MAX;
    let reason = updated("while (true) {}", "{}", &mut shared).unwrap_err();
    assert!(reason.contains("turn more than") || reason.contains("look at too much"), "{reason}");
    assert_eq!(updated("int x = 1 / 0", "{}", &mut 0).unwrap_err(), "/ by zero at position 10 of the script");
}

/// What would be another text in a document than it was is an error.
#[test]
fn half_a_character_is_no_text() {
    for half in
        ["'' + ctx.umlaut.charAt(3)", "[ctx.umlaut.charAt(4)]", "ctx.umlaut.indexOf(ctx.umlaut.charAt(3))"]
    {
        let error = value(half).unwrap_err();
        assert!(error.contains("half of a character"), "{half}: {error}");
    }
    assert_eq!(value("ctx.umlaut.charAt(5)"), Ok(json!("x")));
    assert_eq!(value("ctx.umlaut.indexOf('x', 4)"), Ok(json!(5)), "from inside of a character");
    assert_eq!(value("ctx.umlaut.indexOf('x', 6)"), Ok(json!(-1)));
    assert_eq!(value("/,/.split('a,b,,')"), Ok(json!(["a", "b"])));
    assert_eq!(value("/(a)(b)?/.split('xaby')"), Ok(json!(["x", "y"])));
}

#[test]
fn nulls_are_removed_from_a_whole_document() {
    let script = "void handleMap(Map map) { for (def x : map.values()) { if (x instanceof Map) { handleMap(x); } \
                  else if (x instanceof List) { handleList(x); } } map.values().removeIf(v -> v == null); } \
                  void handleList(List list) { for (def x : list) { if (x instanceof Map) { handleMap(x); } \
                  else if (x instanceof List) { handleList(x); } } } handleMap(ctx);";
    let ctx = json!({ "a": null, "b": { "c": null, "d": [{ "e": null, "f": 1 }, null] } });
    assert_eq!(ran(script, ctx, json!({})).unwrap().1, json!({ "b": { "d": [{ "f": 1 }, null] } }));
    let deep = (0..90).fold(json!({ "x": null, "y": 1 }), |inner, _| json!({ "a": inner }));
    assert!(ran(script, deep, json!({})).is_ok());
}

#[test]
fn updates_see_their_metadata_and_leave_what_is_to_be_done() {
    let ran = |script: &str| updated(script, r#"{"counter":1}"#, &mut 0);
    let left = |op: &str, text: &str| Ok((text.to_owned(), edited(op)));
    let counted =
        json!({ "source": "ctx._source.counter += params.n", "lang": "painless", "params": { "n": 4 } });
    assert_eq!(ran(&counted.to_string()), left("index", r#"{"counter":5}"#));
    assert_eq!(ran("ctx.op = 'none'"), left("none", r#"{"counter":1}"#));
    let about = "ctx._source.about = [ctx._index, ctx._id, ctx._version, ctx._now, ctx.op]";
    let told = r#"{"counter":1,"about":["web","1",3,7000,"index"]}"#;
    assert_eq!(ran(about), left("index", told));
    assert_eq!(ran("ctx._source = ['a': 1]"), left("index", r#"{"a":1}"#));
    let error = ran("ctx.counter = 1").unwrap_err();
    assert!(error.starts_with("[ctx] has no member [counter]"), "{error}");
    for (script, what) in [
        (json!({ "lang": "mustache", "source": "" }), "script_lang not supported"),
        (json!({ "id": "x" }), "a script is given by its [source]"),
        (json!({ "params": {} }), "must specify either [source]"),
        (json!({ "source": "1", "x": 1 }), "[script] unknown field [x]"),
        (json!({ "source": "1", "params": 1 }), "[params] of a script is an object"),
    ] {
        assert!(Script::parse(&script.into()).unwrap_err().what().starts_with(what));
    }
}

proptest! {
    /// Whatever is written, it is read or refused, and runs to an end.
    #[test]
    fn no_script_panics(words in prop::collection::vec(prop::sample::select(WORDS), 0..40)) {
        let _ = ran(&words.join(" "), json!({ "a": 1, "l": [1, "x", { "b": null }], "s": "täxt" }), json!({ "p": [2] }));
    }

    /// Whole numbers are computed as Java does.
    #[test]
    fn whole_numbers_wrap(left in any::<i32>(), right in any::<i32>()) {
        let expression = format!("[({left}) + ({right}), ({left}) * ({right}), ({left}L) - ({right})]");
        let whole = json!([
            left.wrapping_add(right), left.wrapping_mul(right), i64::from(left) - i64::from(right)
        ]);
        prop_assert_eq!(value(&expression), Ok(whole));
    }

    /// Indexes into texts count as Java does.
    #[test]
    fn texts_are_cut_by_units_of_utf_16(text in "[a-cä😀]{0,8}", from in 0_usize..10, to in 0_usize..10) {
        let units: Vec<u16> = text.encode_utf16().collect();
        let expected = units.get(from..to).and_then(|part| String::from_utf16(part).ok());
        // What begins or ends within a character is not cut.
        let starts = |at: usize| String::from_utf16(&units[..at.min(units.len())]).is_ok();
        let expected = expected.filter(|_| starts(from) && starts(to));
        let got = value(&format!("'{text}'.substring({from}, {to})")).ok();
        prop_assert_eq!(got, expected.map(Value::from));
    }
}

const WORDS: &[&str] = &[
    "ctx",
    ".a",
    ".l",
    ".s",
    "[0]",
    "['b']",
    "=",
    "+=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "==",
    "<",
    "&&",
    "||",
    "!",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    ",",
    ";",
    ":",
    "?",
    "?.",
    "->",
    "++",
    "--",
    "if",
    "else",
    "for",
    "while",
    "return",
    "def",
    "int",
    "x",
    "y",
    "1",
    "2L",
    "1.5",
    "'t'",
    "null",
    "true",
    "params",
    ".p",
    ".add(1)",
    ".size()",
    ".substring(1)",
    ".remove(0)",
    ".keySet()",
    ".values()",
    ".removeIf(v -> v == null)",
    "new ArrayList()",
    "[:]",
    "instanceof",
    "Map",
    "=~",
    "/t/",
    "try",
    "catch (Exception e)",
    "break",
    "(int)",
    "f(",
    "in",
    ".length()",
    ".toString()",
    ".get(0)",
    ".sort(null)",
];
