//! `quiver ctl` against a toy router: from arguments, from a pipe, and on a terminal.

// Helpers of the tests below panic as the tests themselves do.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Command, Output, Stdio};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use command::{Command as Definition, Completer, Output as Answer, Registry};
use control::ctl::{Config, RegistryExecutor, Server, exec_command};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tokio::sync::oneshot;

const PATIENCE: Duration = Duration::from_secs(20);

struct Toy {
    value: u32,
}

impl Completer for Toy {
    fn values(&self, kind: &str, prefix: &str) -> Vec<String> {
        let names =
            ["eth0", "eth1", "loop0"].iter().filter(|name| kind == "interface" && name.starts_with(prefix));
        names.map(|name| (*name).to_owned()).collect()
    }
}

fn registry() -> Registry<Toy> {
    let commands = vec![
        exec_command(),
        Definition::read("show value", "The value", |toy: &mut Toy, _| {
            Ok(Answer::new(format!("value {}", toy.value), serde_json::json!({ "value": toy.value })))
        }),
        Definition::write("set value <n:u32 0..100>", "Set it", |toy: &mut Toy, args| {
            toy.value = args.get("n")?;
            Ok(Answer::none())
        }),
        Definition::read("show lines <n:u32>", "So many lines", |_, args| {
            let lines = (1..=args.get::<u32>("n")?).map(|n| format!("line {n}.\n"));
            Ok(Answer::text(lines.collect::<String>()))
        }),
        Definition::read("echo <text:string>", "Say it", |_, args| {
            Ok(Answer::text(args.get::<String>("text")?))
        }),
        Definition::read("poke <name:interface>", "Poke it", |_, args| {
            Ok(Answer::text(format!("poked {}", args.get::<String>("name")?)))
        }),
        Definition::write("ip route add <n:u32 0..100>", "Add to it", |toy: &mut Toy, args| {
            toy.value += args.get::<u32>("n")?;
            Ok(Answer::none())
        }),
        Definition::read("hang", "Never end", |_, _| {
            Ok(Answer::stream(async |emit| {
                emit.line("hanging");
                std::future::pending().await
            }))
        }),
    ];
    Registry::new(commands).unwrap()
}

struct Lab {
    directory: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    server: Option<thread::JoinHandle<()>>,
}

impl Lab {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("quiver-bin-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        Self { directory, stop: None, server: None }
    }

    fn start(name: &str) -> Self {
        let mut lab = Self::new(name);
        let server = Server::bind(&Config { path: lab.socket(), ..Config::default() }).unwrap();
        let (stop, mut stopped) = oneshot::channel::<()>();
        lab.stop = Some(stop);
        lab.server = Some(thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let executor =
                RegistryExecutor::new(Rc::new(registry()), Rc::new(RefCell::new(Toy { value: 0 })));
            let mut serve = Box::pin(server.serve(Rc::new(executor)));
            runtime.block_on(std::future::poll_fn(|context| {
                assert!(serve.as_mut().poll(context).is_pending());
                Pin::new(&mut stopped).poll(context).map(|_| ())
            }));
        }));
        lab
    }

    fn socket(&self) -> PathBuf {
        self.directory.join("ctl.sock")
    }

    fn quiver(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quiver"));
        command.arg("ctl").env("QUIVER_CTL", self.socket()).env("XDG_STATE_HOME", &self.directory);
        command.current_dir(&self.directory);
        command
    }

    fn ctl(&self, words: &[&str]) -> (i32, String, String) {
        result(self.quiver().args(words).stdin(Stdio::null()).output().unwrap())
    }

    fn pipe(&self, text: &[u8]) -> (i32, String, String) {
        let mut command = self.quiver();
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // It stops reading at the first error.
        let _ = child.stdin.take().unwrap().write_all(text);
        result(child.wait_with_output().unwrap())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(server) = self.server.take() {
            server.join().unwrap();
        }
        fs::remove_dir_all(&self.directory).unwrap();
    }
}

