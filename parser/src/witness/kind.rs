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

macro_rules! kinds {
    ($($variant:ident $name:literal $shows:expr,)*) => {
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
            /// Returns the kind that the grammar calls `name`.
            pub fn of(name: &str, named: bool) -> NodeKind {
                if !named {
                    return NodeKind::Token;
                }
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
        }
    };
}

kinds! {
    AnsiCString "ansi_c_string" Shows::Nothing,
    ArithmeticExpansion "arithmetic_expansion" Shows::Whole(MarkKind::Arithmetic),
    Array "array" Shows::Nothing,
    BinaryExpression "binary_expression" Shows::Nothing,
    BraceExpression "brace_expression" Shows::Nothing,
    CStyleForStatement "c_style_for_statement" Shows::ArithmeticFor,
    CaseItem "case_item" Shows::Nothing,
    CaseStatement "case_statement" Shows::Whole(MarkKind::Compound),
    Command "command" Shows::Pieces,
    CommandName "command_name" Shows::Nothing,
    CommandSubstitution "command_substitution" Shows::Substitution,
    Comment "comment" Shows::Whole(MarkKind::Comment),
    CompoundStatement "compound_statement" Shows::Compound,
    Concatenation "concatenation" Shows::Nothing,
    DeclarationCommand "declaration_command" Shows::Pieces,
    DoGroup "do_group" Shows::Nothing,
    ElifClause "elif_clause" Shows::Nothing,
    ElseClause "else_clause" Shows::Nothing,
    Expansion "expansion" Shows::Nothing,
    ExtglobPattern "extglob_pattern" Shows::Nothing,
    FileDescriptor "file_descriptor" Shows::Nothing,
    FileRedirect "file_redirect" Shows::Redirect,
    ForStatement "for_statement" Shows::Whole(MarkKind::Compound),
    FunctionDefinition "function_definition" Shows::Function,
    HeredocBody "heredoc_body" Shows::HereBody,
    HeredocContent "heredoc_content" Shows::Nothing,
    HeredocEnd "heredoc_end" Shows::Nothing,
    HeredocRedirect "heredoc_redirect" Shows::Nothing,
    HeredocStart "heredoc_start" Shows::Nothing,
    HerestringRedirect "herestring_redirect" Shows::Redirect,
    IfStatement "if_statement" Shows::Whole(MarkKind::Compound),
    List "list" Shows::Nothing,
    NegatedCommand "negated_command" Shows::Nothing,
    Number "number" Shows::Nothing,
    ParenthesizedExpression "parenthesized_expression" Shows::Nothing,
    Pipeline "pipeline" Shows::Nothing,
    PostfixExpression "postfix_expression" Shows::Nothing,
    ProcessSubstitution "process_substitution" Shows::Whole(MarkKind::ProcessSubstitution),
    Program "program" Shows::Nothing,
    RawString "raw_string" Shows::Nothing,
    RedirectedStatement "redirected_statement" Shows::Pieces,
    Regex "regex" Shows::Nothing,
    SimpleExpansion "simple_expansion" Shows::Nothing,
    SpecialVariableName "special_variable_name" Shows::Nothing,
    String "string" Shows::Nothing,
    StringContent "string_content" Shows::Nothing,
    Subscript "subscript" Shows::Nothing,
    Subshell "subshell" Shows::Whole(MarkKind::Compound),
    TernaryExpression "ternary_expression" Shows::Nothing,
    TestCommand "test_command" Shows::Test,
    TestOperator "test_operator" Shows::Nothing,
    TranslatedString "translated_string" Shows::Nothing,
    UnaryExpression "unary_expression" Shows::Nothing,
    UnsetCommand "unset_command" Shows::Pieces,
    VariableAssignment "variable_assignment" Shows::Assignment,
    VariableAssignments "variable_assignments" Shows::Nothing,
    VariableName "variable_name" Shows::Nothing,
    WhileStatement "while_statement" Shows::Whole(MarkKind::Compound),
    Word "word" Shows::Nothing,
}
