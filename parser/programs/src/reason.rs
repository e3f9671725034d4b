//! Why a part of a text is not understood: stable codes, one sentence on each, and what to write instead.

macro_rules! reasons {
    ($($name:ident $code:literal $help:literal $instead:literal,)*) => {
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

            /// Returns how to write it so that it is understood, where a doubt does not say it better.
            pub fn instead(self) -> &'static str {
                match self { $(Reason::$name => $instead,)* }
            }
        }
    };
}

reasons! {
    Syntax "syntax" "bash would not accept this, or it is a construct that is not read yet."
        "close the open quote or block, and check the text with `bash -n`; write a rare construct in a plainer way",
    Version "version" "versions of bash read this differently."
        "write it so that all versions of bash agree, such as `$(cmd)` for `${ cmd; }`",
    Dialect "dialect" "sh and bash read this differently."
        "name bash instead of sh, or write it without this",
    Zsh "zsh" "zsh runs this, and may read it differently from bash."
        "write plain words and single quotes, without expansions, or have bash run it: `bash -c 'text'`",
    ArithOrSubshell "arith-or-subshell" "this can be read as arithmetic or as a subshell."
        "put a blank between the parentheses of subshells: `( (cmd) )`",
    ArithName "arith-name" "a name in arithmetic is evaluated again, and its value is not known."
        "give the name a number first: `n=1; echo $((n + 1))`",
    Subscript "subscript" "a subscript is evaluated, and its text is not known."
        "write the subscript as a number",
    DynamicName "dynamic-name" "the program is chosen while the text runs."
        "write the name of the program as plain text",
    DynamicOption "dynamic-option" "a word that is not known before it runs could be an option that runs a program."
        "give the word a known beginning such as `./`, or put `--` before it where the program honours that",
    EvaluatorText "evaluator-text" "the text that a shell evaluates is not known before it runs."
        "pass values as arguments: `sh -c 'run \"$1\"' sh \"$value\"`",
    StdinProgram "stdin-program" "the program text comes from standard input."
        "give the text as an operand: `bash -c 'text'`",
    ScriptFile "script-file" "the program text is in a file."
        "write its commands out, or run the file with bash in a text that writes nothing before",
    StartupFiles "startup-files" "the shell reads start-up files."
        "leave `-l` and `-i` out: `bash -c 'text'`",
    Indirect "indirect" "the value of one variable names another."
        "write the variable by its own name",
    PromptExpansion "prompt-expansion" "the value is evaluated again as a prompt."
        "leave `@P` out and write the value as it is to be",
    Alias "alias" "an alias may change the words that follow."
        "write the command out in place of its alias",
    State "state" "this changes what the text after it means."
        "leave this out, or run what follows as a command of its own",
    UnknownOption "unknown-option" "an option is not known for this program."
        "write the option as in the manual, or remove it",
    UnknownWrapperForm "unknown-wrapper-form" "this form of the program is not known."
        "start the inner command by itself, or in a form that the manual shows",
    ControlByte "control-byte" "a control character is outside of quotes."
        "leave it out, or write it in an argument as `$'\\xNN'`",
    HiddenText "hidden-text" "invisible or reordering characters hide what this says."
        "leave the character out, or write it in an argument as `$'\\uNNNN'`",
    NotUtf8 "not-utf8" "the bytes are not UTF-8."
        "write the bytes as `$'\\xNN'`",
    Nul "nul" "the text contains a NUL byte."
        "remove the NUL byte; bash cannot represent it",
    Parameter "parameter" "the value of a parameter is known only while the text runs."
        "write the value itself",
    Substitution "substitution" "the output of a command is known only while the text runs."
        "run the command first, and write its output here",
    Arithmetic "arithmetic" "the result of arithmetic is known only while the text runs."
        "write the result itself",
    Tilde "tilde" "the home directory is known only while the text runs."
        "write the whole path",
    LimitInput "limit-input" "the text is longer than the limit."
        "put it into smaller texts",
    LimitDepth "limit-depth" "the text is nested deeper than the limit."
        "nest less: one command after the other",
    LimitBrace "limit-brace" "brace expansion makes more words than the limit."
        "write the words out, or use a loop",
    LimitNested "limit-nested" "nested texts are longer than the limit."
        "put it into smaller texts",
    LimitWork "limit-work" "reading the text takes more steps than the limit."
        "put it into smaller texts",
    WitnessDiffers "witness-differs" "the two parsers read this differently."
        "write it plainer: quote words, put each command on its own line",
    WitnessError "witness-error" "the second parser does not understand this."
        "write it plainer: quote words, use `$( )` for backquotes, put each command on its own line",
    WitnessGuard "witness-guard" "the second parser cannot be trusted with this text."
        "quote this part, or write it in plain ASCII",
    WitnessAbsent "witness-absent" "the second parser did not run."
        "try again; `stockade doctor` tells the cause",
    WitnessSlow "witness-slow" "the second parser did not answer in time."
        "try again with a shorter text",
    WitnessNonsense "witness-nonsense" "the second parser gave an answer that cannot be."
        "try again; if it stays so, it is a fault of stockade",
}
