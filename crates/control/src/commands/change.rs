//! `configuration apply`, `confirm`, `rollback`: changing what runs as a whole, and the way back.

use super::App;
use super::desired::{Compared, Desk, EXACT, From, PIECE, Text, asked, busy, compare, planned, rights};
use super::keeping;
use super::places::Places;
use crate::ctl::author;
use crate::edit::NOT_ALL;
use crate::engine::{self, Brought, Carry, Failed, Plan, Progress, Side};
use crate::events::{Events, Phase};
use crate::runtime::Logger;
use crate::saved::{Author, Folder, Header, Kind, Prepared, SavedError};
use crate::trail::Trail;
use crate::yaml::{Diagnostic, Settings};
use command::{Access, Args, Caller, Command, CommandError, Output};
use drivers::Files;
use net::background::drop_aside;
use net::router::LogLine;
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::task::JoinHandle;

/// How often a way back is tried that others are in the way of, and how long it waits between.
const TRIES: u32 = 600;
const WAIT: Duration = Duration::from_millis(100);
/// Lines of a difference that are made for the history, which keeps less.
const DIFFERENCES: usize = 400;

/// Looks into the files that the section `quiver` names, with somebody's rights: what does not fit, as errors with their places, and
/// notes of what could not be looked into.
pub type Examine = Arc<dyn Fn(&Settings, &Files) -> Vec<Diagnostic> + Send + Sync>;

/// What is being changed by documents, and where that is kept.
pub struct Changes {
    /// None: nothing survives a restart.
    pub(super) folder: Option<Arc<Folder>>,
    log: Logger,
    /// Who gave commands.
    pub trail: Rc<Trail>,
    /// Tells this start from others.
    pub(super) born: u128,
    /// Who follows what becomes of them.
    pub events: Events,
    /// What a section `quiver` is examined by that another start is to have.
    pub examine: Option<Examine>,
    /// Nothing else changes anything.
    pub(super) applying: Cell<bool>,
    /// What was applied and waits to be confirmed.
    pub(super) pending: RefCell<Option<Pending>>,
    /// For comparisons that change nothing.
    pub(super) places: Places,
    /// What the last document brought; unknown: all that runs.
    pub(super) brought: RefCell<Option<Brought>>,
    /// The section `quiver` that is kept for the next start, where it is another than the process's.
    pub(super) next: RefCell<Option<Rc<Settings>>>,
    /// How often that has become another.
    pub(super) settings: Cell<u64>,
}

impl Default for Changes {
    fn default() -> Self {
        Changes::new(None, None, Rc::new(|_| ()))
    }
}

impl Changes {
    /// Changes that are kept in a folder, and told in the log, from what a start has brought.
    pub fn new(folder: Option<Folder>, brought: Option<Brought>, log: Logger) -> Changes {
        Changes {
            folder: folder.map(Arc::new),
            trail: Rc::new(Trail::new(Rc::clone(&log))),
            log,
            born: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_micros()),
            events: Events::default(),
            examine: None,
            applying: Cell::default(),
            pending: RefCell::default(),
            places: Places::default(),
            brought: RefCell::new(brought),
            next: RefCell::default(),
            settings: Cell::default(),
        }
    }

    /// The next start has another section `quiver`, or that of the process.
    fn set_next(&self, next: Option<Rc<Settings>>) {
        let was = self.next.replace(next);
        if was != *self.next.borrow() {
            self.settings.set(self.settings.get() + 1);
        }
    }

    pub(super) fn log(&self, warn: bool, text: String) {
        (self.log)(&LogLine { warn, text });
    }

    pub(super) fn folder(&self) -> Result<Arc<Folder>, CommandError> {
        self.folder.clone().ok_or_else(|| {
            CommandError::new(
                "the router keeps no configurations: start it with `quiver run --state FOLDER`, or name the folder as \
                 `state` in the section `quiver`",
            )
        })
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        // The next start is the way back, and tells so.
        if let Some(prepared) = self.pending.get_mut().take().and_then(|mut p| p.prepared.take()) {
            prepared.leave();
        }
    }
}

/// What was applied and is not confirmed.
pub(super) struct Pending {
    /// What ran before, and what documents had brought of it.
    before: Side,
    brought: Option<Brought>,
    prepared: Option<Prepared>,
    /// The section `quiver` of the next start, once it is confirmed.
    next: Option<Rc<Settings>>,
    /// Goes back when the time is over.
    timer: Option<JoinHandle<()>>,
    told: String,
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(timer) = &self.timer {
            timer.abort();
        }
    }
}

