//! Compiles syntax trees into instructions for the matcher.

use std::collections::HashSet;

use crate::ArgType;
use crate::syntax::Node;

/// Index of an instruction.
pub(crate) type Pc = usize;

/// One instruction. Those that consume a word go on at the next one.
#[derive(Debug, Clone)]
pub(crate) enum Instr {
    Word(String),
    Arg {
        name: String,
        kind: ArgType,
    },
    /// Consumes any further word of an argument that takes the rest of the line.
    RestTail,
    Jump(Pc),
    /// Tries all targets, the first ones preferred.
    Split(Vec<Pc>),
    /// Forgets which members of the set were used.
    Clear(usize),
    /// Goes on only if the member of the set was not used, and marks it used.
    Use {
        set: usize,
        member: u32,
    },
    Open(String),
    Close,
    /// The command of this number may end here.
    Accept(usize),
}

/// The instructions of all commands.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub code: Vec<Instr>,
    /// Where each syntax starts.
    pub starts: Vec<Pc>,
    /// The command of each syntax, and whether it is an alias.
    owners: Vec<(usize, bool)>,
    sets: usize,
    /// The beginnings of commands of another router: keywords in full, a space between two.
    pub elsewhere: HashSet<String>,
}

impl Program {
    /// Adds a syntax of the command `number`.
    pub fn add(&mut self, number: usize, node: &Node, alias: bool) -> Result<(), String> {
        self.starts.push(self.code.len());
        self.owners.push((number, alias));
        self.node(node)?;
        self.code.push(Instr::Accept(number));
        Ok(())
    }

    /// The number of the command an instruction belongs to.
    pub fn command_at(&self, pc: Pc) -> usize {
        self.owner(pc).0
    }

    /// Whether an instruction belongs to an alias of a command.
    pub fn is_alias(&self, pc: Pc) -> bool {
        self.owner(pc).1
    }

    fn owner(&self, pc: Pc) -> (usize, bool) {
        let syntax = self.starts.partition_point(|start| *start <= pc).saturating_sub(1);
        self.owners.get(syntax).copied().unwrap_or_default()
    }

    /// The argument to which the keyword `word` of a command leads.
    pub fn argument_behind(&self, command: usize, word: &str) -> Option<(&str, &ArgType)> {
        let first = self.owners.iter().position(|owner| owner.0 == command)?;
        let start = *self.starts.get(first)?;
        let code = self.code.get(start..)?.iter().enumerate();
        let own = code.take_while(|(_, instr)| !matches!(instr, Instr::Accept(_)));
        let (at, _) = own.into_iter().find(|(_, instr)| matches!(instr, Instr::Word(w) if w == word))?;
        let mut pc = start + at + 1;
        for _ in 0..8 {
            match self.code.get(pc)? {
                Instr::Jump(target) => pc = *target,
                Instr::Arg { name, kind } => return Some((name, kind)),
                _ => return None,
            }
        }
        None
    }

    fn push(&mut self, instr: Instr) -> Pc {
        self.code.push(instr);
        self.code.len() - 1
    }

    fn patch(&mut self, at: Pc, instr: Instr) {
        if let Some(slot) = self.code.get_mut(at) {
            *slot = instr;
        }
    }

    fn node(&mut self, node: &Node) -> Result<(), String> {
        match node {
            Node::Word(word) => {
                self.push(Instr::Word(word.clone()));
            }
            Node::Arg { name, kind } => {
                self.push(Instr::Arg { name: name.clone(), kind: kind.clone() });
                if *kind == ArgType::Rest {
                    self.push(Instr::RestTail);
                }
            }
            Node::Seq(parts) => parts.iter().try_for_each(|part| self.node(part))?,
            Node::Alt(parts) => {
                let split = self.push(Instr::Split(Vec::new()));
                let (mut targets, mut jumps) = (Vec::new(), Vec::new());
                for part in parts {
                    targets.push(self.code.len());
                    self.node(part)?;
                    jumps.push(self.push(Instr::Jump(0)));
                }
                let end = self.code.len();
                jumps.into_iter().for_each(|jump| self.patch(jump, Instr::Jump(end)));
                self.patch(split, Instr::Split(targets));
            }
            Node::Optional(part) => {
                let split = self.push(Instr::Split(Vec::new()));
                self.node(part)?;
                self.patch(split, Instr::Split(vec![split + 1, self.code.len()]));
            }
            Node::AnyOrder(parts) => {
                let set = self.sets;
                self.sets += 1;
                self.push(Instr::Clear(set));
                let split = self.push(Instr::Split(Vec::new()));
                let mut targets = Vec::new();
                for (member, part) in parts.iter().enumerate() {
                    let member = u32::try_from(member).ok().filter(|m| *m < u64::BITS);
                    let member = member.ok_or("too many optional parts in a row")?;
                    targets.push(self.push(Instr::Use { set, member }));
                    self.node(part)?;
                    self.push(Instr::Jump(split));
                }
                targets.push(self.code.len());
                self.patch(split, Instr::Split(targets));
            }
            Node::Repeat(part) => {
                let start = self.code.len();
                self.node(part)?;
                let split = self.code.len();
                self.push(Instr::Split(vec![start, split + 1]));
            }
            Node::Label(name, part) => {
                self.push(Instr::Open(name.clone()));
                self.node(part)?;
                self.push(Instr::Close);
            }
        }
        Ok(())
    }
}
