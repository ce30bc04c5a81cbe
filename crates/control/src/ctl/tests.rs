//! The server over a real socket, with a few toy commands.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use command::{Command, Completer, Output, Registry};
use serde_json::{Value as Json, json};
use tokio::sync::oneshot;

use super::{Config, MAX_CLIENTS, MAX_REQUEST, Plain, RegistryExecutor, Server, exec_command};

/// No test waits longer than this.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Toy {
    at_once: usize,
    value: u32,
    /// Streams that were started and have not ended.
    running: Rc<RefCell<u32>>,
    /// Numbers made since somebody looked.
    made: Rc<Cell<u64>>,
    released: Rc<tokio::sync::Notify>,
}

impl Toy {
    fn add(&mut self, n: u32) -> bool {
        let fits = self.value + n <= 50;
        self.value += if fits { n } else { 0 };
        fits
    }
}

/// Lines `add N` at once.
fn plain() -> Plain<Toy> {
    fn number(line: &str) -> Option<u32> {
        line.strip_prefix("add ")?.parse().ok().filter(|n| *n < 10)
    }
    Plain {
        is: |line| number(line).is_some(),
        run: |toy, lines| {
            let taken = lines.iter().take_while(|line| number(line).is_some_and(|n| toy.add(n))).count();
            toy.at_once += usize::from(taken > 0);
            taken
        },
    }
}

impl Completer for Toy {
    fn known(&self, kind: &str, name: &str) -> Option<bool> {
        (kind == "number").then(|| name == self.value.to_string())
    }
}

/// Counts a running stream, also when it is dropped half-way.
struct Running(Rc<RefCell<u32>>);

impl Running {
    fn new(count: &Rc<RefCell<u32>>) -> Self {
        *count.borrow_mut() += 1;
        Self(count.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *self.0.borrow_mut() -= 1;
    }
}

fn registry() -> Registry<Toy> {
    let commands = vec![
        exec_command(),
        Command::read("show value", "The value", |toy: &mut Toy, _| {
            Ok(Output::new(format!("value {}", toy.value), json!({ "value": toy.value })))
        }),
        Command::read("show at-once", "How often several were added", |toy: &mut Toy, _| {
            Ok(Output::text(toy.at_once.to_string()))
        }),
        Command::read("show running", "Streams", |toy: &mut Toy, _| {
            Ok(Output::text(toy.running.borrow().to_string()))
        }),
        Command::read("show big <n:u32>", "Much text", |_: &mut Toy, args| {
            Ok(Output::text("0123456789abcdé\n".repeat(args.get::<usize>("n")?)))
        }),
        Command::read(
            "show numbers <n:u32> [fail]",
            "Many numbers, made as they are read",
            |toy: &mut Toy, args| {
                let (n, fail, made) = (args.get::<u32>("n")?, args.has("fail"), Rc::clone(&toy.made));
                let mut next = 0;
                Ok(Output::pieces(move |page| {
                    if next == 0 && page.wants_json() {
                        page.open("{\"numbers\":[");
                    }
                    while next < n {
                        if fail && next == n / 2 {
                            return Err("no more of them".into());
                        }
                        match page.wants_json() {
                            true => page.item(&next.into()),
                            false => _ = std::fmt::Write::write_fmt(page, format_args!("{next}\n")),
                        }
                        made.set(made.get() + 1);
                        next += 1;
                        if page.is_full() {
                            return Ok(true);
                        }
                    }
                    if page.wants_json() {
                        page.close("]}");
                    }
                    Ok(false)
                }))
            },
        ),
        Command::read("show made", "How many numbers were made", |toy: &mut Toy, _| {
            Ok(Output::text(toy.made.replace(0).to_string()))
        }),
        Command::write("set value <n:u32 0..100>", "Set it", |toy: &mut Toy, args| {
            toy.value = args.get("n")?;
            Ok(Output::none())
        }),
        Command::write(
            "add <n:u32 0..9>",
            "Add to it, unless that makes more than 50",
            |toy: &mut Toy, args| {
                toy.add(args.get("n")?).then(Output::none).ok_or_else(|| "more than 50".into())
            },
        ),
        Command::write("check <n:ref number>", "Needs this value", |_: &mut Toy, _| Ok(Output::none())),
        Command::read("wait", "Wait for release", |toy: &mut Toy, _| {
            let (running, released) = (Running::new(&toy.running), toy.released.clone());
            Ok(Output::stream(async move |emit| {
                emit.line("waiting");
                released.notified().await;
                drop(running);
                Ok(Output::new("released", json!("released")))
            }))
        }),
        Command::read("flood", "Talk until nobody listens", |toy: &mut Toy, _| {
            let running = Running::new(&toy.running);
            Ok(Output::stream(async move |emit| {
                while emit.line("0123456789abcdef") {
                    tokio::task::yield_now().await;
                }
                drop(running);
                Err("nobody listens".into())
            }))
        }),
        Command::read("look", "Look for what is not there", |_: &mut Toy, _| {
            Ok(Output::failed("nothing found", json!({ "found": 0 })))
        }),
        Command::write("open", "Make 42 when something that takes a while is done", |toy: &mut Toy, _| {
            let (released, mut made) = (toy.released.clone(), Rc::clone(&toy.made));
            let stream = Output::stream(async move |_| {
                released.notified().await;
                Ok(Output::then(|made: &mut Rc<Cell<u64>>| {
                    made.set(42);
                    Ok(Output::new("opened", json!({ "opened": true })))
                }))
            });
            Ok(stream.bind(move |call| {
                call(&mut made);
                Ok(())
            }))
        }),
        Command::read("release", "End a wait", |toy: &mut Toy, _| {
            toy.released.notify_one();
            Ok(Output::none())
        }),
        Command::read("panic", "Fail badly", |_: &mut Toy, _| panic!("on purpose")),
    ];
    Registry::new(commands).unwrap()
}

/// A server in a thread of its own, in a directory of its own.
struct Lab {
    directory: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    server: Option<thread::JoinHandle<()>>,
}

impl Lab {
    fn start(name: &str, group: Option<&str>, admin_group: Option<&str>) -> Self {
        let directory = std::env::temp_dir().join(format!("quiver-ctl-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        let config = Config {
            path: directory.join("ctl.sock"),
            group: group.map(str::to_owned),
            admin_group: admin_group.map(str::to_owned),
            idle_timeout: (name == "idle").then_some(Duration::from_secs(1)),
            roles: vec![],
        };
        // Bound here, so that a client may connect at once.
        let server = Server::bind(&config).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let server = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let executor = RegistryExecutor::new(Rc::new(registry()), Rc::new(RefCell::new(Toy::default())))
                .with_plain(plain());
            let mut serve = Box::pin(server.serve(Rc::new(executor)));
            let mut stopped = Box::pin(stopped);
            runtime.block_on(std::future::poll_fn(|context| {
                assert!(serve.as_mut().poll(context).is_pending());
                stopped.as_mut().poll(context).map(|_| ())
            }));
        });
        Self { directory, stop: Some(stop), server: Some(server) }
    }

