//! `configuration set`, `merge`, `delete`, `edit` and `get`: single places of what runs, changed as one transaction.

use super::App;
use super::change::{Applied, Applying, COMMENT, CONFIRM, Order, alone, change, nothing_waits};
use super::desired::{Desk, From, Steps, busy, rights, steps_at};
use super::documents::Wish;
use super::places::Held;
use crate::edit::{Act, Base, Change, Edited, Place, Reading, Value};
use crate::engine::Session;
use crate::saved::Kind;
use crate::yaml::secrets::{are_hidden_from, may_stand_in};
use command::{Args, Caller, Command, CommandError, Output};
use net::router::Router;
use serde_json::{Value as Json, json};
use std::sync::Arc;

const PLACE: &str = "as interfaces.eth0.mtu, l3.interfaces[eth0.100].mtu, routes[prefix=10.0.0.0/8,table=7], loopbacks.loop0.addresses[+]";
const PLAN: &str = "only tell the steps";
const VERSION: &str = "of `configuration version`: refuse it where something has changed since";
const RESTART: &str = "also where the section `quiver` differs, which comes with the next start";
/// What stands behind each of the commands that change places.
const OPTIONS: &str = "[plan] [confirm <seconds:u32 1..86400 seconds>] [comment <comment:string>] [version <version:string>] [restart]";
const WHOLE: &str = "It is one transaction with the same checks, steps, history and way back as `configuration apply`, on what runs, \
                     what commands made included. docs/engine.md tells how places are written.";

fn command(
    words: &str,
    help: &str,
    run: fn(&mut App, &Args) -> Result<Output, CommandError>,
) -> Command<App> {
    Command::write(&format!("{words} {OPTIONS}"), help, run)
        .arg("plan", PLAN)
        .arg("seconds", CONFIRM)
        .arg("comment", COMMENT)
        .arg("version", VERSION)
        .arg("restart", RESTART)
}

pub(super) fn commands() -> [Command<App>; 6] {
    [
        command("configuration set <place:string> <value:string>", "Set a place of what runs to a value", set)
            .arg("place", PLACE)
            .arg("value", "YAML or JSON; in quotes where it has spaces")
            .secret_where("value", may_stand_in)
            .details(&format!(
                "The value takes the place of what is there; what is missing on the way is made. Of a route the value is what stands behind \
                 the prefix, or a whole route. {WHOLE}"
            ))
            .example("configuration set interfaces.eth0.mtu 9000")
            .example("configuration set loopbacks.loop0.addresses[+] 10.0.0.2/24 plan")
            .example("configuration set routes[prefix=10.0.0.0/8] \"via 192.0.2.1\" confirm 60"),
        command("configuration merge <place:string> <value:string>", "Set some fields of a place of what runs", merge)
            .arg("place", PLACE)
            .arg("value", "a mapping in YAML or JSON, in quotes where it has spaces; null takes a field away")
            .secret_where("value", may_stand_in)
            .details(&format!(
                "Fields that the mapping does not name stay as they are, in mappings within it too (RFC 7396). \"\" is the place of the \
                 whole document. {WHOLE}"
            ))
            .example("configuration merge interfaces.eth0 \"{mtu: 9000, description: uplink}\""),
        command("configuration delete <place:string>", "Take a place of what runs away", delete)
            .arg("place", PLACE)
            .details(&format!("What is not there cannot be deleted. {WHOLE}"))
            .example("configuration delete loopbacks.loop1")
            .example("configuration delete routes[prefix=10.0.0.0/8,table=7]"),
        command("configuration edit <changes:string>", "Change several places of what runs at once", edit)
            .arg("changes", "a list in YAML or JSON, in quotes: {set: PLACE, to: VALUE}, {merge: PLACE, with: MAPPING}, {delete: PLACE}")
            .secret_where("changes", may_stand_in)
            .details(&format!("The changes are made in order, and take effect together or not at all. {WHOLE}"))
            .example("configuration edit \"[{set: loopbacks.loop0.mtu, to: 9000}, {delete: loopbacks.loop1}]\""),
        Command::read("configuration get [<place:string>]", "What runs at a place, as JSON", get)
            .arg("place", PLACE)
            .details("Without a place it is the whole document. What has its default is not there.")
            .example("configuration get interfaces.eth0")
            .example("configuration get routes[prefix=10.0.0.0/8]"),
        Command::read("configuration version", "The version of what runs", version)
            .details(
                "It is another after each change of what runs that a document can say, static routes and the section `quiver` of the next start included, and after each start. What Linux sets on its side of a pair is none. \
                 Changes of places that name it are refused where something has changed since.",
            )
            .example("configuration version"),
    ]
}

