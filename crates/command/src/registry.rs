//! All commands together: parse, run.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::comment;
use crate::lexer::{MAX_LINE, Token, lex, lex_checked};
use crate::matcher::Matcher;
use crate::program::Program;
use crate::syntax::{self, Node};
use crate::{Access, Args, Caller, Command, CommandError, Completer, Output, SyntaxError};

/// What others see in the place of a secret. Nothing that is called so is one.
pub const HIDDEN: &str = "(hidden)";

/// The commands over a context `C`.
pub struct Registry<C> {
    pub(crate) commands: Vec<Command<C>>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) program: Program,
    pub(crate) topics: Vec<(String, String)>,
    /// Words of other programs, and what to say of them.
    pub(crate) foreign: Vec<(String, String)>,
    /// First words of commands that take secrets.
    secretive: Vec<String>,
}

/// A line that was understood.
#[derive(Debug, Clone, PartialEq)]
pub enum Parsed {
    /// Nothing but spaces and a comment.
    Blank,
    /// The operator asks what may follow these words.
    Help(String),
    /// The command with this index and its arguments.
    Command(usize, Args),
}

impl<C> Registry<C> {
    /// Checks and compiles the commands.
    ///
    /// # Errors
    /// A faulty syntax string, or two commands with the same words.
    pub fn new(commands: Vec<Command<C>>) -> Result<Self, SyntaxError> {
        let mut program = Program::default();
        let mut nodes: Vec<Node> = Vec::with_capacity(commands.len());
        for command in &commands {
            let fault = |message: String| SyntaxError { syntax: command.syntax.clone(), message };
            let node = syntax::parse(&command.syntax).map_err(fault)?;
            if nodes.iter().any(|other| other.to_string() == node.to_string()) {
                return Err(fault("defined twice".to_owned()));
            }
            program.add(nodes.len(), &node, false).map_err(fault)?;
            nodes.push(node);
        }
        let mut known: Vec<String> = nodes.iter().map(ToString::to_string).collect();
        for (number, command) in commands.iter().enumerate() {
            for alias in &command.aliases {
                let fault = |message: String| SyntaxError { syntax: alias.clone(), message };
                let node = syntax::parse(alias).map_err(fault)?;
                let shown = node.to_string();
                if known.contains(&shown) {
                    return Err(fault("defined twice".to_owned()));
                }
                program.add(number, &node, true).map_err(fault)?;
                known.push(shown);
            }
        }
        let takes_secrets = commands.iter().filter(|c| !c.secrets.is_empty());
        let first = |syntax: &String| syntax.split_whitespace().next().unwrap_or_default().to_owned();
        let secretive = takes_secrets.flat_map(|c| c.aliases.iter().chain([&c.syntax])).map(first).collect();
        Ok(Self { commands, nodes, program, topics: Vec::new(), foreign: Vec::new(), secretive })
    }

    /// Adds help on keywords that several commands share, such as `"show"` or `"set interface"`.
    #[must_use]
    pub fn topic(mut self, words: &str, help: &str) -> Self {
        self.topics.push((words.to_owned(), help.to_owned()));
        self
    }

    /// Adds what to say of words with which no command begins, but one of a program that operators may come from.
    #[must_use]
    pub fn foreign(mut self, words: &str, hint: &str) -> Self {
        self.foreign.push((words.to_owned(), hint.to_owned()));
        self
    }

    /// The commands, in the order given.
    pub fn commands(&self) -> &[Command<C>] {
        &self.commands
    }

    /// Reads a line.
    ///
    /// # Errors
    /// The first wrong word and what was expected in its place.
    pub fn parse(&self, line: &str, completer: &dyn Completer) -> Result<Parsed, CommandError> {
        self.parse_with(line, completer, false)
    }

    /// Reads a line but takes names of things that do not exist yet: checks a script before it runs.
    ///
    /// # Errors
    /// The first wrong word and what was expected in its place.
    pub fn check(&self, line: &str) -> Result<Parsed, CommandError> {
        self.parse_with(line, &(), true)
    }

    fn parse_with(
        &self,
        line: &str,
        completer: &dyn Completer,
        lenient: bool,
    ) -> Result<Parsed, CommandError> {
        if comment::is_comment(line)? {
            return Ok(Parsed::Blank);
        }
        let mut tokens = lex_checked(line)?;
        if tokens.is_empty() {
            return Ok(Parsed::Blank);
        }
        if let Some(last) = tokens.last()
            && !last.quoted
            && last.text.ends_with('?')
        {
            return Ok(Parsed::Help(line.get(..last.span.end - 1).unwrap_or_default().to_owned()));
        }
        if self.asks_help(&tokens) {
            let words: Vec<_> =
                tokens.iter().skip(1).map(|t| line.get(t.span.clone()).unwrap_or("")).collect();
            let after = if words.is_empty() { "" } else { " " };
            return Ok(Parsed::Help(words.join(" ") + after));
        }
        let json = tokens.last().is_some_and(is_json);
        if json {
            tokens.pop();
        }
        let Some(end) = tokens.last().map(|token| token.span.end) else {
            return Err(CommandError::syntax(0..0, "a command must stand before --json"));
        };
        let line = line.get(..end).unwrap_or_default();
        let mut matcher = Matcher::new(&self.program, completer, lenient);
        for (index, token) in tokens.iter().enumerate() {
            matcher.step(line, token).map_err(|error| self.hinted(error, &tokens, index))?;
        }
        let (command, mut args) = matcher.finish(end)?;
        set_json(&mut args, json);
        Ok(Parsed::Command(command, args))
    }

