//! `?`, `help` and the reference page.

use std::fmt::Write;

use crate::filter;
use crate::lexer::{MAX_LINE, Token, lex};
use crate::matcher::{Matcher, Next};
use crate::{Access, ArgType, Completer, Registry};

impl<C> Registry<C> {
    /// What may stand at the end of `line`: one indented line each with its help. The last word, if no space
    /// follows it, is a beginning; otherwise all words that may follow are listed. An error is answered as text.
    pub fn help(&self, line: &str, completer: &dyn Completer) -> String {
        if line.len() > MAX_LINE {
            return "the line is too long\n".to_owned();
        }
        if let Some(bar) = filter::last_bar(line) {
            let prefix = line.get(bar..).unwrap_or_default().trim_start();
            let words = filter::WORDS.iter().filter(|(word, _)| word.starts_with(prefix));
            let text: String = words.map(|(word, help)| format!("  {word:7}  {help}\n")).collect();
            return if text.is_empty() { "nothing may follow here\n".to_owned() } else { text };
        }
        let mut lexed = lex(line);
        if lexed.is_too_long_to_ask() {
            return "the line has too many words\n".to_owned();
        }
        let partial = match lexed.tokens.last() {
            Some(token) if token.span.end == line.len() => lexed.tokens.pop(),
            _ => None,
        };
        let prefix = partial.as_ref().map_or("", |token| token.text.as_str());
        let mut matcher = Matcher::new(&self.program, completer, true);
        for token in &lexed.tokens {
            if let Err(error) = matcher.step(line, token) {
                return format!("{}\n", error.render(line));
            }
        }
        let path = matcher.path();
        let mut entries: Vec<(String, String)> = Vec::new();
        let mut end = None;
        for next in matcher.next() {
            let (name, help) = match next {
                Next::Word { word, command } if word.starts_with(prefix) => {
                    (word.to_owned(), self.word_help(&path, word, command))
                }
                Next::Arg { name, kind, command } if fits(kind, prefix, completer) => {
                    (format!("<{name}>"), self.arg_help(name, kind, command))
                }
                Next::End { command } if prefix.is_empty() => {
                    end.get_or_insert_with(|| self.commands.get(command).map_or("", |c| c.help.as_str()));
                    continue;
                }
                _ => continue,
            };
            if !entries.iter().any(|(known, _)| *known == name) {
                entries.push((name, help));
            }
        }
        if path.is_empty() {
            entries.sort();
        }
        entries.extend(end.map(|help| ("<cr>".to_owned(), help.to_owned())));
        if entries.is_empty() {
            return "nothing may follow here\n".to_owned();
        }
        let width = entries.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for (name, help) in entries {
            let _ = writeln!(text, "{}", format!("  {name:width$}  {help}").trim_end());
        }
        text
    }

    /// Whether the line is `help ...`: only where no command of that name exists.
    pub(crate) fn asks_help(&self, tokens: &[Token]) -> bool {
        let built_in = !self.commands.iter().any(|c| c.syntax.split_whitespace().next() == Some("help"));
        built_in && tokens.first().is_some_and(|token| token.text == "help" && !token.quoted)
    }

    /// The help of a keyword after the keywords `path`.
    pub(crate) fn word_help(&self, path: &[String], word: &str, command: usize) -> String {
        let mut full = path.join(" ");
        if !full.is_empty() {
            full.push(' ');
        }
        full.push_str(word);
        if let Some((_, help)) = self.topics.iter().find(|(topic, _)| *topic == full) {
            return help.clone();
        }
        let Some(definition) = self.commands.get(command) else { return String::new() };
        if let Some(help) = definition.help_of(word) {
            return help.to_owned();
        }
        let starts =
            |syntax: &str| syntax == full || syntax.strip_prefix(&full).is_some_and(|s| s.starts_with(' '));
        let sharing: Vec<_> = self.commands.iter().filter(|c| starts(&c.syntax)).collect();
        match sharing.as_slice() {
            // What a keyword means that only introduces a value is said of the value.
            [] => match self.program.argument_behind(command, word) {
                Some((name, kind)) => self.arg_help(name, kind, command),
                None => String::new(),
            },
            [one] => one.help.clone(),
            many => {
                let mut next: Vec<&str> = Vec::new();
                for syntax in many.iter().filter_map(|c| c.syntax.get(full.len()..)) {
                    let word = syntax.split_whitespace().next().unwrap_or("<cr>");
                    let word = word.split([':', '>']).next().unwrap_or(word).trim_matches(['[', '(', '<']);
                    if !next.contains(&word) {
                        next.push(word);
                    }
                }
                let dots = if next.len() > 6 { ", ..." } else { "" };
                next.truncate(6);
                format!("{}{dots}", next.join(", "))
            }
        }
    }

