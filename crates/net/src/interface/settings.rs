//! Settings of interfaces that features declare, each in its own folder. [`crate::nodes::SETTINGS`] lists them.
//!
//! An interface has a word for each, up to the last that is not as by default; a node asks for its column once, when the graph
//! is built, and a packet pays for one indexed load.

use std::fmt;
use std::marker::PhantomData;

/// What a setting may be.
pub trait Word: Copy {
    /// As 64 bits; 0 is what interfaces have that were told nothing else.
    fn to_word(self) -> u64;
    /// From these.
    fn from_word(word: u64) -> Self;
}

impl Word for bool {
    fn to_word(self) -> u64 {
        self.into()
    }

    fn from_word(word: u64) -> Self {
        word != 0
    }
}

impl Word for u16 {
    fn to_word(self) -> u64 {
        self.into()
    }

    fn from_word(word: u64) -> Self {
        word as u16
    }
}

/// What there is to say of a setting, whatever it may be.
#[derive(Debug)]
pub struct Declared {
    /// What an interface does that has it, behind the interface's name.
    pub does: &'static str,
    /// The command that takes it away; `{}` stands for the interface's name.
    pub undo: &'static str,
    /// Packets meet it from the first one on: a document sets it before interfaces come up.
    pub early: bool,
    /// Adjacencies hold what follows from it.
    pub in_adjacencies: bool,
    /// What becomes of packets to the broadcast addresses of its prefixes follows from it.
    pub in_broadcast_routes: bool,
    /// It is not of layer 3 alone: interfaces on layer 2 may have it.
    pub any_layer: bool,
    /// An operation of its feature's own sets it, and is told again.
    pub own_op: bool,
    /// Flag with which workers see an interface that has it, of [`ifflags`](super::ifflags).
    pub flag: u16,
}

/// A setting: a `static` in the folder of its feature.
pub struct Setting<T> {
    /// What there is to say of it.
    pub declared: Declared,
    of: PhantomData<fn() -> T>,
}

impl<T: Word> Setting<T> {
    /// A setting in these words (see [`Declared`]).
    pub const fn new(does: &'static str, undo: &'static str) -> Self {
        Setting {
            declared: Declared {
                does,
                undo,
                early: false,
                in_adjacencies: false,
                in_broadcast_routes: false,
                any_layer: false,
                own_op: false,
                flag: 0,
            },
            of: PhantomData,
        }
    }

    /// One that packets meet from the first one on.
    pub const fn early(mut self) -> Self {
        self.declared.early = true;
        self
    }

    /// One that adjacencies follow.
    pub const fn in_adjacencies(mut self) -> Self {
        self.declared.in_adjacencies = true;
        self
    }

    /// One that interfaces on layer 2 may have.
    pub const fn any_layer(mut self) -> Self {
        self.declared.any_layer = true;
        self
    }

    /// One that is set by an operation of its feature's own.
    pub const fn own_op(mut self) -> Self {
        self.declared.own_op = true;
        self
    }

    /// One that workers see as a flag of the interface.
    pub const fn flag(mut self, flag: u16) -> Self {
        self.declared.flag = flag;
        self
    }

    /// One that routes of broadcast addresses follow.
    pub const fn in_broadcast_routes(mut self) -> Self {
        self.declared.in_broadcast_routes = true;
        self
    }

    /// This value for it.
    pub fn to(&'static self, value: T) -> SettingValue {
        SettingValue { declared: &self.declared, word: value.to_word() }
    }
}

/// A value for a setting.
#[derive(Clone, Copy)]
pub struct SettingValue {
    declared: &'static Declared,
    word: u64,
}

impl SettingValue {
    /// What there is to say of the setting.
    pub fn declared(&self) -> &'static Declared {
        self.declared
    }

    /// The value, if it is for this setting.
    pub fn value<T: Word>(&self, setting: &'static Setting<T>) -> Option<T> {
        std::ptr::eq(self.declared, &setting.declared).then(|| T::from_word(self.word))
    }

    /// The value as a number, where it is not what interfaces have that were told nothing else.
    pub fn number(&self) -> Option<u64> {
        Some(self.word).filter(|w| *w != 0)
    }

    /// What interfaces have of the setting that were told nothing else.
    #[must_use]
    pub fn off(&self) -> SettingValue {
        SettingValue { word: 0, ..*self }
    }

    /// True for what interfaces have that were told nothing else.
    pub fn is_default(&self) -> bool {
        self.word == 0
    }
}

impl PartialEq for SettingValue {
    fn eq(&self, other: &SettingValue) -> bool {
        std::ptr::eq(self.declared, other.declared) && self.word == other.word
    }
}