pub(super) const CONFIRM: &str =
    "go back by itself after so many seconds, unless `configuration confirm` comes";
pub(super) const COMMENT: &str = "a word, or several in quotes, for the history";

pub(super) fn commands() -> [Command<App>; 3] {
    [
        Command::write(
            "configuration apply <file:path> [confirm <seconds:u32 1..86400 seconds>] [comment <comment:string>] [restart] [exact]",
            "Bring what runs to a document, or change nothing",
            apply,
        )
        .arg("file", "the whole path of a document, from /; the router reads it with your rights")
        .arg("exact", EXACT)
        .arg("seconds", CONFIRM)
        .arg("comment", COMMENT)
        .details(
            "What does not differ is not touched, and packets flow. What the document before brought and this one does not say is taken \
             away; what commands made stays, where it can, unless you say `exact`. When a step is refused, all steps before it are \
             undone: what runs is what ran before. Until it ends, other commands that change something are refused. Where the \
             router has a state folder, the document is kept there, and is what the next start begins with; what is to be \
             confirmed is not, until it is. A document that differs in the section `quiver` is refused, as that takes a restart: \
             with `restart` it is applied and kept, and that section comes with the next start. `quiver apply FILE` does the same \
             from the shell.",
        )
        .example("configuration apply /etc/quiver/new.yaml")
        .example("configuration apply /etc/quiver/new.yaml confirm 60 comment \"new uplink\""),
        Command::write("configuration confirm", "Keep what was applied to be confirmed", confirm)
            .details("Without it the router goes back to what ran before. `quiver confirm` does the same from the shell.")
            .example("configuration confirm"),
        Command::write(
            "configuration rollback [<number:u64 1..18446744073709551615>] [confirm <seconds:u32 1..86400 seconds>] \
             [comment <comment:string>] [restart] [exact]",
            "Go back to an earlier configuration",
            rollback,
        )
        .arg("exact", EXACT)
        .arg("number", "of `configuration history`; the one before the last by default")
        .arg("seconds", CONFIRM)
        .arg("comment", COMMENT)
        .details(
            "It is applied as a document is, and is the last one of the history then. While something waits to be confirmed, \
             `configuration rollback` without a number goes back to what ran before that, at once. `quiver rollback [N]` does the \
             same from the shell.",
        )
        .example("configuration rollback")
        .example("configuration rollback 3"),
    ]
}

/// Says that something is applied, for as long as it is there.
pub(super) struct Applying(Rc<Changes>);

impl Applying {
    pub fn begin(changes: &Rc<Changes>) -> Result<Applying, CommandError> {
        if changes.applying.replace(true) {
            return Err(applying());
        }
        Ok(Applying(Rc::clone(changes)))
    }
}

impl Drop for Applying {
    fn drop(&mut self) {
        self.0.applying.set(false);
    }
}

/// Why commands that change something are refused.
pub(super) fn applying() -> CommandError {
    CommandError::new("a configuration is being applied: try again when that has ended")
}

/// What somebody wants applied.
pub(super) struct Order {
    pub kind: Kind,
    pub from: From,
    pub confirm: Option<Duration>,
    pub restart: bool,
    pub exact: bool,
    pub comment: String,
    pub caller: Option<Caller>,
}

impl Order {
    pub fn of(args: &Args, kind: Kind, from: From) -> Result<Order, CommandError> {
        let confirm = args.opt::<u32>("seconds")?.map(|s| Duration::from_secs(s.into()));
        let comment = args.opt::<String>("comment")?.unwrap_or_default();
        let (restart, exact, caller) = (args.has("restart"), args.has("exact"), args.caller().cloned());
        Order { kind, from, confirm, restart, exact, comment, caller }.allowed()
    }

    /// The order itself, where who gives it may do so.
    pub fn allowed(mut self) -> Result<Order, CommandError> {
        self.comment = crate::saved::plain(&self.comment);
        if self.restart && self.caller.as_ref().is_some_and(|c| c.access < Access::Admin) {
            return Err(CommandError::needs(
                Access::Admin,
                "the section `quiver` takes the role `admin`: `restart` is refused",
            ));
        }
        Ok(self)
    }
}

