//! Why a part of a text is not understood: stable codes and one sentence of help each.

macro_rules! reasons {
    ($($name:ident $code:literal $help:literal,)*) => {
        /// Why a span is opaque or a word is unknown. The code of each is stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $(#[doc = $help] $name,)*
        }

        impl Reason {
            /// All reasons, in the order of the table.
            pub const ALL: &'static [Reason] = &[$(Reason::$name,)*];

            /// Returns the stable code, lower case with hyphens.
            pub fn code(self) -> &'static str {
                match self { $(Reason::$name => $code,)* }
            }

            /// Returns one sentence that says what it means.
            pub fn help(self) -> &'static str {
                match self { $(Reason::$name => $help,)* }
            }
        }
    };
}

reasons! {
    Syntax "syntax" "bash would not accept this, or it is a construct that is not read yet.",
    Version "version" "versions of bash read this differently.",
    Dialect "dialect" "sh and bash read this differently.",
    ArithOrSubshell "arith-or-subshell" "this can be read as arithmetic or as a subshell.",
    ArithName "arith-name" "a name in arithmetic is evaluated again, and its value is not known.",
    Subscript "subscript" "a subscript is evaluated, and its text is not known.",
    DynamicName "dynamic-name" "the program is chosen while the text runs.",
    DynamicOption "dynamic-option" "a word that is known only later could be an option that runs a program.",
    EvaluatorText "evaluator-text" "the text that a shell evaluates is known only later.",
    StdinProgram "stdin-program" "the program text comes from standard input.",
    ScriptFile "script-file" "the program text is in a file.",
    StartupFiles "startup-files" "the shell reads start-up files.",
    Indirect "indirect" "the value of one variable names another.",
    PromptExpansion "prompt-expansion" "the value is evaluated again as a prompt.",
    Alias "alias" "an alias may change the words that follow.",
    State "state" "this changes what the text after it means.",
    UnknownOption "unknown-option" "an option is not known for this program.",
    UnknownWrapperForm "unknown-wrapper-form" "this form of the program is not known.",
    ControlByte "control-byte" "a control character stands outside quotes.",
    HiddenText "hidden-text" "invisible or reordering characters hide what this says.",
    NotUtf8 "not-utf8" "the bytes are not UTF-8.",
    Nul "nul" "the text holds a NUL byte.",
    Parameter "parameter" "the value of a parameter is known only while the text runs.",
    Substitution "substitution" "the output of a command is known only while the text runs.",
    Arithmetic "arithmetic" "the result of arithmetic is known only while the text runs.",
    Tilde "tilde" "the home directory is known only while the text runs.",
    LimitInput "limit-input" "the text is longer than the limit.",
    LimitDepth "limit-depth" "the text is nested deeper than the limit.",
    LimitBrace "limit-brace" "brace expansion makes more words than the limit.",
    LimitNested "limit-nested" "nested texts are longer than the limit.",
    LimitWork "limit-work" "reading the text takes more steps than the limit.",
    WitnessDiffers "witness-differs" "the two parsers read this differently.",
    WitnessError "witness-error" "the second parser does not understand this.",
    WitnessGuard "witness-guard" "the second parser cannot be trusted with this text.",
    WitnessAbsent "witness-absent" "the second parser did not run.",
    WitnessSlow "witness-slow" "the second parser did not answer in time.",
    WitnessNonsense "witness-nonsense" "the second parser gave an answer that cannot be.",
}
