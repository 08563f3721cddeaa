//! Grafts many mutants into one tree, each behind a number that `FROSTLINE_MUTANT` turns on.
//!
//! `graft-mutants TREE LIST` reads the mutants of `cargo mutants --list --json`, each with a `number`, from LIST, and rewrites
//! the files of TREE. One build then has all of them, which a build for each would take hours for. It prints the
//! numbers that it could place; a mutant in a constant cannot be placed.

use std::collections::BTreeMap;
use std::{env, fs, path::Path, process::ExitCode};

use proc_macro2::{LineColumn, Span};
use serde::Deserialize;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Arm, Block, Expr, ExprLet, ExprStruct, Item, Stmt, parse_quote, parse_str};

#[derive(Deserialize)]
struct Mutant {
    number: u32,
    file: String,
    genre: String,
    replacement: String,
    name: String,
    span: Place,
}

#[derive(Deserialize)]
struct Place {
    start: Position,
}

#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
struct Position {
    line: usize,
    column: usize,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [tree, list] = arguments.as_slice() else {
        eprintln!("usage: graft-mutants TREE LIST");
        return ExitCode::from(2);
    };
    let mutants: Vec<Mutant> = serde_json::from_str(&fs::read_to_string(list).unwrap()).unwrap();
    let mut files: BTreeMap<String, Vec<Mutant>> = BTreeMap::new();
    for mutant in mutants {
        files.entry(mutant.file.clone()).or_default().push(mutant);
    }
    for (file, mutants) in files {
        let path = Path::new(tree).join(&file);
        let mut syntax = syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap();
        let mut graft = Graft { mutants, placed: Vec::new() };
        graft.visit_file_mut(&mut syntax);
        fs::write(&path, prettyplease::unparse(&syntax)).unwrap();
        graft.placed.iter().for_each(|number| println!("{number}"));
    }
    ExitCode::SUCCESS
}

struct Graft {
    mutants: Vec<Mutant>,
    placed: Vec<u32>,
}

impl Graft {
    /// The mutants of a kind that begin here.
    fn take(&mut self, genre: &str, span: Span) -> Vec<Mutant> {
        let LineColumn { line, column } = span.start();
        let here = Position { line, column: column + 1 };
        let (taken, left) =
            self.mutants.drain(..).partition(|mutant| mutant.genre == genre && mutant.span.start == here);
        self.mutants = left;
        let taken: Vec<Mutant> = taken;
        self.placed.extend(taken.iter().map(|mutant| mutant.number));
        taken
    }
}

impl VisitMut for Graft {
    fn visit_item_mut(&mut self, item: &mut Item) {
        // What is computed when the program is built asks no environment.
        if !matches!(item, Item::Const(_) | Item::Static(_)) {
            visit_mut::visit_item_mut(self, item);
        }
    }

    fn visit_impl_item_const_mut(&mut self, _: &mut syn::ImplItemConst) {}

    fn visit_item_fn_mut(&mut self, function: &mut syn::ItemFn) {
        if function.sig.constness.is_none() {
            let whole = self.whole(&function.block);
            visit_mut::visit_item_fn_mut(self, function);
            replace(&mut function.block, whole);
        }
    }

    fn visit_impl_item_fn_mut(&mut self, function: &mut syn::ImplItemFn) {
        if function.sig.constness.is_none() {
            let whole = self.whole(&function.block);
            visit_mut::visit_impl_item_fn_mut(self, function);
            replace(&mut function.block, whole);
        }
    }

    fn visit_arm_mut(&mut self, arm: &mut Arm) {
        let deleted = self.take("MatchArm", arm.pat.span());
        let guards = match &arm.guard {
            Some((_, guard)) => self.take("MatchArmGuard", guard.span()),
            None => Vec::new(),
        };
        visit_mut::visit_arm_mut(self, arm);
        for mutant in guards {
            let (number, value): (u32, Expr) = (mutant.number, parse_str(&mutant.replacement).unwrap());
            let (token, guard) = arm.guard.take().unwrap();
            let guard = parse_quote!((if crate::mutant(#number) { #value } else { #guard }));
            arm.guard = Some((token, Box::new(guard)));
        }
        for mutant in deleted {
            let number = mutant.number;
            arm.guard = Some(match arm.guard.take() {
                Some((token, guard)) => (token, parse_quote!(!crate::mutant(#number) && (#guard))),
                None => (Default::default(), parse_quote!(!crate::mutant(#number))),
            });
        }
    }

    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        let (genre, span) = match expr {
            Expr::Binary(binary) => ("BinaryOperator", binary.op.span()),
            Expr::Unary(unary) => ("UnaryOperator", unary.op.span()),
            Expr::Struct(_) => return self.structure(expr),
            _ => return visit_mut::visit_expr_mut(self, expr),
        };
        let taken = if has_let(expr) { Vec::new() } else { self.take(genre, span) };
        visit_mut::visit_expr_mut(self, expr);
        let original = expr.clone();
        for mutant in taken {
            let number = mutant.number;
            let changed: Expr = match &original {
                Expr::Binary(binary) => {
                    let mut binary = binary.clone();
                    binary.op = parse_str(&mutant.replacement)
                        .unwrap_or_else(|_| panic!("an operator: {}", mutant.name));
                    Expr::Binary(binary)
                }
                Expr::Unary(unary) => (*unary.expr).clone(),
                _ => unreachable!("only operators are taken"),
            };
            let before = expr.clone();
            *expr = parse_quote!((if crate::mutant(#number) { #changed } else { #before }));
        }
    }
}

impl Graft {
    /// The mutants that replace a whole body.
    fn whole(&mut self, block: &Block) -> Vec<Mutant> {
        block.stmts.first().map(|first| self.take("FnValue", first.span())).unwrap_or_default()
    }

    fn structure(&mut self, expr: &mut Expr) {
        let Expr::Struct(ExprStruct { fields, .. }) = &*expr else { unreachable!("called with a structure") };
        let spans: Vec<Span> = fields.iter().map(Spanned::span).collect();
        let taken: Vec<(usize, Mutant)> = (spans.into_iter().enumerate())
            .flat_map(|(n, span)| self.take("StructField", span).into_iter().map(move |mutant| (n, mutant)))
            .collect();
        visit_mut::visit_expr_mut(self, expr);
        let original = expr.clone();
        for (place, mutant) in taken {
            let (number, mut changed) = (mutant.number, original.clone());
            let Expr::Struct(structure) = &mut changed else { unreachable!("a clone of a structure") };
            let fields = structure.fields.iter().enumerate().filter(|(n, _)| *n != place);
            structure.fields = fields.map(|(_, field)| field.clone()).collect();
            let before = expr.clone();
            *expr = parse_quote!((if crate::mutant(#number) { #changed } else { #before }));
        }
    }
}

fn replace(block: &mut Block, mutants: Vec<Mutant>) {
    for mutant in mutants {
        let (number, value): (u32, Expr) = (mutant.number, parse_str(&mutant.replacement).unwrap());
        let early: Stmt = parse_quote!(if crate::mutant(#number) { return #value; });
        block.stmts.insert(0, early);
    }
}

/// A condition with `let` cannot be put into another expression.
fn has_let(expr: &Expr) -> bool {
    struct Found(bool);
    impl VisitMut for Found {
        fn visit_expr_let_mut(&mut self, _: &mut ExprLet) {
            self.0 = true;
        }
    }
    let mut found = Found(false);
    found.visit_expr_mut(&mut expr.clone());
    found.0
}
