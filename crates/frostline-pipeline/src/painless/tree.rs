//! A script that was read.

use frostline_java::JavaRegex;

/// Statements with the functions that they call.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) functions: Vec<Function>,
    /// The function of each place that calls one.
    pub(super) calls: Vec<usize>,
    pub(super) body: Vec<Statement>,
    /// How many variables the body has.
    pub(super) slots: usize,
}

#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) parameters: Vec<(usize, Type)>,
    pub(super) returns: Type,
    pub(super) body: Vec<Statement>,
    pub(super) slots: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Primitive {
    Boolean,
    Byte,
    Short,
    Char,
    Int,
    Long,
    Float,
    Double,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Void,
    /// `def` and `Object`.
    Any,
    Primitive(Primitive),
    /// The same, or null.
    Boxed(Primitive),
    Number,
    Text,
    Map,
    List,
    Set,
    Collection,
    Entry,
    Iterator,
    Tokenizer,
    Builder,
    Pattern,
    Matcher,
    Exception,
}

#[derive(Debug)]
pub(super) enum Statement {
    Declare(Vec<(usize, Type, Option<Expression>)>),
    Expression(Expression),
    If(Vec<(Expression, Vec<Statement>)>, Vec<Statement>),
    /// What is done before, until when, what is done after each turn, and the body.
    For(Vec<Statement>, Option<Expression>, Vec<Expression>, Vec<Statement>),
    Each(usize, Type, Expression, Vec<Statement>),
    DoWhile(Vec<Statement>, Expression),
    Break,
    Continue,
    Return(Option<Expression>),
    Throw(Expression),
    Try(Vec<Statement>, Vec<Catch>),
    Block(Vec<Statement>),
}

#[derive(Debug)]
pub(super) struct Catch {
    /// The kinds of failures that it is for; none for all.
    pub(super) kinds: Option<&'static [&'static str]>,
    pub(super) slot: usize,
    pub(super) body: Vec<Statement>,
}

#[derive(Debug)]
pub(super) struct Expression {
    pub(super) at: usize,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    Null,
    Boolean(bool),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Text(String),
    Pattern(Pattern),
    Context,
    Params,
    Local(usize),
    List(Vec<Expression>),
    Map(Vec<(Expression, Expression)>),
    New(Class, Vec<Expression>),
    Chain(Box<Expression>, Vec<Link>),
    Static(Static, Vec<Expression>),
    Call(usize, Vec<Expression>),
    Not(Box<Expression>),
    Negate(Box<Expression>),
    /// `+`, which only checks for a number.
    Plus(Box<Expression>),
    Complement(Box<Expression>),
    Cast(Type, Box<Expression>),
    And(Vec<Expression>),
    Or(Vec<Expression>),
    Binary(Box<Expression>, Vec<(Operator, usize, Expression)>),
    InstanceOf(Box<Expression>, Type),
    Choice(Box<[Expression; 3]>),
    Elvis(Box<[Expression; 2]>),
    Assign(Box<Target>, Option<Operator>, Box<Expression>),
    /// Adds this; the value is that of before if `true`.
    Step(Box<Target>, i32, bool),
}

/// A pattern, to be found and to be all of a text.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) find: JavaRegex,
    pub(super) whole: JavaRegex,
}

#[derive(Debug)]
pub(super) enum Target {
    Local(usize, Type),
    Member(Expression, String),
    Element(Expression, Expression),
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) at: usize,
    /// Whether null has it, as null.
    pub(super) is_safe: bool,
    pub(super) what: Of,
}

#[derive(Debug)]
pub(super) enum Of {
    Member(String),
    Element(Expression),
    Call(&'static str, Vec<Argument>),
}

#[derive(Debug)]
pub(super) enum Argument {
    Value(Expression),
    Function(Lambda),
}

/// A function that a method is given. Its variables are among those of the function around it.
#[derive(Debug)]
pub(super) struct Lambda {
    pub(super) parameters: Vec<usize>,
    pub(super) body: Vec<Statement>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    ShiftLeft,
    ShiftRight,
    ShiftRightUnsigned,
    BitAnd,
    BitOr,
    BitXor,
    Find,
    Match,
    Equal,
    NotEqual,
    Same,
    NotSame,
    Less,
    AtMost,
    More,
    AtLeast,
}

/// What `new` makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    List,
    Map,
    Set,
    Tokenizer,
    Builder,
    /// A failure of a kind.
    Exception(&'static str),
}

/// A function of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Static {
    ParseInt,
    ParseLong,
    ParseFloat,
    ParseDouble,
    ParseBoolean,
    ValueOfText,
    Join,
    AsList,
    ObjectsEqual,
    Abs,
    Max,
    Min,
    Floor,
    Ceil,
    Round,
    Pow,
    Sqrt,
    Exp,
    Log,
    Log10,
    Signum,
    ToList,
    ToSet,
    Joining,
}
