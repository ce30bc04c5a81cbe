//! `configuration diff` and `plan`: what a document would change, and how.

use super::App;
use super::change::Changes;
use super::places::{Held, Place};
use crate::clients::Clients;
use crate::dump::Source;
use crate::edit::Edited;
use crate::engine::{self, Brought, Line, Plan, Reading, Session, Side};
use crate::saved::{self, Folder};
use crate::yaml::secrets::are_hidden_from;
use crate::yaml::{self, Diagnostics, MAX_BYTES, Settings};
use command::{Args, Caller, Command, CommandError, Output};
use drivers::{Files, Identity};
use graph::memory::{self, OutOfMemory};
use net::background::drop_aside;
use net::router::Router;
use serde_json::json;
use std::cell::RefCell;
use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long the control thread works on a plan before others have their turn.
pub(super) const PIECE: Duration = Duration::from_millis(2);

/// What the word `exact` asks for.
pub(super) const EXACT: &str = "what commands made goes as well, where the document does not say it";
/// Objects of commands that are named one by one.
const NAMED: usize = 200;
/// What a document is called that came with what is asked for.
const DOCUMENT: &str = "document";
/// Faults of a document that are told with their places.
pub(super) const FAULTS: usize = 100;

pub(super) fn commands() -> [Command<App>; 2] {
    let file = "the whole path of a document, from /; the router reads it with your rights";
    [
        Command::read("configuration diff <file:path> [exact]", "What a document would change of what runs", diff)
        .arg("file", file)
        .arg("exact", EXACT)
        .details(
            "A line for each object that differs: + where the document has it and the router has not, - where the document before \
             brought it and this one has it not, ~ where both have it and it differs. A line with = names what others put there, \
             which stays: what commands made, and sources of routes, such as a routing daemon. Nothing is changed. `quiver diff FILE` does the same from the \
             shell.",
        )
        .example("configuration diff /etc/quiver/new.yaml"),
        Command::read(
            "configuration plan <file:path> [exact] [session <client:ip> [<server:ip>]]",
            "The steps from what runs to a document",
            plan,
        )
        .arg("file", file)
        .arg("exact", EXACT)
        .arg("client", "where you are: a warning tells when the way to you would be lost")
        .arg("server", "the address that you have connected to")
        .details(
            "The steps in the order in which `configuration apply` takes them, with the commands that do the same where \
             there are such; and for each that touches traffic, whose, and why. Warnings tell of what may not be meant: a \
             default route that goes, a table without interfaces, a next hop to which nothing leads, an MTU too small for a tunnel \
             over it, the loss of the interface over which a session comes. Nothing is changed. `quiver plan FILE` does the same from \
             the shell, and takes the session from SSH's environment.",
        )
        .example("configuration plan /etc/quiver/new.yaml")
        .example("configuration plan /etc/quiver/new.yaml session 192.0.2.7 192.0.2.1"),
    ]
}

/// What the commands need while they run, and whoever works beside them on the control thread.
#[derive(Clone)]
pub struct Desk {
    /// The router; never borrowed across an await.
    pub router: Rc<RefCell<Router>>,
    /// The process's settings.
    pub settings: Rc<Settings>,
    /// Programs that set routes.
    pub clients: Rc<Clients>,
    pub(super) changes: Rc<Changes>,
}