fn result(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn said(text: &str) -> (i32, String, String) {
    (0, text.to_owned(), String::new())
}

fn failed(text: &str) -> (i32, String, String) {
    (1, String::new(), format!("{text}\n"))
}

#[test]
fn words_make_a_command() {
    let lab = Lab::start("words");
    assert_eq!(lab.ctl(&["set", "value", "7"]), said(""));
    assert_eq!(lab.ctl(&["show", "value"]), said("value 7\n"));
    assert_eq!(lab.ctl(&["sh val"]), said("value 7\n"));
    assert_eq!(lab.ctl(&["--json", "show", "value"]), said("{\n  \"value\": 7\n}\n"));
    assert_eq!(lab.ctl(&["show", "value", "--json"]), said("{\n  \"value\": 7\n}\n"));
    assert_eq!(lab.ctl(&["show", "?"]), said("  value  The value\n  lines  So many lines\n"));
    assert_eq!(lab.ctl(&["echo", "a \"b\" \\ 'c' #d?"]), said("a \"b\" \\ 'c' #d?\n"));
    assert_eq!(
        lab.ctl(&["set", "valeu", "1"]),
        failed("set valeu 1\n    ^ unknown word 'valeu'; did you mean 'value'?")
    );
    fs::write(lab.directory.join("some.cli"), "set value 8\nshow value\nset value 101\n").unwrap();
    let (status, _, error) = lab.ctl(&["exec", "some.cli"]);
    assert!(status == 1 && error.contains("some.cli:3:\nset value 101\n          ^ 101 is out"), "{error}");
    assert_eq!(lab.ctl(&["show", "value"]), said("value 7\n"));
    fs::write(lab.directory.join("some.cli"), "set value 8\nshow value\n").unwrap();
    assert_eq!(lab.ctl(&["exec", "some.cli"]), said("value 8\n"));
    let other = lab.quiver().args(["-s", "/nonexistent/sock", "show", "value"]).output().unwrap();
    assert_eq!(other.status.code(), Some(1));
}

#[test]
fn a_pipe_stops_at_the_first_error() {
    let lab = Lab::start("pipe");
    assert_eq!(lab.pipe(b"# first\nset value 3\n\nshow value\nset value 4"), said("value 3\n"));
    let (status, out, error) = lab.pipe(b"show value\n\nset value x\nset value 9\n");
    assert_eq!((status, out.as_str()), (1, "value 4\n"));
    assert_eq!(error, "line 3:\nset value x\n          ^ 'x' is not a number 0..100\n");
    assert_eq!(lab.pipe(b"show value\nquit\nnonsense\n"), said("value 4\n"));
    // Routes are sent together, and each is told by its own line.
    let many = "ip route add 1\n".repeat(60_000);
    assert_eq!(lab.pipe(format!("{many}show value").as_bytes()), said("value 60004\n"));
    let wrong = "set value 0\n\nip route add 1\nip route add 2\nip route add 1000\nip route add 4\n";
    let (status, out, error) = lab.pipe(wrong.as_bytes());
    assert_eq!((status, out.as_str()), (1, ""));
    assert!(error.starts_with("line 5:\nip route add 1000\n             ^ 1000 is out of range"), "{error}");
    assert_eq!(lab.pipe(b"ip route add 1\nshow value\nip route add 1\nset value 4\n"), said("value 4\n"));
    assert_eq!(lab.pipe(b"\xff\n"), failed("line 1:\nnot UTF-8"));
}

#[test]
fn filters_comments_and_json() {
    let lab = Lab::start("json");
    assert_eq!(lab.ctl(&["show", "lines", "12", "|", "include", "2."]), said("line 2.\nline 12.\n"));
    assert_eq!(lab.ctl(&["show lines 12 | begin 11"]), said("line 11.\nline 12.\n"));
    assert_eq!(lab.ctl(&["echo", "a | count"]), said("a | count\n"));
    let notes = b"! x\ncomment { set value 1\nset value 2 }\nshow value\nshow lines 20 | exclude 1 | count\n";
    assert_eq!(lab.pipe(notes), said("value 0\n9\n"));
    assert_eq!(
        lab.pipe(b"show value\ncomment {\nset value 1"),
        (1, "value 0\n".into(), "line 2:\nthis comment is not closed: '}' is missing\n".into())
    );
    // Changes and errors answer JSON where it is asked for, in the place of other answers.
    let json = |(status, out, error): (i32, String, String)| {
        assert_eq!(error, "");
        (status, serde_json::from_str::<serde_json::Value>(&out).unwrap())
    };
    assert_eq!(json(lab.ctl(&["--json", "set", "value", "7"])), (0, serde_json::json!({ "ok": true })));
    for words in
        [&["--json", "set", "value", "x"][..], &["set value x --json"], &["set", "value", "x", "--json"]]
    {
        let (status, answer) = json(lab.ctl(words));
        let error = &answer["error"];
        assert_eq!((status, error["kind"].as_str(), error["column"].as_u64()), (1, Some("syntax"), Some(10)));
        assert_eq!(error["message"], "'x' is not a number 0..100");
    }
    let none = lab.quiver().args(["--json", "-s", "/nonexistent/sock", "show", "value"]).output().unwrap();
    let (status, answer) = json(result(none));
    assert_eq!((status, &answer["error"]["kind"]), (1, &"client".into()));
}

#[test]
fn no_router_and_no_permission() {
    let lab = Lab::new("none");
    let socket = lab.socket().display().to_string();
    let (status, _, error) = lab.ctl(&["show", "value"]);
    assert!(
        status == 1 && error.starts_with(&format!("no router listens on {socket}: start one")),
        "{error}"
    );
    drop(lab);
    if !rustix::process::geteuid().is_root() {
        eprintln!("not root: cannot become another user; the rest is not tested");
        return;
    }
    let lab = Lab::start("permission");
    // Where the other user can reach it.
    let binary = lab.directory.join("quiver");
    fs::copy(env!("CARGO_BIN_EXE_quiver"), &binary).unwrap();
    let mut command = Command::new(binary);
    command
        .args(["ctl", "-s"])
        .arg(lab.socket())
        .args(["show", "value"])
        .current_dir("/")
        .uid(65534)
        .gid(65534);
    let expected =
        format!("no permission to use {}: be root or a member of group 'root'", lab.socket().display());
    assert_eq!(result(command.output().unwrap()), failed(&expected));
}

/// `quiver ctl` on a terminal.
struct Terminal {
    master: Arc<OwnedFd>,
    child: std::process::Child,
    /// What it has printed, without the control sequences.
    seen: Arc<Mutex<String>>,
    at: usize,
}

impl Terminal {
    fn open(lab: &Lab) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let size = rustix::termios::Winsize { ws_row: 50, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&master, size).unwrap();
        let slave =
            || File::options().read(true).write(true).open(Path::new(name.to_str().unwrap())).unwrap();
        // A session of its own, whose terminal this is: Ctrl-C then reaches it and nobody else.
        let quiver = lab.quiver();
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).arg(quiver.get_program()).args(quiver.get_args());
        command.envs(quiver.get_envs().filter_map(|(key, value)| Some((key, value?))));
        command.env("TERM", "xterm").current_dir(&lab.directory);
        let child = command.stdin(slave()).stdout(slave()).stderr(slave()).spawn().unwrap();
        let master = Arc::new(master);
        let seen = Arc::new(Mutex::new(String::new()));
        thread::spawn({
            let (master, seen) = (master.clone(), seen.clone());
            move || screen(&master, &seen)
        });
        Self { master, child, seen, at: 0 }
    }

    fn type_in(&self, text: &str) {
        rustix::io::write(&self.master, text.as_bytes()).unwrap();
    }

    /// Waits for `text` after what was waited for before.
    fn expect(&mut self, text: &str) {
        let start = Instant::now();
        loop {
            let seen = self.seen.lock().unwrap().clone();
            if let Some(found) = seen[self.at..].find(text) {
                self.at += found + text.len();
                return;
            }
            assert!(start.elapsed() < PATIENCE, "no {text:?} in {:?}", &seen[self.at..]);
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn status(&mut self) -> i32 {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap();
            }
            assert!(start.elapsed() < PATIENCE, "it does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Just enough of a terminal: keeps the text, says where the cursor is when asked.
fn screen(master: &OwnedFd, seen: &Mutex<String>) {
    let mut buffer = [0; 4096];
    let mut pending: Vec<u8> = Vec::new();
    while let Ok(count @ 1..) = rustix::io::read(master, &mut buffer) {
        pending.extend_from_slice(&buffer[..count]);
        let mut rest = pending.as_slice();
        let mut text = String::new();
        while let Some(&byte) = rest.first() {
            if byte != 0x1b {
                text.push(char::from(byte));
                rest = &rest[1..];
                continue;
            }
            let end = match rest.get(1) {
                None => break,
                Some(b'[') => rest[2..].iter().position(|b| (0x40..0x7f).contains(b)).map(|at| at + 3),
                Some(b']') => rest.iter().position(|b| *b == 7).map(|at| at + 1),
                Some(_) => Some(2),
            };
            let Some(end) = end else { break };
            if &rest[..end] == b"\x1b[6n" {
                let _ = rustix::io::write(master, b"\x1b[1;1R");
            }
            rest = &rest[end..];
        }
        let rest = rest.to_vec();
        pending = rest;
        seen.lock().unwrap().push_str(&text);
    }
}

#[test]
fn the_shell_completes_helps_and_remembers() {
    let lab = Lab::start("shell");
    let mut terminal = Terminal::open(&lab);
    terminal.expect("quiver> ");
    terminal.type_in("sh\tval\t\r");
    terminal.expect("show value");
    terminal.expect("value 0");
    terminal.expect("quiver> ");
    // Names come from the router; what two names share is filled in.
    terminal.type_in("poke e\t");
    terminal.expect("poke eth");
    // The first Enter takes the word out of the menu.
    terminal.type_in("1\r");
    terminal.expect("poke eth1 ");
    terminal.type_in("\r");
    terminal.expect("poked eth1");
    // The question mark answers at once and leaves the line as it is.
    terminal.type_in("set value ?");
    terminal.expect("<n>  a number 0..100");
    terminal.expect("quiver> set value ");
    terminal.type_in("5\r");
    // The next prompt, not the line painted again: what is typed in between is lost.
    terminal.expect("\r\nquiver> ");
    terminal.type_in("echo \"what?");
    terminal.expect("what?");
    terminal.type_in("\"\r");
    terminal.expect("\r\nwhat?");
    terminal.type_in("set valeu 1\r");
    terminal.expect("    ^ unknown word 'valeu'; did you mean 'value'?");
    // Long answers stop at each screenful of 49 lines; what is not wanted any more is not shown.
    terminal.type_in("show lines 500\r");
    terminal.expect("line 49.\r\n--more--");
    terminal.type_in(" ");
    terminal.expect("line 98.\r\n--more--");
    terminal.type_in("\r");
    terminal.expect("line 99.\r\n--more--");
    terminal.type_in("q");
    terminal.expect("quiver> ");
    terminal.type_in("show lines 50\r");
    terminal.expect("line 49.\r\n--more--");
    terminal.type_in("a");
    terminal.expect("line 50.\r\n");
    terminal.expect("quiver> ");
    // Ctrl-C ends the command, not the shell.
    terminal.type_in("hang\r");
    terminal.expect("hanging");
    terminal.type_in("\x03");
    terminal.expect("quiver> ");
    terminal.type_in("show value\r");
    terminal.expect("value 5");
    terminal.expect("quiver> ");
    terminal.type_in("\x04");
    assert_eq!(terminal.status(), 0);
    let mut history = String::new();
    File::open(lab.directory.join("quiver/history")).unwrap().read_to_string(&mut history).unwrap();
    let lines: Vec<_> = history.lines().map(str::trim_end).collect();
    let lines: Vec<_> = lines.into_iter().filter(|line| !line.starts_with("show lines")).collect();
    assert_eq!(lines[..4], ["show value", "poke eth1", "set value 5", "echo \"what?\""]);

    // The next shell has it.
    let mut terminal = Terminal::open(&lab);
    terminal.expect("quiver> ");
    terminal.type_in("\x1b[A\r");
    terminal.expect("value 5");
    terminal.expect("quiver> ");
    terminal.type_in("quit\r");
    assert_eq!(terminal.status(), 0);
}

#[test]
fn a_shell_without_a_router_says_so() {
    let lab = Lab::new("shellless");
    let mut terminal = Terminal::open(&lab);
    terminal.expect("no router listens on");
    assert_eq!(terminal.status(), 1);
}
