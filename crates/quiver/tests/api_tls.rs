//! The API over TCP with TLS: who gets in and who does not, renewed certificates, those who come and say nothing, and the limits by rate.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod started;

use quiver_client::v1::punt_request::{Filter, filter::What};
use quiver_client::v1::{
    CaptureRequest, EventKind, Role, RouteFilter, RouteHello, TraceRequest, WatchEventsRequest,
};
use quiver_client::{Apply, Error, Router, Tls};
use started::{PATIENCE, Started};
use std::fs;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tonic::Code;

fn openssl(folder: &Path, arguments: &str) {
    let out = Command::new("openssl").current_dir(folder).args(arguments.split(' ')).output().unwrap();
    assert!(out.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&out.stderr));
}

/// A key and a certificate for itself.
fn authority(folder: &Path, name: &str) {
    let new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 100";
    openssl(folder, &format!("{new} -subj /CN={name} -keyout {name}.key -out {name}.crt"));
}

/// A key and a certificate signed by another one, for names as `DNS:a.example`; with none by its common name alone. Its days are over,
/// or a hundred are to come.
fn signed(folder: &Path, name: &str, signer: &str, expired: bool, names: &str) {
    let new = "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(folder, &format!("{new} -subj /CN={name} -keyout {name}.key -out {name}.csr"));
    let mut extensions = "basicConstraints=CA:FALSE\n".to_string();
    if !names.is_empty() {
        extensions += &format!("subjectAltName={names}\n");
    }
    fs::write(folder.join("extensions"), extensions).unwrap();
    let days = if expired { "-startdate 20200101000000Z -enddate 20210101000000Z" } else { "-days 100" };
    let ca = "[ca]\ndefault_ca=c\n[c]\ndatabase=index\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\npolicy=p\n\
              unique_subject=no\n[p]\ncommonName=supplied\n";
    fs::write(folder.join("ca"), ca).unwrap();
    fs::write(folder.join("index"), "").unwrap();
    fs::write(folder.join("serial"), "01").unwrap();
    openssl(
        folder,
        &format!(
            "ca -batch -notext -config ca -cert {signer}.crt -keyfile {signer}.key -in {name}.csr -out {name}.crt -extfile extensions {days}"
        ),
    );
}

fn certificate(folder: &Path, name: &str, signer: &str, names: &str) {
    signed(folder, name, signer, false, names);
}

/// A router with certificates in its folder, at an address of its own.
struct Lab {
    started: Started,
    address: SocketAddr,
}

impl Deref for Lab {
    type Target = Started;

    fn deref(&self) -> &Started {
        &self.started
    }
}

impl Lab {
    /// Certificates and a document, and no router yet.
    fn new(number: u8, more: &str) -> Lab {
        let process = std::process::id();
        let started =
            Started::at(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("api-tls-{number}-{process}")));
        let folder = &started.folder;
        let [_, _, high, low] = process.to_be_bytes();
        let address = SocketAddr::from(([127, 50 + number, high, low], 50_051));
        let at = folder.display();
        let document = format!(
            "quiver:\n  poll: power\n  buffers: {{count: 2048, huge-pages: never}}\n  sockets: {{ctl: {at}/ctl}}\n  state: {at}/state\n  \
             api:\n    socket: {at}/api\n{more}    listen:\n      - address: {address}\n        certificate: {at}/router.crt\n        \
             key: {at}/router.key\n        client-ca: {at}/clients.crt\n        \
             roles: {{fleet.example.net: configure, ann: read, \"spiffe://example.net/noc\": admin}}\n"
        );
        fs::write(folder.join("router.yaml"), document).unwrap();
        for name in ["routers", "clients", "others"] {
            authority(folder, name);
        }
        certificate(folder, "router", "routers", "DNS:router.example.net");
        certificate(folder, "fleet", "clients", "DNS:other.example.net,DNS:Fleet.example.net");
        certificate(folder, "ann", "clients", "");
        Lab { started, address }
    }

    async fn started(number: u8, more: &str) -> Lab {
        let mut lab = Lab::new(number, more);
        lab.start("with TLS").await;
        lab
    }

    /// Starts the router, and waits until its log has a line.
    async fn start(&mut self, line: &str) {
        self.started.run(&self.document(), &[]).unwrap();
        self.tells(line).await;
    }

    /// A client over the Unix socket, who is root.
    async fn local(&self) -> Router {
        Router::unix(self.file("api")).await.unwrap()
    }

    /// What a command says, in JSON.
    async fn told(&self, router: &Router, command: &str) -> String {
        router.command_json(command).await.unwrap().text.split_whitespace().collect()
    }

    fn tls(&self, name: &str) -> Tls {
        let file = |end: &str| self.file(&format!("{name}.{end}"));
        Tls::new(file("crt"), file("key"), self.file("routers.crt")).server_name("router.example.net")
    }

    /// A client with the certificate of this name.
    async fn client(&self, name: &str) -> Result<Router, Error> {
        Router::tls(self.address.to_string(), self.tls(name)).await
    }

    /// Why a client gets no answer.
    async fn refused(&self, name: &str) -> Error {
        match self.client(name).await {
            Ok(router) => router.system().await.unwrap_err(),
            Err(e) => e,
        }
    }
}

