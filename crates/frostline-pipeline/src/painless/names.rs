//! The names that scripts know: types, classes, functions and methods.

use super::tree::{Class, Primitive, Static, Type, What};

pub(super) const TYPES: &[(&str, Type)] = &[
    ("void", Type::Void),
    ("def", Type::Any),
    ("Object", Type::Any),
    ("boolean", Type::Primitive(Primitive::Boolean)),
    ("byte", Type::Primitive(Primitive::Byte)),
    ("short", Type::Primitive(Primitive::Short)),
    ("char", Type::Primitive(Primitive::Char)),
    ("int", Type::Primitive(Primitive::Int)),
    ("long", Type::Primitive(Primitive::Long)),
    ("float", Type::Primitive(Primitive::Float)),
    ("double", Type::Primitive(Primitive::Double)),
    ("Boolean", Type::Boxed(Primitive::Boolean)),
    ("Byte", Type::Boxed(Primitive::Byte)),
    ("Short", Type::Boxed(Primitive::Short)),
    ("Character", Type::Boxed(Primitive::Char)),
    ("Integer", Type::Boxed(Primitive::Int)),
    ("Long", Type::Boxed(Primitive::Long)),
    ("Float", Type::Boxed(Primitive::Float)),
    ("Double", Type::Boxed(Primitive::Double)),
    ("Number", Type::Number),
    ("String", Type::Text),
    ("Map", Type::Map),
    ("HashMap", Type::Map),
    ("LinkedHashMap", Type::Map),
    ("List", Type::List),
    ("ArrayList", Type::List),
    ("Set", Type::Set),
    ("HashSet", Type::Set),
    ("LinkedHashSet", Type::Set),
    ("Collection", Type::Collection),
    ("Iterable", Type::Collection),
    ("Iterator", Type::Iterator),
    ("StringTokenizer", Type::Tokenizer),
    ("StringBuilder", Type::Builder),
    ("Pattern", Type::Pattern),
    ("Matcher", Type::Matcher),
    ("Exception", Type::Exception),
];

/// What `new` makes, with the fewest and the most arguments.
pub(super) const CLASSES: &[(&str, Class, usize, usize)] = &[
    ("ArrayList", Class::List, 0, 1),
    ("HashMap", Class::Map, 0, 1),
    ("LinkedHashMap", Class::Map, 0, 1),
    ("HashSet", Class::Set, 0, 1),
    ("LinkedHashSet", Class::Set, 0, 1),
    ("StringTokenizer", Class::Tokenizer, 1, 2),
    ("StringBuilder", Class::Builder, 0, 1),
];

pub(super) const ARITHMETIC: &str = "arithmetic_exception";
pub(super) const CAST: &str = "class_cast_exception";
pub(super) const ILLEGAL: &str = "illegal_argument_exception";
pub(super) const NO_ELEMENT: &str = "no_such_element_exception";
pub(super) const NO_NUMBER: &str = "number_format_exception";
pub(super) const NULL: &str = "null_pointer_exception";
pub(super) const OUTSIDE: &str = "index_out_of_bounds_exception";
pub(super) const SCRIPT: &str = "script_exception";
pub(super) const STATE: &str = "illegal_state_exception";

/// What a script can throw, with what it is called then, and which failures a `catch` of it is for.
pub(super) const EXCEPTIONS: &[(&str, &str, &[&str])] = &[
    ("ArithmeticException", ARITHMETIC, &[ARITHMETIC]),
    ("ClassCastException", CAST, &[CAST]),
    ("IllegalArgumentException", ILLEGAL, &[ILLEGAL, NO_NUMBER]),
    ("IllegalStateException", STATE, &[STATE]),
    ("IndexOutOfBoundsException", OUTSIDE, &[OUTSIDE]),
    ("NoSuchElementException", NO_ELEMENT, &[NO_ELEMENT]),
    ("NullPointerException", NULL, &[NULL]),
    ("NumberFormatException", NO_NUMBER, &[NO_NUMBER]),
    ("Exception", SCRIPT, &[]),
    ("RuntimeException", SCRIPT, &[]),
];

/// The failures that a `catch` is for, none inside for all; none outside where there is no such exception.
pub(super) fn exception_kinds(class: &str) -> Option<Option<&'static [&'static str]>> {
    let (.., kinds) = EXCEPTIONS.iter().find(|(known, ..)| *known == class)?;
    Some(Some(*kinds).filter(|kinds| !kinds.is_empty()))
}

/// A class, a name, and what it stands for.
type Constant = (&'static str, &'static str, fn() -> What);

pub(super) const CONSTANTS: &[Constant] = &[
    ("Integer", "MAX_VALUE", || What::Int(i32::MAX)),
    ("Integer", "MIN_VALUE", || What::Int(i32::MIN)),
    ("Long", "MAX_VALUE", || What::Long(i64::MAX)),
    ("Long", "MIN_VALUE", || What::Long(i64::MIN)),
    ("Double", "MAX_VALUE", || What::Double(f64::MAX)),
    ("Math", "PI", || What::Double(std::f64::consts::PI)),
    ("Math", "E", || What::Double(std::f64::consts::E)),
];

