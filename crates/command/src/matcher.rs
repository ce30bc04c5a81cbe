//! Matches the words of a line against all commands at once.
//!
//! Every way in which the words so far can be read is a thread; a word moves all threads at once, so time grows with
//! the length of the line and never with the number of ways to backtrack.

use std::collections::HashSet;
use std::ops::Range;

use crate::args::{Arg, Args};
use crate::lexer::Token;
use crate::near::{distance, near};
use crate::program::{Instr, Pc, Program};
use crate::types::Fit;
use crate::{ArgType, CommandError, Completer, Value};

/// More readings than any sensible grammar makes.
const MAX_THREADS: usize = 4096;
/// The names an error lists at most.
const MAX_LISTED: usize = 24;

/// What a thread met on its way; a tree in which every thread points to its last event.
#[derive(Debug, Clone)]
enum Event {
    Word(String),
    Value { name: String, value: Value, span: Range<usize> },
    Open(String),
    Close,
}

const NO_EVENT: usize = usize::MAX;

/// A reading: it waits at an instruction that consumes a word or accepts the end.
#[derive(Debug, Clone)]
struct Thread {
    pc: Pc,
    /// Which members of which any-order sets were used.
    used: Vec<(usize, u64)>,
    last: usize,
}

/// Where threads have been with one word, and what they had used.
type Seen = HashSet<(Pc, Vec<(usize, u64)>)>;

/// What may stand at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next<'a> {
    Word { word: &'a str, command: usize },
    Arg { name: &'a str, kind: &'a ArgType, command: usize },
    End { command: usize },
}

/// The state after some words.
pub(crate) struct Matcher<'a> {
    program: &'a Program,
    completer: &'a dyn Completer,
    lenient: bool,
    events: Vec<(Event, usize)>,
    threads: Vec<Thread>,
    /// Of the last word: kept for its memory.
    seen: Seen,
}

/// How a word fits, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Keyword,
    Checked,
    Abbreviation,
    Loose,
}

impl<'a> Matcher<'a> {
    /// Before the first word. `lenient` takes names of things that do not exist.
    pub fn new(program: &'a Program, completer: &'a dyn Completer, lenient: bool) -> Self {
        // A command starts with a keyword, so its first instruction waits for a word.
        let start = |pc: &Pc| Thread { pc: *pc, used: Vec::new(), last: NO_EVENT };
        let threads = program.starts.iter().map(start).collect();
        Self { program, completer, lenient, events: Vec::new(), threads, seen: Seen::new() }
    }