/// Changes that are one transaction.
#[derive(Clone, Debug, Default)]
pub struct Edits {
    /// In order.
    pub changes: Vec<Change>,
    /// Refuse them unless this is the version of what runs.
    pub version: Option<String>,
}

/// What stands at a place.
#[derive(Debug)]
pub struct Got {
    /// As JSON.
    pub json: String,
    /// The version of what runs.
    pub version: String,
}

/// Why a change of places is refused that met others.
const CHANGED: &str = "nothing was changed: the configuration was changed while it was read: ask again";

/// The caller must have the role [`Write`](command::Access::Write) for what changes something.
impl Desk {
    /// The version of what runs: another after each change of what a document can say, of the section `quiver` of the next start, and
    /// after each start.
    ///
    /// # Errors
    /// The router is busy.
    pub fn version(&self) -> Result<String, CommandError> {
        let router = self.router.try_borrow().map_err(|_| busy())?;
        let changes = router.version() + self.changes.settings.get();
        Ok(format!("{:x}-{:x}", self.changes.born, changes))
    }

    fn must_be(&self, version: Option<&str>) -> Result<(), CommandError> {
        let now = self.version()?;
        match version {
            Some(version) if version != now => Err(CommandError::conflict(format!(
                "nothing was changed: version {version} was asked for, and what runs has version {now}: read it again"
            ))),
            _ => Ok(()),
        }
    }

    /// What runs, and its version.
    async fn base(&self, with_routes: bool) -> Result<(Base, String), CommandError> {
        let begin = |router: &Router| Ok(Reading::of(router, with_routes));
        let (reading, version) = self.read_whole(false, &self.next_settings(), begin).await?;
        Ok((reading.base(), version))
    }

    /// Nobody has changed what runs since it had this version.
    pub(super) fn still(&self, version: &str) -> Result<(), CommandError> {
        if self.version()? == version {
            return Ok(());
        }
        Err(CommandError::conflict(CHANGED))
    }

    /// The document that changes make of what runs, and the version of that.
    async fn edited(&self, edits: Edits, caller: Option<&Caller>) -> Result<(From, String), CommandError> {
        self.must_be(edits.version.as_deref())?;
        let (base, version) = self.base(true).await?;
        let edited = net::background::run(move || base.edit(&edits.changes)).await;
        let mut edited: Edited = edited.map_err(CommandError::new)??;
        edited.version.clone_from(&version);
        Ok((From::Edited(Arc::new(edited), caller.map(rights)), version))
    }

    /// Changes places of what runs, as one transaction; what was done, and the version of what runs then.
    ///
    /// # Errors
    /// A change is wrong, a step was refused, or something else is in the way: then nothing was changed. Something has changed since
    /// the version that was named.
    pub async fn edit(
        &self,
        edits: Edits,
        wish: Wish,
        caller: &Caller,
    ) -> Result<(Applied, String), CommandError> {
        let _lock = Applying::begin(&self.changes)?;
        nothing_waits(self)?;
        let (from, _) = self.edited(edits, Some(caller)).await?;
        // What commands made is a part of what runs, so that all that is not in the document is to go.
        let order = Wish { exact: true, ..wish }.order(Kind::Apply, from, caller)?;
        let applied = change(self, order).await?;
        Ok((applied, self.version()?))
    }

    /// The steps of such a transaction. Warnings tell when the way to a session would be lost.
    ///
    /// # Errors
    /// As [`Desk::edit`].
    pub async fn plan_edit(
        &self,
        edits: Edits,
        session: Option<Session>,
        caller: Option<&Caller>,
    ) -> Result<Steps, CommandError> {
        let held = self.changes.places.take(caller).await?;
        let (from, version) = self.edited(edits, caller).await?;
        self.still(&version)?;
        steps_at(held, self, from, true, session, caller).await
    }

    /// What stands at a place of what runs.
    ///
    /// # Errors
    /// The place is none, or names several things.
    pub async fn get(&self, place: Place, caller: Option<&Caller>) -> Result<Held<Got>, CommandError> {
        let held = self.changes.places.take(caller).await?;
        let with_routes = place.elements().first().is_none_or(|first| first == "routes");
        let (mut base, version) = self.base(with_routes).await?;
        let hide = are_hidden_from(caller);
        let read = move || {
            if hide {
                base.hide();
            }
            base.get(&place)
        };
        let json = net::background::run(read).await.map_err(CommandError::new)??;
        Ok(held.hold(Got { json, version }))
    }
}