/// Runs what changes something to its end, while nothing else changes anything.
pub(super) fn alone<F>(app: &App, work: impl FnOnce(Desk) -> F + 'static) -> Result<Output, CommandError>
where
    F: Future<Output = Result<Output, CommandError>> + 'static,
{
    let (desk, lock) = (Desk::of(app), Applying::begin(&app.changes)?);
    Ok(Output::work(async move || {
        let done = work(desk).await;
        drop(lock);
        done
    }))
}

fn apply(app: &mut App, args: &Args) -> Result<Output, CommandError> {
    let order = Order::of(args, Kind::Apply, asked(args)?)?;
    alone(app, async move |desk| Ok(change(&desk, order).await?.output()))
}

fn rollback(app: &mut App, args: &Args) -> Result<Output, CommandError> {
    let number = args.opt::<u64>("number")?;
    let folder = match number {
        None if app.changes.pending.borrow().is_some() => None,
        _ => Some(app.changes.folder()?),
    };
    let order = folder.map(|f| Order::of(args, Kind::Rollback, From::Kept(f, number.unwrap_or(0))));
    let (order, caller) = (order.transpose()?, args.caller().cloned());
    alone(app, async move |desk| Ok(rolled_back(&desk, order, caller).await?.output()))
}

/// Goes back: to what an order wants, the last but one where that says number 0; or to what ran before that which waits to be
/// confirmed.
pub(super) async fn rolled_back(
    desk: &Desk,
    order: Option<Order>,
    caller: Option<Caller>,
) -> Result<Applied, CommandError> {
    let Some(mut order) = order else {
        let by = who(caller).await;
        let why = format!("{} asked for it", words(&by));
        let (steps, number) = back(desk, by, &why).await?;
        let text = format!("went back in {steps} steps");
        return Ok(Applied { steps, number, within: None, restart: vec![], text });
    };
    if let From::Kept(folder, 0) = &order.from {
        let (folder, known) = (Arc::clone(folder), Arc::clone(folder));
        let before = background(move || known.before_last()).await?;
        let before = before.ok_or_else(|| CommandError::new("there is nothing to go back to"))?;
        order.from = From::Kept(folder, before);
    }
    change(desk, order).await
}

/// What a change of the configuration has done.
pub struct Applied {
    /// Steps that were taken.
    pub steps: usize,
    /// Its number in the history, where it is kept already.
    pub number: Option<u64>,
    /// Seconds after which it goes back, unless it is confirmed.
    pub within: Option<u64>,
    /// Lines of the section `quiver`, which come with the next start.
    pub restart: Vec<String>,
    /// The same in words.
    pub text: String,
}

impl Applied {
    pub(super) fn output(self) -> Output {
        let json = json!({ "steps": self.steps, "number": self.number, "confirm-within": self.within });
        Output::new(self.text, json)
    }
}

fn confirm(app: &mut App, args: &Args) -> Result<Output, CommandError> {
    let caller = args.caller().cloned();
    alone(app, async move |desk| {
        let number = confirmed(&desk, caller).await?;
        Ok(Output::new(format!("confirmed{}", kept_as(number)), json!({ "number": number })))
    })
}

fn kept_as(number: Option<u64>) -> String {
    number.map_or(String::new(), |n| format!(", kept as number {n}"))
}

/// Keeps what waits to be confirmed; its number in the history, where there is one.
pub(super) async fn confirmed(desk: &Desk, caller: Option<Caller>) -> Result<Option<u64>, CommandError> {
    let by = who(caller).await;
    let none = || CommandError::new("nothing waits to be confirmed");
    let taken = desk.changes.pending.borrow_mut().take();
    let mut pending = taken.ok_or_else(none)?;
    let number = match pending.prepared.take() {
        None => None,
        Some(prepared) => match keep(desk, prepared).await {
            Ok(number) => Some(number),
            Err((prepared, e)) => {
                // It may be confirmed again until the time is over.
                pending.prepared = prepared;
                *desk.changes.pending.borrow_mut() = Some(pending);
                return Err(CommandError::new(format!("not confirmed: {e}")));
            }
        },
    };
    let told = std::mem::take(&mut pending.told);
    drop_aside(std::mem::take(&mut pending.before));
    desk.changes.set_next(pending.next.take());
    let kept = kept_as(number);
    desk.changes.log(false, format!("configuration: {} confirmed: {told}{kept}", words(&by)));
    desk.changes.events.configured(Phase::Confirmed, &by, number, None, &told);
    Ok(number)
}

/// Work for a disk, on a thread of its own.
pub(super) async fn background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SavedError> + Send + 'static,
) -> Result<T, CommandError> {
    let done = net::background::run(work).await.map_err(CommandError::new)?;
    done.map_err(|e| CommandError::new(e.to_string()))
}

