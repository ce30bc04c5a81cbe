//! Changes of what parts have that are no interface's, or make one.

use super::{Named, Op, OpError, Router, Step};
use std::any::Any;
use std::fmt;
use std::ops::Deref;

/// A change of what a part has that is no interface's, or makes one.
pub trait PartOp: Any + Clone + PartialEq + fmt::Debug + Send {
    /// What it is about, in words: of two with the same subject the later stands in place of the earlier.
    fn subject(&self) -> String;

    /// What takes it away; of what makes an interface nothing, since that is deleted.
    fn off(&self) -> Option<Op>;

    /// What changes it in place into another of the same subject; `None`: it is taken away and made anew.
    fn turned(&self, new: &Self) -> Option<Op> {
        Some(new.clone().into())
    }

    /// Why another one cannot come in its place without it being made anew.
    fn anew(&self) -> &'static str {
        "it begins again with its settings"
    }

    /// What it sets, in words; nothing where the subject says it all.
    fn words(&self) -> String {
        String::new()
    }

    /// The command that does the same, where there is one.
    fn command(&self) -> Option<String> {
        None
    }

    /// The same, where it takes several commands, or they tell a secret: they do so where `secrets` are asked for.
    fn commands(&self, secrets: bool) -> Vec<String> {
        let _ = secrets;
        self.command().into_iter().collect()
    }

    /// Whose traffic it touches, and why, where it changes something in place.
    fn touches(&self) -> Option<String> {
        None
    }

    /// What it names.
    fn names(&self) -> Vec<Named> {
        vec![]
    }

    /// What no two of its kind have, where there is such a thing.
    fn exclusive(&self) -> Option<String> {
        None
    }

    /// What only root may have it do, in words; the router does it with rights of its own.
    fn for_root(&self) -> Option<String> {
        None
    }

    /// Receive queues of the device that it makes an interface of.
    fn rx_queues(&self) -> usize {
        0
    }

    /// Does a part of what takes long before it can be made, and changes nothing that anybody sees; whether there is more. Who does
    /// not ask for it makes all at once.
    ///
    /// # Errors
    /// It cannot be made.
    fn prepare(&self, router: &mut Router) -> Result<bool, OpError> {
        let _ = router;
        Ok(false)
    }

    /// Makes it, and answers what undoes it, in the order in which that is to be done last first.
    ///
    /// # Errors
    /// It cannot be; nothing has changed then.
    fn apply(self, router: &mut Router) -> Result<Vec<Op>, OpError>;

    /// The same for what may be undone in another way than by operations.
    ///
    /// # Errors
    /// It cannot be; nothing has changed then.
    fn steps(self, router: &mut Router) -> Result<Vec<Step>, OpError> {
        Ok(self.apply(router)?.into_iter().map(Step::Op).collect())
    }

    /// Whether it changes routes alone, which come by the million: who looks whether something has changed is not told.
    fn is_routes(&self) -> bool {
        false
    }

    /// A line for the log, where it is worth one.
    fn log_line(&self) -> Option<String> {
        None
    }
}

/// [`PartOp`] of any type. What is exclusive differs between types.
pub trait ErasedPartOp: Any + fmt::Debug + Send {
    fn prepare(&self, router: &mut Router) -> Result<bool, OpError>;
    fn rx_queues(&self) -> usize;
    fn steps(self: Box<Self>, router: &mut Router) -> Result<Vec<Step>, OpError>;
    fn is_routes(&self) -> bool;
    fn subject(&self) -> String;
    fn off(&self) -> Option<Op>;
    fn turned(&self, new: &dyn Any) -> Option<Op>;
    fn anew(&self) -> &'static str;
    fn words(&self) -> String;
    fn commands(&self, secrets: bool) -> Vec<String>;
    fn touches(&self) -> Option<String>;
    fn names(&self) -> Vec<Named>;
    fn exclusive(&self) -> Option<String>;
    fn for_root(&self) -> Option<String>;
    fn log_line(&self) -> Option<String>;
    fn copy(&self) -> Box<dyn ErasedPartOp>;
    fn same(&self, other: &dyn Any) -> bool;
}

impl<T: PartOp> ErasedPartOp for T {
    fn prepare(&self, router: &mut Router) -> Result<bool, OpError> {
        T::prepare(self, router)
    }

    fn rx_queues(&self) -> usize {
        T::rx_queues(self)
    }

    fn steps(self: Box<Self>, router: &mut Router) -> Result<Vec<Step>, OpError> {
        T::steps(*self, router)
    }

    fn is_routes(&self) -> bool {
        T::is_routes(self)
    }

    fn subject(&self) -> String {
        T::subject(self)
    }

    fn off(&self) -> Option<Op> {
        T::off(self)
    }

    fn turned(&self, new: &dyn Any) -> Option<Op> {
        T::turned(self, new.downcast_ref()?)
    }

    fn anew(&self) -> &'static str {
        T::anew(self)
    }

    fn words(&self) -> String {
        T::words(self)
    }

    fn commands(&self, secrets: bool) -> Vec<String> {
        T::commands(self, secrets)
    }

    fn touches(&self) -> Option<String> {
        T::touches(self)
    }

    fn names(&self) -> Vec<Named> {
        T::names(self)
    }

    fn exclusive(&self) -> Option<String> {
        T::exclusive(self).map(|what| format!("{} {what}", std::any::type_name::<T>()))
    }

    fn for_root(&self) -> Option<String> {
        T::for_root(self)
    }

    fn log_line(&self) -> Option<String> {
        T::log_line(self)
    }

    fn copy(&self) -> Box<dyn ErasedPartOp> {
        Box::new(self.clone())
    }

    fn same(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }
}

/// A [`PartOp`], whichever part it is for, with its methods.
#[derive(Debug)]
pub struct BoxedPartOp(Box<dyn ErasedPartOp>);

impl BoxedPartOp {
    /// The operation, where it is of this type.
    pub fn get<T: PartOp>(&self) -> Option<&T> {
        let op: &dyn Any = &*self.0;
        op.downcast_ref()
    }

    pub(super) fn steps(self, router: &mut Router) -> Result<Vec<Step>, OpError> {
        self.0.steps(router)
    }

    /// See [`PartOp::turned`].
    pub fn turned(&self, new: &BoxedPartOp) -> Option<Op> {
        let new: &dyn Any = &*new.0;
        self.0.turned(new)
    }
}

impl Deref for BoxedPartOp {
    type Target = dyn ErasedPartOp;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl<T: PartOp> From<T> for Op {
    fn from(op: T) -> Self {
        Op::Part(BoxedPartOp(Box::new(op)))
    }
}

impl Clone for BoxedPartOp {
    fn clone(&self) -> Self {
        BoxedPartOp(self.0.copy())
    }
}

impl PartialEq for BoxedPartOp {
    fn eq(&self, other: &Self) -> bool {
        self.0.same(&*other.0)
    }
}
