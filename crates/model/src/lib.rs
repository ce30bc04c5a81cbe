//! What should be, as objects that need each other, and the way from one such model to another.
//!
//! A [`Model`] is a set of objects by their ids. Each says what must stand before it ([`Object::needs`]) and what it has to itself
//! ([`Object::takes`], [`Object::bars`]). [`plan()`] compares two models and answers the steps from one to the other, ordered by what
//! the objects say; no order is written by hand. Nothing here knows what the objects are: [`Rules`] does.
//!
//! There are no threads, sockets or devices in this crate, and the same two models always give the same plan.

mod order;
mod plan;

pub use plan::{Phase, Reason, Step, Touched, plan};

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;

/// Names an object.
pub trait Id: Clone + Ord + Hash + Debug {}

impl<T: Clone + Ord + Hash + Debug> Id for T {}

/// An object as it should be.
#[derive(Clone, Debug)]
pub struct Object<I, V> {
    /// What it is.
    pub value: V,
    /// Objects that stand before it is made and are taken away behind it. Those that no model has are not looked for.
    pub needs: Vec<I>,
    /// Objects that it works best with: it comes behind them and goes before them, where that can be, and they come and go without it.
    pub follows: Vec<I>,
    /// What it has to itself, such as an address: hashes, of which equal ones mean the same thing.
    pub takes: Vec<u64>,
    /// What nobody else may have when it is made or changed.
    pub bars: Vec<u64>,
    /// Its place among all: of steps that could come in any order, those of earlier objects do (when objects are taken away, those of
    /// later ones).
    pub place: u32,
}

impl<I, V> Object<I, V> {
    /// One that needs nothing.
    pub fn new(value: V) -> Self {
        Object { value, needs: vec![], follows: vec![], takes: vec![], bars: vec![], place: 0 }
    }
}

/// Objects by their ids.
#[derive(Clone, Debug)]
pub struct Model<I, V> {
    objects: BTreeMap<I, Object<I, V>>,
    next: u32,
}

impl<I, V> Default for Model<I, V> {
    fn default() -> Self {
        Model { objects: BTreeMap::new(), next: 0 }
    }
}

impl<I: Id, V> Model<I, V> {
    /// Takes an object in, in place of an earlier one of the same id. It gets the next place, which is answered.
    pub fn set(&mut self, id: I, mut object: Object<I, V>) -> u32 {
        object.place = self.next;
        self.next += 1;
        self.objects.insert(id, object);
        self.next - 1
    }

    /// A place for objects that are taken in later.
    pub fn reserve(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    /// Takes an object in at its own place.
    pub fn set_at(&mut self, id: I, object: Object<I, V>) {
        self.objects.insert(id, object);
    }

    /// The object of this id.
    pub fn get(&self, id: &I) -> Option<&Object<I, V>> {
        self.objects.get(id)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, id: &I) -> Option<&mut Object<I, V>> {
        self.objects.get_mut(id)
    }

    /// Takes an object out.
    pub fn remove(&mut self, id: &I) -> Option<Object<I, V>> {
        self.objects.remove(id)
    }

    /// All objects, by id.
    pub fn iter(&self) -> impl Iterator<Item = (&I, &Object<I, V>)> {
        self.objects.iter()
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&I, &mut Object<I, V>)> {
        self.objects.iter_mut()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

/// How an object becomes another of the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// While it stands.
    InPlace,
    /// It is taken away and made again, because of this.
    Anew(&'static str),
}

/// What only those know who know the objects.
pub trait Rules<I, V> {
    /// How an object whose value differs changes.
    fn change(&self, id: &I, old: &V, new: &V) -> Change;

    /// Whether a change in place ends what an object has of another one, which goes; else it is made anew.
    fn lets_go(&self, id: &I, gone: &I) -> bool {
        let _ = (id, gone);
        false
    }

    /// Among which steps one is done where no order is needed: mostly those of its own phase.
    fn phase(&self, step: &Touched<'_, I, V>) -> Phase {
        step.phase
    }

    /// Further orders among the steps: pairs of their positions in `steps`, of which the first comes before the second.
    fn before(&self, steps: &[Touched<'_, I, V>]) -> Vec<(usize, usize)> {
        let _ = steps;
        vec![]
    }
}