#[tokio::test]
async fn a_certificate_says_who_comes_and_roles_what_it_may_do() {
    let lab = Lab::started(0, "").await;
    let fleet = lab.client("fleet").await.unwrap();
    let system = fleet.system().await.unwrap();
    assert_eq!((system.certificate.as_str(), system.role()), ("fleet.example.net", Role::Configure));
    let document = fleet.dump().await.unwrap() + "\nloopbacks: {loop0: {addresses: [192.0.2.1/32]}}\n";
    fleet.apply(&document, Apply::default()).await.unwrap();
    let entry = fleet.history().await.unwrap().remove(0);
    assert_eq!((entry.name.as_str(), entry.from.as_str()), ("fleet.example.net", "TLS 127.0.0.1"));
    lab.tells("configuration: fleet.example.net (TLS 127.0.0.1): apply of document").await;
    // What is in files is nobody's to read that has no account here: this one is for root.
    let error = fleet.command(&format!("configuration apply {}", lab.file("router.key").display())).await;
    let error = error.unwrap_err();
    assert!(error.message.contains("Permission denied"), "{error:?}");

    // A name with no other names beside it is the common name; who may only look changes nothing.
    let ann = lab.client("ann").await.unwrap();
    assert_eq!(ann.system().await.unwrap().certificate, "ann");
    let error = ann.apply(&document, Apply::default()).await.unwrap_err();
    assert_eq!((error.code, error.role_needed()), (Code::PermissionDenied, Some(Role::Configure)));

    // A URI; who has less than admin may not have the section `quiver` changed.
    certificate(&lab.folder, "noc", "clients", "URI:spiffe://example.net/noc");
    assert_eq!(lab.client("noc").await.unwrap().system().await.unwrap().role(), Role::Admin);

    // Keys are nowhere but in their files.
    let key = fs::read_to_string(lab.file("router.key")).unwrap();
    let secret = key.lines().nth(1).unwrap();
    let (dump, log) = (fleet.dump().await.unwrap(), lab.log());
    assert!(dump.contains("router.key") && !dump.contains(secret) && !log.contains(secret));
}