fn place(args: &Args) -> Result<Place, CommandError> {
    let text: String = args.opt("place")?.unwrap_or_default();
    Place::parse(&text).map_err(|e| args.error("place", format!("{e}: {PLACE}")))
}

/// Does what a command wants with its changes: tells the steps, or takes them.
fn run(
    app: &App,
    args: &Args,
    changes: impl AsyncFnOnce() -> Result<Vec<Change>, CommandError> + 'static,
) -> Result<Output, CommandError> {
    let (version, caller) = (args.opt("version")?, args.caller().cloned());
    if args.has("plan") {
        let desk = Desk::of(app);
        return Ok(Output::stream(async move |_| {
            let edits = Edits { changes: changes().await?, version };
            Ok(desk.plan_edit(edits, None, caller.as_ref()).await?.output())
        }));
    }
    let order = Order::of(args, Kind::Apply, From::Edited(Arc::default(), None))?;
    alone(app, async move |desk| {
        nothing_waits(&desk)?;
        let edits = Edits { changes: changes().await?, version };
        let (from, _) = desk.edited(edits, caller.as_ref()).await?;
        Ok(change(&desk, Order { from, exact: true, ..order }).await?.output())
    })
}

fn value(args: &Args) -> Result<Value, CommandError> {
    args.get::<String>("value").map(Value::text)
}

fn set(app: &mut App, args: &Args) -> Result<Output, CommandError> {
    let change = Change { place: place(args)?, act: Act::Set(value(args)?) };
    run(app, args, async move || Ok(vec![change]))
}

fn merge(app: &mut App, args: &Args) -> Result<Output, CommandError> {
    let change = Change { place: place(args)?, act: Act::Merge(value(args)?) };
    run(app, args, async move || Ok(vec![change]))
}

fn delete(app: &mut App, args: &Args) -> Result<Output, CommandError> {
    let change = Change { place: place(args)?, act: Act::Delete };
    run(app, args, async move || Ok(vec![change]))
}

fn edit(app: &mut App, args: &Args) -> Result<Output, CommandError> {
    let (text, asked): (String, _) = (args.get("changes")?, args.clone());
    // There may be many of them.
    let changes = async move || {
        let read = net::background::run(move || Change::list(&text)).await.map_err(CommandError::new)?;
        read.map_err(|e| asked.error("changes", e))
    };
    run(app, args, changes)
}

fn get(app: &mut App, args: &Args) -> Result<Output, CommandError> {
    let (place, desk, caller) = (place(args)?, Desk::of(app), args.caller().cloned());
    Ok(Output::stream(async move |_| {
        let mut got = desk.get(place, caller.as_ref()).await?;
        let json = std::mem::take(&mut got.read()?.json);
        // There may be a million routes.
        let read = move || {
            let value: Json = serde_json::from_str(&json).unwrap_or_default();
            let text = serde_json::to_string_pretty(&value).unwrap_or_default();
            [pieces(&json, true), pieces(&text, false)].map(Vec::into_iter)
        };
        let [mut json, mut text] = net::background::run(read).await.map_err(CommandError::new)?;
        Ok(Output::pieces(move |page| {
            got.read()?;
            let next = if page.wants_json() { json.next() } else { text.next() };
            let Some(piece) = next else {
                let end = if page.wants_json() { "" } else { "\n" };
                page.close(end);
                return Ok(false);
            };
            page.open(&piece);
            Ok(true)
        }))
    }))
}

/// Bytes of an answer that are written at a time.
const BYTES: usize = 16 << 10;

/// Pieces of a JSON text. Where it is to be JSON they end behind a value.
fn pieces(text: &str, json: bool) -> Vec<String> {
    let (mut out, mut from, mut quoted, mut escaped) = (vec![], 0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        let ends = if json { byte == b',' && !quoted } else { byte == b'\n' };
        if ends && at - from >= BYTES {
            out.extend(text.get(from..at).map(String::from));
            from = at;
        }
        quoted ^= byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
    }
    out.extend(text.get(from..).map(String::from));
    out
}

fn version(app: &mut App, _: &Args) -> Result<Output, CommandError> {
    let version = Desk::of(app).version()?;
    Ok(Output::new(version.clone(), json!({ "version": version })))
}