    fn connect(&self) -> Client {
        Client::new(UnixStream::connect(self.directory.join("ctl.sock")).unwrap())
    }

    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.directory.join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn stop(&mut self) {
        self.stop.take();
        if let Some(server) = self.server.take() {
            server.join().unwrap();
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.stop();
        fs::remove_dir_all(&self.directory).unwrap();
    }
}

struct Client {
    reader: BufReader<UnixStream>,
}

impl Client {
    fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { reader: BufReader::new(stream) }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
    }

    fn receive(&mut self) -> Json {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn request(&mut self, request: Json) {
        self.send(format!("{request}\n").as_bytes());
    }

    fn ask(&mut self, request: Json) -> Json {
        self.request(request);
        self.receive()
    }

    fn line(&mut self, line: &str) -> Json {
        self.ask(json!({ "id": 1, "line": line }))
    }

    fn text(&mut self, line: &str) -> String {
        let reply = self.line(line);
        reply["text"].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned()
    }

    /// The parts of an answer, and its end.
    fn parts(&mut self, line: &str) -> (String, Json) {
        let (mut text, mut reply) = (String::new(), self.line(line));
        while let Some(part) = reply["part"].as_str() {
            text.push_str(part);
            reply = self.receive();
        }
        (text, reply)
    }

    /// Whether the server has closed the connection.
    fn closed(&mut self) -> bool {
        let mut rest = Vec::new();
        !matches!(self.reader.read_to_end(&mut rest), Err(e) if e.kind() == std::io::ErrorKind::WouldBlock)
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn requests_and_replies() {
    let lab = Lab::start("basic", None, None);
    let mut client = lab.connect();
    assert_eq!(client.line("set value 7"), json!({ "id": 1, "ok": true, "text": "" }));
    assert_eq!(client.line("sh val"), json!({ "id": 1, "ok": true, "text": "value 7\n" }));
    let asked = client.ask(json!({ "id": "x", "line": "show value", "json": true }));
    assert_eq!(asked, json!({ "id": "x", "ok": true, "json": { "value": 7 } }));
    assert_eq!(client.line("show value --json")["json"], json!({ "value": 7 }));
    assert_eq!(
        client.line("set value 101"),
        json!({ "id": 1, "ok": false, "error": {
            "kind": "syntax",
            "message": "101 is out of range: <n> is 0..100",
            "text": "set value 101\n          ^ 101 is out of range: <n> is 0..100",
            "column": 10, "length": 3, "expected": ["<n>"],
        } })
    );
    let completion = client.ask(json!({ "id": 2, "complete": { "line": "show v", "cursor": 6 } }));
    let expected =
        json!({ "start": 5, "candidates": [{ "text": "value", "help": "The value" }], "path": false });
    assert_eq!(completion["complete"], expected);
    assert_eq!(client.ask(json!({ "help": "set " }))["text"], "  value  Set it\n");
    assert!(client.text("?").contains("  exec     Run the commands of a file\n"));
    assert_eq!(client.line("panic")["error"]["message"], "internal error: the command panicked");
    assert_eq!(client.text("show value"), "value 7\n");
    client.send(
        b"{\"id\":1,\"line\":\"release\"}\n{\"id\":2,\"line\":\"show value\"}\n\n{\"id\":3,\"help\":\"\"}\n",
    );
    assert_eq!([1, 2, 3].map(|_| client.receive()["id"].as_u64()), [Some(1), Some(2), Some(3)]);
}

#[test]
fn garbage_is_answered() {
    let lab = Lab::start("garbage", None, None);
    let mut client = lab.connect();
    let deep = "[".repeat(100_000);
    for garbage in [
        b"hello\n".as_slice(),
        b"\xff\xfe\x00\n",
        b"{}\n",
        b"[1,2]\n",
        b"{\"line\":1}\n",
        b"{\"line\":\"x\",\"help\":\"y\"}\n",
        b"{\"line\":\"x\",\"more\":1}\n",
        b"{\"complete\":{\"line\":\"x\",\"cursor\":-1}}\n",
        format!("{deep}\n").as_bytes(),
    ] {
        client.send(garbage);
        let reply = client.receive();
        assert_eq!((&reply["ok"], &reply["error"]["kind"]), (&json!(false), &json!("protocol")), "{reply}");
    }
    assert_eq!(client.ask(json!({ "id": 9, "more": 1 }))["id"], 9);
    assert_eq!(client.line("\u{0}\u{7f}\u{2028} \u{1f600}")["error"]["kind"], "syntax");
    assert_eq!(client.line(&"x".repeat(100_000))["error"]["kind"], "syntax");
    let ask = json!({ "complete": { "line": "sé", "cursor": 2 } });
    assert_eq!(client.ask(ask)["complete"]["start"], 0);
    assert_eq!(client.text("show value"), "value 0\n");
    // Too long a request ends the connection, but only that one.
    let long = thread::spawn({
        let mut other = lab.connect();
        move || {
            let _ = other.reader.get_mut().write_all(&vec![b'x'; MAX_REQUEST + 1]);
            assert_eq!(other.receive()["error"]["kind"], "protocol");
            assert!(other.closed());
        }
    });
    long.join().unwrap();
    // A request without a line end is complete when the client stops sending.
    let mut half = lab.connect();
    half.send(b"{\"line\":\"show value\"}");
    half.reader.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(half.receive()["text"], "value 0\n");
}

#[test]
fn parts_come_while_others_are_served() {
    let mut lab = Lab::start("parts", None, None);
    let (mut waiter, mut other) = (lab.connect(), lab.connect());
    assert_eq!(waiter.line("wait"), json!({ "id": 1, "part": "waiting\n" }));
    assert_eq!(other.text("show running"), "1\n");
    assert_eq!(other.text("release"), "");
    assert_eq!(waiter.receive(), json!({ "id": 1, "ok": true, "text": "released\n" }));
    assert_eq!(other.text("show running"), "0\n");
    // With JSON only the end is sent.
    waiter.send(b"{\"line\":\"wait --json\"}\n");
    until("the wait runs", || other.text("show running") == "1\n");
    other.text("release");
    assert_eq!(waiter.receive(), json!({ "id": null, "ok": true, "json": "released" }));
    // A command that talks to nobody ends, whether the client left or sleeps.
    let mut gone = lab.connect();
    gone.send(b"{\"line\":\"flood\"}\n");
    gone.receive();
    drop(gone);
    until("the flood ends", || other.text("show running") == "0\n");
    let mut asleep = lab.connect();
    asleep.send(b"{\"line\":\"flood\"}\n");
    asleep.receive();
    until("the flood ends", || other.text("show running") == "0\n");
    // The end of the server ends what runs and what is connected.
    let mut last = lab.connect();
    last.line("wait");
    lab.stop();
    assert!(last.closed() && other.closed() && !lab.directory.join("ctl.sock").exists());
}

#[test]
fn a_slow_reader_holds_up_nobody() {
    let lab = Lab::start("slow", None, None);
    let mut slow = lab.connect();
    slow.send(b"{\"line\":\"show big 500000\"}\n");
    let mut other = lab.connect();
    for _ in 0..100 {
        assert_eq!(other.text("show value"), "value 0\n");
    }
    // It is closed before it has everything.
    until("the slow one is closed", || slow.reader.get_mut().write_all(b"\n").is_err());
    let mut bytes = Vec::new();
    let _ = slow.reader.read_to_end(&mut bytes);
    assert!(bytes.len() < 4_000_000, "{}", bytes.len());
    // Who reads gets it whole, in parts.
    other.send(b"{\"line\":\"show big 100000\"}\n");
    let mut text = String::new();
    loop {
        let reply = other.receive();
        text.push_str(reply["part"].as_str().unwrap_or_default());
        if reply["ok"] == true {
            text.push_str(reply["text"].as_str().unwrap());
            break;
        }
    }
    assert_eq!(text, "0123456789abcdé\n".repeat(100_000));
}

#[test]
fn long_answers_are_made_as_they_are_read() {
    let lab = Lab::start("pieces", None, None);
    let mut other = lab.connect();
    // Clients that never read cost a piece or two each, and hold nobody up.
    let mut sleepers: Vec<_> = (0..20).map(|_| lab.connect()).collect();
    for (i, client) in sleepers.iter_mut().enumerate() {
        let json = if i % 2 == 0 { " --json" } else { "" };
        client.send(format!("{{\"line\":\"show numbers 100000000{json}\"}}\n").as_bytes());
    }
    for _ in 0..100 {
        assert_eq!(other.text("show value"), "value 0\n");
    }
    until("nothing more is made", || other.text("show made") == "0\n");
    drop(sleepers);
    // Who reads gets all of it: JSON in one line, text in parts.
    let numbers: Vec<u32> = (0..200_000).collect();
    let whole = other.line("show numbers 200000 --json");
    assert_eq!(whole, json!({ "id": 1, "ok": true, "json": { "numbers": numbers } }));
    let (text, last) = other.parts("show numbers 200000");
    assert_eq!(
        (text.lines().count(), text.lines().last(), &last["ok"]),
        (200_000, Some("199999"), &json!(true))
    );
    // An error in the middle leaves well-formed JSON, and short answers are errors alone.
    let broken = other.line("show numbers 200000 fail --json");
    assert_eq!((&broken["ok"], &broken["error"]["message"]), (&json!(false), &json!("no more of them")));
    assert!(!broken["json"]["numbers"].as_array().unwrap().is_empty());
    let (_, last) = other.parts("show numbers 200000 fail");
    assert_eq!(last["error"]["message"], "no more of them");
    assert!(other.line("show numbers 10 fail --json")["json"].is_null());
    // Scripts put it into their list.
    lab.file("inner.cli", "show numbers 2\nset value 1\n");
    let all = lab.file("all.cli", "show numbers 3\nshow value\nexec inner.cli\nshow numbers 100000\n");
    let all = other.line(&format!("exec {all} --json"));
    let json = all["json"].as_array().unwrap();
    assert_eq!(
        json[..3],
        [json!({ "numbers": [0, 1, 2] }), json!({ "value": 0 }), json!([{ "numbers": [0, 1] }])]
    );
    assert_eq!((json.len(), json[3]["numbers"].as_array().unwrap().len()), (4, 100_000));
}

#[test]
fn connections_that_say_nothing_are_closed() {
    let lab = Lab::start("idle", None, None);
    let mut silent = lab.connect();
    let mut busy = lab.connect();
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(1500) {
        assert_eq!(busy.text("show value"), "value 0\n");
        thread::sleep(Duration::from_millis(20));
    }
    // A command that takes longer is no silence.
    busy.line("wait");
    assert_eq!(silent.receive()["error"]["kind"], "idle");
    assert!(silent.closed());
    thread::sleep(Duration::from_millis(1300));
    lab.connect().text("release");
    assert_eq!(busy.receive()["ok"], true);
}

#[test]
fn lookers_start_only_so_many_streams() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not root: cannot become other users; not tested");
        return;
    }
    let lab = Lab::start("streams", Some("daemon"), None);
    let readers = super::credentials::group_id("daemon").unwrap().unwrap();
    let path = lab.directory.join("ctl.sock");
    // So many of a user's commands begin; those who began are there until the end.
    let crowd = |user: u32, count: usize| {
        let path = path.clone();
        let all = thread::spawn(move || {
            use rustix::thread::{Gid, Uid, set_thread_gid, set_thread_groups, set_thread_uid};
            set_thread_groups(&[]).unwrap();
            set_thread_gid(Gid::from_raw(readers)).unwrap();
            set_thread_uid(Uid::from_raw(user)).unwrap();
            let begun = || {
                let mut client = Client::new(UnixStream::connect(&path).unwrap());
                let answer = client.line("wait");
                answer["part"].is_string().then_some(client).ok_or(answer["error"]["message"].to_string())
            };
            (0..count).map(|_| begun()).collect::<Vec<_>>()
        });
        all.join().unwrap()
    };
    let count = |crowd: &[Result<Client, String>]| crowd.iter().filter(|c| c.is_ok()).count();
    let why =
        |crowd: &[Result<Client, String>]| crowd.iter().find_map(|c| c.as_ref().err().cloned()).unwrap();
    let greedy = crowd(65534, 10);
    assert_eq!(
        (count(&greedy), why(&greedy).contains("uid:65534 has 8 commands")),
        (8, true),
        "{}",
        why(&greedy)
    );
    let others = crowd(65533, 8);
    assert_eq!(count(&others), 8);
    let late = crowd(65532, 1);
    assert!(why(&late).contains("there are 16 commands"), "{}", why(&late));
    // Who may do more is not among them.
    assert_eq!(lab.connect().line("wait")["part"], "waiting\n");
}

#[test]
fn connections_are_bounded() {
    let lab = Lab::start("many", None, None);
    // This test may change things, so it also gets the reserved places.
    let mut clients: Vec<_> = (0..MAX_CLIENTS + 8).map(|_| lab.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.text("show value"), "value 0\n");
    }
    let mut refused = lab.connect();
    assert_eq!(refused.receive()["error"]["message"], "too many connections to the control socket");
    assert!(refused.closed());
    clients.pop();
    until("the place is free", || {
        let mut client = lab.connect();
        // The server may close before the request is written.
        let _ = client.reader.get_mut().write_all(b"{\"line\":\"show value\"}\n");
        client.receive()["ok"] == true
    });
}

