//! `configuration diff`, `plan` and `apply`: what a document would change, how, and doing it.

use super::App;
use crate::dump::Source;
use crate::engine::{self, Carry, Failed, Line, Plan, Progress, Reading, Side};
use crate::yaml::{self, Diagnostics, MAX_BYTES, Settings};
use command::{Args, Caller, Command, CommandError, Output};
use drivers::{Files, Identity};
use graph::memory;
use net::router::Router;
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long the control thread works on a plan before others have their turn.
const PIECE: Duration = Duration::from_millis(2);

pub(super) fn commands() -> [Command<App>; 3] {
    let file = "the whole path of a document, from /; the router reads it with your rights";
    [
        Command::read("configuration diff <file:path>", "What a document would change of what runs", diff)
        .arg("file", file)
        .details(
            "A line for each object that differs: + where the document has it and the router has not, - where it is the other \
             way round, ~ where both have it and it differs. Nothing is changed. `quiver diff FILE` does the same from the \
             shell.",
        )
        .example("configuration diff /etc/quiver/new.yaml"),
        Command::read("configuration plan <file:path>", "The steps from what runs to a document", plan)
        .arg("file", file)
        .details(
            "The steps in the order in which `configuration apply` takes them, with the commands that do the same where \
             there are such; and for each that touches traffic, whose, and why. Nothing is changed. `quiver plan FILE` does \
             the same from the shell.",
        )
        .example("configuration plan /etc/quiver/new.yaml"),
        Command::write("configuration apply <file:path>", "Bring what runs to a document, or change nothing", apply)
            .arg("file", file)
            .details(
                "What does not differ is not touched, and packets flow. When a step is refused, all steps before it are \
                 undone: what runs is what ran before. Until it ends, other commands that change something are refused. A \
                 document that differs in the section `quiver` is refused, as that takes a restart. `quiver apply FILE` does \
                 the same from the shell.",
            )
            .example("configuration apply /etc/quiver/new.yaml"),
    ]
}

/// What the commands need while they run.
#[derive(Clone)]
struct Desk {
    router: Rc<RefCell<Router>>,
    settings: Rc<Settings>,
}

fn busy() -> CommandError {
    CommandError::new("the router is busy")
}

impl Desk {
    fn of(app: &App) -> Desk {
        Desk { router: Rc::clone(&app.router), settings: Rc::clone(&app.settings) }
    }

    /// Reads what runs, while everything else has its turn.
    async fn running(&self) -> Result<Side, CommandError> {
        let mut reading = Reading::default();
        let mut more = true;
        while more {
            more = self.read_piece(&mut reading)?;
            tokio::task::yield_now().await;
        }
        let side = net::background::run(move || reading.side()).await.map_err(CommandError::new)?;
        side.map_err(|e| CommandError::new(format!("internal error: what runs does not load\n{e}")))
    }

    /// Reads what fits into a piece; false at the end.
    fn read_piece(&self, reading: &mut Reading) -> Result<bool, CommandError> {
        let began = Instant::now();
        let router = self.router.try_borrow().map_err(|_| busy())?;
        let mut more = true;
        while more && began.elapsed() < PIECE {
            more = reading.next(&router, &self.settings);
        }
        if reading.is_stale(&router) {
            return Err("the configuration was changed while it was read: ask again".into());
        }
        Ok(more)
    }

    /// The lines of the section `quiver` that differ.
    fn settings_differ(&self, wanted: &Settings) -> Vec<String> {
        let Ok(router) = self.router.try_borrow() else { return vec![] };
        let text = |settings: &Settings| crate::dump::settings_text(Source { router: &router, settings });
        let (is, wants) = (text(&self.settings), text(wanted));
        let only = |a: &str, b: &str, sign: &str| {
            let there: Vec<&str> = b.lines().collect();
            let lines = a.lines().filter(|l| !there.contains(l));
            lines.map(|l| format!("{sign} quiver: {}", l.trim())).collect::<Vec<_>>()
        };
        [only(&is, &wants, "-"), only(&wants, &is, "+")].concat()
    }
}

/// A document that was read and checked.
struct Wanted {
    side: Side,
    settings: Settings,
}