fn plural(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// What there is not enough memory for, and what would help.
pub(super) fn short(e: OutOfMemory) -> CommandError {
    CommandError::new(format!("{e}: {}", memory::HELP))
}

pub(super) fn busy() -> CommandError {
    CommandError::new("the router is busy")
}

impl Desk {
    /// Of the commands' context.
    pub fn of(app: &App) -> Desk {
        let (router, settings) = (Rc::clone(&app.router), Rc::clone(&app.settings));
        Desk { router, settings, clients: Rc::clone(&app.clients), changes: Rc::clone(&app.changes) }
    }

    /// Who follows what happens.
    pub fn events(&self) -> &crate::events::Events {
        &self.changes.events
    }

    /// Reads what runs, while everything else has its turn; anew where it changes meanwhile.
    pub(super) async fn running(&self) -> Result<Side, CommandError> {
        self.read(false).await
    }

    /// The same, and if it never stays as it is long enough, at one go at last: for who cannot ask again.
    pub(super) async fn running_for_sure(&self) -> Result<Side, CommandError> {
        self.read(true).await
    }

    async fn read(&self, for_sure: bool) -> Result<Side, CommandError> {
        let begin = |router: &Router| Reading::of(router).map_err(short);
        let (reading, _) = self.read_whole(for_sure, &self.settings, begin).await?;
        let side = net::background::run(move || reading.side()).await.map_err(CommandError::new)?;
        side.map_err(|e| match e.is_of("memory") {
            true => CommandError::new(e.to_string().trim_end()),
            false => CommandError::new(format!("internal error: what runs does not load\n{e}")),
        })
    }

    /// The routes of sources that registered at run time, which no document takes away: a line for each source.
    pub(super) fn others(&self) -> Vec<String> {
        let Ok(router) = self.router.try_borrow() else { return vec![] };
        let sources = router.route_sources().into_iter().filter(|s| s.routes != 0);
        sources.map(|s| format!("{}: {}", s.name, plural(s.routes, "route"))).collect()
    }

    /// What the next start has as its section `quiver`.
    pub(super) fn next_settings(&self) -> Rc<Settings> {
        let next = self.changes.next.borrow();
        Rc::clone(next.as_ref().unwrap_or(&self.settings))
    }

    /// The lines of the section `quiver` that differ from others.
    pub(super) fn settings_differ(&self, from: &Settings, wanted: &Settings) -> Vec<String> {
        let Ok(router) = self.router.try_borrow() else { return vec![] };
        let text = |settings: &Settings| crate::dump::settings_text(Source { router: &router, settings });
        let (is, wants) = (text(from), text(wanted));
        let only = |a: &str, b: &str, sign: &str| {
            let there: Vec<&str> = b.lines().collect();
            let lines = a.lines().filter(|l| !there.contains(l));
            lines.map(|l| format!("{sign} quiver: {}", l.trim())).collect::<Vec<_>>()
        };
        [only(&is, &wants, "-"), only(&wants, &is, "+")].concat()
    }
}

/// Where a document is.
#[derive(Clone, Debug)]
pub(super) enum From {
    /// In a file, which is read with the rights of who names it.
    File(PathBuf, Option<Identity>),
    /// Among those that are kept, by its number.
    Kept(Arc<Folder>, u64),
    /// It came with what is asked for, of somebody with these rights.
    Text(Arc<str>, Identity),
    /// Somebody with these rights has changed places of what runs.
    Edited(Arc<Edited>, Option<Identity>),
}

/// A document that was read and checked.
pub(super) struct Wanted {
    pub side: Side,
    pub settings: Settings,
    pub text: Text,
}

/// The text of a document; that of a kept one stands behind the line that says what it is.
#[derive(Clone, Debug)]
pub(super) struct Text {
    source: Arc<yaml::Source>,
    begins: usize,
}

impl Text {
    pub fn get(&self) -> &str {
        self.source.text.get(self.begins..).unwrap_or_default()
    }
}

impl Wanted {
    /// Of a text by itself.
    pub(super) fn read(bytes: Vec<u8>) -> Result<Wanted, CommandError> {
        Wanted::of(DOCUMENT, bytes, 0)
    }

    fn of(file: &str, bytes: Vec<u8>, begins: usize) -> Result<Wanted, CommandError> {
        let told = |e: Diagnostics| CommandError::new(e.to_string().trim_end()).with_faults(e.faults(FAULTS));
        let document = yaml::check_bytes(file, bytes).and_then(yaml::Document::runnable).map_err(told)?;
        Side::room_for(&document).map_err(|e| CommandError::new(format!("{file}: {e}: {}", memory::HELP)))?;
        let text = Text { source: Arc::clone(&document.source), begins };
        Ok(Wanted { side: Side::of(&document), settings: document.settings, text })
    }
}

impl From {
    /// Reads and checks it. Not for the control thread.
    pub(super) fn load(&self) -> Result<Wanted, CommandError> {
        match self {
            From::File(path, who) => file(path, who.clone()),
            From::Text(text, _) => {
                let mut bytes = vec![];
                memory::check(text.len()).map_err(short)?;
                bytes.extend_from_slice(text.as_bytes());
                Wanted::of(DOCUMENT, bytes, 0)
            }
            From::Edited(edited, _) => {
                let mut bytes = vec![];
                memory::check(edited.text.len()).map_err(short)?;
                bytes.extend_from_slice(edited.text.as_bytes());
                let mut wanted = Wanted::of(DOCUMENT, bytes, 0).map_err(|e| edited.refusal(e))?;
                wanted.side.forget_macs(&edited.macs);
                Ok(wanted)
            }
            From::Kept(folder, number) => {
                let record = folder.read(*number).map_err(CommandError::new)?;
                Wanted::of(&record.path.display().to_string(), record.file.into_bytes(), record.begins)
            }
        }
    }

    /// In words.
    pub(super) fn name(&self) -> String {
        match self {
            From::File(path, _) => saved::plain(&path.display().to_string()),
            From::Kept(_, number) => format!("number {number}"),
            From::Text(..) => DOCUMENT.into(),
            From::Edited(edited, _) => saved::plain(&edited.name()),
        }
    }

    /// With whose rights a document is applied that somebody has brought.
    pub(super) fn who(&self) -> Option<&Identity> {
        match self {
            From::File(_, who) => who.as_ref(),
            From::Edited(_, who) => who.as_ref(),
            From::Text(_, who) => Some(who),
            From::Kept(..) => None,
        }
    }
}

impl From {
    /// It is what runs, with changes.
    pub(super) fn is_edited(&self) -> bool {
        matches!(self, From::Edited(..))
    }

    /// A refusal, told of what was asked for.
    pub(super) fn explained(&self, e: CommandError) -> CommandError {
        match self {
            From::Edited(edited, _) => edited.refusal(e),
            _ => e,
        }
    }
}

/// Reads a file with the rights of who names it.
fn file(path: &Path, who: Option<Identity>) -> Result<Wanted, CommandError> {
    let fail = |e: std::io::Error| CommandError::new(format!("cannot read {}: {e}", path.display()));
    let mut bytes = vec![];
    let file = Files::of(who, false).read(path).map_err(fail)?;
    let length = file.metadata().map_err(fail)?.len();
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    memory::check(length).map_err(|e| fail(e.into()))?;
    bytes.reserve_exact(length.min(MAX_BYTES) + 1);
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() > MAX_BYTES {
        return Err(format!("{}: a document has at most 256 MiB", path.display()).into());
    }
    Wanted::of(&path.display().to_string(), bytes, 0)
}

pub(super) fn asked(args: &Args) -> Result<From, CommandError> {
    let path: PathBuf = args.get("file")?;
    if !path.is_absolute() {
        return Err(args.error("file", format!("{}: give the whole path from /", path.display())));
    }
    Ok(From::File(path, args.caller().map(rights)))
}

/// With whose rights somebody's files are read.
pub(super) fn rights(c: &Caller) -> Identity {
    Identity { user: c.user, group: c.group, groups: c.groups.clone() }
}

/// What a plan was made of, and what of the process would have to be started anew.
pub(super) struct Compared {
    pub plan: Plan,
    pub running: Side,
    pub wanted: Side,
    pub text: Text,
    /// Lines of the section `quiver` that differ from what the process has.
    pub restart: Vec<String>,
    /// The same, from what the next start would have.
    pub next: Vec<String>,
    pub settings: Settings,
    /// Files that the section `quiver` names and that could not be looked into.
    pub notes: Vec<String>,
}

/// The files that another section `quiver` names fit, as far as somebody may look into them.
async fn examined(
    desk: &Desk,
    from: &From,
    caller: Option<&Caller>,
    wanted: Wanted,
) -> Result<(Wanted, Vec<String>), CommandError> {
    let Some(examine) = desk.changes.examine.clone() else { return Ok((wanted, vec![])) };
    let opener = Files::of(from.who().cloned().or_else(|| caller.map(rights)), false);
    let looked = move || (examine(&wanted.settings, &opener), wanted);
    let (found, wanted) = net::background::run(looked).await.map_err(CommandError::new)?;
    let found = Diagnostics::new(&wanted.text.source, found);
    if found.has_errors() {
        let told = CommandError::new(found.to_string().trim_end()).with_faults(found.faults(FAULTS));
        return Err(from.explained(told));
    }
    let notes = found.errors.iter().map(|n| format!("{}: {}", n.path, n.message)).collect();
    Ok((wanted, notes))
}

/// Without `exact` what commands made stays.
pub(super) async fn compare(
    desk: &Desk,
    from: From,
    exact: bool,
    caller: Option<&Caller>,
) -> Result<Compared, CommandError> {
    let source = from.clone();
    let load = async { net::background::run(move || source.load()).await.map_err(CommandError::new)? };
    // One reads what runs, for which it takes its memory at once, and the other a file on a thread of its own.
    let (running, wanted) = tokio::try_join!(desk.running(), load)?;
    let restart = desk.settings_differ(&desk.settings, &wanted.settings);
    let next = desk.settings_differ(&desk.next_settings(), &wanted.settings);
    // What the process has was looked into when it began, and what waits for the next start when it was applied.
    let (wanted, notes) = match restart.is_empty() || next.is_empty() {
        true => (wanted, vec![]),
        false => examined(desk, &from, caller, wanted).await?,
    };
    let Wanted { side, settings, text } = wanted;
    let brought = if exact { None } else { desk.changes.brought.borrow().clone() };
    let (plan, running, wanted) = planned(running, side, brought).await?;
    Ok(Compared { plan, running, wanted, text, restart, next, settings, notes })
}

/// The plan from one side to another, made on a thread of its own. With what documents `brought`, what is of commands stays.
pub(super) async fn planned(
    from: Side,
    to: Side,
    brought: Option<Brought>,
) -> Result<(Plan, Side, Side), CommandError> {
    let made = net::background::run(move || engine::plan_of(from, to, brought.as_ref())).await;
    made.map_err(CommandError::new)?.map_err(short)
}

/// Lines made of a plan at a time.
const LINES: usize = 256;

fn diff(app: &mut App, args: &Args) -> Result<Output, CommandError> {
    let (from, desk, caller) = (asked(args)?, Desk::of(app), args.caller().cloned());
    let exact = args.has("exact");
    Ok(Output::stream(async move |_| Ok(differences(&desk, from, exact, caller.as_ref()).await?.output())))
}

/// What a document would change of what runs.
pub(super) async fn differences(
    desk: &Desk,
    from: From,
    exact: bool,
    caller: Option<&Caller>,
) -> Result<Differences, CommandError> {
    let place = desk.changes.places.take(caller).await?;
    let Compared { plan, restart, running, wanted, .. } = compare(desk, from, exact, caller).await?;
    drop_aside((running, wanted));
    let (stays, more) = engine::stays(&plan, NAMED);
    let more = (more != 0).then(|| format!("command: {more} more"));
    let stays = stays.into_iter().map(|s| format!("command: {s}")).chain(more);
    let others = stays.chain(desk.others()).collect();
    Ok(Differences::new(place.hold(plan), restart, others))
}

/// The differences that a plan has found.
pub struct Differences {
    plan: Held<Plan>,
    /// Lines of the section `quiver`, which takes a restart.
    pub restart: Vec<String>,
    /// What is of others and stays.
    pub others: Vec<String>,
    /// None: all were told.
    at: Option<(usize, usize)>,
}

impl Differences {
    pub(super) fn new(plan: Held<Plan>, restart: Vec<String>, others: Vec<String>) -> Self {
        Differences { plan, restart, others, at: Some((0, 0)) }
    }

    /// Some more of them, an object a line; `None` at the end. A piece may be empty.
    ///
    /// # Errors
    /// Others wait for long to compare.
    pub fn some(&mut self) -> Result<Option<Vec<Line>>, CommandError> {
        let Some(start) = self.at else { return Ok(None) };
        let (lines, next) = engine::differences(self.plan.read()?, start, LINES);
        self.at = next;
        Ok(Some(lines))
    }

    /// As a command says it: behind the differences what is of others.
    pub(super) fn output(mut self) -> Output {
        let mut begun = false;
        Output::pieces(move |page| {
            if !std::mem::replace(&mut begun, true) {
                if page.wants_json() {
                    page.open("[");
                }
                for line in &self.restart {
                    match page.wants_json() {
                        true => page.item(&json!({ "verb": "restart", "what": line })),
                        false => _ = writeln!(page, "{line} (takes a restart)"),
                    }
                }
            }
            let Some(lines) = self.some()? else {
                for other in &self.others {
                    match page.wants_json() {
                        true => page.item(&json!({ "verb": "other", "what": other })),
                        false => _ = writeln!(page, "= {other}"),
                    }
                }
                if page.wants_json() {
                    page.close("]");
                }
                return Ok(false);
            };
            for l in &lines {
                match page.wants_json() {
                    true => page.item(&l.to_json()),
                    false => _ = writeln!(page, "{} {}", l.sign, l.text),
                }
            }
            Ok(true)
        })
    }
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
pub struct Told {
    /// The steps in order, from 0.
    pub lines: std::iter::Enumerate<std::vec::IntoIter<Line>>,
    /// How many there are.
    pub count: usize,
    /// How many of them touch traffic.
    touching: usize,
    /// What may not be meant.
    pub warnings: Vec<String>,
    /// Lines of the section `quiver`, which takes a restart.
    pub restart: Vec<String>,
    /// Objects of commands that stay.
    pub stays: usize,
}

impl Compared {
    /// Takes a while where there are many steps: not for the control thread.
    /// Secrets that commands tell are `hidden` or not.
    fn told(self, session: Option<Session>, hidden: bool) -> Told {
        let mut warnings = engine::warnings(&self.plan, &self.running, &self.wanted, session);
        warnings.extend(self.notes);
        let stays = engine::stays(&self.plan, 0).1;
        let mut lines = self.plan.lines_for(!hidden);
        lines.retain(|l| !l.text.is_empty());
        let (count, touching) = (lines.len(), lines.iter().filter(|l| l.touches.is_some()).count());
        let lines = lines.into_iter().enumerate();
        // What they were made of takes long to take apart, and nobody waits for that.
        drop_aside((self.plan, self.running, self.wanted, self.text));
        Told { lines, count, touching, warnings, restart: self.restart, stays }
    }
}

fn plan(app: &mut App, args: &Args) -> Result<Output, CommandError> {
    let (from, desk, exact) = (asked(args)?, Desk::of(app), args.has("exact"));
    let server = args.opt("server")?;
    let session = args.opt("client")?.map(|client| Session { client, server });
    let caller = args.caller().cloned();
    Ok(Output::stream(async move |_| Ok(steps(&desk, from, exact, session, caller.as_ref()).await?.output())))
}

/// The steps from what runs to a document.
pub(super) async fn steps(
    desk: &Desk,
    from: From,
    exact: bool,
    session: Option<Session>,
    caller: Option<&Caller>,
) -> Result<Steps, CommandError> {
    let place = desk.changes.places.take(caller).await?;
    steps_at(place, desk, from, exact, session, caller).await
}

/// The same for who has a place already.
pub(super) async fn steps_at(
    place: Place,
    desk: &Desk,
    from: From,
    exact: bool,
    session: Option<Session>,
    caller: Option<&Caller>,
) -> Result<Steps, CommandError> {
    let mut compared = compare(desk, from, exact, caller).await?;
    let (hidden, folder) = (are_hidden_from(caller), desk.changes.folder.clone());
    let told = net::background::run(move || {
        let refused = folder.and_then(|f| f.would_refuse(compared.text.get().len()));
        compared.notes.extend(refused.map(|why| {
            format!("it may not be possible to keep it, and `apply` would refuse it then: {why}")
        }));
        compared.told(session, hidden)
    });
    let told = told.await.map_err(CommandError::new)?;
    Ok(Steps(place.hold(told)))
}

/// The steps of a plan, in order, and what is told of it.
pub struct Steps(Held<Told>);

impl Steps {
    /// What is told; its lines are taken as they are read.
    ///
    /// # Errors
    /// Others wait for long to compare.
    pub fn read(&mut self) -> Result<&mut Told, CommandError> {
        self.0.read()
    }

    pub(super) fn output(mut self) -> Output {
        let mut begun = false;
        Output::pieces(move |page| {
            let Told { lines, count, touching, warnings, restart, stays } = self.0.read()?;
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
                page.field("stays", &json!(stays));
                page.close("}");
                return Ok(false);
            }
            let _ = match count {
                0 => writeln!(page, "nothing differs"),
                n => writeln!(page, "{n} steps, {touching} of them touch traffic"),
            };
            if *stays != 0 {
                let _ = writeln!(
                    page,
                    "of commands stays: {} (`diff` names them)",
                    plural(*stays as u64, "object")
                );
            }
            warnings.iter().for_each(|w| _ = writeln!(page, "warning: {w}"));
            restart.iter().for_each(|r| _ = writeln!(page, "takes a restart: {r}"));
            Ok(false)
        })
    }
}