#[test]
fn scripts_run_up_to_the_first_error() {
    let lab = Lab::start("exec", None, None);
    let mut client = lab.connect();
    let good = lab.file("good.cli", "# comment\n\nset value 5\nshow value\n  set value 6\n");
    assert_eq!(client.line(&format!("exec {good}")), json!({ "id": 1, "part": "value 5\n" }));
    assert_eq!(client.receive(), json!({ "id": 1, "ok": true, "text": "" }));
    assert_eq!(client.text("show value"), "value 6\n");
    assert_eq!(client.line(&format!("exec {good} --json"))["json"], json!([{ "value": 5 }]));
    let relative = json!({ "line": "exec good.cli --json", "cwd": lab.directory });
    assert_eq!(client.ask(relative)["ok"], true);
    assert_eq!(client.line("exec good.cli")["error"]["message"], "good.cli: give the whole path from /");

    // A wrong word anywhere: nothing runs.
    let wrong = lab.file("wrong.cli", "set value 1\nset valeu 2\n");
    let error = client.line(&format!("exec {wrong}"))["error"].take();
    let text = format!(
        "{wrong}:2:\nset valeu 2\n    ^ unknown word 'valeu'; did you mean 'value'?\nnothing was applied"
    );
    assert_eq!((error["text"].as_str().unwrap(), &error["line"]), (text.as_str(), &json!(2)));
    assert_eq!(client.text("show value"), "value 6\n");

    // A command that fails: what stands before it was applied. Names are looked up only then.
    let inner = lab.file("inner.cli", "set value 1\ncheck 1\n# x\ncheck 2\nset value 3\n");
    lab.file("outer.cli", "exec inner.cli\nset value 9\n");
    let outer = lab.directory.join("outer.cli").display().to_string();
    let error = client.line(&format!("exec {outer}"))["error"].take();
    assert_eq!(
        (&error["file"], &error["line"], &error["applied"]),
        (&json!(inner), &json!(4), &json!(2)),
        "{error}"
    );
    assert_eq!(
        error["text"].as_str().unwrap(),
        format!(
            "{outer}:1:\n{inner}:4:\ncheck 2\n      ^ no number '2'; there is none\n2 commands before it were applied\n\
             nothing before it was applied"
        )
    );
    assert_eq!(client.text("show value"), "value 1\n");

    let own = lab.file("own.cli", "exec own.cli\n");
    let error = client.line(&format!("exec {own}"))["error"]["message"].take();
    assert!(error.as_str().unwrap().ends_with("scripts call each other more than 8 deep"), "{error}");
    let bytes = lab.file("bytes.cli", b"set value 1\n\xff\n");
    let error = client.line(&format!("exec {bytes}"))["error"]["message"].take();
    assert!(error.as_str().unwrap().ends_with("line 2 is not UTF-8"), "{error}");
    for path in ["/dev/zero", "/nonexistent", "/"] {
        assert_eq!(client.line(&format!("exec {path}"))["ok"], false);
    }
}