/// What was prepared counts from now on; where the disk refuses, it is handed back.
async fn keep(desk: &Desk, prepared: Prepared) -> Result<u64, (Option<Prepared>, String)> {
    let folder = desk.changes.folder().map_err(|e| (None, e.message))?;
    let work = move || (folder.keep(&prepared).map_err(|e| e.to_string()), prepared);
    match net::background::run(work).await {
        Ok((Ok(number), _)) => Ok(number),
        Ok((Err(e), prepared)) => Err((Some(prepared), e)),
        Err(e) => Err((None, e.to_string())),
    }
}

/// Who gives a command. Names of users may come over a network: not from the control thread.
pub(super) async fn who(caller: Option<Caller>) -> Author {
    net::background::run(move || author(caller.as_ref())).await.unwrap_or_default()
}

/// The router itself reads its file again.
fn reloads() -> Author {
    Author { from: "SIGHUP".into(), ..author(None) }
}

/// Who it was, in a line of the log.
pub(super) fn words(author: &Author) -> String {
    let name = if author.name.is_empty() { author.user.to_string() } else { author.name.clone() };
    if author.from.is_empty() { name } else { format!("{name} ({})", author.from) }
}

/// What the history says of a change.
pub(super) fn header(kind: Kind, source: String, author: Author, comment: String, plan: &Plan) -> Header {
    let (lines, next) = engine::differences(plan, (0, 0), DIFFERENCES);
    let more = if next.is_some() { plan.len().saturating_sub(lines.len()) as u64 } else { 0 };
    let none = Header { more, ..Header::new(kind, author, source, comment) };
    none.with_diff(lines.into_iter().map(|l| format!("{} {}", l.sign, l.text)))
}

/// Writes what will be kept once it runs: a full disk shows before anything is touched.
async fn prepare(
    desk: &Desk,
    order: &Order,
    author: Author,
    (plan, wanted): (Plan, Side),
    text: Text,
) -> Result<(Plan, Side, Option<Prepared>, Option<&'static str>), CommandError> {
    let Some(folder) = desk.changes.folder.clone() else { return Ok((plan, wanted, None, None)) };
    let (kind, source) = (order.kind, order.from.name());
    let (comment, confirm) = (order.comment.clone(), order.confirm.map(|t| t.as_secs()));
    let (edited, commands) = (order.from.is_edited(), desk.changes.trail.unsaved());
    background(move || {
        let last = || {
            let number = folder.numbers().ok()?.first().copied()?;
            folder.read(number).ok()
        };
        if plan.is_empty() && last().is_some_and(|r| r.header.is_state() && r.document() == text.get()) {
            return Ok((plan, wanted, None, None));
        }
        // Changes of places are made in the operator's text.
        let (kept, told) = match edited {
            true => keeping::of_changes(&folder, text.get(), &wanted),
            false => (None, None),
        };
        let mut header = header(kind, source, author, comment, &plan);
        header.confirm = confirm.filter(|_| plan.visible().next().is_some());
        // It keeps what they made. Others may come before it is confirmed.
        if edited && header.confirm.is_none() {
            header.commands = commands;
        }
        let prepared = folder.prepare(header, kept.as_deref().unwrap_or_else(|| text.get()))?;
        Ok((plan, wanted, Some(prepared), told))
    })
    .await
    .map_err(|e| CommandError::new(format!("nothing was changed: {e}")))
}

/// Nothing waits to be confirmed.
pub(super) fn nothing_waits(desk: &Desk) -> Result<(), CommandError> {
    if desk.changes.pending.borrow().is_none() {
        return Ok(());
    }
    let why = "nothing was changed: what was applied before waits to be confirmed. `configuration confirm` keeps it, \
               `configuration rollback` goes back";
    Err(CommandError::new(why))
}

