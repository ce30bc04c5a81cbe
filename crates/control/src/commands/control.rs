//! `show control`: how busy the control thread is.

use super::App;
use crate::load::{LONG, Longest};
use command::{Args, Command, CommandError, Output};
use serde_json::json;

pub(super) fn all() -> Vec<Command<App>> {
    vec![
        Command::read("show control", "How long the control thread was busy at a stretch", show)
            .details(
                "The control thread answers commands, resolves neighbors and keeps timers. While it does one thing it does \
                 nothing else, so long answers are made in pieces, and others have their turn between two of them. The \
                 longest stretch is shown with the last command that was run in it, if there was one; and that which took the \
                 processor longest, which others on the machine may take away in the midst of a stretch. What Linux is asked about \
                 devices is no part of it: Linux lets one at a time change devices, and a thread waits for that; the answer says when \
                 changes of devices wait there.",
            )
            .example("show control"),
        Command::write("clear control", "Start the measurement of `show control` anew", |app: &mut App, _| {
            app.load.clear();
            Ok(Output::none())
        })
        .for_operators()
        .example("clear control"),
    ]
}

fn show(app: &mut App, _: &Args) -> Result<Output, CommandError> {
    let (longest, busiest) = (app.load.longest(), app.load.busiest());
    let (stretches, long) = app.load.stretches();
    let ms = longest.time.as_secs_f64() * 1000.0;
    let busiest_ms = busiest.time.as_secs_f64() * 1000.0;
    let ago = longest.at.map(|at| at.elapsed().as_secs_f64());
    let share = app.load.share() * 100.0;
    let mut text = format!(
        "busy {share:.1} % of the time in {stretches} stretches, {long} of them over {} ms\n",
        LONG.as_millis()
    );
    let within = |stretch: &Longest| match stretch.what.as_str() {
        "" => String::new(),
        what => format!(", in '{what}'"),
    };
    if let Some(ago) = ago {
        text += &format!("longest {ms:.3} ms, {ago:.1} s ago{}\n", within(&longest));
        text += &format!("longest on the processor {busiest_ms:.3} ms{}\n", within(&busiest));
    }
    let waiting = app.router.try_borrow().map_or(0, |r| r.waiting());
    if waiting != 0 {
        let (s, wait) = if waiting == 1 { ("", "waits") } else { ("s", "wait") };
        text += &format!("{waiting} change{s} of devices {wait} for Linux\n");
    }
    let json = json!({
        "waiting-for-linux": waiting, "busy-percent": share, "stretches": stretches, "long": long, "long-ms": LONG.as_millis() as u64,
        "longest-ms": ms, "longest-ago": ago, "longest-in": longest.what,
        "longest-cpu-ms": busiest_ms, "longest-cpu-in": busiest.what,
    });
    Ok(Output::new(text, json))
}