#[test]
fn scripts_have_comments_and_filters() {
    let lab = Lab::start("notes", None, None);
    let mut client = lab.connect();
    let text =
        "! notes\ncomment { of\nset value 99\nmany {lines} }\nset value 5\nshow big 3 | count\nshow value\n";
    let notes = lab.file("notes.cli", text);
    assert_eq!(client.line(&format!("exec {notes}"))["part"], "3\n");
    assert_eq!(client.receive()["part"], "value 5\n");
    assert_eq!(client.receive()["text"], "");
    // Filters of a script's own line get what its commands' filters have left.
    assert_eq!(client.line(&format!("exec {notes} | exclude value"))["part"], "3\n");
    assert_eq!(client.receive()["text"], "");
    assert_eq!(client.text("show big 5 | include 89 | count"), "5\n");
    assert_eq!(client.text("show big 5 | exclude 89"), "");
    // What comes in parts is filtered as it comes.
    assert_eq!(client.text("show big 100000 | count"), "100000\n");
    client.send(b"{\"id\":1,\"line\":\"wait | include ing\"}\n");
    assert_eq!(client.receive()["part"], "waiting\n");
    let mut other = lab.connect();
    assert_eq!(other.line("show running")["text"], "1\n");
    for (wrong, at) in [("comment {\nset value 1\n", 1), ("set value 2\ncomment {\nx } set value 1\n", 3)] {
        let file = lab.file("wrong.cli", wrong);
        let error = other.line(&format!("exec {file}"))["error"].take();
        assert_eq!((&error["line"], &error["applied"]), (&json!(at), &json!(0)), "{error}");
        let error = other.ask(json!({ "lines": wrong }))["error"].take();
        assert_eq!(error["line"], at, "{error}");
    }
    assert_eq!(other.text("show value"), "value 5\n");
    for (line, why) in [
        ("show value | grep x", "unknown filter 'grep'; expected one of: include, exclude, begin, count"),
        ("show value --json | count", "filters work on lines of text: leave them out, or --json"),
        ("show value | count --json", "'count' takes no text"),
    ] {
        assert_eq!(other.line(line)["error"]["message"], why, "{line}");
    }
}

