//! The definition of a command.

use crate::{Access, Args, CommandError, Output};

/// What a command does.
pub type Run<C> = Box<dyn Fn(&mut C, &Args) -> Result<Output, CommandError>>;

/// Whether an argument of a line is a secret.
pub(crate) type IsSecret = fn(&str) -> bool;

/// One command over a context `C`: its syntax, what it does, and what the help says about it.
pub struct Command<C> {
    pub(crate) syntax: String,
    /// Other ways to say it, which help does not list beside other words.
    pub(crate) aliases: Vec<String>,
    pub(crate) help: String,
    pub(crate) details: String,
    pub(crate) examples: Vec<String>,
    pub(crate) arg_help: Vec<(String, String)>,
    /// Arguments that are secrets, or are one in some lines.
    pub(crate) secrets: Vec<(String, IsSecret)>,
    pub(crate) access: Access,
    pub(crate) run: Run<C>,
}

impl<C: 'static> Command<C> {
    /// A command that only looks. `help` is one line without a final stop.
    pub fn read(
        syntax: &str,
        help: &str,
        run: impl Fn(&mut C, &Args) -> Result<Output, CommandError> + 'static,
    ) -> Self {
        Self::new(Access::Read, syntax, help, run)
    }

    /// A command that changes something. `help` is one line without a final stop.
    pub fn write(
        syntax: &str,
        help: &str,
        run: impl Fn(&mut C, &Args) -> Result<Output, CommandError> + 'static,
    ) -> Self {
        Self::new(Access::Write, syntax, help, run)
    }

    fn new(
        access: Access,
        syntax: &str,
        help: &str,
        run: impl Fn(&mut C, &Args) -> Result<Output, CommandError> + 'static,
    ) -> Self {
        Self {
            syntax: syntax.to_owned(),
            aliases: Vec::new(),
            help: help.to_owned(),
            details: String::new(),
            examples: Vec::new(),
            arg_help: Vec::new(),
            secrets: Vec::new(),
            access,
            run: Box::new(run),
        }
    }

    /// For those as well who may not change what is configured.
    #[must_use]
    pub fn for_operators(mut self) -> Self {
        self.access = Access::Operate;
        self
    }

    /// Whether its syntax begins with these words.
    pub fn begins_with(&self, words: &str) -> bool {
        self.syntax.strip_prefix(words).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    }

    /// Paragraphs for the reference page.
    #[must_use]
    pub fn details(mut self, text: &str) -> Self {
        self.details = text.to_owned();
        self
    }

    /// A line that shows the command in use; [`crate::Registry::check_examples`] proves that it parses.
    #[must_use]
    pub fn example(mut self, line: &str) -> Self {
        self.examples.push(line.to_owned());
        self
    }

    /// Another syntax of the same command, for who comes from another program: it runs like the first one, and help
    /// lists its words only where no other may stand.
    #[must_use]
    pub fn alias(mut self, syntax: &str) -> Self {
        self.aliases.push(syntax.to_owned());
        self
    }

    /// One line of help on the argument or keyword `name`.
    #[must_use]
    pub fn arg(mut self, name: &str, help: &str) -> Self {
        self.arg_help.push((name.to_owned(), help.to_owned()));
        self
    }

    /// The argument `name`, a single word, is a secret: others do not see it, see [`crate::Registry::shown`].
    #[must_use]
    pub fn secret(self, name: &str) -> Self {
        self.secret_where(name, |_| true)
    }

    /// The argument `name`, a single word, may hold a secret where the line is so.
    #[must_use]
    pub fn secret_where(mut self, name: &str, line: fn(&str) -> bool) -> Self {
        self.secrets.push((name.to_owned(), line));
        self
    }

    /// The same command over a context that contains this one's.
    pub fn lift<D: 'static>(self, inner: impl Fn(&mut D) -> &mut C + 'static) -> Command<D> {
        let run = self.run;
        Command {
            syntax: self.syntax,
            aliases: self.aliases,
            help: self.help,
            details: self.details,
            examples: self.examples,
            arg_help: self.arg_help,
            secrets: self.secrets,
            access: self.access,
            run: Box::new(move |context, args| run(inner(context), args)),
        }
    }

    /// The same command over a context that lends this one's for a call: `call` gets what the command does.
    pub fn lend<D: 'static>(
        self,
        call: impl Fn(&mut D, &Run<C>, &Args) -> Result<Output, CommandError> + 'static,
    ) -> Command<D> {
        let run = self.run;
        Command {
            syntax: self.syntax,
            aliases: self.aliases,
            help: self.help,
            details: self.details,
            examples: self.examples,
            arg_help: self.arg_help,
            secrets: self.secrets,
            access: self.access,
            run: Box::new(move |context, args| call(context, &run, args)),
        }
    }

    /// The syntax string.
    pub fn syntax(&self) -> &str {
        &self.syntax
    }

    /// The other syntax strings of the command.
    pub fn aliases(&self) -> &[String] {
        &self.aliases
    }

    /// One line about it.
    pub fn help(&self) -> &str {
        &self.help
    }

    /// Paragraphs about it.
    pub fn more(&self) -> &str {
        &self.details
    }

    /// Lines that are such commands.
    pub fn examples(&self) -> &[String] {
        &self.examples
    }

    /// What the operator must be allowed to do.
    pub fn access(&self) -> Access {
        self.access
    }
}

impl<C> Command<C> {
    pub(crate) fn help_of(&self, name: &str) -> Option<&str> {
        self.arg_help.iter().find(|(known, _)| known == name).map(|(_, help)| help.as_str())
    }
}
