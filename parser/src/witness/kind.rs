//! The kinds of nodes of the grammar, as far as lowering asks for them.

macro_rules! kinds {
    ($($variant:ident $name:literal,)*) => {
        /// What a node of the witness's tree is.
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
        }
    };
}

kinds! {
    AnsiCString "ansi_c_string",
    ArithmeticExpansion "arithmetic_expansion",
    Array "array",
    BinaryExpression "binary_expression",
    BraceExpression "brace_expression",
    CStyleForStatement "c_style_for_statement",
    CaseItem "case_item",
    CaseStatement "case_statement",
    Command "command",
    CommandName "command_name",
    CommandSubstitution "command_substitution",
    Comment "comment",
    CompoundStatement "compound_statement",
    Concatenation "concatenation",
    DeclarationCommand "declaration_command",
    DoGroup "do_group",
    ElifClause "elif_clause",
    ElseClause "else_clause",
    Expansion "expansion",
    ExtglobPattern "extglob_pattern",
    FileDescriptor "file_descriptor",
    FileRedirect "file_redirect",
    ForStatement "for_statement",
    FunctionDefinition "function_definition",
    HeredocBody "heredoc_body",
    HeredocContent "heredoc_content",
    HeredocEnd "heredoc_end",
    HeredocRedirect "heredoc_redirect",
    HeredocStart "heredoc_start",
    HerestringRedirect "herestring_redirect",
    IfStatement "if_statement",
    List "list",
    NegatedCommand "negated_command",
    Number "number",
    ParenthesizedExpression "parenthesized_expression",
    Pipeline "pipeline",
    PostfixExpression "postfix_expression",
    ProcessSubstitution "process_substitution",
    Program "program",
    RawString "raw_string",
    RedirectedStatement "redirected_statement",
    Regex "regex",
    SimpleExpansion "simple_expansion",
    SpecialVariableName "special_variable_name",
    String "string",
    StringContent "string_content",
    Subscript "subscript",
    Subshell "subshell",
    TernaryExpression "ternary_expression",
    TestCommand "test_command",
    TestOperator "test_operator",
    TranslatedString "translated_string",
    UnaryExpression "unary_expression",
    UnsetCommand "unset_command",
    VariableAssignment "variable_assignment",
    VariableAssignments "variable_assignments",
    VariableName "variable_name",
    WhileStatement "while_statement",
    Word "word",
}
