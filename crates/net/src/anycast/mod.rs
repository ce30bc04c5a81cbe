//! Answers to solicitations of subnet-router anycast addresses. Every router on a link has them, so each waits a random time
//! before it answers (RFC 4861 section 7.2.7).

mod answers;
mod part;

pub(crate) use part::AnycastAnswers;