    /// Reads `line`'s next word.
    pub fn step(&mut self, line: &str, token: &Token) -> Result<(), CommandError> {
        let mut fits: Vec<(usize, Class, Event)> = Vec::new();
        let mut mismatches = Vec::new();
        let word = token.text.as_str();
        for (index, thread) in self.threads.iter().enumerate() {
            match self.program.code.get(thread.pc) {
                Some(Instr::Word(literal)) if !token.quoted => {
                    let class = match literal {
                        _ if literal == word => Class::Keyword,
                        _ if !word.is_empty()
                            && literal.starts_with(word)
                            && !self.elsewhere(thread, word) =>
                        {
                            Class::Abbreviation
                        }
                        _ => continue,
                    };
                    fits.push((index, class, Event::Word(literal.clone())));
                }
                Some(Instr::Arg { name, kind: ArgType::Rest }) => {
                    let value =
                        Value::Text(line.get(token.span.start..).unwrap_or_default().trim_end().to_owned());
                    let event = Event::Value { name: name.clone(), value, span: token.span.clone() };
                    fits.push((index, Class::Loose, event));
                }
                Some(Instr::Arg { name, kind }) => match kind.check(name, word, self.completer, self.lenient)
                {
                    Ok((value, fit)) => {
                        let class = if fit == Fit::Checked { Class::Checked } else { Class::Loose };
                        let event = Event::Value { name: name.clone(), value, span: token.span.clone() };
                        fits.push((index, class, event));
                    }
                    Err(mismatch) => mismatches.push(mismatch),
                },
                Some(Instr::RestTail) => fits.push((index, Class::Loose, Event::Close)),
                _ => {}
            }
        }
        // A word that is short for a command's own is never ambiguous because of an alias.
        let alias = |thread: usize| self.threads.get(thread).is_some_and(|t| self.program.is_alias(t.pc));
        if fits.iter().any(|(thread, class, _)| *class == Class::Abbreviation && !alias(*thread)) {
            fits.retain(|(thread, class, event)| {
                let Event::Word(word) = event else { return true };
                *class != Class::Abbreviation || !alias(*thread) || self.own_word(word)
            });
        }
        if let Some(choice) = ambiguous(&fits) {
            if !fits.iter().any(|fit| fit.1 != Class::Abbreviation) {
                let message = format!("'{word}' is ambiguous: {}", list(&choice));
                return Err(CommandError::syntax(token.span.clone(), message).expecting(choice));
            }
            fits.retain(|fit| fit.1 != Class::Abbreviation);
        }
        let Some(best) = fits.iter().map(|fit| fit.1).min() else {
            return Err(self.unexpected(token, mismatches));
        };
        if !self.lenient || best == Class::Keyword {
            fits.retain(|fit| fit.1 == best);
        }
        let old = std::mem::take(&mut self.threads);
        let mut seen = std::mem::take(&mut self.seen);
        seen.clear();
        for (index, _, event) in fits {
            let Some(thread) = old.get(index) else { continue };
            let in_rest = matches!(self.program.code.get(thread.pc), Some(Instr::RestTail));
            let (pc, last) = if in_rest {
                (thread.pc, thread.last)
            } else {
                (thread.pc + 1, self.event(event, thread.last))
            };
            self.follow(Thread { pc, used: thread.used.clone(), last }, &mut seen);
            if self.threads.len() > MAX_THREADS {
                return Err(CommandError::syntax(
                    token.span.clone(),
                    "the command can be read in too many ways",
                ));
            }
        }
        self.seen = seen;
        Ok(())
    }

    /// Whether `word` has a meaning of its own on another router's command line: then it abbreviates nothing.
    fn elsewhere(&self, thread: &Thread, word: &str) -> bool {
        if self.program.elsewhere.is_empty() {
            return false;
        }
        let mut line = self.words(thread).join(" ");
        if !line.is_empty() {
            line.push(' ');
        }
        self.program.elsewhere.contains(&(line + word))
    }

    fn event(&mut self, event: Event, last: usize) -> usize {
        self.events.push((event, last));
        self.events.len() - 1
    }

    /// Runs a thread up to the instructions that wait for a word or for the end.
    fn follow(&mut self, thread: Thread, seen: &mut Seen) {
        let program = self.program;
        let mut stack = vec![thread];
        while let Some(mut thread) = stack.pop() {
            let instr = program.code.get(thread.pc);
            // Where ways part or end; what stands between leads to one of these, and every circle through one that parts.
            let between = matches!(
                instr,
                Some(Instr::Jump(_) | Instr::Clear(_) | Instr::Use { .. } | Instr::Open(_) | Instr::Close)
            );
            if !between && !seen.insert((thread.pc, thread.used.clone())) {
                continue;
            }
            match instr {
                Some(Instr::Jump(target)) => stack.push(Thread { pc: *target, ..thread }),
                Some(Instr::Split(targets)) => {
                    stack.extend(targets.iter().rev().map(|pc| Thread { pc: *pc, ..thread.clone() }));
                }
                Some(Instr::Clear(set)) => {
                    thread.used.retain(|(other, _)| other != set);
                    stack.push(Thread { pc: thread.pc + 1, ..thread });
                }
                Some(Instr::Use { set, member }) => {
                    let bit = 1u64 << member;
                    match thread.used.iter_mut().find(|(other, _)| other == set) {
                        Some((_, bits)) if *bits & bit != 0 => continue,
                        Some((_, bits)) => *bits |= bit,
                        None => {
                            thread.used.push((*set, bit));
                            thread.used.sort_unstable();
                        }
                    }
                    stack.push(Thread { pc: thread.pc + 1, ..thread });
                }
                Some(Instr::Open(label)) => {
                    let last = self.event(Event::Open(label.clone()), thread.last);
                    stack.push(Thread { pc: thread.pc + 1, last, ..thread });
                }
                Some(Instr::Close) => {
                    let last = self.event(Event::Close, thread.last);
                    stack.push(Thread { pc: thread.pc + 1, last, ..thread });
                }
                Some(Instr::RestTail) => {
                    stack.push(Thread { pc: thread.pc + 1, ..thread.clone() });
                    self.threads.push(thread);
                }
                Some(Instr::Word(_) | Instr::Arg { .. } | Instr::Accept(_)) => self.threads.push(thread),
                None => {}
            }
        }
    }