    /// The help of an argument.
    pub(crate) fn arg_help(&self, name: &str, kind: &ArgType, command: usize) -> String {
        match self.commands.get(command).and_then(|c| c.help_of(name)) {
            Some(help) if matches!(kind, ArgType::Uint { .. }) => format!("{help} ({kind})"),
            Some(help) => help.to_owned(),
            None => kind.to_string(),
        }
    }

    /// The reference of all commands in Markdown, sorted by their words.
    pub fn markdown(&self) -> String {
        let mut order: Vec<_> = self.commands.iter().zip(&self.nodes).collect();
        order.sort_by_key(|(_, node)| node.to_string());
        let mut text = String::from("# Commands\n\n");
        text.push_str("Words may be shortened while they stay unambiguous. Neighbouring parts in brackets may come in any ");
        text.push_str("order. Every command takes `--json` at its end. `?` lists what may follow.\n");
        for (command, node) in order {
            let title = node.to_string();
            let plain: Vec<_> = title.split(' ').take_while(|w| !w.starts_with(['<', '[', '('])).collect();
            let _ = write!(text, "\n## {}\n\n```\n{title}\n```\n\n{}.", plain.join(" "), command.help);
            match command.access {
                Access::Read => text.push('\n'),
                Access::Write => text.push_str(" Needs the right to change.\n"),
                other => _ = writeln!(text, " Needs the role `{}`.", other.role()),
            }
            if !command.details.is_empty() {
                let _ = write!(text, "\n{}\n", command.details.trim());
            }
            let mut arguments = Vec::new();
            collect(node, &mut arguments);
            let keywords =
                command.arg_help.iter().filter(|(name, _)| !arguments.iter().any(|(n, _)| n == name));
            let mut rows: Vec<(String, String)> = Vec::new();
            for (name, kind) in &arguments {
                let row = (
                    format!("`<{name}>`"),
                    match command.help_of(name) {
                        Some(help) => format!("{kind}: {help}"),
                        None => kind.to_string(),
                    },
                );
                if !rows.contains(&row) {
                    rows.push(row);
                }
            }
            rows.extend(keywords.map(|(name, help)| (format!("`{name}`"), help.clone())));
            if !rows.is_empty() {
                text.push('\n');
            }
            for (name, help) in rows {
                let _ = writeln!(text, "- {name}: {help}");
            }
            if !command.aliases.is_empty() {
                let _ = writeln!(text, "\nThe same in other words:\n\n```");
                for alias in &command.aliases {
                    let _ = match crate::syntax::parse(alias) {
                        Ok(node) => writeln!(text, "{node}"),
                        Err(_) => writeln!(text, "{alias}"),
                    };
                }
                text.push_str("```\n");
            }
            if !command.examples.is_empty() {
                let _ = write!(text, "\nExamples:\n\n```\n{}\n```\n", command.examples.join("\n"));
            }
        }
        text
    }
}

/// Whether a word that begins with `prefix` could be of this type; types without a fixed look are always shown.
fn fits(kind: &ArgType, prefix: &str, completer: &dyn Completer) -> bool {
    match kind {
        _ if prefix.is_empty() => true,
        ArgType::Ref(of) => !completer.values(of, prefix).is_empty(),
        ArgType::Uint { .. } | ArgType::Float | ArgType::Duration => {
            prefix.starts_with(|c: char| c.is_ascii_digit())
        }
        ArgType::Ip(_) | ArgType::Prefix(_) | ArgType::Cidr(_) | ArgType::Mac | ArgType::Hex => {
            prefix.chars().all(|c| c.is_ascii_hexdigit() || ".:/x".contains(c))
        }
        ArgType::Number(of) => {
            prefix.starts_with(|c: char| c.is_ascii_digit()) || !completer.values(of, prefix).is_empty()
        }
        ArgType::Text(_) | ArgType::Path | ArgType::Rest => true,
    }
}

fn collect<'a>(node: &'a crate::syntax::Node, into: &mut Vec<(&'a str, &'a ArgType)>) {
    use crate::syntax::Node;
    match node {
        Node::Word(_) => {}
        Node::Arg { name, kind } => into.push((name, kind)),
        Node::Seq(parts) | Node::Alt(parts) | Node::AnyOrder(parts) => {
            parts.iter().for_each(|part| collect(part, into));
        }
        Node::Optional(part) | Node::Repeat(part) | Node::Label(_, part) => collect(part, into),
    }
}