#[tokio::test]
async fn who_is_not_known_gets_no_answer_but_why() {
    let lab = Lab::started(1, "").await;
    let folder = &lab.folder;
    certificate(folder, "stranger", "clients", "DNS:fleet.example.com");
    let error = lab.refused("stranger").await;
    assert_eq!(error.code, Code::PermissionDenied, "{error:?}");
    let why = "`fleet.example.com` has no role in quiver.api.listen[0].roles";
    assert!(error.message.contains(why), "{error:?}");
    lab.tells(why).await;

    certificate(folder, "foreign", "others", "DNS:fleet.example.net");
    signed(folder, "expired", "clients", true, "DNS:fleet.example.net");
    for (name, alert, told) in
        [("foreign", "UnknownCA", "UnknownIssuer"), ("expired", "CertificateExpired", "certificate expired")]
    {
        let error = lab.refused(name).await;
        assert_eq!(error.code, Code::Unavailable, "{name}: {error:?}");
        assert!(error.message.contains(alert), "{name}: {error:?}");
        lab.tells(told).await;
    }

    // The other way round: a router that the client has no reason to trust, or another one than it means.
    let fleet = |ca: &str| Tls::new(lab.file("fleet.crt"), lab.file("fleet.key"), lab.file(ca));
    let to = lab.address.to_string();
    let error = Router::tls(&to, fleet("others.crt").server_name("router.example.net")).await.unwrap_err();
    assert!(error.message.contains("UnknownIssuer"), "{error:?}");
    let error = Router::tls(&to, fleet("routers.crt")).await.unwrap_err();
    assert!(error.message.contains("not valid for name"), "{error:?}");
    let error = Router::tls(&to, fleet("nothing.crt")).await.unwrap_err();
    assert!(error.message.contains("nothing.crt"), "{error:?}");

    // Without a certificate, and with a version that is too old.
    let s_client = |more: &str| {
        let address = lab.address;
        let mut command = Command::new("openssl");
        command.args(format!("s_client -connect {address} -alpn h2 -ign_eof {more}").split(' '));
        let out = command.stdin(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    let told = s_client("-tls1_3");
    assert!(told.contains("certificate required"), "{told}");
    lab.tells("peer sent no certificates").await;
    // A name that gets in does so with 1.2 as well, and not with 1.1.
    let (crt, key) = (lab.file("fleet.crt"), lab.file("fleet.key"));
    let with = format!("-cert {} -key {}", crt.display(), key.display());
    let told = s_client(&format!("-tls1_1 -cipher DEFAULT@SECLEVEL=0 {with}"));
    assert!(told.contains("alert"), "{told}");
    lab.tells("peer is incompatible").await;

    // Without TLS at all.
    let plain = tonic::transport::Endpoint::from_shared(format!("http://{to}")).unwrap();
    let plain = match plain.connect().await {
        Ok(channel) => Router::over(channel).system().await.map(|_| ()).map_err(|e| e.message),
        Err(e) => Err(e.to_string()),
    };
    assert!(plain.is_err());
    // All that did no harm.
    lab.client("fleet").await.unwrap().system().await.unwrap();
}

#[tokio::test]
async fn renewed_certificates_count_from_the_next_connection() {
    let lab = Lab::started(2, "").await;
    let before = lab.client("fleet").await.unwrap();
    before.system().await.unwrap();
    // What does not fit together is told, and nothing changes.
    let key = fs::read(lab.file("router.key")).unwrap();
    fs::copy(lab.file("others.key"), lab.file("router.key")).unwrap();
    lab.client("fleet").await.unwrap().system().await.unwrap();
    lab.tells("key: ").await;
    assert!(lab.log().contains("it is not the key of the certificate in"), "{}", lab.log());
    assert!(lab.log().contains("those read before stay in use"), "{}", lab.log());
    fs::write(lab.file("router.key"), key).unwrap();
    // The router has a new certificate of another CA; those who sign clients' are others, too.
    certificate(&lab.folder, "router", "others", "DNS:router.example.net");
    fs::copy(lab.file("others.crt"), lab.file("clients.crt")).unwrap();
    let error = lab.refused("fleet").await;
    assert!(error.message.contains("UnknownIssuer"), "{error:?}");
    lab.tells("certificates were read again").await;
    fs::copy(lab.file("others.crt"), lab.file("routers.crt")).unwrap();
    let error = lab.refused("fleet").await;
    assert!(error.message.contains("UnknownCA") || error.message.contains("DecryptError"), "{error:?}");
    certificate(&lab.folder, "fleet", "others", "DNS:fleet.example.net");
    lab.client("fleet").await.unwrap().system().await.unwrap();
    // Who is there stays.
    before.system().await.unwrap();
}

#[tokio::test]
async fn who_says_nothing_holds_nobody_up() {
    let lab = Lab::started(3, "").await;
    let silent = async |from: &str| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
        socket.connect(lab.address).await.unwrap()
    };
    let mut all = vec![];
    for _ in 0..16 {
        all.push(silent("127.0.0.9").await);
    }
    // An address has so many places, and no more.
    let mut beyond = silent("127.0.0.9").await;
    let read = tokio::time::timeout(PATIENCE, beyond.read(&mut [0; 1])).await.unwrap();
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    // Others do not notice.
    lab.client("fleet").await.unwrap().system().await.unwrap();
    // Their time is over after some seconds.
    for stream in &mut all {
        let read = tokio::time::timeout(PATIENCE, stream.read(&mut [0; 1])).await.unwrap();
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
    lab.tells("refused 127.0.0.9: no handshake in 10 s").await;
}

#[tokio::test]
async fn who_asks_for_too_much_is_told_when_to_come_again() {
    let lab = Lab::started(4, "    rate: {calls: 1}\n").await;
    let ann = lab.client("ann").await.unwrap();
    ann.system().await.unwrap();
    // A call a second: one of those that come one right after another is refused, on a slow machine as well.
    let mut refused = None;
    for _ in 0..1000 {
        if let Err(e) = lab.client("ann").await.unwrap().system().await {
            refused = Some(e);
            break;
        }
    }
    let refused = refused.unwrap();
    assert_eq!((refused.code, refused.infos[0].rule.as_str()), (Code::ResourceExhausted, "rate"));
    assert!(refused.message.starts_with("more than 1 calls a second; come again in "), "{refused:?}");
    let again = refused.retry_after.unwrap();
    assert!(again <= Duration::from_millis(1001), "{again:?}");
    // Others have theirs.
    lab.client("fleet").await.unwrap().system().await.unwrap();
    tokio::time::sleep(again).await;
    ann.system().await.unwrap();
}

#[test]
fn files_that_do_not_fit_are_told_with_their_place() {
    let lab = Lab::new(5, "");
    let run = |what: &str| {
        let mut command = lab.command(what);
        if what == "run" {
            command.arg("--config");
        }
        let out = command.arg(lab.file("router.yaml")).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
        (out.status.success(), text)
    };
    assert!(run("check").0);
    fs::copy(lab.file("others.key"), lab.file("router.key")).unwrap();
    let (good, told) = run("check");
    assert!(!good && told.contains("quiver.api.listen[0].key"), "{told}");
    assert!(told.contains("tls-key") && told.contains("router.key: it is not the key"), "{told}");
    assert!(told.contains("router.yaml:11:14"), "{told}");
    // Where the document is for another machine, a file that is not there is worth a note.
    fs::remove_file(lab.file("router.key")).unwrap();
    let (good, told) = run("check");
    assert!(good && told.contains("tls-file") && told.contains("router.key: No such file"), "{told}");
}

#[tokio::test]
async fn files_that_do_not_fit_are_no_reason_not_to_forward() {
    let mut lab = Lab::new(7, "");
    let key = fs::read(lab.file("router.key")).unwrap();
    fs::copy(lab.file("others.key"), lab.file("router.key")).unwrap();
    lab.start("API on /").await;
    let told = lab.log();
    assert!(
        told.contains("ERROR") && told.contains("router.yaml:11:14: tls-key quiver.api.listen[0].key: "),
        "{told}"
    );
    let root = lab.local().await;
    let state = lab.told(&root, "show api").await;
    assert!(state.contains("\"problem\":\"key:") && state.contains("itisnotthekey"), "{state}");
    assert!(state.contains("\"problem\":null,\"tls\":false"), "{state}");
    assert_eq!(lab.refused("fleet").await.code, Code::Unavailable);
    // When the files fit, who comes gets in.
    fs::write(lab.file("router.key"), key).unwrap();
    lab.client("fleet").await.unwrap().system().await.unwrap();
    let state = lab.told(&root, "show api").await;
    assert!(!state.contains("key:"), "{state}");
}

#[tokio::test]
async fn an_address_that_is_taken_is_waited_for() {
    let mut lab = Lab::new(8, "");
    let other = std::net::TcpListener::bind(lab.address).unwrap();
    lab.start("NOT there").await;
    let state = lab.told(&lab.local().await, "show api").await;
    assert!(state.contains("Addressalreadyinuse"), "{state}");
    drop(other);
    lab.tells("with TLS").await;
    lab.client("fleet").await.unwrap().system().await.unwrap();
}

#[tokio::test]
async fn files_are_looked_into_before_the_next_start_has_them() {
    let lab = Lab::started(9, "").await;
    let root = lab.local().await;
    let running = root.dump().await.unwrap();
    let other = |name: &str| running.replace("router.key", name);
    let wanted = Apply { restart: true, ..Apply::default() };
    for (name, rule) in [("others.key", "tls-key"), ("router.crt", "tls-pem"), ("nothing", "tls-file")] {
        let document = other(name);
        let line = document.lines().position(|l| l.contains(&format!("key: {}", lab.file(name).display())));
        let errors = [
            root.plan(&document, false).await.unwrap_err(),
            root.apply(&document, wanted.clone()).await.unwrap_err(),
        ];
        for error in errors {
            let found = &error.infos[0];
            assert_eq!(
                (found.rule.as_str(), found.object.as_str()),
                (rule, "quiver.api.listen[0].key"),
                "{error:?}"
            );
            assert_eq!(found.line as usize, line.unwrap() + 1, "{error:?}");
        }
        let set = format!("configuration set quiver.api.listen[0].key {} restart", lab.file(name).display());
        let error = root.command(&set).await.unwrap_err();
        assert!(error.message.contains("quiver.api.listen[0].key"), "{error:?}");
        let checked = root.check(&document).await.unwrap();
        assert_eq!(checked.findings.len(), 1, "{checked:?}");
        // That is a matter of the machine.
        assert_eq!(checked.ok, rule == "tls-file", "{checked:?}");
    }
    assert_eq!(root.history().await.unwrap().len(), 1);
    // Nobody learns what is in a file that he may not open, and the start looks again.
    let fleet = lab.client("fleet").await.unwrap();
    let warnings = fleet.plan(&other("others.key"), false).await.unwrap().warnings;
    assert!(warnings.iter().any(|w| w.contains("Permission denied")), "{warnings:?}");
    // What fits is kept.
    certificate(&lab.folder, "second", "routers", "DNS:router.example.net");
    let second = other("second.key").replace("router.crt", "second.crt");
    root.apply(&second, wanted).await.unwrap();
}

#[tokio::test]
async fn each_client_has_so_many_connections() {
    let lab = Lab::started(10, "    connections: 2\n").await;
    let first = lab.client("fleet").await.unwrap();
    let second = lab.client("fleet").await.unwrap();
    first.system().await.unwrap();
    second.system().await.unwrap();
    let error = lab.refused("fleet").await;
    assert_eq!(error.code, Code::ResourceExhausted, "{error:?}");
    assert!(
        error.message.contains("tls:fleet.example.net has 2 connections, and may not have more"),
        "{error:?}"
    );
    // Others have theirs, over the socket as well.
    lab.client("ann").await.unwrap().system().await.unwrap();
    let root = lab.local().await;
    let clients = lab.told(&root, "show api clients").await;
    assert!(clients.contains(r#"{"client":"tls:fleet.example.net","connections":2}"#), "{clients}");
    let more = lab.local().await;
    more.system().await.unwrap();
    let error = Router::unix(lab.file("api")).await.unwrap().system().await.unwrap_err();
    assert_eq!(error.code, Code::ResourceExhausted, "{error:?}");
    assert!(error.retry_after.is_some() && error.message.starts_with("uid:0 has 2 connections"), "{error:?}");
    lab.tells("uid:0 has 2 connections").await;
    // Places come back.
    drop(first);
    let until = Instant::now() + PATIENCE;
    while let Err(e) = async { lab.client("fleet").await?.system().await }.await {
        assert!(Instant::now() < until, "{e:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Begins streams for a client until one more is refused, over as many connections as that takes; why it was refused.
async fn as_many<T>(
    connect: impl AsyncFn() -> Router,
    begin: impl AsyncFn(&Router, usize) -> Result<T, Error>,
) -> (Vec<(Router, T)>, Error) {
    let (mut held, mut router) = (vec![], connect().await);
    loop {
        // A connection has fewer calls at once than there may be streams.
        if held.len() % 16 == 15 {
            router = connect().await;
        }
        match begin(&router, held.len()).await {
            Ok(stream) => held.push((router.clone(), stream)),
            Err(e) => return (held, e),
        }
    }
}

/// A greedy client gets `half` of the streams of some kind, which leaves as many to another one, and gives back what it has.
async fn leaves_some<T>(lab: &Lab, half: usize, begin: impl AsyncFn(&Router, usize) -> Result<T, Error>) {
    let (greedy, other) = (async || lab.client("fleet").await.unwrap(), async || lab.local().await);
    let (held, refused) = as_many(greedy, &begin).await;
    let has = format!("tls:fleet.example.net has {half} ");
    assert!(refused.message.starts_with(&has), "{refused:?}");
    let rule = refused.infos.first().map(|i| i.rule.as_str());
    assert_eq!((held.len(), refused.code, rule), (half, Code::ResourceExhausted, Some("places")));
    assert!(refused.retry_after.is_some(), "{refused:?}");
    let (others, refused) = as_many(other, async |router, n| begin(router, half + n).await).await;
    assert_eq!(others.len(), half, "{refused:?}");
    drop(held);
    let until = Instant::now() + PATIENCE;
    while let Err(e) = begin(&greedy().await, 0).await {
        assert!(e.code == Code::ResourceExhausted && Instant::now() < until, "{e:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_greedy_client_leaves_half_of_the_streams_of_each_kind_to_others() {
    let lab = Lab::started(14, "").await;
    leaves_some(&lab, 4, async |r, _| r.capture(CaptureRequest::default()).await).await;
    let nodes = vec!["ip4-input".to_owned()];
    let trace = TraceRequest { nodes, ..TraceRequest::default() };
    leaves_some(&lab, 4, async |r, _| r.trace(trace.clone()).await).await;
    leaves_some(&lab, 32, async |r, _| r.injector().await).await;
    // Each takes another port.
    let port = |n: usize| Filter { what: Some(What::UdpPort(7000 + n as u32)), ..Filter::default() };
    leaves_some(&lab, 8, async |r, n| r.punt(vec![port(n)]).await).await;
    let log = || WatchEventsRequest { kinds: vec![EventKind::Log.into()], ..Default::default() };
    leaves_some(&lab, 40, async |r, _| r.events(log()).await).await;
    leaves_some(&lab, 40, async |r, _| r.watch_routes(RouteFilter::default()).await).await;
}

/// A way to an address on which nothing comes any more once it is told to be frozen.
async fn relay(to: SocketAddr) -> (SocketAddr, watch::Sender<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, (freeze, frozen)) = (listener.local_addr().unwrap(), watch::channel(false));
    tokio::spawn(async move {
        loop {
            let (mut here, _) = listener.accept().await.unwrap();
            let (mut there, mut frozen) = (TcpStream::connect(to).await.unwrap(), frozen.clone());
            tokio::spawn(async move {
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut here, &mut there) => return,
                    _ = frozen.wait_for(|f| *f) => {}
                }
                // Both ends stay open, and nobody hears anything.
                std::future::pending::<()>().await;
            });
        }
    });
    (address, freeze)
}

#[tokio::test]
async fn who_falls_silent_is_given_up_on_both_sides() {
    let lab = Lab::started(11, "").await;
    let (by, freeze) = relay(lab.address).await;
    let fleet = Router::tls(by.to_string(), lab.tls("fleet")).await.unwrap();
    let hello = RouteHello { name: "silent".into(), grace_seconds: Some(900), ..RouteHello::default() };
    let program = fleet.program(hello).await.unwrap();
    let mut told = fleet.watch_routes(RouteFilter::default()).await.unwrap();
    told.message().await.unwrap();
    let began = Instant::now();
    freeze.send(true).unwrap();
    let ended =
        tokio::time::timeout(PATIENCE, async { while let Ok(Some(_)) = told.message().await {} }).await;
    assert!(ended.is_ok() && began.elapsed() > Duration::from_secs(5), "{:?}", began.elapsed());
    // Its routes have their grace.
    let root = lab.local().await;
    let until = Instant::now() + PATIENCE;
    loop {
        let clients = lab.told(&root, "show route clients").await;
        if clients.contains("\"streams\":0") {
            break;
        }
        assert!(Instant::now() < until, "{clients}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    drop(program);
}

#[tokio::test]
async fn commands_go_over_the_api_as_over_the_control_socket() {
    let lab = Lab::started(6, "").await;
    certificate(&lab.folder, "noc", "clients", "URI:spiffe://example.net/noc");
    let file = |name: &str| lab.file(name).to_str().unwrap().to_owned();
    let (ctl, api, to) = (file("ctl"), file("api"), lab.address.to_string());
    let (crt, key, ca) = (file("noc.crt"), file("noc.key"), file("routers.crt"));
    let mut tls = vec!["--api", &to, "--certificate", &crt, "--key", &key, "--ca", &ca];
    tls.extend(["--server-name", "router.example.net"]);
    let ways = [vec!["--socket", ctl.as_str()], vec!["--api", api.as_str()], tls];
    let run = |way: &[&str], words: &[&str], input: &str| {
        fs::write(lab.file("input"), input).unwrap();
        let mut command = lab.command("ctl");
        command.args(way).args(words).stdin(fs::File::open(lab.file("input")).unwrap());
        let out = command.current_dir(&lab.folder).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    };
    let script = "show ip fib\n# a comment\nset interface mtu 1400 loop7\nshow nothing-here\nshow ip fib\n";
    let cases: [(&[&str], &str); 16] = [
        (&["show", "ip", "fib"], ""),
        (&["show", "interface"], ""),
        (&["show", "interface", "--json"], ""),
        (&["show", "configuration"], ""),
        (&["--json", "show configuration"], ""),
        (&["show ip fib | include 192.0.2"], ""),
        (&["show", "?"], ""),
        (&["show", "interfaze"], ""),
        (&["--json", "show", "interfaze"], ""),
        (&["set", "interface", "mtu", "10", "loop7"], ""),
        (&["--json", "set interface mtu 1300 loop7"], ""),
        (&["configuration", "apply", "/nowhere"], ""),
        (&["exec", "lines"], ""),
        (&[], script),
        (&["--json"], script),
        (&[], "create loopback interface instance 7\nquit\nshow nothing\n"),
    ];
    fs::write(lab.file("lines"), "show ip fib\nshow interfaze\n").unwrap();
    run(&ways[0], &["create", "loopback", "interface", "instance", "7"], "");
    for (words, input) in cases {
        // What reads files of the router's machine does so as nobody over a network.
        let same = if words.first() == Some(&"exec") { &ways[..2] } else { &ways[..] };
        let mut told = same.iter().map(|way| run(way, words, input));
        let first = told.next().unwrap();
        told.for_each(|other| assert_eq!(other, first, "{words:?} {input:?}"));
    }
    // Who gets no further is told why.
    let (code, _, told) = run(&["--api", "127.0.0.1:1"], &["show", "version"], "");
    assert!(code == Some(1) && told.contains("--certificate, --key and --ca are needed"), "{told}");
    let nowhere = file("nowhere.sock");
    let (code, _, told) = run(&["--api", &nowhere], &["show", "version"], "");
    assert!(code == Some(1) && told.contains("nowhere.sock: cannot connect: No such file"), "{told}");
}
