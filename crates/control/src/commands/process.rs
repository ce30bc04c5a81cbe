//! `show log`, `show memory`: what the process itself says and takes.

use super::App;
use crate::saved::date;
use crate::trail::Outcome;
use command::{Args, Command, CommandError, Output, Table};
use serde_json::json;
use std::fmt::Write;

pub(super) fn commands() -> [Command<App>; 4] {
    [
        Command::read("show log [<lines:u32 1..1000 lines>]", "The last lines of the log", log)
            .alias("show logging [<lines:u32 1..1000 lines>]")
            .arg("lines", "so many; 100 by default")
            .details("The router keeps the last 1000 lines in memory, whether or not the log goes to a file too.")
            .example("show log")
            .example("show log 20"),
        Command::read("show command history [<commands:u32 1..1200 commands>]", "Commands that have changed something, with who gave them", given)
            .arg("commands", "so many; 100 by default")
            .details(
                "Those that need the role `configure` or more and were done, and those that were refused for want of rights; the last 1000 \
                 and 200 of them since the start. Secrets are hidden. Of many within a second the first ones stand by themselves, and the others are \
                 counted: the column Count says for how many commands a line stands. The log has the same lines. What documents changed, \
                 `configuration history` tells.",
            )
            .example("show command history"),
        Command::read("show last-words", "What the router logged last before it died", last_words)
            .details(
                "Of the run that died last: killed, hung, or ended by an error of its own, and how, where it was supervised. Kept in \
                 the state folder.",
            )
            .example("show last-words"),
        Command::read("show memory", "Memory of the process, of packet buffers and of tables", memory)
            .details(
                "Resident is what the process has in the memory of the machine, packet buffers of usual pages included; \
                 peak is the most that it has had.",
            )
            .example("show memory"),
    ]
}

fn log(app: &mut App, args: &Args) -> Result<Output, CommandError> {
    let lines = app.journal.last(args.opt::<u32>("lines")?.unwrap_or(100) as usize);
    Ok(Output::new(lines.join("\n"), json!(lines)))
}

fn last_words(app: &mut App, _: &Args) -> Result<Output, CommandError> {
    let lines: Vec<&str> = app.journal.last_words().unwrap_or_default().lines().collect();
    let text = if lines.is_empty() { "none\n".to_owned() } else { lines.join("\n") + "\n" };
    Ok(Output::new(text, json!(lines)))
}

fn given(app: &mut App, args: &Args) -> Result<Output, CommandError> {
    let (most, entries) = (args.opt::<u32>("commands")?.unwrap_or(100) as usize, app.changes.trail.entries());
    let entries = entries.get(entries.len().saturating_sub(most)..).unwrap_or_default();
    let mut table = Table::new().right("Number").left("Time").left("User").left("Role").left("From");
    table = table.left("Outcome").right("Count").left("Command");
    let mut json = vec![];
    for e in entries {
        let author = &e.who.author;
        let name = if author.name.is_empty() { author.user.to_string() } else { author.name.clone() };
        table.row([
            e.number.into(),
            date(e.time).into(),
            name.into(),
            e.who.role.into(),
            author.from.as_str().into(),
            e.outcome.name().into(),
            e.count.into(),
            e.words.as_str().into(),
        ]);
        let why = if let Outcome::Refused(why) = &e.outcome { why } else { "" };
        json.push(json!({
            "number": e.number, "time": date(e.time), "user": author.user, "name": author.name, "role": e.who.role,
            "from": author.from, "outcome": e.outcome.name(), "why": why, "count": e.count, "command": e.words,
        }));
    }
    Ok(Output::new(table.to_text(), json!(json)))
}

/// A field of `/proc/self/status` in bytes.
fn status(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kb| kb * 1024)
}

fn memory(app: &mut App, _: &Args) -> Result<Output, CommandError> {
    let router = app.router.try_borrow().map_err(|_| CommandError::new("the router is busy"))?;
    let process = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ((_, routes4, bytes4), (_, routes6, bytes6)) =
        (router.table_totals(false), router.table_totals(true));
    let pool = router.pool();
    let (resident, peak, virt) =
        (status(&process, "VmRSS"), status(&process, "VmHWM"), status(&process, "VmSize"));
    let rows = [
        ("Resident", resident, String::new()),
        ("Peak", peak, String::new()),
        ("Virtual", virt, String::new()),
        ("Buffers", Some(pool.bytes() as u64), format!("{} packet buffers", pool.count())),
        ("IPv4 tables", Some(bytes4 as u64), format!("{routes4} routes")),
        ("IPv6 tables", Some(bytes6 as u64), format!("{routes6} routes")),
    ];
    let mut text = String::new();
    for (name, bytes, note) in rows {
        let size =
            bytes.map_or("unknown".to_owned(), |b| format!("{:.1} MiB", b as f64 / f64::from(1 << 20)));
        let _ = writeln!(text, "{}", format!("{name:<12}{size:>14}  {note}").trim_end());
    }
    let json = json!({
        "resident": resident, "peak": peak, "virtual": virt,
        "buffers": { "bytes": pool.bytes(), "count": pool.count() },
        "ip4-tables": { "bytes": bytes4, "routes": routes4 },
        "ip6-tables": { "bytes": bytes6, "routes": routes6 },
    });
    Ok(Output::new(text, json))
}