/// Reads a file with the rights of who names it.
fn load(path: &Path, who: Option<Identity>) -> Result<Wanted, String> {
    let fail = |e: std::io::Error| format!("cannot read {}: {e}", path.display());
    let mut bytes = vec![];
    let file = Files::of(who, false).read(path).map_err(fail)?;
    let length = file.metadata().map_err(fail)?.len();
    memory::check(usize::try_from(length).unwrap_or(usize::MAX)).map_err(|e| fail(e.into()))?;
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() > MAX_BYTES {
        return Err(format!("{}: a document has at most 256 MiB", path.display()));
    }
    let told = |e: Diagnostics| e.to_string();
    let document = yaml::check_bytes(&path.display().to_string(), bytes).map_err(told)?;
    let document = document.runnable().map_err(told)?;
    Ok(Wanted { side: Side::of(&document), settings: document.settings })
}

fn asked(args: &Args) -> Result<(PathBuf, Option<Identity>), CommandError> {
    let path: PathBuf = args.get("file")?;
    if !path.is_absolute() {
        return Err(args.error("file", format!("{}: give the whole path from /", path.display())));
    }
    let who = |c: &Caller| Identity { user: c.user, group: c.group, groups: c.groups.clone() };
    Ok((path, args.caller().map(who)))
}

/// What a plan was made of, and what of the process would have to be started anew.
struct Compared {
    plan: Plan,
    wanted: Side,
    restart: Vec<String>,
}

async fn compare(desk: &Desk, path: PathBuf, who: Option<Identity>) -> Result<Compared, CommandError> {
    let wanted = net::background::run(move || load(&path, who)).await.map_err(CommandError::new)?;
    let Wanted { side, settings } = wanted.map_err(|e| CommandError::new(e.trim_end()))?;
    let restart = desk.settings_differ(&settings);
    let running = desk.running().await?;
    let made = net::background::run(move || (engine::plan(&running, &side), side)).await;
    let (plan, wanted) = made.map_err(CommandError::new)?;
    Ok(Compared { plan, wanted, restart })
}

/// Lines made of a plan at a time.
const LINES: usize = 256;

fn diff(app: &mut App, args: &Args) -> Result<Output, CommandError> {
    let (path, who) = asked(args)?;
    let desk = Desk::of(app);
    Ok(Output::stream(async move |_| Ok(lines(compare(&desk, path, who).await?))))
}

fn lines(compared: Compared) -> Output {
    let Compared { plan, restart, .. } = compared;
    let mut at = Some((0, 0));
    let mut begun = false;
    Output::pieces(move |page| {
        if !std::mem::replace(&mut begun, true) {
            if page.wants_json() {
                page.open("[");
            }
            for line in &restart {
                match page.wants_json() {
                    true => page.item(&json!({ "verb": "restart", "what": line })),
                    false => _ = writeln!(page, "{line} (takes a restart)"),
                }
            }
        }
        let Some(start) = at else {
            if page.wants_json() {
                page.close("]");
            }
            return Ok(false);
        };
        let (lines, next) = engine::differences(&plan, start, LINES);
        at = next;
        for l in &lines {
            match page.wants_json() {
                true => page.item(&l.to_json()),
                false => _ = writeln!(page, "{} {}", l.sign, l.text),
            }
        }
        Ok(true)
    })
}

fn step_text(n: usize, line: &Line) -> String {
    let mut out = format!("{n}. {} {}\n", line.sign, line.text);
    line.commands.iter().for_each(|c| _ = writeln!(out, "     {c}"));
    if let Some(touches) = &line.touches {
        let _ = writeln!(out, "     touches {touches}");
    }
    out
}

/// What is told of a plan.
struct Told {
    lines: Vec<Line>,
    warnings: Vec<String>,
    restart: Vec<String>,
}

impl Compared {
    /// Takes a while where there are many steps: not for the control thread.
    fn told(self) -> Told {
        let (mut lines, warnings) = (self.plan.lines(), self.plan.warnings());
        lines.retain(|l| !l.text.is_empty());
        Told { lines, warnings, restart: self.restart }
    }
}

fn plan(app: &mut App, args: &Args) -> Result<Output, CommandError> {
    let (path, who) = asked(args)?;
    let desk = Desk::of(app);
    Ok(Output::stream(async move |_| {
        let compared = compare(&desk, path, who).await?;
        let told = net::background::run(move || compared.told()).await.map_err(CommandError::new)?;
        Ok(steps(told))
    }))
}