/// Brings what runs to what an order wants, and keeps it.
pub(super) async fn change(desk: &Desk, order: Order) -> Result<Applied, CommandError> {
    nothing_waits(desk)?;
    let Compared { plan, running, wanted, text, restart, next: differs, settings, notes: _ } =
        compare(desk, order.from.clone(), order.exact, order.caller.as_ref()).await?;
    if order.from.is_edited() && plan.is_empty() && differs.is_empty() {
        // What documents brought, and what is kept, stays as it is.
        drop_aside((plan, running, wanted));
        return Ok(Applied { steps: 0, number: None, within: None, restart, text: "nothing differs".into() });
    }
    // Also where it takes back what waits for the next start.
    if !differs.is_empty() {
        let lines = differs.join("\n");
        if !order.restart {
            return Err(CommandError::new(format!(
                "nothing was changed: the section `quiver` differs, which takes a restart\n{lines}"
            )));
        }
        desk.changes.folder()?;
    }
    // What was kept is brought by who asks for it, and whoever had it applied may have had more rights.
    let asks = order.caller.as_ref().map(rights);
    if let Some(who) = order.from.who().or(asks.as_ref())
        && !who.is_privileged()
        && let Some(why) = plan.for_root()
    {
        return Err(CommandError::denied(format!("nothing was changed: {why}")));
    }
    let known = move || (Brought::but(&wanted, &plan), plan, wanted);
    let (brought, plan, wanted) = net::background::run(known).await.map_err(CommandError::new)?;
    let next = (!restart.is_empty()).then(|| Rc::new(settings));
    let steps = plan.visible().count();
    let author = if order.kind == Kind::Reload { reloads() } else { who(order.caller.clone()).await };
    let by = words(&author);
    let (plan, wanted, prepared, anew) = prepare(desk, &order, author.clone(), (plan, wanted), text).await?;
    // Not a moment before: it takes away what its document does not say.
    if let From::Edited(edited, _) = &order.from {
        desk.still(&edited.version)?;
    }
    let mut carry = Carry::new(plan);
    if let Some(failed) = carried(desk, &mut carry).await {
        return Err(order.from.explained(refusal(&carry, &wanted, &failed)));
    }
    let s = if steps == 1 { "" } else { "s" };
    let mut text = if steps == 0 { "nothing differs".into() } else { format!("applied in {steps} step{s}") };
    let comment = if order.comment.is_empty() { String::new() } else { format!(": {}", order.comment) };
    let told = format!("{} of {}, {steps} step{s}{comment}", order.kind.name(), order.from.name());
    let mut number = None;
    let confirm = order.confirm.filter(|_| steps != 0);
    if let Some(time) = confirm {
        let seconds = time.as_secs();
        let _ = write!(text, "; goes back in {seconds} s unless `quiver confirm` comes");
        let begun = format!("configuration: {} began: {told}; to be confirmed within {seconds} s", by);
        desk.changes.log(false, begun);
        desk.changes.events.configured(Phase::Began, &author, None, Some(seconds), &told);
        let was = desk.changes.brought.replace(Some(brought));
        let pending = Pending { before: running, brought: was, prepared, next, timer: None, told };
        *desk.changes.pending.borrow_mut() = Some(pending);
        let timer = tokio::task::spawn_local(timed(desk.clone(), time));
        if let Some(pending) = desk.changes.pending.borrow_mut().as_mut() {
            pending.timer = Some(timer);
        }
    } else {
        drop_aside(running);
        if let Some(prepared) = prepared {
            match keep(desk, prepared).await {
                Ok(n) => number = Some(n),
                Err((_, e)) => {
                    carry.give_up("it could not be kept");
                    let failed = carried(desk, &mut carry).await;
                    let left = failed.map(|f| f.left).unwrap_or_default();
                    let left: String = left.iter().map(|l| format!("\ncould not be undone: {l}")).collect();
                    return Err(CommandError::new(format!("nothing was changed: {e}{left}")));
                }
            }
        }
        drop_aside(desk.changes.brought.replace(Some(brought)));
        desk.changes.set_next(next);
        if order.exact {
            // What commands made is kept by it, or gone.
            desk.changes.trail.saved();
        }
        let kept = kept_as(number);
        text += &kept;
        if steps != 0 || number.is_some() {
            desk.changes.log(false, format!("configuration: {}: {told}{kept}", by));
            let back = order.kind == Kind::Rollback;
            let phase = if back { Phase::RolledBack } else { Phase::Applied };
            desk.changes.events.configured(phase, &author, number, None, &told);
        }
    }
    anew.iter().for_each(|told| _ = write!(text, "\n{told}"));
    if !restart.is_empty() {
        text += "\nwith the next start:";
        restart.iter().for_each(|r| _ = write!(text, "\n{r}"));
    }
    drop_aside((carry, wanted));
    Ok(Applied { steps, number, within: confirm.map(|t| t.as_secs()), restart, text })
}

