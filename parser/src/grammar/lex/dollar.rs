//! Expansions that `$` introduces: parameters, `${ }`, substitutions, arithmetic.

use crate::characters::{is_name_start, is_plain};
use crate::event::{Kind, flag};
use crate::grammar::lex::quote::decode_ansi;
use crate::grammar::{ArithmeticEnd, Frame, OperandMode, Parser, Step};
use crate::{Reason, Span};

fn is_plain_in_operand(byte: u8) -> bool {
    !matches!(byte, b'}' | b'"' | b'\\' | b'$' | b'`' | b'\'' | b'<' | b'>')
}

impl Parser<'_> {
    /// Reads what the `$` here introduces; the caller's frame is already back on the stack.
    pub(crate) fn dollar(&mut self, flags: u8) -> Step {
        let Some((next, after)) = self.look(self.pos + 1) else {
            self.leaf(Kind::Literal, self.pos + 1);
            return Ok(());
        };
        match next {
            b'(' => self.open_parenthesis(after, flags),
            b'{' => self.open_braced(after, flags),
            b'[' => {
                self.bash_only(self.pos, after);
                self.deepen()?;
                let node = self.open(Kind::Arithmetic, flags);
                self.leaf(Kind::Opener, after);
                let end = ArithmeticEnd::Bracket;
                self.stack.push(Frame::Arithmetic { node, end, depth: 0, brackets: 0 });
                Ok(())
            }
            b'\'' if flags == 0 => self.ansi_quotes(after - 1),
            b'"' if flags == 0 => {
                self.bash_only(self.pos, after);
                self.open_double(after - self.pos)
            }
            b'@' | b'*' | b'#' | b'?' | b'$' | b'!' | b'-' | b'0'..=b'9' => {
                if next == b'$' {
                    self.doubt_second_dollar(after);
                }
                self.leaf_with(Kind::Parameter, flags, after);
                Ok(())
            }
            _ if is_name_start(next) => {
                let end = self.name_end(self.pos + 1).unwrap_or(after);
                self.leaf_with(Kind::Parameter, flags, end);
                Ok(())
            }
            _ => {
                self.leaf(Kind::Literal, self.pos + 1);
                Ok(())
            }
        }
    }

    /// Reports a doubt about the text that follows `$$`, from `after` on: where bash 5.2 looks for the end of a quote
    /// or a brace, the second `$` begins a substitution there, and quotes in it do not count outside; when bash expands
    /// the text, the `$$` is the process number.
    fn doubt_second_dollar(&mut self, after: usize) {
        let around = self.stack.last();
        let opens: &[u8] = if matches!(around, Some(Frame::Word { .. })) {
            // In a word itself bash reads `$$` at once.
            b""
        } else if matches!(around, Some(Frame::Double { .. } | Frame::HereBody { .. })) {
            b"({["
        } else {
            b"({['\""
        };
        if let Some((_, end)) = self.look(after).filter(|(byte, _)| opens.contains(byte)) {
            let span = Span::new(self.pos, end);
            self.trouble(Reason::Syntax, span, "`$$` before what `$` opens, in quotes or braces");
        }
    }

    fn open_parenthesis(&mut self, after: usize, flags: u8) -> Step {
        let doubled = self.look(after).filter(|(byte, _)| *byte == b'(');
        let Some((_, after_second)) = doubled else { return self.open_substitution() };
        if after_second != after + 1 {
            // Bash takes this for a substitution with a subshell in it.
            let span = Span::new(self.pos, after_second);
            let detail = "a continuation between the parentheses of arithmetic";
            self.trouble(Reason::ArithOrSubshell, span, detail);
        }
        if self.known_not_arithmetic() {
            return self.open_substitution();
        }
        let speculation = self.speculate();
        self.deepen()?;
        let node = self.open(Kind::Arithmetic, flags);
        self.leaf(Kind::Opener, after_second);
        let end = ArithmeticEnd::Parentheses(Some(speculation));
        self.stack.push(Frame::Arithmetic { node, end, depth: 0, brackets: 0 });
        Ok(())
    }

    /// Starts `$(` here.
    pub(crate) fn open_substitution(&mut self) -> Step {
        self.deepen()?;
        let after = self.look(self.pos + 1).map_or(self.pos + 1, |(_, after)| after);
        let doubled = self.look(after).is_some_and(|(byte, _)| byte == b'(');
        let flags = if doubled { flag::DOUBLED } else { 0 };
        self.open_program(Kind::Substitution, flags, after, b')');
        Ok(())
    }

    /// Starts `<(` or `>(` here.
    pub(crate) fn open_process_substitution(&mut self) -> Step {
        self.deepen()?;
        let after = self.look(self.pos + 1).map_or(self.pos + 1, |(_, after)| after);
        self.bash_only(self.pos, after);
        self.open_program(Kind::ProcessSubstitution, 0, after, b')');
        Ok(())
    }

    /// Opens a node that holds a program up to `byte`, on its own level of here-documents.
    fn open_program(&mut self, kind: Kind, flags: u8, after: usize, byte: u8) {
        let node = self.open(kind, flags);
        self.leaf(Kind::Opener, after);
        self.stack.push(Frame::Closing { node, byte, pending: self.level });
        self.level = self.pending.len();
        self.push_list();
    }

    fn open_braced(&mut self, after: usize, flags: u8) -> Step {
        self.deepen()?;
        let start = self.pos;
        let mode = if flags == 0 { OperandMode::Plain } else { OperandMode::QuotedLiteral };
        if let Some((b' ' | b'\t' | b'\n' | b'|', next)) = self.look(after) {
            let span = Span::new(start, next);
            self.trouble(Reason::Version, span, "`${ list; }` runs commands from bash 5.3 on");
            let bar = self.look(after).is_some_and(|(byte, _)| byte == b'|');
            self.open_program(Kind::BraceSubstitution, flags, if bar { next } else { after }, b'}');
            return Ok(());
        }
        let node = self.open(Kind::Braced, flags);
        self.leaf(Kind::Opener, after);
        self.take_continuations();
        self.take_braced_prefix();
        self.take_continuations();
        self.take_braced_name();
        self.take_continuations();
        self.stack.push(Frame::BracedName { node, mode });
        if self.byte(self.pos) == Some(b'[') {
            return self.open_subscript();
        }
        Ok(())
    }

    /// `!` or `#` in front of a name.
    fn take_braced_prefix(&mut self) {
        let Some(byte @ (b'!' | b'#')) = self.byte(self.pos) else { return };
        let Some((next, _)) = self.look(self.pos + 1) else { return };
        let special = matches!(next, b'@' | b'*' | b'?' | b'$' | b'!' | b'-' | b'#');
        // `${#}`, `${#-x}`, `${!}`, `${!-x}`: the parameter itself. `${#-}` is a length.
        let second = self.look(self.pos + 1).and_then(|(_, after)| self.look(after));
        let closes = second.is_some_and(|(byte, _)| byte == b'}');
        let name = is_name_start(next) || next.is_ascii_digit();
        if name
            || (special && (closes || (byte == b'!' && matches!(next, b'@' | b'*' | b'#' | b'?'))))
        {
            self.leaf(Kind::ParameterOperator, self.pos + 1);
        }
    }

    fn take_braced_name(&mut self) {
        if let Some(end) = self.name_end(self.pos) {
            self.leaf(Kind::Name, end);
        } else if self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            let mut end = self.pos;
            while let Some((byte, next)) = self.look(end) {
                if !byte.is_ascii_digit() {
                    break;
                }
                end = next;
            }
            self.leaf(Kind::Name, end);
        } else if let Some(byte @ (b'@' | b'*' | b'#' | b'?' | b'$' | b'!' | b'-')) =
            self.byte(self.pos)
        {
            // `$` may introduce something here as well.
            let next = self.look(self.pos + 1).map(|(next, _)| next);
            if byte != b'$' || !matches!(next, Some(b'{' | b'(' | b'[' | b'\'' | b'"')) {
                self.leaf(Kind::Name, self.pos + 1);
            }
        }
    }

    /// Starts a subscript at the `[` here.
    pub(crate) fn open_subscript(&mut self) -> Step {
        self.deepen()?;
        let node = self.open(Kind::Subscript, 0);
        self.leaf(Kind::Opener, self.pos + 1);
        let end = ArithmeticEnd::Bracket;
        self.stack.push(Frame::Arithmetic { node, end, depth: 0, brackets: 0 });
        Ok(())
    }

    /// Behind the name and subscript of `${`: the operator, then the operand.
    pub(crate) fn step_braced_operator(&mut self, node: u32, mode: OperandMode) -> Step {
        self.take_continuations();
        let Some((byte, after)) = self.look(self.pos) else {
            return Err(self.unterminated(self.start_of(node), "`${` is not closed"));
        };
        let second = self.look(after);
        let pattern = if mode == OperandMode::Plain { mode } else { OperandMode::QuotedPattern };
        let (end, operand) = match byte {
            b'}' => (self.pos, mode),
            b':' => match second {
                Some((b'-' | b'=' | b'?' | b'+', end)) => (end, mode),
                Some(_) | None => {
                    self.leaf(Kind::ParameterOperator, after);
                    self.stack.push(Frame::Operand { node, mode });
                    let text = self.open(Kind::Arithmetic, flag::OFFSET);
                    let end = ArithmeticEnd::Brace;
                    self.stack.push(Frame::Arithmetic { node: text, end, depth: 0, brackets: 0 });
                    return Ok(());
                }
            },
            b'#' | b'%' | b'/' | b'^' | b',' => match second {
                Some((twice, end)) if twice == byte => (end, pattern),
                Some(_) | None => (after, pattern),
            },
            b'-' | b'=' | b'?' | b'+' | b'@' => (after, mode),
            _ => (self.pos, mode),
        };
        self.leaf(Kind::ParameterOperator, end);
        self.stack.push(Frame::Operand { node, mode: operand });
        Ok(())
    }

    /// The operand of `${ }`, up to the first `}` that is not quoted.
    pub(crate) fn step_operand(&mut self, node: u32, mode: OperandMode) -> Step {
        loop {
            let Some(byte) = self.byte(self.pos) else {
                return Err(self.unterminated(self.start_of(node), "`${` is not closed"));
            };
            match byte {
                b'}' => break,
                b'\\' if mode == OperandMode::Plain => self.escape(),
                // The quote behind a backslash opens nothing, although both stay in the value.
                b'\\' if self.byte(self.pos + 1) == Some(b'\'') && self.in_here_body == 0 => {
                    self.leaf(Kind::Literal, self.pos + 2);
                }
                b'\\' => self.escape_in_braces(),
                b'\'' if mode == OperandMode::QuotedLiteral => {
                    self.stack.push(Frame::Operand { node, mode });
                    return self.open_literal_quotes();
                }
                b'\'' => self.single_quotes()?,
                b'`' => self.backquotes(mode.flags())?,
                b'"' => {
                    self.stack.push(Frame::Operand { node, mode });
                    return self.open_double(1);
                }
                b'$' => {
                    self.stack.push(Frame::Operand { node, mode });
                    // Inside double quotes `$'` is live here, but for here-documents.
                    return self.dollar_in_operand(mode);
                }
                b'<' | b'>'
                    if mode == OperandMode::Plain
                        && self.look(self.pos + 1).is_some_and(|(next, _)| next == b'(') =>
                {
                    self.stack.push(Frame::Operand { node, mode });
                    return self.open_process_substitution();
                }
                _ if is_plain_in_operand(byte) => self.literal_run(is_plain_in_operand),
                _ => self.leaf(Kind::Literal, self.pos + 1),
            }
        }
        self.leaf(Kind::Closer, self.pos + 1);
        self.close(node);
        self.shallow();
        Ok(())
    }

    fn dollar_in_operand(&mut self, mode: OperandMode) -> Step {
        let quote = self.look(self.pos + 1).is_some_and(|(byte, _)| byte == b'\'');
        if quote && mode != OperandMode::Plain {
            if self.in_here_body > 0 {
                self.leaf(Kind::Literal, self.pos + 1);
                return Ok(());
            }
            return self.ansi_in_quotes();
        }
        self.dollar(mode.flags())
    }

    /// `$'..'` in an operand inside double quotes: bash decodes it first, and expands what comes out.
    fn ansi_in_quotes(&mut self) -> Step {
        let start = self.pos;
        self.dollar(0)?;
        let token = self.source.get(start..self.pos).unwrap_or_default();
        let quote = token.iter().position(|byte| *byte == b'\'').map_or(0, |at| at + 1);
        let mut value = Vec::new();
        let inner = token.get(quote..token.len().saturating_sub(1)).unwrap_or_default();
        decode_ansi(inner, &mut value);
        if value.iter().any(|byte| b"$`\"\\}'".contains(byte)) {
            let span = Span::new(start, self.pos);
            self.trouble(Reason::Syntax, span, "`$'..'` whose value is expanded again");
        }
        Ok(())
    }

    /// `'..'` where the lexer pairs the quotes but expansions between them still run.
    pub(crate) fn open_literal_quotes(&mut self) -> Step {
        if self.in_here_body > 0 {
            // Whether bash pairs quotes here depends on what is between.
            let span = Span::new(self.pos, self.pos + 1);
            self.trouble(Reason::Syntax, span, "a single quote inside `${ }` in a here-document");
            self.leaf(Kind::Literal, self.pos + 1);
            return Ok(());
        }
        // Dash pairs none in double quotes.
        self.bash_only(self.pos, self.pos + 1);
        let rest = self.source.get(self.pos + 1..self.end).unwrap_or_default();
        let Some(length) = rest.iter().position(|byte| *byte == b'\'') else {
            return Err(self.unterminated(self.pos, "a single quote is not closed"));
        };
        let end = self.pos + 1 + length;
        self.leaf(Kind::Literal, self.pos + 1);
        self.stack.push(Frame::LiteralQuotes { end, outer_end: self.end });
        self.end = end;
        Ok(())
    }

    /// The inside of such quotes: literal but for `$`, backquotes and backslashes.
    pub(crate) fn step_literal_quotes(&mut self, end: usize, outer_end: usize) -> Step {
        while let Some(byte) = self.byte(self.pos) {
            match byte {
                b'\\' => self.escape_in_braces(),
                b'`' => self.backquotes(flag::QUOTED)?,
                b'$' => {
                    self.stack.push(Frame::LiteralQuotes { end, outer_end });
                    return self.dollar(flag::QUOTED);
                }
                _ if is_plain(byte) => self.literal_run(is_plain),
                _ => self.leaf(Kind::Literal, self.pos + 1),
            }
        }
        self.end = outer_end;
        self.leaf(Kind::Literal, end + 1);
        Ok(())
    }
}