/// Functions of classes, with how many arguments they take.
pub(super) const STATICS: &[(&str, &str, usize, Static)] = &[
    ("Integer", "parseInt", 1, Static::ParseInt),
    ("Integer", "parseInt", 2, Static::ParseInt),
    ("Integer", "valueOf", 1, Static::ParseInt),
    ("Integer", "toString", 1, Static::ValueOfText),
    ("Long", "parseLong", 1, Static::ParseLong),
    ("Long", "parseLong", 2, Static::ParseLong),
    ("Long", "valueOf", 1, Static::ParseLong),
    ("Long", "toString", 1, Static::ValueOfText),
    ("Float", "parseFloat", 1, Static::ParseFloat),
    ("Float", "valueOf", 1, Static::ParseFloat),
    ("Double", "parseDouble", 1, Static::ParseDouble),
    ("Double", "valueOf", 1, Static::ParseDouble),
    ("Double", "toString", 1, Static::ValueOfText),
    ("Boolean", "parseBoolean", 1, Static::ParseBoolean),
    ("Boolean", "valueOf", 1, Static::ParseBoolean),
    ("String", "valueOf", 1, Static::ValueOfText),
    ("String", "join", 2, Static::Join),
    ("Arrays", "asList", 1, Static::AsList),
    ("Objects", "equals", 2, Static::ObjectsEqual),
    ("Math", "abs", 1, Static::Abs),
    ("Math", "max", 2, Static::Max),
    ("Math", "min", 2, Static::Min),
    ("Math", "floor", 1, Static::Floor),
    ("Math", "ceil", 1, Static::Ceil),
    ("Math", "round", 1, Static::Round),
    ("Math", "pow", 2, Static::Pow),
    ("Math", "sqrt", 1, Static::Sqrt),
    ("Math", "exp", 1, Static::Exp),
    ("Math", "log", 1, Static::Log),
    ("Math", "log10", 1, Static::Log10),
    ("Math", "signum", 1, Static::Signum),
    ("Collectors", "toList", 0, Static::ToList),
    ("Collectors", "toSet", 0, Static::ToSet),
    ("Collectors", "joining", 0, Static::Joining),
    ("Collectors", "joining", 1, Static::Joining),
];

/// Methods, with the fewest and the most arguments. Which values have them is known when the script runs.
pub(super) const METHODS: &[(&str, usize, usize)] = &[
    ("add", 1, 2),
    ("addAll", 1, 1),
    ("allMatch", 1, 1),
    ("any", 1, 1),
    ("anyMatch", 1, 1),
    ("append", 1, 1),
    ("booleanValue", 0, 0),
    ("charAt", 1, 1),
    ("clear", 0, 0),
    ("collect", 1, 1),
    ("compareTo", 1, 1),
    ("computeIfAbsent", 2, 2),
    ("concat", 1, 1),
    ("contains", 1, 1),
    ("containsAll", 1, 1),
    ("containsKey", 1, 1),
    ("containsValue", 1, 1),
    ("count", 0, 0),
    ("countTokens", 0, 0),
    ("decodeBase64", 0, 0),
    ("distinct", 0, 0),
    ("doubleValue", 0, 0),
    ("each", 1, 1),
    ("encodeBase64", 0, 0),
    ("end", 0, 1),
    ("endsWith", 1, 1),
    ("entrySet", 0, 0),
    ("equals", 1, 1),
    ("equalsIgnoreCase", 1, 1),
    ("every", 1, 1),
    ("filter", 1, 1),
    ("find", 0, 1),
    ("findAll", 1, 1),
    ("floatValue", 0, 0),
    ("forEach", 1, 1),
    ("get", 1, 1),
    ("getKey", 0, 0),
    ("getLength", 0, 0),
    ("getMessage", 0, 0),
    ("getOrDefault", 2, 2),
    ("getValue", 0, 0),
    ("group", 0, 1),
    ("groupCount", 0, 0),
    ("hasMoreTokens", 0, 0),
    ("hasNext", 0, 0),
    ("indexOf", 1, 2),
    ("intValue", 0, 0),
    ("isEmpty", 0, 0),
    ("iterator", 0, 0),
    ("join", 1, 1),
    ("keySet", 0, 0),
    ("lastIndexOf", 1, 1),
    ("length", 0, 0),
    ("longValue", 0, 0),
    ("map", 1, 1),
    ("matcher", 1, 1),
    ("matches", 0, 0),
    ("next", 0, 0),
    ("nextToken", 0, 0),
    ("noneMatch", 1, 1),
    ("put", 2, 2),
    ("putAll", 1, 1),
    ("putIfAbsent", 2, 2),
    ("remove", 1, 1),
    ("removeIf", 1, 1),
    ("replace", 2, 2),
    ("replaceAll", 1, 2),
    ("replaceFirst", 1, 2),
    ("set", 2, 2),
    ("size", 0, 0),
    ("sort", 1, 1),
    ("split", 1, 1),
    ("splitOnToken", 1, 2),
    ("start", 0, 1),
    ("startsWith", 1, 1),
    ("stream", 0, 0),
    ("subList", 2, 2),
    ("substring", 1, 2),
    ("toLowerCase", 0, 0),
    ("toString", 0, 0),
    ("toUpperCase", 0, 0),
    ("trim", 0, 0),
    ("values", 0, 0),
];

/// Those that take functions.
pub(super) const FUNCTIONS_TAKEN: &[&str] = &[
    "allMatch",
    "any",
    "anyMatch",
    "computeIfAbsent",
    "each",
    "every",
    "filter",
    "find",
    "findAll",
    "forEach",
    "map",
    "noneMatch",
    "removeIf",
    "replaceAll",
    "replaceFirst",
    "sort",
];

/// What Painless knows and scripts here do not.
pub(super) const UNSUPPORTED: &[&str] =
    &["doc", "emit", "finally", "switch", "this", "import", "_score", "_value"];