#[test]
fn plain_lines_run_at_once_and_fail_one_by_one() {
    let lab = Lab::start("plain", None, None);
    let mut client = lab.connect();
    let many = "add 1\n".repeat(20);
    let good = lab.file("good.cli", format!("{many}# between\nshow value\n{many}"));
    assert_eq!(client.line(&format!("exec {good}")), json!({ "id": 1, "part": "value 20\n" }));
    assert_eq!(client.receive()["ok"], true);
    assert_eq!((client.text("show value"), client.text("show at-once")), ("value 40\n".into(), "2\n".into()));
    let bad = lab.file("bad.cli", format!("{}add 1\n", "add 4\n".repeat(4)));
    let error = client.line(&format!("exec {bad}"))["error"].take();
    assert_eq!(
        (&error["line"], &error["applied"], &error["message"]),
        (&json!(3), &json!(2), &json!("more than 50"))
    );
    assert_eq!(error["text"], format!("{bad}:3:\nmore than 50\n2 commands before it were applied"));
    // A line that only looks plain is for the general parser, before anything runs.
    let wrong = lab.file("wrong.cli", "add 1\nadd 10\n");
    let error = client.line(&format!("exec {wrong}"))["error"].take();
    assert_eq!((&error["line"], &error["applied"], &error["kind"]), (&json!(2), &json!(0), &json!("syntax")));

    assert_eq!(client.ask(json!({ "lines": "set value 0\nadd 2\nadd 3\n" }))["ok"], true);
    let error = client.ask(json!({ "lines": "add 9\n\nadd 9\nadd 1 1\nadd 1" }))["error"].take();
    assert_eq!(
        (&error["line"], &error["applied"], &error["column"]),
        (&json!(4), &json!(2), &json!(6)),
        "{error}"
    );
    assert!(error["file"].is_null());
    assert_eq!((client.text("show value"), client.text("show at-once")), ("value 23\n".into(), "6\n".into()));
    let both = client.ask(json!({ "lines": "add 1", "line": "add 1" }));
    assert_eq!(both["error"]["message"], "a request has one of line, lines, complete and help");
}

