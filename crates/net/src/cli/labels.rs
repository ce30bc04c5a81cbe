//! The words in which paths say their labels.

use crate::labels::{Exp, MOST_LABELS, OutLabels};
use crate::router::Router;
use command::{Args, Command, CommandError};

/// What a path says of its labels, behind its next hop.
pub(crate) const LABELS: &str = "[out-labels <out-label:u32 0..1048575>...] [uniform|pipe] [ttl <ttl:u8 1..255>] \
     [exp (copy|<exp:u8 0..7>)]";

/// Help on [`LABELS`].
pub(crate) fn about_labels(c: Command<Router>) -> Command<Router> {
    c.arg("out-label", "a label, outermost first; 3 (implicit null) is none")
        .arg("uniform", "TTL and EXP are copied into the label, and back out of it")
        .arg("pipe", "TTL and EXP of the label count on their own; so without it")
        .arg("ttl", "TTL of labels with mode pipe; 64 without it")
        .arg("copy", "EXP of what is below the label")
        .arg("exp", "EXP of the labels; without it 0, that of the label that came, or with mode uniform that of what is below")
}

/// What the words of [`LABELS`] say.
pub(crate) fn labels(p: &Args) -> Result<OutLabels, CommandError> {
    let list: Vec<u32> = p.all("out-label")?;
    let Some(labels) = OutLabels::new(&list) else {
        return Err(format!("{} labels: a path has at most {}", list.len(), MOST_LABELS).into());
    };
    let exp = match p.opt("exp")? {
        Some(exp) => Exp::Set(exp),
        None if p.has("copy") => Exp::Copy,
        None => Exp::Usual,
    };
    Ok(labels.with_mode(p.has("uniform"), p.opt("ttl")?, exp))
}
