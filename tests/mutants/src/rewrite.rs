//! Puts the mutants of a source file into it, each behind the number that switches it on.

use std::collections::BTreeSet;

use proc_macro2::Span;
use quote::quote;
use syn::spanned::Spanned as _;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, BinOp, Block, Expr, Item, ReturnType, Stmt, Type, UnOp, parse_quote};

/// One small change of a source file.
#[derive(Debug, Clone)]
pub struct Mutant {
    /// Number that switches it on, from 1.
    pub number: usize,
    /// File, from the root of the repository.
    pub file: String,
    /// Line of the change in the original.
    pub line: usize,
    /// Function that holds it.
    pub function: String,
    /// Change, for people.
    pub change: String,
}

/// Returns `source` with its mutants, except for those whose numbers are in `left_out`, and adds them to `found`.
///
/// # Errors
///
/// The source is not Rust.
pub fn rewrite(
    (file, source): (&str, &str),
    left_out: &BTreeSet<usize>,
    found: &mut Vec<Mutant>,
) -> Result<String, String> {
    let parsed = syn::parse_file(source);
    let mut tree = parsed.map_err(|error| format!("{file}: {error}"))?;
    let mut rewriter = Rewriter { file, left_out, found, functions: Vec::new(), is_const: false };
    rewriter.visit_file_mut(&mut tree);
    let switch: Item = parse_quote! {
        #[allow(warnings)]
        fn stockade_mutant(number: usize) -> bool {
            static ON: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
            let on = ON.get_or_init(|| {
                let named = std::env::var("STOCKADE_MUTANT").ok();
                let named = named.or_else(|| std::fs::read_to_string(env!("STOCKADE_MUTANT_FILE")).ok());
                named.and_then(|it| it.trim().parse().ok()).unwrap_or(0)
            });
            *on == number
        }
    };
    tree.items.push(switch);
    Ok(prettyplease::unparse(&tree))
}

struct Rewriter<'a> {
    file: &'a str,
    left_out: &'a BTreeSet<usize>,
    found: &'a mut Vec<Mutant>,
    functions: Vec<String>,
    /// The compiler evaluates the code that is visited; no switch exists there.
    is_const: bool,
}

