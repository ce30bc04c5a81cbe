//! Filters of a command's text: what stands behind `|` at the end of a line.

use crate::CommandError;
use crate::lexer::{MAX_LINE, Token, lex};

/// The words of filters.
pub(crate) const WORDS: [(&str, &str); 4] = [
    ("include", "only lines in which the text stands"),
    ("exclude", "only lines in which the text does not stand"),
    ("begin", "from the first line in which the text stands"),
    ("count", "how many lines there are"),
];
/// The most filters of a line.
const MOST: usize = 8;
/// A line longer than this is looked at in pieces.
const LONGEST: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Filter {
    Include(String),
    Exclude(String),
    /// And whether it has begun.
    Begin(String, bool),
    Count(u64),
}

/// Filters in a row: each gets the lines that the one before it lets through.
///
/// ```
/// let (command, mut filters) = command::split_filters("show interface | exclude loop | count")?;
/// assert_eq!(command, "show interface");
/// assert_eq!(filters.pass("left\nloop0\nri") + &filters.pass("ght") + &filters.end(), "2\n");
/// # Ok::<(), command::CommandError>(())
/// ```
#[derive(Debug, Default)]
pub struct Filters {
    filters: Vec<Filter>,
    /// The beginning of a line whose end has not come yet.
    line: String,
}

impl Filters {
    /// Whether everything passes.
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// What of `text`, which goes on where the last one ended, passes.
    pub fn pass(&mut self, text: &str) -> String {
        if self.is_empty() {
            return text.to_owned();
        }
        let mut passed = String::new();
        for piece in text.split_inclusive('\n') {
            self.line.push_str(piece);
            if piece.ends_with('\n') || self.line.len() > LONGEST {
                self.take(&mut passed);
            }
        }
        passed
    }

    /// What passes of the last line if it had no end, and what a filter says at the end.
    pub fn end(&mut self) -> String {
        let mut passed = String::new();
        if !self.line.is_empty() {
            self.take(&mut passed);
        }
        if let Some(Filter::Count(lines)) = self.filters.last() {
            passed.push_str(&format!("{lines}\n"));
        }
        passed
    }

    fn take(&mut self, passed: &mut String) {
        let line = &self.line;
        let passes = self.filters.iter_mut().all(|filter| match filter {
            Filter::Include(text) => line.contains(text.as_str()),
            Filter::Exclude(text) => !line.contains(text.as_str()),
            Filter::Begin(text, begun) => {
                *begun |= line.contains(text.as_str());
                *begun
            }
            Filter::Count(lines) => {
                *lines += 1;
                false
            }
        });
        if passes {
            passed.push_str(line);
        }
        self.line.clear();
    }
}

/// Where the last filter of `line` begins: the byte behind its `|`.
pub(crate) fn last_bar(line: &str) -> Option<usize> {
    let bar = lex(line).tokens.into_iter().rfind(is_bar)?;
    Some(bar.span.start + 1)
}

fn is_bar(token: &Token) -> bool {
    !token.quoted && token.text.starts_with('|')
}

/// Splits `line` into its command and the filters behind it.
///
/// # Errors
/// What stands behind a `|` outside of quotes is no filter.
pub fn split_filters(line: &str) -> Result<(&str, Filters), CommandError> {
    let mut filters = Filters::default();
    // The usual line needs no look at its words; one that is too long, or has too many, is refused by who reads it.
    if line.len() > MAX_LINE || !line.contains('|') {
        return Ok((line, filters));
    }
    let lexed = lex(line);
    if lexed.too_many {
        return Ok((line, filters));
    }
    let tokens = lexed.tokens;
    let Some(first) = tokens.iter().position(is_bar).filter(|first| *first > 0) else {
        return Ok((line, filters));
    };
    let bars: Vec<usize> = (first..tokens.len()).filter(|at| tokens.get(*at).is_some_and(is_bar)).collect();
    for (number, bar) in bars.iter().enumerate() {
        let end = bars.get(number + 1).copied().unwrap_or(tokens.len());
        let part = tokens.get(*bar..end).unwrap_or_default();
        filters.filters.push(read(part, line)?);
        let ends = filters.filters.iter().position(|f| matches!(f, Filter::Count(_)));
        if ends.is_some_and(|at| at < number) || filters.filters.len() > MOST {
            let span = part.first().map_or(0..0, |bar| bar.span.clone());
            let why = match ends {
                Some(_) => "'count' is the last filter".to_owned(),
                None => format!("a line has at most {MOST} filters"),
            };
            return Err(CommandError::syntax(span, why));
        }
    }
    let command = tokens.get(first - 1).map_or(0, |token| token.span.end);
    Ok((line.get(..command).unwrap_or_default(), filters))
}