    /// Whether `word` may stand next in a command that is no alias.
    fn own_word(&self, word: &str) -> bool {
        self.threads.iter().any(|thread| {
            let is = matches!(self.program.code.get(thread.pc), Some(Instr::Word(own)) if own == word);
            is && !self.program.is_alias(thread.pc)
        })
    }

    /// What may stand next, in the order of the definitions, without repetitions.
    pub fn next(&self) -> Vec<Next<'a>> {
        let own = self.threads.iter().any(|thread| !self.program.is_alias(thread.pc));
        let (mut all, mut others): (Vec<Next<'a>>, Vec<Next<'a>>) = (Vec::new(), Vec::new());
        let (mut seen, mut words) = (HashSet::new(), HashSet::new());
        for thread in &self.threads {
            if !seen.insert(thread.pc) || own && self.program.is_alias(thread.pc) {
                continue;
            }
            let command = self.program.command_at(thread.pc);
            let next = match self.program.code.get(thread.pc) {
                Some(Instr::Word(word)) => {
                    // There are many at the start of a line.
                    if words.insert((word, command)) {
                        all.push(Next::Word { word, command });
                    }
                    continue;
                }
                Some(Instr::Arg { name, kind }) => Next::Arg { name, kind, command },
                Some(Instr::Accept(command)) => Next::End { command: *command },
                _ => continue,
            };
            if !others.contains(&next) {
                others.push(next.clone());
                all.push(next);
            }
        }
        all
    }

    /// The keywords read so far, in full.
    pub fn path(&self) -> Vec<String> {
        self.threads.first().map_or_else(Vec::new, |thread| self.words(thread))
    }

    /// The keywords that a thread has read, in full.
    fn words(&self, thread: &Thread) -> Vec<String> {
        let words = self.history(thread).into_iter().filter_map(|event| match event {
            Event::Word(word) => Some(word.clone()),
            _ => None,
        });
        words.collect()
    }

    /// The command that ends here and its arguments; `end` is where the last word of the line ended.
    pub fn finish(&self, end: usize) -> Result<(usize, Args), CommandError> {
        for thread in &self.threads {
            if let Some(Instr::Accept(command)) = self.program.code.get(thread.pc) {
                return Ok((*command, self.args(thread)));
            }
        }
        let expected = self.expected();
        let message = match expected.as_slice() {
            [one] => format!("incomplete command; expected {one}"),
            many => format!("incomplete command; expected one of: {}", list(many)),
        };
        Err(CommandError::syntax(end + 1..end + 1, message).expecting(expected))
    }

    fn history(&self, thread: &Thread) -> Vec<&Event> {
        let mut events = Vec::new();
        let mut at = thread.last;
        while let Some((event, previous)) = self.events.get(at) {
            events.push(event);
            at = *previous;
        }
        events.reverse();
        events
    }

    fn args(&self, thread: &Thread) -> Args {
        let mut stack = vec![(String::new(), Args::default())];
        for event in self.history(thread) {
            match event {
                Event::Open(label) => stack.push((label.clone(), Args::default())),
                Event::Close => {
                    if let Some(group) = stack.pop()
                        && let Some((_, outer)) = stack.last_mut()
                    {
                        outer.groups.push(group);
                    }
                }
                Event::Word(word) => {
                    if let Some((_, args)) = stack.last_mut() {
                        args.words.push(word.clone());
                    }
                }
                Event::Value { name, value, span } => {
                    if let Some((_, args)) = stack.last_mut() {
                        args.values.push(Arg {
                            name: name.clone(),
                            value: value.clone(),
                            span: span.clone(),
                        });
                    }
                }
            }
        }
        stack.swap_remove(0).1
    }

    /// The words and arguments that may stand next, as operators read them.
    fn expected(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for next in self.next() {
            let name = match next {
                Next::Word { word, .. } => word.to_owned(),
                Next::Arg { name, .. } => format!("<{name}>"),
                Next::End { .. } => continue,
            };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The same with the names that exist: of each kind a few, those most like `word` when they are many.
    fn named(&self, word: &str) -> Vec<String> {
        const MOST: usize = 8;
        let mut names = self.expected();
        for next in self.next() {
            let Next::Arg { name, kind: ArgType::Ref(kind), .. } = next else { continue };
            let mut there = self.completer.values(kind, "");
            let more = if there.len() > MOST { ", ..." } else { "" };
            if there.len() > MOST {
                there.sort_by_cached_key(|name| distance(name, word));
            }
            there.truncate(MOST);
            let plain = format!("<{name}>");
            if let Some(at) = names.iter().position(|n| *n == plain).filter(|_| !there.is_empty()) {
                names[at] = format!("{plain} ({}{more})", there.join(", "));
            }
        }
        names
    }

    /// The answer to a word that fits nowhere.
    fn unexpected(&self, token: &Token, mut mismatches: Vec<crate::types::Mismatch>) -> CommandError {
        let expected = self.expected();
        let word = &token.text;
        let close = mismatches.iter().position(|mismatch| mismatch.close);
        let message = match (close, self.named(&token.text).as_slice()) {
            (Some(at), _) => mismatches.swap_remove(at).message(word, self.completer),
            (None, []) => format!("unexpected '{word}'; the command ends here"),
            (None, [one]) => {
                // One argument may stand there in several ways.
                let mut said: Vec<String> =
                    mismatches.into_iter().map(|m| m.message(word, self.completer)).collect();
                said.dedup();
                match (said.as_mut_slice(), near(word, self.keywords())) {
                    ([said], _) => std::mem::take(said),
                    (_, Some(like)) => format!("unknown word '{word}'; did you mean '{like}'?"),
                    (_, None) => format!("unknown word '{word}'; expected {one}"),
                }
            }
            (None, many) => match near(word, self.keywords()) {
                Some(like) => {
                    format!("unknown word '{word}'; did you mean '{like}'? Expected one of: {}", list(many))
                }
                None => format!("unknown word '{word}'; expected one of: {}", list(many)),
            },
        };
        let mut error = CommandError::syntax(token.span.clone(), message).expecting(expected);
        error.unknown = close.is_none();
        error
    }

    /// The keywords that may stand next, those of aliases too.
    fn keywords(&self) -> impl Iterator<Item = &'a str> {
        self.threads.iter().filter_map(|thread| match self.program.code.get(thread.pc) {
            Some(Instr::Word(word)) => Some(word.as_str()),
            _ => None,
        })
    }
}

/// The different keywords that a word abbreviates, if it is more than one and no keyword itself.
fn ambiguous(fits: &[(usize, Class, Event)]) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    for (_, class, event) in fits {
        match (class, event) {
            (Class::Keyword, _) => return None,
            (Class::Abbreviation, Event::Word(word)) if !words.contains(word) => words.push(word.clone()),
            _ => {}
        }
    }
    (words.len() > 1).then_some(words)
}

fn list(names: &[String]) -> String {
    let shown = names.iter().take(MAX_LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > MAX_LISTED { format!("{shown}, ...") } else { shown }
}
