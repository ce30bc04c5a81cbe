//! Completion: what the Tab key offers.

use crate::filter;
use crate::lexer::{MAX_LINE, lex, quote};
use crate::matcher::{Matcher, Next};
use crate::{ArgType, Completer, Parsed, Registry};

/// One proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The word, quoted if need be.
    pub text: String,
    /// One line about it.
    pub help: String,
}

/// The answer to Tab.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completion {
    /// The byte of the line where the word to be replaced begins; it ends at the cursor.
    pub start: usize,
    /// What could stand there.
    pub candidates: Vec<Candidate>,
    /// Whether the name of a file could stand there; the client looks for those with its own rights.
    pub path: bool,
}

impl<C> Registry<C> {
    /// What could stand at byte `cursor` of `line` in the place of the word that ends there.
    pub fn complete(&self, line: &str, cursor: usize, completer: &dyn Completer) -> Completion {
        let mut cursor = cursor.min(line.len());
        while !line.is_char_boundary(cursor) {
            cursor -= 1;
        }
        let line = line.get(..cursor).unwrap_or_default();
        let none = Completion { start: cursor, ..Completion::default() };
        if line.len() > MAX_LINE {
            return none;
        }
        if let Some(bar) = filter::last_bar(line) {
            let prefix = line.get(bar..).unwrap_or_default().trim_start();
            // Behind what is no command nothing can be right.
            let before = line.get(..bar - 1).unwrap_or_default();
            let parsed = filter::split_filters(before).and_then(|(command, _)| self.check(command));
            if !matches!(parsed, Ok(Parsed::Command(..))) {
                return none;
            }
            let words = filter::WORDS.iter().filter(|(word, _)| word.starts_with(prefix));
            let candidate = |(word, help): &(&str, &str)| Candidate {
                text: (*word).to_owned(),
                help: (*help).to_owned(),
            };
            return Completion {
                start: cursor - prefix.len(),
                candidates: words.map(candidate).collect(),
                path: false,
            };
        }
        let mut lexed = lex(line);
        if lexed.comment || lexed.is_too_long_to_ask() {
            return none;
        }
        let partial = match lexed.tokens.last() {
            Some(token) if token.span.end == cursor => lexed.tokens.pop(),
            _ => None,
        };
        let (start, prefix, quoted) = match &partial {
            Some(token) => (token.span.start, token.text.as_str(), token.quoted),
            None => (cursor, "", false),
        };
        let mut tokens = lexed.tokens.as_slice();
        if self.asks_help(tokens) {
            tokens = tokens.get(1..).unwrap_or_default();
        }
        let mut matcher = Matcher::new(&self.program, completer, true);
        if tokens.iter().any(|token| matcher.step(line, token).is_err()) {
            return none;
        }
        let mut completion = Completion { start, ..none };
        let path = matcher.path();
        for next in matcher.next() {
            match next {
                Next::Word { word, command } if !quoted && word.starts_with(prefix) => {
                    let help = self.word_help(&path, word, command);
                    completion.candidates.push(Candidate { text: word.to_owned(), help });
                }
                Next::Arg { kind: ArgType::Path, .. } => completion.path = true,
                Next::Arg { name, kind, command } => {
                    let help = self.arg_help(name, kind, command);
                    let names = kind.kind().map_or_else(Vec::new, |kind| completer.values(kind, prefix));
                    let names = names.into_iter().filter(|name| name.starts_with(prefix));
                    let propose = |name: String| Candidate { text: quote(&name), help: help.clone() };
                    completion.candidates.extend(names.map(propose));
                }
                _ => {}
            }
        }
        let mut seen = std::collections::HashSet::new();
        completion.candidates.retain(|candidate| seen.insert(candidate.text.clone()));
        completion
    }
}
