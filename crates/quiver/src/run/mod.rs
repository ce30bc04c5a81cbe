//! `quiver run` and `quiver check`.

mod kept;
mod log;
mod notify;
mod signals;
mod sink;
mod state;
mod supervise;

use api::server::Api;
use clap::Args;
use control::commands::{Desk, Reached};
use control::ctl::{self, RegistryExecutor, Server};
use control::events::Events;
use control::journal::Journal;
use control::saved::Folder;
use control::yaml::{Diagnostics, Document};
use control::{apply, machine, runtime, yaml};
use drivers::Files;
use net::router::Router;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Lines of a run that died which the log of the next one has.
const TOLD: usize = 10;
/// What may wait for the control thread at once, of the API.
const DOOR: usize = 64;

/// Check a configuration: print every error and note with its place, and exit with 0 (no errors) or 1.
#[derive(Debug, Args)]
pub struct Check {
    /// The configuration.
    file: PathBuf,
    /// Print errors and notes as JSON.
    #[arg(long)]
    json: bool,
}

/// Delete the pairs in Linux that a router has left which has ended
#[derive(Debug, Args)]
pub struct Clean {
    /// The control socket that it had
    #[arg(short, long, env = "QUIVER_CTL", default_value = ctl::DEFAULT_SOCKET, value_name = "PATH")]
    socket: PathBuf,
}

/// Run the router.
#[derive(Clone, Debug, Args)]
pub struct Run {
    /// The configuration.
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Keep applied configurations in this folder, and start with the last of them rather than with FILE
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// Serve the API for programs on a Unix socket at this path, rather than where FILE says
    #[arg(long, value_name = "PATH")]
    api: Option<PathBuf>,
    /// Start it anew when it dies, and keep its pairs in Linux up meanwhile; SIGUSR1 ends it in order and starts it anew
    #[arg(long)]
    supervise: bool,
}