fn steps(told: Told) -> Output {
    let Told { lines, warnings, restart } = told;
    let touching = lines.iter().filter(|l| l.touches.is_some()).count();
    let count = lines.len();
    let mut lines = lines.into_iter().enumerate();
    let mut begun = false;
    Output::pieces(move |page| {
        if page.wants_json() && !std::mem::replace(&mut begun, true) {
            page.open("{");
            page.open_field("steps", "[");
        }
        for (n, line) in lines.by_ref() {
            match page.wants_json() {
                true => page.item(&line.to_json()),
                false => _ = page.write_str(&step_text(n + 1, &line)),
            }
            if page.is_full() {
                return Ok(true);
            }
        }
        if page.wants_json() {
            page.close("]");
            page.field("warnings", &json!(warnings));
            page.field("restart", &json!(restart));
            page.close("}");
            return Ok(false);
        }
        let _ = match count {
            0 => writeln!(page, "nothing differs"),
            n => writeln!(page, "{n} steps, {touching} of them touch traffic"),
        };
        warnings.iter().for_each(|w| _ = writeln!(page, "warning: {w}"));
        restart.iter().for_each(|r| _ = writeln!(page, "takes a restart: {r}"));
        Ok(false)
    })
}

/// Says that an apply runs, for as long as it is there.
struct Applying(Rc<Cell<bool>>);

impl Applying {
    fn begin(flag: &Rc<Cell<bool>>) -> Result<Applying, CommandError> {
        if flag.replace(true) {
            return Err(applying());
        }
        Ok(Applying(Rc::clone(flag)))
    }
}

impl Drop for Applying {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// Why commands that change something are refused.
pub(super) fn applying() -> CommandError {
    CommandError::new("a configuration is being applied: try again when that has ended")
}

fn apply(app: &mut App, args: &Args) -> Result<Output, CommandError> {
    let (path, who) = asked(args)?;
    let (desk, lock) = (Desk::of(app), Applying::begin(&app.applying)?);
    Ok(Output::work(async move || {
        let done = applied(&desk, path, who).await;
        drop(lock);
        done
    }))
}

async fn applied(desk: &Desk, path: PathBuf, who: Option<Identity>) -> Result<Output, CommandError> {
    let Compared { plan, wanted, restart } = compare(desk, path, who).await?;
    if !restart.is_empty() {
        let lines = restart.join("\n");
        return Err(CommandError::new(format!(
            "nothing was changed: the section `quiver` differs, which takes a restart\n{lines}"
        )));
    }
    let steps = plan.visible().count();
    let mut carry = Carry::new(plan);
    loop {
        let progress = {
            let mut router = desk.router.try_borrow_mut().map_err(|_| busy());
            match &mut router {
                Ok(router) => carry.go_on(router, PIECE),
                // Somebody holds it for a moment: never for an await.
                Err(_) => Progress::More,
            }
        };
        match progress {
            Progress::More => tokio::task::yield_now().await,
            Progress::Done => break,
            Progress::Failed(failed) => return Err(refusal(&carry, &wanted, &failed)),
        }
    }
    let s = if steps == 1 { "" } else { "s" };
    let text = if steps == 0 { "nothing differs".into() } else { format!("applied in {steps} step{s}") };
    Ok(Output::new(text, json!({ "steps": steps })))
}

fn refusal(carry: &Carry, wanted: &Side, failed: &Failed) -> CommandError {
    let plan = carry.plan();
    // What could not be undone stays as it is.
    let mut text =
        String::from(if failed.left.is_empty() { "nothing was changed" } else { "not all is as it was" });
    if let Some(step) = plan.steps.get(failed.step) {
        let what = step.line(plan, &Default::default());
        let at = wanted.refusal(&step.id, failed.number, &failed.message).line;
        let line = if at == 0 { String::new() } else { format!(", line {at} of the document") };
        let _ = write!(text, ": {} {}{line}: {}", what.sign, what.text, failed.message);
    }
    for left in &failed.left {
        let _ = write!(text, "\ncould not be undone: {left}");
    }
    CommandError::new(text)
}
