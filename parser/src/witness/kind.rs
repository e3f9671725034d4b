//! The kinds of nodes of the grammar, as far as lowering asks for them.

use crate::marks::MarkKind;

/// The mark that a node itself leaves in the terms of the authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shows {
    /// Nothing.
    Nothing,
    /// All of it is one mark.
    Whole(MarkKind),
    /// A command or what belongs to one: words, assignments and redirections.
    Pieces,
    /// `[ ]` or `[[ ]]`.
    Test,
    /// An assignment, if no command holds it.
    Assignment,
    /// A redirection, if no command holds it.
    Redirect,
    /// The body of a here-document.
    HereBody,
    /// `$( )` or backquotes.
    Substitution,
    /// `{ }` or `(( ))`.
    Compound,
    /// `for (( ))`.
    ArithmeticFor,
    /// The definition of a function.
    Function,
}

/// Part that a node plays for the one that has it as a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// A word, or a piece of one.
    Literal,
    /// The name of a command: a word as well.
    Name,
    /// An assignment.
    Assignment,
    /// A redirection, but that of a here-document.
    Redirect,
    /// The redirection of a here-document.
    HereDocument,
    /// The delimiter of a here-document, behind its operator.
    Delimiter,
    /// A part of a test that holds others.
    Expression,
    /// A statement with its redirections; in a test, a part that holds others.
    Redirected,
    /// A compound that may be the body of a function.
    Compound,
    /// `[ ]` or `[[ ]]`, which may be one as well.
    Test,
    /// A token that stands for itself.
    Token,
    /// None of these.
    Other,
}

macro_rules! kinds {
    ($($variant:ident $name:literal $shows:expr, $part:ident;)*) => {
        /// Kind of a node of the witness's tree.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum NodeKind {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
            /// A token that stands for itself, such as `;` or `if`.
            Token,
            /// A named node that this crate has no entry for: the grammar is not the one that it was written for.
            Other,
        }

        impl NodeKind {
            /// Returns the kind of a node that the grammar calls `name`; one that is not `named` is a token.
            pub fn of(name: &str, named: bool) -> NodeKind {
                if named { NodeKind::named(name) } else { NodeKind::Token }
            }

            /// Returns the kind of a named node.
            pub fn named(name: &str) -> NodeKind {
                match name {
                    $($name => NodeKind::$variant,)*
                    _ => NodeKind::Other,
                }
            }

            /// Returns what a node of this kind shows.
            pub(super) fn shows(self) -> Shows {
                match self {
                    $(NodeKind::$variant => $shows,)*
                    NodeKind::Token | NodeKind::Other => Shows::Nothing,
                }
            }

            /// Returns what a node of this kind is to the one around it.
            pub(super) fn part(self) -> Part {
                match self {
                    $(NodeKind::$variant => Part::$part,)*
                    NodeKind::Token => Part::Token,
                    NodeKind::Other => Part::Other,
                }
            }
        }
    };
}

kinds! {
    AnsiCString "ansi_c_string" Shows::Nothing, Literal;
    ArithmeticExpansion "arithmetic_expansion" Shows::Whole(MarkKind::Arithmetic), Literal;
    Array "array" Shows::Nothing, Other;
    BinaryExpression "binary_expression" Shows::Nothing, Expression;
    BraceExpression "brace_expression" Shows::Nothing, Literal;
    CStyleForStatement "c_style_for_statement" Shows::ArithmeticFor, Other;
    CaseItem "case_item" Shows::Nothing, Other;
    CaseStatement "case_statement" Shows::Whole(MarkKind::Compound), Other;
    Command "command" Shows::Pieces, Other;
    CommandName "command_name" Shows::Nothing, Name;
    CommandSubstitution "command_substitution" Shows::Substitution, Literal;
    Comment "comment" Shows::Whole(MarkKind::Comment), Other;
    CompoundStatement "compound_statement" Shows::Compound, Compound;
    Concatenation "concatenation" Shows::Nothing, Literal;
    DeclarationCommand "declaration_command" Shows::Pieces, Other;
    DoGroup "do_group" Shows::Nothing, Other;
    ElifClause "elif_clause" Shows::Nothing, Other;
    ElseClause "else_clause" Shows::Nothing, Other;
    Expansion "expansion" Shows::Nothing, Literal;
    ExtglobPattern "extglob_pattern" Shows::Nothing, Literal;
    FileDescriptor "file_descriptor" Shows::Nothing, Other;
    FileRedirect "file_redirect" Shows::Redirect, Redirect;
    ForStatement "for_statement" Shows::Whole(MarkKind::Compound), Other;
    FunctionDefinition "function_definition" Shows::Function, Other;
    HeredocBody "heredoc_body" Shows::HereBody, Other;
    HeredocContent "heredoc_content" Shows::Nothing, Other;
    HeredocEnd "heredoc_end" Shows::Nothing, Other;
    HeredocRedirect "heredoc_redirect" Shows::Nothing, HereDocument;
    HeredocStart "heredoc_start" Shows::Nothing, Delimiter;
    HerestringRedirect "herestring_redirect" Shows::Redirect, Redirect;
    IfStatement "if_statement" Shows::Whole(MarkKind::Compound), Compound;
    List "list" Shows::Nothing, Other;
    NegatedCommand "negated_command" Shows::Nothing, Other;
    Number "number" Shows::Nothing, Literal;
    ParenthesizedExpression "parenthesized_expression" Shows::Nothing, Expression;
    Pipeline "pipeline" Shows::Nothing, Other;
    PostfixExpression "postfix_expression" Shows::Nothing, Expression;
    ProcessSubstitution "process_substitution" Shows::Whole(MarkKind::ProcessSubstitution), Literal;
    Program "program" Shows::Nothing, Other;
    RawString "raw_string" Shows::Nothing, Literal;
    RedirectedStatement "redirected_statement" Shows::Pieces, Redirected;
    Regex "regex" Shows::Nothing, Literal;
    SimpleExpansion "simple_expansion" Shows::Nothing, Literal;
    SpecialVariableName "special_variable_name" Shows::Nothing, Literal;
    String "string" Shows::Nothing, Literal;
    StringContent "string_content" Shows::Nothing, Other;
    Subscript "subscript" Shows::Nothing, Other;
    Subshell "subshell" Shows::Whole(MarkKind::Compound), Compound;
    TernaryExpression "ternary_expression" Shows::Nothing, Expression;
    TestCommand "test_command" Shows::Test, Test;
    TestOperator "test_operator" Shows::Nothing, Literal;
    TranslatedString "translated_string" Shows::Nothing, Literal;
    UnaryExpression "unary_expression" Shows::Nothing, Expression;
    UnsetCommand "unset_command" Shows::Pieces, Other;
    VariableAssignment "variable_assignment" Shows::Assignment, Assignment;
    VariableAssignments "variable_assignments" Shows::Nothing, Other;
    VariableName "variable_name" Shows::Nothing, Literal;
    WhileStatement "while_statement" Shows::Whole(MarkKind::Compound), Other;
    Word "word" Shows::Nothing, Literal;
}
