//! `comment {...}`: notes in scripts, over as many lines as it takes until the braces are closed.

use crate::CommandError;

/// Follows the comments of a text from line to line.
///
/// ```
/// let mut comments = command::Comments::default();
/// let lines = ["comment { the uplinks", "left and {right} }", "show version"];
/// let covered: Vec<_> = lines.iter().map(|line| comments.covers(line)).collect();
/// assert_eq!(covered, [Ok(true), Ok(true), Ok(false)]);
/// ```
#[derive(Debug, Default)]
pub struct Comments {
    /// Braces that are open.
    depth: usize,
}

impl Comments {
    /// Whether the next line is part of a comment.
    ///
    /// # Errors
    /// Something stands behind the end of a comment.
    pub fn covers(&mut self, line: &str) -> Result<bool, CommandError> {
        let mut text = line;
        if self.depth == 0 {
            match line.trim_start().strip_prefix("comment").map(str::trim_start) {
                Some(braces) if braces.starts_with('{') => text = braces,
                _ => return Ok(false),
            }
        }
        for (at, c) in text.char_indices() {
            match c {
                '{' => self.depth += 1,
                '}' => self.depth -= 1,
                _ => {}
            }
            let rest = text.get(at + c.len_utf8()..).unwrap_or_default();
            if self.depth == 0 {
                return match rest.trim() {
                    "" => Ok(true),
                    _ => Err(CommandError::syntax(
                        line.len() - rest.len()..line.len(),
                        "a command does not stand in the line in which a comment ends",
                    )),
                };
            }
        }
        Ok(true)
    }

    /// Whether the last line was inside a comment that goes on.
    pub fn is_open(&self) -> bool {
        self.depth > 0
    }
}

/// Whether a line by itself is a whole comment.
pub(crate) fn is_comment(line: &str) -> Result<bool, CommandError> {
    let mut comments = Comments::default();
    let covered = comments.covers(line)?;
    match comments.is_open() {
        true => {
            Err(CommandError::syntax(line.len()..line.len(), "this comment is not closed: '}' is missing"))
        }
        false => Ok(covered),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_comment_or_not() {
        for (line, is) in [
            ("comment { don't \"quote\" }", Some(true)),
            ("  comment{}", Some(true)),
            ("comment {a {b} c}  ", Some(true)),
            ("comment hello", Some(false)),
            ("comments {x}", Some(false)),
            ("show version", Some(false)),
            ("comment {", None),
            ("comment {x} show version", None),
        ] {
            assert_eq!(is_comment(line).ok(), is, "{line}");
        }
    }
}
