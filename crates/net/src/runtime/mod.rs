//! Commands on the running graph: its counters, errors, trace, buffers and threads; and the program's version.

pub mod commands;

mod show;
mod trace;

/// The name of worker `w` in answers; thread 0 is the control side.
pub(crate) fn thread_label(w: usize) -> String {
    format!("quiver_wk_{w} ({})", w + 1)
}
