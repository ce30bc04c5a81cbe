//! A line into words: quotes, escapes, comments.

use std::ops::Range;

use crate::CommandError;

/// The longest line the parser takes, in bytes.
pub const MAX_LINE: usize = 64 * 1024;
/// The most words that a line may have: the parser takes some microseconds for each, and others wait meanwhile.
const MAX_WORDS: usize = 2048;
/// The most in front of which help and completion look for what may follow, which takes longer.
const MAX_ASKED: usize = 1000;

/// A word of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    /// The word without its quotes and escapes.
    pub text: String,
    /// Where it stands in the line, quotes included, in bytes.
    pub span: Range<usize>,
    /// Whether any part of it was quoted: then it is no keyword.
    pub quoted: bool,
}

/// The words of a line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lexed {
    pub tokens: Vec<Token>,
    /// The place of a quote that is not closed; the last token then holds what follows it.
    pub open_quote: Option<usize>,
    /// There are more words: they are not split.
    pub too_many: bool,
    /// Whether the line ends inside a comment.
    pub comment: bool,
}

impl Lexed {
    /// There are too many words to find what may follow them.
    pub fn is_too_long_to_ask(&self) -> bool {
        self.tokens.len() > MAX_ASKED
    }
}

/// Splits `line` into words. A quote that is not closed is noted, not refused: completion needs it.
pub(crate) fn lex(line: &str) -> Lexed {
    let mut lexed = Lexed::default();
    let mut chars = line.char_indices().peekable();
    while let Some(&(start, first)) = chars.peek() {
        if first.is_whitespace() {
            chars.next();
            continue;
        }
        if first == '#' || first == '!' && lexed.tokens.is_empty() {
            lexed.comment = true;
            break;
        }
        if lexed.tokens.len() == MAX_WORDS {
            lexed.too_many = true;
            break;
        }
        let mut token = Token { text: String::new(), span: start..line.len(), quoted: false };
        let mut open: Option<(usize, char)> = None;
        while let Some(&(at, c)) = chars.peek() {
            match open {
                None if c.is_whitespace() => {
                    token.span.end = at;
                    break;
                }
                None if c == '"' || c == '\'' => {
                    token.quoted = true;
                    open = Some((at, c));
                }
                Some((_, quote)) if c == quote => open = None,
                Some((_, '"')) if c == '\\' => {
                    chars.next();
                    if let Some(&(_, escaped)) = chars.peek() {
                        token.text.push(escaped);
                    }
                }
                _ => token.text.push(c),
            }
            chars.next();
        }
        lexed.open_quote = open.map(|(at, _)| at);
        lexed.tokens.push(token);
    }
    lexed
}

/// Splits a whole line, refusing one that is too long, has too many words or an open quote.
pub(crate) fn lex_checked(line: &str) -> Result<Vec<Token>, CommandError> {
    if line.len() > MAX_LINE {
        return Err(CommandError::syntax(0..0, format!("the line is longer than {MAX_LINE} bytes")));
    }
    let lexed = lex(line);
    if lexed.too_many {
        return Err(CommandError::syntax(0..0, format!("the line has more than {MAX_WORDS} words")));
    }
    match lexed.open_quote {
        Some(at) => Err(CommandError::syntax(at..line.len(), "this quote is not closed")),
        None => Ok(lexed.tokens),
    }
}

/// Whether a quote is open at the end of `line`.
pub fn in_quotes(line: &str) -> bool {
    lex(line).open_quote.is_some()
}

/// Writes `word` so that it reads back as one word, with quotes only where they are needed.
pub fn quote(word: &str) -> String {
    let plain = !word.is_empty()
        && !word.starts_with(['#', '!', '|'])
        && !word.ends_with('?')
        && word != "--json"
        && !word.chars().any(|c| c.is_whitespace() || matches!(c, '"' | '\''));
    if plain {
        return word.to_owned();
    }
    let mut quoted = String::with_capacity(word.len() + 2);
    quoted.push('"');
    for c in word.chars() {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(line: &str) -> Vec<String> {
        lex(line).tokens.into_iter().map(|t| t.text).collect()
    }

    #[test]
    fn quotes_comments_and_escapes() {
        assert_eq!(words("  set  interface # all"), ["set", "interface"]);
        assert_eq!(words("a#b 'x y' \"p \\\"q\\\\\" n\"\"m"), ["a#b", "x y", "p \"q\\", "nm"]);
        assert_eq!(words("''"), [""]);
        let open = lex("say \"half");
        assert_eq!((open.open_quote, open.tokens[1].text.as_str()), (Some(4), "half"));
        assert!(lex("x # y").comment);
        assert!(lex(" ! a line of notes").comment && words("! x").is_empty());
        assert_eq!(words("say !"), ["say", "!"]);
    }

    #[test]
    fn long_lines_are_refused() {
        assert!(lex_checked(&"x".repeat(MAX_LINE)).is_ok());
        assert!(lex_checked(&"x".repeat(MAX_LINE + 1)).is_err());
        assert!(lex_checked(&"x ".repeat(MAX_WORDS)).is_ok());
        assert!(lex_checked(&"x ".repeat(MAX_WORDS + 1)).is_err());
        assert!(lex_checked(&("x ".repeat(MAX_WORDS) + "# of which this is none")).is_ok());
    }

    proptest! {
        #[test]
        fn a_quoted_word_reads_back(word in any::<String>(), other in "[a-z]{1,5}") {
            let line = format!("{other} {} {other}", quote(&word));
            prop_assert_eq!(words(&line), vec![other.clone(), word, other]);
        }

        #[test]
        fn spans_lie_on_character_boundaries(line in any::<String>()) {
            for token in lex(&line).tokens {
                prop_assert!(line.get(token.span).is_some_and(|raw| !raw.is_empty()));
            }
        }
    }
}