/// Carries a plan out, or back where it was given up or fails.
async fn carried(desk: &Desk, carry: &mut Carry) -> Option<Failed> {
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
            Progress::Waits => carry.waits().await,
            Progress::Done => return None,
            Progress::Failed(failed) => return Some(failed),
        }
    }
}

/// Goes back when the time is over.
async fn timed(desk: Desk, time: Duration) {
    tokio::time::sleep(time).await;
    let lock = loop {
        match Applying::begin(&desk.changes) {
            Ok(lock) => break lock,
            // Somebody confirms, or goes back: then this ends here.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    // From here on it is not aborted by what it takes away itself.
    if let Some(pending) = desk.changes.pending.borrow_mut().as_mut() {
        pending.timer = None;
    }
    let _ = back(&desk, Author::automatic(), "it was not confirmed in time").await;
    drop(lock);
}

/// Goes back to what ran before that which waits to be confirmed. Answers the steps, and the number in the history.
async fn back(desk: &Desk, by: Author, why: &str) -> Result<(usize, Option<u64>), CommandError> {
    let Some(mut pending) = desk.changes.pending.borrow_mut().take() else {
        return Err(CommandError::new("nothing waits to be confirmed"));
    };
    let before = std::mem::take(&mut pending.before);
    let done = went_back(desk, before).await;
    let told = &pending.told;
    match &done {
        Ok(steps) => {
            desk.changes.log(true, format!("configuration: went back in {steps} steps, as {why}: {told}"));
        }
        Err(e) => desk.changes.log(
            true,
            format!(
                "configuration: could not go back, so it still runs, and is not kept: {told}: {}",
                e.message
            ),
        ),
    }
    let (prepared, folder, why) = (pending.prepared.take(), desk.changes.folder.clone(), why.to_owned());
    let (author, words) = (by.clone(), format!("{why}: {told}"));
    // Its file goes on another thread.
    let kept = background(move || {
        let header = prepared.as_ref().map(|p| p.header.undone(by, &why));
        drop(prepared);
        match (header, folder) {
            (Some(header), Some(folder)) => folder.keep_back(header),
            _ => Ok(None),
        }
    });
    let kept = kept.await;
    let steps = done.inspect_err(|e| {
        desk.changes.events.configured(Phase::Stuck, &author, None, None, &format!("{words}: {}", e.message));
    })?;
    desk.changes.brought.replace(pending.brought.take());
    let number = kept.unwrap_or_else(|e| {
        desk.changes
            .log(true, format!("configuration: the history does not have that it went back: {}", e.message));
        None
    });
    desk.changes.events.configured(Phase::WentBack, &author, number, None, &words);
    Ok((steps, number))
}

async fn went_back(desk: &Desk, before: Side) -> Result<usize, CommandError> {
    let mut tries = 0;
    let running = loop {
        match desk.running_for_sure().await {
            Ok(running) => break running,
            // There may be no memory for a moment.
            Err(e) if tries == TRIES => return Err(e),
            Err(_) => tries += 1,
        }
        tokio::time::sleep(WAIT).await;
    };
    let (plan, running, before) = planned(running, before, None).await?;
    let steps = plan.visible().count();
    let mut carry = Carry::new(plan);
    match carried(desk, &mut carry).await {
        None => {
            drop_aside((carry, running, before));
            Ok(steps)
        }
        Some(failed) => Err(refusal(&carry, &before, &failed)),
    }
}

fn refusal(carry: &Carry, wanted: &Side, failed: &Failed) -> CommandError {
    let plan = carry.plan();
    // What could not be undone stays as it is.
    let mut text = String::from(if failed.left.is_empty() { "nothing was changed" } else { NOT_ALL });
    let mut faults = vec![];
    if let Some(step) = plan.steps.get(failed.step) {
        let what = step.line(plan, &Default::default());
        let fault = wanted.refusal(&step.id, failed.number, &failed.message).fault();
        let line =
            if fault.line == 0 { String::new() } else { format!(", line {} of the document", fault.line) };
        faults.push(fault);
        let _ = write!(text, ": {} {}{line}: {}", what.sign, what.text, failed.message);
    }
    for left in &failed.left {
        let _ = write!(text, "\ncould not be undone: {left}");
    }
    CommandError::new(text).with_faults(faults)
}
