//! `quiver run --supervise`: starts the router, and starts it anew when it dies. It is to the router what systemd is to a service: the
//! router tells it of its life and gives it what is to stay open (sd_notify(3)); what there is above it hears it, too.

use super::kept::{self, VARIABLE};
use super::notify::{Manager, Shared};
use super::sink::Sink;
use super::{Run, signals};
use control::last_words;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::io::{self, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tracing_subscriber::fmt::MakeWriter;

/// A router that has run for so long has not died of its start.
const WELL: Duration = Duration::from_secs(10);
/// The pause before a start that follows a death soon after a start: twice as long each time.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);
/// Without a sign of life for so long the router hangs.
const WATCHDOG: Duration = Duration::from_secs(30);

/// How long to wait before the next start.
#[derive(Debug, Default)]
struct Pauses(u32);

impl Pauses {
    /// The router died after so long.
    fn next(&mut self, ran: Duration) -> Duration {
        if ran >= WELL {
            self.0 = 0;
        }
        let pause = match self.0 {
            0 => Duration::ZERO,
            n => LONGEST.min(PAUSE.saturating_mul(1 << (n - 1).min(16))),
        };
        self.0 += 1;
        pause
    }
}

/// What the router has told.
#[derive(Default)]
struct Told {
    ready: bool,
    stopping: bool,
    state: Option<PathBuf>,
    sign: Option<Instant>,
}

struct Supervisor {
    args: Run,
    program: PathBuf,
    /// Where the router tells of itself.
    socket: tokio::net::UnixDatagram,
    address: String,
    above: Shared,
    kept: BTreeMap<String, OwnedFd>,
    told: Told,
    log: Sink,
}

/// Runs until the router is ended, or does not start the first time.
pub fn run(args: &Run) -> ExitCode {
    let kept = kept::at_start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result =
        runtime.and_then(|runtime| runtime.block_on(async { Supervisor::new(args, kept)?.run().await }));
    match result {
        Ok(code) => code,
        Err(e) => {
            let _ = writeln!(io::stderr(), "quiver: cannot supervise: {e}");
            ExitCode::FAILURE
        }
    }
}

/// The code of a process that ended like this.
fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (_, Some(n)) => format!(
            "was ended by signal {n}{}",
            signals::name(n).map_or_else(String::new, |n| format!(" ({n})"))
        ),
        (Some(n), _) => format!("ended with status {n}"),
        _ => "ended".into(),
    }
}

impl Supervisor {
    fn new(args: &Run, kept: BTreeMap<String, OwnedFd>) -> io::Result<Supervisor> {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let name = format!("quiver-{}-{:x}", std::process::id(), since.as_nanos());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        socket.set_nonblocking(true)?;
        // Who else may send to a name must not be taken for the router.
        rustix::net::sockopt::set_socket_passcred(&socket, true)?;
        Ok(Supervisor {
            args: Run { supervise: false, ..args.clone() },
            program: std::env::current_exe()?,
            socket: tokio::net::UnixDatagram::from_std(socket)?,
            address: format!("@{name}"),
            above: Rc::new(Manager::from_environment()),
            kept,
            told: Told::default(),
            log: Sink::new(None)?,
        })
    }

    fn say(&self, text: &str) {
        let _ = self.log.make_writer().write_all(format!("quiver: {text}\n").as_bytes());
    }

    fn start(&self) -> io::Result<Child> {
        for fd in self.kept.values() {
            fcntl_setfd(fd, FdFlags::empty())?;
        }
        let mut command = Command::new(&self.program);
        command.arg("run").arg("--config").arg(&self.args.config);
        if let Some(state) = &self.args.state {
            command.arg("--state").arg(state);
        }
        if let Some(api) = &self.args.api {
            command.arg("--api").arg(api);
        }
        command.env("NOTIFY_SOCKET", &self.address).env(VARIABLE, kept::words(&self.kept));
        // Another time that is asked for from above stands.
        if std::env::var_os("WATCHDOG_USEC").is_none() {
            command.env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
        }
        for name in ["WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"] {
            command.env_remove(name);
        }
        command.spawn()
    }