/// Connects in a thread that has taken these rights; its answer to a read and a write, or why it got neither.
fn as_user(lab: &Lab, uid: u32, gid: u32, groups: &[u32]) -> Result<(bool, bool), String> {
    use rustix::thread::{Gid, Uid, set_thread_gid, set_thread_groups, set_thread_uid};
    let path = lab.directory.join("ctl.sock");
    let groups: Vec<_> = groups.iter().map(|g| Gid::from_raw(*g)).collect();
    let user = thread::spawn(move || {
        // These change the calling thread alone.
        set_thread_groups(&groups).unwrap();
        set_thread_gid(Gid::from_raw(gid)).unwrap();
        set_thread_uid(Uid::from_raw(uid)).unwrap();
        let mut client = Client::new(UnixStream::connect(path).map_err(|error| error.kind().to_string())?);
        let _ = client.reader.get_mut().write_all(b"{\"line\":\"show value\"}\n");
        let first = client.receive();
        if first["id"] == Json::Null && first["ok"] == false {
            return Err(first["error"]["message"].as_str().unwrap_or_default().to_owned());
        }
        let write = client.line("set value 3");
        assert!(write["ok"] == true || write["error"]["kind"] == "denied", "{write}");
        Ok((first["ok"] == true, write["ok"] == true))
    });
    user.join().unwrap()
}