impl Rewriter<'_> {
    /// Notes a mutant, and returns its switch; none where it is left out.
    fn switch(&mut self, span: Span, change: String) -> Option<Expr> {
        if self.is_const || self.functions.is_empty() {
            return None;
        }
        let number = self.found.len() + 1;
        let mutant = Mutant {
            number,
            file: self.file.to_owned(),
            line: span.start().line,
            function: self.functions.join("::"),
            change,
        };
        self.found.push(mutant);
        // The number is taken all the same, so that the others keep theirs.
        (!self.left_out.contains(&number)).then(|| parse_quote!(stockade_mutant(#number)))
    }

    fn within(&mut self, name: String, is_const: bool, visit: impl FnOnce(&mut Self)) {
        let before = self.is_const;
        self.is_const |= is_const;
        self.functions.push(name);
        visit(self);
        self.functions.pop();
        self.is_const = before;
    }

    /// Has a function return at once, with each of a few values of its type.
    fn return_early(&mut self, output: &ReturnType, block: &mut Block) {
        let span = block.brace_token.span.open();
        let values = match output {
            ReturnType::Default => vec![parse_quote!(())],
            ReturnType::Type(_, of) => values(of),
        };
        for value in values {
            let shown = quote!(#value).to_string().replace(' ', "");
            if let Some(switch) = self.switch(span, format!("returns {shown} at once")) {
                let early: Stmt = parse_quote!(if #switch { return #value; });
                block.stmts.insert(0, early);
            }
        }
    }
}

/// Returns a few values of a type; none of one that is not known.
fn values(of: &Type) -> Vec<Expr> {
    let Type::Path(path) = of else { return Vec::new() };
    let Some(last) = path.path.segments.last() else { return Vec::new() };
    let inner = || match &last.arguments {
        syn::PathArguments::AngleBracketed(all) => all.args.iter().find_map(|it| match it {
            syn::GenericArgument::Type(of) => Some(of.clone()),
            _ => None,
        }),
        _ => None,
    };
    match last.ident.to_string().as_str() {
        "bool" => vec![parse_quote!(true), parse_quote!(false)],
        "Option" => vec![parse_quote!(None)],
        "String" => vec![parse_quote!(String::new())],
        "Vec" => vec![parse_quote!(Vec::new())],
        "usize" | "u8" | "u16" | "u32" | "u64" | "i32" | "i64" => vec![parse_quote!(0)],
        "Result" => match inner() {
            Some(Type::Tuple(unit)) if unit.elems.is_empty() => vec![parse_quote!(Ok(()))],
            Some(inner) => values(&inner).into_iter().map(|it| parse_quote!(Ok(#it))).collect(),
            None => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|it| {
        let text = quote!(#it).to_string();
        text.contains("test") && !text.contains("not (test)")
    })
}

fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(it) => has_let(&it.left) || has_let(&it.right),
        _ => false,
    }
}

/// Returns the operator that stands in for `operator`.
fn other(operator: &BinOp) -> Option<BinOp> {
    Some(match operator {
        BinOp::And(_) => parse_quote!(||),
        BinOp::Or(_) => parse_quote!(&&),
        BinOp::Eq(_) => parse_quote!(!=),
        BinOp::Ne(_) => parse_quote!(==),
        BinOp::Lt(_) => parse_quote!(<=),
        BinOp::Le(_) => parse_quote!(<),
        BinOp::Gt(_) => parse_quote!(>=),
        BinOp::Ge(_) => parse_quote!(>),
        BinOp::BitAnd(_) => parse_quote!(|),
        BinOp::BitOr(_) => parse_quote!(&),
        _ => return None,
    })
}

fn short(tokens: impl quote::ToTokens) -> String {
    let text: String = quote!(#tokens).to_string();
    let cut: String = text.chars().take(70).collect();
    if cut.len() < text.len() { format!("{cut}…") } else { text }
}

impl VisitMut for Rewriter<'_> {
    fn visit_item_mut(&mut self, item: &mut Item) {
        match item {
            Item::Mod(it) if is_test(&it.attrs) => {}
            Item::Fn(it) if is_test(&it.attrs) => {}
            Item::Const(_) | Item::Static(_) | Item::Macro(_) => {}
            _ => visit_mut::visit_item_mut(self, item),
        }
    }

    fn visit_item_fn_mut(&mut self, item: &mut syn::ItemFn) {
        let is_const = item.sig.constness.is_some();
        self.within(item.sig.ident.to_string(), is_const, |it| {
            visit_mut::visit_item_fn_mut(it, item);
            it.return_early(&item.sig.output, &mut item.block);
        });
    }

    fn visit_impl_item_fn_mut(&mut self, item: &mut syn::ImplItemFn) {
        if is_test(&item.attrs) {
            return;
        }
        let is_const = item.sig.constness.is_some();
        self.within(item.sig.ident.to_string(), is_const, |it| {
            visit_mut::visit_impl_item_fn_mut(it, item);
            it.return_early(&item.sig.output, &mut item.block);
        });
    }

    fn visit_impl_item_const_mut(&mut self, _: &mut syn::ImplItemConst) {}
    fn visit_type_mut(&mut self, _: &mut Type) {}
    fn visit_pat_mut(&mut self, _: &mut syn::Pat) {}
    fn visit_attribute_mut(&mut self, _: &mut Attribute) {}

    fn visit_stmt_mut(&mut self, statement: &mut Stmt) {
        if let Stmt::Item(Item::Const(_) | Item::Static(_)) = statement {
            return;
        }
        let called = match statement {
            Stmt::Expr(expression, Some(_)) => match expression {
                Expr::Try(it) => matches!(&*it.expr, Expr::Call(_) | Expr::MethodCall(_)),
                Expr::Call(_) | Expr::MethodCall(_) => true,
                _ => false,
            },
            _ => false,
        };
        let (span, shown) = (statement.span(), short(&*statement));
        visit_mut::visit_stmt_mut(self, statement);
        if called && let Some(switch) = self.switch(span, format!("without `{shown}`")) {
            let whole = statement.clone();
            *statement = parse_quote!(if !#switch { #whole });
        }
    }

    fn visit_arm_mut(&mut self, arm: &mut syn::Arm) {
        let before = arm.guard.as_ref().map(|(_, guard)| (guard.span(), short(&**guard)));
        visit_mut::visit_arm_mut(self, arm);
        let (Some((_, guard)), Some((span, shown))) = (&mut arm.guard, before) else { return };
        if has_let(guard) {
            return;
        }
        if let Some(switch) = self.switch(span, format!("guard `{shown}` always holds")) {
            **guard = parse_quote!((#switch || #guard));
        }
        if let Some(switch) = self.switch(span, format!("guard `{shown}` never holds")) {
            **guard = parse_quote!((!#switch && #guard));
        }
    }

    fn visit_expr_mut(&mut self, expression: &mut Expr) {
        if matches!(expression, Expr::Const(_) | Expr::Let(_) | Expr::Repeat(_)) {
            if let Expr::Let(it) = expression {
                self.visit_expr_mut(&mut it.expr);
            }
            return;
        }
        let (span, shown, before) = (expression.span(), short(&*expression), expression.clone());
        visit_mut::visit_expr_mut(self, expression);
        match expression {
            Expr::Binary(it) if !has_let(&before) => {
                let Some(other) = other(&it.op) else { return };
                let (left, right, operator) = (&it.left, &it.right, &it.op);
                let change = format!("`{shown}` with `{}`", quote!(#other));
                if let Some(switch) = self.switch(span, change) {
                    *expression = parse_quote! {
                        (if #switch { #left #other #right } else { #left #operator #right })
                    };
                }
            }
            Expr::Unary(it) if matches!(it.op, UnOp::Not(_)) => {
                let inner = &it.expr;
                if let Some(switch) = self.switch(span, format!("`{shown}` without `!`")) {
                    *expression = parse_quote!((if #switch { #inner } else { !#inner }));
                }
            }
            Expr::Macro(it) if it.mac.path.is_ident("matches") => {
                if let Some(switch) = self.switch(span, format!("not `{shown}`")) {
                    let whole = expression.clone();
                    *expression = parse_quote!((#switch ^ #whole));
                }
            }
            Expr::If(it) => {
                let is_plain = !has_let(&it.cond)
                    && !matches!(&*it.cond, Expr::Binary(_) | Expr::Unary(_) | Expr::Paren(_));
                if is_plain {
                    let condition = short(&it.cond);
                    if let Some(switch) = self.switch(span, format!("`if {condition}` negated")) {
                        let cond = &it.cond;
                        *it.cond = parse_quote!((#switch ^ #cond));
                    }
                }
            }
            _ => {}
        }
    }
}