/// Runs `quiver check`.
pub fn check(args: &Check) -> ExitCode {
    let found = match yaml::check_file(&args.file) {
        Ok(document) => {
            let files = api::tls::examine(&document.settings, true, &Files::default());
            machine::look(document, files)
        }
        Err(found) => found,
    };
    if args.json {
        println!("{}", found.to_json());
    } else if found.errors.is_empty() {
        println!("{}: no errors", args.file.display());
    } else if found.has_errors() {
        eprint!("{found}");
    } else {
        print!("{found}");
    }
    if found.has_errors() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs `quiver clean`.
pub fn clean(args: &Clean) -> ExitCode {
    let socket = args.socket.display();
    if std::os::unix::net::UnixStream::connect(&args.socket).is_ok() {
        eprintln!("quiver: a router listens on {socket}: `lcp delete` takes its pairs away, or stop it");
        return ExitCode::FAILURE;
    }
    let mut code = ExitCode::SUCCESS;
    for left in drivers::tap::kept::left(&pairs_of(&args.socket)) {
        let of = left.netns.as_ref().map_or(String::new(), |n| format!(" in namespace {n}"));
        match left.delete() {
            Ok(()) => println!("{}{of}", left.name),
            Err(e) => {
                eprintln!("quiver: {e}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

/// Runs `quiver run`.
pub fn run(args: &Run) -> ExitCode {
    if args.supervise {
        return supervise::run(args);
    }
    let kept = kept::at_start();
    let journal = Journal::default();
    let ended = start(args, kept, &journal);
    journal.end();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            // Where standard error is closed nobody wants to know.
            let _ = writeln!(std::io::stderr(), "quiver: {}", e.trim_end());
            ExitCode::FAILURE
        }
    }
}

/// Makes a socket. A router that listens on it may be about to end, as when it is started anew right after SIGTERM: it is given a
/// second.
fn patiently<S>(bind: impl Fn() -> Result<S, ctl::BindError>) -> Result<S, ctl::BindError> {
    let until = Instant::now() + Duration::from_secs(1);
    loop {
        match bind() {
            Err(ctl::BindError::InUse { .. }) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
}

/// Makes the sockets of the API, where there is to be one. The roles over a Unix socket are those of the control socket.
fn bind_api(args: &Run, document: &Document, control: &ctl::Config) -> Result<Option<Api>, String> {
    let settings = &document.settings;
    let wrong = api::tls::examine(settings, false, &Files::default());
    for w in Diagnostics::new(&document.source, wrong).errors {
        let (file, line, column) = (&w.file, w.line, w.column);
        tracing::error!(
            "API: {file}:{line}:{column}: {} {}: {} ({}): NOBODY GETS IN THERE until the files fit, which takes no restart",
            w.rule,
            w.path,
            w.message,
            w.help
        );
    }
    let named = settings.api.as_ref();
    let path = args.api.clone().or_else(|| named.map(|api| api.socket.clone().into()));
    let Some(path) = path else { return Ok(None) };
    let group = named.and_then(|api| api.group.clone()).or_else(|| control.group.clone());
    let config = ctl::Config { path, group, ..control.clone() };
    let api = patiently(|| Api::bind(&config)).map_err(|e| format!("API: {e}"))?;
    let Some(named) = named else { return Ok(Some(api)) };
    let doors = named.listen.iter().enumerate().map(|(i, listen)| api::tls::Door::open(i, listen));
    Ok(Some(api.and(doors.collect(), named.connections, named.rate)))
}

/// What is written on devices in Linux that outlive the router with this control socket.
fn pairs_of(socket: &Path) -> String {
    format!("quiver {}", socket.display())
}

/// Has the last lines of this run be kept, and tells of those of a run before that died.
fn last_words(journal: &Journal, folder: &Folder) {
    match journal.write_to(folder.path()) {
        Ok(Some(words)) => {
            let lines: Vec<&str> = words.lines().collect();
            let last = lines.iter().skip(lines.len().saturating_sub(TOLD));
            tracing::warn!("the run before this one died; its last words (show last-words has more):");
            last.for_each(|line| tracing::warn!("  {line}"));
        }
        Ok(None) => {}
        Err(e) => {
            tracing::warn!("the last words of this run cannot be kept in {}: {e}", folder.path().display())
        }
    }
}

fn start(args: &Run, kept: BTreeMap<String, OwnedFd>, journal: &Journal) -> Result<(), String> {
    let began = Instant::now();
    control::memory::share_where_addresses_are_few();
    let first = state::first(&args.config, args.state.as_deref())?;
    let document = first.document;
    let settings = &document.settings;
    let events = Events::default();
    let (log, sink) = log::open(&settings.log, journal, &events)?;
    match &first.folder {
        None => tracing::warn!(
            "no state folder: a restart forgets what is applied or changed by commands (`quiver run --state FOLDER`, or `state` \
             in the section `quiver`)"
        ),
        Some(folder) => match folder.unwritable() {
            None => last_words(journal, folder),
            Some(why) => tracing::warn!(
                "state folder {}: cannot write to it: {why}: a restart forgets what is changed by commands, and documents are not \
                 applied",
                folder.path().display()
            ),
        },
    }
    let manager = notify::Shared::new(notify::Manager::from_environment());
    if let Some(folder) = &first.folder {
        manager.tell(&format!("X_QUIVER_STATE={}\n", folder.path().display()));
    }
    // A panic in a node is caught and logged by the router; no backtrace on the terminal.
    std::panic::set_hook(Box::new(|info| {
        tracing::error!("caught a panic: {}", info.to_string().replace('\n', " "));
    }));
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| format!("cannot start the control thread: {e}"))?;
    tokio.block_on(async move {
        let signals = signals::Signals::new().map_err(|e| format!("cannot watch for signals: {e}"))?;
        let settings = &document.settings;
        let socket = ctl::Config {
            path: settings.sockets.ctl.clone().into(),
            group: settings.sockets.group.clone(),
            admin_group: settings.sockets.admin_group.clone(),
            idle_timeout: settings.sockets.idle_timeout,
            roles: settings.sockets.roles.clone(),
        };
        // First, because it finds a router that runs already.
        let server = patiently(|| Server::bind(&socket)).map_err(|e| e.to_string())?;
        let api = bind_api(args, &document, &socket)?;
        let mut router = Router::new(apply::router_config(&document)).map_err(|e| e.to_string())?;
        tracing::info!("{}", log::buffers(&router));
        log::instructions(&router);
        for line in &first.told {
            log(line);
        }
        let store = kept::Store::new(Rc::clone(&manager), kept);
        router.outlive(pairs_of(server.path()), Some(Box::new(store)));
        let brought = apply::start(&document, &mut router).map_err(|e| e.to_string())?;
        net::linux_cp::started(&mut router);
        if let Some(folder) = first.folder.as_ref().filter(|f| !first.is_state && f.unwritable().is_none())
            && let Err(e) = folder.begin(&args.config, &document.source.text, ctl::author(None))
        {
            tracing::warn!("{e}");
        }
        // A document with a full table is as large as the table.
        let settings = settings.clone();
        drop(document);
        control::memory::give_back();
        for line in router.take_log() {
            log(&line);
        }
        let workers = router.config().workers;
        tracing::info!(
            "quiver {} runs with {workers} worker{} after {} ms; commands on {}",
            env!("CARGO_PKG_VERSION"),
            if workers == 1 { "" } else { "s" },
            began.elapsed().as_millis(),
            server.path().display()
        );
        let router = Rc::new(RefCell::new(router));
        let registry =
            control::commands::registry().map_err(|e| format!("a command's syntax is wrong: {e}"))?;
        let (load, sources) = (Rc::default(), runtime::Sources::default());
        let context = control::commands::App::new(Rc::clone(&router), settings);
        let mut changes = control::commands::Changes::new(first.folder, Some(brought), Rc::clone(&log));
        changes.events = events;
        changes.examine = Some(Arc::new(|settings, opener| api::tls::examine(settings, false, opener)));
        let reached = Reached::default();
        let trail = Rc::clone(&changes.trail);
        let context = context
            .with_load(&load)
            .with_journal(journal.clone())
            .with_changes(changes)
            .with_kernel(&sources.kernel);
        let context = context.with_clients(&sources.clients).with_reached(&reached);
        let reload = control::commands::Reload::new(&context, args.config.clone(), first.digest);
        let (door, orders) = ctl::door(DOOR);
        let inside = api.is_some().then(|| orders.lend(Desk::of(&context)));
        let version = env!("CARGO_PKG_VERSION");
        let told = Arc::new(
            |warns, line: &str| {
                if warns { tracing::warn!("{line}") } else { tracing::info!("{line}") }
            },
        );
        let mut api = api
            .map(|api| api.serve(version, &registry, door, told, reached))
            .transpose()
            .map_err(|e| e.to_string())?;
        if let Some(api) = &api {
            tracing::info!("API on {}", api.path().display());
        }
        let executor = RegistryExecutor::new(Rc::new(registry), Rc::new(RefCell::new(context)));
        let waits = control::commands::waits(&router);
        let executor = executor.with_trail(trail);
        let executor =
            Rc::new(executor.with_plain(control::commands::plain()).with_load(load).with_waits(waits));
        let (end, watched, leave) = (Rc::clone(&manager), Rc::clone(&router), api.as_mut());
        let stop = async move {
            tokio::select! {
                () = end.watch(&watched) => {}
                () = signals.stop(sink, reload) => {}
            }
            end.stopping();
            // While the control thread still does what is under way.
            if let Some(api) = leave {
                api.farewell().await;
            }
        };
        manager.ready(workers);
        let ended = runtime::run(router, server, inside, executor, sources, log, stop).await;
        drop(api);
        ended.map_err(|e| format!("the control thread failed: {e}"))
    })
}