    /// Reads a line and runs its command on `context`, if `access` suffices. Nothing runs unless the whole line is
    /// understood. A blank line answers nothing.
    ///
    /// # Errors
    /// A wrong word, a missing right, or what the command itself answers.
    pub fn run(&self, context: &mut C, access: Access, line: &str) -> Result<Output, CommandError>
    where
        C: Completer,
    {
        self.run_as(context, access, line, false)
    }

    /// As [`Registry::run`]; `json` tells the command that JSON is wanted although the line does not say so.
    ///
    /// # Errors
    /// As [`Registry::run`].
    pub fn run_as(
        &self,
        context: &mut C,
        access: Access,
        line: &str,
        json: bool,
    ) -> Result<Output, CommandError>
    where
        C: Completer,
    {
        self.run_with(context, access, None, line, json)
    }

    /// As [`Registry::run_as`], for a caller whom the command gets to know.
    ///
    /// # Errors
    /// As [`Registry::run`].
    pub fn run_for(
        &self,
        context: &mut C,
        caller: &Arc<Caller>,
        line: &str,
        json: bool,
    ) -> Result<Output, CommandError>
    where
        C: Completer,
    {
        self.run_with(context, caller.access, Some(caller), line, json)
    }

    fn run_with(
        &self,
        context: &mut C,
        access: Access,
        caller: Option<&Arc<Caller>>,
        line: &str,
        json: bool,
    ) -> Result<Output, CommandError>
    where
        C: Completer,
    {
        let parsed = self.parse(line, context)?;
        self.run_parsed(context, access, caller, parsed, json)
    }

    /// Runs a line that was read on the same context, as [`Registry::run_for`].
    ///
    /// # Errors
    /// As [`Registry::run`].
    pub fn run_parsed(
        &self,
        context: &mut C,
        access: Access,
        caller: Option<&Arc<Caller>>,
        parsed: Parsed,
        json: bool,
    ) -> Result<Output, CommandError>
    where
        C: Completer,
    {
        match parsed {
            Parsed::Blank => Ok(Output::none()),
            Parsed::Help(words) => Ok(Output::text(self.help(&words, context))),
            Parsed::Command(index, mut args) => {
                let command = self.commands.get(index).ok_or("internal error: no such command")?;
                command.access.within(access)?;
                if json {
                    set_json(&mut args, true);
                }
                args.caller = caller.cloned();
                (command.run)(context, &args)
            }
        }
    }

    /// A line as others than who gave it may see it: without the secrets that it tells. Of one that cannot be read, and may tell
    /// some, the first word is left.
    pub fn shown<'l>(&self, line: &'l str) -> Cow<'l, str> {
        let tokens = lex(line).tokens;
        let said = tokens.first().map_or("", |token| token.text.as_str());
        if !self.secretive.iter().any(|word| word.starts_with(said)) {
            return line.into();
        }
        let first = line.split_whitespace().next().unwrap_or_default();
        let unreadable = || format!("{first} ...").into();
        match self.check(line) {
            Ok(Parsed::Command(index, args)) => {
                let Some(command) = self.commands.get(index) else { return unreadable() };
                // Quotes within a word may part what tells it.
                let words = tokens.iter().map(|token| token.text.as_str()).collect::<Vec<_>>().join(" ");
                let secret = command.secrets.iter().filter(|(_, is)| is(line) || is(&words));
                let names: Vec<&str> = secret.map(|(name, _)| name.as_str()).collect();
                let mut spans = vec![];
                args.spans(&names, &mut spans);
                spans.sort_by_key(|s: &Range<usize>| s.start);
                let mut out = line.to_owned();
                spans.into_iter().rev().for_each(|span| out.replace_range(span, HIDDEN));
                out.into()
            }
            Ok(Parsed::Blank) => line.into(),
            Ok(Parsed::Help(_)) | Err(_) => unreadable(),
        }
    }

    /// Reads the examples of all commands and answers those that do not parse as the command they stand with.
    pub fn check_examples(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (index, command) in self.commands.iter().enumerate() {
            for line in &command.examples {
                match self.check(line) {
                    Ok(Parsed::Command(found, _)) if found == index => {}
                    Ok(_) => {
                        faults.push(format!("{line}: read as another command than '{}'", command.syntax))
                    }
                    Err(error) => faults.push(error.render(line)),
                }
            }
        }
        faults
    }
}

/// Whether the line ends in `--json`.
pub fn asks_json(line: &str) -> bool {
    line.len() <= MAX_LINE && lex(line).tokens.last().is_some_and(is_json)
}

fn is_json(token: &Token) -> bool {
    token.text == "--json" && !token.quoted
}

fn set_json(args: &mut Args, json: bool) {
    args.json = json;
    args.groups.iter_mut().for_each(|(_, group)| set_json(group, json));
}
