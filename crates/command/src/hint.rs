//! What to say about a line that is no command, but like one, or one of another program.

use crate::lexer::Token;
use crate::{CommandError, Registry};

/// The most commands that an error proposes.
const MOST: usize = 3;

impl<C> Registry<C> {
    /// The error about the word `at` of `tokens`, with a hint where there is one to give.
    pub(crate) fn hinted(&self, mut error: CommandError, tokens: &[Token], at: usize) -> CommandError {
        if !error.unknown {
            return error;
        }
        let typed: Vec<&str> = tokens.iter().map(|token| token.text.as_str()).collect();
        if let Some(hint) = self.foreign_words(&typed, at) {
            error.message = hint.to_owned();
        } else if !error.message.contains("did you mean") {
            let like = self.like(&typed, at);
            if !like.is_empty() {
                let (known, rest) = error.message.split_once("; ").unwrap_or((&error.message, ""));
                let mut rest = rest.to_owned();
                if let Some(first) = rest.get_mut(..1) {
                    first.make_ascii_uppercase();
                }
                error.message =
                    format!("{known}; did you mean '{}'? {rest}", like.join("' or '")).trim_end().to_owned();
            }
        }
        error
    }

    /// What is to be said of a command of another program, the one of those that fit whose words were typed in full.
    fn foreign_words(&self, typed: &[&str], at: usize) -> Option<&str> {
        let fits = |words: &str| {
            let count = words.split(' ').count();
            let all = words.split(' ').zip(typed).all(|(word, typed)| stands_for(typed, word));
            count.min(typed.len()) > at && all
        };
        let found = self.foreign.iter().filter(|(words, _)| fits(words));
        let exact =
            |words: &str| words.split(' ').zip(typed).filter(|(word, typed)| *word == **typed).count();
        found.max_by_key(|(words, _)| (exact(words), words.len())).map(|(_, hint)| hint.as_str())
    }

    /// The commands in which the words typed stand in this order with others between them; best first.
    fn like(&self, typed: &[&str], at: usize) -> Vec<String> {
        let mut found: Vec<(usize, usize, String)> = Vec::new();
        for syntax in self.commands.iter().flat_map(|c| std::iter::once(&c.syntax).chain(&c.aliases)) {
            let words: Vec<&str> =
                syntax.split(' ').take_while(|word| !word.contains(['<', '[', '(', ':'])).collect();
            let mut rest = words.iter();
            let matched = typed.iter().take_while(|typed| rest.any(|word| stands_for(typed, word))).count();
            let words = words.join(" ");
            if matched > at && !found.iter().any(|(_, _, other)| *other == words) {
                found.push((matched, words.len(), words));
            }
        }
        let best = found.iter().map(|(matched, ..)| *matched).max().unwrap_or(0);
        found.retain(|(matched, ..)| *matched == best);
        found.sort_by_key(|(_, length, _)| *length);
        // Where one word says too little to choose by, nothing is proposed.
        if found.len() > MOST && best < 2 {
            found.clear();
        }
        found.truncate(MOST);
        found.into_iter().map(|(_, _, words)| words).collect()
    }
}

/// Whether `typed` is `word` or a telling beginning of it.
fn stands_for(typed: &str, word: &str) -> bool {
    typed == word || typed.len() >= 2 && word.starts_with(typed)
}