#[test]
fn the_kernel_says_who_may_do_what() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not root: cannot become other users; not tested");
        return;
    }
    const NOBODY: u32 = 65534;
    let group = |name: &str| super::credentials::group_id(name).unwrap().unwrap();
    let (readers, admins, others) = (group("daemon"), group("adm"), group("tty"));
    let lab = Lab::start("users", Some("daemon"), Some("adm"));
    assert_eq!(as_user(&lab, NOBODY, readers, &[]), Ok((true, false)));
    assert_eq!(as_user(&lab, NOBODY, others, &[others, readers]), Ok((true, false)));
    assert_eq!(as_user(&lab, NOBODY, readers, &[admins]), Ok((true, true)));
    assert_eq!(as_user(&lab, NOBODY, admins, &[readers]), Ok((true, true)));
    assert_eq!(as_user(&lab, 0, 0, &[]), Ok((true, true)));
    assert_eq!(as_user(&lab, NOBODY, others, &[]), Err("permission denied".to_owned()));
    // Even where the file's mode was opened by hand.
    let socket = lab.directory.join("ctl.sock");
    fs::set_permissions(socket, fs::Permissions::from_mode(0o666)).unwrap();
    let refused = "you are neither root nor in the group of the control socket".to_owned();
    assert_eq!(as_user(&lab, NOBODY, others, &[others]), Err(refused));
    // Of an admin group alone the socket is theirs.
    let lab = Lab::start("admins", None, Some("adm"));
    assert_eq!(as_user(&lab, NOBODY, admins, &[]), Ok((true, true)));
    assert_eq!(as_user(&lab, NOBODY, readers, &[]), Err("permission denied".to_owned()));
}

