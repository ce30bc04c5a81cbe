//! Signals: which end the router, and which do not.

use super::sink::Sink;
use control::commands::Reload;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What would end the process without its orderly stop, and means nothing to a router; real-time signals beside these.
/// `SIGXFSZ` comes when a file reaches `ulimit -f`: the write then fails with an error of its own.
const IGNORED: [i32; 10] = [
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
    libc::SIGXFSZ,
    libc::SIGXCPU,
];
/// How often lost lines of the log are told of, as soon as it can be written again.
const LOOK: Duration = Duration::from_secs(1);

/// The name of a signal that ends programs.
pub fn name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGTERM => "SIGTERM",
        libc::SIGSYS => "SIGSYS",
        _ => return None,
    })
}

/// The signals that the router takes, from when it is made on.
pub struct Signals {
    term: Signal,
    int: Signal,
    quit: Signal,
    hup: Signal,
    ignored: Vec<Signal>,
}

impl Signals {
    /// Takes them.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn new() -> io::Result<Signals> {
        let ignored = IGNORED.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX());
        let ignored = ignored.map(|n| signal(SignalKind::from_raw(n)));
        Ok(Signals {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hup: signal(SignalKind::hangup())?,
            ignored: ignored.collect::<io::Result<_>>()?,
        })
    }

    /// Looks after the log, and reads the configuration again when asked to, until a signal ends the router.
    pub async fn stop(mut self, log: Sink, reload: Rc<Reload>) {
        let mut look = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                _ = self.term.recv() => return tracing::info!("stops: SIGTERM"),
                _ = self.int.recv() => return tracing::info!("stops: SIGINT"),
                _ = self.quit.recv() => return tracing::info!("stops: SIGQUIT"),
                _ = self.hup.recv() => {
                    match log.reopen() {
                        Ok(true) => tracing::info!("SIGHUP: the log was opened anew"),
                        Ok(false) => tracing::info!("SIGHUP: there is no log file to open anew; goes on"),
                        Err(e) => tracing::warn!("SIGHUP: {e}"),
                    }
                    let reload = Rc::clone(&reload);
                    tokio::task::spawn_local(async move { reload.run().await });
                }
                _ = look.tick() => log.tell_of_lost(|lost, why| {
                    tracing::warn!("{lost} lines of the log were lost: {why}");
                }),
            }
            debug_assert!(self.ignored.len() > IGNORED.len());
        }
    }
}
