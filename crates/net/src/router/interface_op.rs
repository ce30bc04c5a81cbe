//! What an operator tells an interface, of any part.

use super::{OpError, RouteTable, Router};
use std::any::Any;
use std::fmt;
use std::ops::Deref;

/// What an operation names that is to stand before it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    /// An interface, by its name.
    Interface(String),
    /// An interface whose frames the one that is told is to carry, by its name: both with their MTU.
    Carried(String),
    /// An interface, by its name, on which frames are to come and go; so they must on the one that is told of it.
    Frames(String),
    /// A routing table.
    Table(RouteTable),
    /// A bridge domain, by its number.
    Bridge(u32),
}

/// What an operator tells an interface and only one part understands. What was told before undoes it.
pub trait InterfaceOp: Any + Clone + PartialEq + fmt::Debug + Send {
    /// What it is about: of two with the same subject the later stands in place of the earlier.
    fn subject(&self) -> String;

    /// What takes it away.
    #[must_use]
    fn off(&self) -> Self;

    /// What it names.
    fn names(&self) -> Vec<Named> {
        vec![]
    }

    /// What no two interfaces are told, where there is such a thing.
    fn exclusive(&self) -> Option<String> {
        None
    }

    /// What only root may have it do, in words; the router does it with rights of its own.
    fn for_root(&self) -> Option<String> {
        None
    }

    /// Takes it in, and answers what was told before.
    ///
    /// # Errors
    /// It cannot be, on this interface or at all; nothing has changed then.
    fn take(self, router: &mut Router, index: u32) -> Result<Self, OpError>;

    /// Whether it gives the interface something that only layer 3 has.
    fn switches_on(&self) -> bool;

    /// Whether it gives the interface a pair in Linux, which bridges of Linux's may have as a port.
    fn is_pair(&self) -> bool {
        false
    }

    /// Whether it names another interface, which is to be there before.
    fn names_others(&self) -> bool {
        false
    }

    /// The last of the workers that it names, which are to be there before and to stay for as long.
    fn last_worker(&self) -> Option<usize> {
        None
    }

    /// Whether packets meet it from the first one on: a document tells it before interfaces come up.
    fn is_early(&self) -> bool {
        false
    }

    /// Whether an interface that was told so is none without.
    fn is_essential(&self) -> bool {
        false
    }

    /// What an interface of this name does that was told so, and the command that ends it.
    fn words(&self, name: &str) -> (String, String);

    /// The commands that tell an interface of this name so, where there are such; one that was told something else of the same subject
    /// where it `changes`.
    fn commands(&self, name: &str, changes: bool) -> Vec<String> {
        let _ = (name, changes);
        vec![]
    }
}

/// [`InterfaceOp`] of any type. Subjects and what is exclusive differ between types.
pub trait ErasedOp: Any + fmt::Debug + Send {
    fn subject(&self) -> String;
    fn off(&self) -> BoxedOp;
    fn exclusive(&self) -> Option<String>;
    fn for_root(&self) -> Option<String>;
    fn names(&self) -> Vec<Named>;
    fn take(self: Box<Self>, router: &mut Router, index: u32) -> Result<BoxedOp, OpError>;
    fn switches_on(&self) -> bool;
    fn is_pair(&self) -> bool;
    fn names_others(&self) -> bool;
    fn last_worker(&self) -> Option<usize>;
    fn is_early(&self) -> bool;
    fn is_essential(&self) -> bool;
    fn words(&self, name: &str) -> (String, String);
    fn commands(&self, name: &str, changes: bool) -> Vec<String>;
    fn copy(&self) -> Box<dyn ErasedOp>;
    fn same(&self, other: &dyn Any) -> bool;
}

impl<T: InterfaceOp> ErasedOp for T {
    fn subject(&self) -> String {
        format!("{} {}", std::any::type_name::<T>(), InterfaceOp::subject(self))
    }

    fn off(&self) -> BoxedOp {
        BoxedOp::new(InterfaceOp::off(self))
    }

    fn names(&self) -> Vec<Named> {
        InterfaceOp::names(self)
    }

    fn exclusive(&self) -> Option<String> {
        InterfaceOp::exclusive(self).map(|what| format!("{} {what}", std::any::type_name::<T>()))
    }

    fn for_root(&self) -> Option<String> {
        InterfaceOp::for_root(self)
    }

    fn take(self: Box<Self>, router: &mut Router, index: u32) -> Result<BoxedOp, OpError> {
        InterfaceOp::take(*self, router, index).map(BoxedOp::new)
    }

    fn switches_on(&self) -> bool {
        InterfaceOp::switches_on(self)
    }

    fn is_pair(&self) -> bool {
        InterfaceOp::is_pair(self)
    }

    fn names_others(&self) -> bool {
        InterfaceOp::names_others(self)
    }

    fn last_worker(&self) -> Option<usize> {
        InterfaceOp::last_worker(self)
    }

    fn is_early(&self) -> bool {
        InterfaceOp::is_early(self)
    }

    fn is_essential(&self) -> bool {
        InterfaceOp::is_essential(self)
    }

    fn words(&self, name: &str) -> (String, String) {
        InterfaceOp::words(self, name)
    }

    fn commands(&self, name: &str, changes: bool) -> Vec<String> {
        InterfaceOp::commands(self, name, changes)
    }

    fn copy(&self) -> Box<dyn ErasedOp> {
        Box::new(self.clone())
    }

    fn same(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }
}

/// An [`InterfaceOp`], whichever part it is for, with its methods.
#[derive(Debug)]
pub struct BoxedOp(Box<dyn ErasedOp>);

impl BoxedOp {
    /// For this one.
    pub fn new(op: impl InterfaceOp) -> Self {
        BoxedOp(Box::new(op))
    }

    pub(super) fn take(self, router: &mut Router, index: u32) -> Result<BoxedOp, OpError> {
        self.0.take(router, index)
    }
}

impl Deref for BoxedOp {
    type Target = dyn ErasedOp;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl Clone for BoxedOp {
    fn clone(&self) -> Self {
        BoxedOp(self.0.copy())
    }
}

impl PartialEq for BoxedOp {
    fn eq(&self, other: &Self) -> bool {
        self.0.same(&*other.0)
    }
}