#[test]
fn lookers_cannot_take_all_connections() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not root: cannot become other users; not tested");
        return;
    }
    let lab = Lab::start("crowd", Some("daemon"), None);
    let clients: Vec<_> = (0..MAX_CLIENTS).map(|_| lab.connect()).collect();
    let readers = super::credentials::group_id("daemon").unwrap().unwrap();
    let full = "too many connections to the control socket".to_owned();
    until("all places are taken", || as_user(&lab, 65534, readers, &[]) == Err(full.clone()));
    assert_eq!(lab.connect().text("show value"), "value 0\n");
    drop(clients);
}

#[test]
fn a_stream_ends_when_its_client_is_gone() {
    let lab = Lab::start("gone", None, None);
    let mut other = lab.connect();
    let waiting = |lab: &Lab, json: bool| {
        let mut client = lab.connect();
        client.request(json!({ "line": "wait", "json": json }));
        client
    };
    let gone: Vec<Client> = (0..4).map(|n| waiting(&lab, n % 2 == 0)).collect();
    // One that will ask nothing more is still there.
    let mut stays = waiting(&lab, true);
    stays.reader.get_mut().shutdown(std::net::Shutdown::Write).unwrap();
    until("they did not begin", || other.text("show running") == "5\n");
    drop(gone);
    until("commands of clients that are gone go on", || other.text("show running") == "1\n");
    thread::sleep(Duration::from_millis(200));
    assert_eq!(other.text("show running"), "1\n");
    other.line("release");
    assert_eq!(stays.receive()["json"], "released");
}

#[test]
fn a_script_tells_that_a_command_did_not_find_what_it_looked_for() {
    let lab = Lab::start("looks", None, None);
    let mut client = lab.connect();
    let path = lab.directory.join("looks.cli");
    for (lines, failed) in [("show value\nlook\nshow value\n", true), ("show value\n", false)] {
        fs::write(&path, lines).unwrap();
        let exec = format!("exec {}", path.display());
        for request in [json!({ "lines": lines }), json!({ "line": exec }), json!({ "lines": exec })] {
            for json in [false, true] {
                let mut request = request.clone();
                request["json"] = json.into();
                client.request(request);
                let reply = loop {
                    let reply = client.receive();
                    if reply.get("part").is_none() {
                        break reply;
                    }
                };
                assert_eq!(reply["ok"], true, "{reply}");
                assert_eq!(reply.get("failed"), failed.then_some(&json!(true)), "{reply}");
            }
        }
    }
}

#[test]
fn what_takes_a_while_comes_before_the_rest() {
    let lab = Lab::start("then", None, None);
    let (mut client, mut other) = (lab.connect(), lab.connect());
    for (json, want) in [(false, json!("opened\n")), (true, json!({ "opened": true }))] {
        client.request(json!({ "line": "open", "json": json }));
        // Others go on meanwhile.
        assert_eq!(other.text("show made"), "0\n");
        other.line("release");
        let reply = client.receive();
        assert_eq!(reply[if json { "json" } else { "text" }], want, "{reply}");
        assert_eq!(other.text("show made"), "42\n");
    }
}

#[test]
fn who_asks_for_little_waits_for_one_of_those_who_ask_for_much() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let executor = RegistryExecutor::new(Rc::new(registry()), Rc::new(RefCell::new(Toy::default())));
    let shared = Rc::new(super::session::Shared::new(Rc::new(executor), None));
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let made: Rc<RefCell<Vec<usize>>> = Rc::default();
        for n in 0..20 {
            let (shared, made) = (Rc::clone(&shared), Rc::clone(&made));
            tokio::task::spawn_local(async move {
                loop {
                    shared.long_turn("much", |_| made.borrow_mut().push(n)).await;
                }
            });
        }
        while made.borrow().len() < 100 {
            tokio::task::yield_now().await;
        }
        for _ in 0..10 {
            let before = made.borrow().len();
            let seen = shared.turn("little", |_| made.borrow().len()).await;
            assert!(seen - before <= 2, "{} pieces of others", seen - before);
        }
        // Those who ask for much have their turns one after another.
        let made = made.borrow();
        assert!(made.chunks_exact(20).all(|c| (0..20).all(|n| c.contains(&n))), "{made:?}");
    });
}