impl fmt::Debug for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} = {:#x}", self.declared.undo, self.word)
    }
}

/// All settings, by feature: each has its column.
#[derive(Clone, Copy)]
pub struct Columns(&'static [&'static [&'static Declared]]);

impl Columns {
    /// These.
    pub const fn new(all: &'static [&'static [&'static Declared]]) -> Self {
        Columns(all)
    }

    fn iter(self) -> impl Iterator<Item = &'static Declared> {
        self.0.iter().copied().flatten().copied()
    }

    /// One that is not listed gets a column that no interface has: it stays what it is by default, and cannot be set.
    fn place(self, declared: &Declared) -> usize {
        self.iter().position(|d| std::ptr::eq(d, declared)).unwrap_or(usize::MAX)
    }

    /// The column of a setting: searched for, so nodes keep it.
    pub fn of<T: Word>(self, setting: &Setting<T>) -> Column<T> {
        Column { place: self.place(&setting.declared), of: PhantomData }
    }
}

/// Where interfaces have the value of a setting.
#[derive(Clone, Copy)]
pub struct Column<T> {
    place: usize,
    of: PhantomData<fn() -> T>,
}

/// The settings of an interface as workers read them. Most interfaces have none, and no memory for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words(Box<[u64]>);

impl Words {
    /// The value of a setting.
    #[inline]
    pub fn get<T: Word>(&self, column: Column<T>) -> T {
        T::from_word(self.0.get(column.place).copied().unwrap_or(0))
    }
}

/// The settings of an interface on the control side.
#[derive(Clone)]
pub struct Settings {
    columns: Columns,
    /// Up to the last that is not as by default.
    words: Vec<u64>,
}

impl Settings {
    /// All of them as by default.
    pub fn new(columns: Columns) -> Self {
        Settings { columns, words: vec![] }
    }

    /// The value of a setting.
    pub fn get<T: Word>(&self, setting: &Setting<T>) -> T {
        // Most interfaces have none: then nothing is searched for.
        let place = if self.words.is_empty() { 0 } else { self.columns.place(&setting.declared) };
        T::from_word(self.words.get(place).copied().unwrap_or(0))
    }

    /// Sets one and answers what it was; `None`, and nothing done, where it is not listed.
    pub fn replace(&mut self, choice: SettingValue) -> Option<SettingValue> {
        let place = self.columns.place(choice.declared);
        if place == usize::MAX {
            return None;
        }
        if self.words.len() <= place {
            self.words.resize(place + 1, 0);
        }
        let was = self.words.get_mut(place).map(|w| std::mem::replace(w, choice.word))?;
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
        Some(SettingValue { word: was, ..choice })
    }

    /// Those that are not as by default, in the order of the list.
    pub fn chosen(&self) -> impl Iterator<Item = SettingValue> + '_ {
        let all = self.columns.iter().zip(&self.words);
        all.map(|(declared, word)| SettingValue { declared, word: *word }).filter(|c| !c.is_default())
    }

    /// As workers read them.
    pub fn words(&self) -> Words {
        Words(self.words.as_slice().into())
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // By place: two settings may be taken away by one command.
        f.debug_map().entries(self.words.iter().enumerate().filter(|(_, word)| **word != 0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static A: Setting<bool> = Setting::new("", "");
    static B: Setting<bool> = Setting::new("", "");
    static UNLISTED: Setting<bool> = Setting::new("", "");
    static LIST: &[&[&Declared]] = &[&[&A.declared], &[&B.declared]];

    #[test]
    fn each_has_its_column() {
        let columns = Columns::new(LIST);
        let mut s = Settings::new(columns);
        assert_eq!(s.replace(B.to(true)), Some(B.to(false)));
        assert_eq!((s.get(&A), s.get(&B)), (false, true));
        let words = s.words();
        assert_eq!((words.get(columns.of(&A)), words.get(columns.of(&B))), (false, true));
        assert!(s.chosen().eq([B.to(true)]));
        assert_eq!(s.replace(B.to(false)), Some(B.to(true)));
        assert_eq!(s.words(), Words::default(), "what is as by default takes no memory");
    }

    #[test]
    fn two_in_the_same_words_are_told_apart() {
        let only = |choice| {
            let mut s = Settings::new(Columns::new(LIST));
            s.replace(choice);
            format!("{s:?}")
        };
        assert_ne!(only(A.to(true)), only(B.to(true)));
    }

    #[test]
    fn one_that_is_not_listed_cannot_be_set() {
        let columns = Columns::new(LIST);
        let mut s = Settings::new(columns);
        assert_eq!(s.replace(UNLISTED.to(true)), None);
        assert!(!s.get(&UNLISTED) && !s.words().get(columns.of(&UNLISTED)));
    }
}
