//! The engine: from what should be to what runs.
//!
//! A checked document becomes a [`model::Model`] of objects (`objects`); what they need, and which of them change in place, stands
//! there and in `rules`. [`plan`] compares two sides and answers a [`Plan`]: steps in order, each with the operations that carry it
//! out (`steps`) and words for the operator (`words`). `carry` carries a plan out piece by piece, and back from a step that
//! fails. What documents [`Brought`] they take away; what commands made stays. Routes and labels come by the million: they are compared as sorted runs (`bulk`) and carried out as batches.

mod brought;
mod bulk;
mod carry;
mod differing;
mod ends;
mod known;
mod objects;
mod rules;
mod running;
mod sorted;
mod steps;
mod ties;
mod warnings;
mod words;

pub use brought::Brought;
pub use bulk::{Goal, Hop};
pub(crate) use carry::at_once;
pub use carry::{Carry, Failed, Progress};
pub use objects::{Id, Side, Value};
pub use running::Reading;
pub(crate) use running::route_count;
pub use steps::{Plan, Step, plan, plan_of};
pub use warnings::{Session, warnings};
pub use words::{Line, differences, stays};