/// Reads one filter: a `|`, its word and its text.
fn read(tokens: &[Token], line: &str) -> Result<Filter, CommandError> {
    let names = || WORDS.map(|(word, _)| word);
    let end = tokens.last().map_or(line.len(), |token| token.span.end);
    let wrong = |span, message: String| {
        Err(CommandError::syntax(span, message).expecting(names().iter().map(ToString::to_string).collect()))
    };
    // `|count` is `| count`.
    let (word, span, text) = match tokens {
        [bar, rest @ ..] if bar.text.len() > 1 => {
            (bar.text.get(1..).unwrap_or_default(), bar.span.start + 1..bar.span.end, rest)
        }
        [_, word, rest @ ..] => (word.text.as_str(), word.span.clone(), rest),
        _ => return wrong(end..end, format!("'|' is followed by a filter: {}", names().join(", "))),
    };
    let Some(name) = names().into_iter().find(|name| name.starts_with(word)) else {
        return wrong(span, format!("unknown filter '{word}'; expected one of: {}", names().join(", ")));
    };
    let pattern = text.iter().map(|token| token.text.as_str()).collect::<Vec<_>>().join(" ");
    match (name, pattern.is_empty()) {
        ("count", true) => Ok(Filter::Count(0)),
        ("count", false) => {
            wrong(text.first().map_or(span, |t| t.span.clone()), "'count' takes no text".into())
        }
        (_, true) => wrong(end..end, format!("'{name}' needs the text to look for")),
        ("include", _) => Ok(Filter::Include(pattern)),
        ("exclude", _) => Ok(Filter::Exclude(pattern)),
        _ => Ok(Filter::Begin(pattern, false)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "one\ntwo words\nthree\ntwo more\n";

    fn filtered(line: &str, pieces: usize) -> String {
        let (command, mut filters) = split_filters(line).unwrap();
        assert_eq!(command, "show x");
        let mut passed = String::new();
        for piece in TEXT.as_bytes().chunks(pieces) {
            passed.push_str(&filters.pass(std::str::from_utf8(piece).unwrap()));
        }
        passed + &filters.end()
    }

    #[test]
    fn each_filter_lets_its_lines_through() {
        for (line, passed) in [
            ("show x", TEXT),
            ("show x | include two", "two words\ntwo more\n"),
            ("show x | inc two more", "two more\n"),
            ("show x |exclude 'two m'", "one\ntwo words\nthree\n"),
            ("show x | begin three", "three\ntwo more\n"),
            ("show x | begin nothing", ""),
            ("show x | count", "4\n"),
            ("show x | include t | exclude more | count", "2\n"),
        ] {
            for pieces in [1, 3, 1000] {
                assert_eq!(filtered(line, pieces), passed, "{line} in pieces of {pieces}");
            }
        }
    }

    #[test]
    fn wrong_filters_name_their_place() {
        for (line, message) in [
            (
                "show x | grep y",
                "show x | grep y\n         ^ unknown filter 'grep'; expected one of: include, exclude, begin, count",
            ),
            ("show x |", "show x |\n        ^ '|' is followed by a filter: include, exclude, begin, count"),
            ("show x | count 5", "show x | count 5\n               ^ 'count' takes no text"),
            ("show x | include", "show x | include\n                ^ 'include' needs the text to look for"),
            (
                "show x | count | include 5",
                "show x | count | include 5\n               ^ 'count' is the last filter",
            ),
        ] {
            assert_eq!(split_filters(line).unwrap_err().render(line), message);
        }
        for plain in ["say 'a | count'", "| count", "say a|b", "show x # | grep"] {
            let (command, filters) = split_filters(plain).unwrap();
            assert!(command == plain && filters.is_empty(), "{plain}");
        }
    }
}