    async fn run(mut self) -> io::Result<ExitCode> {
        let mut signals = Taken::new()?;
        let (mut pauses, mut was_ready) = (Pauses::default(), false);
        loop {
            let (began, mut child) = (Instant::now(), self.start()?);
            self.told = Told { state: self.told.state.take(), ..Told::default() };
            let (status, asked) = self.watch(&mut child, &mut signals).await?;
            while self.hear(child.id()).is_ok() {}
            was_ready |= self.told.ready;
            let ran = began.elapsed();
            match asked {
                Some(Asked::End) => return Ok(code(status)),
                Some(Asked::Restart) => {
                    self.say("the router ended as asked; it is started anew");
                    continue;
                }
                // It says itself why it does not start, or was told to end by somebody else.
                None if !was_ready || status.success() => return Ok(code(status)),
                None => {}
            }
            let pause = pauses.next(ran);
            let text = format!(
                "the router (process {}) {} after {:.1} s",
                child.id(),
                how(status),
                ran.as_secs_f64()
            );
            if let Some(state) = &self.told.state {
                last_words::add(state, &text);
            }
            let when = if pause.is_zero() { "now".into() } else { format!("in {} ms", pause.as_millis()) };
            self.say(&format!("{text}; it is started anew {when}"));
            if !pause.is_zero() {
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    asked = signals.next() => if !matches!(asked, Taken::RESTART | Taken::HANGUP) {
                        return Ok(code(status));
                    }
                }
            }
        }
    }

    /// Until the router has ended: how, and whether that was asked for.
    async fn watch(
        &mut self,
        child: &mut Child,
        signals: &mut Taken,
    ) -> io::Result<(ExitStatus, Option<Asked>)> {
        let pid = Pid::from_child(child);
        let (mut ended, mut asked) = (signal(SignalKind::child())?, None);
        let mut look = tokio::time::interval(Duration::from_secs(1));
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok((status, asked));
            }
            tokio::select! {
                _ = ended.recv() => {}
                ready = self.socket.readable() => {
                    ready?;
                    while self.hear(child.id()).is_ok() {}
                }
                n = signals.next() => {
                    asked = match n {
                        Taken::HANGUP => asked,
                        Taken::RESTART => asked.or(Some(Asked::Restart)),
                        _ => Some(Asked::End),
                    };
                    let pass = if n == Taken::RESTART { libc::SIGTERM } else { n };
                    if let Some(signal) = Signal::from_named_raw(pass) {
                        let _ = kill_process(pid, signal);
                    }
                }
                _ = look.tick() => {
                    if !self.told.stopping && self.told.sign.is_some_and(|at| at.elapsed() > WATCHDOG) {
                        self.say(&format!("the router hangs: no sign of life for {} s", WATCHDOG.as_secs()));
                        let _ = kill_process(pid, Signal::ABORT);
                        self.told.sign = None;
                    }
                }
            }
        }
    }

    /// Takes one message; an error when there is none.
    fn hear(&mut self, child: u32) -> io::Result<()> {
        let mut text = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4), ScmCredentials(1))];
        let mut other = RecvAncillaryBuffer::new(&mut space);
        let n = self.socket.try_io(Interest::READABLE, || {
            let mut into = [IoSliceMut::new(&mut text)];
            let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
            Ok(rustix::net::recvmsg(&self.socket, &mut into, &mut other, flags)?.bytes)
        })?;
        let (mut fds, mut from) = (vec![], None);
        for message in other.drain() {
            match message {
                RecvAncillaryMessage::ScmRights(all) => fds.extend(all),
                RecvAncillaryMessage::ScmCredentials(who) => {
                    from = Some(who.pid.as_raw_nonzero().get().unsigned_abs())
                }
                _ => {}
            }
        }
        if from == Some(child) {
            self.take(&String::from_utf8_lossy(&text[..n]), fds);
        }
        Ok(())
    }

    fn take(&mut self, text: &str, fds: Vec<OwnedFd>) {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        if field("WATCHDOG") == Some("1") || field("READY") == Some("1") {
            self.told.sign = Some(Instant::now());
        }
        self.told.ready |= field("READY") == Some("1");
        self.told.stopping |= field("STOPPING") == Some("1");
        if let Some(state) = field("X_QUIVER_STATE") {
            self.told.state = Some(state.into());
        }
        match field("FDNAME") {
            Some(name) if field("FDSTORE") == Some("1") => {
                if let Some(fd) = fds.into_iter().next() {
                    self.above.store(name, fd.as_fd());
                    self.kept.insert(name.to_owned(), fd);
                }
            }
            Some(name) if field("FDSTOREREMOVE") == Some("1") => {
                self.kept.remove(name);
                self.above.tell(text);
            }
            // Started anew, it does not stop as far as others are concerned.
            _ if field("STOPPING").is_some() => {}
            _ => self.above.tell(text),
        }
    }
}

/// Why the router ends.
#[derive(Clone, Copy, Debug)]
enum Asked {
    End,
    Restart,
}

/// The signals that the supervisor takes.
struct Taken([(i32, Signals); 5]);

impl Taken {
    const HANGUP: i32 = libc::SIGHUP;
    const RESTART: i32 = libc::SIGUSR1;

    fn new() -> io::Result<Taken> {
        let take = |n| Ok::<_, io::Error>((n, signal(SignalKind::from_raw(n))?));
        Ok(Taken([
            take(libc::SIGTERM)?,
            take(libc::SIGINT)?,
            take(libc::SIGQUIT)?,
            take(libc::SIGHUP)?,
            take(libc::SIGUSR1)?,
        ]))
    }

    async fn next(&mut self) -> i32 {
        let [a, b, c, d, e] = &mut self.0;
        tokio::select! {
            _ = a.1.recv() => a.0,
            _ = b.1.recv() => b.0,
            _ = c.1.recv() => c.0,
            _ = d.1.recv() => d.0,
            _ = e.1.recv() => e.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_dies_of_its_start_waits_longer_each_time() {
        let mut pauses = Pauses::default();
        let soon: Vec<u128> = (0..10).map(|_| pauses.next(Duration::ZERO).as_millis()).collect();
        assert_eq!(soon, [0, 100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        assert_eq!(pauses.next(WELL), Duration::ZERO);
        assert_eq!(pauses.next(Duration::ZERO), PAUSE);
        (0..100).for_each(|_| _ = pauses.next(Duration::ZERO));
        assert_eq!(pauses.next(Duration::ZERO), LONGEST);
    }

    #[test]
    fn how_it_ended() {
        assert_eq!(how(ExitStatus::from_raw(9)), "was ended by signal 9 (SIGKILL)");
        assert_eq!(how(ExitStatus::from_raw(3 << 8)), "ended with status 3");
    }
}
