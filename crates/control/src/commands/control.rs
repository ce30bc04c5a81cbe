//! `show control`: how busy the control thread is.

use super::App;
use crate::load::LONG;
use command::{Args, Command, CommandError, Output};
use serde_json::json;

pub(super) fn all() -> Vec<Command<App>> {
    vec![
        Command::read("show control", "How long the control thread was busy at a stretch", show)
            .details(
                "The control thread answers commands, resolves neighbors and keeps timers. While it does one thing it does \
                 nothing else, so long answers are made in pieces, and others have their turn between two of them. The \
                 longest stretch is shown with the last command that was run in it, if there was one.",
            )
            .example("show control"),
        Command::write("clear control", "Start the measurement of `show control` anew", |app: &mut App, _| {
            app.load.clear();
            Ok(Output::none())
        })
        .example("clear control"),
    ]
}

fn show(app: &mut App, _: &Args) -> Result<Output, CommandError> {
    let (longest, (stretches, long)) = (app.load.longest(), app.load.stretches());
    let ms = longest.time.as_secs_f64() * 1000.0;
    let ago = longest.at.map(|at| at.elapsed().as_secs_f64());
    let share = app.load.share() * 100.0;
    let mut text = format!(
        "busy {share:.1} % of the time in {stretches} stretches, {long} of them over {} ms\n",
        LONG.as_millis()
    );
    if let Some(ago) = ago {
        text += &format!("longest {ms:.3} ms, {ago:.1} s ago");
        if !longest.what.is_empty() {
            text += &format!(", in '{}'", longest.what);
        }
        text.push('\n');
    }
    let json = json!({
        "busy-percent": share, "stretches": stretches, "long": long, "long-ms": LONG.as_millis() as u64,
        "longest-ms": ms, "longest-ago": ago, "longest-in": longest.what,
    });
    Ok(Output::new(text, json))
}
